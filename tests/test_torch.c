/* Compares with PyTorch: the whole model forward and backward by both engines, ten updates of AdamW, SGD and Muon,
   attention by itself with every way to score, and the statistics of attention as NumPy has them.
   tests/fixtures/make_fixtures.py computed all of it in float64; this runs twice, with real = double and with float, in
   which models train. */
#include "fixture.h"
#include "setting.h"
#include "training_pass.h"

#include <glob.h>

#include "model/measure.h"
#include "train/engine.h"

/* Relative to the largest entry of the tensor. */
static const double TOLERANCE = sizeof(real) == 4 ? 2e-5 : 1e-10;

typedef enum {
    LOGITS,
    LOSS,
    GRADIENT,
    NORM,
    RATE,
    STEP_1,
    STEP_10,
    ATTENTION,
    ATTENTION_GRADIENT,
    STATISTICS
} Quantity;
static const char *const QUANTITIES[] = {"logits",       "losses",   "gradients", "norms",        "rates",
                                         "after 1 step", "after 10", "attention", "its gradient", "statistics"};
static double worst[COUNT_OF(QUANTITIES)];

static void compare(Quantity quantity, const char *what, const real *actual, const double *expected, size_t count) {
    double max = 0;
    for (size_t i = 0; i < count; i++) max = fmax(max, fabs(expected[i]));
    assert_that(max > 0, "%s: all zero", what);
    for (size_t i = 0; i < count; i++) {
        assert_close(actual[i], expected[i], TOLERANCE * max, "%s, %s[%zu]", QUANTITIES[quantity], what, i);
        worst[quantity] = fmax(worst[quantity], fabs((double)actual[i] - expected[i]) / max);
    }
}

static real *as_reals(const double *x, size_t count) {
    real *y = reals(count);
    for (size_t i = 0; i < count; i++) y[i] = (real)x[i];
    return y;
}

static Config config;
static size_t plain_runs; /* fixtures whose model the plain engine has */
static Model model;
static Engine engine;
static Optimizer optimizer;

/* The keys of the config are those of the metadata that begin with `prefix`. */
static void load_config(const Fixture *f, const char *prefix) {
    enum { KEYS_MAX = 64 };
    static char text[KEYS_MAX][128];
    const char *overrides[KEYS_MAX];
    const Json *metadata = fixture_metadata(f);
    size_t count = 0;
    for (size_t i = 0; i < js_object_size(metadata); i++) {
        const char *key = js_object_key(metadata, i);
        if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
        const char *name = key + strlen(prefix);
        if (!strchr(name, '.')) continue; /* the vocabulary's size is not a key of the config */
        assert_true(count < KEYS_MAX);
        snprintf(text[count], sizeof text[count], "%s=%s", name, fixture_text(f, key));
        overrides[count] = text[count], count++;
    }
    assert_true(count > 0);
    config_load(&config, NULL, put_text("fixture.ini", ""), overrides, count);
}

/* Sets the config's engine to plain, if the plain engine can train its model. Returns whether it can. */
static bool choose_plain(void) {
    static const char *const key = "train.engine", *const value = "plain";
    static Config plain;
    plain = config;
    if (!works(set_keys(&plain, 1, &key, &value))) return false;
    config = plain;
    return true;
}

/* The model of the config, its initial parameters, its engine and its optimizer. */
static void start(Fixture *f, size_t threads) {
    ModelShape shape = model_shape(&config, fixture_number(f, "vocabulary"));
    model_make(&model, &shape, config.train.batch, threads, true);
    engine_make(&engine, config.train.engine, 1, &model);
    optimizer_make(&optimizer, &config, &model.tensors, threads);
    for (size_t i = 0; i < model.tensors.count; i++) {
        const Tensor *t = &model.tensors.items[i];
        const double *x = fixture_reals(f, t->count, "initial.%s", t->name);
        for (size_t j = 0; j < t->count; j++) model.parameters[t->offset + j] = (real)x[j];
    }
}

/* Softmax ignores a number that all scores of a row have in common, so nothing depends on b_K unless something stands
   between: a norm, additive scores, a cap, a sink. Its gradient is rounding noise in both programs, which passes below
   since it is small beside those of b_Q and b_V. In float that noise is as large as AdamW's eps and moves b_K by whole
   steps, so its values are not compared. */
