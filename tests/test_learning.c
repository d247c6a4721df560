/* The two ends of learning: an untrained model has the loss of a guess, within a margin that theory gives, and a run
   memorizes a small text. */
#include "shapes.h"
#include "training.h"

static Model model;

enum { B = 16, T = 32, ROWS = B * T, V = 128, SEEDS = 4 };

/* The mean over seeds of an untrained model's loss, on characters and targets drawn at random. */
static double first_loss(ModelShape shape, Init init) {
    static int32_t tokens[ROWS], targets[ROWS];
    double mean = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const size_t mark = memory_mark();
        model_make(&model, &shape, B, 2, false);
        tensors_initialize(&model.tensors, &shape, init, seed, model.threads, model.parameters);
        random_tokens(tokens, ROWS, V);
        random_tokens(targets, ROWS, V);
        mean += model_forward(&model, &(Batch){tokens, targets, B, T}) / (ROWS * SEEDS);
        memory_release(mark);
    }
    return mean;
}

/* The input h of the output embedding is the output of a LayerNorm of gain 1: |h|^2 = C v / (v + epsilon), where the
   variance v is at least that of two embeddings, 8e-4. So |h|^2 is C, or up to 1.3 % less. The embedding's entries are
   N(0, 0.02^2), so a row's logits z are independent N(0, s^2), s^2 = 0.02^2 C. With targets drawn apart from them the
   loss is ln V + ln(mean of e^z over V) - z_target on average ln V + s^2 / 2 - (e^(s^2) - 1) / 2V (the mean of e^z is
   e^(s^2 / 2), and the last term its variance's share in the logarithm). It scatters around that by s / sqrt(rows),
   for the targets, and by sqrt(2 / V) s^2 / 2, for the logits, if they are the same in every row: both less by
   sqrt(SEEDS). Allowed are five times that. */
static void starts_at_a_guess(void) {
    ModelShape shape = small_shape(T, 512, 2, 16, V);
    const double s2 = 0.0004 * 512, expected = log(V) + s2 / 2 - (exp(s2) - 1) / (2 * V);
    const double scatter = sqrt((s2 / ROWS + 2.0 / V * s2 * s2 / 4) / SEEDS);
    assert_true(5 * scatter < s2 / 2); /* sharp enough to tell the loss from ln V */
    for (int init = INIT_UNIT; init <= INIT_GPT2; init++)
        for (int pre = 0; pre < 2; pre++) {
            shape.pre_norm = pre;
            assert_close(first_loss(shape, (Init)init), expected, 5 * scatter + 0.013 * s2 / 2, "init %d, %s-norm",
                         init, pre ? "pre" : "post");
        }
}

/* A whole run, on a text whose training part is one window of context + 1 characters, and whose validation part is the
   same again: every batch is that window, and so is what is validated. */
static void memorises_a_text(void) {
    static const char text[] = "keys meet queries"
                               "keys meet queries";
    put_text("corpus.txt", text);
    CONFIGURE("data.val_fraction=0.5", "train.steps=100", "eval.every=10", "log.every=10", "train.weight_decay=0");
    assert_int_equal(strlen(text), 2 * (config.model.context + 1));
    train("run", 1);
    const Table *m = read_metrics("run");
    assert_true(last_of(m, METRICS_TRAIN_LOSS) < 0.05);
    for (size_t i = 0; i < m->rows; i++) /* logits of size 10, each some thirty roundings of 2^-24 away */
        assert_close(m->at[i][METRICS_VAL_LOSS], m->at[i][METRICS_TRAIN_LOSS], 2e-5, "row %zu", i);
}

int main(void) { return RUN_TESTS(TRAINING_TEST(starts_at_a_guess), TRAINING_TEST(memorises_a_text)); }
