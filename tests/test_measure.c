/* model/measure: a plain computation from the queries and keys, and theory's prediction of the scores at
   initialization. Then the lines of a run. */
#include "shapes.h"
#include "training.h"

#include "model/measure.h"
#include "run/run.h"

static Model model;

static ModelShape shape_of(size_t T, size_t C, size_t H, size_t D) {
    ModelShape shape = small_shape(T, C, H, D, 31);
    shape.tied = true;
    return shape;
}
static void make_model(const ModelShape *shape, size_t batch, size_t threads, Init init, uint64_t seed) {
    model_make(&model, shape, batch, threads, false);
    tensors_initialize(&model.tensors, shape, init, seed, model.threads, model.parameters);
}
static void forward(size_t B, size_t T) {
    int32_t tokens[4096];
    assert_true(B * T <= COUNT_OF(tokens));
    random_tokens(tokens, B * T, model.shape.V);
    model_forward(&model, &(Batch){.tokens = tokens, .B = B, .T = T});
}

/* Score of key j for query i of sequence b, in double from the queries and keys of the forward pass. */
static double score(size_t layer, size_t head, size_t b, size_t T, size_t i, size_t j) {
    const ModelShape *s = &model.shape;
    const size_t D = s->attention.D, HD = s->attention.H * D;
    const real *qkv = model.blocks[layer].qkv.values + b * T * 3 * HD + head * D;
    return dot(qkv + i * 3 * HD, qkv + j * 3 * HD + HD, D) / s->attention.divisor;
}

static HeadStatistics plain_statistics(size_t layer, size_t head, size_t B, size_t T) {
    double sum = 0, squares = 0, entries = 0, rows = 0;
    HeadStatistics h = {.score_max = -INFINITY};
    const size_t sink = model.shape.attention.sink == SINK_ONE; /* one more key, with the score 0 */
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j <= i; j++) sum += score(layer, head, b, T, i, j), entries++;
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < T; i++) {
            double most = -INFINITY, total = 0, entropy = 0;
            for (size_t j = 0; j <= i; j++) {
                double s = score(layer, head, b, T, i, j);
                squares += pow(s - sum / entries, 2);
                most = fmax(most, s);
            }
            h.score_max = fmax(h.score_max, most);
            for (size_t j = 0; j <= i; j++) total += exp(score(layer, head, b, T, i, j) - most);
            if (sink) total += exp(-most);
            for (size_t j = 0; j <= i; j++) {
                double p = exp(score(layer, head, b, T, i, j) - most) / total;
                if (p > 0) entropy -= p * log(p);
            }
            if (sink) entropy -= exp(-most) / total * log(exp(-most) / total);
            if (i + sink == 0) continue;
            rows++;
            h.entropy += entropy / log((double)(i + 1 + sink));
            h.max_weight += fmax(1, sink ? exp(-most) : 0) / total;
        }
    h.score_std = sqrt(squares / entries);
    const ModelShape *s = &model.shape;
    const real *w = tensor_at(&model.tensors, model.parameters, ATTN_W, layer);
    const size_t H = s->attention.H, D = s->attention.D;
    for (size_t i = 0; i < s->C * 3 * H * D; i++) {
        size_t column = i % (3 * H * D), which = column / (H * D);
        if (column / D % H != head) continue;
        if (which == 0) h.w_q_norm += pow((double)w[i], 2);
        if (which == 1) h.w_k_norm += pow((double)w[i], 2);
    }
    h.w_q_norm = sqrt(h.w_q_norm);
    h.w_k_norm = sqrt(h.w_k_norm);
    h.entropy /= rows;
    h.max_weight /= rows;
    return h;
}

static void against_plain_statistics(void) {
    const size_t lengths[] = {70, 64, 33, 2};
    for (int way = 0; way < 4; way++) {
        ModelShape shape = shape_of(70, 24, 3, 10);
        if (way % 2) shape.attention.divisor = 1. / 3;
        if (way / 2) shape.attention.sink = SINK_ONE;
        make_model(&shape, 3, 2, INIT_TORCH, 4); /* with biases: a mean that is not zero */
        for (size_t n = 0; n < COUNT_OF(lengths); n++) {
            HeadStatistics got[6];
            forward(3, lengths[n]);
            measure_heads(&model, 3, lengths[n], got);
            for (size_t head = 0; head < 6; head++) {
                HeadStatistics plain = plain_statistics(head / 3, head % 3, 3, lengths[n]);
                assert_close(got[head].score_std, plain.score_std, 1e-5 * plain.score_std, "score_std of %zu", head);
                assert_close(got[head].score_max, plain.score_max, 1e-5 * fmax(fabs(plain.score_max), plain.score_std),
                             "score_max of %zu", head);
                assert_close(got[head].entropy, plain.entropy, 1e-5, "entropy of %zu", head);
                assert_close(got[head].max_weight, plain.max_weight, 1e-5, "max_weight of %zu", head);
                assert_close(got[head].w_q_norm, plain.w_q_norm, 1e-12, "w_q_norm of %zu", head);
                assert_close(got[head].w_k_norm, plain.w_k_norm, 1e-12, "w_k_norm of %zu", head);
            }
        }
    }
}

