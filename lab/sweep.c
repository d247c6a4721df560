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

/* Checks that the directories of the runs can have their names. */
static void check_names(const Sweep *s) {
    char wanted[PATH_CAPACITY], name[RESULTS_PATH];
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        path_join(wanted, s->options->out ? s->options->out : s->config.log.out, run->name);
        results_name(name, wanted, 1);
    }
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
    results_check(o->out, s->config.log.out, o->force);
    check_names(s);
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

/* Returns the first run with this state, or NULL. */
static const SweepRun *first(const Sweep *s, SweepRunState state) {
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++)
        if (run->state == state) return run;
    return NULL;
}

/* Raises an error if a run has failed or is damaged. */
static void refuse_failures(const Sweep *s, SweepRunState state, const char *what) {
    const SweepRun *run = first(s, state);
    if (run) runtime_error("%zu of %zu runs %s; %s: %s", count(s, state), s->run_count, what, run->name, run->message);
}

/* --- the end of a sweep */

/* Names runs that are in no table, the first few of them, and why. */
static void name_missing(const Sweep *s, bool damaged, FILE *out) {
    size_t named = 0;
    for (const SweepRun *run = s->runs; run < s->runs + s->run_count; run++) {
        if (has_ended(run) || (run->state == RUN_DAMAGED) != damaged || named++ >= 8) continue;
        print_plain(out, "  %s: %s%s%s", run->name, SWEEP_RUN_STATES[run->state], *run->message ? ": " : "",
                    run->message);
    }
    if (named > 8) print_plain(out, "  and %zu more", named - 8);
}

/* Prints how many runs have not ended. Those that other processes train are not to be resumed. */
static void print_unfinished(const Sweep *s, FILE *out) {
    char held[64] = "";
    const char *end = "";
    const size_t unfinished = count_unfinished(s);
    size_t others = 0;
    for (size_t i = 0; i < s->run_count; i++) others += s->runs[i].held && !has_ended(&s->runs[i]);
    if (others) snprintf(held, sizeof held, "; other processes train %zu of them", others);
    if (others < unfinished) end = command_to_copy("resume", s->directory->path);
    print_plain(out, "%zu of %zu runs have not finished%s%s%s", unfinished, s->run_count, held,
                *end ? "; to resume: " : "", end);
}

static void print_missing(const Sweep *s, FILE *out) {
    const size_t unfinished = count_unfinished(s), damaged = count(s, RUN_DAMAGED);
    if (unfinished) {
        fputc('\n', out);
        print_unfinished(s, out);
        name_missing(s, false, out);
    }
    if (damaged) {
        fputc('\n', out);
        print_plain(out, "%zu of %zu runs are damaged and left out:", damaged, s->run_count);
        name_missing(s, true, out);
    }
}

#ifdef __APPLE__
#define st_mtim st_mtimespec /* as POSIX names it */
#endif
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

/* Prints the last line of a sweep. */
static void print_page(const Sweep *s, FILE *out) {
    print_plain(out, "page to look at: %s/report.html", s->directory->path);
}

/* Trains, if it is to, the runs that have not ended. Writes the tables from the runs so far, and records how the sweep
   ended. Raises an error if a run failed or is damaged, or if the results cannot be written, which run.json then says.
   Returns the signal that ended the training, or 0. */
