/* Every layer of ops/, alone and in double precision: backward against differences of forward, all entries, and both
   against their contracts. L = <r, y> with a fixed random r, so that dL/dy = r. Attention has a file of its
   own, test_gradients_attention.c. */
#include "support.h"

#include "gemm/matmul.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layernorm.h"
#include "ops/linear.h"

#ifndef REAL_DOUBLE
#error "differences need the double build"
#endif

static const double STEP = 1e-3;

/* One layer with everything any of them has; `forward` computes y from the rest. */
typedef struct Layer Layer;
struct Layer {
    void (*forward)(Layer *);
    size_t rows, in, out, outputs;
    real *x, *w, *b, *y, *dy, *mean, *rstd;
    const int32_t *ids;
};

static double layer_loss(void *context, uint64_t *branch) {
    Layer *layer = context;
    (void)branch;
    layer->forward(layer);
    return dot(layer->y, layer->dy, layer->outputs);
}

/* Outputs start as NaN: a function that overwrites must not read them, and must write all of them. */
static void layer_start(Layer *layer, size_t outputs) {
    layer->outputs = outputs;
    layer->y = filled_reals(outputs, NAN);
    layer->dy = normal_reals(outputs, 1);
    layer->forward(layer);
}

static void check_layer(Layer *layer, const char *name, real *x, const real *analytic, size_t count) {
    check_gradient(name, layer_loss, layer, x, analytic, count, 0, STEP);
}

/* Gradients that are added to start at 1, which is subtracted here. */
static void minus_one(real *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] -= 1;
}

/* Asserts that of a (rows, columns) array that held 1 everywhere, nothing outside `range` of the columns changed. */
static void assert_untouched_outside(const real *x, size_t rows, size_t columns, Range range, const char *name) {
    for (size_t i = 0; i < rows * columns; i++)
        if (i % columns < range.begin || i % columns >= range.end) assert_close(x[i], 1, 0, "%s[%zu]", name, i);
}

static Operand operand(const real *x, size_t width) { return (Operand){x, width, FORM_REAL}; }

static void forward_linear(Layer *l) {
    linear_forward(l->y, operand(l->x, l->in), operand(l->w, l->out), l->b, l->rows, l->in, l->out, false);
}

static void linear(void **state) {
    (void)state;
    static const struct {
        size_t rows, in, out;
        bool bias;
    } cases[] = {
        {1, 1, 1, true}, {5, 7, 33, true}, {5, 7, 33, false}, {17, 24, 16, true}, {3, 40, 5, false}, {70, 9, 50, true},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        const size_t rows = cases[n].rows, in = cases[n].in, out = cases[n].out;
        const bool bias = cases[n].bias;
        Layer l = {.forward = forward_linear, .rows = rows, .in = in, .out = out};
        l.x = normal_reals(rows * in, 1), l.w = normal_reals(in * out, 1), l.b = bias ? normal_reals(out, 1) : NULL;
        layer_start(&l, rows * out);
        real *expected = reals(rows * out);
        for (size_t i = 0; i < rows * out; i++) {
            expected[i] = bias ? l.b[i % out] : 0;
            for (size_t j = 0; j < in; j++) expected[i] += l.x[i / out * in + j] * l.w[j * out + i % out];
        }
        assert_all_close(l.y, expected, rows * out, 1e-13, "y");

        const Operand x = operand(l.x, in), dy = operand(l.dy, out), w = operand(l.w, out);
        real *dx = filled_reals(rows * in, NAN), *whole = filled_reals(in * out, 1), *parts = filled_reals(in * out, 1);
        real *db = bias ? filled_reals(out, 1) : NULL;
        linear_backward_input(dx, dy, w, rows, in, out, false);
        linear_backward_weight(whole, x, dy, rows, out, (Tile){{0, in}, {0, out}}, true, false);
        for (size_t id = 0; id < 6; id++)
            linear_backward_weight(parts, x, dy, rows, out, tile_split(in, out, 4, id, 6), true, false);
        for (size_t id = 0; bias && id < 3; id++) linear_backward_bias(db, dy, rows, range_split(out, 16, id, 3));
        assert_all_close(parts, whole, in * out, 1e-13, "parts of dw");
        minus_one(parts, in * out);
        check_layer(&l, "x", l.x, dx, rows * in);
        check_layer(&l, "w", l.w, parts, in * out);
        if (bias) minus_one(db, out), check_layer(&l, "b", l.b, db, out);

        Range some = {out / 3, out - out / 4};
        real *dw = filled_reals(in * out, 1);
        db = filled_reals(out, 1);
        linear_backward_weight(dw, x, dy, rows, out, (Tile){{0, in}, some}, true, false);
        linear_backward_bias(db, dy, rows, some);
        assert_untouched_outside(dw, in, out, some, "dw");
        assert_untouched_outside(db, 1, out, some, "db");
        linear_backward_weight(dw, x, dy, rows, out, (Tile){{0, in}, {out, out}}, true, false); /* nothing to do */
        linear_backward_weight(dw, x, dy, rows, out, (Tile){{in, in}, {0, out}}, true, false);
        assert_untouched_outside(dw, in, out, some, "dw");
        support_release(NULL);
    }
}

