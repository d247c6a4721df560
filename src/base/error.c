#include "base/error.h"

#include <stdarg.h>

#include "base/text.h"

bool(error_set)(Error *err, Status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    text_make_plain(err->message);
    err->status = status;
    return false;
}
