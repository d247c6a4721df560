#include "ops/layernorm.h"

#include <math.h>

#include "ops/lanes.h"

HOT static void forward_row(real *y, real *mean_out, real *rstd_out, const real *x, const real *gamma, const real *beta,
                            size_t C) {
    real lane[LANES] = {0};
    size_t whole = C - C % LANES;
    for (size_t c = 0; c < whole; c += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += x[c + l];
    for (size_t c = whole; c < C; c++) lane[c - whole] += x[c];
    const real mean = lanes_sum(lane) / (real)C;

    for (size_t l = 0; l < LANES; l++) lane[l] = 0;
    for (size_t c = 0; c < whole; c += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += (x[c + l] - mean) * (x[c + l] - mean);
    for (size_t c = whole; c < C; c++) lane[c - whole] += (x[c] - mean) * (x[c] - mean);
    const real rstd = 1 / (real)sqrt((double)(lanes_sum(lane) / (real)C + (real)LAYERNORM_EPSILON));

    if (beta)
        for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    else
        for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gamma[c];
    *mean_out = mean;
    *rstd_out = rstd;
}

void layernorm_forward(real *y, real *mean, real *rstd, const real *x, const real *gamma, const real *beta, size_t rows,
                       size_t C) {
    for (size_t r = 0; r < rows; r++) forward_row(y + r * C, mean + r, rstd + r, x + r * C, gamma, beta, C);
}

HOT static void backward_row(real *dx, const real *residual, const real *dy, const real *x, const real *gamma,
                             real mean, real rstd, size_t C) {
    real lane_g[LANES] = {0}, lane_gx[LANES] = {0};
    size_t whole = C - C % LANES;
    for (size_t c = 0; c < whole; c += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            real g = dy[c + l] * gamma[c + l];
            lane_g[l] += g;
            lane_gx[l] += g * (x[c + l] - mean);
        }
    }
    for (size_t c = whole; c < C; c++) {
        real g = dy[c] * gamma[c];
        lane_g[c - whole] += g;
        lane_gx[c - whole] += g * (x[c] - mean);
    }
    const real mean_g = lanes_sum(lane_g) / (real)C, mean_gx = lanes_sum(lane_gx) * rstd / (real)C;
    if (residual)
        for (size_t c = 0; c < C; c++)
            dx[c] = residual[c] + rstd * (dy[c] * gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
    else
        for (size_t c = 0; c < C; c++) dx[c] = rstd * (dy[c] * gamma[c] - mean_g - (x[c] - mean) * rstd * mean_gx);
}

void layernorm_backward_input(real *dx, const real *residual, const real *dy, const real *x, const real *gamma,
                              const real *mean, const real *rstd, size_t rows, size_t C) {
    for (size_t r = 0; r < rows; r++)
        backward_row(dx + r * C, residual ? residual + r * C : NULL, dy + r * C, x + r * C, gamma, mean[r], rstd[r], C);
}

/* Columns `first` to `first + width` <= PIECE, summed in registers. */
enum { PIECE = 64 };
static inline __attribute__((always_inline)) void backward_columns(real *dgamma, real *dbeta, const real *dy,
                                                                   const real *x, const real *mean, const real *rstd,
                                                                   size_t rows, size_t C, size_t first, size_t width) {
    real gamma[PIECE], beta[PIECE];
    for (size_t c = 0; c < width; c++) gamma[c] = dgamma[first + c], beta[c] = dbeta ? dbeta[first + c] : 0;
    for (size_t r = 0; r < rows; r++) {
        const real *dy_r = dy + r * C + first, *x_r = x + r * C + first, m = mean[r], s = rstd[r];
        for (size_t c = 0; c < width; c++) {
            gamma[c] += dy_r[c] * (x_r[c] - m) * s;
            beta[c] += dy_r[c];
        }
    }
    for (size_t c = 0; c < width; c++) dgamma[first + c] = gamma[c];
    for (size_t c = 0; dbeta && c < width; c++) dbeta[first + c] = beta[c];
}

HOT void layernorm_backward_weight(real *dgamma, real *dbeta, const real *dy, const real *x, const real *mean,
                                   const real *rstd, size_t rows, size_t C, Range columns) {
    size_t c = columns.begin;
    for (; c + PIECE <= columns.end; c += PIECE) backward_columns(dgamma, dbeta, dy, x, mean, rstd, rows, C, c, PIECE);
    if (c < columns.end) backward_columns(dgamma, dbeta, dy, x, mean, rstd, rows, C, c, columns.end - c);
}
