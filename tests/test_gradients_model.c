/* The whole model in double precision: forward against the plain decoder of reference.h, backward against differences
   of the loss for every parameter tensor, and what threads, dropout and accumulation promise. */
#include "support.h"

#include <unistd.h>

#include "model/scale.h"
#include "model/transformer.h"
#include "ops/matmul.h"
#include "reference.h"

#ifndef REAL_DOUBLE
#error "differences need the double build"
#endif

/* A model and a batch. What is 0 is taken from the tiny shape, whose H*D is not C. */
typedef struct {
    const char *name;
    size_t L, C, H, D, F, V, T, B, threads;
    size_t batch_T, max_batch; /* 0: T and B */
    bool post, relu, no_bias, untied;
    double dropout;
    ScaleDivisor divisor;
    Init init;
} Case;

typedef struct {
    Model model;
    Batch batch;
    int32_t *ids;
    uint64_t micro_step;
} Setup;

enum { SEED = 42 };

static ModelShape shape_of(const Case *c) {
    ModelShape s = {.T = c->T ? c->T : 7,
                    .C = c->C ? c->C : 12,
                    .H = c->H ? c->H : 2,
                    .D = c->D ? c->D : 5,
                    .F = c->F ? c->F : 20,
                    .V = c->V ? c->V : 11,
                    .L = c->L ? c->L : 2};
    s.pre_norm = !c->post, s.relu = c->relu, s.bias = !c->no_bias, s.tied = !c->untied, s.dropout = c->dropout;
    s.multiplier = (real)scale_multiplier(c->divisor, s.D);
    return s;
}

static void setup(Setup *u, const Case *c, bool training) {
    Error err = {0};
    ModelShape shape = shape_of(c);
    size_t B = c->B ? c->B : 3, T = c->batch_T ? c->batch_T : shape.T;
    assert_that(
        model_make(&u->model, &shape, c->max_batch ? c->max_batch : B, c->threads ? c->threads : 1, training, &err),
        "%s: %s", c->name, err.message);
    tensors_initialise(&u->model.tensors, &shape, c->init, SEED, u->model.parameters);
    /* Gains of 1 and biases of 0 would hide mistakes. */
    for (size_t i = 0; i < u->model.tensors.count; i++) {
        const Tensor *tensor = &u->model.tensors.items[i];
        Rng rng = rng_make(SEED, RNG_SAMPLE, (uint32_t)i);
        for (size_t j = 0; tensor->dimensions == 1 && j < tensor->count; j++)
            u->model.parameters[tensor->offset + j] += (real)(.3 * rng_normal(&rng, j));
    }
    u->ids = malloc(2 * B * T * sizeof *u->ids);
    assert_non_null(u->ids);
    support_pool.stream = 0; /* the same tokens for the same sizes */
    random_tokens(u->ids, 2 * B * T, shape.V);
    u->batch = (Batch){.tokens = u->ids, .targets = u->ids + B * T, .B = B, .T = T};
    u->micro_step = 9;
}

static void teardown(Setup *u) {
    model_free(&u->model);
    free(u->ids);
    support_release(NULL);
}

static double backward(Setup *u, double weight, bool fresh) {
    return model_forward_backward(&u->model, &u->batch, SEED, u->micro_step, weight, fresh);
}

/* Mean loss; `branch` tells on which side of the kink each unit of a ReLU is. With dropout the same masks are drawn by
   the same micro_step; the gradients it leaves are not looked at. */
static double mean_loss(void *context, uint64_t *branch) {
    Setup *u = context;
    const Model *m = &u->model;
    const size_t rows = u->batch.B * u->batch.T;
    double sum = m->shape.dropout > 0 ? backward(u, 1, true) : model_forward(&u->model, &u->batch);
    for (size_t l = 0; m->shape.relu && l < m->shape.L; l++)
        for (size_t i = 0; i < rows * m->shape.F; i++)
            *branch = *branch * 6364136223846793005u + (m->blocks[l].fc[i] > 0 ? 3 : 1);
    return sum / (double)rows;
}

/* The gradient of b_K is zero: it adds the same number q_i . b_K to all scores of a row. At T = 1 nothing depends on q
   and k at all. Returns whether entry `column` of c_attn is one of those. */
static bool vanishes(const ModelShape *s, const Batch *batch, Role role, size_t column) {
    const size_t HD = s->H * s->D;
    if (role == ATTN_B && column >= HD && column < 2 * HD) return true;
    return batch->T == 1 && (role == ATTN_W || role == ATTN_B) && column < 2 * HD;
}

