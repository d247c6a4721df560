/* Where this program is, for starting it, or the one beside it, again. */
#ifndef SQRTDK_BASE_PROGRAM_H
#define SQRTDK_BASE_PROGRAM_H

#include <stddef.h>

#include "base/error.h"

/* The path of the program's file, links followed; an error of status STATUS_FAILED where the system does not say, or
   the path takes more than `capacity` bytes. */
bool program_path(char *out, size_t capacity, Error *err);

/* A path that starts this very program once more: on Linux it does so after another was put in its place. */
bool program_again(char *out, size_t capacity, Error *err);

#endif
