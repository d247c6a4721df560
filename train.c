/* The command line: verbs and options become calls into src/. The only place that prints an Error and exits. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/version.h"
#include "lab/bench.h"
#include "lab/claims.h"
#include "lab/gradcheck_config.h"
#include "lab/kernels.h"
#include "lab/sweep.h"
#include "lab/theory_report.h"
#include "ops/matmul.h"
#include "train/interrupt.h"
#include "train/sample.h"
#include "train/saved_run.h"
#include "train/trainer.h"

enum { OVERRIDES_MAX = 256, PROMPT_MAX = 65536 };

/* Everything that can be said on the command line; each verb takes some of it. */
typedef struct {
    const char *target; /* CONFIG or RUN_DIR */
    const char *overrides[OVERRIDES_MAX];
    size_t override_count;
    const char *out, *prompt, *d_k;
    long threads, tokens, top_k, keys, samples;
    long long seed;
    double temperature, seconds;
    bool dry_run, force, quiet, help, seeded, threads_given, json, csv, claims;
} Arguments;

typedef struct {
    const char *name;    /* NULL: training, which has no verb */
    const char *options; /* the letters of OPTIONS it takes */
    const char *usage;
    bool (*run)(const Arguments *arguments, const char *command_line, int *signal, Error *err);
} Verb;

