#include "train/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/rng.h"

bool sampler_make(Sampler *sampler, const ModelShape *shape, Error *err) {
    *sampler = (Sampler){.window = calloc(shape->T, sizeof *sampler->window),
                         .weights = calloc(shape->V, sizeof *sampler->weights)};
    if (sampler->window && sampler->weights) return true;
    sampler_free(sampler);
    return error_set(err, STATUS_FAILED, "no memory to sample a text");
}

void sampler_free(Sampler *sampler) {
    free(sampler->window);
    free(sampler->weights);
    *sampler = (Sampler){0};
}

/* The k-th largest of n logits: the smallest one that is drawn from. */
static double threshold(const real *logits, size_t n, size_t k) {
    double bound = INFINITY;
    for (size_t drawn = 0; drawn < k;) {
        double next = -INFINITY;
        for (size_t v = 0; v < n; v++)
            if ((double)logits[v] < bound && (double)logits[v] > next) next = (double)logits[v];
        if (next == -INFINITY) break;
        bound = next;
        for (size_t v = 0; v < n; v++) drawn += (double)logits[v] == bound;
    }
    return bound;
}

static int32_t likeliest(const real *logits, size_t n) {
    size_t best = 0;
    for (size_t v = 1; v < n; v++)
        if (logits[v] > logits[best]) best = v;
    return (int32_t)best;
}

static int32_t draw(const real *logits, size_t n, const SampleOptions *options, double uniform, double *weights) {
    int32_t best = likeliest(logits, n);
    if (options->temperature <= 0) return best;
    double least = options->top_k && options->top_k < n ? threshold(logits, n, options->top_k) : -INFINITY, sum = 0;
    for (size_t v = 0; v < n; v++) {
        double z = (double)logits[v];
        weights[v] = z < least ? 0 : exp((z - (double)logits[best]) / options->temperature);
        sum += weights[v];
    }
    double left = uniform * sum;
    for (size_t v = 0; v < n; v++) {
        left -= weights[v];
        if (left < 0) return (int32_t)v;
    }
    return best; /* rounding used up the sum */
}

bool sample_text(Model *m, const Vocabulary *vocabulary, Sampler *sampler, const int32_t *prompt, size_t count,
                 const SampleOptions *options, FILE *out) {
    size_t T = m->shape.T, V = m->shape.V, seen = count < T ? count : T;
    Rng rng = rng_make(options->seed, RNG_SAMPLE, 0);
    memcpy(sampler->window, prompt + (count - seen), seen * sizeof *prompt);
    for (size_t i = 0; i < options->tokens; i++) {
        if (interrupt_signal()) return false;
        model_forward(m, &(Batch){.tokens = sampler->window, .B = 1, .T = seen});
        int32_t id = draw(m->logits.values + (seen - 1) * V, V, options, rng_uniform(&rng, i), sampler->weights);
        char text[5];
        size_t length = utf8_encode(vocabulary->characters[id], text);
        if (fwrite(text, 1, length, out) != length) return false;
        if (seen == T)
            memmove(sampler->window, sampler->window + 1, (T - 1) * sizeof *sampler->window);
        else
            seen++;
        sampler->window[seen - 1] = id;
    }
    return true;
}

int32_t sample_start(const Vocabulary *vocabulary) {
    int32_t line_end = vocabulary_id(vocabulary, '\n');
    return line_end < 0 ? 0 : line_end;
}
