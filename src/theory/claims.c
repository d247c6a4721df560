/* Trying all claims, and printing what came of it. */
#include "theory/claims.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/text.h"
#include "theory/claims_table.h"

enum { COLUMNS = 80, INDENT = 4, LABEL = 10 };

static const char *const VERDICTS[VERDICT_COUNT] = {
    "right", "wrong", "partly right", "right for another reason", "about training", "not testable by this program"};

/* Words from column `column` on, where the line stands now; further lines start in column `start`. */
static void print_wrapped(FILE *out, int start, const char *text) {
    int column = start;
    while (*text) {
        size_t length = strcspn(text, " ");
        int wide = (int)utf8_columns(text, length);
        if (column > start && column + 1 + wide > COLUMNS) {
            fprintf(out, "\n%*s", start, "");
            column = start;
        } else if (column > start) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, length, out);
        column += wide;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

static void print_part(FILE *out, const char *label, const char *text) {
    fprintf(out, "%*s%-*s", INDENT, "", LABEL, label);
    print_wrapped(out, INDENT + LABEL, text);
}

static void print_claim(FILE *out, size_t i, const Outcome *outcome) {
    char verdict[512];
    fprintf(out, "%2zu  ", i + 1);
    print_wrapped(out, INDENT, CLAIMS[i].claim);
    if (CLAIMS[i].source) print_part(out, "source", CLAIMS[i].source);
    if (*outcome->measured) print_part(out, "measured", outcome->measured);
    snprintf(verdict, sizeof verdict, "%s. %s", VERDICTS[outcome->verdict], outcome->why);
    print_part(out, "verdict", verdict);
    fputc('\n', out);
}

static void write_field(FILE *out, const char *text) {
    fputc(',', out);
    text_write_field(text, true, out);
}

static void print_all(FILE *out, const Outcome *outcomes, bool csv) {
    size_t verdicts[VERDICT_COUNT] = {0};
    if (csv) fprintf(out, "number,claim,source,measured,verdict,why\n");
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        verdicts[outcomes[i].verdict]++;
        if (!csv) {
            print_claim(out, i, &outcomes[i]);
            continue;
        }
        fprintf(out, "%zu", i + 1);
        write_field(out, CLAIMS[i].claim);
        write_field(out, CLAIMS[i].source ? CLAIMS[i].source : "");
        write_field(out, outcomes[i].measured);
        write_field(out, VERDICTS[outcomes[i].verdict]);
        write_field(out, outcomes[i].why);
        fputc('\n', out);
    }
    if (csv) return;
    fprintf(out, "%zu claims:", CLAIM_COUNT);
    for (Verdict v = 0; v < VERDICT_COUNT; v++)
        if (verdicts[v]) fprintf(out, "\n%4zu %s", verdicts[v], VERDICTS[v]);
    fputc('\n', out);
}

static bool try_claim(size_t i, uint64_t seed, size_t threads, Outcome *outcome, Error *err) {
    const Claim *claim = &CLAIMS[i];
    Figure figures[STATISTICS_MAX][CASES_MAX] = {0};
    for (size_t c = 0; c < CASES_MAX && claim->cases[c].d_k; c++) {
        Sample sample;
        bool drawn = sample_draw(&sample, &claim->cases[c], seed, (uint32_t)i + 1, threads, err);
        for (size_t s = 0; drawn && s < STATISTICS_MAX && claim->statistics[s].take; s++)
            figures[s][c] = claim->statistics[s].take(&sample, claim->statistics[s].field);
        sample_free(&sample);
        if (!drawn) return false;
    }
    claim_judge(claim, figures, outcome);
    return true;
}

bool claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress, FILE *out, int *signal, Error *err) {
    Outcome *outcomes = calloc(CLAIM_COUNT, sizeof *outcomes);
    bool ok = outcomes || error_set(err, STATUS_FAILED, "no memory for %zu claims", CLAIM_COUNT);
    for (size_t i = 0; ok && i < CLAIM_COUNT && !interrupt_signal(); i++) {
        progress_count(progress, omp_get_wtime(), "claims", i, CLAIM_COUNT);
        ok = try_claim(i, seed, threads, &outcomes[i], err);
    }
    progress_clear(progress);
    *signal = interrupt_signal();
    if (ok && !*signal) print_all(out, outcomes, csv);
    free(outcomes);
    return ok;
}
