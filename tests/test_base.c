/* base/ without its files (test_files.c): random numbers, sizes and arenas, ranges, errors, blocks; and the elementary
   functions that float computes with, next to double's. */
#include "support.h"

#include <float.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/statistics.h"
#include "base/text.h"
#include "ops/activation.h"
#include "ops/lanes.h"

/* Known answers from the Random123 distribution (kat_vectors, philox4x32 10). */
static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        uint32_t c[4];
        memcpy(c, cases[n].counter, sizeof c);
        philox4x32(c, cases[n].key[0], cases[n].key[1]);
        assert_memory_equal(c, cases[n].expected, sizeof c);
    }
}

/* Streams that differ in anything differ in every block; the same again is the same again. */
static void rng_streams_differ(void **state) {
    (void)state;
    const Rng streams[] = {
        rng_make(1, RNG_INIT, 0),        rng_make(2, RNG_INIT, 0),  rng_make(1 + (1ull << 32), RNG_INIT, 0),
        rng_make(1, RNG_BATCH, 0),       rng_make(1, RNG_INIT, 1),  rng_make(1, RNG_INIT, 1u << 31),
        rng_make(~0ull, RNG_DROPOUT, 7), rng_make(0, RNG_SAMPLE, 0)};
    static const uint64_t indices[] = {0, 1, 1000, 1ull << 32, UINT64_MAX};
    uint32_t blocks[COUNT_OF(streams) * COUNT_OF(indices)][4], again[4];
    for (size_t n = 0; n < COUNT_OF(blocks); n++) {
        rng_block(&streams[n / COUNT_OF(indices)], indices[n % COUNT_OF(indices)], blocks[n]);
        rng_block(&streams[n / COUNT_OF(indices)], indices[n % COUNT_OF(indices)], again);
        assert_memory_equal(blocks[n], again, sizeof again);
        for (size_t m = 0; m < n; m++) assert_memory_not_equal(blocks[n], blocks[m], sizeof again);
    }
}

/* Moments about the expected mean, each with the standard error of n draws; 5 of them are allowed. */
static void moments(double (*draw)(const Rng *, uint64_t), double mean, const double expected[4], const double error[4],
                    const char *name) {
    enum { COUNT = 1000000 };
    for (uint32_t stream = 0; stream < 2; stream++) {
        Rng rng = rng_make(3, RNG_INIT, stream);
        double sum[4] = {0}, lagged[4] = {0}, before[4] = {0};
        for (uint64_t i = 0; i < COUNT; i++) {
            double x = draw(&rng, i) - mean, power = 1;
            for (int k = 0; k < 4; k++) sum[k] += power *= x;
            for (int lag = 0; lag < 4; lag++) lagged[lag] += x * before[lag];
            memmove(before + 1, before, 3 * sizeof *before);
            before[0] = x;
        }
        for (int k = 0; k < 4; k++)
            assert_close(sum[k] / COUNT, expected[k], 5 * error[k] / sqrt(COUNT), "moment %d of %s", k + 1, name);
        for (int lag = 0; lag < 4; lag++)
            assert_close(lagged[lag] / COUNT, 0, 5 * expected[1] / sqrt(COUNT), "correlation of %s, lag %d", name,
                         lag + 1);
    }
}

static void rng_moments(void **state) {
    (void)state;
    /* Variance of x^k is E x^2k - (E x^k)^2; E x^2k is (2k-1)!! for a normal, 1 / ((2k+1) 4^k) for a uniform. */
    moments(rng_normal, 0, (double[]){0, 1, 0, 3}, (double[]){1, sqrt(2), sqrt(15), sqrt(96)}, "the normal");
    moments(rng_uniform, .5, (double[]){0, 1. / 12, 0, 1. / 80},
            (double[]){sqrt(1. / 12), sqrt(1. / 180), sqrt(1. / 448), sqrt(1. / 2304 - 1. / 6400)}, "the uniform");
    Rng rng = rng_make(9, RNG_BATCH, 0);
    double tail = 0, least = 1, most = 0;
    for (uint64_t i = 0; i < 1000000; i++) {
        double u = rng_uniform(&rng, i), x = rng_normal(&rng, i);
        least = fmin(least, u), most = fmax(most, u);
        assert_that(isfinite(x), "normal %d", (int)i);
        tail += fabs(x) > 3;
    }
    assert_that(least >= 0 && least < 1e-4 && most > 1 - 1e-4 && most < 1, "uniform on [0, 1)");
    assert_close(tail, 2699.8, 5 * sqrt(2699.8), "normals beyond 3 sigma");
}

