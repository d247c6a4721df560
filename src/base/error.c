/* Fills in an Error. The message is formatted into a buffer of its own and made plain, so that it stays one line and
   a file's name cannot send control characters to the terminal. */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

bool(error_set)(Error *err, Status status, const char *format, ...) {
    char message[sizeof err->message]; /* the arguments may be what *err says so far */
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text_make_plain(message);
    memcpy(err->message, message, strlen(message) + 1);
    err->status = status;
    return false;
}
