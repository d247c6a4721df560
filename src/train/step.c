#include "train/step.h"

#include <omp.h>

double step_gradients(Model *model, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, double *batch_seconds) {
    const size_t B = (size_t)config->train.batch, T = model->shape.T, parts = (size_t)config->train.accumulate;
    const uint64_t seed = (uint64_t)config->train.seed;
    double sum = 0;
    for (size_t part = 0; part < parts; part++) {
        const uint64_t number = (uint64_t)step * parts + part;
        const double start = omp_get_wtime();
        corpus_training_batch(corpus, seed, number, B, T, tokens, targets);
        if (batch_seconds) *batch_seconds += omp_get_wtime() - start;
        sum +=
            model_forward_backward(model, &(Batch){tokens, targets, B, T}, seed, number, 1 / (double)parts, part == 0);
    }
    return sum / ((double)B * (double)T * (double)parts);
}
