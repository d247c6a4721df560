/* Text that comes from outside (names of files, values of a config, a corpus) reaches messages only through
   text_make_plain, and a terminal only through text_write. So it cannot send commands to the terminal, and cannot
   break a message into two lines. */
#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory.h"

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

/* Unicode 15: general category Cc, U+2028, U+2029, and the characters with the property Bidi_Control. */
static bool is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static bool is_in(const uint32_t ranges[][2], size_t count, uint32_t c) {
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}
#define IS_IN(ranges, c) is_in(ranges, sizeof(ranges) / sizeof *(ranges), c)

/* Control characters, blanks outside of ASCII, and marks that have no width. */
bool text_is_invisible(uint32_t c) {
    static const uint32_t ranges[][2] = {{0, 8},           {0xb, 0x1f},      {0x7f, 0xa0},     {0xad, 0xad},
                                         {0x61c, 0x61c},   {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},
                                         {0x205f, 0x206f}, {0x3000, 0x3000}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};
    return IS_IN(ranges, c);
}

uint32_t text_find_lookalike(const char *text) {
    static const uint32_t ranges[][2] = {{0x2010, 0x2015}, {0x2018, 0x201f}, {0x2212, 0x2212}, {0xff01, 0xff5e}};
    for (size_t length; *text; text += length ? length : 1) {
        uint32_t c;
        length = utf8_decode(text, strnlen(text, 4), &c);
        if (length > 0 && (text_is_invisible(c) || IS_IN(ranges, c))) return c;
    }
    return 0;
}

void text_make_plain(char *text) {
    char *out = text;
    for (size_t length; *text; text += length ? length : 1) {
        uint32_t c;
        length = utf8_decode(text, strnlen(text, 4), &c);
        const bool plain = length > 0 && !is_control(c);
        memmove(out, plain ? text : "?", plain ? length : 1);
        out += plain ? length : 1;
    }
    *out = 0;
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

const char *text_next_line(const char *text, size_t columns, size_t *line) {
    size_t end = strcspn(text, " ");
    *line = end;
    while (text[end]) {
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
        if (utf8_columns(text, end) > columns) break;
        *line = end;
    }
    return text + *line + strspn(text + *line, " ");
}

void text_write_lines(const char *text, size_t columns, FILE *out) {
    size_t line;
    for (const char *next; *text; text = next) {
        next = text_next_line(text, columns, &line);
        fprintf(out, "%.*s\n", (int)line, text);
    }
}

void text_number(double number, char *out, size_t capacity) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, capacity, "%.*g", digits, number);
        if (strtod(out, NULL) == number) return;
    }
}

/* Returns the number of edits that make one text the other, without regard to case. Two neighbours that change places
   count as one edit (optimal string alignment). */
enum { LONGEST = 63 };
static size_t edit_distance(const char *given, size_t n, const char *candidate, size_t m) {
    size_t edits[LONGEST + 1][LONGEST + 1]; /* from the first i characters to the first j */
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t *least = &edits[i][j];
            *least = i + j;
            if (i == 0 || j == 0) continue;
            int a = tolower((unsigned char)given[i - 1]), b = tolower((unsigned char)candidate[j - 1]);
            if (*least > edits[i - 1][j - 1] + (a != b)) *least = edits[i - 1][j - 1] + (a != b);
            if (*least > edits[i - 1][j] + 1) *least = edits[i - 1][j] + 1;
            if (*least > edits[i][j - 1] + 1) *least = edits[i][j - 1] + 1;
            if (i > 1 && j > 1 && a == tolower((unsigned char)candidate[j - 2]) &&
                b == tolower((unsigned char)given[i - 2]) && *least > edits[i - 2][j - 2] + 1)
                *least = edits[i - 2][j - 2] + 1;
        }
    return edits[n][m];
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

void text_write(const char *text, size_t size, FILE *out) {
    if (!isatty(fileno(out))) {
        fwrite(text, 1, size, out);
        return;
    }
    for (size_t at = 0, length; at < size; at += length) {
        char piece[5] = "";
        uint32_t character;
        length = utf8_decode(text + at, size - at, &character);
        if (length == 0) length = 1;
        memcpy(piece, text + at, length);
        if (*piece != '\n') text_make_plain(piece);
        fputs(piece, out);
    }
}

size_t utf8_decode(const char *text, size_t size, uint32_t *character) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    if (size == 0) return 0;
    const unsigned first = bytes[0];
    const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0 || length > size) return 0;
    uint32_t c = length == 1 ? first : first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (bytes[i] >> 6 != 2) return 0;
        c = c << 6 | (bytes[i] & 0x3Fu);
    }
    if (c < smallest[length] || c >= UTF8_CODES || (c >= 0xD800 && c <= 0xDFFF)) return 0;
    *character = c;
    return length;
}

size_t utf8_encode(uint32_t c, char out[5]) {
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned first[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(first[length] | c);
    out[length] = 0;
    return length;
}

size_t utf8_columns(const char *text, size_t size) {
    size_t columns = 0;
    for (size_t i = 0; i < size; i++) columns += ((unsigned char)text[i] & 0xC0u) != 0x80;
    return columns;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

void hash_text(uint64_t hash, char out[HASH_DIGITS]) { snprintf(out, HASH_DIGITS, "%016" PRIx64, hash); }
