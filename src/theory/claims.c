#include "theory/claims.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/interrupt.h"
#include "base/utf8.h"
#include "theory/claims_try.h"

enum { COLUMNS = 80, INDENT = 4, LABEL = 10 };

#define VASWANI "Vaswani et al. 2017, Attention Is All You Need"
#define BRITZ "Britz et al. 2017, Massive Exploration of Neural Machine Translation Architectures"
#define YANG "Yang et al. 2022, Tensor Programs V"
#define HENRY "Henry et al. 2020, Query-Key Normalization for Transformers"
#define WORTSMAN "Wortsman et al. 2023, Small-scale proxies for large-scale Transformer training instabilities"
#define COMMON "" /* in circulation, nobody's in particular */

/* The order is the numbering, on which the random numbers depend: append. */
static const struct {
    const char *said, *source;
    TryFunction attempt; /* NULL: cannot be tried by drawing queries and keys; `otherwise` and `why` say so */
    Verdict otherwise;
    const char *why;
} CLAIMS[] = {
    {"q = (0.5, -0.3, 1.2) and k = (-0.7, 0.4, 0.9): q·k = 0.61, over √3 0.35; Var(q·k) = 3 = d_k, after dividing 1",
     COMMON, try_vectors, 0, NULL},
    {"Marks 10, 80, 500, 4000, 20000 in five subjects with different full marks: shares .00009 .00072 .0045 .036 .18; the small ones cannot learn",
     COMMON, try_subjects, 0, NULL},
    {"Dividing brings the scores to -1..1", COMMON, try_interval, 0, NULL},
    {"softmax(-24, -10, 0, 10, 24) = 0 0 0 0 1", COMMON, try_large_row, 0, NULL},
    {"softmax(-3, -1, 0, 1, 3) = .012 .089 .243 .661 .995", COMMON, try_small_row, 0, NULL},
    {"Softmax's derivative p(1-p) is about 0 undivided and above 0.01 divided", COMMON, try_derivative, 0, NULL},
    {"10 keys, d_k 16 / 64 / 256: entropy undivided 2.1 / 0.8 / 0.2, divided 2.3 each time", COMMON, try_entropy, 0,
     NULL},
    {"The same, largest weight of a 10x10 matrix: undivided .342 / .891 / .998, divided .289 / .276 / .301", COMMON,
     try_largest, 0, NULL},
    {"The norm of dL/dQ falls as 1/d_k undivided and is constant divided", COMMON, try_gradient, 0, NULL},
    {"Table 3, rows (B), of the Transformer's paper shows that models without the divisor improve when d_k falls from 64 to 32",
     VASWANI, try_table_3, 0, NULL},
    {"Additive attention, v·tanh(W1 q + W2 k), needs no scaling because tanh is bounded", COMMON, try_additive, 0,
     NULL},
    {"Additive attention is slower", VASWANI, try_additive_cost, 0, NULL},
    {"Undivided dot products do as well as additive attention at small d_k and worse at large d_k; divided they do well at every d_k",
     VASWANI, NULL, VERDICT_TRAINING,
     "docs/results.md has the dot products, for several d_k. This program has no additive attention to train."},
    {"(q·k)/√d_k is N(0, 1)", COMMON, try_normal, 0, NULL},
    {"Dividing by √d_k is like BatchNorm without the mean", COMMON, try_batchnorm, 0, NULL},
    {"Undivided scores may overflow a float", COMMON, try_float, 0, NULL},
    {"In fp16, undivided scores overflow", COMMON, try_half, 0, NULL},
    {"Dividing by d_k: variance 1/d_k, weights nearly uniform", COMMON, try_divisor_dk, 0, NULL},
    {"Dividing by 2√d_k: variance 1/4", COMMON, try_divisor_2sqrt, 0, NULL},
    {"Dividing by d_k, or by 2√d_k, trains worse than by √d_k", COMMON, NULL, VERDICT_TRAINING,
     "Drawing queries and keys says nothing about it: docs/results.md."},
    {"8 keys, d_k 32 / 128 / 512: undivided softmax is much sharper", COMMON, try_sharper, 0, NULL},
    {"Training without the divisor is unstable at d_k 512", COMMON, NULL, VERDICT_TRAINING,
     "Drawing queries and keys says nothing about it: docs/results.md."},
    {"Cross-attention between modalities of different variance (text 10x768, image 49x768): the divisor keeps the scores aligned",
     COMMON, try_cross_attention, 0, NULL},
    {"Scaling only V does not cure saturation", COMMON, try_values, 0, NULL},
    {"A softmax temperature, or normalised Q and K (cosine attention), can replace the divisor", COMMON,
     try_temperature, 0, NULL},
    {"With several heads, divide by the root of each head's own d_k", COMMON, try_own_dk, 0, NULL},
    {"Multi-head attention has 3·h·d_model·d_k + d_model² parameters, however many heads", COMMON, try_parameters, 0,
     NULL},
    {"Several heads attend to different things (subspaces, near and far)", COMMON, NULL, VERDICT_TRAINING,
     "What heads attend to is learned; the pictures of a run, attention/*.png, show it."},
    {"BLEU of undivided dot-product attention at 128 / 256 / 512 / 1024: 22.03 / 22.33 / 21.78 / 18.22", BRITZ,
     try_britz, 0, NULL},
    {"Divide by d_k, not √d_k, so that hyper-parameters transfer over width", YANG, try_mup, 0, NULL},
    {"Normalised queries and keys with a learned scale keep the scores in hand", HENRY, try_qk_norm, 0, NULL},
    {"Growth of attention logits predicts instability at high learning rates", WORTSMAN, NULL, VERDICT_TRAINING,
     "Drawing queries and keys says nothing about it: docs/results.md. attention.csv logs score_std and score_max of every run."},
};
enum { CLAIM_COUNT = sizeof CLAIMS / sizeof *CLAIMS };

