#include "train/swap_qk.h"

#include "base/interrupt.h"
#include "model/probe.h"

/* In the order of the columns. The last two are the trained model with the initial weights of queries and keys, and the
   initial model with the trained ones. */
enum { INITIAL, TRAINED, TRAINED_WITH_INITIAL_QK, INITIAL_WITH_TRAINED_QK, MODELS };

typedef struct {
    Arena arena;
    real *initial;                 /* parameters */
    int32_t *tokens;               /* the batch of attention.csv */
    int32_t *targets;              /* not used, but validation_batch fills them */
    double *qk_norms[2];           /* (L, H) each: INITIAL, TRAINED */
    HeadStatistics *heads[MODELS]; /* (L, H) each */
} Measurement;

void swap_qk(const TensorTable *table, real *a, real *b) {
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        if (t->role != ATTN_W && t->role != ATTN_B) continue;
        for (size_t j = t->offset; j < t->offset + t->count; j++) {
            if ((j - t->offset) % t->width >= t->blocks[VALUE].begin) continue; /* q, k, v are in this order */
            const real kept = a[j];
            a[j] = b[j];
            b[j] = kept;
        }
    }
}

static void lay_out(Measurement *s, const Model *m, size_t B) {
    const size_t heads = size_mul(m->shape.L, m->shape.attention.H), tokens = size_mul(B, m->shape.T);
    s->initial = arena_take(&s->arena, m->tensors.flat, sizeof *s->initial);
    s->tokens = arena_take(&s->arena, tokens, sizeof *s->tokens);
    s->targets = arena_take(&s->arena, tokens, sizeof *s->targets);
    for (size_t i = 0; i < 2; i++) s->qk_norms[i] = arena_take(&s->arena, heads, sizeof *s->qk_norms[i]);
    for (size_t i = 0; i < MODELS; i++) s->heads[i] = arena_take(&s->arena, heads, sizeof *s->heads[i]);
}

/* All four models take their turn in `m`; false when a signal came before the last of them. */
static bool measure(Measurement *s, Model *m, size_t B) {
    real *const trained = m->parameters;
    bool complete = true;
    for (int i = 0; i < MODELS && complete; i++) {
        const bool swapped = i >= TRAINED_WITH_INITIAL_QK;
        if (swapped) swap_qk(&m->tensors, s->initial, trained);
        m->parameters = i == TRAINED || i == TRAINED_WITH_INITIAL_QK ? trained : s->initial;
        model_forward(m, &(Batch){s->tokens, NULL, B, m->shape.T});
        probe_statistics(m, B, m->shape.T, s->heads[i]);
        if (!swapped) probe_qk_norms(m, s->qk_norms[i]);
        if (swapped) swap_qk(&m->tensors, s->initial, trained);
        complete = i + 1 == MODELS || !interrupt_signal();
    }
    m->parameters = trained;
    return complete;
}

static void write_rows(const Measurement *s, size_t L, size_t H, FILE *out) {
    fputs("layer,head,qk_norm_initial,qk_norm_trained,score_std_initial,score_std_trained,score_std_initial_qk,"
          "score_std_trained_qk\n",
          out);
    for (size_t i = 0; i < L * H; i++) {
        fprintf(out, "%zu,%zu,%.6g,%.6g", i / H, i % H, s->qk_norms[INITIAL][i], s->qk_norms[TRAINED][i]);
        for (size_t model = 0; model < MODELS; model++) fprintf(out, ",%.6g", s->heads[model][i].score_std);
        fputc('\n', out);
    }
}

bool swap_qk_measure(const Run *run, Model *m, FILE *out, bool *complete, Error *err) {
    const ModelShape *shape = &m->shape;
    const size_t most = model_slice(shape, m->max_batch);
    Measurement s = {0};
    lay_out(&s, m, most);
    if (!arena_allocate(&s.arena, "the initial parameters", err)) return false;
    lay_out(&s, m, most);
    const size_t B = validation_batch(&run->corpus, most, shape->T, s.tokens, s.targets);
    tensors_initialize(&m->tensors, shape, (Init)run->config.model.init, (uint64_t)run->config.train.seed, m->threads,
                       s.initial);
    *complete = measure(&s, m, B);
    if (*complete) write_rows(&s, shape->L, shape->attention.H, out);
    arena_free(&s.arena);
    return true;
}
