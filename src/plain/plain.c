/* The forward and backward pass of a training step, as the papers write it. After it a step updates the parameters
   (`optimizer_step` in src/train/optimizer.c, which calls `adamw` in src/ops/update.c). Read this file from top to
   bottom. The layers come in the order of the network, each forward function with its backward function right below.
   Then come the two kinds of block, and the decoder. The code is simple and slow. `train.engine = plain` trains with
   it, and the tests compare the fast engine with it.

   The derivations are in docs/backward.md. They all use the chain rule: if y = f(x), the backward function gets dy =
   dL/dy and adds dL/dx = dy df/dx to dx. It adds the gradients of the weights in the same way. So an array that is
   used twice gets both terms of its gradient. decoder_backward sets all gradients to zero first. A forward function
   overwrites its output.

   Letters: T positions of a sequence, C d_model, H heads, D d_k, F d_ff, V vocabulary, L layers. Arrays are row-major,
   and weights have GPT-2's orientation, y = x W + b with W (in,out). */
#include "plain/plain.h"

#include <math.h>
#include <string.h>

#include "ops/cross_entropy.h"

/* The parameters of a layer and their gradients: a linear layer's W (in,out) and b (out), a LayerNorm's gain W (C) and
   bias b (C). b and db are NULL in a model without biases. */
typedef struct {
    real *W, *b, *dW, *db;
} Parameters;

/* --- Arithmetic. */

static real dot(const real *x, const real *y, size_t n) {
    real sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* y += scale x */
static void add_scaled(real *y, real scale, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += scale * x[i];
}

/* x_j becomes exp(x_j) / sum_k exp(x_k); returns ln sum_k exp(x_k). The largest is subtracted before exp, which keeps
   exp finite and changes neither result. */
static real softmax(real *x, size_t n) {
    real largest = -(real)INFINITY, sum = 0;
    for (size_t j = 0; j < n; j++) largest = x[j] > largest ? x[j] : largest;
    for (size_t j = 0; j < n; j++) {
        x[j] = (real)exp((double)(x[j] - largest));
        sum += x[j];
    }
    for (size_t j = 0; j < n; j++) x[j] /= sum;
    return largest + (real)log((double)sum);
}

/* --- Embedding: x_t = wte[token_t] + wpe[t]; x (T,C), tokens (T), wte (V,C), wpe (T or more,C) */

static void plain_embedding_forward(real *x, const int32_t *tokens, const real *wte, const real *wpe, size_t T,
                                    size_t C) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) x[t * C + c] = wte[(size_t)tokens[t] * C + c] + wpe[t * C + c];
}

/* dwte[token_t] += dx_t,   dwpe[t] += dx_t */
static void plain_embedding_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t T,
                                     size_t C) {
    for (size_t t = 0; t < T; t++) {
        add_scaled(dwte + (size_t)tokens[t] * C, 1, dx + t * C, C);
        add_scaled(dwpe + t * C, 1, dx + t * C, C);
    }
}

/* --- LayerNorm, each position by itself: xhat = (x - mean) rstd with rstd = 1 / sqrt(variance + 1e-5),
       y = xhat gain + bias; y, x (T,C)   (Ba, Kiros, Hinton 2016, equations 3 and 4) */

static void mean_and_rstd(const real *x, size_t C, real *mean, real *rstd) {
    real sum = 0, squares = 0;
    for (size_t c = 0; c < C; c++) sum += x[c];
    *mean = sum / (real)C;
    for (size_t c = 0; c < C; c++) squares += (x[c] - *mean) * (x[c] - *mean);
    *rstd = (real)(1 / sqrt((double)(squares / (real)C) + 1e-5));
}

static void plain_layernorm_forward(real *y, const real *x, Parameters w, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++, x += C, y += C) {
        real mean, rstd;
        mean_and_rstd(x, C, &mean, &rstd);
        for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * w.W[c] + (w.b ? w.b[c] : 0);
    }
}