static void rng_below_is_uniform(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 10, 97, 1000};
    Rng rng = rng_make(4, RNG_SAMPLE, 1);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        enum { DRAWS = 200000 };
        const uint64_t n = sizes[s];
        double counts[1000] = {0}, chi = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            uint64_t draw = rng_below(&rng, i, n);
            assert_in_range(draw, 0, n - 1);
            counts[draw]++;
        }
        const double expected = DRAWS / (double)n, freedom = (double)n - 1;
        for (uint64_t v = 0; v < n; v++) chi += pow(counts[v] - expected, 2) / expected;
        assert_close(chi, freedom, 5 * sqrt(2 * freedom), "chi-square below %d", (int)n);
    }
    static const uint64_t huge[] = {UINT64_MAX, (1ull << 63) + 1, 3ull << 40};
    for (size_t s = 0; s < COUNT_OF(huge); s++) {
        double upper = 0;
        for (uint64_t i = 0; i < 10000; i++) {
            uint64_t draw = rng_below(&rng, i, huge[s]);
            assert_true(draw < huge[s]);
            upper += draw >= huge[s] / 2;
        }
        assert_close(upper, 5000, 5 * 50, "upper half below a huge number");
    }
}

static void sizes(void **state) {
    (void)state;
    const size_t half = SIZE_MAX / 2;
    static const size_t max = SIZE_MAX;
    const struct {
        size_t a, b, product, sum;
    } cases[] = {
        {0, 0, 0, 0},
        {3, 4, 12, 7},
        {half, 2, max - 1, half + 2},
        {half + 1, 2, max, half + 3},
        {max - 1, 1, max - 1, max},
        {max, 1, max, max},
        {half, half, max, max - 1},
        {max - 5, 3, max, max - 2},
        {(size_t)1 << 32, (size_t)1 << 32, max, (size_t)1 << 33},
        {max - 1, 5, max, max},
        {max, max, max, max},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        assert_int_equal(size_mul(cases[n].a, cases[n].b), cases[n].product);
        assert_int_equal(size_mul(cases[n].b, cases[n].a), cases[n].product);
        assert_int_equal(size_add(cases[n].a, cases[n].b), cases[n].sum);
        assert_int_equal(size_add(cases[n].b, cases[n].a), cases[n].sum);
    }
    assert_int_equal(size_mul(0, 7), 0);
    assert_int_equal(size_mul(max, 0), max); /* "SIZE_MAX stays SIZE_MAX" */
    assert_true(memory_of_machine() > memory_peak() && memory_peak() > 1 << 20);
}

static void arena(void **state) {
    (void)state;
    static const size_t counts[] = {1, 64, 0, 65, 1000, 3};
    Arena arena = {0};
    for (size_t i = 0; i < COUNT_OF(counts); i++) assert_null(arena_take(&arena, counts[i], 4));
    size_t measured = arena.used;
    arena_allocate(&arena, "test");
    assert_int_equal(arena.used, 0);
    assert_true(arena.capacity >= measured);
    char *end = arena.base;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        char *p = arena_take(&arena, counts[i], 4);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(p >= end && p + counts[i] * 4 <= arena.base + arena.capacity);
        for (size_t b = 0; b < counts[i] * 4; b++) assert_int_equal(p[b], 0);
        memset(p, 1, counts[i] * 4);
        end = p + counts[i] * 4;
    }
    assert_int_equal(arena.used, measured);
    arena_free(&arena);
    assert_null(arena.base);
    arena_free(&arena); /* an arena that has nothing */
}

