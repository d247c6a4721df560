/* Causal multi-head attention (Vaswani et al. 2017, equation 1, and other ways to score). Three stages make the
   weights, each replaceable alone:

       raw score       s_ij = q_i . k_j / divisor            of a query and each key it sees (j <= i)
       modification    nothing, unless it is asked for       of a row of scores, by its length or a cap
       normalization   p_i  = softmax(s_i)                   of a row of scores
       output          o_i  = sum_j p_ij (mask) v_j          with the dropout mask, which the third stage applies

   These are the default forms; docs/model.md has the others. Only attention*.c knows how a model's scores are made,
   with two exceptions: src/plain/plain.c divides the products and does nothing else to them, and lab/report/decoder.js
   repeats the three stages, since the page runs the model in the browser, where its slider changes the divisor.

   Queries are taken in tiles. A tile is multiplied only by the keys that its queries see, so the masked half is
   skipped, and its scores are in a panel of ATTENTION_TILE x T numbers: no T x T matrix exists. The forward pass keeps
   each row's maximum and sum of exponentials; from these the backward pass computes the same weights again (Dao et al.
   2022, section 3.1). */
#pragma once

#include "base/memory.h"
#include "base/range.h"
#include "config/config.h"
#include "gemm/matmul.h"
#include "ops/dropout.h"

enum { ATTENTION_TILE = 64 }; /* queries at a time */

/* How scores are made, in all layers; part of a ModelShape. */
typedef struct {
    size_t H, D;    /* heads; d_k, the width of a query, a key and a value */
    double divisor; /* of the raw scores at this step; where the multiplier is learned, that starts at 1 / divisor */
    Score score;
    QkNorm qk_norm;
    ScaleLearned learned;
    ScaleLength length;
    real softcap; /* 0: none */
    Sink sink;
    Precision precision;               /* of scores */
    bool rounds;                       /* whether products round their operands to bf16, as all others in the model;
                                          not where real is double */
    bool constant_weights;             /* whether the backward pass takes the weights p_ij as constants */
    double qk_init_scale, qk_lr_scale; /* factors of the initial queries and keys, and of their updates */
} AttentionConfig;
/* Returns the form in which products read the model's arrays of `real`. */
static inline Form attention_form(const AttentionConfig *a) { return a->rounds ? FORM_ROUNDED : FORM_REAL; }
/* Makes the attention that a config asks for, with the divisor of step 0. */
AttentionConfig attention_make(const Config *config);
/* Sets the divisor of a step: scale_divisor, or switch_divisor from switch_step on. */
void attention_set_divisor(AttentionConfig *attention, const Config *config, size_t step);

/* Widths of attention's input (queries, keys and values, each head by head) and of its output (head by head). SIZE_MAX
   when they do not fit. */
typedef enum { QUERY, KEY, VALUE, ATTENTION_PARTS } AttentionPart;
static inline size_t attention_width_out(const AttentionConfig *a) { return size_mul(a->H, a->D); }
static inline size_t attention_width_in(const AttentionConfig *a) {
    return size_mul(ATTENTION_PARTS, attention_width_out(a));
}
/* Returns the columns of the input that are a head's queries, keys or values. */
static inline Range attention_columns(const AttentionConfig *a, AttentionPart part, size_t head) {
    const size_t begin = (part * a->H + head) * a->D;
    return (Range){begin, begin + a->D};
}

/* The parameters of attention beside W_Q, W_K and W_V. The rows of the table of tensors are in this order. */
typedef enum {
    PARAMETER_V,          /* (H,D): of additive scores */
    PARAMETER_Q_GAIN,     /* (D): of normalized queries, the same for all heads */
    PARAMETER_K_GAIN,     /* (D): of normalized keys, the same for all heads */
    PARAMETER_MULTIPLIER, /* (1) or (H): the multiplier */
    PARAMETER_SINK,       /* (H): the sink's score */
    ATTENTION_PARAMETERS
} AttentionParameter;
/* The number of heads with numbers of their own, 1 where all share them, and the numbers that a head uses, 0 where
   there is no such parameter. */
typedef struct {
    size_t heads, size;
} ParameterShape;
ParameterShape attention_parameter(const AttentionConfig *attention, AttentionParameter parameter);
/* Returns the number of partial gradients of a pair: one for each number that its head uses of any parameter. */
size_t attention_partials(const AttentionConfig *attention);

/* Returns the floating-point operations of the forward pass for one position of T; the backward pass takes twice as
   many. The masked half is counted, as is usual; a tanh counts as one. */
double attention_flops(const AttentionConfig *attention, size_t T);
/* Returns how many numbers of scratch a thread needs for sequences of T. */
size_t attention_scratch(const AttentionConfig *attention, size_t T);

/* The arrays that the forward pass keeps for the backward pass, for `rows` rows of (B,T). */
typedef struct {
    real *row_max, *row_sum; /* (B,H,T) */
    real *pair_max;          /* (B,H): the largest score; NaN where a row has no finite sum */
} AttentionSaved;
/* Takes these arrays from the arena. */
AttentionSaved attention_lay_out(const AttentionConfig *attention, size_t rows, size_t sequences, Arena *arena);

