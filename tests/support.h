/* Functions that the tests share: cmocka with the headers it needs, comparisons that print both numbers and the place
   (cmocka 1.1.5 compares floats only), and arrays of random numbers. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/real.h"
#include "base/rng.h"

/* True in builds that check or count what is executed. Everything is slower there: tests repeat less in them, on the
   same paths, and compare numbers less often. */
#ifdef SANITIZED
enum { INSTRUMENTED = true };
#else
enum { INSTRUMENTED = false };
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* Asserts |actual - expected| <= tolerance, which a NaN never is. The other arguments say where, printf-style. */
#define assert_close(actual, expected, tolerance, ...)                                                                 \
    support_close(__FILE__, __LINE__, (double)(actual), (double)(expected), (double)(tolerance), __VA_ARGS__)
/* Asserts a condition; the other arguments say where it failed, printf-style. */
#define assert_that(condition, ...) support_that(__FILE__, __LINE__, (condition), #condition, __VA_ARGS__)

static inline __attribute__((format(printf, 6, 7))) void
support_close(const char *file, int line, double actual, double expected, double tolerance, const char *format, ...) {
    if (fabs(actual - expected) <= tolerance || actual == expected) return;
    char where[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(where, sizeof where, format, arguments);
    va_end(arguments);
    print_error("%s: %.17g, expected %.17g; they differ by %.3g, allowed is %.3g\n", where, actual, expected,
                actual - expected, tolerance);
    _fail(file, line);
}

static inline __attribute__((format(printf, 5, 6))) void support_that(const char *file, int line, bool condition,
                                                                      const char *text, const char *format, ...) {
    if (condition) return;
    char where[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(where, sizeof where, format, arguments);
    va_end(arguments);
    print_error("%s: not true: %s\n", where, text);
    _fail(file, line);
}

/* The error that ended the last statement of `works`; STATUS_OK where none did. */
static Error err;

#ifndef __clang__ /* gcc warns that the jump of `works` might change variables which only other statements set */
#pragma GCC diagnostic ignored "-Wclobbered"
#endif

/* Runs a statement. It is true if the statement ended without an error; otherwise err has the error. As after protect,
   all blocks made by a statement that failed are released. Variables that such a statement set must not be read. */
#define works(...)                                                                                                     \
    __extension__({                                                                                                    \
        Protection protection_ = {innermost_protection, &err, memory_mark()};                                          \
        void *const target_ = jump_target;                                                                             \
        jmp_buf here_;                                                                                                 \
        err = (Error){0};                                                                                              \
        innermost_protection = &protection_;                                                                           \
        jump_target = &here_;                                                                                          \
        const bool worked_ = _setjmp(here_) == 0;                                                                      \
        if (worked_) {                                                                                                 \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        innermost_protection = protection_.outer;                                                                      \
        jump_target = target_;                                                                                         \
        worked_;                                                                                                       \
    })
/* Asserts that a statement fails with this status and with these words in its message. */
#define assert_fails(expected, words, ...)                                                                             \
    do {                                                                                                               \
        assert_that(!works(__VA_ARGS__), "no error with '%s'", words);                                                 \
        support_error(__FILE__, __LINE__, expected, words);                                                            \
    } while (0)

static inline void support_error(const char *file, int line, Status status, const char *words) {
    if (err.status == status && strstr(err.message, words) != NULL && strchr(err.message, '\n') == NULL) return;
    print_error("status %d and '%s' expected, came %d and '%s'\n", (int)status, words, (int)err.status, err.message);
    _fail(file, line);
}

/* Arrays of exactly the given length, so that AddressSanitizer sees the first access beyond. The numbers depend only
   on the order of the calls within one test. */
static uint32_t support_stream;

static inline real *reals(size_t count) { return memory_make(count, sizeof(real), "an array"); }
static inline real *filled_reals(size_t count, double value) {
    real *x = reals(count);
    for (size_t i = 0; i < count; i++) x[i] = (real)value;
    return x;
}
static inline real *normal_reals(size_t count, double deviation) {
    Rng rng = rng_make(20240607, RNG_SAMPLE, support_stream++);
    real *x = reals(count);
    for (size_t i = 0; i < count; i++) x[i] = (real)(deviation * rng_normal(&rng, i));
    return x;
}
static inline real *copied_reals(const real *from, size_t count) {
    real *x = reals(count);
    if (count) memcpy(x, from, count * sizeof *x);
    return x;
}
static inline void random_tokens(int32_t *tokens, size_t count, size_t V) {
    Rng rng = rng_make(20240607, RNG_BATCH, support_stream++);
    for (size_t i = 0; i < count; i++) tokens[i] = (int32_t)rng_below(&rng, i, V);
}
/* A text in memory: print_into opens its stream, and what_was_printed closes it and returns the text, a block. */
static char *support_text;
static size_t support_size;
static FILE *support_out;
static inline FILE *print_into(void) {
    support_out = open_memstream(&support_text, &support_size);
    assert_non_null(support_out);
    return support_out;
}
static inline char *what_was_printed(void) {
    assert_int_equal(fclose(support_out), 0);
    char *text = memory_copy_text(support_text, support_size);
    free(support_text);
    return text;
}
/* Each test's teardown: frees all that it made, and removes the protects that a failed assertion did not end. */
static inline int support_release(void **state) {
    (void)state;
    innermost_protection = NULL;
    jump_target = NULL;
    memory_release(0);
    support_stream = 0;
    return 0;
}
/* A test is a function without arguments. cmocka's tests are given a state, in which this one finds that function. */
static inline void support_test(void **state) { ((void (*)(void)) * state)(); }
#define TEST_WITH(function, setup, teardown)                                                                           \
    { #function, support_test, setup, teardown, (void *)(function) }
#define TEST(function) TEST_WITH(function, NULL, support_release)
/* Runs tests, with a function before the first and one after the last, and returns what main returns. */
#define RUN_GROUP(setup, teardown, ...)                                                                                \
    __extension__({                                                                                                    \
        const struct CMUnitTest tests_[] = {__VA_ARGS__};                                                              \
        cmocka_run_group_tests(tests_, setup, teardown);                                                               \
    })
#define RUN_TESTS(...) RUN_GROUP(NULL, NULL, __VA_ARGS__)

static int support_remove(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}
/* Removes a directory and what is in it; symbolic links are removed, not followed. */
static inline bool directory_remove(const char *path) {
    return nftw(path, support_remove, 16, FTW_DEPTH | FTW_PHYS) == 0;
}

static inline double dot(const real *x, const real *y, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}
static inline double max_abs(const real *x, size_t count) {
    double max = 0;
    for (size_t i = 0; i < count && !isnan(max); i++)
        if (!(fabs((double)x[i]) <= max)) max = fabs((double)x[i]);
    return max;
}
/* Asserts that every entry is within `tolerance`, or tolerance * max|expected| where that is more. */
static inline void assert_all_close(const real *actual, const real *expected, size_t count, double tolerance,
                                    const char *what) {
    double max = max_abs(expected, count);
    for (size_t i = 0; i < count; i++)
        assert_close(actual[i], expected[i], tolerance * fmax(max, 1), "%s[%zu]", what, i);
}