static void one_position(void) {
    ModelShape shape = shape_of(1, 8, 1, 8);
    make_model(&shape, 3, 1, INIT_UNIT, 3);
    forward(3, 1);
    HeadStatistics got[2];
    measure_heads(&model, 3, 1, got);
    assert_true(isnan(got[0].entropy) && isnan(got[0].max_weight) && isfinite(got[0].score_std));
}

/* The first block's score_std, mean over heads and seeds, against theory's; d_k and divisor vary. */
static void prediction(void) {
    const struct {
        size_t H, D;
        double divisor;
        Init init;
    } cases[] = {
        {2, 64, 8, INIT_UNIT}, {4, 32, 1, INIT_UNIT},   {1, 64, 64, INIT_UNIT},
        {8, 16, 8, INIT_UNIT}, {2, 64, 8, INIT_XAVIER},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        ModelShape shape = shape_of(32, 128, cases[n].H, cases[n].D);
        shape.V = 80, shape.L = 1;
        shape.attention.divisor = cases[n].divisor;
        double sum = 0;
        enum { SEEDS = 6 };
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            HeadStatistics got[8];
            make_model(&shape, 8, 1, cases[n].init, seed);
            forward(8, 32);
            measure_heads(&model, 8, 32, got);
            for (size_t head = 0; head < cases[n].H; head++) sum += got[head].score_std / (SEEDS * (double)cases[n].H);
        }
        double predicted = predicted_score_std(&shape, cases[n].init);
        if (cases[n].init == INIT_UNIT)
            assert_close(predicted, sqrt((double)cases[n].D) / cases[n].divisor, 0.02 * predicted, "theory, case %zu",
                         n);
        assert_close(sum, predicted, 0.1 * predicted, "measured standard deviation, case %zu", n);
    }
}

/* Compares one step's lines of attention.csv with the model as it stands, on the fixed batch, to the last digit. */
static const char *check_lines(Model *m, size_t B, const int32_t *tokens, size_t step, const char *line) {
    HeadStatistics heads[4];
    model_forward(m, &(Batch){.tokens = tokens, .B = B, .T = m->shape.T});
    measure_heads(m, B, m->shape.T, heads);
    for (size_t i = 0; i < 4; i++) {
        char expected[256];
        int length =
            snprintf(expected, sizeof expected, "%zu,%zu,%zu,%.6g,%.6g,%.6g,%.6g,%.6g,", step, i / 2, i % 2,
                     heads[i].score_std, heads[i].score_max, heads[i].entropy, heads[i].max_weight, heads[i].saturated);
        assert_that(strncmp(line, expected, (size_t)length) == 0, "%.80s is not %s", line, expected);
        line += strcspn(line, "\n") + 1; /* the rest is gradients: test_gradients.c */
    }
    return line;
}

static void a_run_writes_them(void) {
    static Run run;
    CONFIGURE("model.layers=2", "train.steps=8", "model.dropout=0.2", "log.attention_every=0", "train.batch=5");
    train("run", 2);
    run_open(&run, in("run"), NULL, 0, false);
    run_load_model(&run, &model, 0, 2);
    const Corpus corpus = corpus_load(in("corpus.txt"), NULL, 0.2, 16);
    int32_t tokens[5 * 16], targets[5 * 16];
    size_t B = validation_batch(&corpus, 5, 16, tokens, targets);
    real *last = copied_reals(model.parameters, model.tensors.flat);
    const char *line = contents(in("run/attention.csv"), NULL);
    line += strcspn(line, "\n") + 1;
    tensors_initialize(&model.tensors, &model.shape, INIT_UNIT, 1, model.threads, model.parameters);
    line = check_lines(&model, B, tokens, 0, line);
    memcpy(model.parameters, last, model.tensors.flat * sizeof *last);
    line = check_lines(&model, B, tokens, 8, line);
    assert_string_equal(line, "");
}

int main(void) {
    return RUN_TESTS(TEST(against_plain_statistics), TEST(one_position), TEST(prediction),
                     TRAINING_TEST(a_run_writes_them));
}
