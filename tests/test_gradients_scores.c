/* Every way to score, alone and with every other it goes with: all gradients of a model against differences of its
   loss. A pair that is refused is one of config/refused.c. */
#include "configs.h"

#include "lab/gradcheck/gradcheck.h"
#include "training_pass.h"

/* The options, by key: each value of a key is tried with each value of every other key. */
static const struct {
    const char *key, *value;
} OPTIONS[] = {{"attention.score", "additive"},
               {"attention.qk_norm", "l2"},
               {"attention.qk_norm", "rms"},
               {"attention.qk_norm", "layer"},
               {"attention.scale_divisor", "none"},
               {"attention.scale_divisor", "dk"},
               {"attention.scale_divisor", "0.7"},
               {"attention.scale_divisor", "sqrt_dmodel"},
               {"attention.scale_learned", "layer"},
               {"attention.scale_learned", "head"},
               {"attention.scale_length", "log"},
               {"attention.softcap", "0.8"},
               {"attention.sink", "one"},
               {"attention.sink", "learned"},
               {"model.dropout", "0.2"},
               {"model.bias", "no"},

               {"train.qk_clip", "0.1"}};

enum { V = 6, B = 2 };

static void check_model(const Config *c, const char *name) {
    const ModelShape shape = model_shape(c, V);
    const size_t T = shape.T, count = 2 * B * T, mark = memory_mark();
    int32_t *ids = memory_make(count, sizeof *ids, "the tokens");
    Model model;
    Engine engine;
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)(i * i / 3 % V);
    const Batch batch = {ids, ids + B * T, B, T};
    model_make(&model, &shape, B, 2, true);
    engine_make(&engine, ENGINE_FAST, 1, &model);
    gradcheck_parameters(&model, c->model.init, 1);
    GradientCheck check = {
        .engine = &engine, .batches = &batch, .count = 1, .seed = 1, .entries = INSTRUMENTED ? 3 : 16};
    const Pass pass = training_pass(1, 0, 1, true);
    engine_pass(&engine, &batch, &pass);
    gradcheck_make(&check);
    for (GradientRow row; gradcheck_next(&check, &row);)
        assert_that(!row.failed, "%s: %s [%zu,%zu] is off by %.3g, the largest gradient is %.3g", name, row.name,
                    row.at[0], row.at[1], row.error, row.largest);
    memory_release(mark);
}

static const char SMALL[] =
    "[model]\nlayers = 2\nheads = 2\nd_model = 4\nd_k = 3\nd_ff = 5\ncontext = 5\ninit = torch\n";

/* qk_clip is refused with options by which scores are not proportional to W_Q and W_K. test_config.c has each refused
   pair. */
static void every_pair(void **state) {
    (void)state;
    size_t checked = 0;
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        for (size_t j = i; j < COUNT_OF(OPTIONS); j++) {
            char name[160], values[3][64] = {"attention.scale_divisor=sqrt_dk"};
            const char *const overrides[] = {values[0], values[1], values[2]}; /* l2 needs a divisor */
            if (i != j && strcmp(OPTIONS[i].key, OPTIONS[j].key) == 0) continue;
            snprintf(values[1], sizeof values[1], "%s=%s", OPTIONS[i].key, OPTIONS[i].value);
            snprintf(values[2], sizeof values[2], "%s=%s", OPTIONS[j].key, OPTIONS[j].value);
            snprintf(name, sizeof name, "%s, %s", values[1], values[2]);
            if (load_with(SMALL, 3, overrides)) check_model(&config, name), checked++;
            else assert_that(strstr(err.message, " does not go with train.qk_clip = 0.1 (--set)"), "%s", err.message);
        }
    assert_int_equal(checked, 137);
}

/* Each option alone, at one position and at more than a tile of queries holds. */
static void every_length(void **state) {
    (void)state;
    static const char *const contexts[] = {"model.context=1", "model.context=70"};
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++)
        for (size_t c = 0; c < COUNT_OF(contexts); c++) {
            char name[160], value[64];
            const char *const overrides[] = {"attention.scale_divisor=sqrt_dk", "model.layers=1", contexts[c], value};
            snprintf(value, sizeof value, "%s=%s", OPTIONS[i].key, OPTIONS[i].value);
            snprintf(name, sizeof name, "%s, %s", value, contexts[c]);
            assert_that(load_with(SMALL, 4, overrides), "%s: %s", name, err.message);
            check_model(&config, name);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(every_pair), TEST(every_length)};
    return cmocka_run_group_tests_name("gradients_scores", tests, enter, leave);
}
