/* An ablation: every combination of a config's [sweep] section, side by side on the cores. Each run is trained in a
   directory by a process: this program, started once more. A run that fails or is killed ends no other run, and the
   tables are made from what the runs wrote.

   A setting is what the runs share that differ in nothing but the seed. sweep_plan makes runs and settings from the
   config, sweep_open makes or enters the directory, sweep_train trains. Then everything is read back from what the runs
   wrote: sweep_read_back, and the writers of tables. First the functions of the verbs (lab/sweep.c), then what they are
   made of, which reports and sentences read. */
#pragma once

#include <sys/types.h>

#include "lab/statistics.h"
#include "lab/sweep/section.h"
#include "train/trainer.h"

typedef struct {
    size_t threads;  /* of all runs together */
    const char *out; /* as in TrainOptions, as are the next three */
    bool force;
    const char *command_line;
    Progress *progress;
    size_t jobs;         /* the number of runs to train at a time; 0: as many as threads and memory allow */
    bool pages;          /* write the page and the pictures of the sweep, and the pages of runs that lack one */
    const char *program; /* the program that trains a run; NULL: the one that runs */
} SweepOptions;

/* Trains every combination of `axes` in a new directory, then writes summary.csv into it and the table of settings to
   `out`. Runs with the same seed share their initialization and batches to the bit.

   A run that diverges is recorded as such and is no failure. A run that fails is recorded with its message and does not
   stop the others, and one whose files are damaged is named and left out; then this function ends with an error. A
   signal (interrupt_catch) to this process or to that of a run makes all runs save a checkpoint and end; then the
   tables are written from the runs so far. Returns that signal, or 0. If this process is killed, the runs that it
   started train on to their end. Nothing is written before every run has passed trainer_check. */
int sweep_run(const Config *config, const SweepAxes *axes, const SweepOptions *options, FILE *out);

/* sweep_is returns whether `directory` is that of a sweep. If it is, sweep_resume continues it, ignoring options->out:
   runs that have finished or diverged stay as they are, the others are resumed or started. A run that another process
   trains is named, and left to that process. If there is nothing to train, only the tables are written again. Refuses a
   directory in which another process is training, a run that was trained with another config than config.ini gives it
   now, another text. */
bool sweep_is(const char *directory);
int sweep_resume(const char *directory, const SweepOptions *options, FILE *out);

/* A sweep whose runs others start: a scheduler, `parallel`, a person. sweep_prepare makes the directory, with a config
   for each run in configs/ and commands.txt, which has a line for each run: a command of the shell that begins or
   resumes it. It writes the number of runs to `out`. sweep_tables writes summary.csv, the page and run.json from the
   runs so far, also while some train; it writes to `out` the table, why runs are missing, and their commands. It ends
   as sweep_run does. */
void sweep_prepare(const Config *config, const SweepAxes *axes, const SweepOptions *options, FILE *out);
void sweep_tables(const char *directory, const SweepOptions *options, FILE *out);

/* --- runs and settings */

enum { RUNS_MAX = 4096, RUN_NAME = 200, SETTING_LABEL = 320 };

/* The measures of a run, in the order of summary.csv: the constant of each, its column, and printf's format in it.
   Steps and seconds are from run.json or, for a run that has not ended, from the last row of metrics.csv; threads are
   from run.json. train_loss_mean is over the last tenth of the steps, since single batches vary; grad_norm_max is after
   the warmup. Each row of HEADS is two measures, MEASURE_..._FIRST and _LAST: means of a column of attention.csv over
   all heads of all layers, at the first and the last step. Those of gradients are means of the heads' medians; qk_norm
   is |W_Q| |W_K|, Frobenius norms. */
