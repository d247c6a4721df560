/* Every choice a config has, each in a run of its own. */
#include "training.h"

/* Each choice trains, and is another run than the plain one. */
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
        assert_that(last_of(m, VAL_LOSS) < first_of(m, VAL_LOSS) - 0.3, "%s %s: from %g to %g", c[0], c[1] ? c[1] : "",
                    first_of(m, VAL_LOSS), last_of(m, VAL_LOSS));
        assert_that(!same_parameters("plain", name), "%s changes nothing", c[0]);
        for (size_t i = 0; i < m->rows; i++) assert_true(isfinite(m->at[i][TRAIN_LOSS]) && m->at[i][GRAD_NORM] > 0);
        memory_release(mark);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {TRAINING_TEST(every_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
