/* The decoder: the operations of a training step in the order of the network, forward and backward. A thread runs
   `forward` and `backward` from end to end on its own rows and meets the others only at barriers. Below them, a batch
   is cut into slices, and each slice is a parallel region of its own. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "model/operations.h"
#include "ops/cross_entropy.h"

/* Waits for the other threads of the shard. Those of all shards wait together, since shards have as many threads each
   and come to the same barriers. */
static void barrier(const Part *p) {
    if (p->count == 1) return;
#pragma omp barrier
    operation_ended(p->m, __func__);
}

/* Attention reads whole sequences. Where threads split them, it waits before and after for the others' rows. */
static void exchange_rows(const Part *p) {
    if (p->splits_sequences) barrier(p);
}

/* The input of a block: the embeddings, or the output of the block before it. There is no block L; what would be its
   input is the last block's output. */
static const Activation *block_input(const Model *m, size_t layer) {
    if (layer == 0) return &m->x;
    return m->shape.pre_norm ? &m->blocks[layer - 1].res_2 : &m->blocks[layer - 1].ln_2.y;
}

/* A block is two sublayers f, attention and the feed-forward network, each with a LayerNorm and a residual connection.
   Pre-norm: y = x + f(LN(x)). The functions have the names that they have in src/plain/plain.c. */
static void pre_norm_forward(const Part *p, const Block *b, const Activation *x) {
    layernorm_forward(p, &b->ln_1, x, LN_1_W);
    linear_forward(p, &b->qkv, &b->ln_1.y, ATTN_W);
    exchange_rows(p);
    attention_forward(p, &b->att);
    exchange_rows(p);
    linear_forward(p, &b->proj_1, &b->att, ATTN_PROJ_W);
    residual_forward(p, &b->res_1, x, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);

    layernorm_forward(p, &b->ln_2, &b->res_1, LN_2_W);
    hidden_forward(p, &b->act, &b->fc, &b->ln_2.y);
    linear_forward(p, &b->proj_2, &b->act, MLP_PROJ_W);
    residual_forward(p, &b->res_2, &b->res_1, &b->proj_2, DROPOUT_MLP_OUTPUT);
}

/* Post-norm: y = LN(x + f(x)). */
static void post_norm_forward(const Part *p, const Block *b, const Activation *x) {
    linear_forward(p, &b->qkv, x, ATTN_W);
    exchange_rows(p);
    attention_forward(p, &b->att);
    exchange_rows(p);
    linear_forward(p, &b->proj_1, &b->att, ATTN_PROJ_W);
    residual_forward(p, &b->res_1, x, &b->proj_1, DROPOUT_ATTENTION_OUTPUT);
    layernorm_forward(p, &b->ln_1, &b->res_1, LN_1_W);

    hidden_forward(p, &b->act, &b->fc, &b->ln_1.y);
    linear_forward(p, &b->proj_2, &b->act, MLP_PROJ_W);
    residual_forward(p, &b->res_2, &b->ln_1.y, &b->proj_2, DROPOUT_MLP_OUTPUT);
    layernorm_forward(p, &b->ln_2, &b->res_2, LN_2_W);
}

/* The inputs of four operations of a block, named by their outputs. They differ between pre-norm and post-norm. */
typedef struct {
    const Activation *ln_1, *qkv, *ln_2, *fc;
} BlockInputs;

/* The gradients of weights, once all rows have the gradients of activations; the most recently used come first. */
static void block_backward_weights(const Part *p, const Block *b, const BlockInputs *inputs) {
    barrier(p);
    linear_backward_weight(p, inputs->qkv, &b->qkv, ATTN_W);
    attention_parameters_backward(p, &b->att);
    linear_backward_weight(p, &b->att, &b->proj_1, ATTN_PROJ_W);
    linear_backward_weight(p, inputs->fc, &b->fc, FC_W);
    linear_backward_weight(p, &b->act, &b->proj_2, MLP_PROJ_W);
    layernorm_backward_weight(p, inputs->ln_1, &b->ln_1, LN_1_W);
    layernorm_backward_weight(p, inputs->ln_2, &b->ln_2, LN_2_W);
    barrier(p); /* the next block overwrites the gradients that were read here */
}

/* The lines of pre_norm_forward from the last to the first: from the gradient of the block's output to that of x. */
static void pre_norm_backward(const Part *p, const Block *b, const Activation *x) {
    dropout_backward(p, &b->proj_2, &b->res_2, DROPOUT_MLP_OUTPUT);
    hidden_backward(p, &b->fc, &b->proj_2);
    linear_backward_input(p, &b->ln_2.y, &b->fc, FC_W);
    layernorm_backward_input(p, &b->res_1, &b->ln_2, LN_2_W, &b->res_2);

    dropout_backward(p, &b->proj_1, &b->res_1, DROPOUT_ATTENTION_OUTPUT);
    linear_backward_input(p, &b->att, &b->proj_1, ATTN_PROJ_W);
    exchange_rows(p);
    attention_backward(p, &b->att);
    exchange_rows(p);
    attention_measure(p, &b->att);
    linear_backward_input(p, &b->ln_1.y, &b->qkv, ATTN_W);
    layernorm_backward_input(p, x, &b->ln_1, LN_1_W, &b->res_1);

    const BlockInputs inputs = {.ln_1 = x, .qkv = &b->ln_1.y, .ln_2 = &b->res_1, .fc = &b->ln_2.y};
    block_backward_weights(p, b, &inputs);
}

