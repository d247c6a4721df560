/* Values: from text to a number, switch or choice and back, and what a setting accepts in words. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

bool value_unquote(const char *written, char *out, size_t capacity, Error *why) {
    static const char ESCAPES[] = "ntr\"\\", MEANINGS[] = "\n\t\r\"\\";
    bool quoted = *written == '"';
    const char *in = written + quoted;
    size_t used = 0;
    for (; *in && !(quoted && *in == '"'); in++) {
        char c = *in;
        if (quoted && c == '\\') {
            const char *escape = in[1] ? strchr(ESCAPES, in[1]) : NULL;
            if (!escape)
                return error_set(why, STATUS_USAGE,
                                 "in double quotes a backslash takes n, t, r, \" or another backslash after it");
            c = MEANINGS[escape - ESCAPES];
            in++;
        }
        if (used + 1 >= capacity)
            return error_set(why, STATUS_USAGE, "the value is too long; at most %zu bytes are accepted", capacity - 1);
        out[used++] = c;
    }
    if (quoted && *in != '"')
        return error_set(why, STATUS_USAGE, "the value opens with a double quote and none closes it");
    if (quoted && in[1]) return error_set(why, STATUS_USAGE, "something follows the closing double quote");
    out[used] = 0;
    return true;
}

static size_t append(char *out, size_t capacity, size_t used, const char *text) {
    if (used < capacity) snprintf(out + used, capacity - used, "%s", text);
    return used + strlen(text);
}

void words_text(const char *const *words, const char *between, const char *last, char *out, size_t capacity) {
    size_t used = 0;
    *out = 0;
    for (const char *const *word = words; *word; word++) {
        if (word > words) used = append(out, capacity, used, word[1] ? between : last);
        used = append(out, capacity, used, *word);
    }
}

static void accepts_number(const Setting *setting, char *out, size_t capacity) {
    char low[32], high[32];
    text_number(setting->low, low, sizeof low);
    text_number(setting->high, high, sizeof high);
    if (setting->above_low)
        snprintf(out, capacity, "a number above %s and at most %s", low, high);
    else
        snprintf(out, capacity, "a number from %s to %s%s", low, setting->below_high ? "below " : "", high);
}

/* Macros as they are written: 1e-6, where a number printed would be 1e-06. */
#define AS_WRITTEN(text) #text
#define RANGE_TEXT(least, most) "a number from " AS_WRITTEN(least) " to " AS_WRITTEN(most)

/* What a setting takes, as in "takes a whole number from 1 to 1024". */
static void accepts_text(const Setting *setting, char *out, size_t capacity) {
    const long long least = setting->least, most = setting->most;
    char names[64];
    switch (setting->kind) {
    case KIND_TEXT: snprintf(out, capacity, "a text of %lld to %lld bytes", least, most); break;
    case KIND_INTEGER: snprintf(out, capacity, "a whole number from %lld to %lld", least, most); break;
    case KIND_NUMBER: accepts_number(setting, out, capacity); break;
    case KIND_SWITCH: snprintf(out, capacity, "yes or no"); break;
    case KIND_SCALE:
        words_text(SCALE_NAMES, ", ", ", ", names, sizeof names);
        snprintf(out, capacity, "%s or " RANGE_TEXT(SCALE_LEAST, SCALE_MOST), names);
        break;
    case KIND_CHOICE: words_text(setting->choices, ", ", " or ", out, capacity); break;
    }
}

static const char *nearest_word(const Setting *setting, const char *given) {
    const char *const *words = setting->kind == KIND_SCALE ? SCALE_NAMES : setting->choices;
    const char *nearest = NULL;
    for (size_t best = SIZE_MAX; words && *words; words++)
        if (text_is_nearer(given, *words, &best)) nearest = *words;
    return nearest;
}

static bool parse_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == 0 && !isspace((unsigned char)*text) && isfinite(*number);
}

static bool refuse(const Setting *setting, const char *text, Error *why) {
    char accepted[256], hint[96] = "";
    accepts_text(setting, accepted, sizeof accepted);
    const char *word = nearest_word(setting, text);
    double number;
    if (word)
        snprintf(hint, sizeof hint, "; did you mean %s?", word);
    else if (setting->kind == KIND_INTEGER && strpbrk(text, "eE.") && parse_number(text, &number) &&
             number == floor(number) && number >= (double)setting->least && number <= (double)setting->most &&
             number < 1e15)
        snprintf(hint, sizeof hint, "; write %.0f", number);
    return error_set(why, STATUS_USAGE, "%s takes %s%s", setting->key, accepted, hint);
}

