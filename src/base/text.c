#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

char *text_trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    for (size_t length = strlen(text); length > 0 && isspace((unsigned char)text[length - 1]);) text[--length] = 0;
    return text;
}

void text_append(char *out, size_t capacity, const char *format, ...) {
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, capacity - used, format, arguments);
    va_end(arguments);
}

void text_clip(const char *text, size_t limit, char *out, size_t capacity) {
    size_t length = strlen(text);
    bool cut = length > limit;
    if (cut) {
        length = limit;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    }
    snprintf(out, capacity, "%.*s%s", (int)length, text, cut ? "..." : "");
}

void text_number(double number, char *out, size_t capacity) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, capacity, "%.*g", digits, number);
        if (strtod(out, NULL) == number) return;
    }
}

/* Edits that make one text the other, neighbours that change places being one (optimal string alignment), without
   regard to case. Three rows of the table are enough. */
enum { LONGEST = 63 };
static size_t edit_distance(const char *given, size_t n, const char *candidate, size_t m) {
    size_t rows[3][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                now[j] = i + j;
                continue;
            }
            int a = tolower((unsigned char)given[i - 1]), b = tolower((unsigned char)candidate[j - 1]);
            size_t distance = before[j - 1] + (a != b);
            if (distance > before[j] + 1) distance = before[j] + 1;
            if (distance > now[j - 1] + 1) distance = now[j - 1] + 1;
            if (i > 1 && j > 1 && a == tolower((unsigned char)candidate[j - 2]) &&
                b == tolower((unsigned char)given[i - 2]) && distance > earlier[j - 2] + 1)
                distance = earlier[j - 2] + 1;
            now[j] = distance;
        }
    }
    return rows[n % 3][m];
}

bool text_is_nearer(const char *given, const char *candidate, size_t *best) {
    size_t n = strlen(given), m = strlen(candidate);
    if (n == 0 || n > LONGEST || m > LONGEST) return false;
    size_t distance = edit_distance(given, n, candidate, m);
    bool beginning = n >= 2 && strncmp(given, candidate, n) == 0;
    bool near = beginning || distance <= (n > m ? n : m) / 3;
    if (!near || distance >= *best) return false;
    *best = distance;
    return true;
}

void text_write_cell(const char *text, FILE *out) {
    for (; *text; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text, out);
    }
}

void text_write_field(const char *text, bool always, FILE *out) {
    const bool quoted = always || strpbrk(text, ",\"\r\n");
    if (quoted) fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    if (quoted) fputc('"', out);
}
