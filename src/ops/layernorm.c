/* LayerNorm, forward and backward. Mean and variance are computed in two loops over a row, since the difference of the
   mean square and the squared mean would cancel. The backward pass uses the mean and rstd that the forward pass kept,
   and computes xhat again. */
#include "ops/layernorm.h"

#include "ops/lanes.h"

MULTIVERSIONED void layernorm_rows(real *y, real *mean, real *rstd, const real *x, const real *gamma, const real *beta,
                                   size_t rows, size_t C) {
    for (size_t r = 0; r < rows; r++) {
        const real *x_r = x + r * C, m = lanes_total(x_r, C) / (real)C;
        const real s = 1 / (real)sqrt((double)(lanes_squares(x_r, m, C) / (real)C + (real)LAYERNORM_EPSILON));
        real *y_r = y + r * C;
        if (beta)
            for (size_t c = 0; c < C; c++) y_r[c] = (x_r[c] - m) * s * gamma[c] + beta[c];
        else
            for (size_t c = 0; c < C; c++) y_r[c] = (x_r[c] - m) * s * gamma[c];
        mean[r] = m;
        rstd[r] = s;
    }
}

/* With g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)), plus residual. */
static inline __attribute__((always_inline)) void backward_row(real *dx, const real *residual, const real *dy,
                                                               const real *x, const real *gamma, real mean, real rstd,
                                                               size_t C) {
    Lanes lanes_g = lanes_of(0), lanes_gx = lanes_of(0);
    real last[3][LANES];
    for (size_t c = 0; c < C; c += LANES) {
        const Lanes scale = lanes_at(lanes_from(gamma, c, C, last[0], 0));
        Lanes g = lanes_at(lanes_from(dy, c, C, last[1], 0)), centered = lanes_at(lanes_from(x, c, C, last[2], mean));
        EACH_PART(p) g.part[p] *= scale.part[p];
        EACH_PART(p) centered.part[p] -= mean;
        EACH_PART(p) lanes_g.part[p] += g.part[p];
        EACH_PART(p) lanes_gx.part[p] += g.part[p] * centered.part[p];
    }
    const real mean_g = lanes_sum(lanes_g) / (real)C, mean_gx = lanes_sum(lanes_gx) * rstd / (real)C;
    if (residual)
        for (size_t c = 0; c < C; c++)
            dx[c] = residual[c] + rstd * (dy[c] * gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
    else
        for (size_t c = 0; c < C; c++) dx[c] = rstd * (dy[c] * gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
}

MULTIVERSIONED void layernorm_rows_backward(real *dx, const real *residual, const real *dy, const real *x,
                                            const real *gamma, const real *mean, const real *rstd, size_t rows,
                                            size_t C) {
    for (size_t r = 0; r < rows; r++)
        backward_row(dx + r * C, residual ? residual + r * C : NULL, dy + r * C, x + r * C, gamma, mean[r], rstd[r], C);
}

/* Goes row by row, since dy and x are in memory in that order. */
MULTIVERSIONED void layernorm_gain_backward(real *restrict dgamma, real *dbeta, const real *restrict dy,
                                            const real *restrict x, const real *mean, const real *rstd, size_t rows,
                                            size_t C, Range columns) {
    for (size_t r = 0; r < rows; r++) {
        const real *dy_r = dy + r * C, *x_r = x + r * C, m = mean[r], s = rstd[r];
        for (size_t c = columns.begin; c < columns.end; c++) dgamma[c] += dy_r[c] * (x_r[c] - m) * s;
        for (size_t c = columns.begin; dbeta && c < columns.end; c++) dbeta[c] += dy_r[c];
    }
}
