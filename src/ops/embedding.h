/* Token and position embeddings at the input of the model. */
#pragma once

#include <stdint.h>

#include "base/range.h"
#include "base/real.h"

/* Overwrites x[r] with wte[token[r]] + wpe[r mod T] for `rows` of (B*T, C); wte (V, C), wpe (T or more, C). Plain:
   plain_embedding_forward. */
void embedding_rows(real *x, const int32_t *token, const real *wte, const real *wpe, size_t T, size_t C, Range rows);

/* Adds to dwte (V, C) the sum of dL/dx over the rows of each token, and to dwpe (T, C) the sum over the sequences.
   Takes all rows, but only the columns `of_tokens` for dwte and `of_positions` for dwpe. Plain:
   plain_embedding_backward. */
void embedding_rows_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t rows, size_t T,
                             size_t C, Range of_tokens, Range of_positions);