static void arena_that_does_not_fit(void **state) {
    (void)state;
    static const size_t takes[][2] = {{SIZE_MAX / 4, 8}, {SIZE_MAX, 1}, {SIZE_MAX - 70, 1}, {SIZE_MAX / 8, 4}};
    for (size_t n = 0; n < COUNT_OF(takes); n++) {
        Arena arena = {0};
        arena_take(&arena, 10, 10);
        assert_null(arena_take(&arena, takes[n][0], takes[n][1]));
        if (n < 2) assert_int_equal(arena.used, SIZE_MAX);
        arena_take(&arena, 100, 1);
        if (n < 2) assert_int_equal(arena.used, SIZE_MAX);
        assert_fails(STATUS_FAILED, "parameters", arena_allocate(&arena, "parameters"));
        assert_null(arena.base);
    }
}

static void ranges(void **state) {
    (void)state;
    for (size_t n = 0; n <= 70; n++)
        for (size_t unit = 1; unit <= 16; unit += 5)
            for (size_t count = 1; count <= 9; count++) {
                size_t end = 0, least = SIZE_MAX, most = 0;
                for (size_t id = 0; id < count; id++) {
                    Range r = range_split(n, unit, id, count);
                    assert_int_equal(r.begin, end); /* one after the other: disjoint, nothing left out */
                    assert_true(r.begin <= r.end && (r.begin % unit == 0 || r.begin == n));
                    end = r.end;
                    size_t units = (range_size(r) + unit - 1) / unit;
                    least = units < least ? units : least, most = units > most ? units : most;
                }
                assert_int_equal(end, n);
                assert_true(most - least <= 1);
            }
}

/* Every entry of a matrix is in one tile; tiles of a wide matrix lie beside each other, of a high one above. */
static void tiles(void **state) {
    (void)state;
    for (size_t rows = 1; rows <= 70; rows += 23)
        for (size_t columns = 1; columns <= 70; columns += 23)
            for (size_t count = 1; count <= 12; count++) {
                int seen[70][70] = {0};
                for (size_t id = 0; id < count; id++) {
                    Tile t = tile_split(rows, columns, 4, id, count);
                    for (size_t r = t.rows.begin; r < t.rows.end; r++)
                        for (size_t c = t.columns.begin; c < t.columns.end; c++) seen[r][c]++;
                }
                for (size_t r = 0; r < rows; r++)
                    for (size_t c = 0; c < columns; c++) assert_int_equal(seen[r][c], 1);
            }
    assert_int_equal(range_size(tile_split(512, 128, 16, 0, 2).rows), 256);
    assert_int_equal(range_size(tile_split(128, 512, 16, 0, 2).columns), 256);
    Tile t = tile_split(512, 512, 16, 5, 16);
    assert_true(t.rows.begin == 128 && t.rows.end == 256 && t.columns.begin == 128 && t.columns.end == 256);
}

static void messages(void **state) {
    (void)state;
    (void)works(error_raise(STATUS_USAGE, "%s: %d", "a\nb\tc\033[1m\x7f\r", 5));
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, "a?b?c?[1m??: 5");
    (void)works(error_raise(STATUS_FAILED, "√d_k = %s", "é"));
    assert_int_equal(err.status, STATUS_FAILED);
    assert_string_equal(err.message, "√d_k = é");
    (void)works(error_raise(STATUS_FAILED, "%s",
                            "\302\233"
                            "31m \342\200\256\342\201\246\342\200\250\330\234 \377\303"));
    assert_string_equal(err.message, "?31m ???? ??"); /* C1, bidi, a line separator, no UTF-8 */
    char text[sizeof err.message + 100];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    (void)works(error_raise(STATUS_FAILED, "%s", text)); /* what is too long is cut */
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    text[2 * 4096] = 0;
    (void)works(error_raise(STATUS_FAILED, "cannot read %s: no such file", text));
    assert_string_equal(err.message + strlen(err.message) - 18, "xxxx: no such file");
    (void)works(error_raise(STATUS_FAILED, "%s", ""));
    assert_string_equal(err.message, "");
    (void)works(error_raise(STATUS_USAGE, "reason"));
    const Error reason = err;
    (void)works(error_raise(reason.status, "line 7: %s", reason.message)); /* words put before it */
    assert_int_equal(err.status, STATUS_USAGE);
    assert_string_equal(err.message, "line 7: reason");
}

