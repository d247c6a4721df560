/* Errors are values. A function that can fail returns bool and takes `Error *` last; on false it has filled it in.
   Only train.c prints an Error and turns its status into the exit status. */
#pragma once

#include <stdbool.h>

/* Kinds of errors. Their values are also the exit statuses of the program. */
typedef enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,   /* failed while running: I/O, memory */
    STATUS_USAGE = 2,    /* wrong arguments, config, corpus or run directory */
    STATUS_DIVERGED = 3, /* a loss or gradient became NaN or infinite */
} Status;

typedef struct {
    Status status;
    char message[1024]; /* one line: what, where, what to do */
} Error;

/* Fills in *err (printf-style, made plain as by text_make_plain, so that the message stays one line) and returns
   false: `return error_set(err, STATUS_DIVERGED, ...)`. The arguments may be err's own, to put words around them. */
bool error_set(Error *err, Status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* This macro shows static analysers that the result is always false. */
#ifdef __clang_analyzer__
#define error_set(...) (error_set(__VA_ARGS__), false)
#endif
/* `return usage_error(err, ...)` for what the user gave, `return runtime_error(err, ...)` for what the system did. */
#define usage_error(err, ...) error_set(err, STATUS_USAGE, __VA_ARGS__)
#define runtime_error(err, ...) error_set(err, STATUS_FAILED, __VA_ARGS__)
