/* Finds the verb in a command line, and parses the rest by the verb's table of options. getopt_long scans the words.
   This file makes its table, and checks each value by the option's kind. An error names the option and the values that
   are accepted. */
#include "base/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"

enum { OPTIONS_MAX = 24, FIRST_CODE = 256 }; /* FIRST_CODE: getopt_long returns it for the first option */
static const char LETTERS[] = "qh";          /* short names of the last two options */

char program_name[24] = "./train";

void program_set_name(const char *typed) {
    const char *slash = strrchr(typed, '/');
    snprintf(program_name, sizeof program_name, "%s",
             slash && strlen(typed) >= sizeof program_name ? slash + 1 : typed);
    text_make_plain(program_name);
}

void program_print_error(const char *rank, const char *message) {
    char line[sizeof(Error) + 64];
    snprintf(line, sizeof line, "%s: %s%s", program_name, rank, message);
    text_write_lines(line, isatty(STDERR_FILENO) ? terminal_columns(STDERR_FILENO) : SIZE_MAX, stderr);
}

/* Lists the options of the verb, then those that verbs share, whose variables are in *command. Returns their number. */
static size_t list_options(const Verb *verb, Command *command, Option all[OPTIONS_MAX]) {
    const Option shared[] = {
        {"set", "SECTION.KEY=VALUE", "set a key of the config; may be repeated", OPTION_LIST, &command->overrides, 0,
         0},
        {"out", "DIR", "where results go (default: log.out, or the next free name)", OPTION_PATH, &command->out, 0, 0},
        {"dry-run", NULL, "print the resolved config, size, memory and FLOPs, and stop", OPTION_SWITCH,
         &command->dry_run, 0, 0},
        {"force", NULL, "with --out: move what is there to DIR.old first", OPTION_SWITCH, &command->force, 0, 0},
        {"unlocked", NULL, "where locks do not work: no other process writes there", OPTION_SWITCH, &directory_unlocked,
         0, 0},
        {"threads", "N", "threads (default: one per processor)", OPTION_INTEGER, &command->threads, 1, THREADS_MAX},
        {"quiet", NULL, "no messages and no progress line", OPTION_SWITCH, &command->quiet, 0, 0},
        {"help", NULL, "print this text", OPTION_SWITCH, &command->help, 0, 0},
    };
    const bool makes = verb->makes_runs,
               accepted[] = {verb->settings_meant, makes, makes, makes, makes || verb->by_ranks, true, true, true};
    size_t count = 0;
    for (const Option *o = verb->options; o && o->name; o++) all[count++] = *o;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (accepted[i]) all[count++] = shared[i];
    return count;
}

static void set_number(const Option *o, const char *text) {
    const bool whole = o->kind == OPTION_INTEGER;
    char *end;
    errno = 0;
    const double number = strtod(text, &end);
    const long long integer = whole ? strtoll(text, &end, 10) : 0;
    const bool in_range = whole ? errno == 0 && integer >= o->least && integer <= o->most
                                : number >= (double)o->least && number <= (double)o->most;
    if (end == text || *end || !in_range)
        usage_error("--%s takes a %snumber from %lld to %lld, not \"%.100s\"", o->name, whole ? "whole " : "", o->least,
                    o->most, text);
    if (whole) *(long long *)o->variable = integer;
    else *(double *)o->variable = number;
}

static void set_value(const Option *o, const char *text) {
    OptionList *list = o->variable;
    switch (o->kind) {
    case OPTION_SWITCH: *(bool *)o->variable = true; break;
    case OPTION_LIST:
        if (list->count == OPTION_LIST_MAX) usage_error("more than %d --%s", OPTION_LIST_MAX, o->name);
        list->items[list->count++] = text;
        break;
    case OPTION_PATH:
        if (!*text) usage_error("--%s takes a path", o->name);
        path_check_tilde(text);
        /* fall through */
    case OPTION_TEXT: *(const char **)o->variable = text; break;
    case OPTION_INTEGER:
    case OPTION_NUMBER: set_number(o, text); break;
    }
}

/* Writes "--set train.steps=10" for a word such as "steps=10", or "steps" with its value behind it; "" where that is no
   key, or the verb has no --set. */
static void list_settings(const Verb *verb, const char *word, const char *value, char *out, size_t capacity) {
    char name[64];
    const size_t length = strcspn(word, "=");
    *out = 0;
    if (!verb->settings_meant || length >= sizeof name) return;
    memcpy(name, word, length);
    name[length] = 0;
    verb->settings_meant(name, word[length] ? word + length + 1 : value, out, capacity);
}

