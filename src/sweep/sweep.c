/* A sweep from its config to its tables: plan it, check every run, make or enter the directory, train, read
   everything back from disk, write the tables. Nothing is written before every run is known to be good. */
#include <string.h>

#include "base/machine.h"
#include "sweep/parts.h"

/* Checks everything that training could be refused for, before anything is written. Decides the threads of a run,
   and how many runs train at a time: --jobs, or as many as there are threads for; never more than there are runs and
   memory for. */
static bool check(Sweep *s, Error *err) {
    const size_t threads = s->options->threads, jobs = s->options->jobs ? s->options->jobs : s->run_count;
    size_t most = 1; /* bytes that a run takes */
    if (s->threads == 0) s->threads = threads > jobs ? threads / jobs : 1;
    const TrainOptions options = {.threads = s->threads, .progress = s->options->progress};
    for (size_t i = 0; i < s->run_count; i++) {
        size_t bytes;
        if (!train_check(&s->runs[i].config, &options, NULL, &bytes, err)) return false;
        if (bytes > most) most = bytes;
    }
    const size_t fit = memory_of_machine() / most;
    s->slots = s->options->jobs ? s->options->jobs : threads / s->threads;
    if (s->slots > s->run_count) s->slots = s->run_count;
    if (s->slots > fit) s->slots = fit;
    if (s->slots == 0) s->slots = 1;
    return true;
}

/* Plans a new sweep and checks that it can be made. */
static bool prepare(Sweep *s, Error *err) {
    const TrainOptions *o = s->options;
    if (!sweep_plan(s, err)) return false;
    bool is_sweep = false;
    if (o->out && !o->force && !sweep_is(o->out, &is_sweep, err)) return false;
    if (is_sweep && !results_unused(o->out))
        return error_set(err, STATUS_USAGE,
                         "%s exists: continue that sweep with %s resume %s, name another --out, or add --force to "
                         "replace it",
                         o->out, program_name, o->out);
    return results_check(o->out, o->force, err) && check(s, err);
}

/* Counts the runs in a state. *first becomes the first of them, or NULL. */
static size_t count(const Sweep *s, SweepRunState state, const SweepRun **first) {
    size_t found = 0;
    *first = NULL;
    for (size_t i = s->run_count; i-- > 0;) {
        if (s->runs[i].state != state) continue;
        *first = &s->runs[i];
        found++;
    }
    return found;
}

/* How many runs have neither finished nor diverged. *failed is the first that failed, or NULL. */
static size_t count_unfinished(const Sweep *s, const SweepRun **failed) {
    const SweepRun *missing;
    return count(s, RUN_FAILED, failed) + count(s, RUN_NOT_FINISHED, &missing);
}

static void announce(const Sweep *s) {
    Progress *progress = s->options->progress;
    const SweepRun *failed;
    const size_t ended = s->run_count - count_unfinished(s, &failed);
    progress_message(progress, "%s %s in %s: %zu run%s, %zu at a time with %zu thread%s each",
                     s->resumed ? "resuming" : "sweeping", s->config.name, s->directory, s->run_count,
                     s->run_count == 1 ? "" : "s", s->slots, s->threads, s->threads == 1 ? "" : "s");
    if (ended) progress_message(progress, "%zu of them %s already ended", ended, ended == 1 ? "has" : "have");
}

/* Names the runs that did not finish, the first few of them. */
static void print_unfinished(const Sweep *s, size_t unfinished, FILE *out) {
    size_t named = 0;
    print_plain(out, "%zu of %zu runs did not finish; to resume: %s resume %s", unfinished, s->run_count, program_name,
                s->directory);
    for (size_t i = 0; i < s->run_count; i++) {
        const SweepRun *run = &s->runs[i];
        if (run->state == RUN_FINISHED || run->state == RUN_DIVERGED || named++ >= 8) continue;
        print_plain(out, "  %s: %s", run->name, SWEEP_RUN_STATES[run->state]);
    }
    if (named > 8) print_plain(out, "  and %zu more", named - 8);
}

/* Writes the tables from the runs so far, and records how the sweep ended. Fails if a run failed. If all runs had
   `ended` before and a log cannot be read, fails with STATUS_USAGE: the user has to repair it. The old tables stay. */
static bool finish(Sweep *s, bool ended, FILE *out, int *signal_number, Error *err) {
    const SweepRun *failed;
    Error ignored;
    const bool read = sweep_read_back(s, err);
    if (read && ended && count_unfinished(s, &failed) > 0)
        return error_set(err, STATUS_USAGE, "%s has finished, but %s cannot be read: %s", s->directory, failed->name,
                         failed->message);
    if (!read || !sweep_write_csv(s, err)) {
        sweep_save(s, "failed", err, &ignored);
        return false;
    }
    const size_t unfinished = count_unfinished(s, &failed);
    if (unfinished == 0) *signal_number = 0; /* a signal came too late to matter */
    const char *result = unfinished == 0 ? "finished" : *signal_number ? "interrupted" : failed ? "failed" : "running";
    const char *recorded = js_as_text(js_get(s->description, "result"));
    if (!(recorded && strcmp(result, recorded) == 0) && !sweep_save(s, result, NULL, err)) return false;
    if (s->options->report && !s->options->report(&s->place.directory, err)) return false;
    sweep_print_table(s, out);
    fputs("\nn counts finished runs; ± is half a 95 % interval over their seeds. Entropy goes\n"
          "from the first to the last step: 1 is uniform attention, 0 one-hot.\n\n",
          out);
    if (s->options->why && !s->options->why(s->directory, out, err)) return false;
    if (s->options->why) fputc('\n', out);
    print_plain(out, "page to look at: %s/report.html", s->directory);
    print_plain(out, "table of runs:   %s/summary.csv", s->directory);
    if (unfinished == 0) return true;
    fputc('\n', out);
    print_unfinished(s, unfinished, out);
    return *signal_number || !failed ||
           error_set(err, STATUS_FAILED, "%zu of %zu runs failed; %s: %s", count(s, RUN_FAILED, &failed), s->run_count,
                     failed->name, failed->message);
}

