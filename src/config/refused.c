/* Pairs of values that do not go together. A config with such a pair is refused, and docs/config.md lists them. Every
   other pair is accepted, so a pair whose result would be misleading belongs here. */
#include <string.h>

#include "config/table.h"

static const char NOT_PLAIN[] = "src/plain/plain.c leaves that to the fast engine";

/* A `value` of NULL stands for any value but the key's default. */
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
    {{KEY(attention.score), "additive"},
     {KEY(train.qk_clip), NULL},
     "additive scores are not proportional to W_Q and W_K"},
    {{KEY(attention.softcap), NULL},
     {KEY(train.qk_clip), NULL},
     "a capped score does not show how large it was, and cannot grow beyond its cap"},
    {{KEY(attention.scale_learned), NULL},
     {KEY(attention.switch_step), NULL},
     "a learned multiplier starts at 1/scale_divisor and then belongs to the optimizer"},
    {{KEY(data.task), "recall"}, {KEY(data.corpus), NULL}, "the text of recall is generated"},
    {{KEY(train.engine), "plain"}, {KEY(model.dropout), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.score), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.qk_norm), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.scale_learned), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.scale_length), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.softcap), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.sink), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.score_precision), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(attention.score_gradient), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(train.qk_clip), NULL}, NOT_PLAIN},
    {{KEY(train.engine), "plain"}, {KEY(train.precision), NULL}, NOT_PLAIN},
};

static bool has_value(const Config *config, size_t offset, const char *value) {
    char now[CONFIG_VALUE_MAX];
    config_value_text(config, key_at(offset), now, sizeof now);
    return value ? strcmp(now, value) == 0 : !config_is_default(config, key_at(offset));
}

void refused_pairs_check(const Config *config) {
    char a[96], b[96];
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        if (has_value(config, PAIRS[i].first.key, PAIRS[i].first.value) &&
            has_value(config, PAIRS[i].second.key, PAIRS[i].second.value))
            usage_error("%s does not go with %s, because %s; leave one of them out",
                        key_text(config, PAIRS[i].first.key, a), key_text(config, PAIRS[i].second.key, b),
                        PAIRS[i].reason);
}