static const char *verdict_text(Verdict verdict) {
    switch (verdict) {
    case VERDICT_RIGHT: return "right";
    case VERDICT_WRONG: return "wrong";
    case VERDICT_PARTLY: return "partly right";
    case VERDICT_OTHER_REASON: return "right for another reason";
    case VERDICT_TRAINING: return "about training";
    case VERDICT_OUTSIDE: return "not testable by this program";
    }
    return "?";
}

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
    print_wrapped(out, INDENT, CLAIMS[i].said);
    if (*CLAIMS[i].source) print_part(out, "source", CLAIMS[i].source);
    if (*outcome->measured) print_part(out, "measured", outcome->measured);
    snprintf(verdict, sizeof verdict, "%s. %s", verdict_text(outcome->verdict), outcome->why);
    print_part(out, "verdict", verdict);
    fputc('\n', out);
}

static void write_field(FILE *out, const char *text) {
    fputc(',', out);
    csv_write_quoted(out, text);
}

static void print_all(FILE *out, const Outcome *outcomes, bool csv) {
    size_t verdicts[VERDICT_OUTSIDE + 1] = {0};
    if (csv) fprintf(out, "number,claim,source,measured,verdict,why\n");
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        verdicts[outcomes[i].verdict]++;
        if (!csv) {
            print_claim(out, i, &outcomes[i]);
            continue;
        }
        fprintf(out, "%zu", i + 1);
        write_field(out, CLAIMS[i].said);
        write_field(out, CLAIMS[i].source);
        write_field(out, outcomes[i].measured);
        write_field(out, verdict_text(outcomes[i].verdict));
        write_field(out, outcomes[i].why);
        fputc('\n', out);
    }
    if (csv) return;
    fprintf(out, "%d claims:", CLAIM_COUNT);
    for (Verdict v = 0; v <= VERDICT_OUTSIDE; v++)
        if (verdicts[v]) fprintf(out, "\n%4zu %s", verdicts[v], verdict_text(v));
    fputc('\n', out);
}

bool claims_run(uint64_t seed, size_t threads, bool csv, Progress *progress, FILE *out, int *signal, Error *err) {
    Outcome *outcomes = calloc(CLAIM_COUNT, sizeof *outcomes);
    bool ok = outcomes || error_set(err, STATUS_FAILED, "no memory for %d claims", CLAIM_COUNT);
    for (size_t i = 0; ok && i < CLAIM_COUNT && !interrupt_signal(); i++) {
        const Trial trial = {.seed = seed, .threads = threads, .number = (uint32_t)i + 1};
        progress_count(progress, omp_get_wtime(), "claims", i, CLAIM_COUNT);
        if (CLAIMS[i].attempt)
            ok = CLAIMS[i].attempt(&trial, &outcomes[i], err);
        else
            outcome_why(&outcomes[i], CLAIMS[i].otherwise, "%s", CLAIMS[i].why);
    }
    progress_clear(progress);
    *signal = interrupt_signal();
    if (ok && !*signal) print_all(out, outcomes, csv);
    free(outcomes);
    return ok;
}