/* dgain += dy xhat,   dbias += dy,   and with g = dy gain:   dx += rstd (g - mean(g) - xhat mean(g xhat)). The two
   means are there because mean and rstd depend on every x of the position. */
static void plain_layernorm_backward(real *dx, const real *dy, const real *x, Parameters w, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++, x += C, dx += C, dy += C) {
        real mean, rstd, mean_g = 0, mean_g_xhat = 0;
        mean_and_rstd(x, C, &mean, &rstd);
        for (size_t c = 0; c < C; c++) {
            const real xhat = (x[c] - mean) * rstd, g = dy[c] * w.W[c];
            w.dW[c] += dy[c] * xhat;
            if (w.db) w.db[c] += dy[c];
            mean_g += g / (real)C;
            mean_g_xhat += g * xhat / (real)C;
        }
        for (size_t c = 0; c < C; c++) {
            const real xhat = (x[c] - mean) * rstd, g = dy[c] * w.W[c];
            dx[c] += rstd * (g - mean_g - xhat * mean_g_xhat);
        }
    }
}

/* --- Linear layer: y_t = b + sum_i x_ti W_i, with W_i row i of W; y (T,out), x (T,in) */

static void plain_linear_forward(real *y, const real *x, Parameters w, size_t T, size_t in, size_t out) {
    for (size_t t = 0; t < T; t++) {
        for (size_t o = 0; o < out; o++) y[t * out + o] = w.b ? w.b[o] : 0;
        for (size_t i = 0; i < in; i++) add_scaled(y + t * out, x[t * in + i], w.W + i * out, out);
    }
}

/* dx_ti += dy_t . W_i,   dW_i += x_ti dy_t,   db += dy_t */
static void plain_linear_backward(real *dx, const real *dy, const real *x, Parameters w, size_t T, size_t in,
                                  size_t out) {
    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < in; i++) {
            dx[t * in + i] += dot(dy + t * out, w.W + i * out, out);
            add_scaled(w.dW + i * out, x[t * in + i], dy + t * out, out);
        }
        if (w.db) add_scaled(w.db, 1, dy + t * out, out);
    }
}

/* --- Attention (Vaswani et al. 2017, equation 1), for each head:
       s_ij = q_i . k_j / divisor for the keys j <= i,   p_i = softmax(s_i),   o_i = sum_j p_ij v_j
       qkv (T,3HD): the queries of all heads, then their keys, then their values; p (H,T,T); out (T,HD), head by head.
       config_divisor_choice and divisor_value (src/config) give the divisor. */

static void plain_attention_forward(real *out, real *p, const real *qkv, size_t T, size_t H, size_t D, real divisor) {
    const size_t row = 3 * H * D; /* distance of the rows of two positions */
    for (size_t h = 0; h < H; h++) {
        const real *q = qkv + h * D, *k = q + H * D, *v = k + H * D;
        for (size_t i = 0; i < T; i++) {
            real *p_i = p + (h * T + i) * T, *o_i = out + (i * H + h) * D;
            for (size_t j = 0; j <= i; j++) {
                const real score = dot(q + i * row, k + j * row, D) / divisor;
                p_i[j] = score;
            }
            softmax(p_i, i + 1);
            for (size_t j = i + 1; j < T; j++) p_i[j] = 0;
            for (size_t d = 0; d < D; d++) o_i[d] = 0;
            for (size_t j = 0; j <= i; j++) add_scaled(o_i, p_i[j], v + j * row, D);
        }
    }
}

/* dv_j += p_ij do_i,   dp_ij = do_i . v_j,   ds_ij = p_ij (dp_ij - sum_k p_ik dp_ik),
   dq_i += ds_ij k_j / divisor,   dk_j += ds_ij q_i / divisor */
