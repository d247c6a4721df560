/* The trainer in a dozen calls, without files: for one's own C, and for a page that trains in the browser. A model is
   made from the text of a config and trained step by step; between two steps its divisor can be moved, its attention
   measured, and text drawn from it. The losses are those of `./train` with the same config.

   Errors are raised as everywhere in this program (base/error.h): a caller that wants to go on after one protects the
   call. An error leaves the model as it was. Arrays that a call returns stay as they are until the next call. Training
   has one thread. */
#pragma once

#include "config/config.h"
#include "model/measure.h"

typedef struct Live Live;

/* Makes a model and initializes it. `config` is the text of an .ini file without data.corpus; keys about pictures and
   logs have no effect. `text` (UTF-8) is what the model learns; NULL: the built-in corpus, or the task that the config
   names. Raises the errors of config_from_text and corpus_from_text. */
Live *live_make(const char *config, const char *text);
/* Frees the model and every block of memory that was made since (base/memory.h). */
void live_free(Live *live);

/* Does a step of ./train: where they are due, evaluates and measures attention for the logs; computes the gradients of
   the step's batches and updates the parameters. Returns their mean loss before the update, in nats per character; NaN
   or infinity when training has diverged, and then there was no update. */
double live_step(Live *live);
/* live_steps returns how many steps were made, live_last how many the config asks for. live_evaluates and live_measures
   return whether ./train would compute the validation loss, or measure attention, before the next step. */
size_t live_steps(const Live *live);
size_t live_last(const Live *live);
bool live_evaluates(const Live *live);
bool live_measures(const Live *live);
/* Returns the loss over the validation split, as eval.batches says. Where an evaluation is due, it is that of the logs,
   which live_step does not repeat. live_accuracy is that of the same evaluation, NaN for a text, and live_written what
   the model wrote into samples.txt at the last evaluation that was due. */
double live_evaluate(Live *live);
double live_accuracy(const Live *live);
const char *live_written(const Live *live);
/* Returns the validation losses of n-gram tables (NGRAM_ORDERS) to compare with; NULL where the task has no text. */
const double *live_baselines(Live *live);

/* Divides the scores by another number from the next step on, SCALE_LEAST to SCALE_MOST. One such move becomes
   attention.switch_step of the run's config. After several, or another learning rate, the config alone does not make
   the run again: it begins with comments that say what was moved, and run.json has them as `moved`. */
void live_divide(Live *live, double divisor);
/* Multiplies the learning rates of the schedule by `factor` from the next step on. Refuses rates that a config may not
   have. */
void live_rate(Live *live, double factor);

/* Returns what the model computes of the beginning of a text, as much as the context holds, under a divisor (0: its
   own): the number of its characters T and that of the vocabulary V; raw scores and weights (L, H, T, T), entry (query,
   key), zero where masked; what the scores of a head are multiplied by (L, H), 1 / divisor; the score of its sink (L,
   H), -infinity without one; and the logits (T, V). */
typedef struct {
    size_t L, H, T, V;
    const float *scores, *weights, *multiplier, *sink;
    const real *logits;
} LiveAttention;
const LiveAttention *live_attention(Live *live, const char *text, double divisor);
/* Returns the text whose attention the run's snapshots have, UTF-8. */
const char *live_text(Live *live);
/* Returns the statistics of every head (L, H) on the fixed validation batch of attention.csv. */
const HeadStatistics *live_statistics(Live *live);
/* Returns windows of the validation split at even distances: `most`, or fewer where a batch or the split has fewer.
   Tokens are ids (count, T); targets are the ids that follow them, -1 where nothing is to be predicted. */
typedef struct {
    size_t count, T;
    const int32_t *tokens, *targets;
} LiveWindows;
const LiveWindows *live_windows(Live *live, size_t most);
/* Returns the characters, Unicode code points in the order of their ids. */
const uint32_t *live_vocabulary(const Live *live, size_t *count);
/* Returns `count` characters, UTF-8, that the model writes after `prompt`; an empty prompt is a line end. */
const char *live_sample(Live *live, const char *prompt, size_t count, double temperature, uint64_t seed);
/* Returns the config, as config_write prints it, with the divisor in force and the learning rate as it was moved. */
const char *live_config(Live *live);
/* Returns the run as the files of its directory, without pictures: ./train eval, sample, attend, report and resume
   read them (docs/formats.md). At the last step this computes and logs what ./train does there. */
typedef struct {
    const char *name; /* "checkpoint/last.safetensors" */
    const void *bytes;
    size_t size;
} LiveFile;
const LiveFile *live_files(Live *live, size_t *count);
/* Returns what ./train why would print about these files in a directory of this name. */
const char *live_why(Live *live, const char *directory);
/* Compare runs, also those of other models. live_join adds a run, given as what it is called and the texts of its
   files, as live_files returns them. A run whose log lacks the last step has not finished. live_compared returns the
   first paragraph of what ./train report says of several runs, with this model's baselines, and forgets them. */
void live_join(Live *live, const char *label, const char *config, const char *metrics, const char *attention);
const char *live_compared(Live *live);
/* Returns the parameters, flat, and unless `table` is NULL the table that says where each tensor is; live_count returns
   how many numbers the flat array has. */
const real *live_parameters(const Live *live, const TensorTable **table);
size_t live_count(const Live *live);
