/* Numbers in order. */
#ifndef SQRTDK_BASE_QUANTILE_H
#define SQRTDK_BASE_QUANTILE_H

#include <stddef.h>

/* Smallest first; none is NaN. */
void sort_numbers(double *x, size_t n);

/* Of n >= 1 sorted numbers, `share` from 0 to 1: interpolated between the two nearest, as NumPy does it; .5 is the
   median. */
double quantile(const double *sorted, size_t n, double share);

#endif
