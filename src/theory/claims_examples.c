/* Worked examples with their figures, and what can be counted or read. */
#include <math.h>
#include <stdlib.h>

#include "model/tensors.h"
#include "theory/claims_try.h"

/* Whether `actual` is what was stated with so many decimals, give or take a unit of the last. */
static bool agrees(double actual, double stated, int decimals) { return fabs(actual - stated) <= pow(10, -decimals); }

bool try_vectors(const Trial *trial, Outcome *o, Error *err) {
    const double q[3] = {.5, -.3, 1.2}, k[3] = {-.7, .4, .9};
    double score = q[0] * k[0] + q[1] * k[1] + q[2] * k[2], divided = score / sqrt(3);
    const Population population = {.d_k = 3, .keys = 1, .rows = 100000};
    double *scores = population_scores(&population, trial_rng(trial, 0), err);
    if (!scores) return false;
    Estimate before = rows_mean_square(scores, population.rows, 1, 1);
    Estimate after = rows_mean_square(scores, population.rows, 1, 1 / sqrt(3));
    free(scores);
    outcome_measured(o, "q·k = %.3f, over √3 %.3f; variance over %zu random pairs %.3f ± %.3f, divided %.3f ± %.3f",
                     score, divided, population.rows, before.value, before.error, after.value, after.error);
    bool example = agrees(score, .61, 2) && agrees(divided, .35, 2);
    bool variance = fabs(before.value - 3) < 5 * before.error && fabs(after.value - 1) < 5 * after.error;
    if (example && variance)
        outcome_why(
            o, VERDICT_RIGHT,
            "The score is a sum of d_k independent products of variance 1, when entries are independent with mean 0 and variance 1.");
    else
        outcome_why(o, example || variance ? VERDICT_PARTLY : VERDICT_WRONG, "The %s not what is stated.",
                    example ? "variance is" : "example is");
    return true;
}

bool try_subjects(const Trial *trial, Outcome *o, Error *err) {
    const double marks[5] = {10, 80, 500, 4000, 20000}, stated[5] = {.00009, .00072, .0045, .036, .18};
    double p[5], divided[5], total = 0, stated_total = 0;
    bool shares = true;
    (void)trial, (void)err;
    for (int i = 0; i < 5; i++) total += marks[i], stated_total += stated[i];
    for (int i = 0; i < 5; i++) shares = shares && fabs(stated[i] * total / marks[i] - 1) < .1;
    theory_softmax(marks, 5, 1, p);
    theory_softmax(marks, 5, 1 / sqrt(5), divided);
    double small = p[3] * (1 - p[3]), large = p[4] * (1 - p[4]);
    outcome_measured(
        o,
        "the stated shares are the marks over about %.0f and add up to %.2f; marks over their own sum are %.4f %.4f %.3f %.3f %.3f; softmax gives %.3g %.3g %.3g %.3g %.3g, also after dividing by √5 (%.3g for the last); p(1-p) is %.2g for the fourth and %.2g for the largest",
        marks[4] / stated[4], stated_total, marks[0] / total, marks[1] / total, marks[2] / total, marks[3] / total,
        marks[4] / total, p[0], p[1], p[2], p[3], p[4], divided[4], small, large);
    if (shares && small < 1e-6 && large > 1e-6)
        outcome_why(o, VERDICT_RIGHT, "The small ones get no gradient, the large one does.");
    else if (small < 1e-6)
        outcome_why(
            o, VERDICT_PARTLY,
            "Shares are no picture of softmax, which goes by differences: the small ones learn nothing%s. One divisor for all changes no share; a measure for each subject is another thing.",
            large < 1e-6 ? ", but the largest, alone with weight 1, does not either" : "");
    else
        outcome_why(o, VERDICT_WRONG, "The small ones do get a gradient.");
    return true;
}

bool try_interval(const Trial *trial, Outcome *o, Error *err) {
    const Population population = {.d_k = 64, .keys = 64, .rows = 1000};
    double *scores = population_scores(&population, trial_rng(trial, 0), err), largest = 0;
    size_t count = population.rows * population.keys, inside = 0;
    if (!scores) return false;
    for (size_t i = 0; i < count; i++) {
        double score = fabs(scores[i]) / 8;
        inside += score <= 1;
        largest = fmax(largest, score);
    }
    free(scores);
    double share = (double)inside / (double)count;
    outcome_measured(o, "of %zu scores at d_k 64, divided by 8, %.1f %% lie in -1..1; the largest is %.1f", count,
                     100 * share, largest);
    if (share > .999)
        outcome_why(o, VERDICT_RIGHT, "They all lie there.");
    else
        outcome_why(
            o, VERDICT_WRONG,
            "Dividing makes the standard deviation 1, it sets no bounds; a normal number lies in -1..1 in 68 of 100 cases.");
    return true;
}

