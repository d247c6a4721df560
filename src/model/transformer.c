#include <math.h>
#include <omp.h>
#include <string.h>

#include "model/worker.h"

/* The input of a block: the embeddings, or the output of the block before it. Block L is none: its input is the last
   output. */
static const Activation *block_input(const Model *m, size_t layer) {
    if (layer == 0) return &m->x;
    return m->shape.pre_norm ? &m->blocks[layer - 1].res_2 : &m->blocks[layer - 1].ln_2.y;
}

/* A block is two sublayers f, attention and the feed-forward network, each with a LayerNorm and a residual connection.
   Pre-norm: res = x + f(LN(x)), and res is the output. Post-norm: res = x + f(x), and the output is LN(res). */
static void block_forward(const Worker *w, size_t layer) {
    const bool pre = w->m->shape.pre_norm;
    const Block *b = &w->m->blocks[layer];
    const Activation *x_1 = block_input(w->m, layer), *x_2 = pre ? &b->res_1 : &b->ln_1.y; /* the sublayers' inputs */

    if (pre) layernorm(w, &b->ln_1, x_1, LN_1_W, layer);
    linear(w, &b->qkv, pre ? &b->ln_1.y : x_1, ATTN_W, layer);
    self_attention(w, &b->att, layer);
    linear(w, &b->proj_1, &b->att, ATTN_PROJ_W, layer);
    residual(w, &b->res_1, x_1, &b->proj_1, layer, SITE_PROJ_1);
    if (!pre) layernorm(w, &b->ln_1, &b->res_1, LN_1_W, layer);

    if (pre) layernorm(w, &b->ln_2, x_2, LN_2_W, layer);
    linear(w, &b->fc, pre ? &b->ln_2.y : x_2, FC_W, layer);
    nonlinearity(w, &b->act, &b->fc);
    linear(w, &b->proj_2, &b->act, MLP_PROJ_W, layer);
    residual(w, &b->res_2, x_2, &b->proj_2, layer, SITE_PROJ_2);
    if (!pre) layernorm(w, &b->ln_2, &b->res_2, LN_2_W, layer);
}

/* From the gradient of the block's output to that of its input. A residual connection hands res's gradient to f and to
   x: the two parts of x's gradient are added where f's first operation ends, the LayerNorm of a pre-norm model or the
   linear layer of a post-norm one. */
static void block_backward(const Worker *w, size_t layer) {
    const bool pre = w->m->shape.pre_norm;
    const Block *b = &w->m->blocks[layer];
    const Activation *x_1 = block_input(w->m, layer), *x_2 = pre ? &b->res_1 : &b->ln_1.y;
    const Activation *f_1 = pre ? &b->ln_1.y : x_1, *f_2 = pre ? &b->ln_2.y : x_2; /* the inputs of the two f */

    if (!pre) layernorm_backward(w, &b->res_2, &b->ln_2, LN_2_W, layer, NULL);
    residual_backward(w, &b->res_2, &b->proj_2, layer, SITE_PROJ_2);
    linear_backward(w, &b->act, &b->proj_2, MLP_PROJ_W, layer, NULL);
    nonlinearity_backward(w, &b->fc, &b->act);
    linear_backward(w, f_2, &b->fc, FC_W, layer, pre ? NULL : &b->res_2);
    if (pre) layernorm_backward(w, x_2, &b->ln_2, LN_2_W, layer, &b->res_2);

    if (!pre) layernorm_backward(w, &b->res_1, &b->ln_1, LN_1_W, layer, NULL);
    residual_backward(w, &b->res_1, &b->proj_1, layer, SITE_PROJ_1);
    linear_backward(w, &b->att, &b->proj_1, ATTN_PROJ_W, layer, NULL);
    self_attention_backward(w, &b->qkv, &b->att, layer);
    linear_backward(w, f_1, &b->qkv, ATTN_W, layer, pre ? NULL : &b->res_1);
    if (pre) layernorm_backward(w, x_1, &b->ln_1, LN_1_W, layer, &b->res_1);

    barrier(w); /* the gradients of all rows are complete: now those of the weights, the most recently used first */
    linear_weights(w, f_1, &b->qkv, ATTN_W, layer);
    self_attention_weights(w, layer);
    linear_weights(w, &b->att, &b->proj_1, ATTN_PROJ_W, layer);
    linear_weights(w, f_2, &b->fc, FC_W, layer);
    linear_weights(w, &b->act, &b->proj_2, MLP_PROJ_W, layer);
    layernorm_weights(w, pre ? x_1 : &b->res_1, &b->ln_1, LN_1_W, layer);
    layernorm_weights(w, pre ? x_2 : &b->res_2, &b->ln_2, LN_2_W, layer);
    barrier(w); /* the next block overwrites the gradients that were read here */
}

