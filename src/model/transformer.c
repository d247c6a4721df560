#include "model/transformer.h"

#include <omp.h>
#include <string.h>

#include "model/pass.h"

static Worker worker_make(Model *m, const Pass *pass, const Batch *batch, size_t first) {
    size_t id = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads();
    Worker w = {.m = m,
                .pass = pass,
                .batch = batch,
                .id = id,
                .count = count,
                .first = first,
                .shares = batch->B < count && count > 1};
    Range sequences = range_split(batch->B, 1, id, count);
    if (w.shares) {
        w.rows = range_split(batch->B * batch->T, 1, id, count);
        w.heads = range_split(batch->B * m->shape.H, 1, id, count);
    } else {
        w.rows = (Range){sequences.begin * batch->T, sequences.end * batch->T};
        w.heads = (Range){sequences.begin * m->shape.H, sequences.end * m->shape.H};
    }
    return w;
}

static void pass_slice(Model *m, const Batch *slice, size_t first, const Pass *pass) {
#pragma omp parallel num_threads((int)m->threads)
    {
        const Worker w = worker_make(m, pass, slice, first);
        Range flat = columns_of(&w, m->tensors.flat);
        start_lap(&w);
        if (pass->fresh && first == 0) memset(m->gradients + flat.begin, 0, range_size(flat) * sizeof(real));
        lap(&w, OP_CLEAR);
        pass_forward(&w);
        if (pass->returns) {
            barrier(&w); /* gradients are zero everywhere before anyone adds */
            pass_backward(&w);
        }
    }
}

/* Slice by slice. Returns the sum of the losses, in the order of the positions. */
static double pass_batch(Model *m, const Batch *batch, const Pass *pass) {
    const size_t at_most = model_slice(&m->shape, batch->B), slices = (batch->B + at_most - 1) / at_most;
    double sum = 0;
    for (size_t i = 0; i < slices; i++) {
        const Range sequences = range_split(batch->B, 1, i, slices);
        const size_t first = sequences.begin * batch->T;
        const int32_t *targets = batch->targets ? batch->targets + first : NULL;
        pass_slice(m, &(Batch){batch->tokens + first, targets, range_size(sequences), batch->T}, first, pass);
    }
    for (size_t r = 0; batch->targets && r < batch->B * batch->T; r++) sum += (double)m->losses[r];
    return sum;
}

double model_forward(Model *m, const Batch *batch) { return pass_batch(m, batch, &(Pass){0}); }

double model_gradients(Model *m, const Batch *batch) {
    return pass_batch(m, batch, &(Pass){.returns = true, .fresh = true, .loss_weight = 1});
}

double model_training_forward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step) {
    return pass_batch(m, batch, &(Pass){.training = true, .seed = seed, .micro_step = micro_step});
}

double model_forward_backward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step, double weight_of_batch,
                              bool fresh) {
    const real loss_weight = (real)(weight_of_batch / ((double)batch->B * (double)batch->T));
    return pass_batch(m, batch,
                      &(Pass){.training = true,
                              .returns = true,
                              .fresh = fresh,
                              .seed = seed,
                              .micro_step = micro_step,
                              .loss_weight = loss_weight});
}
