/* What run.json says of a run: what it is, when it was resumed, how it ended. It is loaded, changed and saved each
   time: nobody keeps it while a run lasts. Its entries are listed in docs/formats.md. */
#pragma once

#include "base/json.h"
#include "show/progress.h"
#include "train/run.h"

/* run.json of a run that starts: machine, corpus, model, result "running". The caller frees it. */
Json *description_make(const Run *run, const Model *model, const char *command_line);

/* Adds that the run is resumed at `step`, sets the result back to "running" and what depends on the config to the model
   as it is, and takes out how it ended before. Says so, and says where bits will not repeat because threads or kernels
   are not what they were, to `progress`. */
bool description_resume(const Run *run, const Model *model, size_t step, const char *command_line, Progress *progress,
                        Error *err);

/* How a run ended. */
typedef struct {
    const Error *failure; /* NULL: it did not fail */
    int signal;           /* that ended it early, or 0 */
    size_t steps;         /* updates made */
    double seconds, best_val_loss;
    size_t best_step;
} RunEnd;
/* Adds how it ended, with the last losses in metrics.csv. */
bool description_conclude(const Run *run, const RunEnd *end, Error *err);

/* Whether a text, of `path`, is the one that the run or sweep of `directory` was trained on: an error of status
   STATUS_USAGE when it is not. */
bool description_check_corpus(const Json *description, const char *directory, const char *path, const Corpus *corpus,
                              Error *err);
