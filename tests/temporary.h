/* A directory for each test, removed behind it, and files in it. */
#pragma once

#include "support.h"

#include "base/files.h"
#include "base/lock.h"

static char temporary[512];

static inline int temporary_enter(void **state) {
    (void)state;
    return !make_temporary(temporary);
}

/* The test's directory, or one in it, open and not locked; valid for four calls. */
static Directory in_use[4];
static inline const Directory *opened(const char *path) {
    static unsigned next;
    Error err;
    Directory *d = &in_use[next++ % 4];
    directory_close(d);
    const bool done = directory_open(d, path, &err);
    assert_that(done, "%s", err.message);
    return d;
}

static inline int temporary_leave(void **state) {
    Error err;
    for (size_t i = 0; i < COUNT_OF(in_use); i++) directory_close(&in_use[i]);
    support_release(state);
    return !directory_remove(temporary, &err);
}
#define TEMPORARY_TEST(function) cmocka_unit_test_setup_teardown(function, temporary_enter, temporary_leave)

/* Memory that support_release frees. Not inline: gcc 12 would warn of pointers to what contents() returns. */
static __attribute__((unused, noinline)) void *kept(void *memory) {
    if (memory == NULL || support_pool.count == COUNT_OF(support_pool.items)) abort();
    return support_pool.items[support_pool.count++] = memory;
}

/* A path in the test's directory; valid for eight calls. */
static inline const char *in(const char *name) {
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", temporary, name);
    return path;
}

/* Writes a file without the fsync of file_write, since some tests write thousands. The old file is removed first,
   since ext4 flushes what is truncated. */
static inline const char *put(const char *name, const void *data, size_t size) {
    const char *path = in(name);
    remove(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}
static inline const char *put_text(const char *name, const char *text) { return put(name, text, strlen(text)); }

/* The content of a whole file, with a zero byte behind it. */
static inline char *contents(const char *path, size_t *size) {
    char *data = NULL;
    Error err;
    size_t ignored;
    bool done = file_read(path, "file", (size_t)1 << 28, STATUS_USAGE, &data, size ? size : &ignored, &err);
    assert_that(done, "%s", err.message);
    return kept(data);
}

/* Asserts that the last error is the user's (STATUS_USAGE) and that its message has the word. */
static inline void assert_refused(bool done, const Error *err, const char *word, const char *what) {
    assert_that(!done, "accepted: %.200s", what);
    assert_that(err->status == STATUS_USAGE, "status %d for %.200s (%.500s)", (int)err->status, what, err->message);
    assert_that(strstr(err->message, word) != NULL, "no '%s' in: %.1000s", word, err->message);
    assert_null(strchr(err->message, '\n'));
}