static void compare_gradients(Fixture *f) {
    for (size_t i = 0; i < model.tensors.count; i++) {
        const Tensor *t = &model.tensors.items[i];
        compare(GRADIENT, t->name, model.gradients + t->offset, fixture_reals(f, t->count, "grad.%s", t->name),
                t->count);
    }
}
/* Returns whether PyTorch's gradient of b_K is such noise. */
static bool is_noise(Fixture *f, const Tensor *bias) {
    const size_t HD = bias->count / 3;
    const double *gradients = fixture_reals(f, bias->count, "grad.%s", bias->name);
    double all = 0, keys = 0;
    for (size_t i = 0; i < bias->count; i++) all = fmax(all, fabs(gradients[i]));
    for (size_t i = HD; i < 2 * HD; i++) keys = fmax(keys, fabs(gradients[i]));
    return keys <= 1e-13 * all;
}
static void compare_parameters(Fixture *f, Quantity quantity, size_t step) {
    for (size_t i = 0; i < model.tensors.count; i++) {
        const Tensor *t = &model.tensors.items[i];
        const double *expected = fixture_reals(f, t->count, "step%zu.%s", step, t->name);
        const real *actual = model.parameters + t->offset;
        const size_t HD = t->count / 3;
        if (t->role == ATTN_B && config.train.optimizer != OPTIMIZER_SGD && is_noise(f, t)) {
            compare(quantity, t->name, actual, expected, HD);
            compare(quantity, t->name, actual + 2 * HD, expected + 2 * HD, HD);
        } else {
            compare(quantity, t->name, actual, expected, t->count);
        }
    }
}

static void compare_logits(Fixture *f, const Batch *batch) {
    size_t count = batch->B * batch->T * model.shape.V;
    model_forward(&model, &(Batch){.tokens = batch->tokens, .B = batch->B, .T = batch->T});
    compare(LOGITS, f->name, model.logits.values, fixture_reals(f, count, "logits"), count);
}

/* Compares loss, norm and rate at each step and after the last, with an update between them as in the trainer. */
static void compare_training(Fixture *f) {
    const size_t steps = config.train.steps, B = config.train.batch, T = model.shape.T;
    const int32_t *tokens = fixture_integers(f, (steps + 1) * B * T, "tokens");
    const int32_t *targets = fixture_integers(f, (steps + 1) * B * T, "targets");
    real *losses = reals(steps + 1), *norms = reals(steps + 1), *rates = reals(steps + 1);
    assert_int_equal(steps, 10);
    for (size_t step = 0; step <= steps; step++) {
        const Batch batch = {tokens + step * B * T, targets + step * B * T, B, T};
        if (step == 0) compare_logits(f, &batch);
        const Pass pass = training_pass(1, step, 1, true);
        double sum = engine_pass(&engine, &batch, &pass), lr = learning_rate(&config, step);
        double norm = gradient_norm(&optimizer, model.gradients);
        losses[step] = (real)(sum / (double)(B * T)), norms[step] = (real)norm, rates[step] = (real)lr;
        if (step == 0) compare_gradients(f);
        if (step == steps) break;
        step_update(&model, &optimizer, &config, norm, step);
        if (step == 0) compare_parameters(f, STEP_1, 1);
    }
    compare_parameters(f, STEP_10, steps);
    compare(LOSS, f->name, losses, fixture_reals(f, steps + 1, "loss"), steps + 1);
    compare(NORM, f->name, norms, fixture_reals(f, steps + 1, "norm"), steps + 1);
    compare(RATE, f->name, rates, fixture_reals(f, steps + 1, "lr"), steps + 1);
}

/* By one thread; by two, with a sequence or two each; by more threads than sequences; and by the plain engine, if it
   has the model. */
static void training(void **state) {
    static const size_t threads[] = {1, 2, 4, 2};
    Fixture *f = fixture_open(*state);
    for (size_t n = 0; n < COUNT_OF(threads); n++) {
        load_config(f, "");
        if (n == 3 && !choose_plain()) break;
        start(f, threads[n]);
        compare_training(f);
        plain_runs += n == 3;
    }
    fixture_was_read(f);
}

