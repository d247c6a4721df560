#include "train/safetensors.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/results.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors holds little-endian numbers, and this code writes them as they lie in memory"
#endif

static const char *const TYPE = sizeof(real) == 4 ? "F32" : "F64";
static const size_t HEADER_LIMIT = (size_t)100 << 20; /* bytes, as the reference implementation has it */

/* Tensor i of a set, counted through its groups, under its name in the file. */
typedef struct {
    const Tensor *tensor;
    real *numbers;
    char name[64];
} Entry;

static size_t entry_count(const TensorSet *set) { return set->groups * set->table->count; }

static Entry entry_at(const TensorSet *set, size_t i) {
    size_t group = i / set->table->count;
    const Tensor *t = &set->table->items[i % set->table->count];
    Entry entry = {.tensor = t, .numbers = set->group[group].flat + t->offset};
    snprintf(entry.name, sizeof entry.name, "%s%s", set->group[group].prefix, t->name);
    return entry;
}

static size_t bytes_at(const TensorSet *set, size_t i) {
    return set->table->items[i % set->table->count].count * sizeof(real);
}

TensorSet tensor_set(const TensorTable *table, real *flat) {
    return (TensorSet){.table = table, .groups = 1, .group = {{"", flat}}};
}

static Json *describe(const Tensor *t, size_t begin) {
    Json *description = js_object(), *shape = js_array(), *offsets = js_array();
    for (size_t d = 0; d < t->dimensions; d++) js_append(shape, js_integer((int64_t)t->size[d]));
    js_append(offsets, js_integer((int64_t)begin));
    js_append(offsets, js_integer((int64_t)(begin + t->count * sizeof(real))));
    js_set(description, "dtype", js_text(TYPE));
    js_set(description, "shape", shape);
    js_set(description, "data_offsets", offsets);
    return description;
}

static bool header_text(const TensorSet *set, size_t step, char **text, Error *err) {
    Json *header = js_object(), *metadata = js_object();
    char number[32];
    snprintf(number, sizeof number, "%zu", step); /* metadata are texts */
    js_set(metadata, "format", js_text("pt"));
    js_set(metadata, "producer", js_text("sqrtdk " SQRTDK_VERSION));
    js_set(metadata, "step", js_text(number));
    js_set(header, "__metadata__", metadata);
    for (size_t i = 0, at = 0; i < entry_count(set); i++) {
        Entry entry = entry_at(set, i);
        js_set(header, entry.name, describe(entry.tensor, at));
        at += bytes_at(set, i);
    }
    bool ok = js_dump(header, false, text, err);
    js_free(header);
    return ok;
}

bool safetensors_write(FILE *stream, const TensorSet *set, size_t step, Error *err) {
    char *header = NULL;
    if (!header_text(set, step, &header, err)) return false;
    /* Blanks behind the header bring the numbers to a multiple of 8, so that readers can map them. */
    uint64_t length = (strlen(header) + 7) / 8 * 8;
    fwrite(&length, sizeof length, 1, stream);
    fprintf(stream, "%-*s", (int)length, header);
    for (size_t i = 0; i < entry_count(set); i++) {
        Entry entry = entry_at(set, i);
        fwrite(entry.numbers, sizeof(real), entry.tensor->count, stream);
    }
    free(header);
    return true;
}

bool safetensors_save(const char *path, const TensorSet *set, size_t step, Error *err) {
    FileWriter writer;
    if (!file_writer_open(&writer, path, err)) return false;
    if (safetensors_write(writer.stream, set, step, err)) return file_writer_commit(&writer, err);
    file_writer_abandon(&writer);
    return false;
}

static void shape_text(const Tensor *t, char *out, size_t capacity) {
    snprintf(out, capacity, t->dimensions == 2 ? "(%zu, %zu)" : "(%zu)", t->size[0], t->size[1]);
}

