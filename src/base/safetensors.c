/* Reading checks the whole header before a number is copied: names, types, shapes, and that the arrays fill the file
   without gaps or overlaps. A damaged file, or one of another model, is refused with a message that names the
   difference. Some damage passes these checks, for example a number that was changed. The checksum of the whole file,
   in its metadata, shows such damage. */
#include "base/safetensors.h"

#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/results.h"
#include "base/text.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors holds little-endian numbers, and this code writes them as they lie in memory"
#endif

static const struct {
    const char *name;
    size_t size;
} TYPES[] = {[ARRAY_F32] = {"F32", 4}, [ARRAY_F64] = {"F64", 8}};

static const size_t HEADER_LIMIT = (size_t)100 << 20; /* bytes, as the reference implementation has it */
static const char METADATA_KEY[] = "__metadata__";

/* --- the checksum: FNV-1a (Fowler, Noll, Vo) over words of 4 bytes of the file, in which the digits of the checksum
 * count as 0 */

static const char CHECKSUM[] = "\"checksum\":\"", NO_DIGITS[] = "0000000000000000";
enum { DIGITS = sizeof NO_DIGITS - 1 };

static uint64_t add_bytes(uint64_t sum, const void *bytes, size_t size) {
    for (size_t i = 0; i + 4 <= size; i += 4) {
        uint32_t word;
        memcpy(&word, (const char *)bytes + i, 4);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

static uint64_t sum_of(const char *header, size_t size) {
    const uint64_t length = size;
    return add_bytes(add_bytes(HASH_START, &length, sizeof length), header, size);
}

/* Returns the place of the checksum's digits in a header; NULL if it has none. The text of another entry cannot
   contain these words, since quotation marks in it are escaped. */
static char *find_digits(char *header, size_t length) {
    char *found = memmem(header, length, CHECKSUM, strlen(CHECKSUM));
    char *digits = found ? found + strlen(CHECKSUM) : NULL;
    return digits && digits + DIGITS < header + length ? digits : NULL;
}

/* Returns whether the file has the checksum that its metadata names; true without one, in a file of another program. */
static bool is_whole(const SafetensorsFile *f) {
    char written[DIGITS + 1] = "", expected[DIGITS + 1], *digits = find_digits(f->bytes + 8, f->begin - 8);
    if (!digits) return true;
    memcpy(written, digits, DIGITS);
    memcpy(digits, NO_DIGITS, DIGITS);
    const uint64_t sum = add_bytes(sum_of(f->bytes + 8, f->begin - 8), f->bytes + f->begin, f->size - f->begin);
    hash_text(sum, expected);
    memcpy(digits, written, DIGITS);
    return strcmp(written, expected) == 0;
}

/* --- writing */

size_t named_array_bytes(const NamedArray *a) {
    size_t bytes = TYPES[a->type].size;
    for (size_t d = 0; d < a->dimensions; d++) bytes = size_mul(bytes, a->shape[d]);
    return bytes;
}

static Json *describe(const NamedArray *a, size_t begin) {
    Json *description = js_object(), *shape = js_array(), *offsets = js_array();
    for (size_t d = 0; d < a->dimensions; d++) js_append(shape, js_size(a->shape[d]));
    js_append(offsets, js_size(begin));
    js_append(offsets, js_size(begin + named_array_bytes(a)));
    js_set(description, "dtype", js_text(TYPES[a->type].name));
    js_set(description, "shape", shape);
    js_set(description, "data_offsets", offsets);
    return description;
}

static char *header_text(const NamedArray *a, size_t count, const Metadata *lines, size_t n) {
    Json *header = js_object(), *texts = js_object();
    js_set(texts, "format", js_text("pt"));
    js_set(texts, "producer", js_text("sqrtdk " SQRTDK_VERSION));
    for (size_t i = 0; i < n; i++) js_set(texts, lines[i].key, js_text(lines[i].value));
    js_set(texts, "checksum", js_text(NO_DIGITS));
    js_set(header, METADATA_KEY, texts);
    for (size_t i = 0, at = 0; i < count; at += named_array_bytes(&a[i++]))
        js_set(header, a[i].name, describe(&a[i], at));
    return js_dump(header, JS_LINE);
}

/* Returns the header with blanks behind it, so that the numbers begin at a multiple of 8 and readers can map them, and
   with the checksum in it. */
static char *whole_header(const NamedArray *a, size_t count, const Metadata *lines, size_t n) {
    const char *header = header_text(a, count, lines, n);
    const size_t length = (strlen(header) + 7) / 8 * 8;
    char *text = memory_make(length + 1, 1, "the header of a file of tensors"), digits[DIGITS + 1];
    snprintf(text, length + 1, "%-*s", (int)length, header);
    uint64_t sum = sum_of(text, length);
    for (size_t i = 0; i < count; i++) sum = add_bytes(sum, a[i].data, named_array_bytes(&a[i]));
    hash_text(sum, digits);
    memcpy(find_digits(text, length), digits, DIGITS);
    return text;
}

void safetensors_write(FILE *out, const NamedArray *arrays, size_t count, const Metadata *metadata, size_t lines) {
    const size_t mark = memory_mark();
    const char *header = whole_header(arrays, count, metadata, lines);
    const uint64_t length = strlen(header);
    fwrite(&length, sizeof length, 1, out);
    fputs(header, out);
    for (size_t i = 0; i < count; i++) fwrite(arrays[i].data, 1, named_array_bytes(&arrays[i]), out);
    memory_release(mark);
}

/* --- reading */

SafetensorsFile safetensors_open(const char *path, size_t limit) {
    SafetensorsFile f = {.path = path};
    uint64_t length = 0;
    f.bytes = file_read(path, "the tensors", size_add(limit, HEADER_LIMIT), &f.size);
    if (f.size >= 8) memcpy(&length, f.bytes, 8);
    if (f.size < 8 || length > f.size - 8 || length > HEADER_LIMIT)
        usage_error("%s is not a safetensors file: its header is cut short", path);
    f.begin = 8 + (size_t)length;
    f.header = js_parse(f.bytes + 8, (size_t)length, path);
    return f;
}

const char *safetensors_metadata(const SafetensorsFile *f, const char *key) {
    return js_as_text(js_get(js_get(f->header, METADATA_KEY), key));
}

static bool same_shape(const NamedArray *a, const Json *shape) {
    bool same = js_array_size(shape) == a->dimensions;
    for (size_t d = 0; same && d < a->dimensions; d++) {
        int64_t size;
        same = js_as_integer(js_at(shape, d), &size) && size >= 0 && (size_t)size == a->shape[d];
    }
    return same;
}

/* Checks what the header says of an array. Returns where its bytes begin, counted from the end of the header. */
static size_t check_entry(const SafetensorsFile *f, const NamedArray *a, const char *owner) {
    const Json *found = js_get(f->header, a->name), *offsets = js_get(found, "data_offsets");
    const char *type = js_as_text(js_get(found, "dtype")), *expected = TYPES[a->type].name;
    const size_t size = f->size - f->begin;
    int64_t begin = -1, end = -1;
    if (!found) usage_error("%s has no tensor %s, as %s has", f->path, a->name, owner);
    if (!type || strcmp(type, expected) != 0)
        usage_error("%s: %s is of type %.20s; %s is accepted", f->path, a->name, type ? type : "?", expected);
    if (!same_shape(a, js_get(found, "shape"))) {
        char ours[128] = "";
        for (size_t d = 0; d < a->dimensions; d++) text_append(ours, sizeof ours, "%s%zu", d ? ", " : "", a->shape[d]);
        usage_error("%s: %s has another shape than in %s, where it is (%s)", f->path, a->name, owner, ours);
    }
    js_as_integer(js_at(offsets, 0), &begin);
    js_as_integer(js_at(offsets, 1), &end);
    if (js_array_size(offsets) != 2 || begin < 0 || end < begin || (size_t)end > size ||
        (size_t)(end - begin) != named_array_bytes(a))
        usage_error("%s: the offsets of %s do not fit its shape or the file", f->path, a->name);
    return (size_t)begin;
}

/* Checks that the header describes no other arrays. */
static void check_names(const SafetensorsFile *f, const NamedArray *arrays, size_t n, const char *owner) {
    for (size_t k = 0; k < js_object_size(f->header); k++) {
        const char *name = js_object_key(f->header, k);
        bool known = strcmp(name, METADATA_KEY) == 0;
        for (size_t i = 0; !known && i < n; i++) known = strcmp(name, arrays[i].name) == 0;
        if (!known) usage_error("%s holds the tensor %.100s, which %s lacks", f->path, name, owner);
    }
}

void safetensors_take(const SafetensorsFile *f, const NamedArray *arrays, size_t n, const char *owner) {
    size_t *begin = memory_make(n, sizeof *begin, "where tensors begin"), total = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = named_array_bytes(&arrays[i]);
        begin[i] = check_entry(f, &arrays[i], owner);
        total += bytes;
        for (size_t j = 0; j < i; j++)
            if (begin[j] < begin[i] + bytes && begin[i] < begin[j] + named_array_bytes(&arrays[j]))
                usage_error("%s: the tensors %s and %s overlap", f->path, arrays[j].name, arrays[i].name);
    }
    check_names(f, arrays, n, owner);
    if (total != f->size - f->begin) /* then there is a gap between two of them */
        usage_error("%s has %zu bytes of numbers; %s takes %zu", f->path, f->size - f->begin, owner, total);
    if (!is_whole(f))
        usage_error("%s is damaged, or was changed: its content does not have the checksum that is in it", f->path);
    for (size_t i = 0; i < n; i++)
        if (arrays[i].data) memcpy(arrays[i].data, f->bytes + f->begin + begin[i], named_array_bytes(&arrays[i]));
    memory_free(begin);
}
