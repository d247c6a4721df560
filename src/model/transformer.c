/* The decoder: the operations of a training step in the order of the network, forward and backward. A thread runs
   `forward` and `backward` from end to end on its own rows and meets the others only at barriers. Below them, a batch
   is cut into slices, and each slice is a parallel region of its own. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "model/worker.h"
#include "ops/cross_entropy.h"

/* The input of a block: the embeddings, or the output of the block before it. There is no block L; what would be its
   input is the last block's output. */
static const Activation *block_input(const Model *m, size_t layer) {
    if (layer == 0) return &m->x;
    return m->shape.pre_norm ? &m->blocks[layer - 1].res_2 : &m->blocks[layer - 1].ln_2.y;
}

/* A block is two sublayers f, attention and the feed-forward network, each with a LayerNorm and a residual connection.
   Pre-norm: y = x + f(LN(x)). The functions have the names that they have in src/plain/plain.c. */
static void pre_norm_forward(const Worker *w, const Block *b, const Activation *x) {
    op_layernorm_forward(w, &b->ln_1, x, LN_1_W);
    op_linear_forward(w, &b->qkv, &b->ln_1.y, ATTN_W);
    op_attention_forward(w, &b->att);
    op_linear_forward(w, &b->proj_1, &b->att, ATTN_PROJ_W);
    op_residual_forward(w, &b->res_1, x, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);

    op_layernorm_forward(w, &b->ln_2, &b->res_1, LN_2_W);
    op_hidden_forward(w, &b->act, &b->fc, &b->ln_2.y);
    op_linear_forward(w, &b->proj_2, &b->act, MLP_PROJ_W);
    op_residual_forward(w, &b->res_2, &b->res_1, &b->proj_2, DROPOUT_MLP_OUTPUT);
}

/* Post-norm: y = LN(x + f(x)). */
static void post_norm_forward(const Worker *w, const Block *b, const Activation *x) {
    op_linear_forward(w, &b->qkv, x, ATTN_W);
    op_attention_forward(w, &b->att);
    op_linear_forward(w, &b->proj_1, &b->att, ATTN_PROJ_W);
    op_residual_forward(w, &b->res_1, x, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);
    op_layernorm_forward(w, &b->ln_1, &b->res_1, LN_1_W);

    op_hidden_forward(w, &b->act, &b->fc, &b->ln_1.y);
    op_linear_forward(w, &b->proj_2, &b->act, MLP_PROJ_W);
    op_residual_forward(w, &b->res_2, &b->ln_1.y, &b->proj_2, DROPOUT_MLP_OUTPUT);
    op_layernorm_forward(w, &b->ln_2, &b->res_2, LN_2_W);
}

static void block_forward(const Worker *w, size_t layer) {
    (w->m->shape.pre_norm ? pre_norm_forward : post_norm_forward)(w, &w->m->blocks[layer], block_input(w->m, layer));
}

/* The inputs of four operations of a block, named by their outputs. They differ between pre-norm and post-norm. */
typedef struct {
    const Activation *ln_1, *qkv, *ln_2, *fc;
} BlockInputs;

/* The gradients of weights, once those of activations are complete in all rows; the most recently used come first. */
static void block_backward_weights(const Worker *w, const Block *b, const BlockInputs *inputs) {
    barrier(w);
    op_linear_backward_weight(w, inputs->qkv, &b->qkv, ATTN_W);
    op_attention_parameters_backward(w, &b->att);
    op_linear_backward_weight(w, &b->att, &b->proj_1, ATTN_PROJ_W);
    op_linear_backward_weight(w, inputs->fc, &b->fc, FC_W);
    op_linear_backward_weight(w, &b->act, &b->proj_2, MLP_PROJ_W);
    op_layernorm_backward_weight(w, inputs->ln_1, &b->ln_1, LN_1_W);
    op_layernorm_backward_weight(w, inputs->ln_2, &b->ln_2, LN_2_W);
    barrier(w); /* the next block overwrites the gradients that were read here */
}