static const struct {
    char letter;
    const char *name, *value; /* value NULL: a switch */
    const char *help;
} OPTIONS[] = {
    {'s', "--set", "SECTION.KEY=VALUE", "set a key of the config; may be repeated"},
    {'o', "--out", "DIR", "where results go (default: log.out, or the next free name)"},
    {'t', "--threads", "N", "threads (default: one for each processor)"},
    {'d', "--dry-run", NULL, "print the resolved config, size, memory and FLOPs, and stop"},
    {'f', "--force", NULL, "with --out: replace a run that is there"},
    {'q', "--quiet", NULL, "no messages and no progress line"},
    {'p', "--prompt", "TEXT", "what the text begins with (default: a line end)"},
    {'n', "--tokens", "N", "characters to draw (default 500)"},
    {'T', "--temperature", "X", "above 1 wilder, below 1 tamer, 0 the likeliest (default 1)"},
    {'k', "--top-k", "K", "draw from the K likeliest characters (default: from all)"},
    {'S', "--seed", "S", "of the drawing (default: another one each time)"},
    {'j', "--json", NULL, "print one line of JSON"},
    {'m', "--seconds", "S", "how long to measure (default 8; eight steps at least)"},
    {'D', "--d-k", "LIST", "sizes of q, as 16,64,256 (default 1,4,16,64,256,1024)"},
    {'K', "--keys", "N", "keys in a row (default 64)"},
    {'N', "--samples", "N", "rows drawn for each d_k (default 4096)"},
    {'E', "--seed", "S", "of the random numbers (default 1)"},
    {'c', "--csv", NULL, "print comma-separated values instead of a table"},
    {'C', "--claims", NULL, "what is commonly said about the divisor, put to the test"},
    {'O', "--out", "DIR", "write theory.csv and theory.png there (default: only print)"},
    {'F', "--force", NULL, "with --out: replace what an earlier --out wrote"},
    {'h', "--help", NULL, "this text"},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static void print_file(const char *directory, const char *name, const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    printf("  %-16s %s\n", what, path);
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

static TrainOptions train_options(const Arguments *a, const char *command_line, Progress *progress) {
    return (TrainOptions){.threads = (size_t)a->threads,
                          .out = a->out,
                          .force = a->force,
                          .command_line = command_line,
                          .progress = progress};
}

static bool run_training(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config; /* large */
    Progress progress = progress_make(stderr, a->quiet);
    const TrainOptions options = train_options(a, command_line, &progress);
    if (!config_load(&config, a->target, a->overrides, a->override_count, err)) return false;
    if (config.sweep_count)
        return error_set(err, STATUS_USAGE, "%s has a [sweep] section: run it with ./train sweep %s", a->target,
                         a->target);
    if (a->dry_run) return train_dry_run(&config, &options, stdout, err);
    RunRecord record;
    bool ok = train_run(&config, &options, &record, err);
    if (ok) print_results(&record);
    *signal = record.signal;
    record_free(&record);
    return ok;
}

static SweepOptions sweep_options(const Arguments *a, const char *command_line, Progress *progress) {
    return (SweepOptions){.threads = (size_t)a->threads,
                          .out = a->out,
                          .force = a->force,
                          .command_line = command_line,
                          .program = "/proc/self/exe",
                          .progress = progress};
}

static bool run_sweep_resumption(const Arguments *a, const char *command_line, int *signal, Error *err) {
    Progress progress = progress_make(stderr, a->quiet);
    const SweepOptions options = sweep_options(a, command_line, &progress);
    bool finished;
    if (a->override_count)
        return error_set(err, STATUS_USAGE, "%s is a sweep, which goes on with the config it has: --set %s changes it",
                         a->target, a->overrides[0]);
    if (!sweep_resume(a->target, &options, stdout, signal, &finished, err)) return false;
    if (finished) printf("%s has finished: %s/summary.md tells\n", a->target, a->target);
    return true;
}

static bool run_resumption(const Arguments *a, const char *command_line, int *signal, Error *err) {
    if (sweep_is(a->target)) return run_sweep_resumption(a, command_line, signal, err);
    Progress progress = progress_make(stderr, a->quiet);
    TrainOptions options = train_options(a, command_line, &progress);
    RunRecord record;
    bool finished;
    if (!a->threads_given) options.threads = 0;
    bool ok = train_resume(a->target, a->overrides, a->override_count, &options, &record, &finished, err);
    if (ok && finished)
        printf("%s has made all of its steps; to train it further: ./train resume %s --set train.steps=N\n", a->target,
               a->target);
    else if (ok)
        print_results(&record);
    *signal = record.signal;
    record_free(&record);
    return ok;
}

static bool run_sweep(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config;
    Progress progress = progress_make(stderr, a->quiet);
    const SweepOptions options = sweep_options(a, command_line, &progress);
    return config_load(&config, a->target, a->overrides, a->override_count, err) &&
           (a->dry_run ? sweep_dry_run(&config, &options, stdout, err)
                       : sweep_run(&config, &options, stdout, signal, err));
}

static bool run_evaluation(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static SavedRun run;
    double loss;
    size_t characters;
    bool complete;
    (void)command_line;
    bool ok = saved_run_open(&run, a->target, 0, (size_t)a->threads, err) &&
              saved_run_evaluate(&run, &loss, &characters, &complete, err);
    if (ok && complete) printf("validation loss %.4f nats a character, over %zu characters\n", loss, characters);
    *signal = ok && !complete ? interrupt_signal() : 0;
    saved_run_close(&run);
    return ok;
}

static bool write_sample(const Arguments *a, SavedRun *run, Sampler *sampler, int *signal, Error *err) {
    static int32_t prompt[PROMPT_MAX];
    size_t count = 1;
    const char *text = a->prompt ? a->prompt : "";
    const SampleOptions options = {.tokens = (size_t)a->tokens,
                                   .temperature = a->temperature,
                                   .top_k = (size_t)a->top_k,
                                   .seed = a->seeded ? (uint64_t)a->seed : (uint64_t)time(NULL)};
    prompt[0] = sample_start(&run->vocabulary);
    if (*text && !vocabulary_encode(&run->vocabulary, "--prompt", text, strlen(text), prompt, PROMPT_MAX, &count, err))
        return false;
    fputs(text, stdout);
    bool all = sample_text(&run->model, &run->vocabulary, sampler, prompt, count, &options, stdout);
    fputc('\n', stdout);
    *signal = all ? 0 : interrupt_signal();
    return true; /* a stdout that failed is noticed at the end of main */
}

static bool run_sampling(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static SavedRun run;
    Sampler sampler = {0};
    (void)command_line;
    bool ok = saved_run_open(&run, a->target, 1, (size_t)a->threads, err) &&
              sampler_make(&sampler, &run.model.shape, err) && write_sample(a, &run, &sampler, signal, err);
    sampler_free(&sampler);
    saved_run_close(&run);
    return ok;
}

static bool run_gradcheck(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config;
    Progress progress = progress_make(stderr, a->quiet);
    (void)command_line;
    return config_load(&config, a->target, a->overrides, a->override_count, err) &&
           gradcheck_config(&config, (size_t)a->threads, &progress, stdout, signal, err);
}

/* Gradients are checked in double precision. The program in floats becomes the one that make puts beside it,
   "train-double", or "sqrtdk-double" where it is installed; returns false, with an error, when it cannot. */
static bool become_double(char **argv, Error *err) {
#ifdef REAL_DOUBLE
    (void)argv, (void)err;
    return true;
#else
    enum { SUFFIX = sizeof "-double" };
    char path[PATH_MAX + SUFFIX];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, STATUS_FAILED, "cannot find out where this program is: %s", strerror(errno));
    memcpy(path + length, "-double", SUFFIX);
    /* Its passes are short: threads that spin wherever they meet would take the processor from each other. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execv(path, argv);
    return error_set(err, STATUS_FAILED, "gradients are checked by %s, which cannot be started (%s): run make", path,
                     strerror(errno));
#endif
}

static bool run_bench(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config;
    (void)command_line;
    return config_load(&config, a->target, a->overrides, a->override_count, err) &&
           bench_run(&config, (size_t)a->threads, a->seconds, a->json, stdout, signal, err);
}

static bool run_theory(const Arguments *a, const char *command_line, int *signal, Error *err) {
    Progress progress = progress_make(stderr, a->quiet);
    TheoryOptions options = theory_options((size_t)a->threads);
    if (a->seeded) options.seed = (uint64_t)a->seed;
    if (a->claims) {
        if (a->d_k || a->keys || a->samples || a->out || a->force)
            return error_set(err, STATUS_USAGE,
                             "--claims takes only --seed, --csv and --threads: each claim has its sizes");
        return claims_run(options.seed, options.threads, a->csv, &progress, stdout, signal, err);
    }
    if (a->d_k && !theory_parse_list(a->d_k, &options, err)) return false;
    if (a->keys) options.keys = (size_t)a->keys;
    if (a->samples) options.samples = (size_t)a->samples;
    options.csv = a->csv;
    options.directory = a->out;
    options.force = a->force;
    options.command_line = command_line;
    return theory_run(&options, &progress, stdout, signal, err);
}

static const Verb VERBS[] = {
    {NULL, "sotdfqh", "./train CONFIG.ini [options]", run_training},
    {"resume", "stqh", "./train resume RUN_DIR [options]", run_resumption},
    {"sweep", "sotdfqh", "./train sweep CONFIG.ini [options]", run_sweep},
    {"eval", "tqh", "./train eval RUN_DIR [options]", run_evaluation},
    {"sample", "pnTkStqh", "./train sample RUN_DIR [options]", run_sampling},
    {"bench", "stmjqh", "./train bench CONFIG.ini [options]", run_bench},
    {"theory", "DKNEcOFCtqh", "./train theory [options]", run_theory},
    {"gradcheck", "stqh", "./train gradcheck CONFIG.ini [options]", run_gradcheck},
};
enum { VERB_COUNT = sizeof VERBS / sizeof *VERBS };

static void print_options(const Verb *verb) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[40];
        if (!strchr(verb->options, OPTIONS[i].letter)) continue;
        snprintf(left, sizeof left, "%s%s%s", OPTIONS[i].name, OPTIONS[i].value ? " " : "",
                 OPTIONS[i].value ? OPTIONS[i].value : "");
        if (strlen(left) <= 18)
            printf("  %-18s %s\n", left, OPTIONS[i].help);
        else
            printf("  %s\n  %-18s %s\n", left, "", OPTIONS[i].help);
    }
}

static void print_verb_help(const Verb *verb) {
    static const char *const what[VERB_COUNT] = {
        "Trains a model and draws what it learned.",
        "Goes on where a run or a sweep stopped, to the same bits as if it had not. Only\n"
        "a run's train.steps can be set; threads are the run's own unless given.",
        "Trains every combination of a config's [sweep] section, side by side on the\n"
        "processors, and draws them together. Started again after it was stopped, it\n"
        "goes on. --threads is for all runs together; each gets its share.",
        "Prints the loss of a trained model over the whole validation split.",
        "Writes text with a trained model.",
        "Measures how fast a config trains, and what share that is of the machine's peak.",
        "Draws queries and keys at random and measures what four divisors of their scores\n"
        "do to a row of attention and to its gradient: no model, no training.",
        "Compares every gradient of a config's model, or of each combination of its\n"
        "[sweep], with differences of the loss in double precision.",
    };
    printf("usage: %s\n%s\n\n", verb->usage, what[verb - VERBS]);
    print_options(verb);
}

static void print_help(void) {
    printf("sqrtdk %s: trains a small transformer and shows what the divisor of its\n"
           "attention scores does.\n\n",
           SQRTDK_VERSION);
    for (size_t i = 0; i < VERB_COUNT; i++) printf("%s %s\n", i ? "      " : "usage:", VERBS[i].usage);
    printf("       ./train --help | --version | --keys | VERB --help\n\noptions of training\n");
    print_options(&VERBS[0]);
    printf(
        "\nStart with: ./train configs/dk64_scaled.ini\n\nkeys of a config, as in --set attention.scale_divisor=none\n");
    config_write_help(stdout);
    printf("\nexit status: 0 done; 1 failed while running; 2 wrong usage or config;\n"
           "3 diverged (NaN or infinity); 130, 143 stopped by SIGINT, SIGTERM and saved\n");
}

static bool parse_whole(const char *name, const char *text, long long least, long long most, long long *out,
                        Error *err) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end != text && !*end && errno == 0 && *out >= least && *out <= most) return true;
    return error_set(err, STATUS_USAGE, "%s takes a whole number from %lld to %lld, not \"%.100s\"", name, least, most,
                     text);
}

/* `value` is NULL for a switch and only for a switch. */
static bool set_option(Arguments *a, size_t option, const char *value, Error *err) {
    long long number = 0;
    char *end;
    switch (OPTIONS[option].letter) {
    case 's':
        if (a->override_count == OVERRIDES_MAX)
            return error_set(err, STATUS_USAGE, "more than %d --set", OVERRIDES_MAX);
        a->overrides[a->override_count++] = value;
        return true;
    case 'o':
    case 'O': a->out = value; return *value ? true : error_set(err, STATUS_USAGE, "--out takes a directory");
    case 't':
        if (!parse_whole("--threads", value, 1, THREADS_MAX, &number, err)) return false;
        a->threads = (long)number;
        a->threads_given = true;
        return true;
    case 'p': a->prompt = value; return true;
    case 'D': a->d_k = value; return true;
    case 'K':
        if (!parse_whole("--keys", value, 1, THEORY_KEYS_MAX, &number, err)) return false;
        a->keys = (long)number;
        return true;
    case 'N':
        if (!parse_whole("--samples", value, 2, THEORY_SAMPLES_MAX, &number, err)) return false;
        a->samples = (long)number;
        return true;
    case 'c': a->csv = true; return true;
    case 'C': a->claims = true; return true;
    case 'n':
        if (!parse_whole("--tokens", value, 0, 1000000000, &number, err)) return false;
        a->tokens = (long)number;
        return true;
    case 'k':
        if (!parse_whole("--top-k", value, 1, 1000000000, &number, err)) return false;
        a->top_k = (long)number;
        return true;
    case 'E':
    case 'S': a->seeded = true; return parse_whole("--seed", value, 0, LLONG_MAX, &a->seed, err);
    case 'T':
        a->temperature = strtod(value, &end);
        if (end == value || *end || !(a->temperature >= 0) || a->temperature > 1e6)
            return error_set(err, STATUS_USAGE, "--temperature takes a number from 0 to 1e6, not \"%.100s\"", value);
        return true;
    case 'm':
        a->seconds = strtod(value, &end);
        if (end == value || *end || !(a->seconds >= 0) || a->seconds > 1e6)
            return error_set(err, STATUS_USAGE, "--seconds takes a number from 0 to 1e6, not \"%.100s\"", value);
        return true;
    case 'd': a->dry_run = true; return true;
    case 'f':
    case 'F': a->force = true; return true;
    case 'q': a->quiet = true; return true;
    case 'j': a->json = true; return true;
    default: a->help = true; return true;
    }
}

/* "--name value" or "--name=value". */
static bool parse_option(Arguments *a, const Verb *verb, char **argv, int argc, int *i, Error *err) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    for (size_t o = 0; o < OPTION_COUNT; o++) {
        if (strlen(OPTIONS[o].name) != length || strncmp(OPTIONS[o].name, word, length) != 0) continue;
        if (!strchr(verb->options, OPTIONS[o].letter)) continue; /* another verb's of that name */
        if (!OPTIONS[o].value && equals) return error_set(err, STATUS_USAGE, "%s takes no value", OPTIONS[o].name);
        if (OPTIONS[o].value && !equals && *i + 1 >= argc)
            return error_set(err, STATUS_USAGE, "%s needs a value: %s %s", OPTIONS[o].name, OPTIONS[o].name,
                             OPTIONS[o].value);
        if (OPTIONS[o].value && !equals && strncmp(argv[*i + 1], "--", 2) == 0)
            return error_set(err, STATUS_USAGE,
                             "%s needs a value, and %.100s looks like an option: write %s=%.100s if "
                             "it is meant",
                             OPTIONS[o].name, argv[*i + 1], OPTIONS[o].name, argv[*i + 1]);
        return set_option(a, o, !OPTIONS[o].value ? "" : equals ? equals + 1 : argv[++*i], err);
    }
    return error_set(err, STATUS_USAGE, "there is no option %.100s here: %s%s%s --help lists them", word, "./train",
                     verb->name ? " " : "", verb->name ? verb->name : "");
}

static bool parse(Arguments *a, const Verb **verb, int argc, char **argv, Error *err) {
    int i = 1;
    *a = (Arguments){.tokens = 500, .temperature = 1, .seconds = 8};
    *verb = &VERBS[0];
    for (size_t v = 1; argc > 1 && v < VERB_COUNT; v++)
        if (strcmp(argv[1], VERBS[v].name) == 0) *verb = &VERBS[v], i = 2;
    for (; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!parse_option(a, *verb, argv, argc, &i, err)) return false;
        } else if (a->target || (*verb)->run == run_theory) {
            return error_set(err, STATUS_USAGE, "one argument too many: \"%.100s\"; usage: %s", argv[i],
                             (*verb)->usage);
        } else {
            a->target = argv[i];
        }
    }
    if (a->help || a->target || (*verb)->run == run_theory) return true;
    return error_set(err, STATUS_USAGE,
                     "nothing to do: usage: %s, for example ./train configs/dk64_scaled.ini (--help tells more)",
                     (*verb)->usage);
}

