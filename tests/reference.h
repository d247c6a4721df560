/* A second implementation of the decoder, written from the papers as plainly as possible and independently of src/: the
   fast version must compute the same. Sizes are tiny, so nothing here is fast. */
#pragma once

#include "model/transformer.h"
#include "ops/dropout.h"
#include "support.h"

static inline void reference_layernorm(real *y, const real *x, const real *gamma, const real *beta, size_t rows,
                                       size_t C) {
    for (size_t r = 0; r < rows; r++, x += C, y += C) {
        double mean = 0, variance = 0;
        for (size_t c = 0; c < C; c++) mean += (double)x[c] / (double)C;
        for (size_t c = 0; c < C; c++) variance += pow((double)x[c] - mean, 2) / (double)C;
        for (size_t c = 0; c < C; c++)
            y[c] =
                (real)(((double)x[c] - mean) / sqrt(variance + 1e-5) * (double)gamma[c] + (beta ? (double)beta[c] : 0));
    }
}

static inline void reference_linear(real *y, const real *x, const real *w, const real *b, size_t rows, size_t in,
                                    size_t out) {
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            double sum = b ? (double)b[o] : 0;
            for (size_t i = 0; i < in; i++) sum += (double)x[r * in + i] * (double)w[i * out + o];
            y[r * out + o] = (real)sum;
        }
}

static inline double reference_gelu(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* One head of one sequence: its sizes, the distances between its rows, its dropout. */
typedef struct {
    size_t T, D, stride, out_stride;
    double multiplier;
    Dropout dropout;
    uint64_t dropout_row; /* that of query 0 */
} ReferenceHead;

static inline double reference_score(const real *q, const real *k, const ReferenceHead *shape, size_t i, size_t j) {
    return shape->multiplier * dot(q + i * shape->stride, k + j * shape->stride, shape->D);
}

static inline void reference_attention(real *out, real *row_max, real *row_sum, const real *q, const real *k,
                                       const real *v, const ReferenceHead *shape) {
    real *mask = reals(shape->T);
    for (size_t i = 0; i < shape->T; i++) {
        double max = -INFINITY, sum = 0;
        for (size_t j = 0; j <= i; j++) max = fmax(max, reference_score(q, k, shape, i, j));
        for (size_t j = 0; j <= i; j++) sum += exp(reference_score(q, k, shape, i, j) - max);
        if (dropout_is_on(&shape->dropout)) dropout_mask(&shape->dropout, shape->dropout_row + i, mask, i + 1);
        for (size_t d = 0; d < shape->D; d++) {
            double o = 0;
            for (size_t j = 0; j <= i; j++)
                o += exp(reference_score(q, k, shape, i, j) - max) / sum * (double)v[j * shape->stride + d] *
                     (dropout_is_on(&shape->dropout) ? (double)mask[j] : 1);
            out[i * shape->out_stride + d] = (real)o;
        }
        row_max[i] = (real)max, row_sum[i] = (real)sum;
    }
}

/* Logits (B,T,V) without dropout. */
static inline void reference_model(const Model *model, const Batch *batch, real *logits) {
    const ModelShape s = model->shape;
    const size_t T = batch->T, rows = batch->B * T, H = s.attention.H, D = s.attention.D, HD = H * D;
    real *x = reals(rows * s.C), *input = reals(rows * s.C), *branch = reals(rows * s.C), *qkv = reals(rows * 3 * HD),
         *att = reals(rows * HD), *fc = reals(rows * s.F), *statistics = reals(2 * T);
#define AT(role, layer) tensor_at(&model->tensors, model->parameters, role, layer)
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < s.C; c++)
            x[r * s.C + c] = AT(WTE, 0)[(size_t)batch->tokens[r] * s.C + c] + AT(WPE, 0)[r % T * s.C + c];
    for (size_t l = 0; l < s.L; l++) {
        const real *in = x;
        if (s.pre_norm) reference_layernorm(input, x, AT(LN_1_W, l), AT(LN_1_B, l), rows, s.C), in = input;
        reference_linear(qkv, in, AT(ATTN_W, l), AT(ATTN_B, l), rows, s.C, 3 * HD);
        const ReferenceHead a = {
            .T = T, .D = D, .stride = 3 * HD, .out_stride = HD, .multiplier = (double)s.attention.multiplier};
        for (size_t b = 0; b < batch->B; b++)
            for (size_t h = 0; h < H; h++) {
                real *q = qkv + b * T * 3 * HD + h * D;
                reference_attention(att + b * T * HD + h * D, statistics, statistics + T, q, q + HD, q + 2 * HD, &a);
            }
        reference_linear(branch, att, AT(ATTN_PROJ_W, l), AT(ATTN_PROJ_B, l), rows, HD, s.C);
        for (size_t i = 0; i < rows * s.C; i++) x[i] += branch[i];
        if (!s.pre_norm) reference_layernorm(x, x, AT(LN_1_W, l), AT(LN_1_B, l), rows, s.C);
        if (s.pre_norm) reference_layernorm(input, x, AT(LN_2_W, l), AT(LN_2_B, l), rows, s.C);
        reference_linear(fc, in, AT(FC_W, l), AT(FC_B, l), rows, s.C, s.F);
        for (size_t i = 0; i < rows * s.F; i++)
            fc[i] = (real)(s.relu ? fmax((double)fc[i], 0) : reference_gelu((double)fc[i]));
        reference_linear(branch, fc, AT(MLP_PROJ_W, l), AT(MLP_PROJ_B, l), rows, s.F, s.C);
        for (size_t i = 0; i < rows * s.C; i++) x[i] += branch[i];
        if (!s.pre_norm) reference_layernorm(x, x, AT(LN_2_W, l), AT(LN_2_B, l), rows, s.C);
    }
    if (s.pre_norm) reference_layernorm(x, x, AT(LN_F_W, 0), AT(LN_F_B, 0), rows, s.C);
    const real *head = s.tied ? AT(WTE, 0) : AT(LM_HEAD, 0);
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < s.V; v++) logits[r * s.V + v] = (real)dot(x + r * s.C, head + v * s.C, s.C);
#undef AT
}
