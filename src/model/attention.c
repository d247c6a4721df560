/* Attention of one head of one sequence, forward and backward: three stages in turn, raw scores, their modification and
   the normalization, and the product with the values. This file decides the order of the stages, the tiles and the
   memory; what a stage computes is in the stage's own file. The second half answers what measurements ask for. */
#include <string.h>

#include "model/attention_stages.h"

AttentionConfig attention_make(const Config *config) {
    AttentionConfig a = {.H = config->model.heads,
                         .D = config->model.d_k,
                         .score = config->attention.score,
                         .qk_norm = config->attention.qk_norm,
                         .learned = config->attention.scale_learned,
                         .length = config->attention.scale_length,
                         .softcap = (real)config->attention.softcap,
                         .sink = config->attention.sink,
                         .precision = config->attention.score_precision,
                         .rounds = sizeof(real) == sizeof(float) && config->train.precision == PRECISION_BF16,
                         .constant_weights = !config->attention.score_gradient,
                         .qk_init_scale = config->model.qk_init_scale,
                         .qk_lr_scale = config->train.qk_lr_scale};
    attention_set_divisor(&a, config, 0);
    return a;
}

void attention_set_divisor(AttentionConfig *a, const Config *config, size_t step) {
    a->divisor = divisor_value(config_divisor_choice(config, step), a->D);
}

ParameterShape attention_parameter(const AttentionConfig *a, AttentionParameter parameter) {
    const size_t v = a->score == SCORE_ADDITIVE ? a->D : 0;
    const size_t gain = a->qk_norm == QK_NORM_RMS || a->qk_norm == QK_NORM_LAYER ? a->D : 0;
    const ParameterShape shapes[] = {
        [PARAMETER_V] = {a->H, v},
        [PARAMETER_Q_GAIN] = {1, gain},
        [PARAMETER_K_GAIN] = {1, gain},
        [PARAMETER_MULTIPLIER] = {a->learned == LEARNED_LAYER ? 1 : a->H, a->learned != LEARNED_NO},
        [PARAMETER_SINK] = {a->H, a->sink == SINK_LEARNED}};
    return shapes[parameter];
}

size_t attention_partials(const AttentionConfig *a) {
    size_t sum = 0;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) sum += attention_parameter(a, p).size;
    return sum;
}

double attention_flops(const AttentionConfig *a, size_t T) {
    return (a->score == SCORE_ADDITIVE ? 6 : 4) * (double)(a->H * a->D) * (double)T;
}

/* Returns whether a head's queries, keys or values are copied into scratch. Products read them in place where nothing
   else does and, in bf16, D numbers are a whole row (gemm/bf16.h). */
static bool is_copied(const AttentionConfig *a, AttentionPart part) {
    return (part != VALUE && scores_read_reals(a)) || (a->rounds && a->D != bf16_stride(a->D));
}

/* A thread's scratch. */
typedef struct {
    real *p, *ds, *slope;             /* panels of a tile; the last for a cap */
    real *mask;                       /* a row of one */
    real *delta;                      /* (T): see HeadGradients */
    real *copies[ATTENTION_PARTS];    /* (T,D), where they are copied */
    real *o;                          /* (T,D); this and the next only where products round */
    real *gradients[ATTENTION_PARTS]; /* (T,D), before they are rounded */
} Scratch;

static Scratch lay_out_scratch(const AttentionConfig *a, size_t T, Arena *arena) {
    const size_t stride = whole_lanes(T), panel = size_mul(ATTENTION_TILE, stride), head = size_mul(T, a->D);
    Scratch s = {0};
    /* The panel p is first and ds the next: attention_scores promises its caller the second. */
    s.p = arena_take(arena, panel, sizeof(real));
    s.ds = arena_take(arena, panel, sizeof(real));
    s.slope = arena_take(arena, a->softcap > 0 ? panel : 0, sizeof(real));
    s.mask = arena_take(arena, mask_room(stride), sizeof(real));
    s.delta = arena_take(arena, T, sizeof(real));
    for (AttentionPart part = QUERY; part < ATTENTION_PARTS; part++)
        if (is_copied(a, part)) s.copies[part] = arena_take(arena, head, sizeof(real));
    if (!a->rounds) return s;
    s.o = arena_take(arena, head, sizeof(real));
    for (AttentionPart part = QUERY; part < ATTENTION_PARTS; part++)
        s.gradients[part] = arena_take(arena, head, sizeof(real));
    return s;
}

