/* Training: each choice of a config trains, measuring changes nothing, and a run that diverges says so. Losses are
   tested in test_learning.c, repeated results in test_determinism.c, and the files of a run in test_run_files.c. */
#include "training.h"

#include "gemm/matmul.h"
#include "train/trainer.h"

/* Each choice trains, and gives another run than the defaults. */
static void every_choice(void **state) {
    (void)state;
    static const char *const choices[][3] = {
        {"model.dropout=0.2"},
        {"train.accumulate=3"},
        {"train.optimizer=sgd", "train.lr=0.1"},
        {"model.activation=relu"},
        {"model.norm=post"},
        {"model.tie_embeddings=no"},
        {"model.bias=no"},
        {"model.init=xavier"},
        {"model.init=torch"},
        {"model.init=gpt2"},
        {"model.d_k=5"},
        {"model.d_ff=7"},
        {"attention.scale_divisor=none"},
        {"attention.scale_divisor=dk"},
        {"attention.scale_divisor=2.5"},
        {"train.grad_clip=0"},
        {"train.weight_decay=0"},
        {"train.optimizer=sgd", "train.momentum=0", "train.lr=0.3"},
        {"model.layers=3", "model.norm=post"},
        {"model.norm=post", "model.dropout=0.1", "model.tie_embeddings=no"},
        {"train.batch=1"},
    };
    CONFIGURE("train.steps=40", "eval.every=40");
    train("plain", 1);
    for (size_t n = 0; n < COUNT_OF(choices); n++) {
        char name[32];
        const char *const *c = choices[n];
        const size_t mark = memory_mark();
        snprintf(name, sizeof name, "run%zu", n);
        const char *const overrides[] = {"train.steps=40",   "eval.every=40",    c[0],
                                         c[1] ? c[1] : c[0], c[2] ? c[2] : c[0], NULL};
        configure(overrides);
        train(name, 1);
        const Table *m = read_metrics(name);
        assert_that(last_of(m, METRICS_VAL_LOSS) < first_of(m, METRICS_VAL_LOSS) - 0.3, "%s %s: from %g to %g", c[0],
                    c[1] ? c[1] : "", first_of(m, METRICS_VAL_LOSS), last_of(m, METRICS_VAL_LOSS));
        assert_that(!same_parameters("plain", name), "%s changes nothing", c[0]);
        for (size_t i = 0; i < m->rows; i++)
            assert_true(isfinite(m->at[i][METRICS_TRAIN_LOSS]) && m->at[i][METRICS_GRAD_NORM] > 0);
        memory_release(mark);
    }
}

/* Measurements and samples, however many, do not change what is learned. */
static void measuring_changes_nothing(void **state) {
    (void)state;
    CONFIGURE("model.dropout=0.2", "train.steps=20");
    train("a", 2);
    CONFIGURE("model.dropout=0.2", "train.steps=20", "eval.every=3", "log.every=1", "log.attention_every=4",
              "log.sample_tokens=50", "log.checkpoint_every=2", "eval.batches=2", "log.attention_text=the keys");
    train("b", 2);
    assert_true(same_parameters("a", "b"));
}

static void diverges(void **state) {
    (void)state;
    const char *const everys[] = {"eval.every=0", "eval.every=1"};
    for (size_t n = 0; n < COUNT_OF(everys); n++) {
        int step = -1;
        CONFIGURE("train.optimizer=sgd", "train.lr=1e6", "train.warmup=0", everys[n]);
        assert_fails(STATUS_DIVERGED, "step ", train(n ? "b" : "a", 1));
        assert_int_equal(sscanf(strstr(err.message, "step "), "step %d", &step), 1);
        assert_true(step > 0 && step < 60);
        assert_that(strstr(err.message, ".weight") || strstr(err.message, ".bias") || strstr(err.message, "validation"),
                    "no tensor in: %s", err.message);
        const char *run = contents(in(n ? "b/run.json" : "a/run.json"), NULL);
        assert_true(strstr(run, "\"diverged\"") && strstr(run, "\"error\""));
        read_metrics(n ? "b" : "a"); /* whole lines */
        assert_true(path_exists(in(n ? "b/loss.png" : "a/loss.png")));
    }
}

/* The memory that is announced is that of the arenas, and of the packing buffers. */
static void memory(void **state) {
    (void)state;
    Model model;
    Engine fast, plain;
    Optimizer optimizer;
    const TrainOptions options = {.threads = 3};
    CONFIGURE("train.optimizer=sgd", "model.layers=3");
    const size_t checked = trainer_check(&config, &options, NULL);
    const ModelShape shape = model_shape(&config, 21);
    model_make(&model, &shape, 4, 3, true);
    engine_make(&fast, ENGINE_FAST, 1, &model);
    engine_make(&plain, ENGINE_PLAIN, 1, &model);
    optimizer_make(&optimizer, &config, &model.tensors, 3);
    const size_t arenas = model.parameter_arena.capacity + model.activation_arena.capacity + optimizer.arena.capacity +
                          fast.shards.arena.capacity;
    const size_t bytes = training_memory(&fast, &optimizer);
    assert_int_equal(bytes, arenas + 3 * matmul_buffer_bytes(false));
    assert_int_equal(training_memory(&plain, &optimizer), bytes + plain.plain.arena.capacity);
    assert_true(plain.plain.arena.capacity > 4 * model.tensors.parameters * sizeof(real));
    training_memory_check(bytes);
    assert_fails(STATUS_FAILED, "memory", training_memory_check(SIZE_MAX - 1));
    assert_true(matmul_is_own() ? matmul_buffer_bytes(false) > 1000000 : matmul_buffer_bytes(false) == 0);
    assert_true(checked > bytes / 2 && checked < 2 * bytes); /* of the corpus's own vocabulary */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TRAINING_TEST(every_choice),
        TRAINING_TEST(measuring_changes_nothing),
        TRAINING_TEST(diverges),
        TRAINING_TEST(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
