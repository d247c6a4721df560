#include <string.h>

#include "model/attention_stages.h"

Attention attention_make(const Config *config) {
    Attention a = {.H = (size_t)config->model.heads,
                   .D = (size_t)config->model.d_k,
                   .score = (Score)config->attention.score,
                   .qk_norm = (QkNorm)config->attention.qk_norm,
                   .learned = (ScaleLearned)config->attention.scale_learned,
                   .length = (ScaleLength)config->attention.scale_length,
                   .softcap = (real)config->attention.softcap,
                   .sink = (Sink)config->attention.sink,
                   .precision = (Precision)config->attention.score_precision,
                   .bf16 = config->train.precision == PRECISION_BF16,
                   .qk_init_scale = config->model.qk_init_scale,
                   .qk_lr_scale = config->train.qk_lr_scale};
    attention_set_step(&a, config, 0);
    return a;
}

void attention_set_step(Attention *a, const Config *config, size_t step) {
    a->multiplier = (real)scale_multiplier(config_divisor(config, step), a->D);
}

size_t attention_parameter_size(const Attention *a, AttentionParameter parameter) {
    const size_t gain = a->qk_norm == QK_NORM_RMS || a->qk_norm == QK_NORM_LAYER ? a->D : 0;
    const size_t sizes[] = {[PARAMETER_V] = a->score == SCORE_ADDITIVE ? a->D : 0,
                            [PARAMETER_Q_GAIN] = gain,
                            [PARAMETER_K_GAIN] = gain,
                            [PARAMETER_SCALE] = a->learned != LEARNED_NO,
                            [PARAMETER_SINK] = a->sink == SINK_LEARNED};
    return sizes[parameter];
}

size_t attention_parameter_heads(const Attention *a, AttentionParameter parameter) {
    const bool shared = parameter == PARAMETER_Q_GAIN || parameter == PARAMETER_K_GAIN ||
                        (parameter == PARAMETER_SCALE && a->learned == LEARNED_LAYER);
    return shared ? 1 : a->H;
}

size_t attention_partials(const Attention *a) {
    size_t sum = 0;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) sum += attention_parameter_size(a, p);
    return sum;
}

double attention_flops(const Attention *a, size_t T) {
    return (a->score == SCORE_ADDITIVE ? 6 : 4) * (double)(a->H * a->D) * (double)T;
}

/* p, ds, and for a cap its slope. */
static size_t panels(const Attention *a) { return a->softcap > 0 ? 3 : 2; }
/* The panels, one row of a mask, and the prepared queries and keys. */
size_t attention_scratch(const Attention *a, size_t T) {
    return size_add((panels(a) * ATTENTION_TILE + 1) * whole_lanes(T), prepared_size(a, T));
}
static real *panel_at(const Head *h, real *scratch, size_t i) {
    return scratch + i * ATTENTION_TILE * whole_lanes(h->layer->T);
}

AttentionSaved attention_lay_out(const Attention *a, size_t rows, size_t sequences, Arena *arena) {
    const size_t heads = size_mul(rows, a->H);
    real *row_max = arena_take(arena, heads, sizeof(real)), *row_sum = arena_take(arena, heads, sizeof(real));
    return (AttentionSaved){row_max, row_sum, arena_take(arena, size_mul(sequences, a->H), sizeof(real))};
}

real attention_multiplier(const AttentionLayer *l, size_t head) {
    const real *learned = l->parameters[PARAMETER_SCALE];
    return learned ? learned[l->attention->learned == LEARNED_HEAD ? head : 0] : l->attention->multiplier;
}

/* With the first `rows` of its queries and keys ready to be scored; `scratch` is a thread's. */
static Head head_of(const AttentionLayer *l, size_t pair, size_t rows, real *scratch, AttentionRounding *rounding) {
    const Attention *a = l->attention;
    const size_t head = pair % a->H, row = pair / a->H * l->T, stride = attention_width_in(a);
    Head h = {.layer = l,
              .a = a,
              .index = head,
              .pair = pair,
              .multiplier = attention_multiplier(l, head),
              .stride = stride,
              .out = row * attention_width_out(a) + head * a->D,
              .out_stride = attention_width_out(a),
              .row = pair * l->T};
    for (AttentionPart part = QUERY; part <= VALUE; part++)
        h.part[part] = row * stride + attention_columns(a, part, head).begin;
    prepare(&h, rows, panel_at(&h, scratch, panels(a)) + whole_lanes(l->T), rounding);
    return h;
}

static QueryTile tile_at(const AttentionLayer *l, size_t first) {
    size_t count = l->T - first < ATTENTION_TILE ? l->T - first : ATTENTION_TILE;
    return (QueryTile){first, count, first + count, whole_lanes(first + count), l->attention->bf16};
}

