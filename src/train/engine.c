/* Hands a pass to the engine that was chosen. The loop, the evaluation, the benchmark and the check of gradients call
   these functions and need not know which engine runs. */
#include "train/engine.h"

#include <string.h>

bool engine_make(Engine *e, EngineKind kind, Model *model, Error *err) {
    *e = (Engine){.model = model, .kind = kind};
    return kind == ENGINE_FAST ||
           plain_make(&e->plain, &model->shape, &model->tensors, model->max_batch, model->threads, err);
}

void engine_free(Engine *e) { plain_free(&e->plain); }

static double plain_pass(Engine *e, const Batch *batch, real *gradients, double loss_weight) {
    return plain_forward_backward(&e->plain, e->model->losses, gradients, e->model->parameters, batch->tokens,
                                  batch->targets, batch->B, batch->T, loss_weight);
}

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

double engine_forward(Engine *e, const Batch *batch) {
    if (e->kind == ENGINE_FAST) return model_forward(e->model, batch);
    const double sum = plain_pass(e, batch, NULL, 0);
    e->model->right = count_right(&e->plain, batch, e->model->shape.V);
    return sum;
}

double engine_training_forward(Engine *e, const Batch *batch, uint64_t seed, uint64_t micro_step) {
    if (e->kind == ENGINE_FAST) return model_training_forward(e->model, batch, seed, micro_step);
    return plain_pass(e, batch, NULL, 0);
}

double engine_forward_backward(Engine *e, const Batch *batch, uint64_t seed, uint64_t micro_step, double batch_weight,
                               bool zero_gradients) {
    if (e->kind == ENGINE_FAST)
        return model_forward_backward(e->model, batch, seed, micro_step, batch_weight, zero_gradients);
    if (zero_gradients) memset(e->model->gradients, 0, e->model->tensors.flat * sizeof(real));
    return plain_pass(e, batch, e->model->gradients, batch_weight / (double)batch_targets(batch));
}
