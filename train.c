/* The command line: a table of verbs, each a call into its folder of src/. This is the only place that prints an
   Error and turns its status into the exit status. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/attend.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "bench/bench.h"
#include "eval/eval.h"
#include "export/export.h"
#include "gradcheck/gradcheck.h"
#include "ops/matmul.h"
#include "ranks/ranks.h"
#include "report/report.h"
#include "sample/command.h"
#include "sweep/sweep.h"
#include "theory/theory.h"
#include "why/why.h"

/* The verbs in the order of the help, ended by NULL. Training, which needs no word, is the first. */
static const Verb *const VERBS[] = {&train_verb,  &resume_verb,    &sweep_verb,  &eval_verb,   &sample_verb,
                                    &attend_verb, &why_verb,       &report_verb, &export_verb, &bench_verb,
                                    &theory_verb, &gradcheck_verb, NULL};

static void print_help(void) {
    printf("sqrtdk %s: trains a small transformer and shows what the divisor of its\n"
           "attention scores does.\n\n",
           SQRTDK_VERSION);
    for (const Verb *const *verb = VERBS; *verb; verb++)
        printf("%s %s\n", verb == VERBS ? "usage:" : "      ", verb_usage(*verb));
    printf("       %s --help | --version | -V | help VERB\n\noptions of training\n", program_name);
    verb_print_options(&train_verb, stdout);
    printf("\nStart with: %s configs/dk64_scaled.ini\n\nkeys of a config, as in --set attention.scale_divisor=none\n",
           program_name);
    config_write_help(stdout);
    printf("\nexit status: 0 done; 1 failed while running; 2 wrong usage or config;\n"
           "3 diverged (NaN or infinity); 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM,\n"
           "with everything saved\n");
}

static char *join_words(int argc, char **argv) {
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = calloc(size, 1), *end = text;
    for (int i = 0; text && i < argc; i++) end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    return text;
}

/* Opens /dev/null for each standard stream that is closed: otherwise the next file opened would take its number, and
   messages would end up in metrics.csv. Opened for reading, so that writing to it still fails. */
static void hold_standard_streams(void) {
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) close(fd);
}

static bool run(const Verb *verb, Command *command, int *signal, Error *err) {
    const int offered = matmul_threads_offered();
    command->processors = (size_t)(offered < THREADS_MAX ? offered : THREADS_MAX);
    interrupt_catch();
    return verb->run(command, signal, err);
}

/* A word that is no verb is a config's path, unless there is no such file and it resembles a verb, or stands before the
   name of a run as verbs do, or help is wanted with it. */
static bool check_word(const char *word, const char *next, bool help, Error *err) {
    const char *nearest = NULL;
    const bool before_name = next && *next != '-' && !strpbrk(word, "./");
    size_t best = SIZE_MAX;
    if (*word == '-' || (!help && path_exists(word))) return true;
    for (size_t i = 0; VERBS[i]; i++) {
        const char *name = VERBS[i]->name ? VERBS[i]->name : "train";
        if (text_is_nearer(word, name, &best)) nearest = name;
    }
    if (nearest)
        return usage_error(err, "there is no verb%s %.40s; did you mean %s?", help ? "" : " and no file", word,
                           nearest);
    return (!help && !before_name) || usage_error(err, "there is no verb%s %.40s: %s --help lists the verbs",
                                                  help ? "" : " and no file", word, program_name);
}

/* Whether a word is this option, perhaps cut short. */
static bool is_option(const char *word, const char *option) {
    return strlen(word) > 2 && strncmp(option, word, strlen(word)) == 0;
}

static bool act(int argc, char **argv, Command *command, int *signal, Error *err) {
    const Verb *verb = &train_verb;
    command->help = argc > 1 && strcmp(argv[1], "help") == 0; /* help VERB is VERB --help */
    argc -= command->help, argv += command->help;
    for (size_t i = 1; argc > 1 && VERBS[i]; i++)
        if (strcmp(argv[1], VERBS[i]->name) == 0) verb = VERBS[i];
    const bool train = argc > 1 && strcmp(argv[1], "train") == 0; /* as people say it, though it needs no word */
    const int first = train || verb != &train_verb;               /* the verb takes the place of the program's name */
    const char *only = argc == 2 ? argv[1] : "";
    if (argc > 1 && !first && !check_word(argv[1], argv[2], command->help, err)) return ranks_refuse(err);
    if (is_option(only, "--version") || strcmp(only, "-V") == 0) printf("sqrtdk %s\n", SQRTDK_VERSION);
    else if (!command_parse(verb, argc - first, argv + first, command, err)) return ranks_refuse(err);
    else if (command->help && !first) print_help();
    else if (command->help) verb_print_help(verb, stdout);
    else return run(verb, command, signal, err);
    return true;
}

int main(int argc, char **argv) {
    Error err = {0};
    int caught = 0;
    hold_standard_streams();
    if (argc > 0 && *argv[0]) program_set_name(argv[0]);
    char *line = join_words(argc, argv);
    Command command = {.argv = argv, .line = line, .report = report_write, .why = why_write_first};
    bool ok = line ? act(argc, argv, &command, &caught, &err) : runtime_error(&err, "no memory for the command line");
    free(line);
    /* After a signal all is saved, and whoever sent it may have taken standard output away: a terminal that is closed.
     */
    if (ok && (fflush(stdout) != 0 || ferror(stdout)) && !caught)
        ok = runtime_error(&err, "cannot write to standard output: %s", strerror(errno));
    fflush(stdout);
    if (!ok && ranks_index() == 0) fprintf(stderr, "%s: %s\n", program_name, err.message);
    ranks_end(); /* after the message: a launcher ends the others as soon as one ends with a status */
    if (ok) return caught ? 128 + caught : 0;
    return (int)err.status;
}
