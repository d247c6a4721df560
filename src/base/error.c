#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

bool(error_set)(Error *err, Status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    for (char *c = err->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    err->status = status;
    return false;
}
