#include "config/combinations.h"

bool combinations_count(const Config *config, size_t most, size_t *count, Error *err) {
    *count = 1;
    for (size_t a = 0; a < config->sweep_count; a++) {
        *count *= config->sweep[a].count;
        if (*count > most) return error_set(err, STATUS_USAGE, "[sweep] has more than %zu combinations", most);
    }
    return true;
}

bool combinations_config(const Config *config, size_t i, Config *combination, const char *values[SWEEP_AXES_MAX],
                         Error *err) {
    const char *keys[SWEEP_AXES_MAX];
    for (size_t a = config->sweep_count; a-- > 0; i /= config->sweep[a].count) {
        keys[a] = config_key_name(config->sweep[a].setting);
        values[a] = config->sweep[a].values[i % config->sweep[a].count];
    }
    *combination = *config;
    return config_set_all(combination, "[sweep]", config->sweep_count, keys, values, err);
}

void combinations_print(const Config *config, const char *indent, FILE *out) {
    for (size_t a = 0; a < config->sweep_count; a++) {
        fprintf(out, "%s%s =", indent, config_key_name(config->sweep[a].setting));
        for (size_t i = 0; i < config->sweep[a].count; i++)
            fprintf(out, "%s %s", i ? "," : "", config->sweep[a].values[i]);
        fputc('\n', out);
    }
}