/* What was undone, a letter each, in order. */
static char undone[16];
static void note_undone(void *block) { text_append(undone, sizeof undone, "%c", *(char *)block); }
static void fail_undone(void *block) {
    note_undone(block);
    runtime_error("while undoing %c", *(char *)block);
}
/* Makes a block that notes when it is undone, and fails then if its letter is a capital. */
static char *make_letter(char letter) {
    char *block = memory_make_undone(1, letter < 'a' ? fail_undone : note_undone, "a letter");
    *block = letter;
    return block;
}

static void return_only(void *argument) { *(int *)argument += 1; }
static void make_z(void *argument) {
    (void)argument;
    make_letter('z');
}
static void fail_with_letters(void *argument) {
    make_letter('b');
    memory_make(100, 1, "a block without an undo");
    make_letter('C');
    memory_free(make_letter('d'));
    make_letter('E');
    usage_error("the first of %s", (const char *)argument);
}

/* An error gives back what was made since the innermost protect, the newest first, also where an undo fails. */
static void protected_calls(void **state) {
    (void)state;
    int calls = 0;
    Error error = {STATUS_FAILED, "old"};
    *undone = 0;
    make_letter('a');
    assert_true(protect(return_only, &calls, &error));
    assert_true(calls == 1 && error.status == STATUS_OK && !*error.message);
    assert_null(innermost_protection);
    assert_false(protect(fail_with_letters, "many\n", &error));
    assert_null(innermost_protection);
    assert_null(jump_target);
    assert_string_equal(undone, "dECb");
    assert_int_equal(error.status, STATUS_USAGE);
    assert_string_equal(error.message, "the first of many?");
    const size_t mark = memory_mark();
    assert_true(protect(make_z, NULL, &error)); /* what a call makes stays if it returns */
    assert_string_equal(undone, "dECb");
    memory_release(mark);
    assert_string_equal(undone, "dECbz");
    memory_release(0);
    assert_string_equal(undone, "dECbza");
}

static void catch_and_wrap(void *argument) {
    Error error;
    make_letter('o');
    assert_false(protect(fail_with_letters, argument, &error));
    assert_string_equal(undone, "dECb"); /* the outer one's is still there */
    error_raise(error.status, "line 7: %s", error.message);
}
static void catch_and_raise_again(void *argument) {
    Error error;
    assert_false(protect(catch_and_wrap, argument, &error));
    make_letter('r');
    error_raise_again(&error);
}
static void fail_after_a_protect(void *argument) {
    Error error;
    assert_true(protect(return_only, argument, &error));
    runtime_error("behind it");
}

/* Protects may be nested: an error ends the innermost one that has not ended. */
static void nested_protects(void **state) {
    (void)state;
    int calls = 0;
    Error error;
    *undone = 0;
    assert_false(protect(catch_and_raise_again, "two", &error));
    assert_string_equal(undone, "dECbor");
    assert_int_equal(error.status, STATUS_USAGE);
    assert_string_equal(error.message, "line 7: the first of two");
    assert_false(protect(fail_after_a_protect, &calls, &error));
    assert_true(calls == 1 && error.status == STATUS_FAILED);
    assert_string_equal(error.message, "behind it");
    assert_null(innermost_protection);
}

/* An undo may protect a call itself, and make and free blocks. */
static void protect_in_undo(void *block) {
    Error error;
    const size_t mark = memory_mark();
    note_undone(block);
    assert_false(protect(fail_with_letters, "an undo", &error));
    memory_make(1, 10, "what an undo needs");
    memory_release(mark);
}
static void fail_over_such_an_undo(void *argument) {
    (void)argument;
    make_letter('f');
    char *block = memory_make_undone(1, protect_in_undo, "a letter");
    *block = 'p';
    make_letter('g');
    runtime_error("the reason");
}
static void protects_in_undos(void **state) {
    (void)state;
    Error error;
    *undone = 0;
    assert_false(protect(fail_over_such_an_undo, NULL, &error));
    assert_string_equal(undone, "gpdECbf");
    assert_string_equal(error.message, "the reason");
}