static void plain_attention_backward(real *dqkv, const real *dout, const real *p, const real *qkv, size_t T, size_t H,
                                     size_t D, real divisor) {
    const size_t row = 3 * H * D;
    for (size_t h = 0; h < H; h++) {
        const real *q = qkv + h * D, *k = q + H * D, *v = k + H * D;
        real *dq = dqkv + h * D, *dk = dq + H * D, *dv = dk + H * D;
        for (size_t i = 0; i < T; i++) {
            const real *p_i = p + (h * T + i) * T, *do_i = dout + (i * H + h) * D;
            real sum = 0; /* sum_k p_ik dp_ik */
            for (size_t j = 0; j <= i; j++) {
                add_scaled(dv + j * row, p_i[j], do_i, D);
                sum += p_i[j] * dot(do_i, v + j * row, D);
            }
            for (size_t j = 0; j <= i; j++) {
                const real dp = dot(do_i, v + j * row, D), ds = p_i[j] * (dp - sum);
                add_scaled(dq + i * row, ds / divisor, k + j * row, D);
                add_scaled(dk + j * row, ds / divisor, q + i * row, D);
            }
        }
    }
}

/* --- Residual connection: y = x + branch, all (n) */

static void plain_residual_forward(real *y, const real *x, const real *branch, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] + branch[i];
}

/* dx += dy,   dbranch += dy */
static void plain_residual_backward(real *dx, real *dbranch, const real *dy, size_t n) {
    add_scaled(dx, 1, dy, n);
    add_scaled(dbranch, 1, dy, n);
}

/* --- GELU: y = x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), entry by entry
   (Hendrycks and Gimpel 2016) */

static double tanh_u(double x) { return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }

static void plain_gelu_forward(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = (real)((double)x[i] / 2 * (1 + tanh_u((double)x[i])));
}

/* dx += dy ((1 + tanh u)/2 + x/2 (1 - tanh^2 u) du/dx) with du/dx = sqrt(2/pi) (1 + 3 0.044715 x^2) */
static void plain_gelu_backward(real *dx, const real *dy, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double x_i = (double)x[i], tanh_i = tanh_u(x_i), du = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x_i * x_i);
        dx[i] += dy[i] * (real)((1 + tanh_i) / 2 + x_i / 2 * (1 - tanh_i * tanh_i) * du);
    }
}

/* --- ReLU: y = max(x, 0)   (Nair and Hinton 2010); a NaN stays one */

static void plain_relu_forward(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

/* dx += dy, except where x <= 0 */
static void plain_relu_backward(real *dx, const real *dy, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] += x[i] <= 0 ? 0 : dy[i];
}

/* The functions of each value of model.activation. */
#define FUNCTIONS(VALUE, name) {plain_##name##_forward, plain_##name##_backward},
static const struct {
    void (*forward)(real *y, const real *x, size_t n);
    void (*backward)(real *dx, const real *dy, const real *x, size_t n);
} ACTIVATIONS[] = {ACTIVATION_TABLE(FUNCTIONS)};

/* --- Logits: logits_tv = x_t . W_v, a linear layer with weight W^T and no bias; logits (T,V), x (T,C), W (V,C). With
   tied embeddings, W is the token embedding. */

static void plain_logits_forward(real *logits, const real *x, const real *W, size_t T, size_t C, size_t V) {
    for (size_t t = 0; t < T; t++)
        for (size_t v = 0; v < V; v++) logits[t * V + v] = dot(x + t * C, W + v * C, C);
}

/* dx_t += dlogits_tv W_v,   dW_v += dlogits_tv x_t */
static void plain_logits_backward(real *dx, real *dW, const real *dlogits, const real *x, const real *W, size_t T,
                                  size_t C, size_t V) {
    for (size_t t = 0; t < T; t++)
        for (size_t v = 0; v < V; v++) {
            add_scaled(dx + t * C, dlogits[t * V + v], W + v * C, C);
            add_scaled(dW + v * C, dlogits[t * V + v], x + t * C, C);
        }
}

