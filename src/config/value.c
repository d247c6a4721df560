/* The value of a key: from text to the member of a Config and back, and what a key accepts in words. Three functions
   belong together: value_parse reads what value_text writes, and value_accepted describes it. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

/* Characters that are written in double quotes as a backslash and the letter in the same place of LETTERS. */
static const char ESCAPED[] = "\n\t\r\"\\", LETTERS[] = "ntr\"\\";

bool value_unquote(const char *written, char *out, size_t capacity, Error *why) {
    const bool quoted = *written == '"';
    const char *in = written + quoted;
    size_t used = 0;
    for (; *in && !(quoted && *in == '"'); in++) {
        char c = *in;
        if (quoted && c == '\\') {
            const char *letter = in[1] ? strchr(LETTERS, in[1]) : NULL;
            if (!letter) return usage_error(why, "in double quotes a backslash takes n, t, r, \" or another backslash");
            c = ESCAPED[letter - LETTERS];
            in++;
        }
        if (used + 1 >= capacity)
            return usage_error(why, "the value is too long; %zu bytes are accepted", capacity - 1);
        out[used++] = c;
    }
    out[used] = 0;
    if (!quoted) return true;
    if (!*in)
        return usage_error(
            why, "the value begins with a double quote that is never closed; inside, a double quote is written \\\"");
    in += 1 + strspn(in + 1, " \t");
    return !*in || *in == ';' || *in == '#' || usage_error(why, "only a comment may follow the closing double quote");
}

/* "a, b or c", with `last` = " or " in front of the last word. */
static void list_words(const char *const *words, const char *last, char *out, size_t capacity) {
    *out = 0;
    for (const char *const *word = words; *word; word++)
        text_append(out, capacity, "%s%s", word == words ? "" : word[1] ? ", " : last, *word);
}

void value_accepted(const Key *key, char *out, size_t capacity) {
    const long long least = key->least, most = key->most;
    char low[32], high[32];
    const char *to;
    switch (key->kind) {
    case KIND_TEXT: snprintf(out, capacity, "a text of %lld to %lld bytes", least, most); break;
    case KIND_INTEGER:
        snprintf(out, capacity, "a whole number from %lld to %lld", least, most);
        for (const char *const *word = key->choices; word && *word; word++)
            text_append(out, capacity, ", or %s", *word);
        break;
    case KIND_NUMBER:
        text_number(key->low, low, sizeof low);
        text_number(key->high, high, sizeof high);
        to = key->below_high ? "to below" : key->above_low ? "and at most" : "to";
        snprintf(out, capacity, "a number %s %s %s %s", key->above_low ? "above" : "from", low, to, high);
        break;
    case KIND_CHOICE: list_words(key->choices, " or ", out, capacity); break;
    case KIND_SCALE:
        list_words(SCALE_NAMES, ", ", out, capacity);
        text_append(out, capacity, " or " SCALE_RANGE);
        break;
    }
}

static bool find_word(const char *const *words, const char *text, int *index) {
    for (*index = 0; words[*index]; ++*index)
        if (strcmp(text, words[*index]) == 0) return true;
    return false;
}

static bool parse_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*number);
}

static bool in_range(const Key *key, double number) {
    return (key->above_low ? number > key->low : number >= key->low) &&
           (key->below_high ? number < key->high : number <= key->high);
}

/* One of the key's words, or digits and nothing else: "1e9", "+1" and "0x10" are refused. */
static bool parse_integer(const Key *key, const char *text, int64_t *integer) {
    int word;
    if (key->choices && find_word(key->choices, text, &word)) {
        *integer = -1 - word;
        return true;
    }
    if (!*text || text[strspn(text, "0123456789")]) return false;
    errno = 0;
    *integer = strtoll(text, NULL, 10);
    return errno == 0 && *integer >= key->least && *integer <= key->most;
}

static bool refuse_value(const Key *key, const char *text, Error *why) {
    const char *const *words = key->kind == KIND_SCALE ? SCALE_NAMES : key->choices;
    char accepted[256], hint[96] = "", pointed[CONFIG_TEXT_MAX];
    double number;
    value_accepted(key, accepted, sizeof accepted);
    for (size_t best = SIZE_MAX; words && *words; words++)
        if (text_is_nearer(text, *words, &best)) snprintf(hint, sizeof hint, "; did you mean %s?", *words);
    if (key->kind == KIND_INTEGER && parse_number(text, &number) && number == floor(number) &&
        number >= (double)key->least && number <= (double)key->most && number < 1e15)
        snprintf(hint, sizeof hint, "; write %.0f", number);
    snprintf(pointed, sizeof pointed, "%s", text);
    if (strchr(pointed, ',')) *strchr(pointed, ',') = '.';
    if (key->kind != KIND_INTEGER && strchr(text, ',') && parse_number(pointed, &number))
        snprintf(hint, sizeof hint, "; write a decimal point, not a comma");
    return usage_error(why, "%s takes %s%s", key->name, accepted, hint);
}

bool value_parse(const Key *key, const char *written, void *member, Error *why) {
    char text[CONFIG_TEXT_MAX];
    bool ok = false;
    if (!value_unquote(written, text, sizeof text, why)) return false;
    switch (key->kind) {
    case KIND_TEXT:
        ok = strlen(text) >= (size_t)key->least;
        memcpy(member, text, strlen(text) + 1);
        break;
    case KIND_INTEGER: ok = parse_integer(key, text, member); break;
    case KIND_NUMBER: ok = parse_number(text, member) && in_range(key, *(double *)member); break;
    case KIND_CHOICE: ok = find_word(key->choices, text, member); break;
    case KIND_SCALE: ok = scale_parse(text, member); break;
    }
    return ok || refuse_value(key, text, why);
}

/* Writes a text plainly where value_unquote gives it back, and in double quotes otherwise. */
static void write_text(const char *text, char *out, size_t capacity) {
    const size_t length = strlen(text);
    bool plain = length > 0 && *text != ' ' && text[length - 1] != ' ' && !strpbrk(text, "\"\\;#");
    for (const char *c = text; *c; c++) plain = plain && !iscntrl((unsigned char)*c);
    snprintf(out, capacity, "%s", plain ? text : "\"");
    if (plain) return;
    for (; *text; text++) {
        const char *escaped = strchr(ESCAPED, *text);
        text_append(out, capacity, escaped ? "\\%c" : "%c", escaped ? LETTERS[escaped - ESCAPED] : *text);
    }
    text_append(out, capacity, "\"");
}

static void write_integer(const Key *key, int64_t integer, char *out, size_t capacity) {
    if (integer < 0) snprintf(out, capacity, "%s", key->choices[-1 - integer]);
    else snprintf(out, capacity, "%lld", (long long)integer);
}

void value_text(const Key *key, const void *member, char *out, size_t capacity) {
    switch (key->kind) {
    case KIND_TEXT: write_text(member, out, capacity); break;
    case KIND_INTEGER: write_integer(key, *(const int64_t *)member, out, capacity); break;
    case KIND_NUMBER: text_number(*(const double *)member, out, capacity); break;
    case KIND_CHOICE: snprintf(out, capacity, "%s", key->choices[*(const int *)member]); break;
    case KIND_SCALE: scale_text(*(const ScaleDivisor *)member, out, capacity); break;
    }
}