size_t attention_scratch(const AttentionConfig *a, size_t T) {
    Arena arena = {0};
    lay_out_scratch(a, T, &arena);
    return arena.used == SIZE_MAX ? SIZE_MAX : arena.used / sizeof(real);
}
static Scratch scratch_at(const AttentionArrays *l, real *scratch) {
    return lay_out_scratch(l->attention, l->T, &(Arena){.base = (char *)scratch, .capacity = SIZE_MAX});
}

AttentionSaved attention_lay_out(const AttentionConfig *a, size_t rows, size_t sequences, Arena *arena) {
    const size_t heads = size_mul(rows, a->H);
    real *row_max = arena_take(arena, heads, sizeof(real)), *row_sum = arena_take(arena, heads, sizeof(real));
    return (AttentionSaved){row_max, row_sum, arena_take(arena, size_mul(sequences, a->H), sizeof(real))};
}

/* A pair's queries, keys or values in an array (B,T,3HD), from its first row on, or with QUERY its part of one
   (B,T,HD). */
static Operand pair_of(const AttentionArrays *l, size_t pair, Operand x, AttentionPart part) {
    const AttentionConfig *a = l->attention;
    return operand_from(x, pair / a->H * l->T, attention_columns(a, part, pair % a->H).begin);
}

/* The first `rows` of the pair's queries, keys or values for products: in place, or copied. */
static Operand operand_of(const AttentionArrays *l, size_t pair, AttentionPart part, size_t rows, const Scratch *s) {
    const Operand own = pair_of(l, pair, l->qkv, part);
    const size_t D = l->attention->D;
    if (!s->copies[part]) return own;
    operand_read(s->copies[part], D, own, rows, D);
    return (Operand){s->copies[part], D, attention_form(l->attention)};
}

/* The head with the first `rows` of its queries and keys ready to be scored. */
static Head head_of(const AttentionArrays *l, size_t pair, size_t rows, const Scratch *s, AttentionRounding *rounding) {
    const AttentionConfig *a = l->attention;
    const Head h = {.layer = l,
                    .a = a,
                    .index = pair % a->H,
                    .pair = pair,
                    .multiplier = attention_multiplier(l, pair % a->H),
                    .q = s->copies[QUERY],
                    .k = s->copies[KEY],
                    .o = s->o ? s->o : (real *)pair_of(l, pair, l->out, QUERY).rows,
                    .o_stride = s->o ? a->D : l->out.stride,
                    .query = operand_of(l, pair, QUERY, rows, s),
                    .key = operand_of(l, pair, KEY, rows, s),
                    .value = operand_of(l, pair, VALUE, rows, s),
                    .row = pair * l->T};
    if (scores_read_reals(a)) prepare_qk(&h, rows, rounding);
    return h;
}

static QueryTile tile_at(const AttentionArrays *l, size_t first) {
    const size_t count = l->T - first < ATTENTION_TILE ? l->T - first : ATTENTION_TILE;
    return (QueryTile){first, count, first + count, whole_lanes(first + count)};
}

/* The tile's rows of o: the weights times the values. A weight of 0 times a value of NaN is NaN, so where a score is
   not finite (`scores_finite` false) each row is multiplied with the keys that it sees alone: later positions change
   nothing of earlier ones. */
static void output_forward(real *p, const Head *h, const QueryTile *t, bool scores_finite) {
    const size_t step = scores_finite ? t->count : 1;
    for (size_t r = 0; r < t->count; r += step) {
        const size_t first = t->first + r;
        const QueryTile rows = {first, step, first + step, t->stride};
        panel_by_keys(h->o + first * h->o_stride, h->o_stride, h, &rows, 1, p + r * t->stride, h->value);
    }
}

