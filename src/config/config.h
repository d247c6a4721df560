/* The config of a run. One table (table.c) describes each key once: section, name, type, range, default, one line of
   help. Parsing, checking, `help config`, and the resolved copy in the run directory come from it. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "config/scale.h"

/* CONFIG_VALUE_MAX holds any value as it is written: in quotes, every byte escaped. */
enum { CONFIG_TEXT_MAX = 1024, CONFIG_VALUE_MAX = 2 * CONFIG_TEXT_MAX + 3 };
enum { CONFIG_KEYS_MAX = 64, CONFIG_LIST_MAX = 8192 };

/* The choices, in the order of their names in table.c. */
typedef enum { NORM_PRE, NORM_POST } Norm;
#define ACTIVATION_TABLE(ROW) ROW(GELU, gelu) ROW(RELU, relu) /* the value and the name of each */
#define ACTIVATION_VALUE(VALUE, name) ACTIVATION_##VALUE,
typedef enum { ACTIVATION_TABLE(ACTIVATION_VALUE) ACTIVATION_COUNT } ActivationFunction;
typedef enum { INIT_UNIT, INIT_XAVIER, INIT_TORCH, INIT_GPT2 } Init;
typedef enum { TASK_TEXT, TASK_RECALL } Task;
typedef enum { SCORE_DOT, SCORE_ADDITIVE } Score;
typedef enum { QK_NORM_NONE, QK_NORM_L2, QK_NORM_RMS, QK_NORM_LAYER } QkNorm;
typedef enum { LEARNED_NO, LEARNED_LAYER, LEARNED_HEAD } ScaleLearned;
typedef enum { LENGTH_NONE, LENGTH_LOG } ScaleLength;
typedef enum { SINK_NONE, SINK_ONE, SINK_LEARNED } Sink;
typedef enum { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 } Precision; /* train.precision: the first two alone */
typedef enum { OPTIMIZER_ADAMW, OPTIMIZER_SGD, OPTIMIZER_MUON, OPTIMIZER_COUNT } OptimizerKind;
typedef enum { ENGINE_FAST, ENGINE_PLAIN } EngineKind;
typedef enum { PAGE_MODEL_AUTO, PAGE_MODEL_YES, PAGE_MODEL_NO } PageModel;

/* "doubling" in place of a number of steps between two events: they come at steps 0, 1, 2, 4, 8, ... */
#define EVERY_DOUBLING SIZE_MAX

/* The origin of a key's value: a line of the file, by its number from 1, or one of these. */
enum { ORIGIN_DEFAULT = 0, ORIGIN_OVERRIDE = -1, ORIGIN_SWEEP = -2 };

/* The reader of a [sweep] section, which a run does not have: keys of the table, each with a list of values. */
typedef struct {
    /* Takes a line: the key, its list in up to CONFIG_LIST_MAX bytes, and the list's origin. Returns the origin of the
       key's earlier list, or 0. */
    int (*assign)(void *to, size_t key, char *list, int origin);
    void *to;
} SweepReader;

typedef struct {
    struct {
        char corpus[CONFIG_TEXT_MAX]; /* empty: the built-in one */
        double val_fraction;
        Task task;
        size_t recall_pairs;
    } data;
    struct {
        size_t layers, heads, d_model, d_k, d_ff, context;
        Norm norm;
        ActivationFunction activation;
        Init init;
        int bias, tie_embeddings; /* 0: no, 1: yes */
        double dropout, qk_init_scale;
    } model;
    struct {
        DivisorChoice scale_divisor, switch_divisor;
        size_t switch_step; /* 0: never */
        Score score;
        QkNorm qk_norm;
        ScaleLearned scale_learned;
        ScaleLength scale_length;
        Sink sink;
        Precision score_precision;
        int score_gradient; /* 0: no, 1: yes */
        double softcap;     /* 0: none */
    } attention;
    struct {
        size_t steps, batch, accumulate, shards, warmup, seed;
        double lr, min_lr, muon_lr, beta1, beta2, eps, momentum, weight_decay, adamw_decay, qk_lr_scale;
        double grad_clip, qk_clip; /* 0: no clipping */
        OptimizerKind optimizer;
        Precision precision;
        EngineKind engine;
    } train;
    struct {
        size_t every, batches;
    } eval;
    struct {
        char out[CONFIG_TEXT_MAX];
        size_t every, attention_every /* or EVERY_DOUBLING */, sample_tokens, checkpoint_every;
        PageModel page_model;
        char attention_text[CONFIG_TEXT_MAX]; /* UTF-8; empty: the beginning of the validation split */
    } log;

    char name[256];              /* the file's name without directory and ".ini" */
    int origin[CONFIG_KEYS_MAX]; /* by key: where its value is from */
} Config;