/* Without a protect an error prints its message and ends the program with its status; main's undos are not needed. */
static void fail_alone(void) { usage_error("no %s\n", "\033protect"); }
static void fail_within_a_region(void) {
#pragma omp parallel num_threads(1) /* in which omp_in_parallel is false */
    fail_alone();
}
static int child_of(void (*function)(void), char *message, size_t capacity) {
    int ends[2], how;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* not cmocka's */
        dup2(ends[1], STDERR_FILENO);
        function();
        _exit(0);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    message[fread(message, 1, capacity - 1, stream)] = 0;
    fclose(stream);
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}
static void errors_without_a_protect(void **state) {
    (void)state;
    char message[4096];
    int how = child_of(fail_alone, message, sizeof message);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == STATUS_USAGE);
    assert_string_equal(message, "no ?protect?\n");
    how = child_of(fail_within_a_region, message, sizeof message);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    assert_non_null(strstr(message, "omp_get_level"));
}

static void marks_and_releases(void **state) {
    (void)state;
    *undone = 0;
    make_letter('a');
    const size_t outer = memory_mark();
    char *b = make_letter('b');
    const size_t inner = memory_mark();
    make_letter('c');
    memory_free(b); /* made before the mark, and freed out of order */
    assert_string_equal(undone, "b");
    make_letter('d');
    memory_release(inner);
    assert_string_equal(undone, "bdc");
    memory_release(inner); /* nothing is left */
    make_letter('e');
    assert_true(memory_mark() > inner);
    memory_release(outer);
    assert_string_equal(undone, "bdce");
    memory_release(0);
    assert_string_equal(undone, "bdcea");
    memory_free(NULL);
    assert_fails(STATUS_FAILED, "while undoing X", memory_free(make_letter('X'))); /* alone, an undo's error counts */
}

