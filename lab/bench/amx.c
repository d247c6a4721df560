/* Measures what limits products by AMX's tiles (lab/docs/bench.md): how fast they are in registers, how long the first
   ones take after a pause, and the clock at which tiles of zeros and of random numbers are multiplied. Two threads do
   the same; printed are medians of the first.

       gcc -O2 -fopenmp -march=sapphirerapids lab/bench/amx.c -o /tmp/amx && OMP_PROC_BIND=true /tmp/amx */
#include <immintrin.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    REPEATS = 2001,
    TILE = 1024,              /* bytes: 16 rows of 32 bf16 */
    LEFT = 16,                /* tiles of the left operand: in the first-level cache */
    RIGHT = 512,              /* of the right one: in the second-level cache */
    MANY = 4000,              /* products: about 20 microseconds */
    FEW = 16,                 /* products: a tenth of a microsecond */
    FLOPS = 2 * 16 * 16 * 32, /* of a product */
    CHAIN = 3000,             /* multiplications that wait for each other */
    CYCLES = 3,               /* of one of these */
};

static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} CONFIG = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Multiplies tiles; if `loads`, loads as many tiles as it makes products, as src/gemm/gemm_kernel.h does. */
static void multiply(int products, bool loads, const char *left, const char *right) {
    __asm__ volatile("" ::: "memory"); /* gcc does not know that _tile_loadd reads memory */
    for (int i = 0; i < products / 4; i++) {
        if (loads) {
            _tile_loadd(4, left + 2 * i % LEFT * TILE, 64);
            _tile_loadd(5, left + (2 * i + 1) % LEFT * TILE, 64);
            _tile_loadd(6, right + 2 * i % RIGHT * TILE, 64);
            _tile_loadd(7, right + (2 * i + 1) % RIGHT * TILE, 64);
        }
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _mm_lfence();
}

/* The clock in GHz. */
static double measure_clock(void) {
    uint64_t x = 3;
    const double start = omp_get_wtime();
    for (int i = 0; i < CHAIN; i++) __asm__ volatile("imul %0, %0" : "+r"(x));
    _mm_lfence();
    return CHAIN * CYCLES / (omp_get_wtime() - start) / 1e9;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median seconds of these products after a pause, and the median clock after them. */
static void measure(int products, bool loads, double pause, const char *left, const char *right, double *seconds,
                    double *clock) {
    static _Thread_local double times[REPEATS], clocks[REPEATS];
#pragma omp barrier
    for (int r = 0; r < REPEATS; r++) {
        double start = omp_get_wtime();
        while (omp_get_wtime() - start < pause) continue;
        start = omp_get_wtime();
        multiply(products, loads, left, right);
        times[r] = omp_get_wtime() - start;
        clocks[r] = products == MANY ? measure_clock() : 0;
    }
    qsort(times, REPEATS, sizeof *times, compare);
    qsort(clocks, REPEATS, sizeof *clocks, compare);
    *seconds = times[REPEATS / 2], *clock = clocks[REPEATS / 2];
}

/* Tiles of zeros, or of random numbers between -.016 and .016. */
static char *tiles(int count, bool random) {
    uint16_t *x = aligned_alloc(64, (size_t)count * TILE);
    if (!x) exit(EXIT_FAILURE);
    uint32_t state = 1;
    for (int i = 0; i < count * TILE / 2; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = random ? (uint16_t)(0x3c00 | (state >> 16 & 0x807f)) : 0;
    }
    return (char *)x;
}

int main(void) {
    if (syscall(SYS_arch_prctl, 0x1023, 18)) { /* ARCH_REQ_XCOMP_PERM, the tiles' data */
        fprintf(stderr, "this system has no AMX\n");
        return EXIT_FAILURE;
    }
#pragma omp parallel num_threads(2)
    {
        static const double pauses[] = {0, .3e-6, .6e-6, 10e-6, 110e-6};
        if (omp_get_num_threads() < 2) exit(EXIT_FAILURE); /* the system gives no second thread */
        const bool prints = omp_get_thread_num() == 0;
        double seconds, clock;
        __asm__ volatile("ldtilecfg %0" ::"m"(CONFIG));
        for (int random = 0; random < 2; random++) {
            char *left = tiles(LEFT, random), *right = tiles(RIGHT, random);
            for (int loads = 0; loads < 2; loads++) {
                multiply(4, true, left, right); /* loads the tiles that are then multiplied in registers */
                measure(MANY, loads, 0, left, right, &seconds, &clock);
                if (prints)
                    printf("%s %s: %.2f TFLOP/s per thread, %.2f GHz\n", random ? "random numbers" : "zeros",
                           loads ? "from the caches" : "in registers", (double)MANY * FLOPS / seconds / 1e12, clock);
            }
            free(left), free(right);
        }
        for (size_t p = 0; p < sizeof pauses / sizeof *pauses; p++) {
            measure(FEW, false, pauses[p], NULL, NULL, &seconds, &clock);
            if (prints) printf("%d products after a pause of %.1f us: %.0f ns\n", FEW, 1e6 * pauses[p], 1e9 * seconds);
        }
    }
    return EXIT_SUCCESS;
}
