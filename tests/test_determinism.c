/* Training is deterministic: the same seed and number of threads give the same files, bit for bit, in this process and
   in others, whose addresses differ. Gradients by other numbers of threads are in test_shards.c. A step in bf16 is one
   in fp32, rounded. */
#include "training.h"
#include "training_pass.h"

#include <spawn.h>
#include <sys/wait.h>

#include "gemm/matmul.h"
#include "model/initialization.h"
#include "model/transformer.h"

static const size_t THREADS[] = {1, 2, 8};

static void train_here(const char *ini, const char *run, size_t threads) {
    const TrainOptions options = {
        .threads = threads, .out = run, .command_line = "", .progress = progress_make(stderr, true)};
    config_load(&config, NULL, ini, NULL, 0);
    outcome = *run_loop(trainer_start(&config, &options));
}

/* Trains in another process of this program (see main). */
static void train_elsewhere(const char *ini, const char *run, size_t threads) {
    extern char **environ;
    char number[24], *const arguments[] = {"test_determinism", (char *)ini, (char *)run, number, NULL};
    pid_t child;
    int status = 0;
    snprintf(number, sizeof number, "%zu", threads);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Where the program makes the products, other numbers of threads give the same files as well. */
static void runs_repeat_to_the_bit(void) {
    enum { RUNS = INSTRUMENTED ? 3 : 5 };
#define SHORT "train.steps=6", "eval.every=3", "eval.batches=2", "log.attention_every=6", "log.every=1"
    static const char *const cases[][14] = {
        {SHORT, "model.layers=2", "attention.score=additive", "attention.qk_norm=rms", "attention.scale_learned=head",
         "attention.sink=learned", "attention.softcap=5", "train.batch=3", "log.attention_text=keys"},
        {SHORT, "model.layers=2", "attention.score_precision=fp16", "attention.scale_divisor=none",
         "attention.scale_length=log", "train.qk_clip=2", "train.accumulate=2", "log.attention_text=keys",
         "train.optimizer=muon"},
        {SHORT, "model.layers=2", "model.dropout=0.1", "train.batch=3", "train.accumulate=2",
         "log.attention_text=keys"},
        /* fewer sequences than threads, two tiles of queries */
        {SHORT, "model.norm=post", "model.dropout=0.1", "train.optimizer=sgd", "train.batch=1", "model.context=70"},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++)
        for (size_t t = 0; t < COUNT_OF(THREADS); t++) {
            char first[32], name[32], ini[600], out[600];
            configure(cases[n]);
            save_config("case.ini");
            snprintf(ini, sizeof ini, "%s", in("case.ini"));
            snprintf(first, sizeof first, "run%zu_%zu_0", n, matmul_is_own() ? THREADS[0] : THREADS[t]);
            for (size_t i = 0; i < RUNS; i++) {
                snprintf(name, sizeof name, "run%zu_%zu_%zu", n, THREADS[t], i);
                snprintf(out, sizeof out, "%s", in(name));
                if (i % 2) train_elsewhere(ini, out, THREADS[t]);
                else train_here(ini, out, THREADS[t]);
                support_release(NULL); /* the lock on the directory, too */
                assert_same_run(first, name);
            }
        }
}

typedef struct {
    size_t B, T, C, F, D;
    bool post, bf16;
    Score score;
    QkNorm qk_norm;
    ScaleLearned learned;
    Sink sink;
    real softcap;
} Case;

/* Computes the loss and gradients of one step. */
static double step_by(const Case *c, real **gradients, TensorTable *table) {
    const ModelShape shape = {.T = c->T,
                              .C = c->C,
                              .attention = {.H = 2,
                                            .D = c->D,
                                            .divisor = sqrt((double)c->D),
                                            .qk_init_scale = 1,
                                            .qk_lr_scale = 1,
                                            .rounds = c->bf16,
                                            .score = c->score,
                                            .qk_norm = c->qk_norm,
                                            .learned = c->learned,
                                            .sink = c->sink,
                                            .softcap = c->softcap},
                              .F = c->F,
                              .V = 37,
                              .L = 2,
                              .pre_norm = !c->post,
                              .bias = true,
                              .tied = true};
    Model model;
    int32_t tokens[300], targets[300];
    assert_true(c->B * c->T <= COUNT_OF(tokens));
    support_stream = 0;
    random_tokens(tokens, c->B * c->T, shape.V);
    random_tokens(targets, c->B * c->T, shape.V);
    model_make(&model, &shape, c->B, 2, true);
    tensors_initialize(&model.tensors, &shape, INIT_UNIT, 1, model.threads, model.parameters);
    const Pass pass = training_pass(1, 0, 1, true);
    double loss = model_pass(&model, &(Batch){tokens, targets, c->B, c->T}, &pass);
    *gradients = copied_reals(model.gradients, model.tensors.flat);
    *table = model.tensors;
    return loss / (double)(c->B * c->T);
}

/* Rounding to bf16 changes an operand by at most 2^-9 of itself. Behind a gradient at the end of the chain are 26
   products of two operands each: six per layer and the logits, forward and backward. 52 independent changes make it
   sqrt(52) 2^-9 = .014 of its size different. Attention's own parameters are few numbers, sums in which terms of both
   signs cancel: twice as much is allowed where a model has them. */
static void bf16_is_close(void) {
    static const Case cases[] = {
        {.B = 4, .T = 64, .C = 128, .F = 512, .D = 64},
        {.B = 2, .T = 150, .C = 64, .F = 128, .D = 32},            /* tiles of queries, which products read in place */
        {.B = 2, .T = 150, .C = 40, .F = 70, .D = 11},             /* and copied, since a head's rows are not whole */
        {.B = 2, .T = 70, .C = 40, .F = 12, .D = 2, .post = true}, /* rows that are mostly the zeros of bf16_stride */
        {.B = 2, .T = 70, .C = 40, .F = 70, .D = 11, .qk_norm = QK_NORM_RMS, .learned = LEARNED_HEAD},
        {.B = 2, .T = 70, .C = 64, .F = 70, .D = 32, .sink = SINK_LEARNED, .softcap = 2},
        {.B = 2, .T = 70, .C = 40, .F = 70, .D = 11, .score = SCORE_ADDITIVE},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        Case bf16 = cases[n];
        const bool own_parameters = bf16.qk_norm || bf16.sink || bf16.score;
        const double bound = (own_parameters ? 2 : 1) * sqrt(52) * 0x1p-9;
        real *exact, *rounded;
        TensorTable table, same;
        bf16.bf16 = true;
        const double loss = step_by(&cases[n], &exact, &table), other = step_by(&bf16, &rounded, &same);
        assert_close(other, loss, 0x1p-9 * loss, "case %zu: loss", n);
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *tensor = &table.items[i];
            double difference = 0, size = 0;
            for (size_t j = tensor->offset; j < tensor->offset + tensor->count; j++) {
                difference += pow((double)(rounded[j] - exact[j]), 2);
                size += pow((double)exact[j], 2);
            }
            assert_that(difference > 0 && sqrt(difference) < bound * sqrt(size), "case %zu: %s: %g of %g", n,
                        tensor->name, sqrt(difference), sqrt(size));
        }
        support_release(NULL);
    }
}

