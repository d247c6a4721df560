/* A sweep from its config to its tables: plan it, check every run, make or enter the directory, train, read
   everything back from disk, write the tables. Nothing is written before every run is known to be good. At the end, the
   verb. */
#include <string.h>
#include <sys/stat.h>

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/memory.h"
#include "lab/lab.h"
#include "lab/report/report.h"
#include "lab/sweep/sweep.h"
#include "lab/why/why.h"

/* Checks that the text is the one that a sweep which is there began with. */
static void check_corpus(const Sweep *s) {
    const size_t mark = memory_mark();
    const Config *c = &s->runs[0].config;
    const Corpus corpus = config_corpus(c, NULL);
    description_check_corpus(s->description, s->directory->path, c->data.corpus, &corpus);
    memory_release(mark);
}

/* Checks everything that training could be refused for, before anything is written. Decides the threads of a run,
   and how many runs train at a time: --jobs, or as many as there are threads for; never more than there are runs and
   memory for. Runs that failed are to be tried once more. */
static void check(Sweep *s) {
    const size_t threads = s->options->threads, jobs = s->options->jobs ? s->options->jobs : s->run_count;
    size_t most = 1; /* bytes that a run takes */
    if (s->threads == 0) s->threads = threads > jobs ? threads / jobs : 1;
    const TrainOptions options = {.threads = s->threads, .progress = s->options->progress};
    if (s->description) check_corpus(s);
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        const size_t bytes = trainer_check(&run->config, &options, NULL);
        if (bytes > most) most = bytes;
        if (run->state != RUN_FAILED) continue;
        run->state = RUN_NOT_FINISHED;
        *run->message = 0;
    }
    const size_t fit = memory_of_machine() / most;
    s->slots = s->options->jobs ? s->options->jobs : threads / s->threads;
    if (s->slots > s->run_count) s->slots = s->run_count;
    if (s->slots > fit) s->slots = fit;
    if (s->slots == 0) s->slots = 1;
}

/* Plans a new sweep and checks that it can be made. */
static Sweep *plan(const Config *config, const SweepAxes *axes, const SweepOptions *o) {
    Sweep *s = memory_make(1, sizeof *s, "a sweep");
    s->options = o;
    s->config = *config;
    s->axes = *axes;
    sweep_plan(s);
    if (o->out && !o->force && sweep_is(o->out))
        usage_error("%s exists: continue that sweep with %s, name another --out, or add --force to replace it", o->out,
                    command_to_copy("resume", o->out));
    results_check(o->out, o->force);
    check(s);
    return s;
}

static size_t count(const Sweep *s, SweepRunState state) {
    size_t found = 0;
    for (size_t i = 0; i < s->run_count; i++) found += s->runs[i].state == state;
    return found;
}

/* Returns how many runs have neither finished nor diverged. */
static size_t count_unfinished(const Sweep *s) { return count(s, RUN_FAILED) + count(s, RUN_NOT_FINISHED); }

/* Returns the first run that failed, or NULL. */
static const SweepRun *first_failed(const Sweep *s) {
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++)
        if (run->state == RUN_FAILED) return run;
    return NULL;
}

/* --- the end of a sweep */

/* Names the runs that did not finish, the first few of them. */
static void print_unfinished(const Sweep *s, size_t unfinished, FILE *out) {
    size_t named = 0;
    fputc('\n', out);
    print_plain(out, "%zu of %zu runs did not finish; to resume: %s", unfinished, s->run_count,
                command_to_copy("resume", s->directory->path));
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        if (has_ended(run) || named++ >= 8) continue;
        print_plain(out, "  %s: %s", run->name, SWEEP_RUN_STATES[run->state]);
    }
    if (named > 8) print_plain(out, "  and %zu more", named - 8);
}

static double time_of(const struct stat *file) {
    return (double)file->st_mtim.tv_sec + 1e-9 * (double)file->st_mtim.tv_nsec;
}

/* Returns whether a run that has ended has no page of its end: its process was killed, or failed, before that was
   written. A process that holds the directory has yet to write it. */
static bool lacks_page(const SweepRun *run) {
    char json[PATH_CAPACITY], page[PATH_CAPACITY];
    struct stat ended, written;
    path_join(json, run->directory, "run.json");
    path_join(page, run->directory, "report.html");
    if (!has_ended(run) || stat(json, &ended) != 0) return false;
    const bool has_page = stat(page, &written) == 0 && time_of(&written) >= time_of(&ended);
    return !has_page && !directory_held(run->directory);
}

static void write_results(void *sweep) {
    const Sweep *s = sweep;
    sweep_write_csv(s);
    run_description_save(s->description, s->directory);
    if (!s->options->pages) return;
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        const size_t mark = memory_mark();
        if (lacks_page(run)) report_write(directory_open(run->directory));
        memory_release(mark);
    }
    report_write(s->directory);
}

