/* The command line: a table of verbs, each a call into its folder of src/. Every error that nothing else protects from
   ends here: main has it printed (ranks_fail) and exits with its status. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/attend.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/memory.h"
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

static const char *join_words(int argc, char **argv) {
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = memory_make(size, 1, "the command line"), *end = text;
    for (int i = 0; i < argc; i++) end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    return text;
}

/* Opens /dev/null for each standard stream that is closed: otherwise the next file opened would take its number, and
   messages would end up in metrics.csv. Opened for reading, so that writing to it still fails. */
static void hold_standard_streams(void) {
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) close(fd);
}

/* What main was called with, and what comes of it. */
typedef struct {
    int argc;
    char **argv;
    const Verb *verb; /* to run; NULL: all is said */
    Command command;
    bool parsed; /* the command line has no error */
    int signal;  /* that stopped the verb, or 0 */
} Program;

/* Checks a word that is no verb. It is the path of a config. If there is no such file, suggests the nearest verb;
   without one, refuses a word that stands before a name, as a verb does, or that help is wanted with. */
static void check_word(const char *word, const char *next, bool help) {
    const char *nearest = NULL, *file = help ? "" : " and no file";
    const bool before_name = next && *next != '-' && !strpbrk(word, "./");
    size_t best = SIZE_MAX;
    if (*word == '-' || (!help && path_exists(word))) return;
    for (size_t i = 0; VERBS[i]; i++) {
        const char *name = VERBS[i]->name ? VERBS[i]->name : "train";
        if (text_is_nearer(word, name, &best)) nearest = name;
    }
    if (nearest) usage_error("there is no verb%s %.40s; did you mean %s?", file, word, nearest);
    if (help || before_name)
        usage_error("there is no verb%s %.40s: %s --help lists the verbs", file, word, program_name);
}

/* Returns whether a word is this option, perhaps cut short. */
static bool is_option(const char *word, const char *option) {
    return strlen(word) > 2 && strncmp(option, word, strlen(word)) == 0;
}

/* Parses the command line, and prints what it asks to know. */
static void parse(Program *p) {
    Command *command = &p->command;
    const Verb *verb = &train_verb;
    command->line = join_words(p->argc, p->argv);
    command->help = p->argc > 1 && strcmp(p->argv[1], "help") == 0; /* help VERB is VERB --help */
    const int argc = p->argc - command->help;
    char **argv = p->argv + command->help;
    for (size_t i = 1; argc > 1 && VERBS[i]; i++)
        if (strcmp(argv[1], VERBS[i]->name) == 0) verb = VERBS[i];
    const bool train = argc > 1 && strcmp(argv[1], "train") == 0; /* as people say it, though it needs no word */
    const int first = train || verb != &train_verb;               /* the verb takes the place of the program's name */
    const char *only = argc == 2 ? argv[1] : "";
    if (argc > 1 && !first) check_word(argv[1], argv[2], command->help);
    if (is_option(only, "--version") || strcmp(only, "-V") == 0) {
        printf("sqrtdk %s\n", SQRTDK_VERSION);
        return;
    }
    command_parse(verb, argc - first, argv + first, command);
    if (!command->help) p->verb = verb;
    else if (first) verb_print_help(verb, stdout);
    else print_help();
}

/* Runs the verb, or this rank's part of it, on the processors that OpenMP offers to the ranks of this machine. */
static void run_verb(Program *p, size_t offered) {
    Command *command = &p->command;
    interrupt_catch();
    if (p->verb->by_ranks) ranks_start(command->dry_run ? "a dry run" : p->verb->name ? p->verb->name : "train");
    const size_t processors = offered / ranks_here();
    command->processors = processors > THREADS_MAX ? THREADS_MAX : processors > 1 ? processors : 1;
    command->quiet = command->quiet || ranks_index() > 0;
    p->signal = p->verb->run(command);
}

static void act(void *argument) {
    Program *p = argument;
    const size_t offered = (size_t)matmul_threads_offered();
    parse(p);
    p->parsed = true;
    if (p->verb) run_verb(p, offered);
    /* After a signal all is saved, and whoever sent it may have taken standard output away: a terminal that is closed.
     */
    if ((fflush(stdout) != 0 || ferror(stdout)) && !p->signal)
        runtime_error("cannot write to standard output: %s", strerror(errno));
    memory_release(0);
}

int main(int argc, char **argv) {
    Program program = {
        .argc = argc, .argv = argv, .command = {.argv = argv, .report = report_write, .why = why_write_first}};
    Error error;
    hold_standard_streams();
    if (argc > 0 && *argv[0]) program_set_name(argv[0]);
    const bool done = protect(act, &program, &error);
    fflush(stdout);
    if (!done) ranks_fail(error, !program.parsed);
    ranks_end();
    return program.signal ? 128 + program.signal : 0;
}