static void pair_forward(const AttentionArrays *l, size_t pair, const Scratch *s) {
    const Head h = head_of(l, pair, l->T, s, NULL);
    real largest = -(real)INFINITY;
    for (size_t first = l->cached; first < l->T; first += ATTENTION_TILE) {
        const QueryTile t = tile_at(l, first);
        raw_scores_forward(s->p, &h, &t);            /* q_i . k_j / divisor */
        score_mod_forward(s->p, NULL, &h, &t, NULL); /* nothing, unless a length, cap or precision is asked for */
        const real in_tile = softmax_forward(s->p, &h, &t); /* p_ij times the dropout mask */
        output_forward(s->p, &h, &t, !isnan(in_tile));
        operand_keep(operand_from(pair_of(l, pair, l->out, QUERY), first, 0), h.o + first * h.o_stride, h.o_stride,
                     t.count, h.a->D);
        largest = isnan(in_tile) || in_tile > largest ? in_tile : largest;
    }
    l->saved.pair_max[pair] = largest;
}

void attention_pairs_forward(const AttentionArrays *l, Range pairs, real *scratch) {
    const Scratch s = scratch_at(l, scratch);
    for (size_t pair = pairs.begin; pair < pairs.end; pair++) pair_forward(l, pair, &s);
}

/* One tile's queries: the scores once more, then the stages from the last to the first. Overwrites the tile's rows of
   dq; overwrites dk and dv, or adds to them (`adds`). */
static void tile_backward(const HeadGradients *g, const Head *h, const QueryTile *t, bool adds, const Scratch *s) {
    const Operand do_ = {g->do_, g->o_stride, attention_form(h->a)};
    raw_scores_forward(s->p, h, t);
    score_mod_forward(s->p, s->slope, h, t, NULL);

    queries_by_keys(s->ds, h, t, 1, do_, h->value); /* do_i . v_j */
    softmax_backward(s->p, s->ds, s->mask, g, h, t);
    panel_by_queries(g->dv, g->stride, h, t, 1, s->p, do_, adds);
    if (h->a->constant_weights) memset(s->ds, 0, t->count * t->stride * sizeof *s->ds); /* nothing reaches the scores */
    score_mod_backward(s->ds, s->slope, h, t);
    raw_scores_backward(g, s->ds, h, t, adds);
}

/* The pair's gradients: of q, k and v in place, or in scratch before they are rounded. */
static HeadGradients gradients_of(const AttentionArrays *l, size_t pair, const real *dout, const Scratch *s) {
    const size_t o_stride = attention_width_out(l->attention);
    real *parts[ATTENTION_PARTS];
    for (AttentionPart part = QUERY; part < ATTENTION_PARTS; part++)
        parts[part] = s->gradients[part] ? s->gradients[part] : (real *)pair_of(l, pair, l->dqkv, part).rows;
    return (HeadGradients){.dq = parts[QUERY],
                           .dk = parts[KEY],
                           .dv = parts[VALUE],
                           .do_ = pair_of(l, pair, (Operand){dout, o_stride, FORM_REAL}, QUERY).rows,
                           .delta = s->delta,
                           .stride = s->o ? l->attention->D : l->dqkv.stride,
                           .o_stride = o_stride};
}

static void pair_backward(const AttentionArrays *l, size_t pair, const real *dout, const Scratch *s) {
    const Head h = head_of(l, pair, l->T, s, NULL);
    const HeadGradients g = gradients_of(l, pair, dout, s);
    const size_t tiles = (l->T - l->cached + ATTENTION_TILE - 1) / ATTENTION_TILE, partials = attention_partials(h.a);
    if (partials > 0) memset(l->partials + pair * partials, 0, partials * sizeof(real));
    /* The last tile sees every key, so it is taken first and overwrites dk and dv; the others add. */
    for (size_t tile = tiles; tile-- > 0;) {
        const QueryTile t = tile_at(l, l->cached + tile * ATTENTION_TILE);
        tile_backward(&g, &h, &t, tile + 1 < tiles, s);
    }
    if (h.a->sink == SINK_LEARNED && !h.a->constant_weights) sink_backward(&g, &h);
    if (h.a->learned != LEARNED_NO) multiplier_backward(&g, &h);
    if (h.a->qk_norm != QK_NORM_NONE) {
        operand_of(l, pair, QUERY, l->T, s); /* copies them into h.q and h.k again */
        operand_of(l, pair, KEY, l->T, s);
        qk_norm_backward(&g, &h);
    }
    for (AttentionPart part = QUERY; part < ATTENTION_PARTS; part++)
        operand_keep(pair_of(l, pair, l->dqkv, part), s->gradients[part], h.a->D, l->T, h.a->D);
}

