#include "train/evaluate.h"

#include <math.h>

#include "base/interrupt.h"

/* Which of `windows` is number i of `count` that are taken from them at even distances. */
static size_t window_of(size_t i, size_t count, size_t windows) {
    return (size_t)((double)i * (double)windows / (double)count);
}

/* A shorter window, always the last, is a batch of its own after the others. */
Evaluation evaluate(Model *m, const Corpus *corpus, size_t batch, size_t batches, int32_t *tokens, int32_t *targets) {
    const size_t T = m->shape.T, whole = corpus_whole_windows(corpus, T), windows = corpus_windows(corpus, T);
    const bool all = batches == 0 || batches > whole / batch;
    const size_t count = all ? windows : batches * batch, full = all ? whole : count;
    Evaluation e = {.complete = true};
    double sum = 0;
    size_t right = 0;
    for (size_t i = 0, B; i < count && isfinite(sum) && e.complete; i += B) {
        const size_t left = i < full ? full - i : count - i;
        size_t length = T;
        B = left < batch ? left : batch;
        for (size_t b = 0; b < B; b++)
            length =
                corpus_window(corpus, all ? i + b : window_of(i + b, count, whole), T, tokens + b * T, targets + b * T);
        const Batch one = {tokens, targets, B, length};
        sum += model_forward(m, &one);
        e.targets += batch_targets(&one);
        right += m->right;
        e.complete = !interrupt_signal() || i + B == count;
    }
    e.loss = sum / (double)e.targets;
    e.accuracy = corpus->pairs ? (double)right / (double)e.targets : (double)NAN;
    return e;
}

size_t validation_batch(const Corpus *corpus, size_t batch, size_t T, int32_t *tokens, int32_t *targets) {
    size_t windows = corpus_whole_windows(corpus, T), B = batch < windows ? batch : windows;
    for (size_t b = 0; b < B; b++) corpus_window(corpus, window_of(b, B, windows), T, tokens + b * T, targets + b * T);
    return B;
}
