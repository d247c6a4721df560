/* What the files of this folder share; but for a test, nothing else includes this. The order of things: sweep_find
   decides on the directory, sweep_open makes or enters it, sweep_train trains; then what the arms wrote is read back,
   and the writers make tables and pictures of that. */
#pragma once

#include "base/json.h"
#include "base/results.h"
#include "base/statistics.h"
#include "show/palette.h"
#include "sweep/arm_results.h"
#include "sweep/arms.h"
#include "sweep/child.h"
#include "sweep/sweep.h"

typedef struct {
    ArmState state;
    char message[1024]; /* of one that diverged or failed, one line; else empty */
    Child child;
    ArmResults results;
    /* for the eye, from the end of metrics.csv */
    size_t step;
    double train_loss, val_loss, began; /* began: when it was last started, in seconds */
    size_t read;                        /* bytes of metrics.csv */
    double blocked;                     /* since when another process has been in its directory; 0: none is */
} ArmRun;

typedef struct {
    const SweepOptions *options;
    Arms arms;
    ArmRun *runs; /* (arms.count); that of an arm that is the same as another is not used: see sweep_run_of */
    char directory[2048];
    bool resumed;          /* it was there */
    int lock;              /* on one that was there; -1: none */
    ResultsDirectory made; /* or one that was made */
    Json *description;     /* run.json */
    size_t threads, slots; /* of an arm; arms at a time */
    double began;          /* when the view was first due, and the steps that had been made by then: */
    size_t steps_before;   /* the speed is that of this process */
} Sweep;

/* The run that is an arm's, perhaps by way of another. */
static inline ArmRun *sweep_run_of(const Sweep *sweep, size_t arm) {
    return &sweep->runs[sweep->arms.arms[arm].same_as];
}
/* "directory/name of the arm" */
bool sweep_arm_path(const Sweep *sweep, size_t arm, char path[4096], Error *err);

/* directory.c. sweep_find: where the sweep goes, and whether it was begun there (then `resumed`, and locked); writes
   nothing. sweep_enter: the same for a directory that is named, and the config that the sweep in it began with, before
   there are arms. Both fail, with STATUS_USAGE, where config.ini is not what it was then (run.json has its text).
   sweep_open makes the directory, or notes in its run.json that it is resumed. sweep_save brings run.json to the arms'
   present states; `result` as of a run ("running", "finished", "interrupted", "failed"). */
bool sweep_find(Sweep *sweep, Error *err);
bool sweep_enter(Sweep *sweep, const char *directory, Config *config, bool *finished, Error *err);
bool sweep_open(Sweep *sweep, Error *err);
bool sweep_save(Sweep *sweep, const char *result, Error *err);
void sweep_write_config(const Arms *arms, FILE *out);
/* Fails, with STATUS_USAGE, where the directory's config.ini cannot be read or is not `recorded`, with which `whose`
   ("this arm") began: names the first line that differs. */
bool sweep_check_config(const char *directory, const char *recorded, const char *whose, Error *err);

/* train.c. sweep_load_states finds out which arms of a sweep that is resumed have ended, and returns whether any has
   not; one whose run.json or config cannot be accepted has failed. sweep_train trains those until none is left or a
   signal came, which it returns. An arm's failure is the arm's. */
bool sweep_load_states(Sweep *sweep);
int sweep_train(Sweep *sweep);

/* view.c: the one progress view. sweep_read_progress reads what an arm has written since. */
void sweep_read_progress(const Sweep *sweep, size_t arm);
void sweep_view(Sweep *sweep, double now);
void sweep_report_end(const Sweep *sweep, size_t arm, double now);

