/* The combinations of a config's [sweep] section, by number: the last key turns fastest. */
#ifndef SQRTDK_CONFIG_COMBINATIONS_H
#define SQRTDK_CONFIG_COMBINATIONS_H

#include "config/config.h"

/* How many there are; an error (STATUS_USAGE) where that is more than `most`. 1 without a [sweep] section. */
bool combinations_count(const Config *config, size_t most, size_t *count, Error *err);

/* The config of combination i, and the swept keys' values as they are written, into `values` (config->sweep_count). */
bool combinations_config(const Config *config, size_t i, Config *combination, const char *values[SWEEP_AXES_MAX],
                         Error *err);

/* The swept keys with their values, one a line, each behind `indent`. */
void combinations_print(const Config *config, const char *indent, FILE *out);

#endif