static const Activation *final_output(const Model *m) {
    return m->shape.pre_norm ? &m->ln_f.y : block_input(m, m->shape.L);
}

static void forward(const Worker *w) {
    const Model *m = w->m;
    embedding(w, &m->x);
    for (size_t layer = 0; layer < m->shape.L; layer++) block_forward(w, layer);
    if (m->shape.pre_norm) layernorm(w, &m->ln_f, block_input(m, m->shape.L), LN_F_W, 0);
    unembedding(w, final_output(m));
    loss(w);
}

static void backward(const Worker *w) {
    const Model *m = w->m;
    const Activation *last = block_input(m, m->shape.L), *final = final_output(m);
    loss_backward(w);
    unembedding_backward(w, final);
    if (m->shape.pre_norm) layernorm_backward(w, last, &m->ln_f, LN_F_W, 0, NULL);
    barrier(w);
    unembedding_weights(w, final);
    if (m->shape.pre_norm) layernorm_weights(w, last, &m->ln_f, LN_F_W, 0);
    barrier(w);
    for (size_t layer = m->shape.L; layer-- > 0;) block_backward(w, layer);
    embedding_weights(w, &m->x);
}

/* Each thread takes whole sequences, or where there are fewer of them than threads, rows. After cached positions there
   are too few rows to share. */
static Worker worker_make(Model *m, const Pass *pass, const Batch *batch, size_t first) {
    const size_t id = (size_t)omp_get_thread_num(), count = (size_t)omp_get_num_threads();
    const size_t H = m->shape.attention.H, T = batch->T;
    const size_t cached = pass->cached;
    const Range own = range_split(batch->B, 1, id, count); /* sequences */
    const Range split = range_split(batch->B * T - cached, 1, id, count);
    Worker w = {.m = m, .pass = pass, .batch = batch, .id = id, .count = count, .batch_row = first};
    w.splits_sequences = batch->B < count;
    w.rows = w.splits_sequences ? (Range){cached + split.begin, cached + split.end}
                                : (Range){own.begin * T + cached, own.end * T};
    w.pairs = w.splits_sequences ? range_split(batch->B * H, 1, id, count) : (Range){own.begin * H, own.end * H};
    return w;
}

static void pass_slice(Model *m, const Batch *slice, size_t first, const Pass *pass) {
#pragma omp parallel num_threads(pass->cached > 0 ? 1 : (int)m->threads)
    {
        const Worker w = worker_make(m, pass, slice, first);
        const Range flat = columns_of(&w, m->tensors.flat);
        done(&w, OP_COUNT, NULL, FORWARD);
        if (pass->zero_gradients && first == 0) memset(m->gradients + flat.begin, 0, range_size(flat) * sizeof(real));
        done(&w, OP_CLEAR, NULL, FORWARD);
        forward(&w);
        if (pass->with_backward) {
            barrier(&w); /* gradients are zero everywhere before anyone adds */
            backward(&w);
        }
    }
}

