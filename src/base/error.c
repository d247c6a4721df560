/* Fills in an Error. The message is formatted into a buffer of its own and made plain, so that it stays one line and a
   file's name cannot send control characters to the terminal. If a message is too long, its middle is left out: a long
   path must not push out the reason that follows it. */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

/* Copies a text, or its two ends with "..." between them, neither cut inside a UTF-8 character. */
static void copy_ends(char *out, size_t capacity, const char *text) {
    const size_t length = strlen(text), end = capacity / 2 - 4;
    if (length < capacity) {
        memcpy(out, text, length + 1);
        return;
    }
    const char *tail = text + length - end;
    while (((unsigned char)*tail & 0xc0) == 0x80) tail++;
    text_clip(text, end, out, capacity);
    text_append(out, capacity, "%s", tail);
}

bool(error_set)(Error *err, Status status, const char *format, ...) {
    char message[3 * 4096]; /* holds a path or two; the arguments may be what *err says so far */
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text_make_plain(message);
    copy_ends(err->message, sizeof err->message, message);
    err->status = status;
    return false;
}
