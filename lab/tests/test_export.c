/* lab/export.c: the models that GPT-2 can hold, and the place of each number of a model in GPT-2's tensors.
   lab/tests/export_transformers.py shows that transformers computes the same with them. */
#include "setting.h"
#include "training.h"

#include "lab/export.h"
#include "run/checkpoint.h"

static Run run;
static Model model;
static ExportedTensors exported;

/* Trains a run of these keys, and exports its last checkpoint. */
#define EXPORT(...)                                                                                                    \
    do {                                                                                                               \
        CONFIGURE("train.steps=5", "eval.every=0", __VA_ARGS__);                                                       \
        train("run", 1);                                                                                               \
        open_and_export();                                                                                             \
    } while (0)
static void open_and_export(void) {
    run_open(&run, in("run"), NULL, 0, false);
    export_check(&run.config);
    run_load_model(&run, &model, 1, 1);
    exported = export_tensors(&model);
}

static const real *ours(TensorRole role, size_t layer) {
    return tensor_at(&model.tensors, model.parameters, role, layer);
}
static const float *theirs(TensorRole role, size_t layer) {
    const Tensor *t = tensor_find(&exported.table, role, layer);
    assert_non_null(t);
    return exported.numbers + t->offset;
}

/* A model that is GPT-2 already, divided by the root of d_k, is exported to the bit. */
static void as_it_is(void) {
    EXPORT("model.layers=2", "model.d_model=24", "model.tie_embeddings=no"); /* d_k 12: its root is no short number */
    assert_int_equal(exported.table.count, model.tensors.count);
    for (size_t i = 0; i < model.tensors.count; i++) {
        const Tensor *t = &model.tensors.items[i], *to = &exported.table.items[i];
        assert_string_equal(to->name, t->name);
        assert_int_equal(to->count, t->count);
        for (size_t n = 0; n < t->count; n++)
            assert_true(exported.numbers[to->offset + n] == (float)model.parameters[t->offset + n]);
    }
}

/* Heads of 3 become heads of 16, with zeros between, and queries are multiplied by what GPT-2 divides by too much. */
static void narrow_heads(void) {
    enum { C = 32, H = 2, D = 3, WIDE = 16 };
    EXPORT("model.d_k=3", "attention.scale_learned=head");
    const real *weight = ours(ATTN_W, 0), *bias = ours(ATTN_B, 0), *proj = ours(ATTN_PROJ_W, 0),
               *scale = ours(ATTN_SCALE, 0);
    const float *wide = theirs(ATTN_W, 0), *wide_bias = theirs(ATTN_B, 0), *wide_proj = theirs(ATTN_PROJ_W, 0);
    assert_true(scale[0] != scale[1]);
    for (size_t part = 0; part < ATTENTION_PARTS; part++)
        for (size_t h = 0; h < H; h++)
            for (size_t d = 0; d < WIDE; d++) {
                const size_t from = (part * H + h) * D + d, to = (part * H + h) * WIDE + d;
                const double factor = part == QUERY ? 4 * (double)scale[h] : 1;
                for (size_t c = 0; c < C; c++)
                    assert_close(wide[c * 3 * C + to], d < D ? factor * (double)weight[c * 3 * H * D + from] : 0, 1e-6,
                                 "weight of part %zu, head %zu, column %zu", part, h, d);
                assert_close(wide_bias[to], d < D ? factor * (double)bias[from] : 0, 1e-6, "bias");
                for (size_t c = 0; part == 0 && c < C; c++)
                    assert_close(wide_proj[to * C + c], d < D ? (double)proj[from * C + c] : 0, 0, "c_proj");
            }
}

/* GPT-2 has biases everywhere. */
static void without_biases(void) {
    EXPORT("model.bias=no");
    const TensorRole roles[] = {LN_1_B, ATTN_B, ATTN_PROJ_B, LN_2_B, FC_B, MLP_PROJ_B, LN_F_B};
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        assert_null(ours(roles[i], 0));
        const Tensor *t = tensor_find(&exported.table, roles[i], 0);
        for (size_t n = 0; n < t->count; n++) assert_true(theirs(roles[i], 0)[n] == 0);
    }
}

/* The divisor is that of the checkpoint's step: before the switch that of the best, after it that of the last. */
static void best(void) {
    EXPORT("attention.switch_step=3", "attention.switch_divisor=0.5");
    assert_close(model.shape.attention.divisor, 0.5, 0, "divisor of the last");
    const real first = model.parameters[0];
    run.locked = directory_open(in("run"));
    checkpoint_save(&run, CHECKPOINT_BEST, &model, (Moments){0}, &(RunState){.step = 2});
    model.parameters[0] = first + 1;
    const RunState loaded = checkpoint_load(&run, CHECKPOINT_BEST, &model, (Moments){0});
    assert_true(model.parameters[0] == first);
    assert_int_equal(loaded.step, 2);
    assert_close(model.shape.attention.divisor, 4, 0, "divisor of the best");
}

static void refused(void) {
    const struct {
        const char *keys[4], *word;
    } cases[] = {
        {{"model.norm=post"}, "model.norm = post"},
        {{"data.task=recall", "data.corpus=", "model.context=24"}, "data.task = recall"},
        {{"model.d_k=17"}, "d_model is 32, heads 2 and d_k 17"},
        {{"model.heads=3", "model.d_k=4"}, "d_model is 32, heads 3 and d_k 4"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        configure(cases[i].keys);
        assert_refused(cases[i].word, export_check(&config));
    }
}

/* Sets a key of the tiny config, and the other half of a switch with it. Returns whether it has no default now. */
static bool set_key(size_t key, const char *value) {
    const char *name = config_key_name(key);
    const bool step = strcmp(name, "attention.switch_step") == 0;
    const bool divisor = strcmp(name, "attention.switch_divisor") == 0;
    const char *keys[] = {name, step ? "attention.switch_divisor" : "attention.switch_step"};
    const char *values[] = {value, "3"};
    CONFIGURE(NULL);
    return works(set_keys(&config, step || divisor ? 2 : 1, keys, values)) && !config_is_default(&config, key);
}

/* Of the keys of [attention], GPT-2 holds these with any value, and every other one with its default alone: also a key
   that export.c does not know, such as a new way to score. */
static void attention_keys(void) {
    static const char *const held[] = {"attention.scale_divisor", "attention.switch_step", "attention.switch_divisor",
                                       "attention.scale_learned", "attention.score_gradient"};
    static const char *const values[] = {"no", "yes", "7", "additive", "rms", "layer", "log", "one", "bf16"};
    size_t refusals = 0;
    for (size_t key = 0; key < config_key_count(); key++) {
        const char *name = config_key_name(key);
        bool is_held = false;
        size_t v = 0;
        if (strncmp(name, "attention.", strlen("attention.")) != 0) continue;
        while (v < COUNT_OF(values) && !set_key(key, values[v])) v++;
        assert_that(v < COUNT_OF(values), "none of this test's values is one of %s and not its default", name);
        for (size_t h = 0; h < COUNT_OF(held); h++) is_held = is_held || strcmp(held[h], name) == 0;
        if (is_held) export_check(&config);
        else assert_refused(name, export_check(&config));
        refusals += !is_held;
    }
    assert_true(refusals >= 6);
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(as_it_is), TRAINING_TEST(narrow_heads), TRAINING_TEST(without_biases),
                     TRAINING_TEST(best), TRAINING_TEST(refused), TRAINING_TEST(attention_keys));
}