/* Other tokens and biases until no unit of a ReLU is so near its kink that a difference would step across. */
static void keep_off_kinks(Setup *u) {
    const Model *m = &u->model;
    for (int attempt = 0; attempt < 400; attempt++) {
        double nearest = INFINITY;
        backward(u, 1, true);
        for (size_t l = 0; l < m->shape.L; l++)
            for (size_t i = 0; i < u->batch.B * u->batch.T * m->shape.F; i++)
                nearest = fmin(nearest, fabs(m->blocks[l].fc[i]));
        if (nearest > .004) return;
        random_tokens(u->ids, 2 * u->batch.B * u->batch.T, m->shape.V);
        for (size_t l = 0; m->shape.bias && l < m->shape.L; l++) {
            real *b = tensor_at(&m->tensors, m->parameters, FC_B, l), *shift = normal_reals(m->shape.F, .05);
            for (size_t i = 0; i < m->shape.F; i++) b[i] += shift[i];
        }
    }
    fail_msg("every choice has a unit near its kink");
}

static void check_case(const Case *c) {
    Setup u;
    setup(&u, c, true);
    if (c->relu) keep_off_kinks(&u);
    const ModelShape *s = &u.model.shape;
    const size_t flat = u.model.tensors.flat, rows = u.batch.B * u.batch.T;
    memset(u.model.gradients, 0xff, flat * sizeof(real)); /* NaN: fresh must not read them */
    double loss = backward(&u, 1, true);
    real *gradients = copied_reals(u.model.gradients, flat);
    uint64_t branch = 0;
    assert_close(mean_loss(&u, &branch), loss / (double)rows, 1e-13, "%s: loss of both passes", c->name);
    if (s->V == 1) assert_close(loss, 0, 0, "loss of one character");

    for (size_t i = 0; i < u.model.tensors.count; i++) {
        const Tensor *tensor = &u.model.tensors.items[i];
        char name[128];
        snprintf(name, sizeof name, "%s: %s", c->name, tensor->name);
        const size_t columns = tensor->dimensions == 2 ? tensor->size[1] : tensor->size[0];
        const real *gradient = gradients + tensor->offset;
        const double max = max_abs(gradient, tensor->count);
        for (size_t j = 0; j < tensor->count; j++) {
            bool zero = vanishes(s, &u.batch, tensor->role, j % columns);
            if (zero || s->V == 1) assert_close(gradient[j], 0, 1e-13 * max, "%s[%zu] vanishes", name, j);
            if (tensor->role == WPE && j / columns >= u.batch.T) assert_close(gradient[j], 0, 0, "%s[%zu]", name, j);
        }
        if (s->V == 1) continue;
        const bool embedding = tensor->role == WTE || tensor->role == WPE; /* its entries are of size 0.02 */
        check_gradient(name, mean_loss, &u, u.model.parameters + tensor->offset, gradient, tensor->count,
                       tensor->count <= 24 ? 0 : 20, embedding ? 1e-4 : 1e-3);
    }
    teardown(&u);
}

/* Pre- or post-norm, GELU or ReLU, with biases or without, tied or untied: all sixteen, without and with dropout, and
   each value of each of these with both initialisations. */
static void every_combination(void **state) {
    (void)state;
    for (unsigned n = 0; n < 32; n++) {
        char name[64];
        Case c = {.name = name,
                  .post = n & 1,
                  .relu = n & 2,
                  .no_bias = n & 4,
                  .untied = n & 8,
                  .dropout = n & 16 ? .2 : 0,
                  .init = __builtin_parity(n) ? INIT_TORCH : INIT_UNIT,
                  .threads = 1 + (n ^ n >> 2) % 3};
        snprintf(name, sizeof name, "%s-norm %s%s%s%s%s", c.post ? "post" : "pre", c.relu ? "relu" : "gelu",
                 c.no_bias ? "" : " bias", c.untied ? "" : " tied", c.dropout > 0 ? " dropout" : "",
                 c.init == INIT_TORCH ? " torch" : "");
        check_case(&c);
    }
}

