/* The validation loss. It is summed over the same windows at every evaluation, and without dropout, so that two losses
   of a run differ by the parameters alone. The losses of all targets are added and divided once, since the last window
   may be shorter than the others. */
#include "train/evaluate.h"

#include <math.h>

#include "base/interrupt.h"
#include "base/memory.h"

/* Returns the index of window i of `count` that are spread evenly over `windows`. */
static size_t window_of(size_t i, size_t count, size_t windows) {
    return (size_t)((double)i * (double)windows / (double)count);
}

/* Whole windows come first, in batches. A shorter last window is a batch by itself. */
Evaluation evaluate(Engine *engine, const Corpus *corpus, size_t batches) {
    const size_t T = engine->model->shape.T, batch = engine->model->max_batch;
    const size_t whole = corpus_whole_windows(corpus, T), windows = corpus_windows(corpus, T);
    const bool all = batches == 0 || batches > whole / batch;
    const size_t count = all ? windows : batches * batch, full = all ? whole : count;
    Evaluation e = {.complete = true};
    double sum = 0;
    size_t correct = 0;
    for (size_t i = 0, B; i < count && isfinite(sum) && e.complete; i += B) {
        const size_t left = i < full ? full - i : count - i;
        size_t length = T;
        B = left < batch ? left : batch;
        for (size_t b = 0; b < B; b++)
            length = corpus_window(corpus, all ? i + b : window_of(i + b, count, whole), T, engine->tokens + b * T,
                                   engine->targets + b * T);
        const Batch one = {engine->tokens, engine->targets, B, length};
        sum += engine_pass(engine, &one, &(Pass){.same_parameters = i > 0});
        e.targets += engine->model->targets;
        correct += engine->model->correct;
        e.complete = !interrupt_signal() || i + B == count;
    }
    e.loss = sum / (double)e.targets;
    e.accuracy = corpus->pairs ? (double)correct / (double)e.targets : (double)NAN;
    return e;
}

Evaluation evaluate_run(Run *run, Model *model) {
    const size_t mark = memory_mark();
    Engine engine;
    engine_make(&engine, run->config.train.engine, 1, model);
    const Evaluation evaluation = evaluate(&engine, &run->corpus, 0);
    memory_release(mark);
    return evaluation;
}

size_t validation_batch(const Corpus *corpus, size_t batch, size_t T, int32_t *tokens, int32_t *targets) {
    size_t windows = corpus_whole_windows(corpus, T), B = batch < windows ? batch : windows;
    for (size_t b = 0; b < B; b++) corpus_window(corpus, window_of(b, B, windows), T, tokens + b * T, targets + b * T);
    return B;
}
