#include "ops/layernorm.h"

#include <math.h>

enum { LANES = 16 };

/* Sums over one row go through LANES partial sums, so that the loop vectorises and its order is fixed. */
static inline __attribute__((always_inline)) real lane_sum(const real lane[LANES]) {
    real sum = 0;
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

HOT static void forward_row(real *y, real *mean_out, real *rstd_out, const real *x, const real *gamma, const real *beta,
                            size_t C) {
    real lane[LANES] = {0};
    size_t whole = C - C % LANES;
    for (size_t c = 0; c < whole; c += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += x[c + l];
    for (size_t c = whole; c < C; c++) lane[c - whole] += x[c];
    const real mean = lane_sum(lane) / (real)C;

    for (size_t l = 0; l < LANES; l++) lane[l] = 0;
    for (size_t c = 0; c < whole; c += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += (x[c + l] - mean) * (x[c + l] - mean);
    for (size_t c = whole; c < C; c++) lane[c - whole] += (x[c] - mean) * (x[c] - mean);
    const real rstd = 1 / (real)sqrt((double)(lane_sum(lane) / (real)C + (real)LAYERNORM_EPSILON));

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
    const real mean_g = lane_sum(lane_g) / (real)C, mean_gx = lane_sum(lane_gx) * rstd / (real)C;
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

HOT void layernorm_backward_weight(real *dgamma, real *dbeta, const real *dy, const real *x, const real *mean,
                                   const real *rstd, size_t rows, size_t C, Range columns) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = columns.begin; c < columns.end; c++)
            dgamma[c] += dy[r * C + c] * (x[r * C + c] - mean[r]) * rstd[r];
        if (dbeta)
            for (size_t c = columns.begin; c < columns.end; c++) dbeta[c] += dy[r * C + c];
    }
}
