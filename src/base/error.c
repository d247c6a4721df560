/* Raises and catches errors. The message is formatted into a buffer of its own and made plain, so that it stays one
   line and a file's name cannot send control characters to the terminal. If a message is too long, its middle is
   omitted: a long path must not push out the reason that follows it. */
#include "base/error.h"

#include <assert.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"

Protection *innermost_protection;

bool protect(void (*function)(void *argument), void *argument, Error *error) {
    Protection protection = {innermost_protection, error, memory_mark()};
    *error = (Error){0};
    innermost_protection = &protection;
    const bool returned = call_until_jump(function, argument);
    innermost_protection = protection.outer;
    return returned;
}

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

_Noreturn void error_raise_again(const Error *error) {
    assert(omp_get_level() == 0); /* omp_in_parallel is false in a parallel region of one thread */
    if (!innermost_protection) {
        fprintf(stderr, "%s\n", error->message);
        exit((int)error->status);
    }
    if (innermost_protection->error != error) *innermost_protection->error = *error;
    memory_release_undoing(innermost_protection->mark);
    jump();
}

_Noreturn void error_raise(Status status, const char *format, ...) {
    char message[3 * 4096]; /* holds a path or two */
    Error error = {.status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    text_make_plain(message);
    copy_ends(error.message, sizeof error.message, message);
    error_raise_again(&error);
}