static void forward_layernorm(Layer *l) { layernorm_forward(l->y, l->mean, l->rstd, l->x, l->w, l->b, l->rows, l->in); }

static void layernorm(void **state) {
    (void)state;
    static const struct {
        size_t rows, C;
        bool bias;
        double mean;
    } cases[] = {
        {3, 2, true, 0},  {1, 5, true, 0},     {4, 16, false, 0}, {7, 33, true, 2},
        {3, 48, true, 0}, {2, 130, false, -3}, {5, 12, true, 0},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        const size_t rows = cases[n].rows, C = cases[n].C;
        const bool bias = cases[n].bias;
        Layer l = {.forward = forward_layernorm, .rows = rows, .in = C};
        l.x = normal_reals(rows * C, 1), l.w = normal_reals(C, 1), l.b = bias ? normal_reals(C, 1) : NULL;
        for (size_t i = 0; i < rows * C; i++) l.x[i] += cases[n].mean;
        l.mean = filled_reals(rows, NAN), l.rstd = filled_reals(rows, NAN);
        layer_start(&l, rows * C);
        real *expected = reals(rows * C);
        for (size_t r = 0; r < rows; r++) {
            const real *x = l.x + r * C;
            double mean = 0, variance = 0;
            for (size_t c = 0; c < C; c++) mean += x[c] / (double)C;
            for (size_t c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)C;
            for (size_t c = 0; c < C; c++)
                expected[r * C + c] = (x[c] - mean) / sqrt(variance + 1e-5) * l.w[c] + (bias ? l.b[c] : 0);
        }
        assert_all_close(l.y, expected, rows * C, 1e-13, "y");

        real *dx = filled_reals(rows * C, NAN), *residual = normal_reals(rows * C, 1);
        layernorm_backward_input(dx, NULL, l.dy, l.x, l.w, l.mean, l.rstd, rows, C);
        real *sum = filled_reals(rows * C, NAN), *in_place = copied_reals(residual, rows * C);
        layernorm_backward_input(sum, residual, l.dy, l.x, l.w, l.mean, l.rstd, rows, C);
        layernorm_backward_input(in_place, in_place, l.dy, l.x, l.w, l.mean, l.rstd, rows, C);
        for (size_t i = 0; i < rows * C; i++) {
            assert_close(sum[i], dx[i] + residual[i], 1e-13 * (1 + fabs(dx[i])), "dx + residual [%zu]", i);
            assert_close(in_place[i], sum[i], 0, "dx in place [%zu]", i);
        }
        real *dw = filled_reals(C, 1), *db = bias ? filled_reals(C, 1) : NULL;
        for (size_t id = 0; id < 3; id++)
            layernorm_backward_weight(dw, db, l.dy, l.x, l.mean, l.rstd, rows, C, range_split(C, 8, id, 3));
        minus_one(dw, C);
        check_layer(&l, "x", l.x, dx, rows * C);
        check_layer(&l, "gamma", l.w, dw, C);
        if (bias) minus_one(db, C), check_layer(&l, "beta", l.b, db, C);

        Range some = {C / 3, C - C / 4};
        real *part = filled_reals(C, 1), *part_b = filled_reals(C, 1);
        layernorm_backward_weight(part, part_b, l.dy, l.x, l.mean, l.rstd, rows, C, some);
        assert_untouched_outside(part, 1, C, some, "dgamma");
        assert_untouched_outside(part_b, 1, C, some, "dbeta");
        support_release(NULL);
    }
}