static void save_description(void *sweep) {
    const Sweep *s = sweep;
    run_description_save(s->description, s->directory);
}

/* Trains, if it is to, the runs that have not ended. Writes the tables from the runs so far, and records how the sweep
   ended. If all runs had ended before and a log cannot be read, the user has to repair it, and the old tables stay.
   Raises an error if a run failed, or if the results cannot be written, which run.json then says. Returns the signal
   that ended the training, or 0. */
static int complete(Sweep *s, bool trains, FILE *out) {
    const bool had_ended = count_unfinished(s) == 0;
    const int caught = trains ? sweep_train(s) : 0;
    Error why, ignored;
    sweep_read_back(s);
    const size_t unfinished = count_unfinished(s);
    const SweepRun *failed = first_failed(s);
    if (had_ended && failed)
        usage_error("%s has finished, but %s cannot be read: %s", s->directory->path, failed->name, failed->message);
    const int signal = unfinished ? caught : 0; /* or it came too late to matter */
    const char *result = unfinished == 0 ? "finished" : signal ? "interrupted" : failed ? "failed" : "running";
    const char *recorded = js_as_text(js_get(s->description, "result"));
    if (!recorded || strcmp(result, recorded) != 0 || js_get(s->description, "error")) sweep_describe(s, result, NULL);
    if (!protect(write_results, s, &why)) {
        sweep_describe(s, "failed", why.message);
        protect(save_description, s, &ignored);
        error_raise_again(&why);
    }
    sweep_print_table(s, out);
    fputs("\nn counts finished runs; ± is half a 95 % interval over their seeds. Entropy goes\n"
          "from the first to the last step: 1 is uniform attention, 0 one-hot.\n\n",
          out);
    why_write_first(s->directory->path, out);
    fputc('\n', out);
    print_plain(out, "page to look at: %s/report.html", s->directory->path);
    print_plain(out, "pictures:        %s/*.png", s->directory->path);
    print_plain(out, "table of runs:   %s/summary.csv", s->directory->path);
    if (unfinished) print_unfinished(s, unfinished, out);
    if (failed && !signal)
        runtime_error("%zu of %zu runs failed; %s: %s", count(s, RUN_FAILED), s->run_count, failed->name,
                      failed->message);
    return signal;
}

static void announce(const Sweep *s) {
    const size_t ended = s->run_count - count_unfinished(s);
    Progress *progress = s->options->progress;
    progress_message(progress, "%s %s in %s: %zu run%s, %zu at a time with %zu thread%s each",
                     s->results ? "sweeping" : "resuming", s->config.name, s->directory->path, s->run_count,
                     s->run_count == 1 ? "" : "s", s->slots, s->threads, s->threads == 1 ? "" : "s");
    if (ended) progress_message(progress, "%zu of them %s already ended", ended, ended == 1 ? "has" : "have");
}

/* --- the functions of sweep.h */

int sweep_run(const Config *config, const SweepAxes *axes, const SweepOptions *options, FILE *out) {
    Sweep *s = plan(config, axes, options);
    sweep_open(s);
    announce(s);
    return complete(s, true, out);
}

int sweep_resume(const char *directory, const SweepOptions *options, FILE *out) {
    Sweep *s = sweep_read(directory, options, true);
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) sweep_load_run(s, run);
    const bool trains = count_unfinished(s) > 0;
    if (trains) {
        check(s);
        sweep_open(s);
        announce(s);
    } else progress_message(options->progress, "%s has finished; its table is made again", directory);
    return complete(s, trains, out);
}

static void dry_run(const Config *config, const SweepAxes *axes, const SweepOptions *options, FILE *out) {
    Sweep *s = plan(config, axes, options);
    const TrainOptions train = {.threads = s->threads};
    sweep_write_config(s, out);
    fprintf(out, "\n; %zu runs, %zu at a time with %zu thread%s each; the first of them:", s->run_count, s->slots,
            s->threads, s->threads == 1 ? "" : "s");
    trainer_check(&s->runs[0].config, &train, out);
}

void sweep_prepare(const Config *config, const SweepAxes *axes, const SweepOptions *options, FILE *out) {
    Sweep *s = plan(config, axes, options);
    sweep_open(s);
    progress_message(options->progress, "%s is in %s; to train a part of it: %s --share I/N", s->config.name,
                     s->directory->path, command_to_copy("sweep", s->directory->path));
    fprintf(out, "%zu\n", s->run_count);
}