static void every_edge(void **state) {
    (void)state;
    static const Case cases[] = {
        {.name = "none", .divisor = {.mode = SCALE_NONE}},
        {.name = "dk", .divisor = {.mode = SCALE_DK}},
        {.name = "2sqrt_dk", .divisor = {.mode = SCALE_2SQRT_DK}, .post = true},
        {.name = "3.7", .divisor = {SCALE_NUMBER, 3.7}},
        {.name = "B = 1", .B = 1},
        {.name = "B = 1, 3 threads", .B = 1, .threads = 3},
        {.name = "B = 1, 8 threads, more threads than positions", .B = 1, .threads = 8, .dropout = .2},
        {.name = "B = 3, 8 threads", .threads = 8},
        {.name = "B = 3, 8 threads, post", .threads = 8, .post = true, .relu = true, .dropout = .2},
        {.name = "B = 5, 2 threads", .B = 5, .threads = 2, .dropout = .2},
        {.name = "B = 9, 8 threads", .B = 9, .threads = 8},
        {.name = "T = 1", .T = 1},
        {.name = "T = 1, post", .T = 1, .post = true, .threads = 2, .untied = true},
        {.name = "B = T = 1", .T = 1, .B = 1, .threads = 8},
        {.name = "H = 1", .H = 1},
        {.name = "H = 3, D = 1", .H = 3, .D = 1, .post = true},
        {.name = "V = 1", .V = 1},
        {.name = "V = 2", .V = 2, .untied = true},
        {.name = "L = 1", .L = 1, .post = true},
        {.name = "L = 3", .L = 3},
        {.name = "L = 3, post", .L = 3, .post = true, .dropout = .2},
        {.name = "L = 1, C = 3, F = 1, D = 1", .L = 1, .C = 3, .F = 1, .D = 1},
        {.name = "two blocks of queries", .T = 70, .B = 2, .threads = 3, .L = 1},
        {.name = "two blocks of queries, dropout", .T = 70, .B = 2, .threads = 3, .L = 1, .dropout = .2},
        {.name = "a short batch", .batch_T = 4, .max_batch = 6},
        {.name = "a short batch, post, 8 threads",
         .batch_T = 4,
         .max_batch = 6,
         .post = true,
         .threads = 8,
         .dropout = .2},
        {.name = "wide columns", .C = 40, .F = 70, .D = 11, .V = 37, .threads = 3},
        {.name = "gpt2", .init = INIT_GPT2},
        {.name = "xavier", .init = INIT_XAVIER, .post = true},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) check_case(&cases[n]);
}

/* Logits, losses and their sum, trained or not, against the plain decoder. */
static void forward_is_the_plain_decoder(void **state) {
    (void)state;
    for (unsigned n = 0; n < 48; n++) {
        static const size_t threads[] = {1, 2, 8};
        Case c = {.name = "forward",
                  .post = n & 1,
                  .relu = n & 2,
                  .no_bias = n & 4,
                  .untied = n & 8,
                  .dropout = .5 /* not in model_forward */,
                  .threads = threads[n / 16],
                  .H = 3,
                  .V = 13,
                  .divisor = {n % 5 ? (ScaleMode)(n % 5) : SCALE_SQRT_DK, 1.7},
                  .T = n % 3 ? 7 : 66,
                  .batch_T = n % 3 == 1 ? 5 : 0};
        Setup u;
        setup(&u, &c, n % 2);
        const size_t rows = u.batch.B * u.batch.T, V = u.model.shape.V;
        real *expected = reals(rows * V);
        reference_model(&u.model, &u.batch, expected);
        Batch blind = u.batch;
        blind.targets = NULL;
        assert_close(model_forward(&u.model, &blind), 0, 0, "no targets, no loss");
        assert_all_close(u.model.logits, expected, rows * V, 1e-12, "logits");
        double sum = model_forward(&u.model, &u.batch), total = 0;
        for (size_t r = 0; r < rows; r++) {
            double exponentials = 0;
            for (size_t v = 0; v < V; v++) exponentials += exp(expected[r * V + v]);
            double loss = log(exponentials) - expected[r * V + (size_t)u.batch.targets[r]];
            assert_close(u.model.losses[r], loss, 1e-12, "loss of position %zu", r);
            total += loss;
        }
        assert_close(sum, total, 1e-12 * total, "sum of the losses");
        teardown(&u);
    }
}

