#include "train/evaluate.h"

#include <math.h>

#include "base/interrupt.h"

/* Which of `windows` is number i of `count` that are taken from them at even distances. */
static size_t window_of(size_t i, size_t count, size_t windows) {
    return (size_t)((double)i * (double)windows / (double)count);
}

static size_t whole_windows(const Corpus *corpus, size_t T) { return (corpus->count - corpus->train - 1) / T; }

double evaluate(Model *m, const Corpus *corpus, size_t batch, size_t batches, int32_t *tokens, int32_t *targets,
                bool *complete) {
    size_t T = m->shape.T, whole = whole_windows(corpus, T), windows = corpus_windows(corpus, T), B = 0;
    size_t count = batches && batches <= whole / batch ? batches * batch : windows;
    double sum = 0, characters = 0;
    *complete = true;
    for (size_t i = 0; i < count; i++) {
        size_t window = count == windows ? i : window_of(i, count, whole);
        size_t length = corpus_window(corpus, window, T, tokens + B * T, targets + B * T);
        B++;
        /* A shorter window, always the last, is a batch of its own after the others. */
        if (length < T && B > 1) {
            sum += model_forward(m, &(Batch){tokens, targets, B - 1, T});
            corpus_window(corpus, window, T, tokens, targets);
            B = 1;
        }
        characters += (double)length;
        if (B < batch && i + 1 < count) continue;
        sum += model_forward(m, &(Batch){tokens, targets, B, length});
        B = 0;
        if (!isfinite(sum)) break;
        if (interrupt_signal()) {
            *complete = i + 1 == count;
            break;
        }
    }
    return sum / characters;
}

size_t validation_batch(const Corpus *corpus, size_t batch, size_t T, int32_t *tokens, int32_t *targets) {
    size_t windows = whole_windows(corpus, T), B = batch < windows ? batch : windows;
    for (size_t b = 0; b < B; b++) corpus_window(corpus, window_of(b, B, windows), T, tokens + b * T, targets + b * T);
    return B;
}