/* Both rows of the example. */
static bool try_row(const double row[5], const double stated[5], Outcome *o) {
    double p[5], total = 0;
    bool same = true;
    theory_softmax(row, 5, 1, p);
    for (int i = 0; i < 5; i++) same = same && agrees(p[i], stated[i], 3), total += stated[i];
    outcome_measured(o, "%.3g %.3g %.3g %.3g %.3g%s", p[0], p[1], p[2], p[3], p[4],
                     p[4] > .9999 ? " (to three digits)" : "");
    if (same)
        outcome_why(o, VERDICT_RIGHT, "To three decimals that is what it gives.");
    else if (fabs(total - 1) > .005)
        outcome_why(o, VERDICT_WRONG, "What is stated adds up to %.3f; weights add up to 1.", total);
    else
        outcome_why(o, VERDICT_WRONG, "Softmax gives other weights.");
    return true;
}
bool try_large_row(const Trial *trial, Outcome *o, Error *err) {
    (void)trial, (void)err;
    return try_row((double[]){-24, -10, 0, 10, 24}, (double[]){0, 0, 0, 0, 1}, o);
}
bool try_small_row(const Trial *trial, Outcome *o, Error *err) {
    (void)trial, (void)err;
    return try_row((double[]){-3, -1, 0, 1, 3}, (double[]){.012, .089, .243, .661, .995}, o);
}

/* Weights of one attention layer, from the model's own table of tensors. */
static bool count_weights(size_t C, size_t H, size_t D, size_t *count, Error *err) {
    const ModelShape shape = {.T = 8, .C = C, .attention = {.H = H, .D = D}, .F = C, .V = 8, .L = 1, .pre_norm = true};
    TensorTable table;
    *count = 0;
    if (!tensors_make(&table, &shape, err)) return false;
    for (size_t i = 0; i < table.count; i++)
        if (table.items[i].role == ATTN_W || table.items[i].role == ATTN_PROJ_W) *count += table.items[i].count;
    tensors_free(&table);
    return true;
}

bool try_parameters(const Trial *trial, Outcome *o, Error *err) {
    const size_t C = 512;
    bool formula = true, constant = true, elsewhere = true;
    size_t first = 0, narrow = 0, stated_narrow = C * 3 * 8 * 16 + C * C;
    (void)trial;
    for (size_t H = 1; H <= 16; H *= 2) {
        size_t count;
        if (!count_weights(C, H, C / H, &count, err)) return false;
        if (H == 1) first = count;
        formula = formula && count == 3 * H * C * (C / H) + C * C;
        constant = constant && count == first;
    }
    if (!count_weights(C, 8, 16, &narrow, err)) return false;
    elsewhere = narrow == stated_narrow;
    outcome_measured(
        o,
        "d_model 512, heads 1 to 16 with d_k = 512 / heads: %zu weights%s; 8 heads of d_k 16: %zu, the formula says %zu",
        first, constant ? " each time" : " and others", narrow, stated_narrow);
    if (formula && constant && elsewhere)
        outcome_why(o, VERDICT_RIGHT, "The formula holds for every size tried.");
    else if (formula && constant)
        outcome_why(
            o, VERDICT_PARTLY,
            "It holds while heads · d_k = d_model; in general there are 4 · heads · d_k · d_model, for the output's matrix has heads · d_k rows.");
    else
        outcome_why(o, VERDICT_WRONG, "The counts differ from the formula.");
    return true;
}

/* Vaswani et al. 2017, table 3, rows (B) and base, newstest2013: printed there, not measured here. */
bool try_table_3(const Trial *trial, Outcome *o, Error *err) {
    static const double bleu[3] = {25.1, 25.4, 25.8}, perplexity[3] = {5.16, 5.01, 4.92}; /* d_k 16, 32, 64 */
    (void)trial, (void)err;
    outcome_measured(
        o,
        "nothing; the table prints, for d_k 16 / 32 / 64, BLEU %.1f / %.1f / %.1f and perplexity %.2f / %.2f / %.2f, all divided by √d_k",
        bleu[0], bleu[1], bleu[2], perplexity[0], perplexity[1], perplexity[2]);
    if (bleu[1] > bleu[2] && perplexity[1] < perplexity[2])
        outcome_why(o, VERDICT_RIGHT, "The smaller d_k does better there.");
    else
        outcome_why(
            o, VERDICT_WRONG,
            "The table has no model without the divisor, and in it a smaller d_k does worse, as the paper says.");
    return true;
}