/* Digits and nothing else: "1e9", "+1" and "0x10" are refused. */
static bool parse_integer(const Setting *setting, const char *text, int64_t *integer) {
    if (!*text || text[strspn(text, "0123456789")]) return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    *integer = number;
    return errno == 0 && number >= setting->least && number <= setting->most;
}

static bool parse_switch(const char *text, bool *on) {
    static const char *const WORDS[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        *on = i % 2;
        if (strcmp(text, WORDS[i]) == 0) return true;
    }
    return false;
}

static bool parse_choice(const Setting *setting, const char *text, int *choice) {
    for (*choice = 0; setting->choices[*choice]; ++*choice)
        if (strcmp(text, setting->choices[*choice]) == 0) return true;
    return false;
}

static bool in_range(const Setting *setting, double number) {
    return (setting->above_low ? number > setting->low : number >= setting->low) &&
           (setting->below_high ? number < setting->high : number <= setting->high);
}

bool value_parse(const Setting *setting, const char *written, Value *value, Error *why) {
    char text[CONFIG_TEXT_MAX] = "";
    if (!value_unquote(written, text, sizeof text, why)) return false;
    bool ok = false;
    switch (setting->kind) {
    case KIND_TEXT:
        ok = strlen(text) >= (size_t)setting->least;
        memcpy(value->text, text, sizeof text);
        break;
    case KIND_INTEGER: ok = parse_integer(setting, text, &value->integer); break;
    case KIND_NUMBER: ok = parse_number(text, &value->number) && in_range(setting, value->number); break;
    case KIND_SWITCH: ok = parse_switch(text, &value->on); break;
    case KIND_CHOICE: ok = parse_choice(setting, text, &value->choice); break;
    case KIND_SCALE: ok = !isspace((unsigned char)*text) && scale_parse(text, &value->scale); break;
    }
    return ok || refuse(setting, text, why);
}

bool value_equal(const Setting *setting, const Value *a, const Value *b) {
    switch (setting->kind) {
    case KIND_TEXT: return strcmp(a->text, b->text) == 0;
    case KIND_INTEGER: return a->integer == b->integer;
    case KIND_NUMBER: return a->number == b->number;
    case KIND_SWITCH: return a->on == b->on;
    case KIND_CHOICE: return a->choice == b->choice;
    case KIND_SCALE: return a->scale.mode == b->scale.mode && a->scale.number == b->scale.number;
    }
    return false;
}

void value_store(Config *config, const Setting *setting, const Value *value) {
    char *member = (char *)config + setting->offset;
    switch (setting->kind) {
    case KIND_TEXT: memcpy(member, value->text, strlen(value->text) + 1); break;
    case KIND_INTEGER: memcpy(member, &value->integer, sizeof value->integer); break;
    case KIND_NUMBER: memcpy(member, &value->number, sizeof value->number); break;
    case KIND_SWITCH: memcpy(member, &value->on, sizeof value->on); break;
    case KIND_CHOICE: memcpy(member, &value->choice, sizeof value->choice); break;
    case KIND_SCALE: memcpy(member, &value->scale, sizeof value->scale); break;
    }
}

/* Plain where a reader gets the same text back, else in double quotes. */
static void write_text(const char *text, char *out, size_t capacity) {
    static const char SPECIAL[] = "\n\t\r\"\\", LETTERS[] = "ntr\"\\";
    size_t length = strlen(text), used = 0;
    bool plain = length > 0 && length <= 100 && *text != ' ' && text[length - 1] != ' ' && !strpbrk(text, "\"\\;#");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) plain = false;
    if (plain) {
        snprintf(out, capacity, "%s", text);
        return;
    }
    used = append(out, capacity, used, "\"");
    for (; *text; text++) {
        const char *special = strchr(SPECIAL, *text);
        char pair[] = "\\?", byte[] = "?";
        if (special)
            pair[1] = LETTERS[special - SPECIAL];
        else
            byte[0] = *text;
        used = append(out, capacity, used, special ? pair : byte);
    }
    append(out, capacity, used, "\"");
}

void value_text(const Setting *setting, const Config *config, char *out, size_t capacity) {
    const void *member = (const char *)config + setting->offset;
    switch (setting->kind) {
    case KIND_TEXT: write_text(member, out, capacity); break;
    case KIND_INTEGER: snprintf(out, capacity, "%lld", (long long)*(const int64_t *)member); break;
    case KIND_NUMBER: text_number(*(const double *)member, out, capacity); break;
    case KIND_SWITCH: snprintf(out, capacity, "%s", *(const bool *)member ? "yes" : "no"); break;
    case KIND_CHOICE: snprintf(out, capacity, "%s", setting->choices[*(const int *)member]); break;
    case KIND_SCALE: scale_text(*(const ScaleDivisor *)member, out, capacity); break;
    }
}
