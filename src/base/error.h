/* An error ends what is being done. usage_error and runtime_error do not return: they release what was made since the
   innermost protect (base/memory.h), in reverse order, and continue behind that protect. This is Lua's protected
   call (Ierusalimschy, de Figueiredo and Celes 2007). The protect in main prints the message and turns the status into
   the exit status; docs/development.md names the few others. So a function returns its result or nothing, and no caller
   passes a failure on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Kinds of errors. Their values are also the exit statuses of the program. */
typedef enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,   /* failed while running: I/O, memory */
    STATUS_USAGE = 2,    /* wrong arguments, config, corpus or run directory */
    STATUS_DIVERGED = 3, /* a loss or gradient became NaN or infinite */
} Status;

typedef struct {
    Status status;
    char message[3 * 4096]; /* one line: what, where, what to do. Holds a path or two */
} Error;

/* Calls function(argument). Returns true if it returned; then error->status is STATUS_OK. Returns false if an error
   ended it; *error then describes the error, and all blocks made meanwhile have been released. */
bool protect(void (*function)(void *argument), void *argument, Error *error);

/* Ends what is being done with an error of this status and a message (printf-style, made plain as by text_make_plain,
   so that it stays one line). Without a protect, prints the message to stderr and exits with the status. Never call
   this in a parallel region: the other threads would wait for ever. */
_Noreturn void error_raise(Status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Mistakes of the user, and failures of the system. */
#define usage_error(...) error_raise(STATUS_USAGE, __VA_ARGS__)
#define runtime_error(...) error_raise(STATUS_FAILED, __VA_ARGS__)

/* Returns the status of an error whose reason is this number of errno: STATUS_USAGE if the same command would fail
   again, since the file, the permission or the lock is not to be had. */
Status error_status(int number);

/* Raises an error that a protect has caught. */
_Noreturn void error_raise_again(const Error *error);

/* Appends words to the message of the error for which a block is undone, if the undo is not complete. Without such an
   error does nothing. */
void error_append(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A protect that has not ended: for error.c, and for tests, which protect single statements. */
typedef struct Protection {
    struct Protection *outer;
    Error *error;
    size_t mark; /* of the blocks: newer ones are released */
} Protection;
extern Protection *innermost_protection;