/* The lines of pre_norm_forward from the last to the first, from the gradient of the block's output to that of x. */
static void pre_norm_backward(const Worker *w, const Block *b, const Activation *x) {
    op_residual_backward(w, &b->res_2, &b->proj_2, DROPOUT_MLP_OUTPUT);
    op_hidden_backward(w, &b->fc, &b->act, &b->proj_2);
    op_linear_backward_input(w, &b->ln_2.y, &b->fc, FC_W, NULL);
    op_layernorm_backward_input(w, &b->res_1, &b->ln_2, LN_2_W, &b->res_2);

    op_residual_backward(w, &b->res_1, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);
    op_linear_backward_input(w, &b->att, &b->proj_1, ATTN_PROJ_W, NULL);
    op_attention_backward(w, &b->qkv, &b->att);
    op_linear_backward_input(w, &b->ln_1.y, &b->qkv, ATTN_W, NULL);
    op_layernorm_backward_input(w, x, &b->ln_1, LN_1_W, &b->res_1);

    const BlockInputs inputs = {.ln_1 = x, .qkv = &b->ln_1.y, .ln_2 = &b->res_1, .fc = &b->ln_2.y};
    block_backward_weights(w, b, &inputs);
}

/* The lines of post_norm_forward from the last to the first. */
static void post_norm_backward(const Worker *w, const Block *b, const Activation *x) {
    op_layernorm_backward_input(w, &b->res_2, &b->ln_2, LN_2_W, NULL);
    op_residual_backward(w, &b->res_2, &b->proj_2, DROPOUT_MLP_OUTPUT);
    op_hidden_backward(w, &b->fc, &b->act, &b->proj_2);
    op_linear_backward_input(w, &b->ln_1.y, &b->fc, FC_W, &b->res_2);

    op_layernorm_backward_input(w, &b->res_1, &b->ln_1, LN_1_W, NULL);
    op_residual_backward(w, &b->res_1, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);
    op_linear_backward_input(w, &b->att, &b->proj_1, ATTN_PROJ_W, NULL);
    op_attention_backward(w, &b->qkv, &b->att);
    op_linear_backward_input(w, x, &b->qkv, ATTN_W, &b->res_1);

    const BlockInputs inputs = {.qkv = x, .ln_1 = &b->res_1, .fc = &b->ln_1.y, .ln_2 = &b->res_2};
    block_backward_weights(w, b, &inputs);
}

static void block_backward(const Worker *w, size_t layer) {
    (w->m->shape.pre_norm ? pre_norm_backward : post_norm_backward)(w, &w->m->blocks[layer], block_input(w->m, layer));
}

static const Activation *final_output(const Model *m) {
    return m->shape.pre_norm ? &m->ln_f.y : block_input(m, m->shape.L);
}

static void forward(const Worker *w) {
    const Model *m = w->m;
    op_embedding_forward(w, &m->x);
    for (size_t layer = 0; layer < m->shape.L; layer++) block_forward(w, layer);
    if (m->shape.pre_norm) op_layernorm_forward(w, &m->ln_f, block_input(m, m->shape.L), LN_F_W);
    op_unembedding_forward(w, final_output(m));
    op_cross_entropy_forward(w);
}

static void backward(const Worker *w) {
    const Model *m = w->m;
    const Activation *last = block_input(m, m->shape.L), *final = final_output(m);
    op_cross_entropy_backward(w);
    op_unembedding_backward_input(w, final);
    if (m->shape.pre_norm) op_layernorm_backward_input(w, last, &m->ln_f, LN_F_W, NULL);
    barrier(w);
    op_unembedding_backward_weight(w, final);
    if (m->shape.pre_norm) op_layernorm_backward_weight(w, last, &m->ln_f, LN_F_W);
    barrier(w);
    for (size_t layer = m->shape.L; layer-- > 0;) block_backward(w, layer);
    op_embedding_backward(w, &m->x);
}

/* A slice: the sequences `part` of each shard. In the arrays one shard's sequences follow the other's. */
typedef struct {
    const Batch *batch;
    const Pass *pass;
    size_t first;     /* the batch's first sequence that takes part */
    size_t B, shards; /* sequences of a shard, and the number of shards */
    Range part;       /* of 0 .. B - 1 */
} Slice;

/* The first row of a shard's part of the slice: in the batch, and in the arrays. */
static size_t batch_row(const Slice *s, size_t shard) {
    return (s->first + shard * s->B + s->part.begin) * s->batch->T;
}
static size_t array_row(const Slice *s, size_t shard) { return shard * range_size(s->part) * s->batch->T; }

static Range moved(Range range, size_t by) { return (Range){range.begin + by, range.end + by}; }

/* Each thread of a team takes whole sequences. If one thread would then have over an eighth more than its share, each
   takes rows instead. After cached positions, one thread takes all rows, because they are too few to share. */