/* --- Cross-entropy: p_t = softmax(logits_t),   loss_t = -ln p_t,target = ln sum_v exp(logits_tv) - logits_t,target
   in nats, 0 for a target below 0; losses, targets (T), probabilities (T,V) */

static void plain_cross_entropy_forward(real *losses, real *probabilities, const real *logits, const int32_t *targets,
                                        size_t T, size_t V) {
    memcpy(probabilities, logits, T * V * sizeof(real));
    for (size_t t = 0; t < T; t++) {
        const real log_sum = softmax(probabilities + t * V, V);
        losses[t] = targets[t] < 0 ? 0 : log_sum - logits[t * V + (size_t)targets[t]];
    }
}

/* The gradient of the loss, weight * (the sum of the losses): dlogits_tv += weight (p_tv - 1) for the target v, and
   weight p_tv for the others; 0 for a target below 0 */
static void plain_cross_entropy_backward(real *dlogits, const real *probabilities, const int32_t *targets, real weight,
                                         size_t T, size_t V) {
    for (size_t t = 0; t < T; t++)
        for (size_t v = 0; targets[t] >= 0 && v < V; v++)
            dlogits[t * V + v] += weight * (probabilities[t * V + v] - (real)(v == (size_t)targets[t]));
}

/* --- The arrays that one sequence computes, and their gradients in arrays of the same shapes. */

typedef struct {
    real *ln_1;           /* (T,C) */
    real *qkv, *att;      /* (T,3HD), (T,HD) */
    real *proj_1, *res_1; /* (T,C): what attention adds, and the sum */
    real *ln_2;           /* (T,C) */
    real *fc, *act;       /* (T,F): before and after the activation function */
    real *proj_2, *res_2; /* (T,C): what the feed-forward network adds, and the sum */
    real *out;            /* (T,C): the output: the same array as res_2 (pre-norm) or ln_2 (post-norm) */
} BlockArrays;

typedef struct {
    real *x; /* (T,C): the embeddings, the input of the first block */
    BlockArrays *blocks;
    real *out;    /* (T,C): the last block's output, in a pre-norm model after one more LayerNorm */
    real *logits; /* (T,V) */
    real *end;    /* the end of these arrays, which are contiguous from x on */
} Arrays;

typedef struct PlainSequence {
    const ModelShape *shape;
    const TensorTable *tensors;
    real *W, *dW;            /* flat: the parameters, and this sequence's term of their gradients */
    size_t T;                /* positions of this pass */
    Arrays a, d;             /* activations, and their gradients */
    real *p, *probabilities; /* (L,H,T,T), (T,V): attention weights; softmax of the logits */
} Sequence;

/* A tensor of block l and its gradient; NULL where the model has no such tensor. */
static real *weight(const Sequence *s, TensorRole role, size_t l) { return tensor_at(s->tensors, s->W, role, l); }
static real *dweight(const Sequence *s, TensorRole role, size_t l) { return tensor_at(s->tensors, s->dW, role, l); }
/* The parameters of a layer whose weight has this role; its bias has the next role. */
static Parameters parameters(const Sequence *s, TensorRole role, size_t l) {
    return (Parameters){weight(s, role, l), weight(s, role + 1, l), dweight(s, role, l), dweight(s, role + 1, l)};
}

/* --- The two sublayers of block l: from x (T,C) to proj_1, and from x to proj_2. */