/* groups.c. What a group comes to over its seeds; only arms that finished count. */
typedef struct {
    size_t finished, diverged;
    Interval val_loss, best_val_loss, entropy_first, entropy_last, score_std_first, score_std_last, grad_norm;
    Interval difference; /* of the validation loss to that of the reference, seed by seed; count 0: none */
} GroupSummary;
GroupSummary sweep_group(const Sweep *sweep, size_t group);
/* Whether any group is compared with another one. */
bool sweep_is_compared(const Sweep *sweep);
/* A point of a line: the mean, and the ends of its interval or, as `range`, the lowest and the highest value. */
typedef struct {
    double mean, low, high;
} Band;
Band sweep_band(const double *values, size_t count, bool range);
/* The final validation losses of a group's runs that finished; returns how many. */
size_t sweep_group_losses(const Sweep *sweep, size_t group, double losses[SWEEP_VALUES_MAX]);
/* "1.6930 ± 0.0123", "1.6930" of a single value, "-" of none. */
const char *sweep_interval_text(Interval interval, const char *format, char out[64]);
/* How many seeds finished, of a group that has any: the fewest and the most. Over SWEEP_FEW_SEEDS an interval is wider
   than anything; where some group has no more, all bands are `range`s, from the lowest to the highest. */
enum { SWEEP_FEW_SEEDS = 2 };
typedef struct {
    size_t fewest, most;
    bool range;
} Seeds;
Seeds sweep_seeds(const Sweep *sweep);
/* For subtitles: "line: mean over 3 seeds; band: 95 % interval of the mean". */
void sweep_describe_band(const char *what, Seeds seeds, char *out, size_t capacity);

/* The files; each of its own source. */
bool sweep_write_csv(const Sweep *sweep, Error *err);
bool sweep_write_markdown(const Sweep *sweep, Error *err);
void sweep_print_table(const Sweep *sweep, FILE *out);
bool sweep_draw_curves(const Sweep *sweep, Error *err);
/* matrix.c: the losses by divisor and by everything else; nothing where the divisor is not swept, or nothing
 * else. */
void sweep_write_matrices(const Sweep *sweep, FILE *out);
/* final.c: final.png, the final losses against a swept number, where one has values enough to make a curve. */
bool sweep_has_final(const Sweep *sweep);
bool sweep_draw_final(const Sweep *sweep, Error *err);
bool sweep_draw_attention(const Sweep *sweep, Error *err);

enum { SWEEP_LINES_MAX = 24 };

/* order.c. All groups in the order in which pictures show them: by divisor, then by the other swept keys. */
void sweep_sort(const Sweep *sweep, size_t groups[ARMS_MAX]);
/* The same without those whose runs are another group's, which names them in its legend; returns how many are left. */
size_t sweep_shown(const Sweep *sweep, size_t groups[ARMS_MAX]);
/* The colour and marker of a group: by its divisor, with `dash` by what else it differs in from others; or the index-th
   of the palette where groups differ in other keys alone. The key `without` does not count: it is the x axis. */
Style sweep_style(const Sweep *sweep, size_t group, size_t without, size_t index, double *dash);
/* A group's value of a swept key, the divisor's in units of √d_k; NaN where it is no number. */
double sweep_number(const Sweep *sweep, size_t axis, size_t group);
/* For titles: appends " by divisor and lr", nothing where only the seed is swept. */
void sweep_append_keys(const Sweep *sweep, char *out, size_t capacity);
/* And what came out: ": 1.684 for ÷ 2√d_k = 16 to 2.291 for ÷ 1 (none)", the lowest and the highest value (NaN: none).
 */
typedef struct {
    size_t group;
    double value;
} Outcome;
void sweep_append_ends(const Sweep *sweep, const Outcome *outcomes, size_t count, const char *format, char *out,
                       size_t capacity);

/* What final.png shows. A line is of the groups that differ in the one key, its points in the order of x. */
typedef struct {
    size_t group; /* one of them */
    size_t count, diverged;
    bool band; /* some point has two runs or more */
    double x[SWEEP_VALUES_MAX];
    double mean[SWEEP_VALUES_MAX], low[SWEEP_VALUES_MAX], high[SWEEP_VALUES_MAX]; /* NaN: no run, or no two */
} FinalLine;
typedef struct {
    size_t axis;        /* the swept key */
    size_t count, more; /* lines, and points that were left out for want of one */
    Seeds seeds;
    double base; /* of the logarithmic x axis; 0: it is linear */
    FinalLine lines[SWEEP_LINES_MAX];
} FinalLosses;
/* False where no swept number has values enough. */
bool sweep_final_losses(const Sweep *sweep, FinalLosses *losses);
