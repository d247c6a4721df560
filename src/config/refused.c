/* Pairs of values that do not go together; docs/config.md lists them. Every other pair is accepted, so a pair whose
   result would mislead belongs here. The table of keys marks those that the plain engine lacks (fast_only). */
#include <string.h>

#include "config/table.h"

/* A `value` of NULL means any value but the key's default. */
static const struct {
    struct {
        size_t key; /* offset */
        const char *value;
    } first, second;
    const char *reason; /* the end of a sentence, after "because" */
} PAIRS[] = {
    {{KEY(attention.qk_norm), NULL},
     {KEY(train.qk_clip), NULL},
     "normalized queries and keys do not shrink with W_Q and W_K"},
    {{KEY(attention.score), NULL}, {KEY(train.qk_clip), NULL}, "only dot products are proportional to W_Q and W_K"},
    {{KEY(attention.softcap), NULL},
     {KEY(train.qk_clip), NULL},
     "a capped score does not show how large it was, and cannot grow beyond its cap"},
    {{KEY(attention.scale_learned), NULL},
     {KEY(attention.switch_step), NULL},
     "a learned multiplier starts at 1/scale_divisor and then belongs to the optimizer"},
    {{KEY(data.task), "recall"}, {KEY(data.corpus), NULL}, "the text of recall is generated"},
};

static bool has_value(const Config *config, size_t offset, const char *value) {
    char now[CONFIG_VALUE_MAX];
    config_value_text(config, key_at(offset), now, sizeof now);
    return value ? strcmp(now, value) == 0 : !config_is_default(config, key_at(offset));
}

static _Noreturn void refuse_pair(const Config *config, size_t first, size_t second, const char *reason) {
    char a[96], b[96];
    config_error("%s does not go with %s, because %s; leave one of them out", key_text(config, first, a),
                 key_text(config, second, b), reason);
}

void refused_pairs_check(const Config *config) {
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        if (has_value(config, PAIRS[i].first.key, PAIRS[i].first.value) &&
            has_value(config, PAIRS[i].second.key, PAIRS[i].second.value))
            refuse_pair(config, PAIRS[i].first.key, PAIRS[i].second.key, PAIRS[i].reason);
    for (size_t key = 0; config->train.engine == ENGINE_PLAIN && key < KEY_COUNT; key++)
        if (KEYS[key].fast_only && !config_is_default(config, key))
            refuse_pair(config, KEY(train.engine), KEYS[key].offset,
                        "src/plain/plain.c leaves that to the fast engine");
}
