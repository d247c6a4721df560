/* gemm/gemm.c: against sums in double for every small shape and for sizes around its tiles, panels and pieces; and the
   bits of an entry of C do not depend on the width of the vectors or on how the rows and columns are shared out; of
   bf16 not on whether the processor has an instruction for it, nor on whether operands were rounded before. */
#include "support.h"

#include <cblas.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gemm/bf16.h"
#include "gemm/gemm.h"

#ifdef REAL_DOUBLE
#error "the kernels are for floats"
#endif

enum { GAP = 3 }; /* rows are stored this much longer than they are */

typedef struct {
    Product product;
    real *a, *b, *c; /* the operands, and C before */
    size_t c_size;
} Case;

/* Which operands are transposed, and whether there is a C or a bias to add to; of both, C counts. */
enum { TRANSPOSED_A = 1, TRANSPOSED_B = 2, ADDS = 4, BIAS = 8, FLAGS = 16 };

/* Numbers in rows `stride` apart, with NaN between them and in a row behind the last one: a product reads neither. */
static real *matrix(size_t rows, size_t width, size_t stride) {
    real *x = normal_reals((rows + 1) * stride, 1);
    for (size_t i = 0; i < (rows + 1) * stride; i++)
        if (i % stride >= width || i / stride >= rows) x[i] = NAN;
    return x;
}

static Case make(size_t m, size_t n, size_t k, unsigned flags, float alpha) {
    Case x = {.product = {.op_a = flags & TRANSPOSED_A ? TRANSPOSED : PLAIN,
                          .op_b = flags & TRANSPOSED_B ? TRANSPOSED : PLAIN,
                          .accumulate = flags & ADDS,
                          .m = m,
                          .n = n,
                          .k = k,
                          .ldc = n + GAP,
                          .alpha = alpha,
                          .bias = flags & BIAS ? normal_reals(n, 1) : NULL}};
    Product *p = &x.product;
    const size_t lda = (p->op_a == TRANSPOSED ? m : k) + GAP, ldb = (p->op_b == TRANSPOSED ? k : n) + GAP;
    x.a = p->op_a == TRANSPOSED ? matrix(k, m, lda) : matrix(m, k, lda);
    x.b = p->op_b == TRANSPOSED ? matrix(n, k, ldb) : matrix(k, n, ldb);
    p->a = (Operand){x.a, lda, FORM_REAL};
    p->b = (Operand){x.b, ldb, FORM_REAL};
    x.c_size = m * p->ldc;
    x.c = normal_reals(x.c_size, 1);
    if (!p->accumulate) /* entries that are overwritten may hold anything */
        for (size_t i = 0; i < x.c_size; i++)
            if (i % p->ldc < n) x.c[i] = NAN;
    return x;
}

static GemmKernel kernels[GEMM_AMX_BF16]; /* all but GEMM_NONE */
static size_t kernel_count;

static bool is_bf16(GemmKernel kernel) { return kernel >= GEMM_EMULATED_BF16; }

/* Another kernel that gives the same bits, where there is one. */
static GemmKernel same_bits(GemmKernel kernel) {
    if (kernel == GEMM_FLOAT4) return kernel; /* on arm64 it is the only one of floats */
    return kernel == GEMM_AMX_BF16 ? kernel : is_bf16(kernel) ? GEMM_EMULATED_BF16 : GEMM_AVX2;
}

/* Returns x, or with bf16 the nearest number with 8 significant bits. */
static real operand(GemmKernel kernel, real x) {
    int exponent;
    const double fraction = frexp((double)x, &exponent);
    return is_bf16(kernel) ? (real)ldexp(nearbyint(fraction * 256), exponent - 8) : x;
}

/* The operands that the kernel multiplies, rows of k steps each: op(a) (m,k) and the transpose of op(b) (n,k). */
typedef struct {
    real *a, *b;
} Multiplied;

static Multiplied multiplied(GemmKernel kernel, const Case *x) {
    const Product *p = &x->product;
    const Multiplied y = {reals(p->m * p->k), reals(p->n * p->k)};
    for (size_t i = 0; i < p->m; i++)
        for (size_t q = 0; q < p->k; q++)
            y.a[i * p->k + q] =
                operand(kernel, x->a[p->op_a == TRANSPOSED ? q * p->a.stride + i : i * p->a.stride + q]);
    for (size_t j = 0; j < p->n; j++)
        for (size_t q = 0; q < p->k; q++)
            y.b[j * p->k + q] =
                operand(kernel, x->b[p->op_b == TRANSPOSED ? j * p->b.stride + q : q * p->b.stride + j]);
    return y;
}