static void self_attention_forward(const Sequence *s, size_t l, const real *x) {
    const BlockArrays *a = &s->a.blocks[l];
    const size_t T = s->T, C = s->shape->C, H = s->shape->attention.H, D = s->shape->attention.D;
    plain_linear_forward(a->qkv, x, parameters(s, ATTN_W, l), T, C, 3 * H * D);
    plain_attention_forward(a->att, s->p + l * H * T * T, a->qkv, T, H, D, (real)s->shape->attention.divisor);
    plain_linear_forward(a->proj_1, a->att, parameters(s, ATTN_PROJ_W, l), T, H * D, C);
}
static void self_attention_backward(const Sequence *s, size_t l, real *dx, const real *x) {
    const BlockArrays *a = &s->a.blocks[l], *d = &s->d.blocks[l];
    const size_t T = s->T, C = s->shape->C, H = s->shape->attention.H, D = s->shape->attention.D;
    plain_linear_backward(d->att, d->proj_1, a->att, parameters(s, ATTN_PROJ_W, l), T, H * D, C);
    plain_attention_backward(d->qkv, d->att, s->p + l * H * T * T, a->qkv, T, H, D, (real)s->shape->attention.divisor);
    plain_linear_backward(dx, d->qkv, x, parameters(s, ATTN_W, l), T, C, 3 * H * D);
}

static void feed_forward_forward(const Sequence *s, size_t l, const real *x) {
    const BlockArrays *a = &s->a.blocks[l];
    const size_t T = s->T, C = s->shape->C, F = s->shape->F;
    plain_linear_forward(a->fc, x, parameters(s, FC_W, l), T, C, F);
    ACTIVATIONS[s->shape->activation].forward(a->act, a->fc, T * F);
    plain_linear_forward(a->proj_2, a->act, parameters(s, MLP_PROJ_W, l), T, F, C);
}
static void feed_forward_backward(const Sequence *s, size_t l, real *dx, const real *x) {
    const BlockArrays *a = &s->a.blocks[l], *d = &s->d.blocks[l];
    const size_t T = s->T, C = s->shape->C, F = s->shape->F;
    plain_linear_backward(d->act, d->proj_2, a->act, parameters(s, MLP_PROJ_W, l), T, F, C);
    ACTIVATIONS[s->shape->activation].backward(d->fc, d->act, a->fc, T * F);
    plain_linear_backward(dx, d->fc, x, parameters(s, FC_W, l), T, C, F);
}

/* --- Pre-norm block (GPT-2): r = x + attention(LN(x)),   output = r + feed_forward(LN(r)) */

static void pre_norm_forward(const Sequence *s, size_t l, const real *x) {
    const BlockArrays *a = &s->a.blocks[l];
    const size_t T = s->T, C = s->shape->C;
    plain_layernorm_forward(a->ln_1, x, parameters(s, LN_1_W, l), T, C);
    self_attention_forward(s, l, a->ln_1);
    plain_residual_forward(a->res_1, x, a->proj_1, T * C);
    plain_layernorm_forward(a->ln_2, a->res_1, parameters(s, LN_2_W, l), T, C);
    feed_forward_forward(s, l, a->ln_2);
    plain_residual_forward(a->res_2, a->res_1, a->proj_2, T * C);
}
static void pre_norm_backward(const Sequence *s, size_t l, real *dx, const real *x) {
    const BlockArrays *a = &s->a.blocks[l], *d = &s->d.blocks[l];
    const size_t T = s->T, C = s->shape->C;
    plain_residual_backward(d->res_1, d->proj_2, d->res_2, T * C);
    feed_forward_backward(s, l, d->ln_2, a->ln_2);
    plain_layernorm_backward(d->res_1, d->ln_2, a->res_1, parameters(s, LN_2_W, l), T, C);
    plain_residual_backward(dx, d->proj_1, d->res_1, T * C);
    self_attention_backward(s, l, d->ln_1, a->ln_1);
    plain_layernorm_backward(dx, d->ln_1, x, parameters(s, LN_1_W, l), T, C);
}

/* --- Post-norm block (Vaswani et al. 2017): r = LN(x + attention(x)),   output = LN(r + feed_forward(r)) */

