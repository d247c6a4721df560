/* Token and position embeddings at the input of the model; logits from the output embedding at its end.
   `bf16` is matmul's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/range.h"
#include "base/real.h"

/* x[r] = wte[token[r]] + wpe[r mod T] for rows in `rows` of (B*T, C); wte (V, C), wpe (T or more, C). Overwrites.
   Plain: plain_embedding_forward. */
void embedding_forward(real *x, const int32_t *token, const real *wte, const real *wpe, size_t T, size_t C, Range rows);

/* dL/dwte[v] = sum of dL/dx over the rows with token v; dL/dwpe[t] = sum over the sequences. All rows, for `columns` of
   C only. Adds to dwte (V, C) and dwpe (T, C). Plain: plain_embedding_backward. */
void embedding_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t rows, size_t T, size_t C,
                        Range columns);

/* logits (rows, V) = x (rows, C) W^T, W (V, C): wte when tied, lm_head when not. Overwrites. Plain:
 * plain_logits_forward. */
void unembedding_forward(real *logits, const real *x, const real *w, size_t rows, size_t C, size_t V, bool bf16);
/* dL/dx = dL/dlogits W. Overwrites dx (rows, C). Plain: plain_logits_backward. */
void unembedding_backward_input(real *dx, const real *dlogits, const real *w, size_t rows, size_t C, size_t V,
                                bool bf16);
/* dL/dW = dL/dlogits^T x, for `columns` of C only. Adds to dw (V, C). Plain: plain_logits_backward. */
void unembedding_backward_weight(real *dw, const real *dlogits, const real *x, size_t rows, size_t C, size_t V,
                                 Range columns, bool bf16);
