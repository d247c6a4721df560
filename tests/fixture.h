/* Reads the files of tests/fixtures/, which PyTorch computed: safetensors with F64 and I32, a config in __metadata__.
   A file that does not fit fails the test that reads it, and so does a tensor that was not read. */
#pragma once

#include "temporary.h"

#include "base/json.h"

enum { FIXTURE_TENSORS_MAX = 512 };

typedef struct {
    const char *name, *data; /* data: behind the header */
    size_t size, read;       /* bytes of data, and how many of them were asked for */
    Json *header;
    bool taken[FIXTURE_TENSORS_MAX]; /* by place in the header */
} Fixture;
static Fixture fixture; /* one at a time */

static inline int fixture_leave(void **state) {
    fixture = (Fixture){0};
    return temporary_leave(state);
}

/* Opens a fixture, which stays valid until fixture_leave, a test's teardown. */
static inline Fixture *fixture_open(const char *name) {
    char path[256];
    size_t size;
    uint64_t length = 0;
    snprintf(path, sizeof path, "tests/fixtures/%s.safetensors", name);
    const char *file = contents(path, &size);
    assert_that(size >= 8, "%s is too short", path);
    memcpy(&length, file, 8);
    assert_that(length <= size - 8 && length % 8 == 0, "%s: length of the header", path);
    fixture = (Fixture){.name = name, .data = file + 8 + length, .size = size - 8 - (size_t)length};
    fixture.header = js_parse(file + 8, (size_t)length, path);
    assert_that(js_object_size(fixture.header) <= FIXTURE_TENSORS_MAX, "%s: number of tensors", name);
    return &fixture;
}

/* Fails unless every tensor was asked for, and together they are the whole file. */
static inline void fixture_was_read(const Fixture *f) {
    for (size_t i = 0; i < js_object_size(f->header); i++) {
        const char *key = js_object_key(f->header, i);
        assert_that(f->taken[i] || strcmp(key, "__metadata__") == 0, "%s has %s, which no test knows", f->name, key);
    }
    assert_int_equal(f->read, f->size);
}

static inline const void *fixture_find(Fixture *f, const char *tensor, const char *type, size_t size, size_t count) {
    const Json *entry = js_get(f->header, tensor), *shape = js_get(entry, "shape");
    const Json *offsets = js_get(entry, "data_offsets");
    assert_that(entry != NULL, "%s has no %s", f->name, tensor);
    const char *dtype = js_as_text(js_get(entry, "dtype"));
    assert_that(dtype && strcmp(dtype, type) == 0, "%s: type of %s", f->name, tensor);
    int64_t from = -1, to = -1, numbers = 1, n = 0;
    for (size_t d = 0; d < js_array_size(shape); d++, numbers *= n)
        assert_that(js_as_integer(js_at(shape, d), &n), "%s: shape of %s", f->name, tensor);
    assert_that(numbers == (int64_t)count, "%s: %s has %lld numbers, not %zu", f->name, tensor, (long long)numbers,
                count);
    assert_that(js_as_integer(js_at(offsets, 0), &from) && js_as_integer(js_at(offsets, 1), &to) && from >= 0 &&
                    to - from == (int64_t)(count * size) && to <= (int64_t)f->size && from % (int64_t)size == 0,
                "%s: offsets of %s", f->name, tensor);
    for (size_t i = 0; i < js_object_size(f->header); i++)
        if (strcmp(js_object_key(f->header, i), tensor) == 0 && !f->taken[i]) {
            f->taken[i] = true;
            f->read += count * size;
        }
    return f->data + from;
}

/* The numbers of a tensor, which must have `count` of them. Its name is put together printf-style. */
#define fixture_reals(f, count, ...) ((const double *)fixture_named(f, "F64", sizeof(double), count, __VA_ARGS__))
#define fixture_integers(f, count, ...) ((const int32_t *)fixture_named(f, "I32", sizeof(int32_t), count, __VA_ARGS__))
static inline __attribute__((format(printf, 5, 6))) const void *fixture_named(Fixture *f, const char *type, size_t size,
                                                                              size_t count, const char *format, ...) {
    char tensor[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tensor, sizeof tensor, format, arguments);
    va_end(arguments);
    return fixture_find(f, tensor, type, size, count);
}

static inline const Json *fixture_metadata(const Fixture *f) { return js_get(f->header, "__metadata__"); }
static inline const char *fixture_text(const Fixture *f, const char *key) {
    const char *text = js_as_text(js_get(fixture_metadata(f), key));
    assert_that(text != NULL, "%s has no %s in its metadata", f->name, key);
    return text;
}
static inline size_t fixture_number(const Fixture *f, const char *key) {
    return (size_t)strtoull(fixture_text(f, key), NULL, 10);
}
