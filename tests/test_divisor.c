/* The divisor taken apart (docs/model.md): another divisor is W_Q, W_K and their biases started and learned at another
   scale; and the divisor switched in the middle of a run. */
#include "training.h"

#include "run/checkpoint.h"
#include "train/evaluate.h"

static Run run;
static Model model;

static void open_run(const char *name) {
    run_open(&run, in(name), NULL, 0, false);
    run_load_corpus(&run);
    run_load_model(&run, &model, 0, 1);
}

static double factor_of(const Tensor *t, size_t at, double qk) {
    return t->block_count == ATTENTION_PARTS && at % t->width < t->blocks[VALUE].begin ? qk : 1;
}

/* Every parameter of the run b is that of a, those of queries and keys `qk` times as large, to the bit. */
static void assert_parameters(const char *a, const char *b, real qk) {
    open_run(a);
    real *first = copied_reals(model.parameters, model.tensors.flat);
    open_run(b);
    for (size_t i = 0; i < model.tensors.count; i++) {
        const Tensor *t = &model.tensors.items[i];
        for (size_t j = 0; j < t->count; j++)
            assert_that(model.parameters[t->offset + j] == first[t->offset + j] * (real)factor_of(t, j, (double)qk),
                        "%s[%zu] is %.9g, and was %.9g", t->name, j, (double)model.parameters[t->offset + j],
                        (double)first[t->offset + j]);
    }
}

/* Divisor 4, or divisor 16 with a = sqrt(16 / 4) = 2: the same function at every step, to the bit, as a is a power of
   two. The conditions are those of docs/model.md: eps that does not count, no clipping, decay by lr itself. */
static void divisor_is_start_and_rate(void) {
    static const struct {
        const char *name, *optimizer, *lr, *lr_scale;
    } RULES[] = {{"adamw", "train.optimizer=adamw", "train.lr=1e-2", "train.qk_lr_scale=2"},
                 {"sgd", "train.optimizer=sgd", "train.lr=0.1", "train.qk_lr_scale=4"}};
    for (size_t n = 0; n < COUNT_OF(RULES); n++) {
        char a[32], b[32];
        snprintf(a, sizeof a, "%s_divided", RULES[n].name);
        snprintf(b, sizeof b, "%s_scaled", RULES[n].name);
        CONFIGURE(RULES[n].optimizer, RULES[n].lr, "train.eps=1e-30", "train.grad_clip=0", "model.init=torch",
                  "model.dropout=0.1", "train.weight_decay=1", "attention.scale_divisor=4");
        train(a, 2);
        CONFIGURE(RULES[n].optimizer, RULES[n].lr, "train.eps=1e-30", "train.grad_clip=0", "model.init=torch",
                  "model.dropout=0.1", "train.weight_decay=1", "attention.scale_divisor=16", "model.qk_init_scale=2",
                  RULES[n].lr_scale);
        train(b, 2);
        const Table *x = read_metrics(a), *y = read_metrics(b);
        assert_true(x->rows > 5 && x->rows == y->rows);
        assert_true(last_of(x, METRICS_VAL_LOSS) < first_of(x, METRICS_VAL_LOSS) - 0.3);
        for (size_t row = 0; row < x->rows; row++) {
            assert_true(x->at[row][METRICS_TRAIN_LOSS] == y->at[row][METRICS_TRAIN_LOSS]);
            assert_true(x->at[row][METRICS_VAL_LOSS] == y->at[row][METRICS_VAL_LOSS] ||
                        isnan(x->at[row][METRICS_VAL_LOSS]));
        }
        assert_parameters(a, b, 2);
    }
}

#define CONSTANT_LR "train.warmup=0", "train.min_lr=1e-2"

/* Up to the switch nothing changes; from then on every command scores the same weights with the other divisor. */
static void switched(void) {
    CONFIGURE(CONSTANT_LR, "train.steps=20", "log.every=1", "attention.scale_divisor=0.5");
    train("plain", 1);
    CONFIGURE(CONSTANT_LR, "train.steps=20", "log.every=1", "attention.scale_divisor=0.5", "attention.switch_step=10",
              "attention.switch_divisor=8");
    train("switched", 1);
    const Table *x = read_metrics("plain"), *y = read_metrics("switched");
    for (size_t row = 0; row < 10; row++) assert_true(x->at[row][METRICS_TRAIN_LOSS] == y->at[row][METRICS_TRAIN_LOSS]);
    assert_true(x->at[10][METRICS_TRAIN_LOSS] != y->at[10][METRICS_TRAIN_LOSS]);
    /* A run that ends at the step has been trained by the first divisor and is evaluated by the second. */
    CONFIGURE(CONSTANT_LR, "train.steps=10", "log.every=1", "attention.scale_divisor=0.5", "attention.switch_step=10",
              "attention.switch_divisor=8");
    train("jump", 1);
    const double after = last_of(read_metrics("jump"), METRICS_VAL_LOSS),
                 train_loss = last_of(read_metrics("jump"), METRICS_TRAIN_LOSS);
    assert_true(train_loss == y->at[10][METRICS_TRAIN_LOSS]);
    open_run("jump");
    assert_true(model.shape.attention.divisor == 8);
    assert_close(evaluate_run(&run, &model).loss, after, 1e-6, "by the second");
    model.shape.attention.divisor = 0.5;
    const double before = evaluate_run(&run, &model).loss;
    CONFIGURE(CONSTANT_LR, "train.steps=10", "log.every=1", "attention.scale_divisor=0.5");
    train("short", 1);
    assert_close(before, last_of(read_metrics("short"), METRICS_VAL_LOSS), 1e-6, "by the first");
    assert_true(before != after);
}

/* A run that is stopped before, at or after the switch, and resumed, has the same bits. */
static void resumed(void) {
    static const char *const STOPS[] = {"train.steps=9", "train.steps=10", "train.steps=11"};
    const char *const longer = "train.steps=20";
    CONFIGURE(CONSTANT_LR, longer, "attention.scale_divisor=none", "attention.switch_step=10",
              "attention.switch_divisor=dk");
    train("whole", 1);
    for (size_t n = 0; n < COUNT_OF(STOPS); n++) {
        char name[16];
        snprintf(name, sizeof name, "stop%zu", n);
        CONFIGURE(CONSTANT_LR, STOPS[n], "attention.scale_divisor=none", "attention.switch_step=10",
                  "attention.switch_divisor=dk");
        train(name, 1);
        resume_with_key(name, longer);
        assert_that(same_parameters("whole", name), "stopped by %s", STOPS[n]);
    }
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(divisor_is_start_and_rate), TRAINING_TEST(switched), TRAINING_TEST(resumed));
}
