/* Raises and catches errors. A message is made plain, so that it stays one line and a file's name cannot send control
   characters to the terminal. */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"

Protection *innermost_protection;
static Error *reason; /* of the undos that are running; NULL: none are */

bool protect(void (*function)(void *argument), void *argument, Error *error) {
    Protection protection = {innermost_protection, error, memory_mark()};
    *error = (Error){0};
    innermost_protection = &protection;
    const bool returned = call_until_jump(function, argument);
    innermost_protection = protection.outer;
    return returned;
}

static void release(void *mark) { memory_release(*(size_t *)mark); }

_Noreturn void error_raise_again(const Error *error) {
    assert(omp_get_level() == 0); /* omp_in_parallel is false in a parallel region of one thread */
    if (!innermost_protection) {
        fprintf(stderr, "%s\n", error->message);
        exit((int)error->status);
    }
    Error *const outer_reason = reason;
    if (innermost_protection->error != error) *innermost_protection->error = *error;
    reason = innermost_protection->error;
    Error ignored; /* of an undo, which is not called again */
    while (!protect(release, &innermost_protection->mark, &ignored)) continue;
    reason = outer_reason;
    jump();
}

/* Names a character that looks like another in a message, which shows the user's text. */
static void name_lookalike(char *message, size_t capacity) {
    char name[16];
    const unsigned found = text_find_lookalike(message);
    snprintf(name, sizeof name, "U+%04X", found);
    if (found && !strstr(message, name))
        text_append(message, capacity, "; it has the character %s, which is not ASCII", name);
}

_Noreturn void error_raise(Status status, const char *format, ...) {
    Error error = {.status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    text_make_plain(error.message);
    name_lookalike(error.message, sizeof error.message);
    error_raise_again(&error);
}

Status error_status(int number) {
    static const int lasting[] = {ENOENT, ENOTDIR, EISDIR, ELOOP,  ENAMETOOLONG, ENXIO,      EACCES,
                                  EINVAL, EPERM,   EROFS,  ENOLCK, ENOTSUP,      EOPNOTSUPP, ENOSYS};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (lasting[i] == number) return STATUS_USAGE;
    return STATUS_FAILED;
}

void error_append(const char *format, ...) {
    char words[3 * 4096];
    va_list arguments;
    if (!reason) return;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    text_make_plain(words);
    text_append(reason->message, sizeof reason->message, "%s", words);
}
