/* Where this program is, for starting it, or the one beside it, again. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The path of the program's file, links followed; an error of status STATUS_FAILED where the system does not say, or
   the path takes more than `capacity` bytes. */
bool program_path(char *out, size_t capacity, Error *err);

/* A path that starts this very program once more: on Linux it does so after another was put in its place. */
bool program_again(char *out, size_t capacity, Error *err);