/* Products read weights as the last pass without same_parameters packed them. */
static void weights_are_packed(void) {
    if (!matmul_is_own()) skip();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const ModelShape shape = {.T = 40,
                                  .C = 48,
                                  .F = 70,
                                  .V = 37,
                                  .L = 2,
                                  .attention = {.H = 3, .D = 16, .divisor = 4, .rounds = bf16},
                                  .pre_norm = true};
        Model model;
        int32_t tokens[80], targets[80];
        random_tokens(tokens, COUNT_OF(tokens), shape.V);
        random_tokens(targets, COUNT_OF(targets), shape.V);
        const Batch batch = {tokens, targets, 2, shape.T};
        const Pass again = {.same_parameters = true};
        model_make(&model, &shape, batch.B, 5, true);
        tensors_initialize(&model.tensors, &shape, INIT_UNIT, 1, model.threads, model.parameters);
        for (TensorRole role = LM_HEAD; role >= ATTN_W; role--) {
            const Tensor *t = tensor_find(&model.tensors, role, 0);
            if (!t || t->dimensions < 2) continue;
            const double before = model_forward(&model, &batch);
            for (size_t i = 0; i < t->count; i++) model.parameters[t->offset + i] *= -2;
            assert_true(model_pass(&model, &batch, &again) == before);
            assert_true(model_forward(&model, &batch) != before);
        }
        support_release(NULL);
    }
}

int main(int argc, char **argv) {
    if (argc == 4) { /* "INI RUN THREADS": train_elsewhere */
        train_here(argv[1], argv[2], strtoul(argv[3], NULL, 10));
        return support_release(NULL);
    }
    return RUN_TESTS(TRAINING_TEST(runs_repeat_to_the_bit), TEST(bf16_is_close), TEST(weights_are_packed));
}