/* Two micro-batches of weight 1/2, the first one fresh, give the mean of what each gives alone. */
static void accumulation_is_the_mean(void **state) {
    (void)state;
    for (unsigned n = 0; n < 8; n++) {
        Case c = {.name = "accumulation", .post = n & 1, .untied = n & 2, .dropout = n & 4 ? .2 : 0, .threads = 2};
        Setup u;
        setup(&u, &c, true);
        const size_t flat = u.model.tensors.flat;
        const Batch batches[2] = {u.batch, {.tokens = u.ids + 3, .targets = u.ids, .B = 2, .T = 6}};
        real *alone[2], *mean = reals(flat);
        for (unsigned b = 0; b < 2; b++) {
            u.batch = batches[b], u.micro_step = b;
            backward(&u, 1, true);
            alone[b] = copied_reals(u.model.gradients, flat);
        }
        for (unsigned b = 0; b < 2; b++) u.batch = batches[b], u.micro_step = b, backward(&u, .5, b == 0);
        for (size_t i = 0; i < flat; i++) mean[i] = (alone[0][i] + alone[1][i]) / 2;
        for (size_t i = 0; i < flat; i++)
            assert_close(u.model.gradients[i], mean[i], 1e-14 * max_abs(mean, flat), "gradient %zu", i);
        teardown(&u);
    }
}

/* Another number of threads is another order of summation at most; the same number is the same result to the bit. */
static void threads_agree(void **state) {
    (void)state;
    static const size_t threads[] = {1, 2, 3, 8, 8};
    for (unsigned n = 0; n < 24; n++) {
        static const size_t sequences[] = {3, 1, 17};
        Case c = {.name = "threads",
                  .post = n & 1,
                  .relu = n & 2,
                  .dropout = n & 4 ? .2 : 0,
                  .B = sequences[n / 8],
                  .C = 40,
                  .D = 11,
                  .F = 70,
                  .V = 37,
                  .T = n & 2 ? 70 : 7,
                  .untied = n & 1};
        double losses[COUNT_OF(threads)];
        real *gradients[COUNT_OF(threads)];
        size_t flat = 0;
        for (size_t t = 0; t < COUNT_OF(threads); t++) {
            Setup u;
            c.threads = threads[t];
            setup(&u, &c, true);
            for (int again = 0; again < 2; again++) { /* in the same model: to the bit as well */
                double loss = backward(&u, 1, true);
                if (again) assert_true(loss == losses[t]);
                if (again) assert_memory_equal(gradients[t], u.model.gradients, flat * sizeof(real));
                losses[t] = loss, flat = u.model.tensors.flat;
                if (!again) gradients[t] = copied_reals(u.model.gradients, flat);
            }
            assert_close(losses[t], losses[0], 1e-12 * losses[0], "loss of %zu threads", threads[t]);
            for (size_t i = 0; i < u.model.tensors.count; i++) {
                const Tensor *tensor = &u.model.tensors.items[i];
                const double max = max_abs(gradients[0] + tensor->offset, tensor->count);
                for (size_t j = tensor->offset; j < tensor->offset + tensor->count; j++)
                    assert_close(gradients[t][j], gradients[0][j], 1e-12 * max, "%s[%zu] of %zu threads", tensor->name,
                                 j - tensor->offset, threads[t]);
            }
            model_free(&u.model);
            free(u.ids);
        }
        assert_true(losses[3] == losses[4]);
        assert_memory_equal(gradients[3], gradients[4], flat * sizeof(real));
        support_release(NULL);
    }
}

/* A sequence does not see its neighbours, nor a position what comes after it. */
static void positions_see_the_past_only(void **state) {
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        Case c = {.name = "past", .post = n & 1, .threads = n & 2 ? 8 : 2, .T = 9};
        Setup u;
        setup(&u, &c, false);
        Batch batch = {.tokens = u.ids, .B = 3, .T = 9};
        const size_t V = u.model.shape.V, changed = 9 + 4; /* position 4 of sequence 1 */
        model_forward(&u.model, &batch);
        real *before = copied_reals(u.model.logits, 27 * V);
        u.ids[changed] = (u.ids[changed] + 1) % (int32_t)V;
        model_forward(&u.model, &batch);
        for (size_t r = 0; r < 27; r++) {
            double change = 0;
            for (size_t v = 0; v < V; v++) change = fmax(change, fabs(u.model.logits[r * V + v] - before[r * V + v]));
            bool sees = r >= changed && r < 18;
            assert_that(sees ? change > 1e-6 : change == 0, "position %zu changes by %g", r, change);
        }
        teardown(&u);
    }
}

