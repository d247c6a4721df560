#include "train/tensor_set.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/safetensors.h"

TensorSet tensor_set(const TensorTable *table, real *flat) {
    return (TensorSet){.table = table, .groups = 1, .group = {{"", flat}}};
}

/* The arrays of a set, group by group, which the caller frees; NULL without memory. */
static NamedArray *arrays_of(const TensorSet *set, size_t *count, Error *err) {
    *count = set->groups * set->table->count;
    NamedArray *arrays = calloc(*count + 1, sizeof *arrays);
    if (!arrays) error_set(err, STATUS_FAILED, "no memory for a list of tensors");
    for (size_t i = 0; arrays && i < *count; i++) {
        const Tensor *t = &set->table->items[i % set->table->count];
        const size_t group = i / set->table->count;
        arrays[i] = (NamedArray){.type = sizeof(real) == 4 ? ARRAY_F32 : ARRAY_F64,
                                 .dimensions = t->dimensions,
                                 .shape = {t->size[0], t->size[1]},
                                 .data = set->group[group].flat + t->offset};
        snprintf(arrays[i].name, sizeof arrays[i].name, "%s%s", set->group[group].prefix, t->name);
    }
    return arrays;
}

bool tensor_set_save(const char *path, const TensorSet *set, size_t step, Error *err) {
    char number[32];
    size_t count;
    NamedArray *arrays = arrays_of(set, &count, err);
    const Metadata metadata = {"step", number};
    snprintf(number, sizeof number, "%zu", step);
    bool ok = arrays && safetensors_save(path, arrays, count, &metadata, 1, err);
    free(arrays);
    return ok;
}

bool tensor_set_load(const char *path, const TensorSet *set, size_t *step, Error *err) {
    SafetensorsFile file = {0};
    size_t count, limit = size_mul(size_mul(set->groups, set->table->parameters), sizeof(real));
    NamedArray *arrays = arrays_of(set, &count, err);
    bool ok = arrays && safetensors_open(&file, path, limit, err) &&
              safetensors_take(&file, arrays, count, "the model of config.ini and vocab.json", err);
    if (ok) *step = safetensors_metadata_number(&file, "step");
    safetensors_close(&file);
    free(arrays);
    return ok;
}
