/* Keys of a loaded config that are set as a sweep sets them. */
#pragma once

#include "support.h"

#include "config/config.h"

static inline void set_keys(Config *config, size_t count, const char *const *keys, const char *const *values) {
    static SweepAxes combination; /* large */
    combination.count = count;
    for (size_t i = 0; i < count; i++) {
        SweepAxis *axis = &combination.axis[i];
        *axis = (SweepAxis){.count = 1};
        while (strcmp(config_key_name(axis->key), keys[i]) != 0) axis->key++;
        snprintf(axis->values[0], sizeof axis->values[0], "%s", values[i]);
    }
    combinations_config(config, &combination, 0, config);
}
