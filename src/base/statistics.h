/* Quantiles of numbers. */
#pragma once

#include <stddef.h>

/* Sorts numbers, smallest first; none may be NaN. */
void sort_numbers(double *x, size_t n);

/* Returns the p quantile of n >= 1 sorted numbers, p from 0 to 1: interpolated between the two nearest, as NumPy does;
   .5 is the median. */
double quantile(const double *sorted, size_t n, double p);
