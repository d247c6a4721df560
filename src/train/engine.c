/* Calls the engine that train.engine names. Computes the gradients of a step, some shards of each batch at a time, and
   makes the update. */
#include "train/engine.h"

#include <math.h>

void engine_make(Engine *e, EngineKind kind, size_t shards, Model *m) {
    const size_t at_once = kind == ENGINE_FAST ? model_shards_at_once(m, shards) : 1;
    const size_t ids = size_mul(m->max_batch, m->shape.T);
    *e = (Engine){.model = m, .kind = kind};
    e->tokens = memory_make(ids, sizeof *e->tokens, "the batches");
    e->targets = memory_make(ids, sizeof *e->targets, "the batches");
    if (kind == ENGINE_PLAIN) plain_make(&e->plain, m);
    shards_make(&e->shards, shards, at_once, m->gradients, m->tensors.flat, m->shape.L * m->shape.attention.H,
                m->threads);
}

double engine_pass(Engine *e, const Batch *batch, const Pass *pass) {
    return e->kind == ENGINE_PLAIN ? plain_pass(&e->plain, batch, pass) : model_pass(e->model, batch, pass);
}

double step_gradients(Engine *engine, const Corpus *corpus, const Config *config, size_t step) {
    const size_t B = config->train.batch, T = engine->model->shape.T, accumulate = config->train.accumulate;
    const uint64_t seed = config->train.seed;
    const Batch batch = {engine->tokens, engine->targets, B, T};
    Shards *s = &engine->shards;
    double loss = 0, counted = 0;
    model_forget_scores(engine->model);
    for (size_t shard = 0; shard < s->own; shard += s->at_once) {
        double last_loss = 0;
        counted = 0; /* each turn counts the targets of the same batches */
        for (size_t i = 0; i < accumulate && isfinite(last_loss); i++) {
            const uint64_t micro_step = (uint64_t)step * accumulate + i;
            operations_begin(engine->model);
            corpus_training_batch(corpus, seed, micro_step, B, T, engine->tokens, engine->targets);
            operation_ended(engine->model, "corpus_training_batch");
            const Pass pass = {.training = true,
                               .seed = seed,
                               .micro_step = micro_step,
                               .with_backward = true,
                               .zero_gradients = i == 0,
                               .same_parameters = shard > 0 || i > 0,
                               .batch_weight = 1 / (double)accumulate,
                               .batch_shards = config->train.shards,
                               .shards = {s->first + shard, s->first + shard + s->at_once},
                               .gradients = s->gradients,
                               .losses = s->losses};
            last_loss = engine_pass(engine, &batch, &pass);
            counted += (double)engine->model->targets;
        }
        operations_begin(engine->model);
        /* the last call returns the sum over all shards */
        loss = shards_end(s, shard, engine->model->score_max);
        engine->model->gradients = s->gradients[0];
        operation_ended(engine->model, "shards_end");
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