/* LayerNorm's limits: one entry is its own mean, constant rows have variance 0, and a large mean must not swallow
   the variance. */
static void layernorm_extremes(void **state) {
    (void)state;
    real x[4] = {3, -1, 0, 7}, gamma[4] = {2, 2, 2, 2}, beta[4] = {.5, .5, .5, .5}, y[4], mean[4], rstd[4];
    real dy[4] = {1, 2, 3, 4}, dx[4], residual[4] = {9, 8, 7, 6};
    layernorm_forward(y, mean, rstd, x, gamma, beta, 4, 1);
    assert_all_equal(y, 4, .5, "y of C = 1");
    layernorm_backward_input(dx, residual, dy, x, gamma, mean, rstd, 4, 1);
    for (int i = 0; i < 4; i++) assert_close(dx[i], residual[i], 0, "dx of C = 1 [%d]", i);

    real constant[4] = {.1, .1, .1, .1};
    layernorm_forward(y, mean, rstd, constant, gamma, beta, 1, 4);
    assert_close(rstd[0], 1 / sqrt(1e-5), 1e-9, "rstd of a constant row");
    for (int i = 0; i < 4; i++) assert_close(y[i], .5, 1e-12, "y of a constant row [%d]", i);

    real *far = normal_reals(40, 1), *near = copied_reals(far, 40), *one = filled_reals(40, 1);
    for (int i = 0; i < 40; i++) far[i] = near[i] + 1e6;
    real *y_far = reals(40), *y_near = reals(40);
    layernorm_forward(y_far, mean, rstd, far, one, NULL, 1, 40);
    layernorm_forward(y_near, mean, rstd, near, one, NULL, 1, 40);
    assert_all_close(y_far, y_near, 40, 1e-8, "y with a mean of a million");
}

/* The formulas in the order of ACTIVATIONS. */
static double gelu(double x) { return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + .044715 * x * x * x))); }
static double relu(double x) { return fmax(x, 0); }
static double (*const FORMULAS[])(double) = {gelu, relu};

static const ActivationRow *activation; /* that forward_activation calls */
static void forward_activation(Layer *l) { activation->forward(l->y, NULL, l->x, l->in); }

static void activations(void **state) {
    (void)state;
    static const size_t counts[] = {1, 15, 67};
    for (size_t n = 0; n < COUNT_OF(counts) * COUNT_OF(FORMULAS); n++) {
        const size_t count = counts[n / COUNT_OF(FORMULAS)];
        activation = &ACTIVATIONS[n % COUNT_OF(FORMULAS)];
        Layer l = {.forward = forward_activation, .in = count, .x = normal_reals(count, 2)};
        for (size_t i = 0; i < count; i++)
            if (fabs(l.x[i]) < .01) l.x[i] = i % 2 ? .01 : -.01; /* off the kink of ReLU */
        l.x[0] = 1.5; /* a gradient that is not tiny where there is one entry */
        layer_start(&l, count);
        for (size_t i = 0; i < count; i++)
            assert_close(l.y[i], FORMULAS[n % COUNT_OF(FORMULAS)](l.x[i]), 1e-15 * (1 + fabs(l.x[i])), "y[%zu]", i);
        real *dx = filled_reals(count, NAN), *in_place = copied_reals(l.dy, count);
        real *y = reals(count), *derivative = copied_reals(l.x, count);
        activation->forward(y, derivative, derivative, count);
        for (size_t i = 0; i < count; i++) assert_close(y[i], l.y[i], 0, "y beside the derivative [%zu]", i);
        activation_backward(dx, l.dy, derivative, count);
        activation_backward(in_place, in_place, derivative, count);
        for (size_t i = 0; i < count; i++) assert_close(in_place[i], dx[i], 0, "dx in place [%zu]", i);
        check_layer(&l, "x", l.x, dx, count);
        support_release(NULL);
    }
    real x[6] = {0, -0.0, NAN, 5, -1000, 1000}, dy[6] = {3, 3, 3, NAN, 3, 3}, y[6], dx[6], derivative[6];
    ACTIVATIONS[1].forward(y, derivative, x, 6);
    activation_backward(dx, dy, derivative, 6);
    assert_that(y[0] == 0 && y[1] == 0 && dx[0] == 0 && dx[1] == 0, "ReLU at 0");
    assert_that(isnan(y[2]) && isnan(dx[3]), "ReLU keeps NaN");
    ACTIVATIONS[0].forward(y, derivative, x, 6);
    activation_backward(dx, dy, derivative, 6);
    assert_that(y[0] == 0 && isnan(y[2]) && isnan(dx[2]) && isnan(dx[3]), "GELU at 0 and NaN");
    assert_that(y[4] == 0 && y[5] == 1000 && dx[4] == 0 && dx[5] == 3, "GELU far out");
}