/* Computes entry (i, j), and the sum of the sizes of its terms, which bounds its rounding. */
static double expected(const Case *x, const Multiplied *y, size_t i, size_t j, double *size) {
    const Product *p = &x->product;
    const real *a = y->a + i * p->k, *b = y->b + j * p->k;
    double sum = 0, sizes = 0;
    for (size_t q = 0; q < p->k; q++) {
        const double term = (double)a[q] * (double)b[q];
        sum += term;
        sizes += fabs(term);
    }
    *size = fabs((double)p->alpha) * sizes + 1;
    const double start = p->accumulate ? (double)x->c[i * p->ldc + j] : p->bias ? (double)p->bias[j] : 0;
    return start + (double)p->alpha * sum;
}

/* x (rows, width) rounded, in memory of its own. */
static Bf16 *rounded(Arena *arena, const real *x, size_t ld, size_t rows, size_t width) {
    bf16_take(arena, rows, width);
    arena_allocate(arena, "a matrix");
    Bf16 *y = bf16_take(arena, rows, width);
    bf16_round(y, bf16_stride(width), x, ld, rows, width);
    return y;
}

/* The product with A, B or both in memory as bf16: its bits are those of `whole`. */
static void check_rounded(GemmKernel kernel, const Case *x, const real *whole) {
    const Product *o = &x->product;
    const size_t rows_a = o->op_a == TRANSPOSED ? o->k : o->m, width_a = o->op_a == TRANSPOSED ? o->m : o->k;
    const size_t rows_b = o->op_b == TRANSPOSED ? o->n : o->k, width_b = o->op_b == TRANSPOSED ? o->k : o->n;
    const size_t mark = memory_mark();
    Arena arena_a = {0}, arena_b = {0};
    const Operand a = {rounded(&arena_a, x->a, o->a.stride, rows_a, width_a), bf16_stride(width_a), FORM_BF16},
                  b = {rounded(&arena_b, x->b, o->b.stride, rows_b, width_b), bf16_stride(width_b), FORM_BF16};
    for (int which = 1; which <= 3; which++) {
        Product p = *o;
        if (which & 1) p.a = a;
        if (which & 2) p.b = b;
        real *c = copied_reals(x->c, x->c_size);
        gemm(kernel, &p, c);
        assert_memory_equal(c, whole, x->c_size * sizeof *c);
    }
    memory_release(mark);
}

/* op(B) packed in two parts, in memory that holds NaN before. */
static Operand packed_b(GemmKernel kernel, const Product *o, Arena *arena) {
    const size_t columns = (o->n + PACKED_COLUMNS - 1) / PACKED_COLUMNS * PACKED_COLUMNS;
    const size_t size = columns * (is_bf16(kernel) ? bf16_stride(o->k) / 2 : o->k);
    const size_t middle = o->n / 2 / PACKED_COLUMNS * PACKED_COLUMNS;
    arena_take(arena, size, sizeof(float));
    arena_allocate(arena, "a packed matrix");
    float *packed = arena_take(arena, size, sizeof *packed);
    memset(packed, 0xff, size * sizeof *packed);
    gemm_pack(kernel, o, (Range){middle, o->n}, packed);
    gemm_pack(kernel, o, (Range){0, middle}, packed);
    return (Operand){packed, 0, FORM_PACKED};
}

/* The product with a packed B has the bits of `whole`. */
static void check_packed(GemmKernel kernel, const Case *x, const real *whole) {
    const size_t mark = memory_mark();
    Arena arena = {0};
    Product p = x->product;
    p.b = packed_b(kernel, &p, &arena);
    real *c = copied_reals(x->c, x->c_size);
    gemm(kernel, &p, c);
    assert_memory_equal(c, whole, x->c_size * sizeof *c);
    memory_release(mark);
}

static void check(GemmKernel kernel, size_t m, size_t n, size_t k, unsigned flags, float alpha) {
    Case x = make(m, n, k, flags, alpha);
    const Product *p = &x.product;
    const Multiplied y = multiplied(kernel, &x);
    real *c = copied_reals(x.c, x.c_size);
    gemm(kernel, p, c);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < p->ldc; j++) {
            double size, value = j < n ? expected(&x, &y, i, j, &size) : 0;
            if (j < n)
                assert_close(c[i * p->ldc + j], value, 1.2e-7 * (double)(k + 2) * size, "(%zu,%zu,%zu) %u [%zu,%zu]", m,
                             n, k, flags, i, j);
            else assert_true(c[i * p->ldc + j] == x.c[i * p->ldc + j]); /* nothing between the rows changes */
        }
    if (is_bf16(kernel)) check_rounded(kernel, &x, c);
    check_packed(kernel, &x, c);
    support_release(NULL);
}