static void post_norm_forward(const Sequence *s, size_t l, const real *x) {
    const BlockArrays *a = &s->a.blocks[l];
    const size_t T = s->T, C = s->shape->C;
    self_attention_forward(s, l, x);
    plain_residual_forward(a->res_1, x, a->proj_1, T * C);
    plain_layernorm_forward(a->ln_1, a->res_1, parameters(s, LN_1_W, l), T, C);
    feed_forward_forward(s, l, a->ln_1);
    plain_residual_forward(a->res_2, a->ln_1, a->proj_2, T * C);
    plain_layernorm_forward(a->ln_2, a->res_2, parameters(s, LN_2_W, l), T, C);
}
static void post_norm_backward(const Sequence *s, size_t l, real *dx, const real *x) {
    const BlockArrays *a = &s->a.blocks[l], *d = &s->d.blocks[l];
    const size_t T = s->T, C = s->shape->C;
    plain_layernorm_backward(d->res_2, d->ln_2, a->res_2, parameters(s, LN_2_W, l), T, C);
    plain_residual_backward(d->ln_1, d->proj_2, d->res_2, T * C);
    feed_forward_backward(s, l, d->ln_1, a->ln_1);
    plain_layernorm_backward(d->res_1, d->ln_1, a->res_1, parameters(s, LN_1_W, l), T, C);
    plain_residual_backward(dx, d->proj_1, d->res_1, T * C);
    self_attention_backward(s, l, dx, x);
}

/* --- The decoder, for one sequence. */

/* The input of block l, or its gradient; for l = L, the output of the last block. */
static real *block_input(const Arrays *arrays, size_t l) { return l == 0 ? arrays->x : arrays->blocks[l - 1].out; }

static void decoder_forward(const Sequence *s, real *losses, const int32_t *tokens, const int32_t *targets) {
    const ModelShape *m = s->shape;
    const Arrays *a = &s->a;
    const size_t T = s->T, C = m->C;
    plain_embedding_forward(a->x, tokens, weight(s, WTE, 0), weight(s, WPE, 0), T, C);
    for (size_t l = 0; l < m->L; l++) (m->pre_norm ? pre_norm_forward : post_norm_forward)(s, l, block_input(a, l));
    if (m->pre_norm) plain_layernorm_forward(a->out, block_input(a, m->L), parameters(s, LN_F_W, 0), T, C);
    plain_logits_forward(a->logits, a->out, weight(s, m->tied ? WTE : LM_HEAD, 0), T, C, m->V);
    plain_cross_entropy_forward(losses, s->probabilities, a->logits, targets, T, m->V);
}

static void decoder_backward(const Sequence *s, const int32_t *tokens, const int32_t *targets, real loss_weight) {
    const ModelShape *m = s->shape;
    const Arrays *a = &s->a, *d = &s->d;
    const size_t T = s->T, C = m->C, L = m->L;
    const TensorRole output = m->tied ? WTE : LM_HEAD;
    memset(s->dW, 0, s->tensors->flat * sizeof(real));
    memset(d->x, 0, (size_t)(d->end - d->x) * sizeof(real));
    plain_cross_entropy_backward(d->logits, s->probabilities, targets, loss_weight, T, m->V);
    plain_logits_backward(d->out, dweight(s, output, 0), d->logits, a->out, weight(s, output, 0), T, C, m->V);
    if (m->pre_norm)
        plain_layernorm_backward(block_input(d, L), d->out, block_input(a, L), parameters(s, LN_F_W, 0), T, C);
    for (size_t l = L; l-- > 0;) /* the gradient of block l's output is complete */
        (m->pre_norm ? pre_norm_backward : post_norm_backward)(s, l, block_input(d, l), block_input(a, l));
    plain_embedding_backward(dweight(s, WTE, 0), dweight(s, WPE, 0), d->x, tokens, T, C);
}

/* --- A batch: no sequence depends on another, so the loss and the gradients are sums over sequences. */