int sweep_share(const char *directory, const char *share, const SweepOptions *options, FILE *out) {
    size_t number, shares;
    share_read(share, &number, &shares);
    Sweep *s = sweep_read(directory, options, false);
    s->share = number;
    s->shares = shares;
    check(s);
    progress_message(options->progress, "share %zu/%zu of %s in %s: %zu at a time with %zu thread%s each", number + 1,
                     shares, s->config.name, s->directory->path, s->slots, s->threads, s->threads == 1 ? "" : "s");
    const int signal = sweep_train(s);
    const size_t failures = count(s, RUN_FAILED); /* of this share */
    const SweepRun *failed = first_failed(s);
    for (SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        Error ignored;
        if (run->state == RUN_NOT_FINISHED) protect(sweep_read_run, run, &ignored); /* as other processes left it */
    }
    print_plain(out, "%zu of the %zu runs in %s have ended; to make the tables: %s --tables",
                s->run_count - count_unfinished(s), s->run_count, s->directory->path,
                command_to_copy("sweep", s->directory->path));
    if (failures && !signal)
        runtime_error("%zu of the runs of share %zu/%zu failed; %s: %s", failures, number + 1, shares, failed->name,
                      failed->message);
    return signal;
}

void sweep_tables(const char *directory, const SweepOptions *options, FILE *out) {
    complete(sweep_read(directory, options, true), false, out);
}

/* --- the verb */

static long long jobs; /* 0: not given */
static bool prepare, tables;
static const char *share; /* NULL: not given */

const Option sweep_resume_options[] = {
    {"jobs", "N", "runs of a sweep at a time (default: by threads, memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {0},
};

static const Option SWEEP_OPTIONS[] = {
    {"jobs", "N", "runs at a time (default: by threads and memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {"prepare", NULL, "make the directory of the sweep and train nothing yet", OPTION_SWITCH, &prepare, 0, 0},
    {"share", "I/N", "train a share of a sweep that was prepared; or auto", OPTION_TEXT, &share, 0, 0},
    {"tables", NULL, "write the tables and the page of such a sweep", OPTION_SWITCH, &tables, 0, 0},
    {0},
};

/* Runs --share or --tables, for a sweep that was prepared. */
static int run_prepared(const Command *command, const SweepOptions *options) {
    const char *directory = command->target;
    const char *wrong = command->overrides.count ? "--set"
                        : command->out           ? "--out"
                        : command->dry_run       ? "--dry-run"
                        : prepare                ? "--prepare"
                        : share && tables        ? "--tables"
                                                 : NULL;
    if (wrong) usage_error("--%s takes a sweep as it was prepared: leave out %s", share ? "share" : "tables", wrong);
    if (!sweep_is(directory))
        usage_error("%s is not the directory of a sweep: make one with %s sweep CONFIG.ini --prepare", directory,
                    program_name);
    if (share) return sweep_share(directory, share, options, stdout);
    sweep_tables(directory, options, stdout);
    return 0;
}

static SweepOptions sweep_options(const Command *command) {
    return (SweepOptions){.threads = command_threads(command),
                          .out = command->out,
                          .force = command->force,
                          .command_line = command->line,
                          .progress = progress_make(stderr, command->quiet),
                          .jobs = (size_t)jobs,
                          .pages = true};
}

static int run_sweep(const Command *command) {
    const SweepOptions options = sweep_options(command);
    interrupt_survive_closed_pipes();
    if (share || tables) return run_prepared(command, &options);
    Config config;
    SweepAxes *axes = memory_make(1, sizeof *axes, "the keys of a sweep");
    axes_load(&config, axes, command->target, command->overrides.items, command->overrides.count);
    if (!command->dry_run && !prepare) return sweep_run(&config, axes, &options, stdout);
    (command->dry_run ? dry_run : sweep_prepare)(&config, axes, &options, stdout);
    return 0;
}

bool sweep_resume_if(const Command *command, int *signal) {
    const char *directory = command->target;
    const OptionList *overrides = &command->overrides;
    if (!sweep_is(directory)) {
        if (jobs) usage_error("--jobs %lld is for a sweep, and %s is none", jobs, directory);
        return false;
    }
    if (overrides->count)
        usage_error("%s is a sweep, which is resumed with the config it has: --set %s changes it", directory,
                    overrides->items[0]);
    const SweepOptions options = sweep_options(command);
    *signal = sweep_resume(directory, &options, stdout);
    return true;
}

const Verb sweep_verb = {
    .name = "sweep",
    .target = "CONFIG.ini",
    .what = "Trains every combination of a config's [sweep] section, several at a time, and\n"
            "compares them. --threads counts the threads of all runs together; each run gets\n"
            "its share. The verb resume continues a sweep that was stopped. For several\n"
            "machines: sweep CONFIG.ini --prepare once; sweep DIR --share I/N as process I of\n"
            "N, or --share auto under an array of Slurm or mpirun; sweep DIR --tables.",
    .options = SWEEP_OPTIONS,
    .takes_set = true,
    .makes_runs = true,
    .run = run_sweep,
};
