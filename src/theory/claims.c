/* Reads the table of claims, judges each by what was measured, and prints it. A claim that nothing is measured for is
   printed as it stands in the table. */
#include "theory/claims.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/text.h"

extern const char sqrtdk_claims[]; /* claims.S */

enum { CLAIMS_MAX = 64, COLUMNS = 80, LABEL = 14 };

size_t claims_read(Claim *claims, size_t limit) {
    size_t count = 0;
    for (const char *row = sqrtdk_claims; count < limit && (row = strstr(row, "\n| ")); row++) {
        Claim *c = &claims[count];
        c->number = strtoul(row + 3, NULL, 10);
        if (sscanf(row, "\n| %*u |%1023[^|]|%1023[^|]|%1023[^|]| **%1023[^*]** |%1023[^|]|", c->cells[0], c->cells[1],
                   c->cells[2], c->cells[3], c->cells[4]) != CLAIM_CELLS)
            continue; /* the head of the table */
        for (size_t i = 0; i < CLAIM_CELLS; i++) {
            const char *text = text_trim(c->cells[i]);
            memmove(c->cells[i], text, strlen(text) + 1);
        }
        count++;
    }
    return count;
}

void claim_judge(const ClaimTest *test, Claim *claim) {
    const bool all = test->held == test->said;
    const char *verdict = all ? "right" : test->held > 0 ? "partly right" : "wrong";
    char *const table = claim->cells[CLAIM_VERDICT], *const why = claim->cells[CLAIM_WHY];
    const bool qualified = strcmp(table, "partly right") != 0 && strcmp(table, "wrong") != 0;
    memcpy(claim->cells[CLAIM_MEASURED], test->measured, sizeof test->measured);
    if (strcmp(verdict, table) == 0 || (all && qualified)) return;
    *why = 0;
    text_append(why, sizeof *claim->cells, "docs/claims.md explains another verdict: %s.", table);
    snprintf(table, sizeof *claim->cells, "%s", verdict);
}

/* Prints a label and a text, which begins at column `start` in every line. Lines have at most COLUMNS. */
static void print_part(const char *label, int start, const char *text) {
    size_t line;
    for (const char *next; *text; text = next, label = "") {
        next = text_next_line(text, (size_t)(COLUMNS - start), &line);
        printf("%-*s%.*s\n", start, label, (int)line, text);
    }
}

static void print_claim(const Claim *c) {
    char number[32], verdict[2 * sizeof *c->cells] = "";
    snprintf(number, sizeof number, "%2zu", c->number);
    text_append(verdict, sizeof verdict, "%s. %s", c->cells[CLAIM_VERDICT], c->cells[CLAIM_WHY]);
    print_part(number, 4, c->cells[CLAIM_TEXT]);
    if (*c->cells[CLAIM_SOURCE]) print_part("    source", LABEL, c->cells[CLAIM_SOURCE]);
    if (*c->cells[CLAIM_MEASURED]) print_part("    measured", LABEL, c->cells[CLAIM_MEASURED]);
    print_part("    verdict", LABEL, verdict);
    putchar('\n');
}

static void print_csv(const Claim *c) {
    printf("%zu", c->number);
    for (size_t i = 0; i < CLAIM_CELLS; i++) {
        putchar(',');
        text_write_field(c->cells[i], true, stdout);
    }
    putchar('\n');
}

void claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress) {
    static Claim claims[CLAIMS_MAX];
    const size_t count = claims_read(claims, CLAIMS_MAX);
    if (csv) printf("number,claim,source,measured,verdict,why\n");
    for (size_t i = 0; i < count; i++) {
        ClaimTest test = {.seed = seed, .threads = threads};
        progress_count(progress, omp_get_wtime(), "claims", i, count);
        claim_measure(claims[i].number, &test);
        progress_clear(progress);
        if (interrupt_signal()) return;
        if (*test.measured) claim_judge(&test, &claims[i]);
        (csv ? print_csv : print_claim)(&claims[i]);
    }
}