void attention_pairs_backward(const AttentionArrays *l, Range pairs, const real *dout, real *scratch) {
    const Scratch s = scratch_at(l, scratch);
    for (size_t pair = pairs.begin; pair < pairs.end; pair++) pair_backward(l, pair, dout, &s);
}

void attention_partials_add(const AttentionArrays *l, Range pairs, real *const gradients[ATTENTION_PARAMETERS]) {
    const AttentionConfig *a = l->attention;
    const size_t stride = attention_partials(a);
    const real *partials = l->partials;
    for (AttentionParameter p = 0; p < ATTENTION_PARAMETERS; p++) {
        const ParameterShape own = attention_parameter(a, p);
        for (size_t pair = pairs.begin; pair < pairs.end; pair++)
            for (size_t i = 0; i < own.size; i++)
                gradients[p][pair % own.heads * own.size + i] += partials[pair * stride + i];
        partials += own.size;
    }
}

static void shrink(real *row, Range columns, real factor) {
    for (size_t c = columns.begin; c < columns.end; c++) row[c] *= factor;
}

void attention_clip(const AttentionConfig *a, double limit, const real *score_max, real *weight, size_t rows,
                    real *bias) {
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

/* --- What measurements ask for. */

void attention_scores(const AttentionArrays *l, size_t pair, size_t first, size_t count, ScoreStage stage, real *scores,
                      AttentionRounding *rounding, real *scratch) {
    const Scratch s = scratch_at(l, scratch);
    const QueryTile t = {first, count, first + count, first + count};
    Head h = head_of(l, pair, first + count, &s, first + count == l->T ? rounding : NULL);
    if (stage == SCORES_RAW) h.multiplier = 1;
    raw_scores_forward(scores, &h, &t);
    if (stage == SCORES_MODIFIED) score_mod_forward(scores, NULL, &h, &t, rounding);
}

static double norm(const real *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

void attention_gradient_norms(const AttentionArrays *l, size_t pair, const real *dout, size_t first, size_t count,
                              double *query, double *scores, real *scratch) {
    const Scratch s = scratch_at(l, scratch);
    const Head h = head_of(l, pair, first + count, &s, NULL);
    const QueryTile t = {first, count, first + count, first + count};
    const Operand do_ = pair_of(l, pair, (Operand){dout, attention_width_out(h.a), FORM_REAL}, QUERY); /* (T,D) */
    Operand dq = operand_from(pair_of(l, pair, l->dqkv, QUERY), first, 0);
    if (s.gradients[QUERY]) {
        operand_read(s.gradients[QUERY], h.a->D, dq, count, h.a->D);
        dq = (Operand){s.gradients[QUERY], h.a->D, FORM_REAL};
    }
    raw_scores_forward(s.p, &h, &t);
    score_mod_forward(s.p, NULL, &h, &t, NULL);
    queries_by_keys(s.ds, &h, &t, 1, do_, h.value);
    for (size_t r = 0; r < count; r++) {
        scores[r] = softmax_gradient_norm(s.p + r * t.stride, s.ds + r * t.stride, &h, first + r);
        query[r] = norm(operand_from(dq, r, 0).rows, h.a->D);
    }
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

/* The variance of an entry of a normalized query or key, whose entries had this variance before. */
static double normalized_variance(const AttentionConfig *a, double variance) {
    const double D = (double)a->D;
    if (a->qk_norm == QK_NORM_L2) return variance / (variance + L2_EPSILON / D) / D;
    return variance / (variance + (a->qk_norm == QK_NORM_RMS ? RMS_EPSILON : LAYER_EPSILON));
}

double attention_predicted_std(const AttentionConfig *a, size_t T, double query, double query_bias, double key,
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
    const double modified = lengths * raw / a->divisor, cap = (double)a->softcap;
    return cap > 0 ? cap * tanh_rms(modified / cap) : modified;
}
