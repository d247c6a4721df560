/* Associative recall, a task whose smallest loss is known (cf. the multi-query recall of Arora et al. 2023, "Zoology"):
   a record shows pairs of a key and a value, "kX" for k and X, and then asks for some of them again. Only the answers
   count, so the smallest loss is 0. A model that ignores the key can only guess among the values shown before: loss
   ln(pairs), accuracy 1 / pairs. */
#pragma once

#include <stdbool.h>

#include "base/rng.h"

/* The vocabulary: values are A to Z, ids 0 to 25, keys are a to z, ids 26 to 51. */
enum { RECALL_LETTERS = 26, RECALL_VOCABULARY = 2 * RECALL_LETTERS };

/* Generates the first T characters of record `number` of (seed, purpose): `pairs` pairs of different keys and different
   values, then queries. A query is a key and its value. The key is drawn from all keys shown, since a model could know
   the last answers without their keys if every key had its turn. `targets` is the answer at the key of a query, and -1
   elsewhere. */
void recall_record(uint64_t seed, RngPurpose purpose, uint64_t number, size_t pairs, size_t T,
                   int32_t *tokens /* (T) */, int32_t *targets /* (T) */);

/* Returns the number of targets of a record that are answers. */
static inline size_t recall_answers(size_t pairs, size_t T) { return T > 2 * pairs ? (T - 2 * pairs + 1) / 2 : 0; }