static void small_shapes(void) {
    for (size_t l = 0; l < kernel_count; l++)
        for (size_t m = 1; m <= 41; m += m < 14 ? 1 : 9)
            for (size_t n = 1; n <= 36; n += n < 18 ? 1 : 6)
                for (size_t k = 1; k <= 33; k += k < 4 ? 1 : k < 18 ? 7 : 15)
                    check(kernels[l], m, n, k, (unsigned)(m + 3 * n + 5 * k) % FLAGS, k % 2 ? 1 : .37F);
}

static void shapes_of_a_model(void) {
    static const size_t shapes[][3] = {{384, 384, 128}, {64, 64, 32},   {64, 32, 64},  {128, 64, 768}, {65, 128, 300},
                                       {37, 65, 256},   {25, 97, 257},  {500, 33, 16}, {33, 40, 31},   {20, 70, 95},
                                       {13, 530, 90},   {7, 1030, 515}, {20, 33, 1601}};
    for (size_t l = 0; l < kernel_count; l++)
        for (size_t s = 0; s < COUNT_OF(shapes); s++)
            for (unsigned flags = 0; flags < FLAGS; flags += s < 4 || s + 1 == COUNT_OF(shapes) ? 1 : 3)
                check(kernels[l], shapes[s][0], shapes[s][1], shapes[s][2], flags, flags % 2 ? 1 : .5F);
}

/* Computes the whole product, then by rows, by columns and with vectors of the other width. */
static void bits_are_the_same(void) {
    for (unsigned flags = 0; flags < 2 * FLAGS; flags++) {
        Case x = make(101, 150, 300, flags % FLAGS, flags < FLAGS ? 1 : .37F);
        const Product *p = &x.product;
        real *whole = copied_reals(x.c, x.c_size), *other = reals(x.c_size);
        for (size_t l = 0; l < kernel_count; l++) {
            memcpy(whole, x.c, x.c_size * sizeof *whole);
            gemm(same_bits(kernels[l]), p, whole);
            memcpy(other, x.c, x.c_size * sizeof *other);
            gemm(kernels[l], p, other);
            assert_memory_equal(whole, other, x.c_size * sizeof *other);
            memcpy(other, x.c, x.c_size * sizeof *other);
            for (size_t i = 0; i < p->m; i += 7) {
                Product part = *p;
                part.m = p->m - i < 7 ? p->m - i : 7;
                part.a = p->op_a == TRANSPOSED ? operand_from(p->a, 0, i) : operand_from(p->a, i, 0);
                gemm(kernels[l], &part, other + i * p->ldc);
            }
            assert_memory_equal(whole, other, x.c_size * sizeof *other);
            memcpy(other, x.c, x.c_size * sizeof *other);
            for (size_t j = 0; j < p->n; j += 48) {
                Product part = *p;
                part.n = p->n - j < 48 ? p->n - j : 48;
                part.b = p->op_b == TRANSPOSED ? operand_from(p->b, j, 0) : operand_from(p->b, 0, j);
                if (p->bias) part.bias = p->bias + j;
                gemm(kernels[l], &part, other + j);
            }
            assert_memory_equal(whole, other, x.c_size * sizeof *other);
        }
        support_release(NULL);
    }
}

/* A triangle of a product has the bits of the whole product. */
static void triangles(void) {
    static const size_t shapes[][4] = {{64, 64, 32, 0},    {64, 128, 48, 64}, {100, 32, 100, 0}, {33, 40, 450, 417},
                                       {450, 40, 33, 417}, {13, 9, 7, 2},     {33, 40, 900, 867}};
    for (size_t l = 0; l < kernel_count; l++)
        for (size_t s = 0; s < COUNT_OF(shapes); s++)
            for (unsigned flags = 0; flags < FLAGS; flags++)
                for (Triangle triangle = LOWER_C; triangle <= UPPER_A; triangle++) {
                    const size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2], d = shapes[s][3];
                    Case x = make(m, n, k, flags, flags % 2 ? 1 : .5F);
                    Product *p = &x.product;
                    for (size_t i = 0; i < m; i++)
                        for (size_t q = 0; q < k; q++)
                            if ((triangle == LOWER_A && q > i + d) || (triangle == UPPER_A && i > q + d))
                                x.a[p->op_a == TRANSPOSED ? q * p->a.stride + i : i * p->a.stride + q] = 0;
                    real *whole = copied_reals(x.c, x.c_size), *half = copied_reals(x.c, x.c_size);
                    gemm(kernels[l], p, whole);
                    p->triangle = triangle, p->diagonal = d;
                    gemm(kernels[l], p, half);
                    for (size_t i = 0; i < m; i++)
                        for (size_t j = 0; j < n; j++)
                            if (triangle != LOWER_C || j <= i + d)
                                assert_that(memcmp(&half[i * p->ldc + j], &whole[i * p->ldc + j], sizeof *half) == 0,
                                            "(%zu,%zu,%zu) %u %d [%zu,%zu]", m, n, k, flags, (int)triangle, i, j);
                    support_release(NULL);
                }
}

