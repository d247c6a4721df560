#include "train/command.h"

#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/interrupt.h"
#include "train/sample.h"
#include "train/saved_run.h"
#include "train/trainer.h"

/* --- ./train CONFIG.ini, and resume */

static void print_file(const char *directory, const char *name, const char *what) {
    printf("  %-16s %s/%s\n", what, directory, name);
}

static void print_results(const RunRecord *r) {
    char duration[32], name[64];
    progress_duration(r->seconds, duration, sizeof duration);
    printf("%s after %zu step%s and %s", r->signal ? "stopped" : "done", r->steps_done, r->steps_done == 1 ? "" : "s",
           duration);
    if (r->train_count) printf(": train loss %.4f", r->train_loss[r->train_count - 1]);
    if (r->val_count) printf(", validation loss %.4f", r->val_loss[r->val_count - 1]);
    putchar('\n');
    if (r->val_count) printf("the best validation loss was %.4f, at step %zu\n", r->best_val_loss, r->best_step);
    printf("look at\n");
    print_file(r->directory, "loss.png", "loss curves");
    if (r->looks) {
        snprintf(name, sizeof name, "attention/step%06zu_layer0.png", r->first.step);
        print_file(r->directory, name, "attention first");
        snprintf(name, sizeof name, "attention/step%06zu_layer0.png", r->last.step);
        print_file(r->directory, name, "attention last");
    }
    print_file(r->directory, "samples.txt", "text it wrote");
    print_file(r->directory, "metrics.csv", "losses");
    print_file(r->directory, "attention.csv", "attention");
}

static bool run_training(const Command *command, int *signal, Error *err) {
    static Config config; /* large */
    RunRecord record;
    Progress progress = progress_make(stderr, command->quiet);
    const TrainOptions options = {.threads = command_threads(command),
                                  .out = command->out,
                                  .force = command->force,
                                  .command_line = command->line,
                                  .progress = &progress};
    interrupt_survive_closed_pipes();
    if (!config_load(&config, command->target, command->overrides.items, command->overrides.count, err)) return false;
    if (config.sweep_count)
        return error_set(err, STATUS_USAGE, "%s has a [sweep] section: run it with ./train sweep %s", command->target,
                         command->target);
    if (command->dry_run) return train_dry_run(&config, &options, stdout, err);
    bool ok = train_run(&config, &options, &record, err);
    if (ok) print_results(&record);
    *signal = record.signal;
    record_free(&record);
    return ok;
}

bool resume_run(const Command *command, int *signal, Error *err) {
    RunRecord record;
    bool finished;
    Progress progress = progress_make(stderr, command->quiet);
    const TrainOptions options = {
        .threads = (size_t)command->threads, .command_line = command->line, .progress = &progress};
    bool ok = train_resume(command->target, command->overrides.items, command->overrides.count, &options, &record,
                           &finished, err);
    if (ok && finished)
        printf("%s has made all of its steps; to train it further: ./train resume %s --set train.steps=N\n",
               command->target, command->target);
    else if (ok)
        print_results(&record);
    *signal = record.signal;
    record_free(&record);
    return ok;
}

const Verb train_verb = {
    .target = "CONFIG.ini",
    .what = "Trains a model and draws what it learned.",
    .takes_set = true,
    .makes_runs = true,
    .run = run_training,
};

/* --- eval */

static bool run_evaluation(const Command *command, int *signal, Error *err) {
    static SavedRun run;
    double loss;
    size_t characters;
    bool complete;
    interrupt_survive_closed_pipes();
    bool ok = saved_run_open(&run, command->target, 0, command_threads(command), err) &&
              saved_run_evaluate(&run, &loss, &characters, &complete, err);
    if (ok && complete) printf("validation loss %.4f nats a character, over %zu characters\n", loss, characters);
    *signal = ok && !complete ? interrupt_signal() : 0;
    saved_run_close(&run);
    return ok;
}

const Verb eval_verb = {
    .name = "eval",
    .target = "RUN_DIR",
    .what = "Prints the loss of a trained model over the whole validation split.",
    .run = run_evaluation,
};

/* --- sample */

enum { PROMPT_MAX = 65536 };
static const char *prompt = "";
static long long tokens = 500, top_k, seed = -1; /* top_k 0, seed -1: not given */
static double temperature = 1;

static const Option SAMPLE_OPTIONS[] = {
    {"prompt", "TEXT", "what the text begins with (default: a line end)", OPTION_TEXT, &prompt, 0, 0},
    {"tokens", "N", "characters to draw (default 500)", OPTION_INTEGER, &tokens, 0, 1e9},
    {"temperature", "X", "above 1 wilder, below 1 tamer, 0 the likeliest (default 1)", OPTION_NUMBER, &temperature, 0,
     1e6},
    {"top-k", "K", "draw from the K likeliest characters (default: from all)", OPTION_INTEGER, &top_k, 1, 1e9},
    {"seed", "S", "of the drawing (default: another one each time)", OPTION_INTEGER, &seed, 0, LLONG_MAX},
    {0},
};

static bool write_sample(SavedRun *run, Sampler *sampler, int *signal, Error *err) {
    static int32_t ids[PROMPT_MAX];
    size_t count = 1;
    const SampleOptions options = {.tokens = (size_t)tokens,
                                   .temperature = temperature,
                                   .top_k = (size_t)top_k,
                                   .seed = seed >= 0 ? (uint64_t)seed : (uint64_t)time(NULL)};
    ids[0] = sample_start(&run->vocabulary);
    if (*prompt &&
        !vocabulary_encode(&run->vocabulary, "--prompt", prompt, strlen(prompt), ids, PROMPT_MAX, &count, err))
        return false;
    fputs(prompt, stdout);
    bool all = sample_text(&run->model, &run->vocabulary, sampler, ids, count, &options, stdout);
    fputc('\n', stdout);
    *signal = all ? 0 : interrupt_signal();
    return true; /* a stdout that failed is noticed at the end of main */
}

static bool run_sampling(const Command *command, int *signal, Error *err) {
    static SavedRun run;
    Sampler sampler = {0};
    bool ok = saved_run_open(&run, command->target, 1, command_threads(command), err) &&
              sampler_make(&sampler, &run.model.shape, err) && write_sample(&run, &sampler, signal, err);
    sampler_free(&sampler);
    saved_run_close(&run);
    return ok;
}

const Verb sample_verb = {
    .name = "sample",
    .target = "RUN_DIR",
    .what = "Writes text with a trained model.",
    .options = SAMPLE_OPTIONS,
    .run = run_sampling,
};
