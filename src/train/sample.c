/* Draws text, character by character. The model reads a window of at most T characters. The next character is drawn
   from the softmax of its last logits and added to the window. Keys and values of the characters read are cached
   (Pass.cached) until the window is full and its characters move to other positions. */
#include "train/sample.h"

#include <math.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/text.h"

/* Returns the smallest logit to draw from. The characters to draw from are the likeliest ones: `most_count` of them
   (at most n), or the fewest whose weights add up to `enough`. Equal logits are counted together. *sum becomes the sum
   of their weights exp((logit - largest) / temperature). */
static double cut(const real *logits, size_t n, double largest, double temperature, size_t most_count, double enough,
                  double *sum) {
    double least = INFINITY;
    *sum = 0;
    for (size_t count = 0, equal; count < most_count && *sum < enough; count += equal) {
        double next = -INFINITY;
        for (size_t v = 0; v < n; v++)
            if ((double)logits[v] < least) next = fmax(next, (double)logits[v]);
        least = next;
        equal = 0;
        for (size_t v = 0; v < n; v++) equal += (double)logits[v] == least;
        *sum += (double)equal * exp((least - largest) / temperature);
    }
    return least;
}

/* Returns the id where the cumulative probability passes `uniform`, a number in [0, 1). */
static int32_t draw(const real *logits, size_t n, const SampleOptions *options, double uniform) {
    size_t best = 0; /* the likeliest */
    for (size_t v = 1; v < n; v++)
        if (logits[v] > logits[best]) best = v;
    if (options->temperature <= 0) return (int32_t)best;
    const double most = (double)logits[best];
    double least = -INFINITY, sum = 0;
    for (size_t v = 0; v < n; v++) sum += exp(((double)logits[v] - most) / options->temperature);
    if (options->top_k && options->top_k < n)
        least = cut(logits, n, most, options->temperature, options->top_k, INFINITY, &sum);
    if (options->top_p > 0 && options->top_p < 1)
        least = cut(logits, n, most, options->temperature, n, options->top_p * sum, &sum);
    double left = uniform * sum;
    for (size_t v = 0; v < n; v++) {
        if ((double)logits[v] >= least) left -= exp(((double)logits[v] - most) / options->temperature);
        if (left < 0) return (int32_t)v;
    }
    return (int32_t)best; /* the sum has fallen short by rounding errors */
}

bool sample_text(Model *m, const Vocabulary *vocabulary, const int32_t *prompt, size_t count,
                 const SampleOptions *options, int32_t *window, FILE *out) {
    const size_t T = m->shape.T, V = m->shape.V;
    size_t seen = count < T ? count : T, cached = 0;
    Rng rng = rng_make(options->seed, RNG_SAMPLE, 0);
    memcpy(window, prompt + (count - seen), seen * sizeof *prompt);
    for (size_t i = 0; i < options->tokens; i++) {
        if (interrupt_signal()) return false;
        model_pass(m, &(Batch){window, NULL, 1, seen}, &(Pass){.cached = cached, .same_parameters = i > 0});
        cached = seen;
        int32_t id = draw(m->logits.values + (seen - 1) * V, V, options, rng_uniform(&rng, i));
        char text[5];
        size_t length = utf8_encode(vocabulary->characters[id], text);
        text_write(text, length, out);
        if (ferror(out)) return false;
        if (seen == T) { /* continues with the later half, whose positions change: nothing of it is cached */
            seen = T / 2;
            cached = 0;
            memmove(window, window + (T - seen), seen * sizeof *window);
        }
        window[seen++] = id;
    }
    return true;
}

int32_t sample_start(const Vocabulary *vocabulary) {
    const int32_t line_end = vocabulary_id(vocabulary, '\n'), a = vocabulary_id(vocabulary, 'a');
    return line_end >= 0 ? line_end : a >= 0 ? a : 0;
}