static void add_target(const Verb *verb, Command *command, const char *word) {
    OptionList *all = &command->targets;
    const bool full = !verb->target || all->count == (verb->many ? OPTION_LIST_MAX : 1);
    char settings[256] = "";
    if (full && strchr(word, '=')) list_settings(verb, word, NULL, settings, sizeof settings);
    if (*settings)
        usage_error("one argument too many: \"%.100s\"; write %s to set a key of the config", word, settings);
    if (full) usage_error("one argument too many: \"%.100s\"; usage: %s", word, verb_usage(verb));
    path_check_tilde(word);
    all->items[all->count++] = word;
    command->target = all->items[0];
}

/* Writes "--top-k or --top-p": the options that begin with a word such as "--top" or "--top=5". */
static void list_meant(const char *word, const Option *options, size_t count, char *out, size_t capacity) {
    const size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : 0;
    *out = 0;
    for (size_t i = 0; length > 2 && i < count; i++)
        if (strncmp(options[i].name, word + 2, length - 2) == 0)
            text_append(out, capacity, "%s--%s", *out ? " or " : "", options[i].name);
}

/* Raises the error for an option that does not exist. It may be a key of the config: --steps 10 is --set
   train.steps=10. */
static _Noreturn void refuse_unknown(const Verb *verb, const char *word, const char *next) {
    char settings[256] = "";
    if (word[1] == '-') list_settings(verb, word + 2, next && *next != '-' ? next : "VALUE", settings, sizeof settings);
    usage_error("there is no option %.100s here: %s%s%s --help lists them%s%s", word, program_name,
                verb->name ? " " : "", verb->name ? verb->name : "", *settings ? "; to set a key of the config: " : "",
                settings);
}

/* Raises the error for an option that getopt_long refuses: it is unknown, is cut too short, has a value though it is a
   switch, or lacks its value. `next` is the word behind it, or NULL. */
static _Noreturn void refuse_option(const Verb *verb, const Option *options, size_t count, const char *word,
                                    const char *next) {
    const Option *o = optopt < FIRST_CODE ? NULL : &options[optopt - FIRST_CODE];
    char meant[256];
    list_meant(word, options, count, meant, sizeof meant);
    if (!o && *meant) usage_error("%.100s may mean %s: write more of it", word, meant);
    if (!o) refuse_unknown(verb, word, next);
    if (!o->value) usage_error("--%s takes no value", o->name);
    usage_error("--%s needs a value: --%s %s", o->name, o->name, o->value);
}

/* Sets an option's variable. Where a value is missing, getopt_long reads the next option as the value: that is
   refused. */
static void set_option(const Option *o, const char *last_word) {
    if (o->value && optarg == last_word && strncmp(optarg, "--", 2) == 0)
        usage_error("--%s needs a value, and %.100s looks like an option: write --%s=%.100s if that is meant", o->name,
                    optarg, o->name, optarg);
    set_value(o, optarg);
}

void command_parse(const Verb *verb, int argc, char **argv, Command *command) {
    Option options[OPTIONS_MAX];
    struct option names[OPTIONS_MAX + 1] = {0};
    const size_t count = list_options(verb, command, options);
    for (size_t i = 0; i < count; i++)
        names[i] = (struct option){options[i].name, options[i].value ? required_argument : no_argument, NULL,
                                   FIRST_CODE + (int)i};
    opterr = 0;
    optind = 0; /* start again, at argv[1] */
    for (;;) {
        const char *word = argv[optind ? optind : 1];
        int code = getopt_long(argc, argv, "-:qh", names, NULL); /* "-": in their order; 1 is a word */
        const char *letter = code > 1 && code < FIRST_CODE ? strchr(LETTERS, code) : NULL;
        if (code == -1) break;
        if (letter) code = FIRST_CODE + (int)count - 2 + (int)(letter - LETTERS);
        if (code == 1) add_target(verb, command, optarg);
        else if (code < FIRST_CODE) refuse_option(verb, options, count, word, argv[optind]);
        else set_option(&options[code - FIRST_CODE], argv[optind - 1]);
    }
    for (; optind < argc; optind++) add_target(verb, command, argv[optind]); /* after "--" */
    if (command->help) return;
    if (!command->target && verb->target)
        usage_error("nothing to do: usage: %s%s%s%s (--help says more)", verb_usage(verb),
                    verb->name ? "" : ", for example ", verb->name ? "" : program_name,
                    verb->name ? "" : " configs/dk64_scaled.ini");
    if (command->force && !command->out)
        usage_error("--force replaces the directory that --out names: add --out DIR, or leave --force out");
}

