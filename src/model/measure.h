/* Statistics of a model's attention, and its matrices. Training never stores scores or weights: they are computed again
   from the queries and keys of the last pass. Scores are what softmax gets, except where they are said to be raw;
   "visible" are the entries with key <= query. */
#pragma once

#include "model/initialization.h"
#include "model/transformer.h"

#define SATURATED 0.99

/* One head over a batch. entropy, max_weight and saturated are over the rows with two or more keys, a sink included. */
typedef struct {
    double score_std;           /* standard deviation of the visible scores */
    double score_max;           /* the largest of them */
    double entropy;             /* mean over rows of H(row) / ln(keys): 1 is uniform, 0 one-hot; NaN without rows */
    double max_weight;          /* mean over rows of the largest weight; NaN without rows */
    double saturated;           /* share of rows whose largest weight is above SATURATED; NaN without rows */
    AttentionRounding rounding; /* of all queries, keys and visible scores */
    double w_q_norm, w_k_norm;  /* Frobenius norms of this head's W_Q and W_K (C, D) */
} HeadStatistics;

/* Measures every head, (L, H), after model_forward on a batch of (B, T) that is one slice (model_slice_size). */
void measure_heads(Model *model, size_t B, size_t T, HeadStatistics *statistics);

/* Raw scores and weights (L, H, T, T), entry (query, key), zero where masked; each head's multiplier and sink (L, H),
   as attention_multiplier and attention_sink give them. */
typedef struct {
    float *scores, *weights, *multiplier, *sink;
} AttentionSnapshot;
/* Fills a snapshot after model_forward on a batch of one sequence of T. */
void measure_snapshot(Model *model, size_t T, const AttentionSnapshot *snapshot);

/* Statistics of a set of norms. Quantiles are interpolated between the two nearest, as in NumPy. */
typedef struct {
    double mean, rms, median, p10, p99;
} NormStatistics;

/* Gradient norms of one head over a batch's rows with at least two visible keys; NaN when T is 1, or where a norm is
   not finite. Norms are Euclidean, of derivatives of the sum of the batch's losses, without dropout. */
typedef struct {
    NormStatistics query;  /* |dL/dq_i| */
    NormStatistics scores; /* |dL/ds_i|, s_i a row's scores */
} GradientStatistics;

/* Returns how many numbers of scratch measure_gradients needs. */
static inline size_t measure_gradients_scratch(const ModelShape *shape, size_t B) {
    return size_mul(size_mul(2, size_mul(shape->L, shape->attention.H)), size_mul(B, shape->T));
}

/* Measures every head, (L, H). The batch has targets and is one slice (model_slice_size). Overwrites the gradients with
   which the model was made. Leaves the activations that model_forward leaves, except `fc` and the logits. */
void measure_gradients(Model *model, const Batch *batch, double *scratch, GradientStatistics *statistics);

/* Returns the standard deviation of the first block's scores that theory predicts at initialization (docs/model.md). A
   query's and a key's entries have variance m C var(w) + var(b), where m is the mean square of the attention's input:
   the variance v of two summed embeddings in a post-norm model, v / (v + epsilon) after a pre-norm one's LayerNorm. */
double predicted_score_std(const ModelShape *shape, Init init);
