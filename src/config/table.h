/* The parts of config.h. Included only by the files of this folder. Each of them calls only those before it:

       scale.c           the divisor
       value.c           the value of a key as text, and back
       table.c           the table of keys; finding one by its name
       refused.c         pairs of values that do not go together
       config.c          from a file and overrides to a checked Config
       help.c            a Config and the table as text

   Errors are raised by config_error, with the reason alone. */
#pragma once

#include "config/config.h"

/* The place of the text that is being read: a line of a file, a --set, a value of a sweep. config.c sets it. */
enum { PLACE_MAX = 768 };
extern char config_place[PLACE_MAX];

typedef enum { KIND_TEXT, KIND_INTEGER, KIND_NUMBER, KIND_CHOICE, KIND_SCALE } Kind;

typedef struct {
    const char *section, *name, *full; /* full: "section.name" */
    Kind kind;
    size_t offset;              /* of its member in Config, whose type is, in the order of the kinds,
                                   char[CONFIG_TEXT_MAX], size_t, double, an enum, DivisorChoice */
    size_t least, most;         /* KIND_INTEGER: the range; KIND_TEXT: the range of its length in bytes */
    double low, high;           /* KIND_NUMBER: the range */
    bool above_low, below_high; /* the range excludes that end */
    const char *const *choices; /* KIND_CHOICE: in the order of the enum, ended by NULL. KIND_INTEGER: words that it
                                   takes beside the range, stored as SIZE_MAX, SIZE_MAX - 1, ...; NULL: none */
    const char *initial;        /* the default, as in a file; NULL: derived from other keys */
    const char *shown;          /* the default in the help, where `initial` does not say it */
    const char *help;           /* one line, at most 74 columns */
    bool fast_only;             /* the plain engine has the default alone */
} Key;

/* Reads a value as in a file, plain or in double quotes with the escapes \n \t \r \" \\; only a comment may follow. */
void value_unquote(const char *written, char *out, size_t capacity);
/* Reads a value as in a file into the key's member of a Config, or another variable of that type. */
void value_parse(const Key *key, const char *written, void *member);
/* Writes the member's value as value_parse reads it. */
void value_text(const Key *key, const void *member, char *out, size_t capacity);
/* Writes in words what a key accepts, as in "a whole number from 1 to 1024". */
void value_accepted(const Key *key, char *out, size_t capacity);

extern const Key KEYS[];
extern const size_t KEY_COUNT;

/* Refuses a section that does not exist. */
void section_check(const char *section);
/* Returns the index of the key `name` of [section]. If `section` is empty or "sweep", the name begins with its
   section, "train.lr". The section can be omitted if only one section has a key of that name. */
size_t key_find(const char *section, const char *name);
/* Returns the index of the key with this offset, KEY(section.name). */
size_t key_at(size_t offset);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none. */
#define KEY(member) offsetof(Config, member)

/* Writes "model.d_k = 7 (line 3)" for a message, and returns it. */
const char *key_text(const Config *config, size_t offset, char out[96]);

/* Refuses two values that do not go together (refused.c). */
void refused_pairs_check(const Config *config);
