/* Hands a pass to the engine that was chosen. The loop, the evaluation, the benchmark and the check of gradients call
   engine_pass and need not know which engine runs. */
#include "train/engine.h"

#include <string.h>

bool engine_make(Engine *e, EngineKind kind, Model *model, Error *err) {
    *e = (Engine){.model = model, .kind = kind};
    return kind == ENGINE_FAST ||
           plain_make(&e->plain, &model->shape, &model->tensors, model->max_batch, model->threads, err);
}

void engine_free(Engine *e) { plain_free(&e->plain); }

/* Targets whose logits are the largest. */
static size_t count_right(const Plain *plain, const Batch *batch, size_t V) {
    size_t right = 0;
    for (size_t r = 0; r < batch->B * batch->T; r++) {
        const real *logits = plain_logits(plain, r / batch->T) + r % batch->T * V;
        size_t larger = 0;
        if (batch->targets[r] < 0) continue;
        for (size_t v = 0; v < V; v++) larger += logits[v] > logits[batch->targets[r]];
        right += larger == 0;
    }
    return right;
}

double engine_pass(Engine *e, const Batch *batch, const Pass *pass) {
    if (e->kind == ENGINE_FAST) return model_pass(e->model, batch, pass);
    real *gradients = pass->with_backward ? e->model->gradients : NULL;
    if (pass->zero_gradients) memset(e->model->gradients, 0, e->model->tensors.flat * sizeof(real));
    const double sum =
        plain_forward_backward(&e->plain, e->model->losses, gradients, e->model->parameters, batch->tokens,
                               batch->targets, batch->B, batch->T, pass->batch_weight / (double)batch_targets(batch));
    if (!gradients) e->model->right = count_right(&e->plain, batch, e->model->shape.V);
    return sum;
}
