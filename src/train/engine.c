/* Calls the engine that train.engine names, and divides the shards of a step into passes. Computes the gradients of a
   step, and makes the update. */
#include "train/engine.h"

#include <math.h>
#include <omp.h>

/* The slices of shards are smaller than those of an undivided batch, so that several fit into its arrays. They depend
   on the number of shards but not on that of threads, because they determine the order of sums. */
static size_t slice_size_of_shard(const Model *m, size_t shards) {
    const size_t all = model_slice_size(&m->shape, 0), most = shards < SHARDS_AT_ONCE_MAX ? shards : SHARDS_AT_ONCE_MAX;
    return all < most ? 1 : all / most;
}

/* Returns the number of shards to compute at the same time, if there are enough. It divides the number of threads, and
   so many shards fit into the arrays of a slice. The plain engine computes one at a time. */
static size_t shards_at_once(EngineKind kind, const Model *m, size_t slice_size) {
    const size_t threads = kind == ENGINE_FAST ? m->threads : 1, most = model_slice_size(&m->shape, 0);
    size_t count = 1;
    while (2 * count <= SHARDS_AT_ONCE_MAX && threads % (2 * count) == 0 && 2 * count * slice_size <= most) count *= 2;
    return count;
}

void engine_make(Engine *e, EngineKind kind, size_t shards, Model *m) {
    const size_t slice_size = slice_size_of_shard(m, shards), at_once = shards_at_once(kind, m, slice_size);
    const size_t ids = size_mul(m->max_batch, m->shape.T);
    *e = (Engine){.model = m, .kind = kind, .slice_size = slice_size};
    e->tokens = memory_make(ids, sizeof *e->tokens, "the batches");
    e->targets = memory_make(ids, sizeof *e->targets, "the batches");
    if (kind == ENGINE_PLAIN) plain_make(&e->plain, m);
    shards_make(&e->shards, shards, at_once, m->gradients, m->tensors.flat, m->shape.L * m->shape.attention.H,
                m->threads);
}

double engine_pass(Engine *e, const Batch *batch, const Pass *pass) {
    return e->kind == ENGINE_PLAIN ? plain_pass(&e->plain, batch, pass) : model_pass(e->model, batch, pass);
}

/* Adds to each shard of a pass the losses of its positions, in their order. */
static void add_losses(Shards *s, const real *losses, size_t positions) {
    for (size_t shard = 0; shard < s->at_once; shard++) {
        double sum = 0;
        for (size_t i = 0; i < positions; i++) sum += (double)losses[shard * positions + i];
        s->losses[shard] += sum;
    }
}

/* Makes a pass over shards.at_once shards, from this rank's shard `first` on. Each shard adds to its gradients and to
   its sum of losses. This sum is not finite if a loss was not, even if the pass ended early. Sets the division of
   `pass`. Returns the losses of all positions. */
static double pass_shards(Engine *e, size_t first, const Batch *batch, Pass pass) {
    const Division d = {shards_sequences(&e->shards, first, batch->B), e->shards.at_once, e->slice_size,
                        e->shards.gradients};
    pass.division = &d;
    const double sum = engine_pass(e, batch, &pass);
    add_losses(&e->shards, e->model->losses + d.sequences.begin * batch->T,
               range_size(d.sequences) / d.shards * batch->T);
    return sum;
}

double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step, StepSeconds *seconds) {
    const size_t B = config->train.batch, T = engine->model->shape.T, batches = config->train.accumulate;
    const uint64_t seed = config->train.seed;
    const Batch batch = {engine->tokens, engine->targets, B, T};
    double loss = 0, counted = 0;
    model_forget_scores(engine->model);
    for (size_t shard = 0; shard < engine->shards.own; shard += engine->shards.at_once) {
        double sum = 0;
        counted = 0;
        for (size_t i = 0; i < batches && isfinite(sum); i++) {
            const uint64_t number = (uint64_t)step * batches + i;
            const double start = omp_get_wtime();
            corpus_training_batch(corpus, seed, number, B, T, engine->tokens, engine->targets);
            if (seconds) seconds->batch += omp_get_wtime() - start;
            const Pass pass = {.training = true,
                               .seed = seed,
                               .micro_step = number,
                               .with_backward = true,
                               .zero_gradients = i == 0,
                               .same_parameters = shard > 0 || i > 0,
                               .batch_weight = 1 / (double)batches};
            sum = pass_shards(engine, shard, &batch, pass);
            counted += (double)engine->model->targets;
        }
        const double start = omp_get_wtime();
        loss = shards_end(&engine->shards, shard, engine->model->score_max);
        engine->model->gradients = engine->shards.gradients[0];
        if (seconds) seconds->shards += omp_get_wtime() - start;
    }
    return loss / counted;
}

void step_update(Model *model, Optimizer *optimizer, const Config *config, double norm, size_t step) {
    optimizer_step(optimizer, &model->tensors, model->parameters, model->gradients, norm, learning_rate(config, step),
                   step);
    if (config->train.qk_clip > 0) model_qk_clip(model, config->train.qk_clip);
}

bool step_is_due(size_t step, size_t every) {
    if (every == EVERY_DOUBLING) return (step & (step - 1)) == 0;
    return every > 0 && step % every == 0;
}