/* Reads `path`, applies the overrides ("section.name=value", as after --set; the last one wins), fills in the defaults
   that depend on others (d_k, d_ff, scale_divisor, switch_divisor, min_lr, momentum, out), and checks what concerns
   several keys. An error names the file and the line, shows the line, and says what is accepted and which key is
   nearest. The [sweep] section goes to `sweep`, and what concerns several keys is then left to config_with; if `sweep`
   is NULL, the section is refused. Grammar: config.c. */
void config_load(Config *config, const SweepReader *sweep, const char *path, const char *const *overrides,
                 size_t override_count);
/* Sets *out to the config with other values of `count` keys, as config_check_value writes them, checked as if it had
   been read from a file. An error begins with "[sweep]". */
void config_with(const Config *config, size_t count, const size_t keys[], const char *const values[], Config *out);

/* Checks that the file `path` gives `run` the config with which it was trained. An error names a key and its values. */
void config_check_same(const Config *given, const char *path, const Config *trained, const char *run);

/* Makes a config without [sweep] as config_load does, from the text of a file whose name is `name`. */
void config_from_text(Config *config, const char *text, const char *name);

/* Returns the divisor of the scores at a step: scale_divisor, and from switch_step on switch_divisor. */
DivisorChoice config_divisor_choice(const Config *config, size_t step);
/* Returns what a run predicts, in the singular: "character" or "answer". A loss is the mean over these. */
const char *config_target(const Config *config);

/* For a SweepReader. config_error raises an error about the line that is read (printf-style). config_check_value reads
   a value as a file has it, and writes it as config_write does. */
_Noreturn void config_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void config_check_value(size_t key, const char *text, char *out, size_t capacity);

/* Writes every key with its value, as an .ini file, which config_load reads back to the same Config. [sweep] is not
   written, and the corpus has its absolute path. */
void config_write(const Config *config, FILE *out);
/* Writes as config_write does, without each key that `differs` between the runs of a sweep. */
void config_write_but(const Config *config, bool (*differs)(const void *arg, size_t key), const void *arg, FILE *out);

/* Writes the reference, for `help config`: every key by section, with type or choices, default and help, in at most 80
   columns. */
void config_write_help(FILE *out);

/* Writes how to set the key with this name, or section and name, with - or _: "--set train.steps=10"; all of them if
   several have the name: "--set eval.every=10 or --set log.every=10"; "" if none has it. */
void config_settings_meant(const char *name, const char *value, char *out, size_t capacity);

/* Return the number of keys, and the "section.name" of one. */
size_t config_key_count(void);
const char *config_key_name(size_t key);
bool config_key_is_text(size_t key);
/* Returns whether a key was given, by the file or by --set; otherwise it has its default. */
bool config_is_given(const Config *config, size_t key);
/* Returns whether a key has its default value, given or not. If its default follows from other keys, returns whether it
   was not given. */
bool config_is_default(const Config *config, size_t key);
/* Writes the value that a key would have if only the others were given, as config_value_text does. */
void config_default_text(const Config *config, size_t key, char *out, size_t capacity);
/* Writes a title: how scores are made at a step, as in "Scores divided by √d_k = 8 (qk_norm rms, sink learned)", and
   their later divisor. */
void config_scores_title(const Config *config, size_t step, char *out, size_t capacity);
/* Writes a key's value as config_write does: a text in up to CONFIG_VALUE_MAX bytes. */
void config_value_text(const Config *config, size_t key, char *out, size_t capacity);
