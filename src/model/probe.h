/* What the attention of a model does, in numbers and as matrices. Both are computed again from the queries and keys
   that the last forward pass left behind; training never stores scores or weights. */
#ifndef SQRTDK_MODEL_PROBE_H
#define SQRTDK_MODEL_PROBE_H

#include "model/transformer.h"

#define SATURATED 0.99

/* One head over a batch. "Visible" are the entries with key <= query; scores are those after the multiplier, before
   softmax. Rows counted for entropy and max_weight are those with at least two visible keys. */
typedef struct {
    double score_std;  /* standard deviation of the visible scores */
    double score_max;  /* the largest of them */
    double entropy;    /* mean over rows of H(row) / ln(visible keys): 1 is uniform, 0 one-hot; NaN when T is 1 */
    double max_weight; /* mean over rows of the largest weight; NaN when T is 1 */
    double saturated;  /* share of rows whose largest weight is above SATURATED; NaN when T is 1 */
    double w_q_norm, w_k_norm; /* Frobenius norms of this head's W_Q and W_K (C, D) */
} HeadStatistics;

/* Every head, (L, H), after model_forward on a batch of (B, T) that is one slice (model_slice). */
void probe_statistics(Model *model, size_t B, size_t T, HeadStatistics *statistics);

/* The weights (T, T) of one head, entry (query, key), zero where masked, after model_forward on a batch of one
   sequence of T. */
void probe_weights(Model *model, size_t layer, size_t head, size_t T, float *weights);

/* Both for all heads of all layers, (L,H,T,T), after model_forward on a batch of one sequence of T: the raw scores, q .
   k before the multiplier, and the weights; zero where masked. */
void probe_snapshot(Model *model, size_t T, float *scores, float *weights);

/* The standard deviation of the first block's scores that theory predicts at initialisation: a score is a sum of d_k
   products of independent numbers of variance m C var(w) + var(b) each, m the mean square of the attention's input: the
   variance v of two summed embeddings in a post-norm model, v / (v + epsilon) behind the LayerNorm of a pre-norm one.
   The term b_Q . b_K is the same for all scores of a head and spreads nothing. See docs/model.md. */
double probe_predicted_std(const ModelShape *shape, Init init);

#endif
