/* The arithmetic of a training step: the gradients of its batches, and the update by them. */
#include "train/step.h"

#include <math.h>
#include <omp.h>

double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step, int32_t *tokens,
                      int32_t *targets, StepSeconds *seconds) {
    const size_t B = config->train.batch, T = engine->model->shape.T, batches = config->train.accumulate;
    const uint64_t seed = config->train.seed;
    const Batch batch = {tokens, targets, B, T};
    double loss = 0, counted = 0;
    model_forget_scores(engine->model);
    for (size_t shard = 0; shard < engine->shards.own; shard += engine->shards.at_once) {
        double sum = 0;
        counted = 0;
        for (size_t i = 0; i < batches && isfinite(sum); i++) {
            const uint64_t number = (uint64_t)step * batches + i;
            const double start = omp_get_wtime();
            corpus_training_batch(corpus, seed, number, B, T, tokens, targets);
            if (seconds) seconds->batch += omp_get_wtime() - start;
            const Pass pass = {.training = true,
                               .seed = seed,
                               .micro_step = number,
                               .with_backward = true,
                               .zero_gradients = i == 0,
                               .same_parameters = shard > 0 || i > 0,
                               .batch_weight = 1 / (double)batches};
            sum = engine_pass_shards(engine, shard, &batch, pass);
            counted += (double)batch_targets(&batch);
        }
        const double start = omp_get_wtime();
        loss = engine_end_shards(engine, shard);
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