/* Memory that ends before a page which may not be touched. */
typedef struct {
    char *pages;
    size_t room, page;
} Guarded;

static Guarded guard(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + room, page, PROT_NONE) == 0);
    return (Guarded){pages, room, page};
}

/* Nothing behind C is touched, and at most 15 rows behind a plain A of bf16. Sanitizers do not see what the processor's
   tiles read and write. */
static void nothing_beyond(void) {
    static const size_t heights[] = {1, 15, 16, 17, 31, 32, 33, 48, 65};
    enum { N = 32, DEPTH = 64 };
    for (size_t l = 0; l < kernel_count; l++)
        for (size_t r = 0; r < COUNT_OF(heights); r++)
            for (unsigned flags = 0; flags < FLAGS; flags += ADDS) {
                const size_t m = heights[r], entries = is_bf16(kernels[l]) ? (m + 15) * DEPTH : m * DEPTH;
                const size_t size = is_bf16(kernels[l]) ? sizeof(Bf16) : sizeof(real);
                const Guarded a = guard(entries * size), c = guard(m * N * sizeof(real));
                Case x = make(m, N, DEPTH, flags, 1);
                x.product.a = (Operand){a.pages + a.room - entries * size, DEPTH, FORM_REAL};
                if (is_bf16(kernels[l])) x.product.a.form = FORM_BF16;
                x.product.ldc = N;
                gemm(kernels[l], &x.product, (real *)(c.pages + c.room) - m * N);
                assert_int_equal(munmap(a.pages, a.room + a.page) | munmap(c.pages, c.room + c.page), 0);
                support_release(NULL);
            }
}

/* A NaN or an infinity reaches the entries it must and no others, also next to the zeros that pad a panel. */
static void not_finite(void) {
    for (size_t l = 0; l < kernel_count; l++) {
        Case x = make(5, 19, 4, 0, 1);
        x.a[2 * x.product.a.stride + 1] = INFINITY;
        x.b[3 * x.product.b.stride + 18] = NAN;
        gemm(kernels[l], &x.product, x.c);
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 19; j++) {
                float c = x.c[i * x.product.ldc + j];
                assert_that(j == 18 ? isnan(c) : i == 2 ? isinf(c) : isfinite(c), "[%zu,%zu] is %g", i, j, (double)c);
            }
        support_release(NULL);
    }
}

/* A weight (in, out), packed as a linear layer's products read it. */
static Operand packed_weight(Operand w, size_t in, size_t out, Orientation as, Arena *arena) {
    const size_t n = as == PLAIN ? out : in, k = as == PLAIN ? in : out, size = matmul_packed_size(k, n, true);
    arena_take(arena, size, sizeof(float));
    arena_allocate(arena, "a packed weight");
    float *packed = arena_take(arena, size, sizeof *packed);
    matmul_pack(&(Product){.op_b = as, .n = n, .k = k, .b = w}, (Range){0, n}, packed);
    return (Operand){packed, 0, FORM_PACKED};
}

/* The four products and sums of a linear layer: y (rows, out), dx (rows, in), dw (in, out), db (out). */
static void linear_layer(real *const to[4], Operand x, Operand dy, Operand w, Operand transposed, const real *bias,
                         size_t rows, size_t in, size_t out) {
    const Product products[] = {
        {.m = rows, .n = out, .k = in, .a = x, .b = w, .ldc = out, .alpha = 1, .bias = bias},
        {.op_b = TRANSPOSED, .m = rows, .n = in, .k = out, .a = dy, .b = transposed, .ldc = in, .alpha = 1},
        {.op_a = TRANSPOSED, .m = in, .n = out, .k = rows, .a = x, .b = dy, .ldc = out, .alpha = 1}};
    for (size_t i = 0; i < COUNT_OF(products); i++) matmul_product(&products[i], to[i]);
    operand_sum_rows(to[3], dy, rows, (Range){0, out});
}

/* A linear layer whose x and dy were rounded before, and whose weight was packed: the numbers it gets from the same
   numbers as floats. */