/* A block that grows and moves is released in its old place, and keeps its undo and its bytes. */
static void resized_blocks(void **state) {
    (void)state;
    *undone = 0;
    for (int place = 0; place < 3; place++) { /* the oldest, one between others, the newest */
        char *blocks[3];
        for (int i = 0; i < 3; i++) blocks[i] = make_letter((char)('a' + i));
        const size_t mark = memory_mark();
        for (size_t size = 2; size < 1 << 20; size *= 8) {
            blocks[place] = memory_resize(blocks[place], size, "a letter");
            assert_int_equal(*blocks[place], 'a' + place);
            blocks[place][size - 1] = 'x';
        }
        memory_release(mark); /* it was made before */
        assert_string_equal(undone, "");
        memory_release(0);
        assert_string_equal(undone, "cba");
        *undone = 0;
    }
    char *text = memory_resize(NULL, 4, "a text");
    assert_memory_equal(text, "\0\0\0\0", 4);
    char *copy = memory_copy_text("copied", 4);
    assert_string_equal(copy, "copi");
    assert_non_null(memory_make(0, 8, "nothing"));
    static const size_t sizes[][2] = {{SIZE_MAX, 1}, {SIZE_MAX / 2, 3}, {SIZE_MAX - 8, 1}, {PTRDIFF_MAX, 1}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        assert_fails(STATUS_FAILED, "no memory for the test", memory_make(sizes[i][0], sizes[i][1], "the test"));
    assert_fails(STATUS_FAILED, "no memory for the test", memory_resize(text, SIZE_MAX, "the test"));
    assert_string_equal(copy, "copi");
}

/* exp as the layers use it: in a loop that the compiler vectorizes, for each instruction set. */
MULTIVERSIONED static void exp_of(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = exp_real(x[i]);
}

/* Distance to `expected` in units of the last place of a real near it. */
static double ulps(real actual, double expected) {
    return fabs((double)actual - expected) /
           ldexp((double)(sizeof(real) == 4 ? FLT_EPSILON : DBL_EPSILON), ilogb(expected));
}

static void exp_within_two_ulp(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    static const double bounds[][2] = {{-86, 88}, {-1, 1}, {-1e-3, 1e-3}, {88, 88.72}, {-86.59, -86}};
    for (size_t b = 0; b < COUNT_OF(bounds); b++) {
        real *x = reals(COUNT), *y = reals(COUNT);
        for (size_t i = 0; i < COUNT; i++)
            x[i] = (real)(bounds[b][0] + (bounds[b][1] - bounds[b][0]) * (double)i / (COUNT - 1));
        exp_of(y, x, COUNT);
        double worst[2] = {0};
        for (size_t i = 0; i < COUNT; i++) {
            worst[0] = fmax(worst[0], ulps(y[i], exp((double)x[i])));
            worst[1] = fmax(worst[1], ulps(exp_real(x[i]), exp((double)x[i]))); /* without fused multiply-add */
        }
        assert_that(worst[0] <= 2 && worst[1] <= 2, "exp on [%g, %g] is off by %.3g and %.3g ulp", bounds[b][0],
                    bounds[b][1], worst[0], worst[1]);
    }
}

static void exp_special_values(void **state) {
    (void)state;
    static const struct {
        real x, y;
    } cases[] = {
        {0, 1},         {(real)-0.0, 1},  {-200, 0},           {-INFINITY, 0}, {INFINITY, INFINITY},
        {89, INFINITY}, {1000, INFINITY}, {FLT_MAX, INFINITY}, {-FLT_MAX, 0},  {-87, 0},
        {NAN, NAN},     {FLT_MIN, 1},     {(real)1e-45, 1},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        real x[16], y[16]; /* one among others, in each place of a vector */
        for (size_t place = 0; place < 16; place++) {
            for (size_t i = 0; i < 16; i++) x[i] = i == place ? cases[n].x : 1;
            exp_of(y, x, 16);
            bool same = isnan(cases[n].y) ? isnan(y[place]) : y[place] == cases[n].y;
            assert_that(same, "exp(%g) is %g, not %g", (double)cases[n].x, (double)y[place], (double)cases[n].y);
        }
    }
}

/* Relative to the size of the result 8 ulp, where the tail underflows 1e-37. The argument of exp grows like x^3, and an
   error of half a unit in it is one of |u| / 2 units in the result: hence the tolerance grows with |u| below zero. */
static void gelu_in_float(void **state) {
    (void)state;
    enum { COUNT = 200001 };
    real *x = reals(COUNT), *y = reals(COUNT);
    for (size_t i = 0; i < COUNT; i++) x[i] = (real)(-12 + 24 * (double)i / (COUNT - 1));
    ACTIVATIONS[0].forward(y, NULL, x, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double v = (double)x[i], u2 = 2 * sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), expected = v / (1 + exp(-u2));
        double unit = FLT_EPSILON * fabs(expected);
        assert_close(y[i], expected, unit * (8 + 3 * fmax(0, -u2)) + 1e-37 * 12, "gelu(%.9g)", v);
        assert_close(y[i], expected, 1e-6 * fmax(1, fabs(v)), "gelu(%.9g)", v);
    }
}

/* Quantiles are those of NumPy's percentile. */
static void quantiles(void **state) {
    (void)state;
    double x[] = {4, -1, 10, 2};
    sort_numbers(x, 4);
    assert_true(x[0] == -1 && x[1] == 2 && x[2] == 4 && x[3] == 10);
    assert_true(quantile(x, 4, 0) == -1 && quantile(x, 4, 1) == 10 && quantile(x, 4, .5) == 3);
    assert_close(quantile(x, 4, .1), -.1, 1e-15, "p10");
    assert_close(quantile(x, 4, .99), 9.82, 1e-14, "p99");
    assert_true(quantile(x + 1, 3, .5) == 4 && quantile(x + 2, 1, 0) == 4 && quantile(x + 2, 1, .3) == 4);
}

