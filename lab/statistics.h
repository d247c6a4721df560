/* Means with their standard errors and confidence intervals. Source: Student (1908), The probable error of a mean,
   Biometrika 6. Then means over the heads of a log, and figures as text. */
#pragma once

#include "run/logs.h"

/* A mean with its 95 % interval, mean - half to mean + half. If the values are normal and the whole experiment is
   repeated with other seeds, 19 of 20 such intervals contain the true mean. */
typedef struct {
    size_t count; /* finite values; the others do not count */
    double mean;  /* NaN without any */
    double half;  /* NaN below two: one value has no standard deviation */
} Interval;

Interval interval_of_mean(const double *values, size_t count);
/* Returns the interval of the mean difference a[i] - b[i], over pairs of finite numbers: what a pair has in common
   cancels. */
Interval interval_of_difference(const double *a, const double *b, size_t count);

/* Returns the p quantile of Student's t, 0.5 <= p < 1: 12.706 for p = .975 and one degree of freedom. NaN for none. */
double student_quantile(double p, size_t degrees);

/* A figure and its standard error. Only finite numbers count; both are NaN without any. */
typedef struct {
    double value, error;
} Estimate;
/* Returns the mean of independent numbers, and its standard error (NaN below two). */
Estimate estimate_mean(const double *x, size_t n);
/* Returns the median, with half the distance between the order statistics sqrt(n) / 2 ranks below and above it (the
   interval that holds the true median in 68 of 100 cases) for a standard error. Sorts x. */
Estimate estimate_median(double *x, size_t n);

/* Returns the number of whole steps of attention.csv: `heads` rows each, for the heads of all layers. The last step may
   be cut off and does not count; a step with another number of rows is refused. */
size_t log_whole_steps(const LogTable *attention, const char *directory, size_t heads);
/* Returns the mean over all heads of a column of attention.csv at the step-th of its steps, counted from 0. */
double log_mean(const LogTable *attention, int column, size_t step, size_t heads);

/* Writes a number with so many significant digits, at least two, zeros at the end included: 1.00 beside 0.995. */
void text_digits(double number, int digits, char *out, size_t capacity);
