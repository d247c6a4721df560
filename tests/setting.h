/* Keys of a loaded config that are set as a sweep sets them. */
#pragma once

#include "support.h"

#include "config/config.h"

static inline void set_keys(Config *config, size_t count, const char *const *keys, const char *const *values) {
    size_t found[16] = {0};
    assert_true(count <= COUNT_OF(found));
    for (size_t i = 0; i < count; i++)
        while (strcmp(config_key_name(found[i]), keys[i]) != 0) found[i]++;
    config_with(config, count, found, values, config);
}