/* The embedding of T positions, `out` columns wide; w is wte, b is wpe, both longer than what is used. */
static void forward_embedding(Layer *l) {
    const size_t T = l->in;
    for (size_t id = 0; id < 3; id++)
        embedding_forward(l->y, l->ids, l->w, l->b, T, l->out, range_split(l->rows, 1, id, 3));
}

static void embedding(void **state) {
    (void)state;
    enum { B = 3, T = 4, C = 19, V = 6, LONGER = 7 };
    int32_t tokens[B * T] = {0, 5, 5, 2, 5, 1, 0, 0, 2, 2, 5, 1}; /* 3 and 4 do not occur */
    Layer l = {.forward = forward_embedding, .rows = B * T, .in = T, .out = C, .ids = tokens};
    l.w = normal_reals(V * C, 1), l.b = normal_reals(LONGER * C, 1);
    layer_start(&l, B * T * C);
    for (size_t r = 0; r < B * T; r++)
        for (size_t c = 0; c < C; c++)
            assert_close(l.y[r * C + c], l.w[(size_t)tokens[r] * C + c] + l.b[r % T * C + c], 0, "x[%zu,%zu]", r, c);
    real *dwte = filled_reals(V * C, 1), *dwpe = filled_reals(T * C, 1); /* dwpe is (T, C) */
    embedding_backward(dwte, dwpe, l.dy, tokens, B * T, T, C, (Range){8, 16});
    assert_untouched_outside(dwte, V, C, (Range){8, 16}, "dwte");
    assert_untouched_outside(dwpe, T, C, (Range){8, 16}, "dwpe");
    embedding_backward(dwte, dwpe, l.dy, tokens, B * T, T, C, (Range){0, 8});
    embedding_backward(dwte, dwpe, l.dy, tokens, B * T, T, C, (Range){16, C});
    minus_one(dwte, V * C), minus_one(dwpe, T * C);
    check_layer(&l, "wte", l.w, dwte, V * C);
    check_layer(&l, "wpe", l.b, dwpe, T * C);
    assert_all_equal(dwte + 3 * C, 2 * C, 0, "gradient of tokens that do not occur");
}

/* The logits of op_unembedding_forward: a linear layer by the transposed weight (V,C). */
static void forward_unembedding(Layer *l) {
    linear_backward_input(l->y, operand(l->x, l->in), operand(l->w, l->in), l->rows, l->out, l->in, false);
}

static void unembedding(void **state) {
    (void)state;
    static const struct { size_t rows, C, V; } cases[] = {{1, 1, 1}, {5, 19, 7}, {21, 12, 40}};
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        const size_t rows = cases[n].rows, C = cases[n].C, V = cases[n].V;
        Layer l = {.forward = forward_unembedding, .rows = rows, .in = C, .out = V};
        l.x = normal_reals(rows * C, 1), l.w = normal_reals(V * C, 1);
        layer_start(&l, rows * V);
        for (size_t i = 0; i < rows * V; i++)
            assert_close(l.y[i], dot(l.x + i / V * C, l.w + i % V * C, C), 1e-13 * (double)C, "logits[%zu]", i);
        real *dx = filled_reals(rows * C, NAN), *dw = filled_reals(V * C, 1);
        const Operand x = operand(l.x, C), dy = operand(l.dy, V);
        linear_forward(dx, dy, operand(l.w, C), NULL, rows, V, C, false);
        Range middle = {C / 4, C - C / 3};
        linear_backward_weight(dw, dy, x, rows, C, (Tile){{0, V}, middle}, true, false);
        assert_untouched_outside(dw, V, C, middle, "dw");
        linear_backward_weight(dw, dy, x, rows, C, (Tile){{0, V}, (Range){0, middle.begin}}, true, false);
        linear_backward_weight(dw, dy, x, rows, C, (Tile){{0, V}, (Range){middle.end, C}}, true, false);
        minus_one(dw, V * C);
        check_layer(&l, "x", l.x, dx, rows * C);
        check_layer(&l, "w", l.w, dw, V * C);
        support_release(NULL);
    }
}