static size_t fixture_size(Fixture *f, size_t n, const char *size) {
    char key[32];
    snprintf(key, sizeof key, "%zu.%s", n, size);
    return fixture_number(f, key);
}

/* Attention's own parameters, as the fixture names them behind the case. */
static const char *const OWN[ATTENTION_PARAMETERS] = {"v.weight", "q_norm.weight", "k_norm.weight", "scale", "sinks"};

/* Compares one head by itself, forward and backward. */
static void compare_head(Fixture *f, size_t n, const AttentionConfig *one, size_t T) {
    const size_t D = one->D, count = T * D;
    const real *q = as_reals(fixture_reals(f, count, "%zu.q", n), count);
    const real *k = as_reals(fixture_reals(f, count, "%zu.k", n), count);
    const real *v = as_reals(fixture_reals(f, count, "%zu.v", n), count);
    const real *dout = as_reals(fixture_reals(f, count, "%zu.dout", n), count);
    real *qkv = reals(3 * count), *dqkv = reals(3 * count), *scratch = reals(attention_scratch(one, T));
    real *dq = reals(count), *dk = reals(count), *dv = reals(count), *out = reals(count);
    AttentionArrays layer = {.attention = one,
                             .T = T,
                             .qkv = {qkv, 3 * D, FORM_REAL},
                             .out = {out, D, FORM_REAL},
                             .dqkv = {dqkv, 3 * D, FORM_REAL},
                             .partials = reals(attention_partials(one)),
                             .saved = {reals(T), reals(T), reals(1)}};
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) {
        const size_t size = attention_parameter(one, p).size;
        if (size > 0) layer.parameters[p] = as_reals(fixture_reals(f, size, "%zu.%s", n, OWN[p]), size);
    }
    const struct {
        const real *from;
        real *to;
    } parts[] = {{q, dq}, {k, dk}, {v, dv}};
    for (size_t i = 0; i < 3 * count; i++) qkv[i] = parts[i / D % 3].from[i / D / 3 * D + i % D];
    attention_pairs_forward(&layer, (Range){0, 1}, scratch);
    attention_pairs_backward(&layer, (Range){0, 1}, dout, scratch);
    for (size_t i = 0; i < 3 * count; i++) parts[i / D % 3].to[i / D / 3 * D + i % D] = dqkv[i];
    compare(ATTENTION, "out", out, fixture_reals(f, count, "%zu.out", n), count);
    compare(ATTENTION_GRADIENT, "dq", dq, fixture_reals(f, count, "%zu.dq", n), count);
    compare(ATTENTION_GRADIENT, "dk", dk, fixture_reals(f, count, "%zu.dk", n), count);
    compare(ATTENTION_GRADIENT, "dv", dv, fixture_reals(f, count, "%zu.dv", n), count);
    const real *partial = layer.partials;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) {
        const size_t size = attention_parameter(one, p).size;
        if (size > 0) compare(ATTENTION_GRADIENT, OWN[p], partial, fixture_reals(f, size, "%zu.d%s", n, OWN[p]), size);
        partial += size;
    }
}

/* Products and multipliers alone. One of them is longer than a tile of queries. */
static void attention(void **state) {
    Fixture *f = fixture_open(*state);
    for (size_t n = 0, cases = fixture_number(f, "cases"); n < cases; n++) {
        const AttentionConfig one = {
            .H = 1, .D = fixture_size(f, n, "d_k"), .divisor = 1 / *fixture_reals(f, 1, "%zu.multiplier", n)};
        compare_head(f, n, &one, fixture_size(f, n, "T"));
    }
    fixture_was_read(f);
}

/* Every way to score, as the config of each case has it. */
static void scores(void **state) {
    Fixture *f = fixture_open(*state);
    for (size_t n = 0, cases = fixture_number(f, "cases"); n < cases; n++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%zu.", n);
        load_config(f, prefix);
        const AttentionConfig one = attention_make(&config);
        compare_head(f, n, &one, config.model.context);
    }
    fixture_was_read(f);
}

