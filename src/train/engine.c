/* Hands a pass to the engine that was chosen. The loop, the evaluation, the benchmark and the check of gradients call
   engine_pass and need not know which engine runs. The shards of a step are divided into passes here as well. */
#include "train/engine.h"

#include <string.h>

#include "ops/cross_entropy.h"

/* The slices of shards are smaller than those of an undivided batch, so that several fit into its arrays. They depend
   on the number of shards but not on that of threads, because they determine the order of sums. */
static size_t slice_of_shard(const Model *m, size_t shards) {
    const size_t room = model_slice(&m->shape, 0), parts = shards < SHARDS_AT_ONCE_MAX ? shards : SHARDS_AT_ONCE_MAX;
    return room < parts ? 1 : room / parts;
}

/* How many shards are computed at the same time, if there are enough: as many as the threads can be divided among, and
   as there is room for in the arrays of a slice. The plain engine computes one at a time. */
static size_t shards_at_once(EngineKind kind, const Model *m, size_t slice) {
    const size_t threads = kind == ENGINE_FAST ? m->threads : 1, room = model_slice(&m->shape, 0);
    size_t count = 1;
    while (2 * count <= SHARDS_AT_ONCE_MAX && threads % (2 * count) == 0 && 2 * count * slice <= room) count *= 2;
    return count;
}

void engine_make(Engine *e, EngineKind kind, size_t shards, Model *m) {
    const size_t slice = slice_of_shard(m, shards), at_once = shards_at_once(kind, m, slice);
    *e = (Engine){.model = m, .kind = kind, .slice = slice};
    if (kind == ENGINE_PLAIN) plain_make(&e->plain, &m->shape, &m->tensors, m->max_batch, m->threads);
    shards_make(&e->shards, shards, at_once, m->gradients, m->tensors.flat, m->shape.L * m->shape.attention.H,
                m->threads);
}

double engine_pass(Engine *e, const Batch *batch, const Pass *pass) {
    if (e->kind == ENGINE_FAST) return model_pass(e->model, batch, pass);
    real *gradients = pass->with_backward ? e->model->gradients : NULL;
    const Range own = range_size(pass->sequences) ? pass->sequences : (Range){0, batch->B};
    const size_t first = own.begin * batch->T;
    if (pass->zero_gradients) memset(e->model->gradients, 0, e->model->tensors.flat * sizeof(real));
    const double sum = plain_forward_backward(&e->plain, e->model->losses + first, gradients, e->model->parameters,
                                              batch->tokens + first, batch->targets + first, range_size(own), batch->T,
                                              pass->batch_weight / (double)batch_targets(batch));
    e->model->correct = 0;
    for (size_t b = 0; b < batch->B && !gradients; b++)
        e->model->correct += cross_entropy_correct(plain_logits(&e->plain, b), batch->targets + b * batch->T, batch->T,
                                                   e->model->shape.V);
    return sum;
}

/* Adds to each shard of a pass the losses of its positions, in their order. */
static void add_losses(Shards *s, const real *losses, size_t positions) {
    for (size_t shard = 0; shard < s->at_once; shard++) {
        double sum = 0;
        for (size_t i = 0; i < positions; i++) sum += (double)losses[shard * positions + i];
        s->losses[shard] += sum;
    }
}

double engine_pass_shards(Engine *e, size_t first, const Batch *batch, Pass pass) {
    pass.sequences = shards_sequences(&e->shards, first, batch->B);
    pass.shards = e->shards.at_once;
    pass.gradients = e->shards.gradients;
    pass.slice = e->slice;
    const double sum = engine_pass(e, batch, &pass);
    if (pass.with_backward)
        add_losses(&e->shards, e->model->losses + pass.sequences.begin * batch->T,
                   range_size(pass.sequences) / pass.shards * batch->T);
    return sum;
}

double engine_end_shards(Engine *e, size_t first) {
    const double loss = shards_end(&e->shards, first, e->model->score_max);
    e->model->gradients = e->shards.gradients[0];
    return loss;
}
