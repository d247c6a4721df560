/* Small things done to text: trimming, cutting, spelling, numbers, fields of CSV, UTF-8, what a terminal may
   show. Nothing here depends on the locale, since the program never calls setlocale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Cuts the white space off the end of a text, in place, and returns where it begins without that at the front. */
char *text_trim(char *text);

/* At most `limit` bytes of a text, then "..." where it was cut, never inside a UTF-8 character. */
void text_clip(const char *text, size_t limit, char *out, size_t capacity);

/* Prints after the text that `out` holds; cut off at `capacity`. */
__attribute__((format(printf, 3, 4))) void text_append(char *out, size_t capacity, const char *format, ...);

/* In place: a text as a message may show it. What a terminal obeys (control characters of ASCII and Latin-1), line
   ends, what turns the direction of writing, and bytes that are not UTF-8 become '?'. */
void text_make_plain(char *text);

/* The shortest of %.15g, %.16g, %.17g that reads back as the same number. */
void text_number(double number, char *out, size_t capacity);

/* For "did you mean": whether `candidate` is near what was `given`, and nearer than the best so far, which starts as
   SIZE_MAX and becomes the edit distance. Texts over 63 bytes are near nothing. */
bool text_is_nearer(const char *given, const char *candidate, size_t *best);

/* A field of comma-separated values (RFC 4180): in double quotes where it needs them, or `always`. */
void text_write_field(const char *text, bool always, FILE *out);

enum { UTF8_CODES = 0x110000 }; /* code points lie below */

/* Decodes one code point from `size` bytes at `text`; returns its length in bytes, 0 when they are not UTF-8 (overlong
   forms, surrogates and code points above U+10FFFF are not; Unicode 15, table 3-7). */
size_t utf8_decode(const char *text, size_t size, uint32_t *character);
/* Writes a code point as UTF-8, ended by a zero; returns its length in bytes. */
size_t utf8_encode(uint32_t character, char out[5]);
/* Code points of the first `size` bytes of valid UTF-8: columns of a terminal, where none is wide or combines. printf
   counts bytes. */
size_t utf8_columns(const char *text, size_t size);

/* Bytes in base64, for the caller to free; NULL without memory. */
char *text_base64(const void *data, size_t size);
