/* Sizes that cannot wrap, arenas, and how work is split over threads. */
#include "support.h"

#include "base/range.h"

static void sizes(void) {
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
    assert_true(memory_of_machine() > 1 << 20);
}

static void arena(void) {
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
}

static void arena_that_does_not_fit(void) {
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

static void ranges(void) {
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

int main(void) { return RUN_TESTS(TEST(sizes), TEST(arena), TEST(arena_that_does_not_fit), TEST(ranges)); }
