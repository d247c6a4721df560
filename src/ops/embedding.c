/* The sum of a token's and a position's row, and the gradient added back to these rows. Several positions may have one
   token, so a thread takes all rows and some columns: no two threads add to one number. The output embedding is a
   linear layer whose weight is stored (V, C), as the token embedding with which it may be tied. */
#include "ops/embedding.h"

#include "ops/matmul.h"

MULTIVERSIONED void embedding_forward(real *x, const int32_t *tokens, const real *wte, const real *wpe, size_t T,
                                      size_t C, Range rows) {
    for (size_t r = rows.begin; r < rows.end; r++) {
        const real *token = wte + (size_t)tokens[r] * C, *position = wpe + r % T * C;
        for (size_t c = 0; c < C; c++) x[r * C + c] = token[c] + position[c];
    }
}

MULTIVERSIONED void embedding_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t rows,
                                       size_t T, size_t C, Range columns) {
    for (size_t r = 0; r < rows; r++) {
        real *token = dwte + (size_t)tokens[r] * C, *position = dwpe + r % T * C;
        for (size_t c = columns.begin; c < columns.end; c++) token[c] += dx[r * C + c];
        for (size_t c = columns.begin; c < columns.end; c++) position[c] += dx[r * C + c];
    }
}

void unembedding_forward(real *logits, const real *x, const real *w, size_t rows, size_t C, size_t V, bool bf16) {
    matmul(bf16, PLAIN, TRANSPOSED, rows, V, C, 1, x, C, w, C, false, logits, V);
}

void unembedding_backward_input(real *dx, const real *dlogits, const real *w, size_t rows, size_t C, size_t V,
                                bool bf16) {
    matmul(bf16, PLAIN, PLAIN, rows, C, V, 1, dlogits, V, w, C, false, dx, C);
}

void unembedding_backward_weight(real *dw, const real *dlogits, const real *x, size_t rows, size_t C, size_t V,
                                 Range columns, bool bf16) {
    matmul(bf16, TRANSPOSED, PLAIN, V, range_size(columns), rows, 1, dlogits, V, x + columns.begin, C, true,
           dw + columns.begin, C);
}
