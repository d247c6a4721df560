#include "model/initialization.h"

#include <math.h>

typedef enum { CONSTANT, NORMAL, UNIFORM } Distribution;
typedef struct {
    Distribution distribution; /* the same for all column blocks of a tensor */
    double value;              /* the constant, the standard deviation, or the bound */
} Rule;

static Rule matrix_rule(const ModelShape *s, const ColumnBlock *b, Init init) {
    const double fan_in = (double)b->fan_in, fan_out = (double)b->fan_out;
    if (init == INIT_XAVIER) return (Rule){UNIFORM, sqrt(6 / (fan_in + fan_out))};
    if (init == INIT_TORCH) return (Rule){UNIFORM, 1 / sqrt(fan_in)};
    if (init == INIT_UNIT) return (Rule){NORMAL, 1 / sqrt(fan_in)};
    return (Rule){NORMAL, b->start == START_RESIDUAL ? 0.02 / sqrt(2 * (double)s->L) : 0.02};
}

static Rule rule_of(const ModelShape *s, const ColumnBlock *b, Init init) {
    const double fan_in = (double)b->fan_in;
    Rule rule = {CONSTANT, 0};
    switch (b->start) {
    case START_ZEROS: break;
    case START_ONES: rule.value = 1; break;
    case START_MULTIPLIER: rule.value = (double)s->attention.multiplier; break;
    case START_EMBEDDING: rule = (Rule){NORMAL, EMBEDDING_STD}; break;
    case START_FAN_IN: rule = (Rule){NORMAL, 1 / sqrt(fan_in)}; break;
    case START_BIAS:
        if (init == INIT_TORCH) rule = (Rule){UNIFORM, 1 / sqrt(fan_in)};
        break;
    case START_MATRIX:
    case START_RESIDUAL: rule = matrix_rule(s, b, init);
    }
    rule.value *= b->init_scale;
    return rule;
}

/* Entries 4 quad .. 4 quad + n - 1 of a tensor: random numbers are drawn four at a time. */
static void draw(const Tensor *t, const Rule *rules, const Rng *rng, size_t quad, real *out, size_t n) {
    double four[4];
    if (rules[0].distribution == NORMAL) rng_fill_normal(rng, 4 * quad, 4, four);
    else
        for (size_t j = 0; j < 4; j++)
            four[j] = rules[0].distribution == CONSTANT ? 1 : 2 * rng_uniform(rng, 4 * quad + j) - 1;
    for (size_t j = 0; j < n; j++) {
        const size_t column = (4 * quad + j) % t->width;
        size_t block = 0;
        while (column >= t->blocks[block].end) block++;
        out[j] = (real)(rules[block].value * four[j]);
    }
}

void tensors_initialize(const TensorTable *table, const ModelShape *shape, Init init, uint64_t seed, size_t threads,
                        real *flat) {
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const Rng rng = rng_make(seed, RNG_INIT, t->stream);
        Rule rules[COLUMN_BLOCKS_MAX] = {{CONSTANT, 0}};
        for (size_t block = 0; block < t->block_count; block++) rules[block] = rule_of(shape, &t->blocks[block], init);
#pragma omp parallel for num_threads((int)threads) schedule(static)
        for (size_t j = 0; j < t->count; j += 4)
            draw(t, rules, &rng, j / 4, flat + t->offset + j, t->count - j < 4 ? t->count - j : 4);
    }
}

double initial_variance(const ModelShape *shape, Role role, size_t block, Init init) {
    Tensor tensor;
    if (!tensor_describe(&tensor, shape, role, 0)) return 0;
    const Rule rule = rule_of(shape, &tensor.blocks[block], init);
    return rule.distribution == CONSTANT ? 0 : rule.value * rule.value / (rule.distribution == UNIFORM ? 3 : 1);
}
