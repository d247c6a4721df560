/* The command line, by tables: each verb and each of its options is described once; parsing and help follow from
   that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/directory.h"

/* The program's name as it was typed, for messages: "./train", "sqrtdk". A long path loses its directories. */
extern char program_name[24];
void program_set_name(const char *typed);
/* Prints an error to stderr, behind the names of the program and of its rank ("rank 1: "; ""). On a terminal it is
   broken between words at the terminal's width. */
void program_print_error(const char *rank, const char *message);

/* The kind of an option, which is the type of its variable. */
typedef enum {
    OPTION_SWITCH,  /* bool; has no value */
    OPTION_TEXT,    /* const char *, into argv */
    OPTION_PATH,    /* const char *, into argv; not empty, and no ~ */
    OPTION_LIST,    /* OptionList; may be repeated */
    OPTION_INTEGER, /* long long, from `least` to `most` */
    OPTION_NUMBER,  /* double, from `least` to `most` */
} OptionKind;

enum { OPTION_LIST_MAX = 256 };
typedef struct {
    const char *items[OPTION_LIST_MAX];
    size_t count;
} OptionList;

typedef struct {
    const char *name, *value, *help; /* "out", "DIR" (NULL for a switch), "where results go" */
    OptionKind kind;
    void *variable;        /* set when the option is given */
    long long least, most; /* the range of a number */
} Option;

/* The part of a command line that is common to all verbs. */
typedef struct {
    const char *target;   /* the config or directory; NULL: the verb has none */
    OptionList targets;   /* all targets of a verb that accepts many */
    OptionList overrides; /* --set */
    long long threads;    /* --threads; 0: not given */
    bool quiet, help;
    bool named;          /* the command line names its verb */
    const char *out;     /* --out; NULL: not given */
    bool dry_run, force; /* --force: only with --out */
    size_t processors;   /* that this process may use */
    char **argv;         /* the whole command line, ended by NULL */
    const char *line;    /* the command line as one string, for run.json */
} Command;

typedef struct {
    const char *name;      /* NULL: training, which has no verb */
    const char *target;    /* "CONFIG.ini", "RUN_DIR"; NULL: none */
    const char *what;      /* the verb's help, in lines of at most 80 columns */
    const Option *options; /* of this verb alone, at most 12, ended by one without a name; NULL: none */
    /* NULL, or accepts --set, and writes what a user may mean who gives a key another way: "--set train.steps=10" for
       steps and 10; "" if that is no key. Every verb accepts --threads, --quiet and --help. */
    void (*settings_meant)(const char *name, const char *value, char *out, size_t capacity);
    bool makes_runs;    /* accepts --out, --dry-run, --force and --unlocked */
    bool many;          /* accepts more than one target */
    bool by_ranks;      /* several processes may run it together (ranks/ranks.h); accepts --unlocked */
    const char *script; /* NULL, or the script that does this in place of the program */
    /* Runs the verb. Returns the signal that stopped it, or 0. NULL: it is not built in. */
    int (*run)(const Command *command);
} Verb;

/* Sets *command, except processors, argv and line, and the variables of the verb's options from argv. argv ends with
   NULL and begins with a word that is skipped: the verb or the program's name. Options may stand anywhere, as
   --name=value or --name value. A unique prefix of a name is accepted; -q and -h are --quiet and --help; "--" ends the
   options. With --help no target is needed. */
void command_parse(const Verb *verb, int argc, char **argv, Command *command);

/* Returns the verb of a command line. `verbs` ends with NULL; the first of them needs no word. Sets *command as
   command_parse does, and its line. `help VERB` is VERB --help. Any other first word is the path of a config. If there
   is no such file, suggests the nearest verb. */
const Verb *command_read(const Verb *const *verbs, int argc, char **argv, Command *command);

/* Returns a command that the user can copy into a shell, such as "./train resume 'runs/my run'": the program's name,
   the verb (NULL: training) and a path. The path is one word, and is not read as an option. The text is a block of
   base/memory.h. */
char *command_to_copy(const char *verb, const char *path);

/* Returns a word as a shell reads it, in quotation marks if it needs them: a block of base/memory.h. */
char *command_word(const char *word);

/* Returns the number of threads: --threads, or one per processor. */
size_t command_threads(const Command *command);

/* verb_usage returns "./train sweep CONFIG.ini [options]", valid until the next call. verb_print_help prints that,
   what the verb does, and its options. */
const char *verb_usage(const Verb *verb);
void verb_print_help(const Verb *verb, FILE *out);
