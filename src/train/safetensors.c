#include "train/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/version.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors holds little-endian numbers, and this code writes them as they lie in memory"
#endif

static const char *const TYPE = sizeof(real) == 4 ? "F32" : "F64";
static const size_t HEADER_LIMIT = (size_t)100 << 20; /* bytes, as the reference implementation has it */

static Json *describe(const Tensor *t, size_t begin) {
    Json *entry = js_object(), *shape = js_array(), *offsets = js_array();
    for (size_t d = 0; d < t->dimensions; d++) js_append(shape, js_integer((int64_t)t->size[d]));
    js_append(offsets, js_integer((int64_t)begin));
    js_append(offsets, js_integer((int64_t)(begin + t->count * sizeof(real))));
    js_set(entry, "dtype", js_text(TYPE));
    js_set(entry, "shape", shape);
    js_set(entry, "data_offsets", offsets);
    return entry;
}

static bool header_text(const TensorTable *table, char **text, Error *err) {
    Json *header = js_object(), *metadata = js_object();
    js_set(metadata, "format", js_text("pt"));
    js_set(metadata, "producer", js_text("sqrtdk " SQRTDK_VERSION));
    js_set(header, "__metadata__", metadata);
    size_t at = 0;
    for (size_t i = 0; i < table->count; at += table->items[i++].count * sizeof(real))
        js_set(header, table->items[i].name, describe(&table->items[i], at));
    bool ok = js_dump(header, false, text, err);
    js_free(header);
    return ok;
}

bool safetensors_save(const char *path, const TensorTable *table, const real *flat, Error *err) {
    char *header = NULL;
    FileWriter writer;
    if (!header_text(table, &header, err)) return false;
    /* Blanks behind the header bring the numbers to a multiple of 8, so that readers can map them. */
    size_t size = strlen(header), padded = (size + 7) / 8 * 8;
    bool ok = file_writer_open(&writer, path, err);
    if (ok) {
        uint64_t length = padded;
        fwrite(&length, sizeof length, 1, writer.stream);
        fprintf(writer.stream, "%-*s", (int)padded, header);
        for (size_t i = 0; i < table->count; i++)
            fwrite(flat + table->items[i].offset, sizeof(real), table->items[i].count, writer.stream);
        ok = file_writer_commit(&writer, err);
    }
    free(header);
    return ok;
}

/* Checks a tensor's entry and finds its bytes behind the header. */
static bool check_entry(const char *path, const Tensor *t, const Json *entry, size_t data_size, size_t *begin,
                        Error *err) {
    const Json *shape = js_get(entry, "shape"), *offsets = js_get(entry, "data_offsets");
    const char *type = js_as_text(js_get(entry, "dtype"));
    int64_t from = -1, to = -1;
    if (!entry) return error_set(err, STATUS_USAGE, "%s has no tensor %s: it is of another model", path, t->name);
    if (!type || strcmp(type, TYPE) != 0)
        return error_set(err, STATUS_USAGE, "%s: %s is of type %s; %s is accepted", path, t->name, type ? type : "?",
                         TYPE);
    bool same = js_array_size(shape) == t->dimensions;
    for (size_t d = 0; same && d < t->dimensions; d++) {
        int64_t size;
        same = js_as_integer(js_at(shape, d), &size) && size >= 0 && (size_t)size == t->size[d];
    }
    if (!same)
        return error_set(err, STATUS_USAGE, "%s: %s has another shape than the config's model, which has (%zu, %zu)",
                         path, t->name, t->size[0], t->size[1]);
    if (js_array_size(offsets) != 2 || !js_as_integer(js_at(offsets, 0), &from) ||
        !js_as_integer(js_at(offsets, 1), &to) || from < 0 || to < from || (uint64_t)to > data_size ||
        (size_t)(to - from) != t->count * sizeof(real))
        return error_set(err, STATUS_USAGE, "%s: the offsets of %s do not fit its shape or the file", path, t->name);
    *begin = (size_t)from;
    return true;
}

/* The header holds the table's tensors and no other; none overlaps another, and together they fill the data, so there
   is no gap either. */
static bool check_header(const char *path, const TensorTable *table, const Json *header, size_t data_size,
                         size_t *begins, Error *err) {
    size_t total = 0;
    if (!js_is_object(header)) return error_set(err, STATUS_USAGE, "%s: the header is not a JSON object", path);
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        if (!check_entry(path, t, js_get(header, t->name), data_size, &begins[i], err)) return false;
        total += t->count * sizeof(real);
        for (size_t j = 0; j < i; j++)
            if (begins[j] < begins[i] + t->count * sizeof(real) &&
                begins[i] < begins[j] + table->items[j].count * sizeof(real))
                return error_set(err, STATUS_USAGE, "%s: the tensors %s and %s overlap", path, table->items[j].name,
                                 t->name);
    }
    size_t known = table->count + (js_get(header, "__metadata__") != NULL);
    for (size_t k = 0; js_object_size(header) != known && k < js_object_size(header); k++) {
        const char *name = js_object_key(header, k);
        bool found = strcmp(name, "__metadata__") == 0;
        for (size_t i = 0; !found && i < table->count; i++) found = strcmp(name, table->items[i].name) == 0;
        if (!found)
            return error_set(err, STATUS_USAGE, "%s holds the tensor %.100s, which the config's model lacks", path,
                             name);
    }
    if (total != data_size)
        return error_set(err, STATUS_USAGE, "%s has %zu bytes of numbers, and the config's model takes %zu", path,
                         data_size, total);
    return true;
}

bool safetensors_load(const char *path, const TensorTable *table, real *flat, Error *err) {
    char *file = NULL;
    size_t size, limit = size_add(size_mul(table->parameters, sizeof(real)), HEADER_LIMIT);
    if (!file_read(path, "the checkpoint", limit, STATUS_USAGE, &file, &size, err)) return false;
    uint64_t length = 0;
    Json *header = NULL;
    size_t *begins = calloc(table->count + 1, sizeof *begins);
    bool ok = begins != NULL || error_set(err, STATUS_FAILED, "no memory to read %s", path);
    if (ok && size >= 8) memcpy(&length, file, 8);
    if (ok && (size < 8 || length > size - 8 || length > HEADER_LIMIT))
        ok = error_set(err, STATUS_USAGE, "%s is not a safetensors file: its header is cut short", path);
    ok = ok && js_parse(file + 8, (size_t)length, path, &header, err) &&
         check_header(path, table, header, size - 8 - (size_t)length, begins, err);
    for (size_t i = 0; ok && i < table->count; i++)
        memcpy(flat + table->items[i].offset, file + 8 + length + begins[i], table->items[i].count * sizeof(real));
    js_free(header);
    free(begins);
    free(file);
    return ok;
}
