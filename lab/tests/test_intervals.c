/* Student's t against the tables; intervals, medians and quantiles against values worked out by hand.
   Numbers and fields as tables have them. */
#include "support.h"

#include "base/statistics.h"
#include "lab/statistics.h"
#include "lab/text.h"

static void quantiles(void) {
    static const struct {
        double p;
        size_t degrees;
        double value, bar;
    } cases[] = {
        {.975, 1, 12.706, 5e-4},  {.975, 2, 4.3027, 5e-5},  {.975, 3, 3.1824, 5e-5},  {.975, 4, 2.7764, 5e-5},
        {.975, 5, 2.5706, 5e-5},  {.975, 10, 2.2281, 5e-5}, {.975, 30, 2.0423, 5e-5}, {.995, 4, 4.6041, 5e-5},
        {.995, 11, 3.1058, 5e-5}, {.95, 7, 1.8946, 5e-5},   {.9, 1, 3.0777, 5e-5},    {.975, 100000, 1.95999, 5e-5},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_close(student_quantile(cases[i].p, cases[i].degrees), cases[i].value, cases[i].bar,
                     "p = %g, %zu degrees of freedom", cases[i].p, cases[i].degrees);
    assert_close(student_quantile(.975, 1), tan(M_PI * .475), 1e-12, "Cauchy's distribution");
    assert_close(student_quantile(.5, 3), 0, 1e-12, "the middle");
    assert_true(isnan(student_quantile(.975, 0)) && isnan(student_quantile(1, 3)) && isnan(student_quantile(.4, 3)));
    assert_true(isnan(student_quantile(NAN, 3)));
}

static void means(void) {
    const double three[] = {1, NAN, 2, INFINITY, 3};
    Interval i = interval_of_mean(three, 5);
    assert_int_equal(i.count, 3);
    assert_close(i.mean, 2, 1e-15, "mean");
    assert_close(i.half, 4.30265273 / sqrt(3), 1e-8, "half width");
    i = interval_of_mean((const double[]){1e9 + 1, 1e9 + 2, 1e9 + 3}, 3); /* squares would have lost the digits */
    assert_close(i.half, 4.30265273 / sqrt(3), 1e-6, "half width, far from zero");
    i = interval_of_mean((const double[]){5}, 1);
    assert_true(i.count == 1 && i.mean == 5 && isnan(i.half));
    i = interval_of_mean((const double[]){NAN}, 1);
    assert_true(i.count == 0 && isnan(i.mean) && isnan(i.half));
    i = interval_of_mean((const double[]){7, 7, 7}, 3);
    assert_true(i.mean == 7 && i.half == 0);
}

/* Where pairs share something large and differ by something small, the interval of the difference shows it; the
   means' intervals would not. */
static void differences(void) {
    const double a[] = {2.1, 3.2, 4.3, 9}, b[] = {2, 3, 4, NAN};
    Interval i = interval_of_difference(a, b, 4);
    assert_int_equal(i.count, 3);
    assert_close(i.mean, 0.2, 1e-12, "mean difference");
    assert_close(i.half, 4.30265273 * 0.1 / sqrt(3), 1e-8, "half width");
    assert_true(interval_of_mean(a, 3).half > 2);
}

static void medians(void) {
    assert_true(estimate_median((double[]){3, 1, 2}, 3).value == 2);
    assert_true(estimate_median((double[]){4, 1, NAN, 3, 2}, 5).value == 2.5);
    assert_true(estimate_median((double[]){8}, 1).value == 8);
    assert_true(isnan(estimate_median((double[]){NAN}, 1).value));
    assert_true(isnan(estimate_median(NULL, 0).value));
    double many[100];
    for (int i = 0; i < 100; i++) many[i] = (i * 37) % 100;
    const Estimate e = estimate_median(many, 100); /* ranks 49.5 - 5 and + 5, outwards: 44 and 55 */
    assert_true(e.value == 49.5 && e.error == 5.5);
}

/* Quantiles are those of NumPy's percentile. */
static void sorted_quantiles(void) {
    double x[] = {4, -1, 10, 2};
    sort_numbers(x, 4);
    assert_true(x[0] == -1 && x[1] == 2 && x[2] == 4 && x[3] == 10);
    assert_true(quantile(x, 4, 0) == -1 && quantile(x, 4, 1) == 10 && quantile(x, 4, .5) == 3);
    assert_close(quantile(x, 4, .1), -.1, 1e-15, "p10");
    assert_close(quantile(x, 4, .99), 9.82, 1e-14, "p99");
    assert_true(quantile(x + 1, 3, .5) == 4 && quantile(x + 2, 1, 0) == 4 && quantile(x + 2, 1, .3) == 4);
}

/* A column of numbers has equal digits, and no decimal point without any behind it. */
static void digits_of_numbers(void) {
    static const struct {
        double number;
        int digits;
        const char *text;
    } cases[] = {{1, 4, "1.000"},     {.99961, 4, "0.9996"}, {1024, 4, "1024"},
                 {1e5, 2, "1.0e+05"}, {0, 3, "0.00"},        {2e-9, 2, "2.0e-09"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        text_digits(cases[i].number, cases[i].digits, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void fields_of_tables(void) {
    static const char *const cases[][2] = {
        {"", ""}, {"plain text", "plain text"}, {"a,b", "\"a,b\""}, {"\"a\"", "\"\"\"a\"\"\""}, {"a\nb", "\"a\nb\""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        Text *text = text_begin();
        text_write_field(cases[i][0], text->stream);
        assert_string_equal(text_end(text), cases[i][1]);
    }
}

int main(void) {
    return RUN_TESTS(TEST(quantiles), TEST(means), TEST(differences), TEST(medians), TEST(sorted_quantiles),
                     TEST(digits_of_numbers), TEST(fields_of_tables));
}