/* The lines of post_norm_forward from the last to the first. */
static void post_norm_backward(const Part *p, const Block *b, const Activation *x) {
    layernorm_backward_input(p, &b->res_2, &b->ln_2, LN_2_W, NULL);
    dropout_backward(p, &b->proj_2, &b->res_2, DROPOUT_MLP_OUTPUT);
    hidden_backward(p, &b->fc, &b->proj_2);
    linear_backward_input(p, &b->ln_1.y, &b->fc, FC_W);
    residual_backward(p, &b->ln_1.y, &b->res_2);

    layernorm_backward_input(p, &b->res_1, &b->ln_1, LN_1_W, NULL);
    dropout_backward(p, &b->proj_1, &b->res_1, DROPOUT_ATTENTION_OUTPUT);
    linear_backward_input(p, &b->att, &b->proj_1, ATTN_PROJ_W);
    exchange_rows(p);
    attention_backward(p, &b->att);
    exchange_rows(p);
    attention_measure(p, &b->att);
    linear_backward_input(p, x, &b->qkv, ATTN_W);
    residual_backward(p, x, &b->res_1);

    const BlockInputs inputs = {.qkv = x, .ln_1 = &b->res_1, .fc = &b->ln_1.y, .ln_2 = &b->res_2};
    block_backward_weights(p, b, &inputs);
}

static const Activation *final_output(const Model *m) {
    return m->shape.pre_norm ? &m->ln_f.y : block_input(m, m->shape.L);
}

static void forward(const Part *p) {
    const Model *m = p->m;
    operations_begin(m);
    embedding_forward(p, &m->x);
    for (size_t l = 0; l < m->shape.L; l++)
        (m->shape.pre_norm ? pre_norm_forward : post_norm_forward)(p, &m->blocks[l], block_input(m, l));
    if (m->shape.pre_norm) layernorm_forward(p, &m->ln_f, block_input(m, m->shape.L), LN_F_W);
    logits_forward(p, final_output(m));
    cross_entropy_forward(p);
}

/* Starts the shard's gradients at zero, except for the weights of linear layers in blocks, which the first product
   overwrites. */
static void zero_gradients(const Part *p) {
    const TensorTable *table = &p->m->tensors;
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const size_t begin = t->offset + (t->blocks->is_matrix ? t->count : 0);
        const size_t end = i + 1 < table->count ? t[1].offset : table->flat; /* with the gap behind the tensor */
        const Range own = columns_of(p, end - begin, false);
        memset(p->gradients + begin + own.begin, 0, range_size(own) * sizeof(real));
    }
    operation_ended(p->m, __func__);
}

static void backward(const Part *p) {
    const Model *m = p->m;
    const Activation *last = block_input(m, m->shape.L), *final = final_output(m);
    if (is_first_slice(p)) zero_gradients(p);
    barrier(p); /* all gradients are zero before any thread adds to them */
    cross_entropy_backward(p);
    logits_backward_input(p, final);
    if (m->shape.pre_norm) layernorm_backward_input(p, last, &m->ln_f, LN_F_W, NULL);
    barrier(p);
    logits_backward_weight(p, final);
    if (m->shape.pre_norm) layernorm_backward_weight(p, last, &m->ln_f, LN_F_W);
    barrier(p);
    for (size_t l = m->shape.L; l-- > 0;)
        (m->shape.pre_norm ? pre_norm_backward : post_norm_backward)(p, &m->blocks[l], block_input(m, l));
    dropout_backward(p, &m->x, &m->x, DROPOUT_EMBEDDING);
    barrier(p);
    embedding_backward(p, &m->x);
}

/* Returns the sequences of a shard that a slice has at most. As many shards as may be computed at the same time fit
   into the arrays. The number of threads does not count, because the size determines the order of sums. */
static size_t shard_slice_size(const ModelShape *shape, size_t batch_shards) {
    const size_t all = model_slice_size(shape, 0);
    const size_t shards = batch_shards < SHARDS_AT_ONCE_MAX ? batch_shards : SHARDS_AT_ONCE_MAX;
    return all < shards ? 1 : all / shards;
}

size_t model_shards_at_once(const Model *m, size_t batch_shards) {
    const size_t size = shard_slice_size(&m->shape, batch_shards), most = model_slice_size(&m->shape, 0);
    size_t count = 1;
    while (2 * count <= SHARDS_AT_ONCE_MAX && m->threads % (2 * count) == 0 && 2 * count * size <= most) count *= 2;
    return count;
}

