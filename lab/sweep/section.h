/* The [sweep] section of a config: keys with their values, and the combinations of these. */
#pragma once

#include "config/config.h"

enum { SWEEP_AXES_MAX = 8, SWEEP_VALUES_MAX = 64 };

/* One line of [sweep]: a key of the table and its values, as config_write writes them. */
typedef struct {
    size_t key; /* index into the table */
    int origin; /* of these values */
    size_t count;
    char values[SWEEP_VALUES_MAX][64];
} SweepAxis;

/* The section. It is too large for small stacks. */
typedef struct {
    size_t count;
    SweepAxis axis[SWEEP_AXES_MAX];
} SweepAxes;

/* Returns what gives config_load's [sweep] to `axes`, which it empties first. Values are checked as they are read, so
   that a mistake is found before the first run. */
SweepReader axes_reader(SweepAxes *axes);
/* Reads a config as config_load does, and its [sweep] section. */
void axes_load(Config *config, SweepAxes *axes, const char *path, const char *const *overrides, size_t count);

/* Returns the number of combinations of the values, 1 without a key. Refuses more than `most`. */
size_t combinations_count(const SweepAxes *axes, size_t most);
/* Sets *out to the config of combination i, checked as if it had been read from a file. The last key varies fastest. */
void combinations_config(const Config *config, const SweepAxes *axes, size_t i, Config *out);
/* Prints the swept keys with their values, one key per line, each after `indent`. */
void combinations_print(const SweepAxes *axes, const char *indent, FILE *out);
