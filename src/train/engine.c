/* Hands a pass to the engine that was chosen. The loop, the evaluation, the benchmark and the check of gradients call
   engine_pass and need not know which engine runs. */
#include "train/engine.h"

#include <string.h>

#include "ops/cross_entropy.h"

bool engine_make(Engine *e, EngineKind kind, size_t shards, Model *m, Error *err) {
    *e = (Engine){.model = m, .kind = kind, .gradients = m->gradients};
    return (kind == ENGINE_FAST || plain_make(&e->plain, &m->shape, &m->tensors, m->max_batch, m->threads, err)) &&
           shards_make(&e->shards, shards, m->tensors.flat, m->shape.L * m->shape.attention.H, m->threads, err);
}

void engine_free(Engine *e) {
    if (e->gradients) e->model->gradients = e->gradients;
    shards_free(&e->shards);
    plain_free(&e->plain);
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
