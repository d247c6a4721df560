/* Functions on text: trimming, cutting, spelling, numbers, UTF-8, texts for a terminal. None depends on the locale,
   since the program never calls setlocale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Cuts white space off the end of a text, in place, and returns where the text begins after white space in front. */
char *text_trim(char *text);

/* Copies at most `limit` bytes of a text, then "..." where it was cut, never inside a UTF-8 character. */
void text_clip(const char *text, size_t limit, char *out, size_t capacity);

/* Appends to the text in `out`, which is cut off at `capacity`. */
__attribute__((format(printf, 3, 4))) void text_append(char *out, size_t capacity, const char *format, ...);

/* Makes a text fit for a message, in place: control characters (of ASCII and Latin-1), line ends, characters that
   change the direction of writing, and bytes that are not UTF-8 become '?'. */
void text_make_plain(char *text);

/* Returns whether a character other than a blank, a tab and a line end cannot be seen. */
bool text_is_invisible(uint32_t character);
/* Returns the first character of a text that is invisible or looks like one of ASCII, or 0. */
uint32_t text_find_lookalike(const char *text);

/* Writes a text from outside, as a result: into a file or a pipe byte by byte, to a terminal made plain except for line
   ends. */
void text_write(const char *text, size_t size, FILE *out);

/* Finds the first line of a text that is broken at blanks: as many words as fit into `columns`, or one word that is
   longer. *line becomes the line's length in bytes. Returns where the next line begins. */
const char *text_next_line(const char *text, size_t columns, size_t *line);
/* Writes the text in such lines. */
void text_write_lines(const char *text, size_t columns, FILE *out);

/* Writes a number as the shortest of %.15g, %.16g, %.17g that reads back as the same number. */
void text_number(double number, char *out, size_t capacity);

/* Returns, for "did you mean", whether `candidate` is near the `given` text, and nearer than the best so far. *best
   starts as SIZE_MAX and becomes the edit distance. Texts over 63 bytes are near nothing. */
bool text_is_nearer(const char *given, const char *candidate, size_t *best);

enum { UTF8_CODES = 0x110000 }; /* code points lie below */

/* Decodes one code point from `size` bytes at `text`; returns its length in bytes, 0 when they are not UTF-8 (overlong
   forms, surrogates and code points above U+10FFFF are not; Unicode 15, table 3-7). */
size_t utf8_decode(const char *text, size_t size, uint32_t *character);
/* Writes a code point as UTF-8, ended by a zero; returns its length in bytes. */
size_t utf8_encode(uint32_t character, char out[5]);
/* Returns the number of code points in the first `size` bytes of valid UTF-8: their columns on a terminal, if none is
   wide or combining. printf counts bytes. */
size_t utf8_columns(const char *text, size_t size);

/* The FNV-1a hash (Fowler, Noll, Vo) of bytes. `hash` is the hash of the bytes before, at first HASH_START. hash_text
   writes the 64 bits as hexadecimal digits. */
#define HASH_START 0xcbf29ce484222325u
enum { HASH_DIGITS = 17 };
uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size);
void hash_text(uint64_t hash, char out[HASH_DIGITS]);
