/* Training with the plain engine: step by step the losses of the fast one, in single and in double precision, for
   every model that the plain engine trains; checkpoints that either engine continues; and configs that it refuses. */
#include "training.h"

#include <math.h>

#include "train/engine.h"

#ifdef REAL_DOUBLE
static const double TOLERANCE = 1e-10;
#else
static const double TOLERANCE = 1e-4;
#endif

enum { STEPS = INSTRUMENTED ? 15 : 50, BATCH = 4 };

/* The losses of the config's first steps by one engine, and the validation loss after them. */
static void losses_of(EngineKind kind, double losses[STEPS + 1]) {
    Model model;
    Engine engine;
    Optimizer optimizer;
    const Corpus corpus = config_corpus(&config, NULL);
    const ModelShape shape = model_shape(&config, corpus.vocabulary.count);
    assert_true(config.train.batch == BATCH);
    model_make(&model, &shape, BATCH, 2, true);
    engine_make(&engine, kind, config.train.shards, &model);
    optimizer_make(&optimizer, &config, &model.tensors, 2);
    tensors_initialize(&model.tensors, &shape, config.model.init, 1, 2, model.parameters);
    for (size_t step = 0; step < STEPS; step++) {
        attention_set_divisor(&model.shape.attention, &config, step);
        losses[step] = step_gradients(&engine, &corpus, &config, step);
        step_update(&model, &optimizer, &config, gradient_norm(&optimizer, model.gradients), step);
    }
    losses[STEPS] = evaluate(&engine, &corpus, 0).loss;
}

static void fifty_steps(void) {
    static const char *const runs[][7] = {
        {"train.lr=3e-3"},
        {"attention.scale_divisor=none", "train.lr=3e-3"},
        {"attention.scale_divisor=dk", "model.norm=post", "model.activation=relu"},
        {"attention.scale_divisor=2sqrt_dk", "model.bias=no", "model.tie_embeddings=no", "model.init=gpt2"},
        {"attention.scale_divisor=3.7", "attention.switch_step=5", "attention.switch_divisor=sqrt_dk"},
        {"train.optimizer=sgd", "train.lr=0.1", "model.init=torch", "train.accumulate=3"},
        {"train.optimizer=muon", "train.lr=3e-3", "train.shards=2"},
        {"model.qk_init_scale=0.5", "train.qk_lr_scale=2", "train.lr=3e-3", "model.norm=post"},
        {"data.task=recall", "data.recall_pairs=3", "data.corpus=", "train.lr=3e-3"},
        {"model.layers=3", "model.heads=3", "model.d_k=5", "model.d_ff=17", "model.context=64", "train.lr=3e-3"},
    };
    double largest = 0;
    for (size_t n = 0; n < COUNT_OF(runs); n++) {
        double fast[STEPS + 1], plain[STEPS + 1];
        configure(runs[n]);
        losses_of(ENGINE_FAST, fast);
        losses_of(ENGINE_PLAIN, plain);
        for (size_t step = 0; step <= STEPS; step++) {
            assert_close(plain[step], fast[step], TOLERANCE, "run %zu (%s), loss %zu", n, runs[n][0], step);
            largest = fmax(largest, fabs(plain[step] - fast[step]));
        }
        assert_true(fast[STEPS - 1] < fast[0]); /* it learned */
    }
    print_message("the largest difference of a loss is %.2g\n", largest);
}

/* A run of the plain engine, with its evaluation, and resumed by the fast one; and the other way round. */
static void either_engine_continues(void) {
    CONFIGURE("train.steps=12", "eval.every=4");
    train("fast", 2);
    for (int first = ENGINE_FAST; first <= ENGINE_PLAIN; first++) {
        const char *const names[] = {"engine = fast", "engine = plain"};
        CONFIGURE(first == ENGINE_PLAIN ? "train.engine=plain" : "train.engine=fast", "train.steps=6", "eval.every=4");
        train("mixed", 2);
        set_text("mixed/config.ini", names[first], names[!first]);
        resume_with_key("mixed", "train.steps=12");
        const Table *mixed = read_metrics("mixed"), *fast = read_metrics("fast");
        assert_close(last_of(mixed, METRICS_VAL_LOSS), last_of(fast, METRICS_VAL_LOSS), 2e-2,
                     "after half of each engine");
        assert_true(shell("rm -r mixed"));
    }
}

static void refused(void) {
    static const char *const pairs[][2] = {
        {"model.dropout=0.1", "model.dropout"},
        {"attention.score=additive", "attention.score"},
        {"attention.qk_norm=rms", "attention.qk_norm"},
        {"attention.scale_learned=head", "attention.scale_learned"},
        {"attention.scale_length=log", "attention.scale_length"},
        {"attention.softcap=5", "attention.softcap"},
        {"attention.sink=one", "attention.sink"},
        {"attention.score_precision=fp16", "attention.score_precision"},
        {"attention.score_gradient=no", "attention.score_gradient"},
        {"train.qk_clip=10", "train.qk_clip"},
        {"train.precision=bf16", "train.precision"},
    };
    for (size_t n = 0; n < COUNT_OF(pairs); n++) {
        const char *const overrides[] = {"train.engine=plain", pairs[n][0]};
        Config other;
        CONFIGURE("train.steps=1");
        assert_refused(pairs[n][1], config_load(&other, NULL, in("tiny.ini"), overrides, 2));
        assert_that(strstr(err.message, "train.engine") != NULL, "%s", err.message);
    }
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(fifty_steps), TRAINING_TEST(either_engine_continues), TRAINING_TEST(refused));
}