static int complete(Sweep *s, bool trains, FILE *out) {
    const int caught = trains ? sweep_train(s) : 0;
    Error why, ignored;
    sweep_read_back(s);
    for (size_t i = 0; !trains && i < s->run_count; i++)
        if (is_to_train(&s->runs[i])) sweep_find_holder(&s->runs[i]);
    const size_t unfinished = count_unfinished(s);
    const int signal = unfinished ? caught : 0; /* or it came too late to matter */
    const char *result = unfinished == 0        ? "finished"
                         : signal               ? "interrupted"
                         : first(s, RUN_FAILED) ? "failed"
                                                : "running";
    const char *recorded = js_as_text(js_get(s->description, "result"));
    if (!recorded || strcmp(result, recorded) != 0 || js_get(s->description, "error")) sweep_describe(s, result, NULL);
    if (!protect(write_results, s, &why)) {
        sweep_describe(s, "failed", why.message);
        protect(save_description, s, &ignored);
        error_raise_again(&why);
    }
    if (signal) {
        print_unfinished(s, out);
        print_page(s, out);
        return signal;
    }
    sweep_print_table(s, out);
    fputs("\nn counts finished runs; ± is half a 95 % interval over their seeds. Entropy goes\n"
          "from the first to the last step: 1 is uniform attention, 0 one-hot.\n\n",
          out);
    why_write_first(s->directory->path, out);
    print_missing(s, out);
    if (!trains && unfinished) {
        fputs("\nTheir commands:\n", out);
        sweep_write_commands(s, out);
    }
    fputc('\n', out);
    print_plain(out, "pictures:        %s/*.png", s->directory->path);
    print_plain(out, "table of runs:   %s/summary.csv", s->directory->path);
    print_page(s, out);
    refuse_failures(s, RUN_FAILED, "failed");
    refuse_failures(s, RUN_DAMAGED, "are damaged and left out");
    return 0;
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
    FileWriter *commands = file_writer_open(s->directory, "commands.txt");
    sweep_write_commands(s, commands->stream);
    file_writer_commit(commands);
    progress_message(options->progress, "%s is in %s; the commands of its runs are the lines of %s/commands.txt",
                     s->config.name, s->directory->path, s->directory->path);
    fprintf(out, "%zu\n", s->run_count);
}

void sweep_tables(const char *directory, const SweepOptions *options, FILE *out) {
    complete(sweep_read(directory, options, true), false, out);
}

/* --- the verb */

static long long jobs; /* 0: not given */
static bool prepare, tables;

const Option sweep_resume_options[] = {
    {"jobs", "N", "runs of a sweep at a time (default: by threads, memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {0},
};

static const Option SWEEP_OPTIONS[] = {
    {"jobs", "N", "runs at a time (default: by threads and memory)", OPTION_INTEGER, &jobs, 1, THREADS_MAX},
    {"prepare", NULL, "make its directory with commands.txt, and train nothing", OPTION_SWITCH, &prepare, 0, 0},
    {"tables", NULL, "write the tables and the page of a directory (as sweep DIR)", OPTION_SWITCH, &tables, 0, 0},
    {0},
};

/* Refuses options that say how a sweep is to be made, for one that is there. */
static void check_tables(const Command *command) {
    const char *wrong = command->overrides.count ? "--set"
                        : command->out           ? "--out"
                        : command->dry_run       ? "--dry-run"
                        : prepare                ? "--prepare"
                        : jobs                   ? "--jobs"
                                                 : NULL;
    if (!sweep_is(command->target))
        usage_error("%s is not the directory of a sweep: make one with %s sweep CONFIG.ini --prepare", command->target,
                    program_name);
    if (wrong)
        usage_error("the tables of a sweep are made from its directory as it is: leave out %s; to train its runs: %s",
                    wrong, command_to_copy("resume", command->target));
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
    program_open();
    interrupt_survive_closed_pipes();
    if (tables || sweep_is(command->target)) {
        check_tables(command);
        sweep_tables(command->target, &options, stdout);
        return 0;
    }
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
    program_open();
    const SweepOptions options = sweep_options(command);
    *signal = sweep_resume(directory, &options, stdout);
    return true;
}

const Verb sweep_verb = {
    .name = "sweep",
    .target = "CONFIG.ini|DIR",
    .what = "Trains every combination of a config's [sweep] section, several at a time, and\n"
            "compares them. --threads counts the threads of all runs together; each run gets\n"
            "its share. The verb resume continues a sweep that was stopped. For several\n"
            "machines: sweep CONFIG.ini --prepare; then whoever deals out work runs the lines\n"
            "of DIR/commands.txt, each begins or resumes a run; then sweep DIR.",
    .options = SWEEP_OPTIONS,
    .settings_meant = config_settings_meant,
    .makes_runs = true,
    .run = run_sweep,
};