#define HEADS(ROW, measure, name, column)                                                                              \
    ROW(measure##_FIRST, name "_first", "%.6g", column)                                                                \
    ROW(measure##_LAST, name "_last", "%.6g", column)
#define MEASURES_TABLE(ROW)                                                                                            \
    ROW(MEASURE_STEPS, "steps", .format = "%.0f")                                                                      \
    ROW(MEASURE_TRAIN_LOSS, "train_loss", .format = "%.7g")                                                            \
    ROW(MEASURE_TRAIN_LOSS_MEAN, "train_loss_mean", .format = "%.7g")                                                  \
    ROW(MEASURE_VAL_LOSS, "val_loss", .format = "%.7g")                                                                \
    ROW(MEASURE_BEST_VAL_LOSS, "best_val_loss", .format = "%.7g")                                                      \
    ROW(MEASURE_BEST_STEP, "best_step", .format = "%.0f")                                                              \
    ROW(MEASURE_VAL_ACCURACY, "val_accuracy", .format = "%.6g")                                                        \
    HEADS(ROW, MEASURE_ENTROPY, "entropy", ATTENTION_ENTROPY)                                                          \
    HEADS(ROW, MEASURE_SCORE_STD, "score_std", ATTENTION_SCORE_STD)                                                    \
    HEADS(ROW, MEASURE_SATURATED, "saturated", ATTENTION_SATURATED)                                                    \
    HEADS(ROW, MEASURE_GRAD_Q, "grad_q", ATTENTION_GRAD_Q_MEDIAN)                                                      \
    HEADS(ROW, MEASURE_GRAD_SCORES, "grad_scores", ATTENTION_GRAD_SCORES_MEDIAN)                                       \
    HEADS(ROW, MEASURE_QK_NORM, "qk_norm", ATTENTION_W_Q_NORM)                                                         \
    ROW(MEASURE_GRAD_NORM_MEDIAN, "grad_norm_median", .format = "%.6g")                                                \
    ROW(MEASURE_GRAD_NORM_MAX, "grad_norm_max", .format = "%.6g")                                                      \
    ROW(MEASURE_THREADS, "threads", .format = "%.0f")                                                                  \
    ROW(MEASURE_SECONDS, "seconds", .format = "%.3f")
#define MEASURE_OF(constant, ...) constant,
typedef enum { MEASURES_TABLE(MEASURE_OF) MEASURE_COUNT } Measure;
typedef struct {
    const char *name, *format;
    int attention; /* the column of attention.csv whose mean it is */
} MeasureColumn;
extern const MeasureColumn MEASURES[MEASURE_COUNT];

/* RUN_DAMAGED: a file of it is not as the program writes it. Such a run is in no mean, is not trained, and its files
   are not read for pages and pictures. */
typedef enum { RUN_NOT_FINISHED, RUN_FINISHED, RUN_DIVERGED, RUN_FAILED, RUN_DAMAGED } SweepRunState;
extern const char *const SWEEP_RUN_STATES[]; /* names of the states, as in summary.csv */

typedef struct {
    Config config;
    char name[RUN_NAME];  /* "scale_divisor=none+seed=1" */
    char directory[4096]; /* SWEEP_DIR/NAME; empty until SWEEP_DIR is known */
    size_t setting, seed; /* index of its setting; which of the swept seeds it has, counted from 0 */
    SweepRunState state;
    char message[1024];             /* why it diverged, failed, is damaged or was left out, one line; else empty */
    bool held;                      /* another process trains it */
    bool unbegun;                   /* it has no run.json, and its logs may lack their first lines */
    bool over;                      /* nothing is left to do: it has ended, failed or been left alone */
    double measured[MEASURE_COUNT]; /* once read; NaN where the run did not get that far */
    double baselines[NGRAM_ORDERS]; /* losses of n-gram tables of its text, once read; NaN: unknown */
    pid_t process;                  /* that trains it, started by this process; 0: none */
} SweepRun;

#define NO_SETTING ((size_t)-1) /* a setting without a reference */
typedef struct {
    char label[SETTING_LABEL];          /* for people: "÷ √d_k = 8, lr 0.001" */
    size_t value_index[SWEEP_AXES_MAX]; /* for each swept key: which of its values, from 0; 0 for the seed */
    size_t others;                      /* the same number for settings that differ in the divisor alone */
    size_t run[SWEEP_VALUES_MAX];       /* (count) indices of its runs, by seed */
    size_t count;
    size_t reference; /* the setting that differs in the divisor alone and divides by √d_k, maybe itself */
    /* Results of sweep_summarize, over the runs that finished: */
    size_t finished, diverged, damaged;
    Interval mean[MEASURE_COUNT];
    Interval difference; /* validation loss less the reference's, seed by seed; count 0: none */
} SweepSetting;

typedef struct {
    const SweepOptions *options;
    Config config;
    SweepAxes axes;         /* what is swept; none where a report compares runs */
    SweepRun *runs;         /* (run_count) */
    SweepSetting *settings; /* (setting_count) */
    size_t run_count, setting_count;
    size_t divisor_axis;        /* which of the swept keys is the divisor; axes.count: none */
    const Directory *directory; /* the sweep's directory; locked, unless a report reads it */
    ResultsDirectory *results;  /* of a new sweep; NULL for one that was there */
    Json *description;          /* run.json */
    size_t threads, slots;      /* threads of a run; runs at a time */
} Sweep;                        /* large: keep it off small stacks */

/* Returns whether a run has ended by itself: finished or diverged. */
static inline bool has_ended(const SweepRun *run) { return run->state == RUN_FINISHED || run->state == RUN_DIVERGED; }
/* Returns whether there is something to train. */
static inline bool is_to_train(const SweepRun *run) {
    return run->state == RUN_NOT_FINISHED || run->state == RUN_FAILED;
}

/* --- plan.c */

/* Makes runs and settings from the sweep's `config` and `axes`. Refuses a config without [sweep], too many
   combinations, and a combination that is not a valid config. */
void sweep_plan(Sweep *sweep);
/* Returns the name of a swept key in names of runs and as a column: "scale_divisor", or with its section where the
   short name is also that of another swept key or of a column of summary.csv. */
const char *sweep_key(const SweepAxes *axes, size_t axis);
/* Lists the runs in the order in which commands.txt has them: settings as if shuffled, the runs of a setting one after
   another. So any part of the list has runs with many values of each key. */
void sweep_shuffle(const Sweep *sweep, SweepRun *runs[RUNS_MAX]);

/* --- directory.c */

/* Plans the sweep of a directory and reads its runs, also while they train; with `alone` it locks the directory first.
   Then it refuses a run that was trained with another config than the sweep gives it. */
Sweep *sweep_read(const char *directory, const SweepOptions *options, bool alone);
/* Reads a sweep and what its runs measured. */
const Sweep *sweep_view(const char *directory);
/* Makes the directory of a new sweep, or notes in run.json that the sweep is resumed. Writes configs/NAME.ini for each
   run that has not ended. */
void sweep_open(Sweep *sweep);
/* Brings the present states of the runs into the description from which run.json is written. `result` is as for a run
   ("running", "finished", "interrupted", "failed"), and `error` says what the sweep itself failed of, or is NULL. */
void sweep_describe(const Sweep *sweep, const char *result, const char *error);
void sweep_write_config(const Sweep *sweep, FILE *out);
/* The words of the command that begins or resumes a run, ended by NULL, of which the first is the program's name. */
typedef struct {
    char *words[10], config[PATH_CAPACITY], directory[PATH_CAPACITY], threads[24];
} RunWords;
void sweep_words(const Sweep *sweep, const SweepRun *run, const char *place, RunWords *words);
/* Writes the commands of runs that are to be trained, a line each, in the order of sweep_shuffle. They have absolute
   paths. Refuses a path with a line end. */
void sweep_write_commands(const Sweep *sweep, FILE *out);

/* --- program.c */

/* Opens the program's file, so that program_start runs the same program after the file was replaced. A verb that starts
   processes calls it first; a later call does nothing. */
void program_open(void);
/* Starts a process of the program, or of the file `other` unless that is NULL, with these words, ended by NULL. Its
   standard output goes nowhere, and its standard error into the open file `messages`, which also gets the reason if the
   program cannot be run. Returns its number, or -1 with errno. */
pid_t program_start(const char *other, char *const *words, int messages);
/* Lets this process use all processors on which OpenMP may place threads. With OMP_PROC_BIND, OMP_PLACES or
   GOMP_CPU_AFFINITY it is bound to the first of them before main, and so would be the processes that it starts. */
void processors_release(void);

/* --- runner.c */

/* Trains the runs that have not ended and that no other process trains, `slots` at a time, until all have or a signal
   came. Returns the signal, or 0. A run that fails, or that cannot be started, is recorded as such. An error is raised
   only where the sweep's directory was moved or removed meanwhile. */
int sweep_train(Sweep *sweep);

/* --- results.c */

/* Reads how a run has ended and what it measured, from run.json and both logs; a run that was not started has measured
   nothing. Where run.json does not say how it ended, the state stays as it was. If a file is not as the program writes
   it, the run is RUN_DAMAGED, with the reason. sweep_measure sets what both logs tell, whose columns it may sort. */
void sweep_read_run(SweepRun *run);
void sweep_measure(SweepRun *run, const LogTable *metrics, const LogTable *attention);
/* Sets the state of a run, with the reason. */
void sweep_note(SweepRun *run, SweepRunState state, const char *why);
/* Returns whether a run that was read has logs that can be read. */
bool sweep_has_logs(const SweepRun *run);
/* Notes and returns whether another process trains the run. */
bool sweep_find_holder(SweepRun *run);
/* Reads all runs, and summarizes what they measured. */
void sweep_read_back(Sweep *sweep);
/* Computes the statistics of every setting; only runs that finished count. */
void sweep_summarize(Sweep *sweep);

/* Writes summary.csv, a row for each run. */
void sweep_write_csv(const Sweep *sweep);
/* Prints a row for each setting. */
void sweep_print_table(const Sweep *sweep, FILE *out);
