/* What a run has seen so far: its curves, and what its attention did at the first and at the last look. Filled by the
   trainer; pictures, tables and sweeps are made from it. */
#ifndef SQRTDK_TRAIN_RECORD_H
#define SQRTDK_TRAIN_RECORD_H

#include "model/probe.h"

enum { PICTURE_TEXT_MAX = 48 };

/* Attention at one step: of every head over the fixed batch, and its weights on the fixed text. */
typedef struct {
    size_t step;
    HeadStatistics *heads;         /* (L, H) */
    GradientStatistics *gradients; /* (L, H) */
    float *weights;                /* (L, H, text_length, text_length) */
} Look;

typedef struct {
    size_t L, H;
    double *train_step, *train_loss; /* (train_count) */
    double *val_step, *val_loss;     /* (val_count) */
    size_t train_count, val_count, train_capacity, val_capacity;
    uint32_t text[PICTURE_TEXT_MAX]; /* code points */
    size_t text_length;
    size_t looks;     /* how many there were */
    Look first, last; /* last is also where the latest one goes */
    double best_val_loss, seconds;
    size_t best_step, steps_done;
    int signal; /* that ended the run early, or 0 */
    char directory[2048];
} RunRecord;

bool record_make(RunRecord *record, const Config *config, const ModelShape *shape, Error *err);
void record_free(RunRecord *record);

void record_train_loss(RunRecord *record, size_t step, double loss);
void record_val_loss(RunRecord *record, size_t step, double loss);
/* Whether a validation loss is the lowest so far; then it is kept as such. */
bool record_best(RunRecord *record, size_t step, double loss);

/* Where the next look goes: `first` if there was none, else `last`. record_looked counts it and keeps `last` complete.
 */
Look *record_next_look(RunRecord *record);
void record_looked(RunRecord *record);

/* Means over all heads of a look. */
double record_mean_entropy(const RunRecord *record, const Look *look);

static inline float *look_weights(const RunRecord *record, const Look *look, size_t layer, size_t head) {
    return look->weights + (layer * record->H + head) * record->text_length * record->text_length;
}

#endif
