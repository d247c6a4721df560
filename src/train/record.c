#include "train/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static size_t times(int64_t steps, int64_t every) { return every > 0 ? (size_t)(steps / every) : 0; }

/* calloc of a product of two sizes that is checked. */
static void *make_array(size_t count, size_t size) {
    return size_mul(count, size) == SIZE_MAX ? NULL : calloc(count ? count : 1, size);
}

static bool make_look(Look *look, const ModelShape *shape) {
    size_t heads = size_mul(shape->L, shape->attention.H);
    look->heads = make_array(heads, sizeof *look->heads);
    look->gradients = make_array(heads, sizeof *look->gradients);
    look->weights = make_array(heads, sizeof *look->weights * PICTURE_TEXT_MAX * PICTURE_TEXT_MAX);
    return look->heads && look->gradients && look->weights;
}

static void free_look(Look *look) {
    free(look->heads);
    free(look->gradients);
    free(look->weights);
}

bool record_make(RunRecord *r, const Config *config, const ModelShape *shape, Error *err) {
    int64_t steps = config->train.steps;
    *r = (RunRecord){.L = shape->L, .H = shape->attention.H, .best_val_loss = INFINITY};
    r->val_capacity = times(steps, config->eval.every) + 2;
    r->train_capacity = times(steps, config->log.every) + r->val_capacity;
    r->train_step = make_array(r->train_capacity, sizeof *r->train_step);
    r->train_loss = make_array(r->train_capacity, sizeof *r->train_loss);
    r->val_step = make_array(r->val_capacity, sizeof *r->val_step);
    r->val_loss = make_array(r->val_capacity, sizeof *r->val_loss);
    bool looks = make_look(&r->first, shape);
    looks = make_look(&r->last, shape) && looks;
    if (r->train_step && r->train_loss && r->val_step && r->val_loss && looks) return true;
    record_free(r);
    return error_set(err, STATUS_FAILED, "no memory for the record of the run");
}

void record_free(RunRecord *r) {
    free(r->train_step);
    free(r->train_loss);
    free(r->val_step);
    free(r->val_loss);
    free_look(&r->first);
    free_look(&r->last);
    *r = (RunRecord){0};
}

void record_train_loss(RunRecord *r, size_t step, double loss) {
    if (r->train_count == r->train_capacity) return;
    r->train_step[r->train_count] = (double)step;
    r->train_loss[r->train_count++] = loss;
}

void record_val_loss(RunRecord *r, size_t step, double loss) {
    if (r->val_count == r->val_capacity) return;
    r->val_step[r->val_count] = (double)step;
    r->val_loss[r->val_count++] = loss;
}

bool record_best(RunRecord *r, size_t step, double loss) {
    if (!(loss < r->best_val_loss)) return false;
    r->best_val_loss = loss;
    r->best_step = step;
    return true;
}

Look *record_next_look(RunRecord *r) { return r->looks == 0 ? &r->first : &r->last; }

void record_looked(RunRecord *r) {
    if (r->looks++ > 0) return;
    size_t heads = r->L * r->H;
    r->last.step = r->first.step;
    memcpy(r->last.heads, r->first.heads, heads * sizeof *r->first.heads);
    memcpy(r->last.gradients, r->first.gradients, heads * sizeof *r->first.gradients);
    memcpy(r->last.weights, r->first.weights, heads * r->text_length * r->text_length * sizeof *r->first.weights);
}

double record_mean_entropy(const RunRecord *r, const Look *look) {
    double sum = 0;
    for (size_t i = 0; i < r->L * r->H; i++) sum += look->heads[i].entropy;
    return sum / (double)(r->L * r->H);
}