static void update_score_max(Model *m, size_t sequences) {
    const size_t H = m->shape.attention.H;
    for (size_t layer = 0; layer < m->shape.L; layer++)
        for (size_t pair = 0; pair < sequences * H; pair++) {
            const real largest = m->blocks[layer].saved.pair_max[pair];
            real *max = &m->score_max[layer * H + pair % H];
            if (isnan(largest) || largest > *max) *max = largest;
        }
}

size_t batch_targets(const Batch *batch) {
    size_t count = 0;
    for (size_t r = 0; r < batch->B * batch->T; r++) count += batch->targets[r] >= 0;
    return count;
}

/* The logits of a slice are exp(z - max) by now, and the largest is 1. */
static size_t count_right(const Model *m, const Batch *slice) {
    size_t right = 0;
    for (size_t r = 0; r < slice->B * slice->T; r++)
        right += slice->targets[r] >= 0 && m->logits.values[r * m->shape.V + (size_t)slice->targets[r]] == 1;
    return right;
}

/* Slice by slice, to the first whose loss is not finite: its arrays show where that began. Returns the sum of the
 * losses, in the order of the positions. */
static double pass_batch(Model *m, const Batch *batch, const Pass *pass) {
    const size_t at_most = model_slice(&m->shape, batch->B), slices = (batch->B + at_most - 1) / at_most;
    double sum = 0;
    m->right = 0;
    for (size_t i = 0; (pass->zero_gradients || !pass->with_backward) && i < m->shape.L * m->shape.attention.H; i++)
        m->score_max[i] = -(real)INFINITY;
    for (size_t i = 0; i < slices && isfinite(sum); i++) {
        const Range sequences = range_split(batch->B, 1, i, slices);
        const size_t first = sequences.begin * batch->T;
        const int32_t *targets = batch->targets ? batch->targets + first : NULL;
        const Batch slice = {batch->tokens + first, targets, range_size(sequences), batch->T};
        pass_slice(m, &slice, first, pass);
        update_score_max(m, range_size(sequences));
        for (size_t r = first; targets && r < sequences.end * batch->T; r++) sum += (double)m->losses[r];
        if (targets && !pass->with_backward) m->right += count_right(m, &slice);
    }
    return sum;
}

double model_forward(Model *m, const Batch *batch) { return pass_batch(m, batch, &(Pass){0}); }

void model_forward_cached(Model *m, const int32_t *tokens, size_t T, size_t cached) {
    pass_batch(m, &(Batch){tokens, NULL, 1, T}, &(Pass){.cached = cached});
}

double model_gradients(Model *m, const Batch *batch) {
    return pass_batch(m, batch, &(Pass){.with_backward = true, .zero_gradients = true, .loss_weight = 1});
}

double model_training_forward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step) {
    return pass_batch(m, batch, &(Pass){.training = true, .seed = seed, .micro_step = micro_step});
}

double model_forward_backward(Model *m, const Batch *batch, uint64_t seed, uint64_t micro_step, double batch_weight,
                              bool zero_gradients) {
    const real loss_weight = (real)(batch_weight / (double)batch_targets(batch));
    return pass_batch(m, batch,
                      &(Pass){.training = true,
                              .with_backward = true,
                              .zero_gradients = zero_gradients,
                              .seed = seed,
                              .micro_step = micro_step,
                              .loss_weight = loss_weight});
}

size_t model_find_not_finite(const Model *m) {
    for (size_t i = 0; i < m->shape.L * m->shape.attention.H; i++)
        if (isnan(m->score_max[i])) return i;
    return SIZE_MAX;
}

void model_qk_clip(Model *m, double limit) {
    const size_t H = m->shape.attention.H;
    for (size_t layer = 0; layer < m->shape.L; layer++)
        attention_clip(&m->shape.attention, limit, m->score_max + layer * H,
                       tensor_at(&m->tensors, m->parameters, ATTN_W, layer), m->shape.C,
                       tensor_at(&m->tensors, m->parameters, ATTN_B, layer));
}
