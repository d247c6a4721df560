/* The initial parameters: a rule (a distribution and its width) for each column block of a tensor, from the tensor's
   initializer and model.init, and the drawing by that rule. Each entry is drawn by counter from its tensor's own
   stream, so tensors start alike in models that differ elsewhere, and with any number of threads. */
#include "model/initialization.h"

#include <math.h>

typedef enum { CONSTANT, NORMAL, UNIFORM } Distribution;
typedef struct {
    Distribution distribution;
    double value; /* the constant, the standard deviation, or the bound */
} Rule;

static Rule matrix_rule(const ModelShape *s, const ColumnBlock *b, Init init) {
    const double fan_in = (double)b->fan_in, fan_out = (double)b->fan_out;
    if (init == INIT_XAVIER) return (Rule){UNIFORM, sqrt(6 / (fan_in + fan_out))};
    if (init == INIT_TORCH) return (Rule){UNIFORM, 1 / sqrt(fan_in)};
    if (init == INIT_UNIT) return (Rule){NORMAL, 1 / sqrt(fan_in)};
    return (Rule){NORMAL, b->initializer == INITIAL_RESIDUAL ? 0.02 / sqrt(2 * (double)s->L) : 0.02};
}

static Rule rule_of(const ModelShape *s, const ColumnBlock *b, Init init) {
    const double fan_in = (double)b->fan_in;
    Rule rule = {CONSTANT, 0};
    switch (b->initializer) {
    case INITIAL_ZEROS: break;
    case INITIAL_ONES: rule.value = 1; break;
    case INITIAL_MULTIPLIER: rule.value = 1 / s->attention.divisor; break;
    case INITIAL_EMBEDDING: rule = (Rule){NORMAL, EMBEDDING_STD}; break;
    case INITIAL_FAN_IN: rule = (Rule){NORMAL, 1 / sqrt(fan_in)}; break;
    case INITIAL_BIAS:
        if (init == INIT_TORCH) rule = (Rule){UNIFORM, 1 / sqrt(fan_in)};
        break;
    case INITIAL_MATRIX:
    case INITIAL_RESIDUAL: rule = matrix_rule(s, b, init);
    }
    rule.value *= b->init_scale;
    return rule;
}

static double draw(Distribution distribution, const Rng *rng, size_t i) {
    if (distribution == NORMAL) return rng_normal(rng, i);
    return distribution == UNIFORM ? 2 * rng_uniform(rng, i) - 1 : 1;
}

void tensors_initialize(const TensorTable *table, const ModelShape *shape, Init init, uint64_t seed, size_t threads,
                        real *flat) {
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const Rng rng = rng_make(seed, RNG_INIT, t->stream);
        Rule rules[COLUMN_BLOCKS_MAX] = {{CONSTANT, 0}};
        for (size_t block = 0; block < t->block_count; block++) rules[block] = rule_of(shape, &t->blocks[block], init);
#pragma omp parallel for num_threads((int)threads) schedule(static)
        for (size_t j = 0; j < t->count; j++) {
            size_t block = 0;
            while (j % t->width >= t->blocks[block].end) block++;
            flat[t->offset + j] = (real)(rules[block].value * draw(rules[block].distribution, &rng, j));
        }
    }
}

double initial_variance(const ModelShape *shape, TensorRole role, size_t block, Init init) {
    Tensor tensor;
    if (!tensor_describe(&tensor, shape, role, 0)) return 0;
    const Rule rule = rule_of(shape, &tensor.blocks[block], init);
    return rule.distribution == CONSTANT ? 0 : rule.value * rule.value / (rule.distribution == UNIFORM ? 3 : 1);
}
