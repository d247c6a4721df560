#include "ops/linear.h"

#include <string.h>

#include "ops/matmul.h"

void linear_forward(real *y, const real *x, const real *w, const real *b, size_t rows, size_t in, size_t out) {
    if (b)
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, b, out * sizeof *y);
    matmul(PLAIN, PLAIN, rows, out, in, 1, x, in, w, out, b != NULL, y, out);
}

void linear_backward_input(real *dx, const real *dy, const real *w, size_t rows, size_t in, size_t out) {
    matmul(PLAIN, TRANSPOSED, rows, in, out, 1, dy, out, w, out, false, dx, in);
}

HOT static void add_column_sums(real *sums, const real *x, size_t rows, size_t stride, Range columns) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = columns.begin; c < columns.end; c++) sums[c] += x[r * stride + c];
}

void linear_backward_weight(real *dw, real *db, const real *x, const real *dy, size_t rows, size_t in, size_t out,
                            Range columns) {
    matmul(TRANSPOSED, PLAIN, in, range_size(columns), rows, 1, x, in, dy + columns.begin, out, true,
           dw + columns.begin, out);
    if (db) add_column_sums(db, dy, rows, out, columns);
}
