/* The value of a key, from text to the member of a Config and back. value_parse reads what value_text writes, and
   value_accepted describes it in words. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

char config_place[PLACE_MAX];

void config_error(const char *format, ...) {
    char reason[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    usage_error("%s: %s", config_place, reason);
}

/* Characters that are written in double quotes as a backslash and the letter in the same place of LETTERS. */
static const char ESCAPED[] = "\n\t\r\"\\", LETTERS[] = "ntr\"\\";

void value_unquote(const char *written, char *out, size_t capacity) {
    const bool quoted = *written == '"';
    const char *in = written + quoted;
    size_t used = 0;
    for (; *in && !(quoted && *in == '"'); in++) {
        char c = *in;
        if (quoted && c == '\\') {
            const char *letter = in[1] ? strchr(LETTERS, in[1]) : NULL;
            if (!letter) config_error("in double quotes a backslash takes n, t, r, \" or another backslash");
            c = ESCAPED[letter - LETTERS];
            in++;
        }
        if (used + 1 >= capacity) config_error("the value is too long; %zu bytes are accepted", capacity - 1);
        out[used++] = c;
    }
    out[used] = 0;
    if (!quoted) return;
    if (!*in)
        config_error(
            "the value begins with a double quote that is never closed; inside, a double quote is written \\\"");
    in += 1 + strspn(in + 1, " \t");
    if (*in && *in != ';' && *in != '#') config_error("only a comment may follow the closing double quote");
}

/* Writes "a, b or c", with `last` = " or " in front of the last word. */
static void list_words(const char *const *words, const char *last, char *out, size_t capacity) {
    *out = 0;
    for (const char *const *word = words; *word; word++)
        text_append(out, capacity, "%s%s", word == words ? "" : word[1] ? ", " : last, *word);
}

void value_accepted(const Key *key, char *out, size_t capacity) {
    char low[32], high[32];
    const char *to;
    switch (key->kind) {
    case KIND_TEXT: snprintf(out, capacity, "a text of %zu to %zu bytes", key->least, key->most); break;
    case KIND_INTEGER:
        snprintf(out, capacity, "a whole number from %zu to %zu", key->least, key->most);
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

/* Returns a text's place among the words, -1 if it is none of them. */
static int find_word(const char *const *words, const char *text) {
    for (int i = 0; words && words[i]; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

/* Returns NaN for a text that is no finite number. */
static double parse_number(const char *text) {
    char *end;
    const double number = strtod(text, &end);
    return end != text && *end == 0 && isfinite(number) ? number : NAN;
}

static bool in_range(const Key *key, double number) {
    return (key->above_low ? number > key->low : number >= key->low) &&
           (key->below_high ? number < key->high : number <= key->high);
}

static _Noreturn void refuse_value(const Key *key, const char *text) {
    const char *const *words = key->kind == KIND_SCALE ? SCALE_NAMES : key->choices;
    char accepted[256], hint[128] = "", pointed[CONFIG_TEXT_MAX];
    value_accepted(key, accepted, sizeof accepted);
    for (size_t best = SIZE_MAX; words && *words; words++)
        if (text_is_nearer(text, *words, &best)) snprintf(hint, sizeof hint, "; did you mean %s?", *words);
    const double number = parse_number(text);
    if (key->kind == KIND_INTEGER && number == floor(number) && number >= (double)key->least &&
        number <= (double)key->most && number < 1e15)
        snprintf(hint, sizeof hint, "; write %.0f", number);
    snprintf(pointed, sizeof pointed, "%s", text);
    if (strchr(pointed, ',')) *strchr(pointed, ',') = '.';
    if (key->kind != KIND_INTEGER && strchr(text, ',') && !isnan(parse_number(pointed)))
        snprintf(hint, sizeof hint, "; write a decimal point, not a comma");
    if (strchr(text, ',') && !*hint)
        snprintf(hint, sizeof hint, "; a list is for sweep: --set sweep.%s=%.40s", key->full, text);
    config_error("%s takes %s%s", key->name, accepted, hint);
}

/* Reads one of the key's words, or digits alone: "1e9", "+1" and "0x10" are refused. */
static size_t parse_integer(const Key *key, const char *text) {
    const int word = find_word(key->choices, text);
    if (word >= 0) return SIZE_MAX - (size_t)word;
    const bool digits = *text && !text[strspn(text, "0123456789")];
    errno = 0;
    const unsigned long long integer = strtoull(text, NULL, 10);
    if (!digits || errno != 0 || integer < key->least || integer > key->most) refuse_value(key, text);
    return (size_t)integer; /* key->most fits */
}

void value_parse(const Key *key, const char *written, void *member) {
    char text[CONFIG_TEXT_MAX];
    value_unquote(written, text, sizeof text);
    switch (key->kind) {
    case KIND_TEXT:
        if (strlen(text) < key->least) refuse_value(key, text);
        memcpy(member, text, strlen(text) + 1);
        break;
    case KIND_INTEGER: *(size_t *)member = parse_integer(key, text); break;
    case KIND_NUMBER:
        *(double *)member = parse_number(text);
        if (!in_range(key, *(double *)member)) refuse_value(key, text);
        break;
    case KIND_CHOICE:
        *(int *)member = find_word(key->choices, text);
        if (*(int *)member < 0) refuse_value(key, text);
        break;
    case KIND_SCALE:
        if (!scale_parse(text, member)) refuse_value(key, text);
        break;
    }
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

static void write_integer(const Key *key, size_t integer, char *out, size_t capacity) {
    if (integer > key->most) snprintf(out, capacity, "%s", key->choices[SIZE_MAX - integer]);
    else snprintf(out, capacity, "%zu", integer);
}

void value_text(const Key *key, const void *member, char *out, size_t capacity) {
    switch (key->kind) {
    case KIND_TEXT: write_text(member, out, capacity); break;
    case KIND_INTEGER: write_integer(key, *(const size_t *)member, out, capacity); break;
    case KIND_NUMBER: text_number(*(const double *)member, out, capacity); break;
    case KIND_CHOICE: snprintf(out, capacity, "%s", key->choices[*(const int *)member]); break;
    case KIND_SCALE: scale_text(*(const DivisorChoice *)member, out, capacity); break;
    }
}
