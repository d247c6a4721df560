#include "theory/claims.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/text.h"

enum { COLUMNS = 80, INDENT = 4, LABEL = 10 };

static const char *const VERDICTS[VERDICT_COUNT] = {
    "right", "wrong", "partly right", "right for another reason", "about training", "not testable by this program"};

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

/* What a kind of placeholder (Claim.measured) stands for. */
static double value_of(char kind, const Target *said, const Figure *figures, size_t first, size_t last) {
    const Figure *f = &figures[first];
    double count = 0;
    switch (kind) {
    case '~': return (f->high - f->low) / 10; /* five errors either way */
    case '<': return f->low;
    case '>': return f->high;
    case '^': return exponent(f, last - first + 1);
    case '=':
        for (size_t c = first; c <= last; c++) count += says(said, c) && agrees(said, c, figures[c]);
        return count;
    default: return f->value;
    }
}

static void expand(const char *text, const Claim *claim, Figures figures, char *out, size_t size) {
    *out = 0;
    for (const char *brace; (brace = strchr(text, '{')); text = strchr(brace, '}') + 1) {
        const char kind = brace[1]; /* a digit: the figure itself */
        char *end, format[16];
        size_t statistic = strtoul(brace + 1 + strspn(brace + 1, "~<>=^"), &end, 10);
        size_t first = strtoul(end + 1, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        snprintf(format, sizeof format, "%%%.*s", (int)strcspn(end + 1, "}"), end + 1);
        text_append(out, size, "%.*s", (int)(brace - text), text);
        for (size_t c = first; c <= last; c++) {
            if (c > first) text_append(out, size, " / ");
            text_append(out, size, format,
                        value_of(kind, &claim->statistics[statistic].said, figures[statistic], c, last));
            if (kind == '=' || kind == '^') break; /* one number for all of them */
        }
    }
    text_append(out, size, "%s", text);
}

void claim_judge(const Claim *claim, Figures figures, Outcome *outcome) {
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

/* Words from column `start` on, where the line stands now; further lines start there as well. */
static void print_wrapped(int start, const char *text) {
    int column = start;
    while (*text) {
        size_t length = strcspn(text, " ");
        int wide = (int)utf8_columns(text, length);
        if (column > start && column + 1 + wide > COLUMNS) {
            printf("\n%*s", start, "");
            column = start;
        } else if (column > start) {
            column += printf(" ");
        }
        fwrite(text, 1, length, stdout);
        column += wide;
        text += length + strspn(text + length, " ");
    }
    putchar('\n');
}

static void print_part(const char *label, const char *text) {
    printf("%*s%-*s", INDENT, "", LABEL, label);
    print_wrapped(INDENT + LABEL, text);
}

static void print_claim(size_t number, const Claim *claim, const Outcome *outcome) {
    char verdict[512];
    printf("%2zu  ", number);
    print_wrapped(INDENT, claim->claim);
    if (claim->source) print_part("source", claim->source);
    if (*outcome->measured) print_part("measured", outcome->measured);
    snprintf(verdict, sizeof verdict, "%s. %s", VERDICTS[outcome->verdict], outcome->why);
    print_part("verdict", verdict);
    putchar('\n');
}

static void print_csv(size_t number, const Claim *claim, const Outcome *outcome) {
    const char *const fields[] = {claim->claim, claim->source ? claim->source : "", outcome->measured,
                                  VERDICTS[outcome->verdict], outcome->why};
    printf("%zu", number);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        putchar(',');
        text_write_field(fields[i], true, stdout);
    }
    putchar('\n');
}

bool claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress, Error *err) {
    size_t verdicts[VERDICT_COUNT] = {0};
    if (csv) printf("number,claim,source,measured,verdict,why\n");
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        Figures figures = {0};
        Outcome outcome;
        progress_count(progress, omp_get_wtime(), "claims", i, CLAIM_COUNT);
        bool ok = claim_measure(&CLAIMS[i], (uint32_t)i + 1, seed, threads, figures, err);
        progress_clear(progress);
        if (!ok || interrupt_signal()) return ok;
        claim_judge(&CLAIMS[i], figures, &outcome);
        (csv ? print_csv : print_claim)(i + 1, &CLAIMS[i], &outcome);
        verdicts[outcome.verdict]++;
    }
    if (csv) return true;
    printf("%zu claims:", CLAIM_COUNT);
    for (Verdict v = 0; v < VERDICT_COUNT; v++)
        if (verdicts[v]) printf("\n%4zu %s", verdicts[v], VERDICTS[v]);
    putchar('\n');
    return true;
}
