/* Texts that several parts of the lab make: fields of CSV, and texts in memory that are written as files are. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes a field of comma-separated values (RFC 4180), as text_write does: in double quotes where it needs them. */
void text_write_field(const char *text, FILE *out);

/* A text in memory, a block of base/memory.h. What is written to its stream is in `bytes` once it is flushed, with a
   zero byte behind it, which `size` does not count. */
typedef struct {
    FILE *stream; /* NULL: whoever took it closes it */
    char *bytes;
    size_t size;
} Text;
Text *text_begin(void);
/* End a text. text_end returns its bytes as a block, text_take as memory that the caller frees with free. */
char *text_end(Text *text);
char *text_take(Text *text, size_t *size);