/* Here the loss is the layer's own: the sum of its losses times 0.125. */
static double cross_entropy_loss(void *context, uint64_t *branch) {
    Layer *l = context;
    (void)branch;
    memcpy(l->y, l->x, l->rows * l->out * sizeof *l->y);
    cross_entropy_forward(l->mean, l->rstd, l->y, l->ids, l->rows, l->out);
    double sum = 0;
    for (size_t r = 0; r < l->rows; r++) sum += l->mean[r];
    return sum * .125;
}

static void cross_entropy(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{1, 2}, {4, 65}, {9, 16}, {3, 7}};
    for (size_t n = 0; n < COUNT_OF(sizes); n++) {
        const size_t rows = sizes[n][0], V = sizes[n][1];
        int32_t targets[16];
        random_tokens(targets, rows, V);
        for (size_t r = 2; r < rows; r += 3) targets[r] = -1;
        Layer l = {.rows = rows, .out = V, .x = normal_reals(rows * V, 2), .y = reals(rows * V), .ids = targets};
        l.mean = filled_reals(rows, NAN), l.rstd = filled_reals(rows, NAN);
        cross_entropy_loss(&l, NULL);
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            if (targets[r] < 0) assert_close(l.mean[r], 0, 0, "loss of a row that does not count");
            if (targets[r] < 0) continue;
            for (size_t v = 0; v < V; v++) sum += exp(l.x[r * V + v]);
            assert_close(l.mean[r], log(sum) - l.x[r * V + (size_t)targets[r]], 1e-14, "loss %zu", r);
        }
        cross_entropy_backward(l.y, l.rstd, targets, .125, rows, V);
        real *analytic = copied_reals(l.y, rows * V);
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t v = 0; v < V; v++) sum += analytic[r * V + v];
            assert_close(sum, 0, 1e-16, "sum of a row's gradient");
            if (targets[r] < 0) assert_all_equal(analytic + r * V, V, 0, "gradient of a row that does not count");
        }
        check_gradient("logits", cross_entropy_loss, &l, l.x, analytic, rows * V, 0, STEP);
        support_release(NULL);
    }
}

static void cross_entropy_extremes(void **state) {
    (void)state;
    enum { V = 5 };
    static const struct {
        real logits[V];
        int32_t target;
        double loss;
    } cases[] = {
        {{1e4, 0, 0, 0, 0}, 0, 0},
        {{1e4, 0, 0, 0, 0}, 3, 1e4},
        {{-1e4, -1e4, -1e4, -1e4, -1e4}, 2, 1.6094379124341003}, /* ln 5 */
        {{0, 0, 0, 0, 0}, 4, 1.6094379124341003},
        {{1e4, -1e4, 1e4, -1e4, 0}, 0, 0.69314718055994531}, /* ln 2 */
        {{-1e4, 0, -1e4, -1e4, -1e4}, 0, 1e4},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        real logits[V], loss, sum;
        memcpy(logits, cases[n].logits, sizeof logits);
        cross_entropy_forward(&loss, &sum, logits, &cases[n].target, 1, V);
        assert_close(loss, cases[n].loss, 1e-15 * fmax(cases[n].loss, 1), "loss of case %zu", n);
        cross_entropy_backward(logits, &sum, &cases[n].target, 1, 1, V);
        assert_that(max_abs(logits, V) <= 1, "gradient of case %zu is finite and below 1", n);
    }
    for (size_t size = 1; size <= 1000; size += 37) {
        real *logits = filled_reals(size, -3.25), loss, sum;
        int32_t target = (int32_t)size - 1;
        cross_entropy_forward(&loss, &sum, logits, &target, 1, size);
        assert_close(loss, log((double)size), 2e-15, "uniform logits, V = %zu", size);
    }
    real bad[2] = {NAN, 1}, loss, sum;
    cross_entropy_forward(&loss, &sum, bad, &(int32_t){1}, 1, 2);
    assert_that(isnan(loss), "a NaN among the logits stays one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(linear),    TEST(layernorm),   TEST(layernorm_extremes), TEST(activations),
        TEST(embedding), TEST(unembedding), TEST(cross_entropy),      TEST(cross_entropy_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
