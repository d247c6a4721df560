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
    op_hidden_backward(w, &b->fc, &b->proj_2);
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
    op_hidden_backward(w, &b->fc, &b->proj_2);
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

/* The first row of a shard's sequences of the slice: in the batch, and in the arrays. In the arrays one shard's
   sequences follow the other's. */
static size_t batch_row(const Slice *s, size_t shard) {
    return (s->division->sequences.begin + shard * s->B + s->sequences.begin) * s->batch->T;
}
static size_t array_row(const Slice *s, size_t shard) { return shard * range_size(s->sequences) * s->batch->T; }

static Range moved(Range range, size_t by) { return (Range){range.begin + by, range.end + by}; }

/* Each of `count` threads of a shard takes whole sequences. If one of them would then have over an eighth more than its
   share, each takes rows instead. After cached positions, one thread takes all rows, because they are too few to share.
   */
static Worker worker_make(Model *m, const Slice *s, size_t shard, size_t id, size_t count) {
    const size_t B = range_size(s->sequences), T = s->batch->T, H = m->shape.attention.H, cached = s->pass->cached;
    const size_t row = array_row(s, shard);
    const Range sequences = range_split(B, 1, id, count);
    const bool splits = 8 * count * range_size(range_split(B, 1, 0, count)) > 9 * B;
    const Range rows =
        splits ? range_split(B * T - cached, 1, id, count) : (Range){sequences.begin * T, sequences.end * T - cached};
    const Range pairs = splits ? range_split(B * H, 1, id, count) : (Range){sequences.begin * H, sequences.end * H};
    return (Worker){.m = m,
                    .slice = s,
                    .id = id,
                    .count = count,
                    .gradients = s->division->gradients[shard],
                    .batch_row = batch_row(s, shard) - row,
                    .shard_rows = {row, row + B * T},
                    .rows = moved(rows, row + cached),
                    .pairs = moved(pairs, shard * B * H),
                    .splits_sequences = splits};
}

/* Starts the shard's gradients at zero, except those of the weights of linear layers in blocks, which the first product
   overwrites. */
static void zero_gradients(const Worker *w) {
    const TensorTable *table = &w->m->tensors;
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const size_t begin = t->offset + (t->blocks->is_matrix ? t->count : 0);
        const size_t end = i + 1 < table->count ? t[1].offset : table->flat; /* with the gap behind the tensor */
        const Range own = columns_of(w, end - begin, false);
        memset(w->gradients + begin + own.begin, 0, range_size(own) * sizeof(real));
    }
}

static void pass_shard(const Worker *w) {
    start_clock(w);
    if (begins(w)) zero_gradients(w);
    end_operation(w, OP_CLEAR);
    forward(w);
    if (!w->slice->pass->with_backward) return;
    barrier(w); /* all gradients are zero before any thread adds to them */
    backward(w);
}

/* The threads are divided evenly among the shards. If they cannot be, each thread takes one whole shard after another.
 */
static void pass_slice(Model *m, const Slice *s) {
    const size_t shards = s->division->shards;
#pragma omp parallel num_threads(s->pass->cached > 0 ? 1 : (int)m->threads)
    {
        const size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
        const size_t count = threads % shards == 0 ? threads / shards : 1;
        for (size_t shard = thread / count; shard < shards; shard += threads) {
            const Worker w = worker_make(m, s, shard, thread % count, count);
            pass_shard(&w);
        }
    }
}

static void pack_weights(Model *m) {
#pragma omp parallel num_threads((int)m->threads)
    {
        const Worker w = {.m = m, .id = (size_t)omp_get_thread_num(), .count = (size_t)omp_get_num_threads()};
        start_clock(&w);
        op_pack_weights(&w);
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
    for (size_t r = 0; r < batch->B * batch->T && batch->targets; r++) count += batch->targets[r] >= 0;
    return count;
}

void model_forget_scores(Model *m) {
    for (size_t i = 0; i < m->shape.L * m->shape.attention.H; i++) m->score_max[i] = -(real)INFINITY;
}

/* Runs slice after slice, and stops after the first whose loss is not finite, since its arrays show the cause. Sums
   the losses of a shard in the order of the positions. */
double model_pass(Model *m, const Batch *batch, const Pass *pass) {
    const Division whole = {{0, batch->B}, 1, model_slice_size(&m->shape, batch->B), &m->gradients};
    const Division *d = pass->division ? pass->division : &whole;
    Slice s = {.batch = batch, .pass = pass, .division = d, .B = range_size(d->sequences) / d->shards};
    const size_t slices = (s.B + d->slice_size - 1) / d->slice_size;
    double sum = 0;
    m->targets = batch_targets(batch);
    s.loss_weight = pass->with_backward ? (real)(pass->batch_weight / (double)m->targets) : 0;
    m->correct = 0;
    if (d == &whole && (pass->zero_gradients || !pass->with_backward)) model_forget_scores(m);
    if (!pass->same_parameters) pack_weights(m);
    for (size_t i = 0; i < slices && isfinite(sum); i++) {
        s.sequences = range_split(s.B, 1, i, slices);
        pass_slice(m, &s);
        update_score_max(m, d->shards * range_size(s.sequences));
        for (size_t shard = 0; shard < d->shards && batch->targets; shard++) {
            const size_t first = batch_row(&s, shard), rows = range_size(s.sequences) * batch->T;
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
