#include "sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/results.h"
#include "sweep/parts.h"
#include "train/trainer.h"

static bool make(Sweep *s, const Config *config, Error *err) {
    if (!arms_make(&s->arms, config, err)) return false;
    s->runs = calloc(s->arms.count, sizeof *s->runs);
    if (!s->runs) return error_set(err, STATUS_FAILED, "no memory for %zu runs", s->arms.count);
    for (size_t i = 0; i < s->arms.count; i++) s->runs[i].train_loss = s->runs[i].val_loss = NAN;
    if (s->threads == 0) s->threads = s->options->threads / arms_runs(&s->arms); /* else as it began */
    if (s->threads == 0) s->threads = 1;
    return true;
}

static void release(Sweep *s) {
    for (size_t i = 0; s->runs && i < s->arms.count; i++) arm_results_free(&s->runs[i].results);
    free(s->runs);
    arms_free(&s->arms);
    js_free(s->description);
    if (s->lock >= 0) close(s->lock);
    results_release(&s->made);
}

/* All that training could be refused for, before anything is written; and how many arms fit beside each other. */
static bool check(Sweep *s, Error *err) {
    const TrainOptions options = {.threads = s->threads, .progress = s->options->progress};
    size_t most = 0; /* bytes an arm takes */
    for (size_t i = 0; i < s->arms.count; i++) {
        size_t bytes;
        if (s->arms.arms[i].same_as != i) continue;
        if (!train_check(&s->arms.arms[i].config, &options, &bytes, err)) return false;
        if (bytes > most) most = bytes;
    }
    size_t runs = arms_runs(&s->arms), room = most ? memory_of_machine() / most : runs;
    s->slots = s->options->threads / s->threads;
    if (s->slots > runs) s->slots = runs;
    if (s->slots > room) s->slots = room;
    if (s->slots == 0) s->slots = 1;
    return true;
}

static void announce(const Sweep *s) {
    size_t runs = arms_runs(&s->arms), ended = 0;
    Progress *progress = s->options->progress;
    for (size_t i = 0; i < s->arms.count; i++) {
        const Arm *arm = &s->arms.arms[i];
        ended += arm->same_as == i && s->runs[i].state != ARM_WAITING;
        if (arm->same_as != i)
            progress_message(progress, "%s is the same as %s, which is run once", arm->name,
                             s->arms.arms[arm->same_as].name);
    }
    progress_message(progress, "%s %s in %s: %zu run%s, %zu at a time with %zu thread%s each",
                     s->resumed ? "resuming" : "sweeping", s->arms.config->name, s->directory, runs,
                     runs == 1 ? "" : "s", s->slots, s->threads, s->threads == 1 ? "" : "s");
    char old[RESULTS_PATH];
    if (!*s->made.replaced && results_set_aside(s->directory, old))
        progress_message(progress, "note: %s is there, set aside by a --force that was stopped", old);
    if (ended) progress_message(progress, "%zu of them %s ended before", ended, ended == 1 ? "has" : "have");
}

/* What the arms left on disk. A finished one whose files cannot be read has failed after all. */
static void read_back(Sweep *s) {
    for (size_t i = 0; i < s->arms.count; i++) {
        ArmRun *run = &s->runs[i];
        char directory[4096];
        Error err;
        if (s->arms.arms[i].same_as != i) continue;
        if (sweep_arm_path(s, i, directory, &err) && arm_results_read(&run->results, directory, &err)) continue;
        arm_results_free(&run->results);
        if (run->state == ARM_FAILED) continue;
        run->state = ARM_FAILED;
        snprintf(run->message, sizeof run->message, "%s", err.message);
    }
}

static bool write_all(const Sweep *s, Error *err) {
    return sweep_write_csv(s, err) && sweep_write_markdown(s, err) && sweep_draw_curves(s, err) &&
           sweep_draw_final(s, err) && sweep_draw_attention(s, err);
}

static void print_files(const Sweep *s, FILE *out) {
    static const char *const files[] = {
        "summary.md",  "summary.csv",           "loss.png", "entropy.png", "score_std.png",
        "qk_norm.png", "attention_compare.png", "final.png"};
    fprintf(out, "\nlook at\n");
    for (size_t i = 0; i < sizeof files / sizeof *files - !sweep_has_final(s); i++)
        fprintf(out, "  %s/%s\n", s->directory, files[i]);
}

/* The arms that did not come to an end of their own; *first is one that failed, or else one that was stopped. */
static size_t count_unfinished(const Sweep *s, size_t *first) {
    size_t count = 0;
    for (size_t i = 0; i < s->arms.count; i++) {
        ArmState state = s->runs[i].state;
        if (s->arms.arms[i].same_as != i || state == ARM_FINISHED || state == ARM_DIVERGED) continue;
        if (count++ == 0 || (state == ARM_FAILED && s->runs[*first].state != ARM_FAILED)) *first = i;
    }
    return count;
}

