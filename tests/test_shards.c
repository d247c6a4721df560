/* train.shards: the parts of a batch and the order of their sum. The tree is compared, to the bit, with one that is put
   together here from passes over single shards; the result with that of the undivided batch, to rounding; and neither
   threads nor the order in which shards are computed may change a bit. */
#include "training.h"

#include "gemm/matmul.h"
#include "model/initialization.h"
#include "train/engine.h"

enum { B = 8, SEED = 5, NUMBER = 3 };

/* The results of one step of the config. */
typedef struct {
    double loss;
    real *gradients, *score_max; /* (flat), (L,H) */
    size_t flat, heads, at_once;
} Result;

typedef struct {
    Corpus corpus;
    Model model;
    Engine engine;
} Setup;

static void setup(Setup *s, size_t threads) {
    const size_t batch = config.train.batch;
    s->corpus = config_corpus(&config, NULL);
    const ModelShape shape = model_shape(&config, s->corpus.vocabulary.count);
    model_make(&s->model, &shape, batch, threads, true);
    engine_make(&s->engine, config.train.engine, config.train.shards, &s->model);
    tensors_initialize(&s->model.tensors, &shape, INIT_UNIT, SEED, 1, s->model.parameters);
}

/* `delivered` threads run although the engine was made for `threads`, as when OpenMP has no more. */
static Result step_of_delivered(size_t shards, size_t threads, size_t delivered) {
    Setup s;
    config.train.shards = shards;
    setup(&s, threads);
    s.model.threads = delivered;
    const Model *m = &s.model;
    Result r = {
        .flat = m->tensors.flat, .heads = m->shape.L * m->shape.attention.H, .at_once = s.engine.shards.at_once};
    /* Twice: the second time the arrays hold what the first has left. */
    for (size_t step = NUMBER - 1; step <= NUMBER; step++) r.loss = step_gradients(&s.engine, &s.corpus, &config, step);
    r.gradients = copied_reals(m->gradients, r.flat);
    r.score_max = copied_reals(m->score_max, r.heads);
    return r;
}
static Result step_of(size_t shards, size_t threads) { return step_of_delivered(shards, threads, threads); }

static bool same_bits(const Result *a, const Result *b) {
    return a->loss == b->loss && memcmp(a->gradients, b->gradients, a->flat * sizeof(real)) == 0 &&
           memcmp(a->score_max, b->score_max, a->heads * sizeof(real)) == 0;
}

/* Gradients are sums of some hundred terms of both signs; grouped anew they differ by some units of rounding, 2^-24, of
   the largest. A shard that is missing, or whose dropout or batch is another, changes them by a tenth. */
static void equal_to_rounding(void) {
    static const char *const runs[][6] = {
        {"train.batch=8"},
        {"train.batch=8", "model.dropout=0.2", "train.accumulate=3", "model.layers=2"},
        {"train.batch=8", "model.norm=post", "model.dropout=0.1", "model.tie_embeddings=no"},
        {"train.batch=8", "data.task=recall", "data.corpus=\"\"", "data.recall_pairs=3", "train.accumulate=2"},
        {"train.batch=8", "attention.score=additive", "attention.sink=learned", "model.dropout=0.2"},
        {"train.batch=8", "train.engine=plain", "train.accumulate=2"},
    };
    for (size_t n = 0; n < COUNT_OF(runs); n++) {
        configure(runs[n]);
        const size_t mark = memory_mark();
        const Result whole = step_of(1, 2);
        const double largest = max_abs(whole.gradients, whole.flat);
        bool other_bits = false;
        for (size_t shards = 2; shards <= B; shards *= 2) {
            const Result r = step_of(shards, 2);
            assert_close(r.loss, whole.loss, 1e-6 * whole.loss, "run %zu, %zu shards: loss", n, shards);
            for (size_t i = 0; i < r.flat; i++)
                assert_close(r.gradients[i], whole.gradients[i], 2e-6 * largest, "run %zu, %zu shards: gradient %zu", n,
                             shards, i);
            /* a maximum has no rounding, but products of other shapes may have */
            for (size_t i = 0; i < r.heads; i++)
                assert_close(r.score_max[i], whole.score_max[i], matmul_is_own() ? 0 : 1e-5, "run %zu, head %zu", n, i);
            other_bits = other_bits || !same_bits(&r, &whole);
        }
        assert_true(other_bits); /* else nothing was divided */
        memory_release(mark);
    }
}

/* Returns the number of shards that are computed at the same time. */
static size_t expected_at_once(size_t shards, size_t threads) {
    const size_t sequences = model_slice_size(&(ModelShape){.T = config.model.context}, 0);
    size_t count = SHARDS_AT_ONCE_MAX;
    while (shards % count != 0 || threads % count != 0 || count > sequences) count /= 2;
    return count;
}

/* Several shards at the same time, by one thread each or more. In the second run a shard has several slices, in the
   third the threads of a shard share a sequence, and in the fifth a slice has room for one shard only. The last three
   have sizes that are no multiples of a tile's. Long contexts are tried with 2, 5 and 8 threads, and in an instrumented
   build all are with 2 and 8. */
