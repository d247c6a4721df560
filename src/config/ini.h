/* The .ini file: sections, keys and values as they are written, without regard to what they mean.

       [section]          ; comments begin with ; or #, at the start of a line or after a blank
       key = value        # or key : value; blanks around both are cut
       key = "a ; value"  # in double quotes blanks, ; and # stay; a backslash keeps the next character in

   Indented lines are lines like others, values of any length are read, a byte order mark and ends of lines \r\n are
   accepted. A line that is none of these is an error. */
#pragma once

#include "base/error.h"

/* Called for each [section], with `key` and `written` NULL, and for each key and its value: `section` is "" before the
   first one, `written` has its quotes and escapes, and is empty where nothing stands there. `line` counts from 1. The
   texts do not outlast the call. False, with *why filled in, ends the reading. */
typedef bool IniHandler(void *user, const char *section, const char *key, const char *written, int line, Error *why);

/* Reads the file at `path`, up to 1 MiB. An error names the file, the line's number and the line itself, then says what
   is wrong or what the handler said; a file that is not there is answered with the one that may be meant. Errors have
   status STATUS_USAGE, or the handler's; without memory STATUS_FAILED. */
bool ini_read(const char *path, IniHandler *handler, void *user, Error *err);
