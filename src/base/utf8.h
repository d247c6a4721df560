/* Unicode code points as UTF-8. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { UTF8_CODES = 0x110000 }; /* code points lie below */

/* Decodes one code point from `size` bytes at `text`; returns its length in bytes, 0 when they are not UTF-8 (overlong
   forms, surrogates and code points above U+10FFFF are not; Unicode 15, table 3-7). */
size_t utf8_decode(const char *text, size_t size, uint32_t *character);
/* Writes a code point as UTF-8 with a zero behind it; returns its length in bytes. */
size_t utf8_encode(uint32_t character, char out[5]);
/* Code points of the first `size` bytes of valid UTF-8: columns of a terminal, where none is wide or combines. printf
   counts bytes. */
size_t utf8_columns(const char *text, size_t size);