MULTIVERSIONED static void multiply(real *restrict x, const real *restrict mask, size_t n) {
    for (size_t j = 0; j < n; j++) x[j] *= mask[j];
}

static void draw_mask(const AttentionLayer *l, const Head *h, size_t i, real *mask, size_t n) {
    dropout_mask(&l->dropout, l->batch_row * l->attention->H + (uint64_t)(h->row + i), mask, n);
}

void attention_forward(const AttentionLayer *l, size_t pair, real *scratch) {
    const Head h = head_of(l, pair, l->T, scratch, NULL);
    const size_t D = h.a->D;
    real *panel = scratch, *mask = panel_at(&h, scratch, panels(h.a)), largest = -(real)INFINITY;
    for (size_t first = l->cached; first < l->T; first += ATTENTION_TILE) {
        const QueryTile t = tile_at(l, first);
        scores_forward(panel, NULL, &h, &t, NULL);
        const real in_tile = softmax_forward(panel, &h, &t);
        largest = isnan(in_tile) || in_tile > largest ? in_tile : largest;
        for (size_t r = 0; dropout_is_on(&l->dropout) && r < t.count; r++) {
            draw_mask(l, &h, first + r, mask, first + r + 1);
            multiply(panel + r * t.stride, mask, first + r + 1);
        }
        panel_by_keys(l->out + h.out + first * h.out_stride, h.out_stride, &t, D, 1, panel, l->qkv + h.part[VALUE],
                      h.stride);
    }
    l->saved.pair_max[pair] = largest;
}

/* The sink's value is zero, so of its ds = p (dp - delta) only - p delta is left. */
static void sink_backward(const real *dout, const Head *h) {
    const AttentionLayer *l = h->layer;
    real *sum = partial_of(h, PARAMETER_SINK);
    for (size_t i = 0; i < l->T; i++) {
        const size_t at = h->out + i * h->out_stride, row = h->row + i;
        const real p =
            exp_real(l->parameters[PARAMETER_SINK][h->index] - l->saved.row_max[row]) / l->saved.row_sum[row];
        *sum -= p * lanes_dot(dout + at, l->out + at, h->a->D);
    }
}

