/* What makes one figure of a sample's rows. */
#include <math.h>

#include "theory/claims_sample.h"

static Figure figure_of(Estimate e) { return (Figure){e.value, e.value - 5 * e.error, e.value + 5 * e.error}; }
static double field_of(const Sample *s, size_t row, size_t field) {
    return *(const double *)(const void *)((const char *)&s->rows[row] + field);
}

/* Mean of the field's power with its error, summed up as it goes (Welford 1962); a single row has no error. */
static Estimate mean_power(const Sample *s, size_t field, double power) {
    double count = 0, mean = 0, squares = 0;
    for (size_t row = 0; row < s->count; row++) {
        double x = pow(field_of(s, row, field), power), off = x - mean;
        mean += off / ++count;
        squares += off * (x - mean);
    }
    return (Estimate){mean, count > 1 ? sqrt(squares / (count - 1) / count) : 0};
}

Figure mean_of(const Sample *s, size_t field) { return figure_of(mean_power(s, field, 1)); }
Figure root_of(const Sample *s, size_t field) {
    Estimate mean = mean_power(s, field, 1);
    return figure_of((Estimate){sqrt(mean.value), mean.error / 2 / sqrt(mean.value)});
}
Figure excess_of(const Sample *s, size_t field) {
    Estimate mean = mean_power(s, field, 1), square = mean_power(s, field, 2);
    return figure_of((Estimate){square.value / (mean.value * mean.value) - 3, square.error});
}
Figure largest_of(const Sample *s, size_t field) {
    double largest = -INFINITY;
    for (size_t row = 0; row < s->count; row++) largest = fmax(largest, field_of(s, row, field));
    return (Figure){largest, largest, largest};
}

enum { MATRICES = 400, CUT = MATRICES / 40 }; /* tests/test_theory.c sees that no case has another number */
static Figure range_of(double x[MATRICES]) {
    sort_numbers(x, MATRICES);
    return (Figure){quantile(x, MATRICES, .5), x[CUT], x[MATRICES - 1 - CUT]};
}
Figure median_of_rows(const Sample *s, size_t field) {
    double x[MATRICES];
    for (size_t row = 0; row < MATRICES; row++) x[row] = field_of(s, row, field);
    return figure_of(estimate_median(x, MATRICES));
}
Figure matrix_mean_of(const Sample *s, size_t field) {
    double x[MATRICES] = {0};
    for (size_t row = 0; row < s->count; row++) x[row / s->of->queries] += field_of(s, row, field);
    for (size_t m = 0; m < MATRICES; m++) x[m] /= (double)s->of->queries;
    return range_of(x);
}
Figure matrix_largest_of(const Sample *s, size_t field) {
    double x[MATRICES] = {0};
    for (size_t row = 0; row < s->count; row++)
        x[row / s->of->queries] = fmax(x[row / s->of->queries], field_of(s, row, field));
    return range_of(x);
}

Figure theory_of(const Sample *s, size_t field) {
    return figure_of(*(const Estimate *)(const void *)((const char *)&s->theory + field));
}
