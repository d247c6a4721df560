/* What the files of the config share: the table of settings, values as text, and where a key was given. Nothing outside
   src/model/config*.c includes this. A function that takes `why` fills it with the reason alone; its caller puts the
   file, the line or the --set in front. */
#ifndef SQRTDK_CONFIG_TABLE_H
#define SQRTDK_CONFIG_TABLE_H

#include "config/config.h"

typedef enum { KIND_TEXT, KIND_COUNT, KIND_NUMBER, KIND_SWITCH, KIND_CHOICE, KIND_SCALE } Kind;

typedef struct {
    const char *section, *key, *name; /* name: "section.key" */
    Kind kind;
    size_t offset;              /* of the member in Config */
    int64_t least, most;        /* KIND_COUNT: the range; KIND_TEXT: of the length in bytes */
    double low, high;           /* KIND_NUMBER: the range ... */
    bool above_low, below_high; /* ... without that end */
    const char *const *choices; /* KIND_CHOICE: ended by NULL, in the order of the enum */
    const char *initial;        /* the default, as in a file; NULL: derived from other keys */
    const char *shown;          /* the default in the help, where `initial` does not say it */
    const char *help;           /* one line, at most 74 columns */
} Setting;

enum { SETTINGS_MAX = 128 }; /* the bits of Config.given */
extern const Setting SETTINGS[];
extern const size_t SETTING_COUNT;
extern const char *const SECTIONS[]; /* in the order of the table, ended by NULL; "sweep" is the last */

typedef union {
    char text[CONFIG_TEXT_MAX];
    int64_t count;
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
/* What a setting takes, as in "takes a whole number from 1 to 1024". */
void value_accepts(const Setting *setting, char *out, size_t capacity);
/* The shortest of %.15g, %.16g, %.17g that reads back as the same number. */
void number_text(double number, char *out, size_t capacity);

/* Whether `candidate` is near what was `given`, and nearer than the best so far (start with SIZE_MAX). */
bool is_nearer(const char *given, const char *candidate, size_t *best);
/* At most `limit` bytes of a text, then "..." where it was cut, never inside a UTF-8 character. */
void text_clip(const char *text, size_t length, size_t limit, char *out, size_t capacity);

bool section_check(const char *section, Error *why);
/* The setting of "key" in [section]; in [sweep] of "section.key", or "key" where only one section has it. */
bool setting_find(const char *section, const char *key, size_t *setting, Error *why);
size_t setting_at(size_t offset); /* offsetof(Config, section.key) */
/* The names with this key in any section: "eval.every or log.every"; false when there is none. */
bool setting_names(const char *key, const char *between, char *out, size_t capacity);

bool setting_assign(Config *config, size_t setting, const char *written, Error *why);
bool sweep_assign(Config *config, size_t setting, const char *written, Error *why);

/* Where each key was given: the line of the file, then the --set that came after. */
typedef struct {
    int line[SETTINGS_MAX], sweep_line[SETTINGS_MAX]; /* from 1; 0: not in the file */
    bool overridden[SETTINGS_MAX];
} Origins;

bool config_file_read(Config *config, const char *path, Origins *origins, Error *err);

#endif