void attention_backward(const AttentionLayer *l, size_t pair, real *dqkv, const real *dout, real *scratch) {
    const Head h = head_of(l, pair, l->T, scratch, NULL);
    const size_t tiles = (l->T + ATTENTION_TILE - 1) / ATTENTION_TILE, D = h.a->D, partials = attention_partials(h.a);
    real *p = scratch, *ds = panel_at(&h, scratch, 1), *slope = panel_at(&h, scratch, 2),
         *mask = panel_at(&h, scratch, panels(h.a));
    if (partials > 0) memset(l->partials + pair * partials, 0, partials * sizeof(real));
    /* The last tile sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t tile = tiles; tile-- > 0;) {
        const QueryTile t = tile_at(l, tile * ATTENTION_TILE);
        const bool adds = tile + 1 < tiles;
        const real *dout_tile = dout + h.out + t.first * h.out_stride;
        scores_forward(p, slope, &h, &t, NULL);
        queries_by_keys(ds, &t, D, 1, dout_tile, h.out_stride, l->qkv + h.part[VALUE], h.stride);
        if (dropout_is_on(&l->dropout))
            for (size_t r = 0; r < t.count; r++) {
                draw_mask(l, &h, t.first + r, mask, whole_lanes(t.first + r + 1));
                softmax_backward(p, ds, mask, dout, &h, &t, r, r + 1);
            }
        else softmax_backward(p, ds, NULL, dout, &h, &t, 0, t.count);
        scores_backward(dqkv, ds, slope, &h, &t, adds);
        panel_by_queries(dqkv + h.part[VALUE], h.stride, &t, D, 1, p, dout_tile, h.out_stride, adds);
    }
    if (h.a->sink == SINK_LEARNED) sink_backward(dout, &h);
    prepare_backward(dqkv, &h);
}

void attention_parameters_backward(const AttentionLayer *l, size_t pairs, real *const gradients[ATTENTION_PARAMETERS]) {
    const Attention *a = l->attention;
    const size_t stride = attention_partials(a);
    const real *partials = l->partials;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) {
        const size_t size = attention_parameter_size(a, p), heads = attention_parameter_heads(a, p);
        for (size_t pair = 0; size > 0 && pair < pairs; pair++)
            for (size_t i = 0; i < size; i++) gradients[p][pair % heads * size + i] += partials[pair * stride + i];
        partials += size;
    }
}

static void shrink(real *row, Range columns, real factor) {
    for (size_t c = columns.begin; c < columns.end; c++) row[c] *= factor;
}

void attention_clip(const Attention *a, double limit, const real *score_max, real *weight, size_t rows, real *bias) {
    for (size_t head = 0; head < a->H; head++) {
        if (!((double)score_max[head] > limit)) continue;
        const real factor = (real)sqrt(limit / (double)score_max[head]);
        for (AttentionPart part = QUERY; part <= KEY; part++) {
            const Range columns = attention_columns(a, part, head);
            for (size_t row = 0; row < rows; row++) shrink(weight + row * attention_width_in(a), columns, factor);
            if (bias) shrink(bias, columns, factor);
        }
    }
}

/* --- What probes ask for. */

void attention_scores(const AttentionLayer *l, size_t pair, size_t first, size_t count, ScoreStage stage, real *scores,
                      AttentionRounding *rounding, real *scratch) {
    const Head h = head_of(l, pair, first + count, scratch, first + count == l->T ? rounding : NULL);
    const QueryTile t = {first, count, first + count, first + count, l->attention->bf16};
    if (stage == SCORES_MAPPED) scores_forward(scores, NULL, &h, &t, rounding);
    else raw_scores(scores, &h, &t, 1);
}

static double norm(const real *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

void attention_gradient_norms(const AttentionLayer *l, size_t pair, const real *dqkv, const real *dout, size_t first,
                              size_t count, double *query, double *scores, real *scratch) {
    const Head h = head_of(l, pair, first + count, scratch, NULL);
    const QueryTile t = {first, count, first + count, first + count, l->attention->bf16};
    real *s = scratch, *dp = panel_at(&h, scratch, 1);
    scores_forward(s, NULL, &h, &t, NULL);
    queries_by_keys(dp, &t, h.a->D, 1, dout + h.out + first * h.out_stride, h.out_stride, l->qkv + h.part[VALUE],
                    h.stride);
    for (size_t r = 0; r < count; r++) {
        scores[r] = softmax_gradient_norm(s + r * t.stride, dp + r * t.stride, &h, first + r);
        query[r] = norm(dqkv + h.part[QUERY] + (first + r) * h.stride, h.a->D);
    }
}

/* A row of one key has the weight 1 whatever its score; not so beside a sink, unless ln(1) = 0 multiplies the score. */
static bool rows_are_constant(const Attention *a, size_t T) {
    return T == 1 && (a->sink == SINK_NONE || a->length == LENGTH_LOG);
}

bool attention_gradient_vanishes(const Attention *a, AttentionPart part, bool is_bias, size_t T) {
    if (rows_are_constant(a, T) && part != VALUE) return true;
    return is_bias && part == KEY && a->score == SCORE_DOT && a->qk_norm == QK_NORM_NONE && a->sink == SINK_NONE &&
           a->softcap == 0;
}

bool attention_parameter_vanishes(const Attention *a, AttentionParameter parameter, size_t T) {
    return parameter != PARAMETER_SINK && rows_are_constant(a, T);
}

/* The root mean square of tanh(x), x normal of mean 0 and this standard deviation. */
static double tanh_rms(double deviation) {
    double squares = 0, weights = 0;
    for (int i = -512; i <= 512; i++) {
        const double z = i / 64.0, weight = exp(-z * z / 2), y = tanh(deviation * z);
        squares += weight * y * y;
        weights += weight;
    }
    return sqrt(squares / weights);
}

/* The root mean square of ln(n) over the scores of rows of n = 1 .. T keys. */
static double log_length(size_t T) {
    double squares = 0, count = 0;
    for (size_t keys = 1; keys <= T; keys++) {
        const double n = (double)keys;
        squares += n * log(n) * log(n);
        count += n;
    }
    return sqrt(squares / count);
}

/* Of an entry of a normalized query or key, whose entries had this variance. */
static double normalized_variance(const Attention *a, double variance) {
    const double D = (double)a->D;
    if (a->qk_norm == QK_NORM_L2) return variance / (variance + L2_EPSILON / D) / D;
    return variance / (variance + (a->qk_norm == QK_NORM_RMS ? RMS_EPSILON : LAYER_EPSILON));
}

double attention_predicted_std(const Attention *a, size_t T, double query, double query_bias, double key,
                               double key_bias) {
    const double D = (double)a->D, lengths = a->length == LENGTH_LOG ? log_length(T) : 1;
    double shared = query_bias * key_bias, raw;
    if (a->qk_norm != QK_NORM_NONE) {
        const double q = normalized_variance(a, query), k = normalized_variance(a, key);
        shared *= q / query * (k / key);
        query = q, key = k;
    }
    if (a->score == SCORE_ADDITIVE) /* v has variance 1 / D */
        raw = tanh_rms(sqrt(query + key));
    else raw = sqrt(D * (query * key - shared));
    const double mapped = (double)a->multiplier * lengths * raw, cap = (double)a->softcap;
    return cap > 0 ? cap * tanh_rms(mapped / cap) : mapped;
}
