/* A directory for each test, removed behind it, and files in it. */
#pragma once

#include "support.h"

#include <sys/wait.h>

#include "base/files.h"
#include "run/logs.h"

static char temporary[512];

/* The directory is new, below TMPDIR or /tmp. */
static inline int temporary_enter(void **state) {
    (void)state;
    const char *place = getenv("TMPDIR");
    snprintf(temporary, sizeof temporary, "%s/sqrtdk_XXXXXX", place && *place ? place : "/tmp");
    return mkdtemp(temporary) == NULL;
}

static inline int temporary_leave(void **state) {
    support_release(state);
    return !directory_remove(temporary);
}
#define TEMPORARY_TEST(function) TEST_WITH(function, temporary_enter, temporary_leave)

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
    size_t ignored;
    return file_read(path, "file", (size_t)1 << 28, size ? size : &ignored);
}

/* Returns the line of a log's column names, from the table that makes logs; without its end. */
static inline const char *log_header(Log log) {
#define HEADER_OF(constant, name, ...) "," name
    static const char *const headers[] = {METRICS_TABLE(HEADER_OF), ATTENTION_TABLE(HEADER_OF)};
    return headers[log] + 1;
}
/* Writes a log, or something that resembles one: each @ in the text stands for the line of the names of the columns
   that the tests' rows have. What is added behind these is optional. */
static inline void put_log(const char *name, Log log, const char *text) {
    char *out, header[1024];
    size_t size, columns = log == LOG_METRICS ? METRICS_VAL_ACCURACY + 1 : ATTENTION_SUBNORMALS + 1;
    FILE *stream = open_memstream(&out, &size);
    assert_non_null(stream);
    snprintf(header, sizeof header, "%s,", log_header(log));
    for (char *end = header; (end = strchr(end, ',')) != NULL; end++)
        if (--columns == 0) *end = 0;
    for (; *text; text++)
        if (*text == '@') fprintf(stream, "%s\n", header);
        else fputc(*text, stream);
    assert_int_equal(fclose(stream), 0);
    put(name, out, size);
    free(out);
}

/* Returns whether a command of the shell, run silently in the test's directory, succeeds. */
static inline bool shell(const char *command) {
    char whole[4096];
    snprintf(whole, sizeof whole, "cd %s && { %s; } >/dev/null 2>&1", temporary, command);
    return system(whole) == 0;
}

/* Returns what a command of the shell prints in the test's directory. */
static inline char *output_of(const char *command) {
    char whole[4096], *text = memory_make(1, 1 << 16, "an output");
    snprintf(whole, sizeof whole, "cd %s && { %s; }", temporary, command);
    FILE *stream = popen(whole, "r");
    assert_non_null(stream);
    assert_in_range(fread(text, 1, (1 << 16) - 1, stream), 1, (1 << 16) - 2);
    assert_int_equal(pclose(stream), 0);
    return text;
}

/* Waits for a child; returns its exit status, or 128 + N where signal N killed it. */
static inline int status_of(pid_t child) {
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

/* Asserts that the statement is refused: with an error of the user (STATUS_USAGE) whose message has the word. */
#define assert_refused(word, ...) assert_fails(STATUS_USAGE, word, __VA_ARGS__)
