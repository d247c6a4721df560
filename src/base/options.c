#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool take_whole(const Option *o, const char *text, long long *member, Error *err) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno != 0 || number < o->least || number > o->most)
        return error_set(err, STATUS_USAGE, "%s takes a whole number from %.0Lf to %.0Lf, not \"%.100s\"", o->name,
                         o->least, o->most, text);
    *member = number;
    return true;
}

static bool take_number(const Option *o, const char *text, double *member, Error *err) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= o->least) || !(number <= o->most))
        return error_set(err, STATUS_USAGE, "%s takes a number from %Lg to %Lg, not \"%.100s\"", o->name, o->least,
                         o->most, text);
    *member = number;
    return true;
}

static bool take_value(const Option *o, const char *value, void *member, Error *err) {
    switch (o->kind) {
    case OPTION_SWITCH: *(bool *)member = true; return true;
    case OPTION_DIRECTORY:
        if (!*value) return error_set(err, STATUS_USAGE, "%s takes a directory", o->name);
        *(const char **)member = value;
        return true;
    case OPTION_TEXT: *(const char **)member = value; return true;
    case OPTION_LIST: {
        OptionList *list = member;
        if (list->count == OPTION_LIST_MAX)
            return error_set(err, STATUS_USAGE, "more than %d %s", OPTION_LIST_MAX, o->name);
        list->items[list->count++] = value;
        return true;
    }
    case OPTION_WHOLE: return take_whole(o, value, member, err);
    case OPTION_NUMBER: return take_number(o, value, member, err);
    }
    return false;
}

bool options_take(const Option *options, size_t count, unsigned verb, const char *program, int argc, char **argv,
                  int *i, void *arguments, Error *err) {
    const char *word = argv[*i], *equals = strchr(word, '='), *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    for (const Option *o = options; o < options + count; o++) {
        if (!(o->verbs & verb) || strlen(o->name) != length || strncmp(o->name, word, length) != 0) continue;
        void *member = (char *)arguments + o->member;
        if (!o->value && equals) return error_set(err, STATUS_USAGE, "%s takes no value", o->name);
        if (!o->value || equals) return take_value(o, equals ? equals + 1 : "", member, err);
        if (!next) return error_set(err, STATUS_USAGE, "%s needs a value: %s %s", o->name, o->name, o->value);
        if (strncmp(next, "--", 2) == 0)
            return error_set(err, STATUS_USAGE,
                             "%s needs a value, and %.100s looks like an option: write %s=%.100s if it is meant",
                             o->name, next, o->name, next);
        ++*i;
        return take_value(o, next, member, err);
    }
    return error_set(err, STATUS_USAGE, "there is no option %.100s here: %s --help lists them", word, program);
}

void options_print(const Option *options, size_t count, unsigned verb, FILE *out) {
    for (const Option *o = options; o < options + count; o++) {
        char left[40];
        if (!(o->verbs & verb)) continue;
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (strlen(left) <= 18)
            fprintf(out, "  %-18s %s\n", left, o->help);
        else
            fprintf(out, "  %s\n  %-18s %s\n", left, "", o->help);
    }
}