double plain_pass(Plain *plain, const Batch *batch, const Pass *pass) {
    Model *m = plain->model;
    const size_t T = batch->T;
    const Range sequences = pass_sequences(batch, pass);
    m->targets = batch_targets(batch);
    const real loss_weight = pass->with_backward ? (real)(pass->batch_weight / (double)m->targets) : 0;
#pragma omp parallel for num_threads((int)m->threads)
    for (size_t b = sequences.begin; b < sequences.end; b++) {
        Sequence *s = &plain->sequences[b];
        s->W = m->parameters;
        s->T = T;
        decoder_forward(s, m->losses + b * T, batch->tokens + b * T, batch->targets + b * T);
        if (pass->with_backward) decoder_backward(s, batch->tokens + b * T, batch->targets + b * T, loss_weight);
    }
    double sum = 0;
    m->correct = 0;
    if (pass->zero_gradients) memset(m->gradients, 0, m->tensors.flat * sizeof(real));
    for (size_t b = sequences.begin; b < sequences.end; b++) {
        const Sequence *s = &plain->sequences[b];
        for (size_t t = 0; t < T; t++) sum += (double)m->losses[b * T + t];
        if (pass->with_backward) add_scaled(m->gradients, 1, s->dW, m->tensors.flat);
        else m->correct += cross_entropy_correct(s->a.logits, batch->targets + b * T, T, m->shape.V);
    }
    if (pass->losses) pass->losses[0] += sum;
    return sum;
}

const real *plain_logits(const Plain *plain, size_t b) { return plain->sequences[b].a.logits; }

/* --- Memory. */

static real *take(Arena *arena, size_t rows, size_t width) {
    return arena_take(arena, size_mul(rows, width), sizeof(real));
}

static Arrays lay_out_arrays(const ModelShape *m, Arena *arena) {
    const size_t T = m->T, C = m->C, HD = attention_width_out(&m->attention);
    BlockArrays *blocks = arena_take(arena, m->L, sizeof *blocks);
    Arrays a = {.blocks = blocks, .x = take(arena, T, C)};
    for (size_t l = 0; l < m->L; l++) {
        real *ln_1 = take(arena, T, C), *qkv = take(arena, T, size_mul(3, HD)), *att = take(arena, T, HD);
        real *proj_1 = take(arena, T, C), *res_1 = take(arena, T, C);
        real *ln_2 = take(arena, T, C), *fc = take(arena, T, m->F), *act = take(arena, T, m->F);
        real *proj_2 = take(arena, T, C), *res_2 = take(arena, T, C);
        a.out = m->pre_norm ? res_2 : ln_2;
        if (blocks) blocks[l] = (BlockArrays){ln_1, qkv, att, proj_1, res_1, ln_2, fc, act, proj_2, res_2, a.out};
    }
    if (m->pre_norm) a.out = take(arena, T, C);
    a.logits = take(arena, T, m->V);
    a.end = take(arena, 0, 0);
    return a;
}

static void take_sequences(Plain *plain) {
    const Model *m = plain->model;
    const ModelShape *shape = &m->shape;
    Arena *arena = &plain->arena;
    plain->sequences = arena_take(arena, m->max_batch, sizeof *plain->sequences);
    for (size_t b = 0; b < m->max_batch; b++) {
        Sequence s = {.shape = shape, .tensors = &m->tensors, .dW = take(arena, m->tensors.flat, 1)};
        s.p = take(arena, size_mul(shape->L, size_mul(shape->attention.H, shape->T)), shape->T);
        s.probabilities = take(arena, shape->T, shape->V);
        s.a = lay_out_arrays(shape, arena);
        s.d = lay_out_arrays(shape, arena);
        if (plain->sequences) plain->sequences[b] = s;
    }
}

void plain_make(Plain *plain, Model *model) {
    *plain = (Plain){.model = model};
    do take_sequences(plain);
    while (arena_allocate(&plain->arena, "the plain engine's activations and gradients"));
}