static void fields_of_tables(void **state) {
    (void)state;
    static const struct {
        const char *text, *as_needed, *always;
    } cases[] = {{"", "", "\"\""},
                 {"plain text", "plain text", "\"plain text\""},
                 {"a,b", "\"a,b\"", "\"a,b\""},
                 {"\"a\"", "\"\"\"a\"\"\"", "\"\"\"a\"\"\""},
                 {"a\nb", "\"a\nb\"", "\"a\nb\""}};
    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        char *text;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        text_write_field(cases[i / 2].text, i % 2, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, i % 2 ? cases[i / 2].always : cases[i / 2].as_needed);
        free(text);
    }
}

static void appended_text_is_cut_off(void **state) {
    (void)state;
    char out[8] = "";
    text_append(out, sizeof out, "%d", 12);
    text_append(out, sizeof out, "; %s", "three");
    assert_string_equal(out, "12; thr");
    text_append(out, sizeof out, "more");
    assert_string_equal(out, "12; thr");
}

static void lines_of_a_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *line, *next;
        size_t columns;
    } cases[] = {{"aa bb cc", "aa bb", "cc", 5},
                 {"aa bb cc", "aa", "bb cc", 4},
                 {"aa  bb   cc", "aa  bb", "cc", 6},
                 {"longer x", "longer", "x", 3},
                 {"÷ √d 8", "÷ √d", "8", 4},
                 {"aa bb", "aa bb", "", 5},
                 {"", "", "", 5}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t line;
        assert_string_equal(text_next_line(cases[i].text, cases[i].columns, &line), cases[i].next);
        assert_int_equal(line, strlen(cases[i].line));
        assert_memory_equal(cases[i].text, cases[i].line, line);
    }
}

/* A column of numbers has equal digits, and no decimal point without any behind it. */
static void digits_of_numbers(void **state) {
    (void)state;
    static const struct {
        double number;
        int digits;
        const char *text;
    } cases[] = {{1, 4, "1.000"},     {.99961, 4, "0.9996"}, {1024, 4, "1024"},
                 {1e5, 2, "1.0e+05"}, {0, 3, "0.00"},        {2e-9, 2, "2.0e-09"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        text_digits(cases[i].number, cases[i].digits, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

/* A signal is noted; its repeats within a second change nothing; a later one ends the program. */
static void signals_that_repeat(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        int how;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], SIG_DFL);
            interrupt_catch();
            raise(SIGTERM);
            raise(SIGHUP);
            raise(SIGTERM);
            if (later) usleep(1100000);
            if (later) raise(SIGINT);
            _exit(interrupt_signal());
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (later) assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
        else assert_true(WIFEXITED(how) && WEXITSTATUS(how) == SIGTERM);
    }
}

/* A signal that whoever started the program ignores stays ignored; the others are noted. */
static void ignored_signals(void **state) {
    (void)state;
    for (int ignored = 0; ignored < INTERRUPT_COUNT; ignored++) {
        const int other = INTERRUPTS[(ignored + 1) % INTERRUPT_COUNT];
        int how;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int i = 0; i < INTERRUPT_COUNT; i++) signal(INTERRUPTS[i], i == ignored ? SIG_IGN : SIG_DFL);
            interrupt_catch();
            raise(INTERRUPTS[ignored]);
            if (interrupt_signal()) _exit(1);
            raise(other);
            _exit(interrupt_signal() == other ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(philox_known_answers),
        TEST(rng_streams_differ),
        TEST(rng_moments),
        TEST(rng_below_is_uniform),
        TEST(sizes),
        TEST(arena),
        TEST(arena_that_does_not_fit),
        TEST(ranges),
        TEST(tiles),
        TEST(messages),
        TEST(protected_calls),
        TEST(nested_protects),
        TEST(protects_in_undos),
        TEST(errors_without_a_protect),
        TEST(marks_and_releases),
        TEST(resized_blocks),
        TEST(quantiles),
        TEST(fields_of_tables),
        TEST(exp_within_two_ulp),
        TEST(exp_special_values),
        TEST(gelu_in_float),
        TEST(appended_text_is_cut_off),
        TEST(lines_of_a_text),
        TEST(digits_of_numbers),
        TEST(signals_that_repeat),
        TEST(ignored_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
