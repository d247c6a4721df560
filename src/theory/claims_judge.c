/* From figures to a verdict and its text. */
#include "theory/claims_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool says(const Target *target, size_t c) { return c < target->count && !isnan(target->values[c]); }
static bool agrees(const Target *target, size_t c, Figure figure) {
    return target->values[c] >= figure.low - target->within && target->values[c] <= figure.high + target->within;
}

/* By least squares on logarithms, x growing fourfold from figure to figure. */
static double exponent(const Figure *figures, size_t n) {
    double middle = (double)(n - 1) / 2, xy = 0, xx = 0;
    for (size_t i = 0; i < n; i++) {
        xy += ((double)i - middle) * log(figures[i].value);
        xx += ((double)i - middle) * ((double)i - middle);
    }
    return xy / xx / log(4);
}

static double count_agreeing(const Statistic *statistic, const Figure *figures, size_t first, size_t last) {
    int count = 0;
    for (size_t c = first; c <= last; c++)
        count += says(&statistic->said, c) && agrees(&statistic->said, c, figures[c]);
    return count;
}

/* What a kind of placeholder (Claim.measured) stands for. */
static double value_of(char kind, const Statistic *statistic, const Figure *figures, size_t first, size_t last) {
    switch (kind) {
    case '~': return (figures[first].high - figures[first].low) / 10; /* five errors either way */
    case '<': return figures[first].low;
    case '>': return figures[first].high;
    case '=': return count_agreeing(statistic, figures, first, last);
    case '^': return exponent(figures + first, last - first + 1);
    default: return figures[first].value;
    }
}

/* `text` is behind an opening brace; returns what is behind the closing one. */
static const char *expand_one(const char *text, const Claim *claim, Figure figures[][CASES_MAX], char *out,
                              size_t size) {
    char kind = 0;
    if (strchr("~<>=^", *text)) kind = *text++;
    char *at, format[16];
    size_t statistic = strtoul(text, &at, 10), first = strtoul(at + 1, &at, 10), last = first;
    if (*at == '-') last = strtoul(at + 1, &at, 10);
    const char *conversion = at + 1, *end = strchr(conversion, '}');
    for (size_t c = first; c <= last; c++) {
        size_t used = strlen(out);
        snprintf(format, sizeof format, "%s%%%.*s", c > first ? " / " : "", (int)(end - conversion), conversion);
        snprintf(out + used, size - used, format,
                 value_of(kind, &claim->statistics[statistic], figures[statistic], c, last));
        if (kind == '=' || kind == '^') break; /* one number for all of them */
    }
    return end + 1;
}

static void expand(const char *text, const Claim *claim, Figure figures[][CASES_MAX], char *out, size_t size) {
    *out = 0;
    while (*text) {
        size_t length = strcspn(text, "{"), used = strlen(out);
        snprintf(out + used, size - used, "%.*s", (int)length, text);
        text += length;
        if (*text) text = expand_one(text + 1, claim, figures, out, size);
    }
}

void claim_judge(const Claim *claim, Figure figures[][CASES_MAX], Outcome *outcome) {
    size_t said = 0, held = 0, unexpected = 0;
    for (size_t i = 0; i < STATISTICS_MAX; i++) {
        const Statistic *s = &claim->statistics[i];
        for (size_t c = 0; c < CASES_MAX; c++) {
            if (says(&s->said, c) && !s->aside) {
                said++;
                held += agrees(&s->said, c, figures[i][c]);
            }
            if (says(&s->expected, c)) unexpected += !agrees(&s->expected, c, figures[i][c]);
        }
    }
    outcome->verdict = held == said ? claim->if_so : held ? VERDICT_PARTLY : VERDICT_WRONG;
    expand(claim->measured ? claim->measured : "", claim, figures, outcome->measured, sizeof outcome->measured);
    expand(unexpected ? "The figures are not those that docs/claims.md explains." : claim->why, claim, figures,
           outcome->why, sizeof outcome->why);
}