static Worker worker_make(Model *m, const Slice *s, size_t shard, size_t id, size_t count, real loss_weight) {
    const Pass *pass = s->pass;
    const size_t B = range_size(s->part), T = s->batch->T, H = m->shape.attention.H;
    const size_t row = array_row(s, shard), shift = batch_row(s, shard) - row;
    const Range sequences = range_split(B, 1, id, count);
    const bool splits = 8 * count * range_size(range_split(B, 1, 0, count)) > 9 * B;
    const Range rows = splits ? range_split(B * T - pass->cached, 1, id, count)
                              : (Range){sequences.begin * T, sequences.end * T - pass->cached};
    const Range pairs = splits ? range_split(B * H, 1, id, count) : (Range){sequences.begin * H, sequences.end * H};
    return (Worker){.m = m,
                    .pass = pass,
                    .tokens = s->batch->tokens + shift,
                    .targets = s->batch->targets ? s->batch->targets + shift : NULL,
                    .T = T,
                    .loss_weight = loss_weight,
                    .thread = (size_t)omp_get_thread_num(),
                    .id = id,
                    .count = count,
                    .gradients = pass->gradients ? pass->gradients[shard] : m->gradients,
                    .begins = pass->zero_gradients && s->part.begin == 0,
                    .batch_row = shift,
                    .team_rows = {row, row + B * T},
                    .rows = moved(rows, row + pass->cached),
                    .pairs = moved(pairs, shard * B * H),
                    .splits_sequences = splits};
}

/* Starts the team's gradients at zero, except those of the weights of linear layers in blocks, which the first product
   overwrites. */
static void zero_gradients(const Worker *w) {
    const TensorTable *table = &w->m->tensors;
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const size_t begin = t->offset + (t->blocks->is_matrix ? t->count : 0);
        const size_t end = i + 1 < table->count ? t[1].offset : table->flat; /* with the gap behind the tensor */
        const Range own = columns_of(w, end - begin);
        memset(w->gradients + begin + own.begin, 0, range_size(own) * sizeof(real));
    }
}

static void pass_shard(const Worker *w) {
    start_clock(w);
    if (w->begins) zero_gradients(w);
    end_operation(w, OP_CLEAR);
    forward(w);
    if (!w->pass->with_backward) return;
    barrier(w); /* all gradients are zero before any thread adds to them */
    backward(w);
}

/* Each shard has a team of threads, all of the same size. If the threads cannot be divided among the shards, each
   thread is a team of its own and takes one shard after another. */
static void pass_slice(Model *m, const Slice *s, real loss_weight) {
#pragma omp parallel num_threads(s->pass->cached > 0 ? 1 : (int)m->threads)
    {
        const size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
        const size_t count = threads % s->shards == 0 ? threads / s->shards : 1;
        for (size_t shard = thread / count; shard < s->shards; shard += threads) {
            const Worker w = worker_make(m, s, shard, thread % count, count, loss_weight);
            pass_shard(&w);
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

/* Runs slice after slice, and stops after the first whose loss is not finite, since its arrays show the cause. Sums
   the losses of a shard in the order of the positions. */
double model_pass(Model *m, const Batch *batch, const Pass *pass) {
    const Range all = range_size(pass->sequences) ? pass->sequences : (Range){0, batch->B};
    Slice s = {.batch = batch, .pass = pass, .first = all.begin, .shards = pass->shards ? pass->shards : 1};
    s.B = range_size(all) / s.shards;
    const size_t at_most = pass->slice ? pass->slice : model_slice(&m->shape, s.B);
    const size_t slices = (s.B + at_most - 1) / at_most;
    const real loss_weight = pass->with_backward ? (real)(pass->batch_weight / (double)batch_targets(batch)) : 0;
    double sum = 0;
    m->correct = 0;
    const bool resets_score_max = (pass->zero_gradients && !pass->keep_score_max) || !pass->with_backward;
    for (size_t i = 0; resets_score_max && i < m->shape.L * m->shape.attention.H; i++)
        m->score_max[i] = -(real)INFINITY;
    for (size_t i = 0; i < slices && isfinite(sum); i++) {
        s.part = range_split(s.B, 1, i, slices);
        pass_slice(m, &s, loss_weight);
        update_score_max(m, s.shards * range_size(s.part));
        for (size_t shard = 0; shard < s.shards && batch->targets; shard++) {
            const size_t first = batch_row(&s, shard), rows = range_size(s.part) * batch->T;
            for (size_t r = first; r < first + rows; r++) sum += (double)m->losses[r];
            if (!pass->with_backward)
                m->correct += cross_entropy_correct(m->logits.values + array_row(&s, shard) * m->shape.V,
                                                    batch->targets + first, rows, m->shape.V);
        }
    }
    return sum;
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