/* Queries and keys (B, H, T, D) into a model of one block, as if its forward pass had left them there. */
static void make_model_of(const double *q, const double *k, size_t B, size_t H, size_t T, size_t D, double divisor) {
    const ModelShape shape = {
        .T = T, .C = 4, .attention = {.H = H, .D = D, .divisor = divisor}, .F = 4, .V = 2, .L = 1, .pre_norm = true};
    model_make(&model, &shape, B, 2, false);
    for (size_t i = 0; i < B * H * T * D; i++) {
        size_t d = i % D, t = i / D % T, h = i / D / T % H, b = i / D / T / H;
        real *row = model.blocks[0].qkv.values + (b * T + t) * 3 * H * D + h * D + d;
        row[0] = (real)q[i], row[H * D] = (real)k[i];
    }
}

static void statistics(void **state) {
    Fixture *f = fixture_open(*state);
    for (size_t n = 0, cases = fixture_number(f, "cases"); n < cases; n++) {
        const size_t B = fixture_size(f, n, "B"), H = fixture_size(f, n, "H"), T = fixture_size(f, n, "T");
        const size_t D = fixture_size(f, n, "d_k"), count = B * H * T * D;
        enum { HEADS_MAX = 4 };
        HeadStatistics heads[HEADS_MAX];
        assert_true(H <= HEADS_MAX);
        make_model_of(fixture_reals(f, count, "%zu.q", n), fixture_reals(f, count, "%zu.k", n), B, H, T, D,
                      1 / *fixture_reals(f, 1, "%zu.multiplier", n));
        measure_heads(&model, B, T, heads);
        real deviation[HEADS_MAX], most[HEADS_MAX], entropy[HEADS_MAX], weight[HEADS_MAX];
        for (size_t h = 0; h < H; h++) {
            deviation[h] = (real)heads[h].score_std, most[h] = (real)heads[h].score_max;
            entropy[h] = (real)heads[h].entropy, weight[h] = (real)heads[h].max_weight;
        }
        compare(STATISTICS, "score_std", deviation, fixture_reals(f, H, "%zu.score_std", n), H);
        compare(STATISTICS, "score_max", most, fixture_reals(f, H, "%zu.score_max", n), H);
        compare(STATISTICS, "entropy", entropy, fixture_reals(f, H, "%zu.entropy", n), H);
        compare(STATISTICS, "max_weight", weight, fixture_reals(f, H, "%zu.max_weight", n), H);
    }
    fixture_was_read(f);
}

#define FIXTURE(function, file)                                                                                        \
    { file, function, temporary_enter, fixture_leave, file }
static const struct CMUnitTest FIXTURES[] = {
    FIXTURE(training, "pre_gelu"),    FIXTURE(training, "post_relu"),     FIXTURE(training, "pre_relu"),
    FIXTURE(training, "post_gelu"),   FIXTURE(training, "no_bias"),       FIXTURE(training, "one_position"),
    FIXTURE(training, "additive"),    FIXTURE(training, "additive_rms"),  FIXTURE(training, "qk_norm_l2"),
    FIXTURE(training, "qk_norm_rms"), FIXTURE(training, "qk_norm_layer"), FIXTURE(training, "sink"),
    FIXTURE(training, "qk_clip"),     FIXTURE(training, "muon"),          FIXTURE(attention, "attention"),
    FIXTURE(scores, "scores"),        FIXTURE(statistics, "statistics"),  FIXTURE(training, "constant_weights"),
};

/* Every file of the folder is read. */
static int count_files(void **state) {
    (void)state;
    glob_t found;
    int failed = glob("tests/fixtures/*.safetensors", 0, NULL, &found);
    size_t count = failed ? 0 : found.gl_pathc;
    if (!failed) globfree(&found);
    if (count != COUNT_OF(FIXTURES)) print_error("tests/fixtures/ has %zu files\n", count);
    return count != COUNT_OF(FIXTURES);
}

static int print_worst(void **state) {
    (void)state;
    print_message("largest errors, of each tensor's largest entry:");
    for (size_t i = 0; i < COUNT_OF(QUANTITIES); i++) print_message(" %s %.1e;", QUANTITIES[i], worst[i]);
    print_message(" allowed %.0e; %zu models by the plain engine too\n", TOLERANCE, plain_runs);
    return plain_runs != 6; /* the first six */
}

int main(void) { return cmocka_run_group_tests(FIXTURES, count_files, print_worst); }
