#include "train/evaluate.h"

#include <math.h>

#include "base/interrupt.h"

/* Which of `windows` is number i of `count` that are taken from them at even distances. */
static size_t window_of(size_t i, size_t count, size_t windows) {
    return (size_t)((double)i * (double)windows / (double)count);
}

static double forward(Model *m, const Batch *batch, Evaluation *e, size_t *right) {
    const double sum = model_forward(m, batch);
    e->targets += batch_targets(batch);
    *right += m->right;
    return sum;
}

Evaluation evaluate(Model *m, const Corpus *corpus, size_t batch, size_t batches, int32_t *tokens, int32_t *targets) {
    size_t T = m->shape.T, whole = corpus_whole_windows(corpus, T), windows = corpus_windows(corpus, T), B = 0;
    size_t count = batches && batches <= whole / batch ? batches * batch : windows, right = 0;
    Evaluation e = {.complete = true};
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        size_t window = count == windows ? i : window_of(i, count, whole);
        size_t length = corpus_window(corpus, window, T, tokens + B * T, targets + B * T);
        B++;
        /* A shorter window, always the last, is a batch of its own after the others. */
        if (length < T && B > 1) {
            sum += forward(m, &(Batch){tokens, targets, B - 1, T}, &e, &right);
            corpus_window(corpus, window, T, tokens, targets);
            B = 1;
        }
        if (B < batch && i + 1 < count) continue;
        sum += forward(m, &(Batch){tokens, targets, B, length}, &e, &right);
        B = 0;
        if (!isfinite(sum)) break;
        if (interrupt_signal()) {
            e.complete = i + 1 == count;
            break;
        }
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
