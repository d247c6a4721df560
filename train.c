/* The command line: verbs and options become calls into src/. The only place that prints an Error and exits. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/options.h"
#include "base/results_directory.h"
#include "base/version.h"
#include "bench/bench.h"
#include "gradcheck/report.h"
#include "ops/matmul.h"
#include "sweep/sweep.h"
#include "theory/claims.h"
#include "theory/report.h"
#include "train/logs.h"
#include "train/sample.h"
#include "train/trainer.h"

enum { PROMPT_MAX = 65536 };

/* Everything that can be said on the command line; each verb takes some of it. What was not said is NULL, 0, or
   what parse puts there first. */
typedef struct {
    const char *target; /* CONFIG or RUN_DIR */
    OptionList overrides;
    const char *out, *prompt, *d_k;
    long long threads, tokens, top_k, keys, samples, seed; /* seed -1: not said */
    double temperature, seconds;
    bool dry_run, force, quiet, help, json, csv, claims;
    int processors; /* that OpenMP has: found out by main */
} Arguments;

typedef bool Action(const Arguments *arguments, const char *command_line, int *signal, Error *err);
static Action run_training, run_resumption, run_sweep, run_evaluation, run_sampling, run_bench, run_theory,
    run_gradcheck;

typedef enum { TRAIN, RESUME, SWEEP, EVAL, SAMPLE, BENCH, THEORY, GRADCHECK, VERB_COUNT } VerbNumber;
#define BIT(verb) (1u << (verb))

static const struct {
    const char *name, *target; /* NULL: training has no verb; theory takes no target */
    Action *run;
    const char *what;
} VERBS[VERB_COUNT] = {
    [TRAIN] = {NULL, "CONFIG.ini", run_training, "Trains a model and draws what it learned."},
    [RESUME] = {"resume", "RUN_DIR", run_resumption,
                "Goes on where a run or a sweep stopped, to the same bits as if it had not. Only\n"
                "a run's train.steps can be set; threads are the run's own unless given."},
    [SWEEP] = {"sweep", "CONFIG.ini", run_sweep,
               "Trains every combination of a config's [sweep] section, side by side on the\n"
               "processors, and draws them together. Started again after it was stopped, it\n"
               "goes on. --threads is for all runs together; each gets its share."},
    [EVAL] = {"eval", "RUN_DIR", run_evaluation, "Prints the loss of a trained model over the whole validation split."},
    [SAMPLE] = {"sample", "RUN_DIR", run_sampling, "Writes text with a trained model."},
    [BENCH] = {"bench", "CONFIG.ini", run_bench,
               "Measures how fast a config trains, and what share that is of the machine's peak."},
    [THEORY] = {"theory", NULL, run_theory,
                "Draws queries and keys at random and measures what four divisors of their scores\n"
                "do to a row of attention and to its gradient: no model, no training."},
    [GRADCHECK] = {"gradcheck", "CONFIG.ini", run_gradcheck,
                   "Compares every gradient of a config's model, or of each combination of its\n"
                   "[sweep], with differences of the loss in double precision."},
};