/* A slice of a batch in one layer's attention. A "pair" below is one head of one sequence, sequence * H + head. */
typedef struct {
    const AttentionConfig *attention;
    size_t T;      /* positions of a sequence */
    size_t cached; /* Positions computed by an earlier pass: forward skips them, backward takes their gradients as
                      zero. The backward pass needs zeros in their rows of dq, and a dqkv that is not of bf16. */
    Operand qkv;   /* (B,T,3HD): queries, keys and values, each head by head. With `rounds` these three are of bf16 */
    Operand out;   /* (B,T,HD) */
    Operand dqkv;  /* (B,T,3HD): the gradient of qkv */
    const real *parameters[ATTENTION_PARAMETERS]; /* (heads, size) each; NULL where there is no such parameter */
    real *partials;                               /* (B,H,attention_partials), for the backward pass */
    AttentionSaved saved;
    Dropout dropout;    /* of the weights */
    uint64_t batch_row; /* row of the batch that is row 0 here: it decides which mask is drawn */
} AttentionArrays;

/* Overwrites these pairs' parts of out and of saved. Plain: plain_attention_forward. */
void attention_pairs_forward(const AttentionArrays *layer, Range pairs, real *scratch);

/* With dp_ij = do_i . v_j (times the dropout mask) and delta_i = sum_j p_ij dp_ij, in exact arithmetic do_i . o_i:
       ds_ij = p_ij (dp_ij - delta_i),   dq_i = multiplier sum_j ds_ij k_j,
       dk_j = multiplier sum_i ds_ij q_i,   dv_j = sum_i p_ij (mask) do_i:   O(T) a row.
   Overwrites these pairs' parts of dqkv and of the partial gradients. dout (B,T,HD).
   Plain: plain_attention_backward. */
void attention_pairs_backward(const AttentionArrays *layer, Range pairs, const real *dout, real *scratch);

/* Adds the partial gradients of these pairs, in their order, to the gradient of each parameter that exists. */
void attention_partials_add(const AttentionArrays *l, Range pairs, real *const gradients[ATTENTION_PARAMETERS]);

/* QK-clip (Kimi Team 2025, Kimi K2, section 2.1): where a head's largest score of a step, score_max (H), is above
   `limit`, multiplies its columns of W_Q and W_K (rows, 3HD), and of their biases (3HD, or NULL), by the root of
   limit / score_max, so that this score becomes the limit. */
void attention_clip(const AttentionConfig *a, double limit, const real *score_max, real *weight, size_t rows,
                    real *bias);

/* --- For measurements, pictures and predictions: after a forward pass, without dropout. */

/* Counts of what rounding to attention.score_precision does to queries, keys and visible scores: the finite numbers
   that become infinite, those that become subnormal or zero, and the scores that are infinite or NaN in the end. */
typedef struct {
    double overflows, subnormals, infinities;
} AttentionRounding;
/* Rounds x (n) to a format, nearest even, beyond its range to infinity (attention_rounding.c). `rounding` NULL, or
   counts. */
void round_scores(Precision precision, real *x, size_t n, AttentionRounding *rounding);

/* Computes the scores (count, first + count) of queries first .. first + count - 1 of a pair against the keys that the
   last of them sees: raw, without the multiplier, or modified, as softmax gets them. Entries with key > query are not
   meaningful. Adds to `rounding`, unless that is NULL; the counts of queries and keys come with the last query.
   `scores` may be the start of scratch where count <= ATTENTION_TILE; T + 1 doubles from scratch + ATTENTION_TILE * T
   on are left alone. */
typedef enum { SCORES_RAW, SCORES_MODIFIED } ScoreStage;
void attention_scores(const AttentionArrays *layer, size_t pair, size_t first, size_t count, ScoreStage stage,
                      real *scores, AttentionRounding *rounding, real *scratch);

/* Return the multiplier of a head, and the score of its sink, -infinity where there is none. With the config, these
   make its weights from its raw scores. */
real attention_multiplier(const AttentionArrays *layer, size_t head);
real attention_sink(const AttentionArrays *layer, size_t head);

/* What is measured of a row of weights. */
typedef struct {
    size_t keys, top;           /* n; which weight is the largest */
    double entropy, max_weight; /* of the weights, in nats; the largest of them */
} SoftmaxRow;
/* Turns scores (n, at least 1) into weights in double, whatever `real` is, and without cancellation however saturated
   the row is: for all that is measured. */
SoftmaxRow softmax_row(double *row, size_t n);

/* Does that with one query's modified scores (visible), into `weights` (visible + 1). A sink is the last key. */
SoftmaxRow attention_row(const AttentionArrays *layer, size_t pair, const real *scores, size_t visible,
                         double *weights);

/* Measures the gradients of the queries first .. first + count - 1 of a pair: Euclidean norms |dL/dq_i| and |dL/ds_i|,
   into `query` and `scores` (count <= ATTENTION_TILE), from attention_pairs_backward's dout and dqkv. */
void attention_gradient_norms(const AttentionArrays *layer, size_t pair, const real *dout, size_t first, size_t count,
                              double *query, double *scores, real *scratch);

/* Returns the root mean square of modified scores of rows of 1 to T keys, where queries and keys have independent
   normal entries of these variances. The part *_bias of a variance is the bias's, the same at all positions. The
   products of the two biases add the same number to all scores, which is left out. Additive scores count biases as if
   they differed. */
double attention_predicted_std(const AttentionConfig *attention, size_t T, double query, double query_bias, double key,
                               double key_bias);