/* The words of the command line, as run.json keeps them. */
static char *join_words(int argc, char **argv) {
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = calloc(size, 1), *end = text;
    for (int i = 0; text && i < argc; i++) end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    return text;
}

static int fail(const Error *err) {
    fflush(stdout);
    fprintf(stderr, "train: %s\n", err->message);
    return (int)err->status;
}

static int finish_output(int status) {
    Error err;
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    error_set(&err, STATUS_FAILED, "cannot write to standard output: %s", strerror(errno));
    return fail(&err);
}

/* Without this the next file opened would take the number of a standard stream that is closed, and messages would end
   up in metrics.csv. Opened for reading, so that writing to it still fails. */
static void hold_standard_streams(void) {
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) close(fd);
}

int main(int argc, char **argv) {
    Arguments arguments;
    const Verb *verb;
    Error err = {0};
    int caught = 0;
    hold_standard_streams();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("sqrtdk %s\n", SQRTDK_VERSION);
        return finish_output(0);
    }
    if (argc == 2 && strcmp(argv[1], "--keys") == 0) { /* docs/config.md */
        config_write_markdown(stdout);
        return finish_output(0);
    }
    if (!parse(&arguments, &verb, argc, argv, &err)) return fail(&err);
    if (arguments.help) {
        if (verb == &VERBS[0])
            print_help();
        else
            print_verb_help(verb);
        return finish_output(0);
    }
    if (verb->run == run_gradcheck && !become_double(argv, &err)) return fail(&err);
    if (!matmul_is_own()) kernels_choose(argv, arguments.quiet);
    /* Asked for before OpenBLAS is kept to one thread, which its OpenMP build passes on to OpenMP. */
    if (!arguments.threads)
        arguments.threads = omp_get_max_threads() < THREADS_MAX ? omp_get_max_threads() : THREADS_MAX;
    matmul_setup();
    interrupt_catch();
    if (verb->run != run_sampling) interrupt_survive_closed_pipes();
    char *command_line = join_words(argc, argv);
    bool ok = command_line ? verb->run(&arguments, command_line, &caught, &err)
                           : error_set(&err, STATUS_FAILED, "no memory for the command line");
    free(command_line);
    if (!ok) return fail(&err);
    return finish_output(caught ? 128 + caught : 0);
}
