#include "sweep/arm_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/files.h"
#include "base/results.h"
#include "base/statistics.h"
#include "train/checkpoint.h"

const char *const ARM_STATE_NAMES[] = {"not started", "running", "finished", "diverged", "interrupted", "failed"};

double curve_first(const Curve *curve) { return curve->count ? curve->value[0] : NAN; }
double curve_last(const Curve *curve) { return curve->count ? curve->value[curve->count - 1] : NAN; }

ArmState arm_state_read(const char *directory, char *message, size_t capacity) {
    Json *run;
    Error ignored;
    ArmState state = ARM_WAITING;
    *message = 0;
    if (run_description_load(&run, directory, &ignored)) {
        const char *result = js_as_text(js_get(run, "result")), *error = js_as_text(js_get(run, "error"));
        for (state = ARM_FINISHED; state < ARM_FAILED; state++)
            if (result && strcmp(result, ARM_STATE_NAMES[state]) == 0) break;
        /* "running" is what a run says that was killed */
        if (state == ARM_FAILED && !(result && strcmp(result, "failed") == 0)) state = ARM_INTERRUPTED;
        snprintf(message, capacity, "%s", error ? error : "");
    }
    js_free(run);
    return state;
}

static bool curve_make(Curve *curve, size_t most, Error *err) {
    curve->step = calloc(most + 1, sizeof *curve->step);
    curve->value = calloc(most + 1, sizeof *curve->value);
    return (curve->step && curve->value) || error_set(err, STATUS_FAILED, "no memory for a curve of %zu points", most);
}

static void curve_add(Curve *curve, double step, double value) {
    curve->step[curve->count] = step;
    curve->value[curve->count++] = value;
}

static bool read_metrics(ArmResults *r, const char *directory, Error *err) {
    char path[4096];
    CsvTable table;
    size_t step, train, val, norm;
    Curve *losses = &r->curves[CURVE_TRAIN_LOSS], *validations = &r->curves[CURVE_VAL_LOSS];
    if (!path_join(path, sizeof path, directory, LOG_NAMES[LOG_METRICS], err)) return false;
    if (!path_exists(path)) return true;
    bool ok = csv_read(&table, path, err) && csv_column(&table, path, "step", &step, err) &&
              csv_column(&table, path, "train_loss", &train, err) && csv_column(&table, path, "val_loss", &val, err) &&
              csv_column(&table, path, "grad_norm", &norm, err) && curve_make(losses, table.rows, err) &&
              curve_make(validations, table.rows, err);
    double *norms = ok ? calloc(table.rows + 1, sizeof *norms) : NULL;
    if (ok && !norms) ok = error_set(err, STATUS_FAILED, "no memory for %zu numbers", table.rows);
    for (size_t row = 0; ok && row < table.rows; row++) {
        double at = csv_at(&table, row, step), loss = csv_at(&table, row, val);
        curve_add(losses, at, csv_at(&table, row, train));
        norms[row] = csv_at(&table, row, norm);
        if (isnan(loss)) continue;
        curve_add(validations, at, loss);
        if (loss < r->best_val_loss || isnan(r->best_val_loss)) r->best_val_loss = loss, r->best_step = (size_t)at;
    }
    if (ok) r->grad_norm_median = median_of(norms, table.rows);
    free(norms);
    csv_free(&table);
    return ok;
}

/* From MEANS on in the order of the curves, but for the last, which is the product of two columns. */
enum { STEP, LAYER, MEANS, W_Q_NORM = MEANS + CURVE_QK_NORM - CURVE_ENTROPY, W_K_NORM, COLUMNS };
static const char *const ATTENTION_COLUMNS[COLUMNS] = {
    "step",     "layer",   "entropy", "score_std", "saturated", "grad_q_median", "grad_scores_median",
    "w_q_norm", "w_k_norm"};

/* Rows come look by look, in each layer by layer and head by head. */
static bool collect_looks(ArmResults *r, const CsvTable *table, const size_t column[COLUMNS], const char *path,
                          Error *err) {
    size_t all = 0; /* heads of all layers */
    while (all < table->rows && csv_at(table, all, column[STEP]) == csv_at(table, 0, column[STEP]))
        r->heads += csv_at(table, all++, column[LAYER]) == 0;
    size_t looks = all ? table->rows / all : 0; /* the last one may have been cut off */
    r->entropy = calloc(looks * r->heads + 1, sizeof *r->entropy);
    r->score_std = calloc(looks * r->heads + 1, sizeof *r->score_std);
    if (!r->entropy || !r->score_std) return error_set(err, STATUS_FAILED, "no memory for %zu looks", looks);
    for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++)
        if (!curve_make(&r->curves[kind], looks, err)) return false;
    for (size_t look = 0; look < looks; look++) {
        double sums[CURVE_COUNT] = {0}, step = csv_at(table, look * all, column[STEP]);
        for (size_t i = 0; i < all; i++) {
            size_t row = look * all + i;
            if (csv_at(table, row, column[STEP]) != step)
                return error_set(err, STATUS_USAGE, "%s:%zu: step %g has not the %zu rows of the first one", path,
                                 row + 2, step, all);
            for (int c = MEANS; c < W_Q_NORM; c++) sums[CURVE_ENTROPY + c - MEANS] += csv_at(table, row, column[c]);
            sums[CURVE_QK_NORM] += csv_at(table, row, column[W_Q_NORM]) * csv_at(table, row, column[W_K_NORM]);
            if (i >= r->heads) continue;
            r->entropy[look * r->heads + i] = csv_at(table, row, column[MEANS]);
            r->score_std[look * r->heads + i] = csv_at(table, row, column[MEANS + CURVE_SCORE_STD - CURVE_ENTROPY]);
        }
        for (int kind = CURVE_ENTROPY; kind < CURVE_COUNT; kind++)
            curve_add(&r->curves[kind], step, sums[kind] / (double)all);
    }
    return true;
}

static bool read_attention(ArmResults *r, const char *directory, Error *err) {
    char path[4096];
    CsvTable table;
    size_t column[COLUMNS] = {0};
    if (!path_join(path, sizeof path, directory, LOG_NAMES[LOG_ATTENTION], err)) return false;
    if (!path_exists(path)) return true;
    bool ok = csv_read(&table, path, err);
    for (size_t i = 0; ok && i < COLUMNS; i++) ok = csv_column(&table, path, ATTENTION_COLUMNS[i], &column[i], err);
    ok = ok && collect_looks(r, &table, column, path, err);
    csv_free(&table);
    return ok;
}

bool arm_results_read(ArmResults *r, const char *directory, Error *err) {
    Json *run;
    Error ignored;
    *r = (ArmResults){.grad_norm_median = NAN, .best_val_loss = NAN, .steps = NAN, .seconds = NAN, .threads = NAN};
    if (run_description_load(&run, directory, &ignored)) {
        js_as_number(js_get(run, "steps"), &r->steps);
        js_as_number(js_get(run, "seconds"), &r->seconds);
        js_as_number(js_get(run, "threads"), &r->threads);
    }
    js_free(run);
    return read_metrics(r, directory, err) && read_attention(r, directory, err);
}

void arm_results_free(ArmResults *r) {
    for (int kind = 0; kind < CURVE_COUNT; kind++) {
        free(r->curves[kind].step);
        free(r->curves[kind].value);
    }
    free(r->entropy);
    free(r->score_std);
    *r = (ArmResults){0};
}