/* Trains the runs that have not ended. */
static bool train(Sweep *s, int *signal_number, Error *err) {
    Error ignored;
    if (!sweep_open(s, err)) return false;
    announce(s);
    if (sweep_save_configs(s, err) && sweep_train(s, signal_number, err)) return true;
    sweep_save(s, "failed", err, &ignored);
    return false;
}

bool sweep_run(const Config *config, const SweepAxes *axes, const TrainOptions *options, FILE *out, int *signal_number,
               Error *err) {
    Sweep s = {.options = options, .config = *config, .axes = *axes};
    *signal_number = 0;
    bool ok = prepare(&s, err) && train(&s, signal_number, err) && finish(&s, false, out, signal_number, err);
    sweep_free(&s);
    return ok;
}

bool sweep_resume(const char *directory, const TrainOptions *options, FILE *out, int *signal_number, Error *err) {
    Sweep s = {.options = options};
    const SweepRun *failed;
    *signal_number = 0;
    bool ok = sweep_read(&s, directory, true, err) && sweep_load(&s, err);
    const bool ended = ok && count_unfinished(&s, &failed) == 0;
    if (ended) progress_message(options->progress, "%s has finished; its table is made again", directory);
    else ok = ok && check(&s, err) && train(&s, signal_number, err);
    ok = ok && finish(&s, ended, out, signal_number, err);
    sweep_free(&s);
    return ok;
}

bool sweep_dry_run(const Config *config, const SweepAxes *axes, const TrainOptions *options, FILE *out, Error *err) {
    Sweep s = {.options = options, .config = *config, .axes = *axes};
    bool ok = prepare(&s, err);
    if (ok) {
        const TrainOptions train = {.threads = s.threads};
        size_t bytes;
        sweep_write_config(&s, out);
        fprintf(out, "\n; %zu runs, %zu at a time with %zu thread%s each; the first of them:", s.run_count, s.slots,
                s.threads, s.threads == 1 ? "" : "s");
        ok = train_check(&s.runs[0].config, &train, out, &bytes, err);
    }
    sweep_free(&s);
    return ok;
}

bool sweep_prepare(const Config *config, const SweepAxes *axes, const TrainOptions *options, FILE *out, Error *err) {
    Sweep s = {.options = options, .config = *config, .axes = *axes};
    const bool ok = prepare(&s, err) && sweep_open(&s, err) && sweep_save_configs(&s, err);
    if (ok) {
        progress_message(options->progress, "%s is in %s; to train a part of it: %s sweep %s --share I/N",
                         s.config.name, s.directory, program_name, s.directory);
        fprintf(out, "%zu\n", s.run_count);
    }
    sweep_free(&s);
    return ok;
}

/* Prints how many runs have ended when a share has. Fails if one of its runs failed, unless a signal ended it. */
static bool finish_share(Sweep *s, int signal_number, FILE *out, Error *err) {
    const SweepRun *failed, *none;
    const size_t failures = count(s, RUN_FAILED, &failed);
    if (failed) /* before the runs are read again */
        error_set(err, STATUS_FAILED, "%zu of the runs of share %zu/%zu failed; %s: %s", failures, s->share + 1,
                  s->shares, failed->name, failed->message);
    for (size_t i = 0; i < s->run_count; i++) {
        SweepRun *run = &s->runs[i];
        Error ignored;
        if (run->state == RUN_NOT_FINISHED) sweep_read_run(run, &ignored); /* as other processes left it */
    }
    const size_t left = count_unfinished(s, &none);
    print_plain(out, "%zu of the %zu runs in %s have ended; to make the tables: %s sweep %s --tables",
                s->run_count - left, s->run_count, s->directory, program_name, s->directory);
    return signal_number || !failed;
}

bool sweep_share(const char *directory, const char *share, const TrainOptions *options, FILE *out, int *signal_number,
                 Error *err) {
    Sweep s = {.options = options};
    *signal_number = 0;
    bool ok = share_read(share, &s.share, &s.shares, err) && sweep_read(&s, directory, false, err) &&
              sweep_begin_share(&s, err) && check(&s, err);
    if (ok) {
        progress_message(options->progress, "share %zu/%zu of %s in %s: %zu at a time with %zu thread%s each",
                         s.share + 1, s.shares, s.config.name, s.directory, s.slots, s.threads,
                         s.threads == 1 ? "" : "s");
        ok = sweep_train(&s, signal_number, err) && finish_share(&s, *signal_number, out, err);
    }
    sweep_free(&s);
    return ok;
}

bool sweep_tables(const char *directory, const TrainOptions *options, FILE *out, Error *err) {
    Sweep s = {.options = options};
    const SweepRun *failed;
    int no_signal = 0;
    bool ok = sweep_read(&s, directory, true, err);
    const bool ended = ok && count_unfinished(&s, &failed) == 0;
    ok = ok && finish(&s, ended, out, &no_signal, err);
    sweep_free(&s);
    return ok;
}