#define ALL (BIT(VERB_COUNT) - 1)
#define RUNS (BIT(TRAIN) | BIT(SWEEP))
#define CONFIGS (RUNS | BIT(RESUME) | BIT(BENCH) | BIT(GRADCHECK))
#define MEMBER(name) offsetof(Arguments, name)
static const Option OPTIONS[] = {
    {"--set", "SECTION.KEY=VALUE", "set a key of the config; may be repeated", OPTION_LIST, MEMBER(overrides), 0, 0,
     CONFIGS},
    {"--prompt", "TEXT", "what the text begins with (default: a line end)", OPTION_TEXT, MEMBER(prompt), 0, 0,
     BIT(SAMPLE)},
    {"--tokens", "N", "characters to draw (default 500)", OPTION_WHOLE, MEMBER(tokens), 0, 1e9, BIT(SAMPLE)},
    {"--temperature", "X", "above 1 wilder, below 1 tamer, 0 the likeliest (default 1)", OPTION_NUMBER,
     MEMBER(temperature), 0, 1e6, BIT(SAMPLE)},
    {"--top-k", "K", "draw from the K likeliest characters (default: from all)", OPTION_WHOLE, MEMBER(top_k), 1, 1e9,
     BIT(SAMPLE)},
    {"--seed", "S", "of the drawing (default: another one each time)", OPTION_WHOLE, MEMBER(seed), 0, LLONG_MAX,
     BIT(SAMPLE)},
    {"--d-k", "LIST", "sizes of q, as 16,64,256 (default 1,4,16,64,256,1024)", OPTION_TEXT, MEMBER(d_k), 0, 0,
     BIT(THEORY)},
    {"--keys", "N", "keys in a row (default 64)", OPTION_WHOLE, MEMBER(keys), 1, THEORY_KEYS_MAX, BIT(THEORY)},
    {"--samples", "N", "rows drawn for each d_k (default 4096)", OPTION_WHOLE, MEMBER(samples), 2, THEORY_SAMPLES_MAX,
     BIT(THEORY)},
    {"--seed", "S", "of the random numbers (default 1)", OPTION_WHOLE, MEMBER(seed), 0, LLONG_MAX, BIT(THEORY)},
    {"--csv", NULL, "print comma-separated values instead of a table", OPTION_SWITCH, MEMBER(csv), 0, 0, BIT(THEORY)},
    {"--claims", NULL, "what is commonly said about the divisor, put to the test", OPTION_SWITCH, MEMBER(claims), 0, 0,
     BIT(THEORY)},
    {"--out", "DIR", "where results go (default: log.out, or the next free name)", OPTION_DIRECTORY, MEMBER(out), 0, 0,
     RUNS},
    {"--out", "DIR", "write theory.csv and theory.png there (default: only print)", OPTION_DIRECTORY, MEMBER(out), 0, 0,
     BIT(THEORY)},
    {"--threads", "N", "threads (default: one for each processor)", OPTION_WHOLE, MEMBER(threads), 1, THREADS_MAX, ALL},
    {"--dry-run", NULL, "print the resolved config, size, memory and FLOPs, and stop", OPTION_SWITCH, MEMBER(dry_run),
     0, 0, RUNS},
    {"--force", NULL, "with --out: replace a run that is there", OPTION_SWITCH, MEMBER(force), 0, 0, RUNS},
    {"--force", NULL, "with --out: replace what an earlier --out wrote", OPTION_SWITCH, MEMBER(force), 0, 0,
     BIT(THEORY)},
    {"--seconds", "S", "how long to measure (default 8; eight steps at least)", OPTION_NUMBER, MEMBER(seconds), 0, 1e6,
     BIT(BENCH)},
    {"--json", NULL, "print one line of JSON", OPTION_SWITCH, MEMBER(json), 0, 0, BIT(BENCH)},
    {"--quiet", NULL, "no messages and no progress line", OPTION_SWITCH, MEMBER(quiet), 0, 0, ALL},
    {"--help", NULL, "this text", OPTION_SWITCH, MEMBER(help), 0, 0, ALL},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static size_t threads_of(const Arguments *a) { return (size_t)(a->threads ? a->threads : (long long)a->processors); }

static void print_file(const char *directory, const char *name, const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    printf("  %-16s %s\n", what, path);
}

static double number_of(const Json *description, const char *key) {
    double number = NAN;
    js_as_number(js_get(description, key), &number);
    return number;
}

/* The heatmaps of the first and the last step whose attention was measured. */
static bool print_heatmaps(const char *directory, Error *err) {
    LogTable attention;
    bool ok = logs_read(directory, LOG_ATTENTION, &attention, err);
    for (int last = 0; ok && last < 2 && attention.rows; last++) {
        char name[64];
        const double step = attention.column[ATTENTION_STEP][last ? attention.rows - 1 : 0];
        snprintf(name, sizeof name, "attention/step%06.0f_layer0.png", step);
        print_file(directory, name, last ? "attention last" : "attention first");
    }
    log_table_free(&attention);
    return ok;
}

/* What a run came to, as its run.json and logs say. */
static bool print_results(const TrainOutcome *outcome, Error *err) {
    const char *directory = outcome->directory;
    Json *d;
    char duration[32];
    bool ok = run_description_load(&d, directory, err);
    if (ok) {
        const double steps = number_of(d, "steps"), train = number_of(d, "train_loss"), val = number_of(d, "val_loss");
        progress_duration(number_of(d, "seconds"), duration, sizeof duration);
        printf("%s after %.0f step%s and %s", outcome->signal ? "stopped" : "done", steps, steps == 1 ? "" : "s",
               duration);
        if (isfinite(train)) printf(": train loss %.4f", train);
        if (isfinite(val)) printf(", validation loss %.4f", val);
        putchar('\n');
        if (isfinite(val))
            printf("the best validation loss was %.4f, at step %.0f\n", number_of(d, "best_val_loss"),
                   number_of(d, "best_step"));
        printf("look at\n");
        print_file(directory, "loss.png", "loss curves");
        ok = print_heatmaps(directory, err);
        print_file(directory, "samples.txt", "text it wrote");
        print_file(directory, "metrics.csv", "losses");
        print_file(directory, "attention.csv", "attention");
    }
    js_free(d);
    return ok;
}

static TrainOptions train_options(const Arguments *a, const char *command_line, Progress *progress) {
    return (TrainOptions){
        .threads = threads_of(a), .out = a->out, .force = a->force, .command_line = command_line, .progress = progress};
}

static bool run_training(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config; /* large */
    Progress progress = progress_make(stderr, a->quiet);
    const TrainOptions options = train_options(a, command_line, &progress);
    if (!config_load(&config, a->target, a->overrides.items, a->overrides.count, err)) return false;
    if (config.sweep_count)
        return error_set(err, STATUS_USAGE, "%s has a [sweep] section: run it with ./train sweep %s", a->target,
                         a->target);
    if (a->dry_run) return train_dry_run(&config, &options, stdout, err);
    TrainOutcome outcome;
    bool ok = train_run(&config, &options, &outcome, err) && print_results(&outcome, err);
    *signal = outcome.signal;
    return ok;
}

static SweepOptions sweep_options(const Arguments *a, const char *command_line, Progress *progress) {
    return (SweepOptions){.threads = threads_of(a),
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
    if (a->overrides.count)
        return error_set(err, STATUS_USAGE, "%s is a sweep, which goes on with the config it has: --set %s changes it",
                         a->target, a->overrides.items[0]);
    if (!sweep_resume(a->target, &options, stdout, signal, &finished, err)) return false;
    if (finished)
        printf("%s has finished; its tables and pictures were made again: %s/summary.md\n", a->target, a->target);
    return true;
}

static bool run_resumption(const Arguments *a, const char *command_line, int *signal, Error *err) {
    if (sweep_is(a->target)) return run_sweep_resumption(a, command_line, signal, err);
    Progress progress = progress_make(stderr, a->quiet);
    TrainOptions options = train_options(a, command_line, &progress);
    TrainOutcome outcome;
    options.threads = (size_t)a->threads; /* 0: the run's own */
    bool ok = train_resume(a->target, a->overrides.items, a->overrides.count, &options, &outcome, err);
    if (ok && outcome.had_finished)
        printf("%s has made all of its steps; its pictures were drawn again; to train it further: ./train resume %s "
               "--set train.steps=N\n",
               a->target, a->target);
    else if (ok)
        ok = print_results(&outcome, err);
    *signal = outcome.signal;
    return ok;
}

static bool run_sweep(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config;
    Progress progress = progress_make(stderr, a->quiet);
    const SweepOptions options = sweep_options(a, command_line, &progress);
    return config_load(&config, a->target, a->overrides.items, a->overrides.count, err) &&
           (a->dry_run ? sweep_dry_run(&config, &options, stdout, err)
                       : sweep_run(&config, &options, stdout, signal, err));
}

static bool run_evaluation(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Run run;
    Model model = {0};
    double loss;
    size_t characters;
    bool complete;
    (void)command_line;
    bool ok = run_open(&run, a->target, NULL, 0, false, err) && run_load_model(&run, &model, 0, threads_of(a), err) &&
              run_load_corpus(&run, err) && run_evaluate(&run, &model, &loss, &characters, &complete, err);
    if (ok && complete) printf("validation loss %.4f nats a character, over %zu characters\n", loss, characters);
    *signal = ok && !complete ? interrupt_signal() : 0;
    model_free(&model);
    run_close(&run);
    return ok;
}

static bool write_sample(const Arguments *a, const Run *run, Model *model, Sampler *sampler, int *signal, Error *err) {
    static int32_t prompt[PROMPT_MAX];
    size_t count = 1;
    const char *text = a->prompt ? a->prompt : "";
    const SampleOptions options = {.tokens = (size_t)a->tokens,
                                   .temperature = a->temperature,
                                   .top_k = (size_t)a->top_k,
                                   .seed = a->seed >= 0 ? (uint64_t)a->seed : (uint64_t)time(NULL)};
    prompt[0] = sample_start(&run->vocabulary);
    if (*text && !vocabulary_encode(&run->vocabulary, "--prompt", text, strlen(text), prompt, PROMPT_MAX, &count, err))
        return false;
    fputs(text, stdout);
    bool all = sample_text(model, &run->vocabulary, sampler, prompt, count, &options, stdout);
    fputc('\n', stdout);
    *signal = all ? 0 : interrupt_signal();
    return true; /* a stdout that failed is noticed at the end of main */
}

static bool run_sampling(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Run run;
    Model model = {0};
    Sampler sampler = {0};
    (void)command_line;
    bool ok = run_open(&run, a->target, NULL, 0, false, err) && run_load_model(&run, &model, 1, threads_of(a), err) &&
              sampler_make(&sampler, &model.shape, err) && write_sample(a, &run, &model, &sampler, signal, err);
    sampler_free(&sampler);
    model_free(&model);
    run_close(&run);
    return ok;
}

static bool run_gradcheck(const Arguments *a, const char *command_line, int *signal, Error *err) {
    static Config config;
    Progress progress = progress_make(stderr, a->quiet);
    (void)command_line;
    return config_load(&config, a->target, a->overrides.items, a->overrides.count, err) &&
           gradcheck_config(&config, threads_of(a), &progress, stdout, signal, err);
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
    return config_load(&config, a->target, a->overrides.items, a->overrides.count, err) &&
           bench_run(&config, threads_of(a), a->seconds, a->json, stdout, signal, err);
}

static bool run_theory(const Arguments *a, const char *command_line, int *signal, Error *err) {
    Progress progress = progress_make(stderr, a->quiet);
    TheoryOptions options = theory_options(threads_of(a));
    if (a->seed >= 0) options.seed = (uint64_t)a->seed;
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

/* "./train sweep", and how it is used. */
static void name_verb(VerbNumber verb, char name[32], char usage[80]) {
    snprintf(name, 32, "./train%s%s", verb == TRAIN ? "" : " ", verb == TRAIN ? "" : VERBS[verb].name);
    snprintf(usage, 80, "%s%s%s [options]", name, VERBS[verb].target ? " " : "",
             VERBS[verb].target ? VERBS[verb].target : "");
}

static void print_verb_help(VerbNumber verb) {
    char name[32], usage[80];
    name_verb(verb, name, usage);
    printf("usage: %s\n%s\n\n", usage, VERBS[verb].what);
    options_print(OPTIONS, OPTION_COUNT, BIT(verb), stdout);
}

static void print_help(void) {
    char name[32], usage[80];
    printf("sqrtdk %s: trains a small transformer and shows what the divisor of its\n"
           "attention scores does.\n\n",
           SQRTDK_VERSION);
    for (VerbNumber verb = 0; verb < VERB_COUNT; verb++) {
        name_verb(verb, name, usage);
        printf("%s %s\n", verb ? "      " : "usage:", usage);
    }
    printf("       ./train --help | --version | --keys | VERB --help\n\noptions of training\n");
    options_print(OPTIONS, OPTION_COUNT, BIT(TRAIN), stdout);
    printf(
        "\nStart with: ./train configs/dk64_scaled.ini\n\nkeys of a config, as in --set attention.scale_divisor=none\n");
    config_write_help(stdout);
    printf("\nexit status: 0 done; 1 failed while running; 2 wrong usage or config;\n"
           "3 diverged (NaN or infinity); 130, 143 stopped by SIGINT, SIGTERM and saved\n");
}

static bool parse(Arguments *a, VerbNumber *verb, int argc, char **argv, Error *err) {
    int i = 1;
    char name[32], usage[80];
    *a = (Arguments){.tokens = 500, .temperature = 1, .seconds = 8, .seed = -1};
    *verb = TRAIN;
    for (VerbNumber v = RESUME; argc > 1 && v < VERB_COUNT; v++)
        if (strcmp(argv[1], VERBS[v].name) == 0) *verb = v, i = 2;
    name_verb(*verb, name, usage);
    const bool takes_none = VERBS[*verb].target == NULL;
    for (; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!options_take(OPTIONS, OPTION_COUNT, BIT(*verb), name, argc, argv, &i, a, err)) return false;
        } else if (a->target || takes_none) {
            return error_set(err, STATUS_USAGE, "one argument too many: \"%.100s\"; usage: %s", argv[i], usage);
        } else {
            a->target = argv[i];
        }
    }
    if (a->help || a->target || takes_none) return true;
    return error_set(err, STATUS_USAGE,
                     "nothing to do: usage: %s, for example ./train configs/dk64_scaled.ini (--help tells more)",
                     usage);
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
    VerbNumber verb;
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
        if (verb == TRAIN)
            print_help();
        else
            print_verb_help(verb);
        return finish_output(0);
    }
    if (verb == GRADCHECK && !become_double(argv, &err)) return fail(&err);
    /* Asked for before OpenBLAS is kept to one thread, which its OpenMP build passes on to OpenMP. */
    arguments.processors = omp_get_max_threads() < THREADS_MAX ? omp_get_max_threads() : THREADS_MAX;
    matmul_setup();
    interrupt_catch();
    /* What only prints ends with its reader, as other programs do. */
    if (verb != SAMPLE && (verb != THEORY || arguments.out)) interrupt_survive_closed_pipes();
    char *command_line = join_words(argc, argv);
    bool ok = command_line ? VERBS[verb].run(&arguments, command_line, &caught, &err)
                           : error_set(&err, STATUS_FAILED, "no memory for the command line");
    free(command_line);
    if (!ok) return fail(&err);
    return finish_output(caught ? 128 + caught : 0);
}
