/* Training: measuring changes nothing, and a run that diverges says so. Losses are tested in test_learning.c, choices
   of a config in test_plain.c and bits.sh, repeated results in test_determinism.c, and the files of a run in
   test_run_files.c. */
#include "training.h"

#include "gemm/matmul.h"
#include "train/trainer.h"

/* Measurements and samples, however many, do not change what is learned. */
static void measuring_changes_nothing(void) {
    CONFIGURE("model.dropout=0.2", "train.steps=20");
    train("a", 2);
    CONFIGURE("model.dropout=0.2", "train.steps=20", "eval.every=3", "log.every=1", "log.attention_every=4",
              "log.sample_tokens=50", "log.checkpoint_every=2", "eval.batches=2", "log.attention_text=the keys");
    train("b", 2);
    assert_true(same_parameters("a", "b"));
}

static void diverges(void) {
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
static void memory(void) {
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
    const size_t arenas = model.arena.capacity + optimizer.arena.capacity + fast.shards.arena.capacity;
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
    return RUN_TESTS(TRAINING_TEST(measuring_changes_nothing), TRAINING_TEST(diverges), TRAINING_TEST(memory));
}
