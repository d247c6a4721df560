/* Options of a command line, by a table: each is described once, and help and parsing come from that. */
#ifndef SQRTDK_BASE_OPTIONS_H
#define SQRTDK_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* What an option's member of the arguments is. */
typedef enum {
    OPTION_SWITCH,    /* bool; takes no value */
    OPTION_TEXT,      /* const char *, into argv */
    OPTION_DIRECTORY, /* the same, not empty */
    OPTION_LIST,      /* OptionList; may be repeated */
    OPTION_WHOLE,     /* long long, from `least` to `most` */
    OPTION_NUMBER,    /* double, likewise */
} OptionKind;

enum { OPTION_LIST_MAX = 256 };
typedef struct {
    const char *items[OPTION_LIST_MAX];
    size_t count;
} OptionList;

typedef struct {
    const char *name, *value, *help; /* "--out", "DIR" (NULL for a switch), "where results go" */
    OptionKind kind;
    size_t member;           /* offset in the struct of arguments */
    long double least, most; /* which hold every long long */
    unsigned verbs;          /* bits of those that take it; a name may come again for others */
} Option;

/* Takes argv[*i], "--name=value" or "--name", then its value from the next word, which *i is left at. Errors are of
   status STATUS_USAGE; one about an unknown option points to "`program` --help". */
bool options_take(const Option *options, size_t count, unsigned verb, const char *program, int argc, char **argv,
                  int *i, void *arguments, Error *err);
/* Those of a verb, a line each, or two. */
void options_print(const Option *options, size_t count, unsigned verb, FILE *out);

#endif