static void threads_change_no_bit(void) {
    static const char *const runs[][7] = {
        {"train.batch=8", "model.dropout=0.2", "train.accumulate=2", "model.layers=2", "attention.sink=learned"},
        {"train.batch=12", "model.context=1024", "data.corpus=\"\"", "model.dropout=0.1"},
        {"train.batch=4", "model.layers=2", "model.norm=post", "train.precision=bf16"},
        {"train.batch=8", "data.task=recall", "data.corpus=\"\"", "data.recall_pairs=3", "train.accumulate=2"},
        {"train.batch=2", "model.context=2100", "data.corpus=\"\""},
        {"train.batch=1", "model.context=70", "model.d_model=40", "model.d_k=11", "model.d_ff=70", "model.dropout=0.2"},
        {"train.batch=9", "model.context=1", "model.norm=post", "model.tie_embeddings=no", "model.d_k=11"},
        {"train.batch=5", "model.context=130", "model.d_k=11", "model.dropout=0.2", "train.precision=bf16"},
    };
    if (!matmul_is_own()) skip();
    for (size_t n = 0; n < COUNT_OF(runs); n++) {
        configure(runs[n]);
        for (size_t shards = 1; config.train.batch % shards == 0; shards *= 2) {
            const size_t mark = memory_mark();
            const Result one = step_of(shards, 1);
            for (size_t threads = 2; threads <= 8; threads += INSTRUMENTED ? 6 : config.model.context > 64 ? 3 : 1) {
                const size_t step = memory_mark();
                const Result r = step_of(shards, threads);
                assert_int_equal(r.at_once, expected_at_once(shards, threads));
                assert_that(same_bits(&r, &one), "run %zu: %zu shards by %zu threads", n, shards, threads);
                memory_release(step);
            }
            for (size_t delivered = 1; delivered <= 7 && n == 0; delivered += INSTRUMENTED ? 3 : 1) {
                const Result r = step_of_delivered(shards, 8, delivered);
                assert_that(same_bits(&r, &one), "%zu shards by %zu threads of 8", shards, delivered);
            }
            memory_release(mark);
        }
    }
}

/* The gradients of one shard of the step, by itself. */
static real *gradients_of(Setup *s, size_t shard) {
    const size_t T = s->model.shape.T;
    for (uint64_t part = 0; part < 2; part++) {
        const Pass pass = {.training = true,
                           .seed = config.train.seed,
                           .micro_step = 2 * NUMBER + part,
                           .with_backward = true,
                           .zero_gradients = part == 0,
                           .batch_weight = .5,
                           .batch_shards = 4,
                           .shards = {shard, shard + 1},
                           .gradients = &s->model.gradients};
        corpus_training_batch(&s->corpus, pass.seed, pass.micro_step, B, T, s->engine.tokens, s->engine.targets);
        model_pass(&s->model, &(Batch){s->engine.tokens, s->engine.targets, B, T}, &pass);
    }
    return copied_reals(s->model.gradients, s->model.tensors.flat);
}

/* ((0 + 1) + (2 + 3)), each shard over both accumulated batches first; the shards computed from the last to the first,
   as other machines might. */
static void sum_is_a_tree(void) {
    Setup s;
    real *part[4];
    CONFIGURE("train.batch=8", "train.shards=4", "train.accumulate=2", "model.dropout=0.2");
    setup(&s, 2);
    for (size_t shard = 4; shard-- > 0;) part[shard] = gradients_of(&s, shard);
    const Result r = step_of(4, 1);
    size_t in_order = 0;
    for (size_t i = 0; i < r.flat; i++) {
        const real sum = (part[0][i] + part[1][i]) + (part[2][i] + part[3][i]);
        assert_that(r.gradients[i] == sum, "gradient %zu is %a, the tree's %a", i, (double)r.gradients[i], (double)sum);
        in_order += r.gradients[i] == ((part[0][i] + part[1][i]) + part[2][i]) + part[3][i];
    }
    assert_true(in_order < r.flat - 1000); /* another order would have been seen */
}

static void refused(void) {
    static const struct {
        const char *settings[3], *says;
    } cases[] = {
        {{"train.shards=3", "train.batch=6"}, "train.shards = 3 (--set) must be a power of two that divides"},
        {{"train.shards=8"}, "train.shards = 8 (--set) must be a power of two that divides train.batch = 4"},
        {{"train.shards=0"}, "from 1 to 65536"},
    };
    CONFIGURE("train.shards=4");
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_refused(cases[i].says,
                       config_load(&config, NULL, in("tiny.ini"), cases[i].settings, 1 + !!cases[i].settings[1]));
}

int main(void) {
    return RUN_TESTS(TRAINING_TEST(equal_to_rounding), TRAINING_TEST(threads_change_no_bit),
                     TRAINING_TEST(sum_is_a_tree), TRAINING_TEST(refused));
}