/* Of those that did not finish, `first` as count_unfinished found it. */
static bool failed(const Sweep *s, size_t unfinished, size_t first, Error *err) {
    const ArmRun *stuck = &s->runs[first];
    return error_set(err, STATUS_FAILED, "%zu of %zu runs failed; %s: %s", unfinished, arms_runs(&s->arms),
                     s->arms.arms[first].name,
                     stuck->state == ARM_FAILED ? stuck->message : "stopped by a signal that was not for the sweep");
}

/* The end of a sweep none of whose arms came to a checkpoint while what --force replaces was kept for that case. */
static bool give_up(Sweep *s, size_t unfinished, size_t first, int signal_number, Error *err) {
    if (!signal_number) return failed(s, unfinished, first, err); /* and is withdrawn for that */
    Error stopped;
    error_set(&stopped, STATUS_FAILED, "stopped before the first checkpoint of an arm");
    results_withdraw(&s->made, &stopped);
    progress_message(s->options->progress, "%s", stopped.message);
    return true;
}

/* The tables and pictures of a sweep that has finished, again, from what its runs left on disk. */
static bool write_again(Sweep *s, Error *err) {
    size_t first = 0;
    read_back(s);
    if (count_unfinished(s, &first) == 0) return write_all(s, err);
    const ArmRun *run = &s->runs[first];
    return error_set(err, STATUS_USAGE, "%s/run.json says that the sweep has finished, but %s has not: %s",
                     s->directory, s->arms.arms[first].name,
                     *run->message ? run->message : ARM_STATE_NAMES[run->state]);
}

/* Everything after the directory is known. */
static bool run(Sweep *s, FILE *out, int *signal_number, Error *err) {
    size_t first = 0;
    if (!check(s, err) || !sweep_open(s, err)) return false;
    announce(s);
    *signal_number = sweep_train(s);
    read_back(s);
    size_t unfinished = count_unfinished(s, &first);
    if (unfinished && *s->made.replaced) return give_up(s, unfinished, first, *signal_number, err);
    const char *result = unfinished == 0 ? "finished" : *signal_number ? "interrupted" : "failed";
    Error second;
    if (!write_all(s, err)) {
        js_set(s->description, "error", js_text(err->message));
        sweep_save(s, "failed", &second);
        return false;
    }
    if (!sweep_save(s, result, err)) return false;
    if (!results_keep(&s->made, &second)) progress_message(s->options->progress, "note: %s", second.message);
    sweep_print_table(s, out);
    print_files(s, out);
    if (unfinished == 0) { /* then a signal came too late to matter */
        *signal_number = 0;
        return true;
    }
    fprintf(out, "\n%zu of %zu runs did not finish; to resume: ./train resume %s\n", unfinished, arms_runs(&s->arms),
            s->directory);
    if (*signal_number) return true;
    return failed(s, unfinished, first, err);
}

bool sweep_run(const Config *config, const SweepOptions *options, FILE *out, int *signal_number, Error *err) {
    Sweep s = {.options = options, .lock = -1};
    *signal_number = 0;
    bool ok = make(&s, config, err) && sweep_find(&s, err);
    if (ok && s.resumed) sweep_load_states(&s);
    ok = ok && run(&s, out, signal_number, err);
    if (!ok) results_withdraw(&s.made, err);
    release(&s);
    return ok;
}

bool sweep_resume(const char *directory, const SweepOptions *options, FILE *out, int *signal_number, bool *finished,
                  Error *err) {
    Sweep s = {.options = options, .lock = -1};
    *signal_number = 0;
    *finished = false;
    Config *config = calloc(1, sizeof *config);
    bool ok = (config || error_set(err, STATUS_FAILED, "no memory for a config")) &&
              sweep_enter(&s, directory, config, finished, err) && make(&s, config, err);
    if (ok && sweep_load_states(&s)) *finished = false; /* an arm was removed since */
    ok = ok && (*finished ? write_again(&s, err) : run(&s, out, signal_number, err));
    release(&s);
    free(config);
    return ok;
}

bool sweep_dry_run(const Config *config, const SweepOptions *options, FILE *out, Error *err) {
    Sweep s = {.options = options, .lock = -1};
    bool ok = make(&s, config, err) && sweep_find(&s, err) && check(&s, err);
    if (ok) {
        const TrainOptions train = {.threads = s.threads};
        sweep_write_config(&s.arms, out);
        fprintf(out, "\n; %zu runs, %zu at a time with %zu thread%s each; the first of them:", arms_runs(&s.arms),
                s.slots, s.threads, s.threads == 1 ? "" : "s");
        ok = train_announce(&s.arms.arms[0].config, &train, out, err);
        for (size_t i = 0; ok && i < s.arms.count; i++)
            if (s.arms.arms[i].same_as != i)
                fprintf(out, "; %s is the same as %s\n", s.arms.arms[i].name, s.arms.arms[s.arms.arms[i].same_as].name);
    }
    release(&s);
    return ok;
}
