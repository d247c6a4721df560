/* What the files of this folder share; nothing outside it includes this. Each of them calls only those before it:

       scale.c           the divisor
       ini.c             reads a file, and knows nothing of the others
       value.c           a value as text, and back
       table.c           the table of settings; finding one by its name
       sweep_section.c   [sweep]: the keys and values to combine
       config.c          from a file and overrides to a checked Config
       help.c            a Config and the table as text

   A function that takes `why` fills it with the reason alone; its caller puts the file, the line or the --set in
   front. */
#pragma once

#include "config/config.h"

typedef enum { KIND_TEXT, KIND_INTEGER, KIND_NUMBER, KIND_SWITCH, KIND_CHOICE, KIND_SCALE } Kind;

typedef struct {
    const char *section, *key, *name; /* name: "section.key" */
    Kind kind;
    size_t offset;              /* of the member in Config */
    int64_t least, most;        /* KIND_INTEGER: the range; KIND_TEXT: of the length in bytes */
    double low, high;           /* KIND_NUMBER: the range ... */
    bool above_low, below_high; /* ... without that end */
    const char *const *choices; /* KIND_CHOICE: ended by NULL, in the order of the enum */
    const char *initial;        /* the default, as in a file; NULL: derived from other keys */
    const char *shown;          /* the default in the help, where `initial` does not say it */
    const char *help;           /* one line, at most 74 columns */
} Setting;

typedef union {
    char text[CONFIG_TEXT_MAX];
    int64_t integer;
    double number;
    bool on;
    int choice;
    ScaleDivisor scale;
} Value;

/* A value as in a file: plain, or in double quotes with the escapes \n \t \r \" \\. */
bool value_unquote(const char *written, char *out, size_t capacity, Error *why);
bool value_parse(const Setting *setting, const char *written, Value *value, Error *why);
bool value_equal(const Setting *setting, const Value *a, const Value *b);
void value_store(Config *config, const Setting *setting, const Value *value);
/* The value that a config has, as value_parse reads it. */
void value_text(const Setting *setting, const Config *config, char *out, size_t capacity);
/* Words, ended by NULL, with `between` between two of them and `last` in front of the last. */
void words_text(const char *const *words, const char *between, const char *last, char *out, size_t capacity);

enum { SETTINGS_MAX = 128 }; /* the bits of Config.given */
extern const Setting SETTINGS[];
extern const size_t SETTING_COUNT;
extern const char *const SECTIONS[]; /* in the order of the table, ended by NULL; "sweep" is the last */

bool section_check(const char *section, Error *why);
/* The setting of "key" in [section]; in [sweep] of "section.key", or "key" where only one section has it. */
bool setting_find(const char *section, const char *key, size_t *setting, Error *why);
size_t setting_at(size_t offset); /* offsetof(Config, section.key) */
/* The names with this key in any section: "eval.every or log.every"; false when there is none. */
bool setting_names(const char *key, const char *between, char *out, size_t capacity);
bool setting_assign(Config *config, size_t setting, const char *written, Error *why);

/* A key of [sweep] with its list of values; one that is there already is replaced. */
bool sweep_assign(Config *config, size_t setting, const char *written, Error *why);
/* The swept keys and their values in combination i, into arrays of config->sweep_count. */
void sweep_combination(const Config *config, size_t i, const char **keys, const char **values);
