/* Means over seeds, and how far to trust them. Source: Student (1908), The probable error of a mean, Biometrika 6. */
#ifndef SQRTDK_LAB_STATISTICS_H
#define SQRTDK_LAB_STATISTICS_H

#include <stddef.h>

/* A mean with its 95 % interval, mean - half to mean + half: were the whole experiment repeated with other seeds, and
   the values normal, 19 of 20 such intervals would hold the true mean. */
typedef struct {
    size_t count; /* finite values; the others are left out */
    double mean;  /* NaN without any */
    double half;  /* NaN below two: one value says nothing about its own spread */
} Interval;

Interval interval_of_mean(const double *values, size_t count);
/* Of the differences a[i] - b[i], over the pairs of which both are finite: what the two share drops out. */
Interval interval_of_difference(const double *a, const double *b, size_t count);

/* The p quantile of Student's t, 0.5 <= p < 1: 12.706 for p = .975 and one degree of freedom. NaN for none. */
double student_quantile(double p, size_t degrees);

/* The middle of the finite values, or the mean of the two in the middle; NaN without any. Sorts `values`. */
double median_of(double *values, size_t count);

#endif
