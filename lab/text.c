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

static void undo_text(void *block) {
    const Text *t = block;
    if (t->stream) fclose(t->stream);
    free(t->bytes);
}

Text *text_begin(void) {
    Text *t = memory_make_with_undo(sizeof *t, undo_text, "a text");
    t->stream = open_memstream(&t->bytes, &t->size);
    if (!t->stream) runtime_error("no memory for a text");
    return t;
}

static void close_text(Text *t) {
    const bool written = !ferror(t->stream), closed = fclose(t->stream) == 0;
    t->stream = NULL;
    if (!written || !closed) runtime_error("no memory for a text");
}

char *text_end(Text *t) {
    close_text(t);
    char *copy = memory_copy_text(t->bytes, t->size);
    memory_free(t);
    return copy;
}

char *text_take(Text *t, size_t *size) {
    close_text(t);
    char *bytes = t->bytes;
    *size = t->size;
    t->bytes = NULL;
    memory_free(t);
    return bytes;
}
