/* Fields of CSV, and texts in memory. The stream of a text is one of POSIX, which grows its memory (open_memstream). */
#include "lab/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

void text_write_field(const char *text, FILE *out) {
    const bool quoted = strpbrk(text, ",\"\r\n");
    if (quoted) fputc('"', out);
    while (*text) {
        const size_t length = strcspn(text, "\"");
        text_write(text, length, out);
        text += length;
        if (*text == 0) break;
        fputs("\"\"", out);
        text++;
    }
    if (quoted) fputc('"', out);
}

void text_begin(Text *t) {
    t->stream = open_memstream(&t->bytes, &t->size);
    if (!t->stream) runtime_error("no memory for a text");
}

char *text_end(Text *t) {
    const bool complete = fclose(t->stream) == 0;
    char *copy = complete ? memory_copy_text(t->bytes, t->size) : NULL;
    free(t->bytes);
    if (!complete) runtime_error("no memory for a text");
    return copy;
}