/* Checks a tensor's entry and finds its bytes behind the header. */
static bool check_entry(const char *path, const Entry *entry, const Json *found, size_t data_size, size_t *begin,
                        Error *err) {
    const Tensor *t = entry->tensor;
    const Json *shape = js_get(found, "shape"), *offsets = js_get(found, "data_offsets");
    const char *type = js_as_text(js_get(found, "dtype"));
    int64_t from = -1, to = -1;
    if (!found) return error_set(err, STATUS_USAGE, "%s has no tensor %s: it is of another model", path, entry->name);
    if (!type || strcmp(type, TYPE) != 0)
        return error_set(err, STATUS_USAGE, "%s: %s is of type %.20s; %s is accepted", path, entry->name,
                         type ? type : "?", TYPE);
    bool same = js_array_size(shape) == t->dimensions;
    for (size_t d = 0; same && d < t->dimensions; d++) {
        int64_t size;
        same = js_as_integer(js_at(shape, d), &size) && size >= 0 && (size_t)size == t->size[d];
    }
    if (!same) {
        char ours[64];
        shape_text(t, ours, sizeof ours);
        return error_set(err, STATUS_USAGE,
                         "%s: %s has another shape than in the model of config.ini and vocab.json, where it is %s",
                         path, entry->name, ours);
    }
    if (js_array_size(offsets) != 2 || !js_as_integer(js_at(offsets, 0), &from) ||
        !js_as_integer(js_at(offsets, 1), &to) || from < 0 || to < from || (uint64_t)to > data_size ||
        (size_t)(to - from) != t->count * sizeof(real))
        return error_set(err, STATUS_USAGE, "%s: the offsets of %s do not fit its shape or the file", path,
                         entry->name);
    *begin = (size_t)from;
    return true;
}

/* A tensor of the file that the set lacks, or NULL. */
static const char *find_unknown(const TensorSet *set, const Json *header) {
    for (size_t k = 0; k < js_object_size(header); k++) {
        const char *name = js_object_key(header, k);
        bool known = strcmp(name, "__metadata__") == 0;
        for (size_t i = 0; !known && i < entry_count(set); i++) known = strcmp(name, entry_at(set, i).name) == 0;
        if (!known) return name;
    }
    return NULL;
}

/* The header holds the set's tensors and no other; none overlaps another, and together they fill the data, so there is
   no gap either. */
static bool check_header(const char *path, const TensorSet *set, const Json *header, size_t data_size, size_t *begins,
                         Error *err) {
    size_t total = 0, count = entry_count(set);
    for (size_t i = 0; i < count; i++) {
        Entry entry = entry_at(set, i);
        if (!check_entry(path, &entry, js_get(header, entry.name), data_size, &begins[i], err)) return false;
        total += bytes_at(set, i);
        for (size_t j = 0; j < i; j++)
            if (begins[j] < begins[i] + bytes_at(set, i) && begins[i] < begins[j] + bytes_at(set, j))
                return error_set(err, STATUS_USAGE, "%s: the tensors %s and %s overlap", path, entry_at(set, j).name,
                                 entry.name);
    }
    if (js_object_size(header) != count + (js_get(header, "__metadata__") != NULL))
        return error_set(err, STATUS_USAGE, "%s holds the tensor %.100s, which the config's model lacks", path,
                         find_unknown(set, header));
    if (total != data_size)
        return error_set(err, STATUS_USAGE, "%s has %zu bytes of numbers, and the config's model takes %zu", path,
                         data_size, total);
    return true;
}

static size_t step_of(const Json *header) {
    const char *text = js_as_text(js_get(js_get(header, "__metadata__"), "step"));
    char *end;
    if (!text || !isdigit((unsigned char)*text)) return SIZE_MAX;
    unsigned long long step = strtoull(text, &end, 10);
    return *end == 0 ? step : SIZE_MAX;
}

/* The header of a file in memory, and where it ends. */
static bool parse_header(const char *path, const char *file, size_t size, Json **header, size_t *end, Error *err) {
    uint64_t length = 0;
    if (size >= 8) memcpy(&length, file, 8);
    if (size < 8 || length > size - 8 || length > HEADER_LIMIT)
        return error_set(err, STATUS_USAGE, "%s is not a safetensors file: its header is cut short", path);
    if (!js_parse(file + 8, (size_t)length, path, header, err)) return false;
    *end = 8 + (size_t)length;
    return js_is_object(*header) || error_set(err, STATUS_USAGE, "%s: the header is not a JSON object", path);
}

bool safetensors_load(const char *path, const TensorSet *set, size_t *step, Error *err) {
    char *file = NULL;
    size_t size, end = 0, count = entry_count(set);
    size_t limit = size_add(size_mul(size_mul(set->groups, set->table->parameters), sizeof(real)), HEADER_LIMIT);
    if (!file_read(path, "the checkpoint", limit, STATUS_USAGE, &file, &size, err)) return false;
    Json *header = NULL;
    size_t *begins = calloc(count + 1, sizeof *begins);
    bool ok = (begins != NULL || error_set(err, STATUS_FAILED, "no memory to read %s", path)) &&
              parse_header(path, file, size, &header, &end, err) &&
              check_header(path, set, header, size - end, begins, err);
    for (size_t i = 0; ok && i < count; i++) {
        Entry entry = entry_at(set, i);
        memcpy(entry.numbers, file + end + begins[i], bytes_at(set, i));
    }
    if (ok) *step = step_of(header);
    js_free(header);
    free(begins);
    free(file);
    return ok;
}
