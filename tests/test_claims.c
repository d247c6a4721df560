/* The claims of docs/claims.md: their table is read whole, a verdict follows from what a claim states and what was
   measured, and the rows that a claim is measured on have the moments they should. tests/test_cli.sh compares the
   verdicts themselves. */
#include "support.h"

#include "theory/claims.h"

/* What a line "measures": figures by d_k. */
static Figure given[3];
static Figure give(ClaimTest *test, const ClaimLine *line, size_t d_k, double divisor) {
    (void)test, (void)line;
    assert_close(divisor, 1, 0, "divisor");
    return given[d_k - 1];
}

static Claim judged(double first, double second, double third, const char *table) {
    const ClaimLine line = {.label = "x",
                            .measure = give,
                            .d_k = {1, 2},
                            .divisor.mode = SCALE_NONE,
                            .within = .5,
                            .said = {10, 4},
                            .said_count = 2};
    const ClaimLine last = {
        .label = "y", .measure = give, .d_k = {3}, .divisor.mode = SCALE_NONE, .said = {7}, .said_count = 1};
    const ClaimLine unsaid = {
        .label = "z", .measure = give, .d_k = {3, 1}, .divisor.mode = SCALE_NONE, .said = {NAN}, .said_count = 1};
    Claim claim = {.cells = {[CLAIM_MEASURED] = "old", [CLAIM_WHY] = "because"}};
    ClaimTest test = {0};
    given[0] = (Figure){first, .2, first - 1, first + 1};
    given[1] = (Figure){second, 0, second, second};
    given[2] = (Figure){NAN, NAN, third, third};
    claim_line(&line, &test);
    claim_line(&last, &test);
    assert_int_equal(test.said, 3);
    claim_line(&unsaid, &test);
    assert_int_equal(test.said, 3);
    strcpy(claim.cells[CLAIM_VERDICT], table);
    claim_judge(&test, &claim);
    return claim;
}
static void assert_verdict(double first, double second, double third, const char *expected) {
    assert_string_equal(judged(first, second, third, "wrong").cells[CLAIM_VERDICT], expected);
    assert_string_equal(judged(first, second, third, "partly right").cells[CLAIM_VERDICT], expected);
    assert_string_equal(judged(first, second, third, expected).cells[CLAIM_WHY], "because");
}

static void verdicts_follow_from_figures(void **state) {
    (void)state;
    /* The first figure's interval is one either way and the tolerance a half: 8.5 to 11.5 agree with 10. */
    assert_verdict(10, 4, 7, "right");
    assert_verdict(11.5, 4.5, 7, "right");
    assert_verdict(11.6, 4.5, 7, "partly right");
    assert_verdict(10, 8, 7, "partly right");
    assert_verdict(8.4, 8, 7, "partly right");
    assert_verdict(1, 8, 8, "wrong");
    assert_verdict(NAN, NAN, NAN, "wrong");
    assert_string_equal(judged(1, 8, 7, "wrong").cells[CLAIM_MEASURED],
                        "x 1.0 ± 0.2 / 8; y 7.00 to 7.00; z 7.00 to 7.00 / 1.0 ± 0.2");
    /* Another verdict than the table's is not explained by it; "right" may be qualified there. */
    assert_non_null(strstr(judged(10, 4, 7, "wrong").cells[CLAIM_WHY], "another verdict: wrong"));
    assert_non_null(strstr(judged(1, 8, 8, "about training").cells[CLAIM_WHY], "another verdict: about training"));
    assert_string_equal(judged(1, 8, 8, "about training").cells[CLAIM_VERDICT], "wrong");
    assert_string_equal(judged(10, 4, 7, "about training").cells[CLAIM_VERDICT], "about training");
    assert_string_equal(judged(10, 4, 7, "right for another reason").cells[CLAIM_WHY], "because");
}

static void figures_undivided_and_divided(void **state) {
    const ClaimLine line = {.label = "x",
                            .measure = give,
                            .d_k = {1},
                            .divisor.mode = SCALE_NONE,
                            .both = true,
                            .said = {NAN, 3},
                            .said_count = 2};
    ClaimTest test = {0};
    (void)state;
    given[0] = (Figure){3, 0, 3, 3};
    claim_line(&line, &test);
    assert_string_equal(test.measured, "x undivided 3, divided 3");
    assert_true(test.said == 1 && test.held == 1);
}

/* Every row of docs/claims.md is read, whole, and no cell fills its room. */
static void claims_are_complete(void **state) {
    const char *const verdicts[] = {
        "right", "wrong", "partly right", "right for another reason", "about training", "not testable by this program"};
    static Claim claims[64];
    const size_t count = claims_read(claims, 64);
    (void)state;
    assert_int_equal(count, 32);
    assert_int_equal(claims_read(claims, 3), 3);
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t v = 0; v < COUNT_OF(verdicts); v++)
            known |= strcmp(claims[i].cells[CLAIM_VERDICT], verdicts[v]) == 0;
        assert_that(known, "claim %zu: %s", i + 1, claims[i].cells[CLAIM_VERDICT]);
        assert_int_equal(claims[i].number, i + 1);
        assert_true(*claims[i].cells[CLAIM_TEXT] && *claims[i].cells[CLAIM_WHY]);
        for (int c = 0; c < CLAIM_CELLS; c++) {
            const char *cell = claims[i].cells[c];
            assert_true(strlen(cell) < sizeof claims[i].cells[c] - 1);
            assert_true(*cell != ' ' && (!*cell || cell[strlen(cell) - 1] != ' '));
        }
    }
}

static void rows_have_the_moments_they_should(void **state) {
    const ScaleDivisor none = {.mode = SCALE_NONE};
    const struct {
        ClaimLine of;
        double mean, square;
    } lines[] = {
        {{.keys = 5, .rows = 4000}, 0, 1},
        {{.keys = 5, .rows = 4000, .divisor = none, .q_std = 2, .k_std = 3}, 0, 48 * 36},
        {{.keys = 5, .rows = 4000, .correlation = .25}, 0, 1 + 47 * .0625},
        {{.keys = 5, .rows = 4000, .divisor = {.mode = SCALE_DK}, .alignment = .5}, .5, .25 + 1.25 / 48},
        {{.keys = 5, .rows = 4000, .divisor = none, .score = THEORY_COSINE}, 0, 1. / 48},
        {{.keys = 5, .rows = 4000, .queries = 10}, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        ClaimLine line = lines[i].of;
        ClaimTest test = {.seed = 3, .threads = 1};
        const double divisor = divisor_value(line.divisor, 48);
        line.of = claim_score;
        const Figure mean = claim_mean(&test, &line, 48, divisor);
        line.of = claim_square;
        const Figure square = claim_mean(&test, &line, 48, divisor);
        double wide = line.queries ? 3 : 1; /* rows that share their keys are not independent */
        assert_close(mean.value, lines[i].mean, wide * (mean.high - mean.value), "mean of line %zu", i);
        assert_close(square.value, lines[i].square, wide * (square.high - square.value), "mean square of line %zu", i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(verdicts_follow_from_figures),
        TEST(figures_undivided_and_divided),
        TEST(claims_are_complete),
        TEST(rows_have_the_moments_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