char *command_word(const char *word) {
    if (*word && !strpbrk(word, " \t\n!\"#$&'()*;<>?[\\]^`{|}~")) return memory_copy_text(word, strlen(word));
    char *text = memory_make(4 * strlen(word) + 3, 1, "a word"), *end = text;
    *end++ = '\'';
    for (; *word; word++) {
        if (*word == '\'') end = stpcpy(end, "'\\'"); /* ends the quotation; the mark that follows begins the next */
        *end++ = *word;
    }
    *end = '\'';
    return text;
}

char *command_to_copy(const char *verb, const char *path) {
    const char *program = command_word(program_name), *word = command_word(path), *before = *path == '-' ? "./" : "";
    const size_t capacity = strlen(program) + strlen(word) + (verb ? strlen(verb) : 0) + 8;
    char *text = memory_make(capacity, 1, "a command");
    snprintf(text, capacity, "%s %s%s%s%s", program, verb ? verb : "", verb ? " " : "", before, word);
    return text;
}

size_t command_threads(const Command *command) {
    return command->threads ? (size_t)command->threads : command->processors;
}

const char *verb_usage(const Verb *verb) {
    static char text[80];
    snprintf(text, sizeof text, "%s%s%s%s%s [options]", program_name, verb->name ? " " : "",
             verb->name ? verb->name : "", verb->target ? " " : "", verb->target ? verb->target : "");
    return text;
}

void verb_print_help(const Verb *verb, FILE *out) {
    Command unused;
    Option options[OPTIONS_MAX];
    const size_t count = list_options(verb, &unused, options);
    fprintf(out, "usage: %s\n%s\n\n", verb_usage(verb), verb->what);
    for (const Option *o = options; o < options + count; o++) {
        char left[40];
        const char *letter = o + 2 == options + count ? "-q, " : o + 1 == options + count ? "-h, " : "";
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
        if (strlen(left) <= 18) fprintf(out, "  %-18s %s\n", left, o->help);
        else fprintf(out, "  %s\n  %-18s %s\n", left, "", o->help);
    }
}

static const char *join_words(int argc, char **argv) {
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    char *text = memory_make(size, 1, "the command line"), *end = text;
    for (int i = 0; i < argc; i++) end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
    return text;
}

/* Checks a word that is no verb: it is the path of a config. If there is no such file, suggests the nearest verb. If
   no verb is near, refuses a word that stands in the place of a verb: before a name, or after help. */
static void check_word(const Verb *const *verbs, const char *word, const char *next, bool help) {
    const char *nearest = NULL, *file = help ? "" : " and no file";
    const bool before_name = next && *next != '-' && !strpbrk(word, "./");
    size_t best = SIZE_MAX;
    if (*word == '-' || (!help && path_exists(word))) return;
    for (size_t i = 0; verbs[i]; i++) {
        const char *name = verbs[i]->name ? verbs[i]->name : "train";
        if (text_is_nearer(word, name, &best)) nearest = name;
    }
    if (nearest) usage_error("there is no verb%s %.40s; did you mean %s?", file, word, nearest);
    if (help || before_name)
        usage_error("there is no verb%s %.40s: %s --help lists the verbs", file, word, program_name);
}

const Verb *command_read(const Verb *const *verbs, int argc, char **argv, Command *command) {
    const Verb *verb = verbs[0];
    char script[PATH_CAPACITY];
    command->line = join_words(argc, argv);
    command->help = argc > 1 && strcmp(argv[1], "help") == 0; /* help VERB is VERB --help */
    argc -= command->help;
    argv += command->help;
    for (size_t i = 1; argc > 1 && verbs[i]; i++)
        if (strcmp(argv[1], verbs[i]->name) == 0) verb = verbs[i];
    const bool train = argc > 1 && strcmp(argv[1], "train") == 0; /* accepted, though training needs no verb */
    const int first = train || verb != verbs[0];                  /* command_parse skips the verb */
    if (argc > 1 && !first) check_word(verbs, argv[1], argv[2], command->help);
    if (verb->script)
        usage_error("%s is a script: %s %s", verb->name, command_word(path_installed(verb->script, script)),
                    verb->target);
    if (!verb->run)
        usage_error("%s is a verb of lab/, which is not built in: make builds it, and make trainer leaves it out",
                    verb->name);
    command_parse(verb, argc - first, argv + first, command);
    command->named = first;
    return verb;
}
