/* Texts that several parts of the lab make: fields of CSV, and texts in memory that are written as files are. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes a field of comma-separated values (RFC 4180), as text_write does: in double quotes where it needs them. */
void text_write_field(const char *text, FILE *out);

/* A text in memory. What is written to its stream is in it once it has ended. */
typedef struct {
    FILE *stream;
    char *bytes;
    size_t size;
} Text;
void text_begin(Text *text);
/* Returns the text with a zero byte behind it, which text->size does not count: a block of base/memory.h. */
char *text_end(Text *text);
