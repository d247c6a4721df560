/* Losses of n-gram tables. An n-gram is a context (n-1 characters) and the character that follows it. Each different
   n-gram of the training split has a number. An n-gram is also a context of the next order, under the same number. So a
   key of two numbers (context, character) stands for an n-gram of any order and any vocabulary, and each order needs
   only one hash table. Each order reads the splits once. Each character of the validation split has the estimate of the
   order before, and the table of the next order refines it. */
#include "data/ngrams.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

/* The number of a context that the training split does not have, or that the beginning of a split cuts off. */
#define NEVER UINT32_MAX

typedef struct {
    uint64_t key;
    uint32_t count;  /* of its occurrences; 0: an empty slot */
    uint32_t number; /* n-grams are numbered from 0 in the order of their first occurrences */
} Ngram;

/* The characters that follow a context: their count, N(h), and how many are different, T(h). */
typedef struct {
    uint32_t count, different;
} Continuations;

/* The n-grams of one order: a hash table with linear probing, which is at most half full. */
typedef struct {
    Ngram *slots;    /* (capacity) */
    size_t capacity; /* a power of two */
    size_t used;
    Continuations *continuations; /* by the number of the context */
} Table;

static uint64_t key_of(uint32_t context, int32_t character, size_t V) {
    return (uint64_t)context * V + (uint64_t)character;
}

/* Returns the slot of an n-gram, an empty one if the table does not have it. */
static Ngram *find(const Table *t, uint64_t key) {
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (t->capacity - 1);
    while (t->slots[at].count && t->slots[at].key != key) at = (at + 1) & (t->capacity - 1);
    return &t->slots[at];
}

static const char THE_TABLES[] = "the tables of n-grams";

static void resize(Table *t, size_t capacity) {
    Table larger = *t;
    larger.capacity = capacity;
    larger.slots = memory_make(capacity, sizeof *larger.slots, THE_TABLES);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i].count) *find(&larger, t->slots[i].key) = t->slots[i];
    memory_free(t->slots);
    *t = larger;
}

/* Counts the n-grams of a text, given the number of each character's context. Then replaces this number by the number
   of the n-gram before the character: its context of the next order. */
static void count_ngrams(Table *t, const int32_t *ids, uint32_t *contexts, size_t count, size_t V) {
    uint32_t last = NEVER;
    for (size_t i = 0; i < count; i++) {
        const uint32_t context = contexts[i];
        contexts[i] = last;
        last = NEVER;
        if (context == NEVER) continue;
        if (2 * t->used >= t->capacity) resize(t, 2 * t->capacity);
        Ngram *ngram = find(t, key_of(context, ids[i], V));
        if (ngram->count == 0) {
            *ngram = (Ngram){.key = key_of(context, ids[i], V), .number = (uint32_t)t->used++};
            t->continuations[context].different++;
        }
        ngram->count++;
        t->continuations[context].count++;
        last = ngram->number;
    }
}

/* Turns the estimates p_{n-1} into p_n, and the contexts into the next order's. Returns the mean of -ln p_n over
   all characters but the first. */
static double apply(const Table *t, const int32_t *ids, uint32_t *contexts, double *p, size_t count, size_t V) {
    uint32_t last = NEVER;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t context = contexts[i];
        contexts[i] = last;
        last = NEVER;
        if (context != NEVER) {
            const Ngram *ngram = find(t, key_of(context, ids[i], V));
            const double N = t->continuations[context].count, T = t->continuations[context].different;
            if (N > 0) p[i] = (ngram->count + T * p[i]) / (N + T);
            if (ngram->count) last = ngram->number;
        }
        if (i > 0) sum -= log(p[i]);
    }
    return sum / ((double)count - 1);
}

void ngram_losses(const int32_t *training, size_t training_count, const int32_t *validation, size_t validation_count,
                  size_t V, double losses[NGRAM_ORDERS]) {
    const size_t count = size_add(training_count, validation_count), mark = memory_mark();
    if (count >= NEVER) usage_error("a text of %zu characters is too long for tables of n-grams", count);
    /* In order 1 all contexts are the empty one, number 0. */
    uint32_t *contexts = memory_make(count, sizeof *contexts, THE_TABLES);
    double *p = memory_make(validation_count, sizeof *p, THE_TABLES);
    size_t different = 1; /* contexts */
    for (size_t i = 0; i < validation_count; i++) p[i] = 1 / (double)V;
    for (size_t order = 0; order < NGRAM_ORDERS; order++) {
        const size_t table = memory_mark();
        Table t = {.continuations = memory_make(different, sizeof *t.continuations, THE_TABLES)};
        resize(&t, 1024);
        count_ngrams(&t, training, contexts, training_count, V);
        losses[order] = (double)NAN;
        if (validation_count > 1)
            losses[order] = apply(&t, validation, contexts + training_count, p, validation_count, V);
        different = t.used;
        memory_release(table);
    }
    memory_release(mark);
}
