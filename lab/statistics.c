/* Statistics over seeds, samples and heads. The quantiles of Student's t are computed by bisection, so there is no
   table, and any number of seeds will do. */
#include "lab/statistics.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/statistics.h"

/* Returns P(|T| < t) for whole degrees of freedom n, with x = atan(t / sqrt(n)), as a finite sum (Abramowitz and
   Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). */
static double student_inside(double x, size_t degrees) {
    const bool odd = degrees % 2;
    double cosine = cos(x), term = odd ? cosine : 1, sum = 0;
    for (size_t k = odd ? 3 : 2; k <= degrees; k += 2) {
        sum += term;
        term *= cosine * cosine * (double)(k - 1) / (double)k;
    }
    return odd ? M_2_PI * (x + sin(x) * sum) : sin(x) * sum;
}

double student_quantile(double p, size_t degrees) {
    double low = 0, high = M_PI_2;
    if (degrees == 0 || !(p >= 0.5 && p < 1)) return NAN;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (student_inside(middle, degrees) < 2 * p - 1) low = middle;
        else high = middle;
    }
    return sqrt((double)degrees) * tan((low + high) / 2);
}

/* Returns the mean of the finite differences a[i] - b[i] (of a[i] if b is NULL) and its standard error, and sets their
   number. Makes two passes, since the sum of squares less the square of the sum would lose the digits that count. */
static Estimate mean_of_finite(const double *a, const double *b, size_t count, size_t *finite) {
    double sum = 0, squares = 0;
    *finite = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = b ? a[i] - b[i] : a[i];
        if (!isfinite(value)) continue;
        sum += value;
        ++*finite;
    }
    const double n = (double)*finite, mean = n > 0 ? sum / n : NAN;
    for (size_t i = 0; i < count; i++) {
        const double value = b ? a[i] - b[i] : a[i];
        if (isfinite(value)) squares += (value - mean) * (value - mean);
    }
    return (Estimate){mean, n > 1 ? sqrt(squares / (n - 1) / n) : NAN};
}

Interval interval_of_difference(const double *a, const double *b, size_t count) {
    size_t finite;
    const Estimate mean = mean_of_finite(a, b, count, &finite);
    return (Interval){finite, mean.value, finite > 1 ? student_quantile(.975, finite - 1) * mean.error : NAN};
}

Interval interval_of_mean(const double *values, size_t count) { return interval_of_difference(values, NULL, count); }

Estimate estimate_mean(const double *x, size_t n) {
    size_t finite;
    return mean_of_finite(x, NULL, n, &finite);
}

Estimate estimate_median(double *x, size_t n) {
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) x[finite++] = x[i];
    if (finite == 0) return (Estimate){NAN, NAN};
    sort_numbers(x, finite);
    const double last = (double)(finite - 1), half = sqrt((double)finite) / 2;
    const double low = fmax(floor(last / 2 - half), 0), high = fmin(ceil(last / 2 + half), last);
    return (Estimate){quantile(x, finite, .5), (x[(size_t)high] - x[(size_t)low]) / 2};
}

size_t log_whole_steps(const LogTable *attention, const char *directory, size_t heads) {
    const double *steps = attention->column[ATTENTION_STEP];
    const size_t whole = attention->rows / heads;
    for (size_t row = 0; row < whole * heads; row++)
        if (steps[row] != steps[row / heads * heads])
            usage_error("%s/%s:%zu: a step does not have %zu rows, one for each head", directory,
                        LOG_NAMES[LOG_ATTENTION], row + 2, heads);
    return whole;
}

double log_mean(const LogTable *attention, int column, size_t step, size_t heads) {
    const double *values = attention->column[column] + step * heads;
    double sum = 0;
    for (size_t i = 0; i < heads; i++) sum += values[i];
    return sum / (double)heads;
}

void text_digits(double number, int digits, char *out, size_t capacity) {
    snprintf(out, capacity, "%#.*g", digits, number);
    const size_t length = strlen(out);
    if (length > 0 && out[length - 1] == '.') out[length - 1] = 0;
}