static void dropout_is_drawn_by_step(void **state) {
    (void)state;
    Case c = {.name = "dropout", .dropout = .2, .threads = 2};
    Setup u;
    setup(&u, &c, true);
    double first = backward(&u, 1, true);
    u.micro_step++;
    double second = backward(&u, 1, true), plain = model_forward(&u.model, &u.batch);
    u.micro_step--;
    assert_true(first != second && first != plain && second != plain);
    assert_true(backward(&u, 1, true) == first);
    assert_true(model_forward_backward(&u.model, &u.batch, SEED + 1, u.micro_step, 1, true) != first);
    teardown(&u);
}

static void loss_starts_at_ln_V(void **state) {
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        Error err;
        Model model;
        Case c = {.name = "start", .init = INIT_GPT2, .untied = n & 1, .V = 65, .C = 32, .T = 32};
        ModelShape shape = shape_of(&c);
        int32_t ids[4 * 33];
        random_tokens(ids, COUNT_OF(ids), 65);
        assert_true(model_make(&model, &shape, 4, 2, false, &err));
        tensors_initialise(&model.tensors, &shape, INIT_GPT2, n, model.parameters);
        Batch batch = {.tokens = ids, .targets = ids + 1, .B = 4, .T = 32};
        assert_close(model_forward(&model, &batch) / 128, log(65), .05, "loss of an untrained model");
        model_free(&model);
    }
}

static void memory_is_as_measured(void **state) {
    (void)state;
    for (unsigned n = 0; n < 32; n++) {
        Error err;
        Model model;
        ModelMemory memory;
        Case c = {.post = n & 1, .no_bias = n & 2, .untied = n & 4, .dropout = n & 8 ? .1 : 0};
        ModelShape shape = shape_of(&c);
        const bool training = n & 16;
        assert_true(model_measure(&shape, 5, 3, training, &memory, &err));
        assert_true(model_make(&model, &shape, 5, 3, training, &err));
        assert_int_equal(memory.parameters, model.parameter_arena.capacity);
        assert_int_equal(memory.activations, model.activation_arena.capacity);
        assert_int_equal(model.parameter_arena.used, model.parameter_arena.capacity);
        assert_int_equal(model.activation_arena.used, model.activation_arena.capacity);
        assert_all_equal(model.parameters, model.tensors.flat, 0, "parameters");
        assert_true((model.gradients != NULL) == training);
        assert_true((model.d.x[0] != NULL) == training && (model.d.qkv != NULL) == training);
        size_t sum = 0;
        for (size_t i = 0; i < model.tensors.count; i++) sum += model.tensors.items[i].count;
        assert_int_equal(sum, model.tensors.parameters);
        model_free(&model);
    }
}

/* AddressSanitizer aborts where the system's calloc says NULL, unless it is told not to. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* Sizes beyond size_t, beyond int (for BLAS) and beyond any machine end in an error; model_free is fine after it. */
static void sizes_that_do_not_fit(void **state) {
    (void)state;
    static const Case cases[] = {
        {.C = SIZE_MAX / 2},    {.L = SIZE_MAX / 4},
        {.V = (size_t)1 << 62}, {.H = (size_t)1 << 33, .D = (size_t)1 << 33},
        {.T = (size_t)1 << 40}, {.F = SIZE_MAX},
        {.B = SIZE_MAX / 8},    {.T = (size_t)1 << 30, .B = 1 << 20},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        Error err = {0};
        Model model;
        ModelShape shape = shape_of(&cases[n]);
        assert_that(!model_make(&model, &shape, cases[n].B ? cases[n].B : 2, 2, true, &err), "case %zu", n);
        assert_that(err.status != STATUS_OK && err.message[0], "case %zu has a message", n);
        model_free(&model);
    }
}

/* Starts itself again with threads that sleep while they wait. Thousands of tiny passes are run here, and threads that
   spin at each barrier take minutes for that as soon as another program wants a core. */
static void with_sleeping_threads(char **argv) {
    if (getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv(argv[0], argv);
    perror(argv[0]); /* go on, slowly */
}

int main(int argc, char **argv) {
    (void)argc;
    with_sleeping_threads(argv);
    matmul_setup();
    const struct CMUnitTest tests[] = {
        TEST(forward_is_the_plain_decoder), TEST(every_combination),   TEST(every_edge),
        TEST(accumulation_is_the_mean),     TEST(threads_agree),       TEST(positions_see_the_past_only),
        TEST(dropout_is_drawn_by_step),     TEST(loss_starts_at_ln_V), TEST(memory_is_as_measured),
        TEST(sizes_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
