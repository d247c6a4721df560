/* Quantiles of numbers. */
#include "base/statistics.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_numbers(double *x, size_t n) { qsort(x, n, sizeof *x, by_size); }

double quantile(const double *sorted, size_t n, double p) {
    double place = p * (double)(n - 1);
    size_t below = (size_t)place, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}
