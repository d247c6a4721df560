/* What an arm left on disk, read back: run.json, metrics.csv, attention.csv. The tables and pictures of a sweep are
   made from this, and attention_compare.png from the arms' snapshots too, so that a sweep that was stopped and resumed
   gives the same files as one that ran through. */
#pragma once

#include "config/config.h"

typedef enum { ARM_WAITING, ARM_RUNNING, ARM_FINISHED, ARM_DIVERGED, ARM_INTERRUPTED, ARM_FAILED } ArmState;
extern const char *const ARM_STATE_NAMES[]; /* as in summary.csv */

/* How the run in `directory` ended, from its run.json: ARM_WAITING where there is none, ARM_INTERRUPTED where it was
   killed. `message` gets its error, "" without one. Fails where there is a run.json that cannot be read or is not of
   this program. */
bool arm_state_read(const char *directory, ArmState *state, char *message, size_t capacity, Error *err);

typedef struct {
    size_t count;
    double *step, *value; /* (count) */
} Curve;

/* Those from CURVE_ENTROPY on are attention.csv's, means over all heads of all layers. */
typedef enum {
    CURVE_TRAIN_LOSS,
    CURVE_VAL_LOSS,
    CURVE_ENTROPY,
    CURVE_SCORE_STD,
    CURVE_SATURATED,
    CURVE_GRAD_Q,      /* of the medians */
    CURVE_GRAD_SCORES, /* likewise */
    CURVE_QK_NORM,     /* |W_Q| |W_K|, Frobenius norms */
    CURVE_COUNT
} CurveKind;

typedef struct {
    Curve curves[CURVE_COUNT];
    double *entropy, *score_std; /* (steps, heads) of layer 0, at the steps of curves[CURVE_ENTROPY] */
    size_t heads;
    double grad_norm_median, best_val_loss; /* NaN: none */
    size_t best_step;
    double steps, seconds; /* of run.json; of a run that has not ended, of the last row of metrics.csv; NaN: neither */
    double threads;        /* of run.json; NaN: it does not say */
} ArmResults;

/* A directory that is not there is a run with nothing measured. Errors have status STATUS_USAGE where a file is not as
   the program writes it. Free with arm_results_free, also after a failure. */
bool arm_results_read(ArmResults *results, const char *directory, Error *err);
void arm_results_free(ArmResults *results);

/* The first and last value of a curve; NaN of an empty one. */
double curve_first(const Curve *curve);
double curve_last(const Curve *curve);
/* The step of the last value; NaN of an empty curve. */
double curve_last_step(const Curve *curve);