static void linear_layer_of_bf16(void) {
    static const size_t shapes[][2] = {{40, 1}, {40, 15}, {40, 16}, {33, 17}, {40, 64}, {800, 150}, {35, 1601}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const size_t rows = 50, in = shapes[i][0], out = shapes[i][1];
        const real *bias = normal_reals(out, 1);
        real *floats = normal_reals(rows * out, 1);
        const Operand x = {normal_reals(rows * in, 1), in, FORM_ROUNDED}, dy = {floats, out, FORM_ROUNDED};
        const Operand w = {normal_reals(in * out, 1), out, FORM_ROUNDED};
        Arena arenas[4] = {{0}};
        const Operand rounded_x = {rounded(&arenas[0], x.rows, in, rows, in), bf16_stride(in), FORM_BF16};
        const Operand rounded_dy = {rounded(&arenas[1], floats, out, rows, out), bf16_stride(out), FORM_BF16};
        const Operand packed = packed_weight(w, in, out, PLAIN, &arenas[2]);
        const Operand transposed = packed_weight(w, in, out, TRANSPOSED, &arenas[3]);
        bf16_expand(floats, out, rounded_dy.rows, rounded_dy.stride, rows, out);

        real *expected[] = {reals(rows * out), reals(rows * in), reals(in * out), reals(out)};
        real *got[] = {reals(rows * out), reals(rows * in), reals(in * out), reals(out)};
        linear_layer(expected, x, dy, w, w, bias, rows, in, out);
        linear_layer(got, rounded_x, rounded_dy, packed, transposed, bias, rows, in, out);
        const size_t sizes[] = {rows * out, rows * in, in * out, out};
        for (size_t a = 0; a < COUNT_OF(sizes); a++) {
            assert_memory_equal(got[a], expected[a], sizes[a] * sizeof(real));
            assert_true(expected[a][0] != 0);
        }
        support_release(NULL);
    }
}

static int openblas_products;
void cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, blasint m, blasint n, blasint k,
                 float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta, float *c,
                 blasint ldc) {
    static __typeof__(cblas_sgemm) *real_sgemm;
    if (!real_sgemm) *(void **)&real_sgemm = dlsym(RTLD_NEXT, "cblas_sgemm");
    openblas_products++;
    real_sgemm(layout, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* The kernel that matmul_kernels names, for the announcement and run.json, makes the products: OpenBLAS where it is
   named and nowhere else, and of two kernels whose bits differ the named one. This program calls nothing that could
   choose one. */
static void named_kernel_runs(void) {
#ifdef __x86_64__
    const char *const float4 = ""; /* never chosen */
#else
    const char *const float4 = "sqrtdk";
#endif
    const char *const NAMES[] = {[GEMM_FLOAT4] = float4,
                                 [GEMM_AVX2] = "sqrtdk",
                                 [GEMM_AVX512] = "sqrtdk",
                                 [GEMM_EMULATED_BF16] = "emulated bf16",
                                 [GEMM_AVX512_BF16] = "AVX512-BF16",
                                 [GEMM_AMX_BF16] = "AMX-BF16"};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *named = matmul_kernels(bf16);
        const bool openblas = strcmp(named, "OpenBLAS") == 0;
        Case x = make(37, 41, 500, 0, 1);
        real *expected = filled_reals(x.c_size, NAN);
        x.product.a.form = bf16 ? FORM_ROUNDED : FORM_REAL;
        openblas_products = 0;
        matmul_product(&x.product, x.c);
        assert_int_equal(openblas_products, openblas);
        size_t found = openblas;
        for (size_t l = 0; l < kernel_count; l++) {
            if (strcmp(NAMES[kernels[l]], named) != 0) continue;
            gemm(kernels[l], &x.product, expected);
            for (size_t r = 0; r < x.product.m; r++)
                assert_memory_equal(x.c + r * x.product.ldc, expected + r * x.product.ldc, x.product.n * sizeof(real));
            found++;
        }
        assert_true(found > 0 && matmul_is_own() == (strcmp(matmul_kernels(false), "sqrtdk") == 0));
    }
}

int main(void) {
    for (GemmKernel kernel = GEMM_FLOAT4; kernel <= GEMM_AMX_BF16; kernel++)
        if (gemm_runs(kernel)) kernels[kernel_count++] = kernel;
    return RUN_TESTS(TEST(named_kernel_runs), TEST(small_shapes), TEST(shapes_of_a_model), TEST(bits_are_the_same),
                     TEST(triangles), TEST(nothing_beyond), TEST(not_finite), TEST(linear_layer_of_bf16));
}