Range pass_sequences(const Batch *batch, const Pass *pass) {
    const size_t in_shard = batch->B / (pass->batch_shards ? pass->batch_shards : 1);
    return pass->batch_shards ? (Range){pass->shards.begin * in_shard, pass->shards.end * in_shard}
                              : (Range){0, in_shard};
}

static Range moved(Range range, size_t by) { return (Range){range.begin + by, range.end + by}; }

/* Returns a thread's part of a slice, which has `in_slice` sequences of each shard: p, which has the fields of the
   slice, with those of the thread. `shard` is one of the pass's, counted from its first; in the arrays one shard's
   sequences follow the other's. Each of the shard's `count` threads takes whole sequences. If one of them would then
   have over an eighth more than its share, each takes rows instead. After cached positions, one thread takes all rows,
   because they are too few to share. */
static Part part_of(Part p, size_t shard, size_t id, size_t count) {
    const size_t T = p.batch->T, H = p.m->shape.attention.H, in_slice = range_size(p.sequences),
                 cached = p.pass->cached;
    const Range sequences = range_split(in_slice, 1, id, count);
    const size_t in_shard = p.batch->B / p.pass->batch_shards, row = shard * in_slice * T;
    p.id = id;
    p.count = count;
    p.gradients = p.pass->gradients[shard];
    p.batch_row = ((p.pass->shards.begin + shard) * in_shard + p.sequences.begin) * T - row;
    p.shard_rows = (Range){row, row + in_slice * T};
    p.splits_sequences = 8 * count * range_size(range_split(in_slice, 1, 0, count)) > 9 * in_slice;
    p.rows = (Range){sequences.begin * T, sequences.end * T - cached};
    p.pairs = (Range){sequences.begin * H, sequences.end * H};
    if (p.splits_sequences) {
        p.rows = range_split(in_slice * T - cached, 1, id, count);
        p.pairs = range_split(in_slice * H, 1, id, count);
    }
    p.rows = moved(p.rows, row + cached);
    p.pairs = moved(p.pairs, shard * in_slice * H);
    return p;
}

static void pack_in_parallel(Model *m) {
#pragma omp parallel num_threads((int)m->threads)
    {
        const Part p = {.m = m, .id = (size_t)omp_get_thread_num(), .count = (size_t)omp_get_num_threads()};
        operations_begin(m);
        pack_weights(&p);
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

/* Adds the losses of a shard's rows in the slice, in the order of the positions, and counts its correct predictions. */
static void add_losses(Model *m, const Part *p, double *sum) {
    const size_t first = p->batch_row + p->shard_rows.begin, rows = range_size(p->shard_rows);
    for (size_t r = first; r < first + rows; r++) *sum += (double)m->losses[r];
    if (!p->pass->with_backward)
        m->correct += cross_entropy_correct(m->logits.values + p->shard_rows.begin * m->shape.V,
                                            p->batch->targets + first, rows, m->shape.V);
}

/* Runs slice after slice, and stops after the first whose loss is not finite, since its arrays show the cause. The
   threads are divided evenly among the shards. If they cannot be, each thread takes one whole shard after another. */
double model_pass(Model *m, const Batch *batch, const Pass *pass) {
    Pass own = *pass;
    if (own.batch_shards == 0) {
        own.batch_shards = own.shards.end = 1;
        own.gradients = &m->gradients;
        if (pass->zero_gradients || !pass->with_backward) model_forget_scores(m);
    }
    const size_t shards = range_size(own.shards), in_shard = batch->B / own.batch_shards;
    const size_t size = shard_slice_size(&m->shape, own.batch_shards), slices = (in_shard + size - 1) / size;
    double losses[SHARDS_AT_ONCE_MAX] = {0}, sum = 0;
    Part slice = {.m = m, .batch = batch, .pass = &own};
    m->targets = batch_targets(batch);
    m->correct = 0;
    if (pass->with_backward) slice.loss_weight = (real)(pass->batch_weight / (double)m->targets);
    if (!pass->same_parameters) pack_in_parallel(m);
    for (size_t i = 0; i < slices && isfinite(sum); i++) {
        slice.sequences = range_split(in_shard, 1, i, slices);
#pragma omp parallel num_threads(pass->cached > 0 ? 1 : (int)m->threads)
        {
            const size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
            const size_t count = threads % shards == 0 ? threads / shards : 1;
            /* one turn, unless each thread takes whole shards */
            for (size_t shard = thread / count; shard < shards; shard += threads) {
                const Part p = part_of(slice, shard, thread % count, count);
                forward(&p);
                if (pass->with_backward) backward(&p);
            }
        }
        update_score_max(m, shards * range_size(slice.sequences));
        sum = 0;
        for (size_t shard = 0; shard < shards && batch->targets; shard++) {
            const Part whole = part_of(slice, shard, 0, 1);
            add_losses(m, &whole, &losses[shard]);
            sum += losses[shard];
        }
    }
    for (size_t shard = 0; shard < shards && pass->losses; shard++) pass->losses[shard] += losses[shard];
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
