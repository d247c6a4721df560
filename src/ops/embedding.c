/* The sum of a token's and a position's row, and the gradient added back to these rows. Several positions may have one
   token, so a thread takes all rows and some columns: no two threads add to one number. */
#include "ops/embedding.h"

MULTIVERSIONED void embedding_rows(real *x, const int32_t *tokens, const real *wte, const real *wpe, size_t T, size_t C,
                                   Range rows) {
    for (size_t r = rows.begin; r < rows.end; r++) {
        const real *token = wte + (size_t)tokens[r] * C, *position = wpe + r % T * C;
        for (size_t c = 0; c < C; c++) x[r * C + c] = token[c] + position[c];
    }
}

MULTIVERSIONED void embedding_rows_backward(real *dwte, real *dwpe, const real *dx, const int32_t *tokens, size_t rows,
                                            size_t T, size_t C, Range of_tokens, Range of_positions) {
    for (size_t r = 0; r < rows; r++) {
        real *token = dwte + (size_t)tokens[r] * C, *position = dwpe + r % T * C;
        for (size_t c = of_tokens.begin; c < of_tokens.end; c++) token[c] += dx[r * C + c];
        for (size_t c = of_positions.begin; c < of_positions.end; c++) position[c] += dx[r * C + c];
    }
}
