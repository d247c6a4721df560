/* Records of the recall task. A record is generated from its number alone, so batches need no state. */
#include "data/recall.h"

/* The random numbers of record `number`. `draw` is the index of the next one. */
typedef struct {
    uint64_t seed, number;
    RngPurpose purpose;
    uint32_t draw;
} Draws;

/* Draws the next number, uniform on 0 .. n-1. */
static size_t next_below(Draws *d, size_t n) {
    const Rng rng = rng_make(d->seed, d->purpose, d->draw++);
    return (size_t)rng_below(&rng, d->number, n);
}

/* Draws `count` different letters from those with ids from `first` on, in random order (Fisher and Yates, stopped
   early). */
static void choose_letters(Draws *d, int32_t first, size_t count, int32_t letters[RECALL_LETTERS]) {
    for (int32_t i = 0; i < RECALL_LETTERS; i++) letters[i] = first + i;
    for (size_t i = 0; i < count; i++) {
        const size_t other = i + next_below(d, RECALL_LETTERS - i);
        const int32_t letter = letters[i];
        letters[i] = letters[other];
        letters[other] = letter;
    }
}

void recall_record(uint64_t seed, RngPurpose purpose, uint64_t number, size_t pairs, size_t T, int32_t *tokens,
                   int32_t *targets) {
    Draws d = {.seed = seed, .number = number, .purpose = purpose};
    int32_t keys[RECALL_LETTERS], values[RECALL_LETTERS];
    choose_letters(&d, RECALL_LETTERS, pairs, keys);
    choose_letters(&d, 0, pairs, values);
    for (size_t t = 0, pair = 0; t < T; t++) {
        const bool is_key = t % 2 == 0, is_query = t >= 2 * pairs;
        if (is_key) pair = is_query ? next_below(&d, pairs) : t / 2;
        tokens[t] = is_key ? keys[pair] : values[pair];
        targets[t] = is_key && is_query ? values[pair] : -1;
    }
}
