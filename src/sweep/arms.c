#include "sweep/arms.h"

#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "base/text.h"

const char SUMMARY_COLUMNS[] =
    ",result,same_as,steps,train_loss,val_loss,best_val_loss,best_step,entropy_first,entropy_last,"
    "score_std_first,score_std_last,saturated_first,saturated_last,grad_q_first,grad_q_last,"
    "grad_scores_first,grad_scores_last,qk_norm_first,qk_norm_last,grad_norm_median,threads,error,seconds,";

static const char *short_name(const Config *config, size_t axis) {
    const char *name = config_key_name(config->sweep[axis].key), *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

const char *arms_key(const Config *config, size_t axis) {
    const char *name = short_name(config, axis);
    char column[128];
    snprintf(column, sizeof column, ",%s,", name);
    bool taken = strstr(SUMMARY_COLUMNS, column) != NULL;
    for (size_t other = 0; other < config->sweep_count; other++)
        taken = taken || (other != axis && strcmp(short_name(config, other), name) == 0);
    return taken ? config_key_name(config->sweep[axis].key) : name;
}

bool arms_axis_is(const Config *config, size_t axis, const char *name) {
    return strcmp(config_key_name(config->sweep[axis].key), name) == 0;
}

/* "scale_divisor=none+seed=1", from values in the form in which the program writes them. */
static bool name_arm(const Config *config, Arm *arm, Error *err) {
    size_t used = 0;
    for (size_t a = 0; a < config->sweep_count && used < sizeof arm->name; a++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(&arm->config, config->sweep[a].key, value, sizeof value);
        used += (size_t)snprintf(arm->name + used, sizeof arm->name - used, "%s%s=%s", a ? "+" : "",
                                 arms_key(config, a), value);
    }
    return used < sizeof arm->name ||
           error_set(err, STATUS_USAGE, "[sweep] has too many keys for the name of a directory");
}

/* The divisor with its value, or for any d_k where that differs among the arms. */
static void title_divisor(const Arms *arms, const Arm *arm, char title[64]) {
    size_t d_k = (size_t)arm->config.model.d_k;
    for (size_t i = 0; i < arms->count; i++)
        if (arms->arms[i].config.model.d_k != arm->config.model.d_k) d_k = 0;
    scale_title(arm->config.attention.scale_divisor, d_k, title, 64);
}

/* The swept keys but the seed and `without`. */
static void write_label(const Config *config, const Arm *arm, size_t without, const char *divisor,
                        char label[GROUP_LABEL]) {
    *label = 0;
    for (size_t a = 0; a < config->sweep_count; a++) {
        char value[CONFIG_VALUE_MAX];
        if (a == without || arms_axis_is(config, a, "train.seed")) continue;
        config_value_text(&arm->config, config->sweep[a].key, value, sizeof value);
        bool scale = arms_axis_is(config, a, SCALE_KEY);
        text_append(label, GROUP_LABEL, "%s%s %s", *label ? ", " : "", scale ? "÷" : arms_key(config, a),
                    scale ? divisor : value);
    }
    if (!*label && !(without < config->sweep_count && arms_axis_is(config, without, SCALE_KEY)))
        snprintf(label, GROUP_LABEL, "÷ %s", divisor);
}

void arms_label(const Arms *arms, size_t group, size_t without, char label[GROUP_LABEL]) {
    const Arm *arm = &arms->arms[arms->groups[group].arm[0]];
    char divisor[64];
    title_divisor(arms, arm, divisor);
    write_label(arms->config, arm, without, divisor, label);
}

void arms_divisor_label(const Arms *arms, size_t group, char label[GROUP_LABEL]) {
    char divisor[64];
    title_divisor(arms, &arms->arms[arms->groups[group].arm[0]], divisor);
    snprintf(label, GROUP_LABEL, "÷ %s", divisor);
}

/* Arms count through the combinations; a group is what is left of the number without the seed's digit. */
static size_t group_number(const Config *config, size_t i, size_t *seed) {
    size_t number = 0, weight = 1;
    *seed = 0;
    for (size_t a = config->sweep_count; a-- > 0; i /= config->sweep[a].count) {
        size_t digit = i % config->sweep[a].count;
        if (arms_axis_is(config, a, "train.seed")) {
            *seed = digit;
        } else {
            number += digit * weight;
            weight *= config->sweep[a].count;
        }
    }
    return number;
}

size_t arms_digit(const Config *config, size_t group, size_t axis) {
    for (size_t a = config->sweep_count; a-- > 0;) {
        if (arms_axis_is(config, a, "train.seed")) continue;
        if (a == axis) return group % config->sweep[a].count;
        group /= config->sweep[a].count;
    }
    return 0;
}

bool arms_agree_but(const Config *config, size_t axis, size_t a, size_t b) {
    for (size_t i = 0; i < config->sweep_count; i++)
        if (i != axis && arms_digit(config, a, i) != arms_digit(config, b, i)) return false;
    return true;
}

static bool make_arm(Arms *arms, size_t i, Error *err) {
    Arm *arm = &arms->arms[i];
    const char *values[SWEEP_AXES_MAX];
    if (!combinations_config(arms->config, i, &arm->config, values, err) || !name_arm(arms->config, arm, err))
        return false;
    arm->group = group_number(arms->config, i, &arm->seed);
    Group *group = &arms->groups[arm->group];
    if (group->count++ == 0) {
        char divisor[64];
        scale_title(arm->config.attention.scale_divisor, (size_t)arm->config.model.d_k, divisor, sizeof divisor);
        write_label(arms->config, arm, SWEEP_AXES_MAX, divisor, group->label);
    }
    group->arm[arm->seed] = i;
    if (arms->group_count <= arm->group) arms->group_count = arm->group + 1;
    return true;
}

static real multiplier(const Config *config, ScaleDivisor divisor) {
    return (real)scale_multiplier(divisor, (size_t)config->model.d_k);
}

/* Everything an arm trains with but its divisor, as text that the caller frees; NULL without memory. */
static char *text_without_divisor(const Arm *arm) {
    Config *copy = malloc(sizeof *copy);
    if (!copy) return NULL;
    *copy = arm->config;
    copy->attention.scale_divisor = (ScaleDivisor){SCALE_NUMBER, 1};
    char *text = config_text(copy);
    free(copy);
    return text;
}

static void find_coincidences(Arms *arms, char *const *texts) {
    for (size_t i = 0; i < arms->count; i++) {
        Arm *arm = &arms->arms[i];
        real own = multiplier(&arm->config, arm->config.attention.scale_divisor);
        for (arm->same_as = 0; arm->same_as < i; arm->same_as++) {
            const Config *other = &arms->arms[arm->same_as].config;
            if (own == multiplier(other, other->attention.scale_divisor) && strcmp(texts[i], texts[arm->same_as]) == 0)
                break;
        }
    }
}

/* What the first arms of two groups share, the others share as well: seeds are in the same order in all groups. */
static void relate_groups(Arms *arms, char *const *texts) {
    for (size_t g = 0; g < arms->group_count; g++) {
        Group *group = &arms->groups[g];
        const Arm *arm = &arms->arms[group->arm[0]];
        real wanted = multiplier(&arm->config, (ScaleDivisor){SCALE_SQRT_DK, 0});
        group->same_as = arms->arms[arm->same_as].group;
        group->reference = NO_GROUP;
        for (size_t other = 0; other < arms->group_count && group->reference == NO_GROUP; other++) {
            size_t first = arms->groups[other].arm[0];
            const Config *c = &arms->arms[first].config;
            if (multiplier(c, c->attention.scale_divisor) == wanted && strcmp(texts[group->arm[0]], texts[first]) == 0)
                group->reference = other;
        }
        char *legend = arms->groups[group->same_as].legend;
        text_append(legend, GROUP_LABEL, "%s%s", *legend ? " and " : "", group->label);
    }
}

bool arms_make(Arms *arms, const Config *config, Error *err) {
    *arms = (Arms){.config = config};
    if (config->sweep_count == 0)
        return error_set(
            err, STATUS_USAGE,
            "the config has no [sweep] section: add one such as \"[sweep]\" with \"attention.scale_divisor = sqrt_dk, none\"");
    if (!combinations_count(config, ARMS_MAX, &arms->count, err)) return false;
    arms->arms = calloc(arms->count, sizeof *arms->arms);
    arms->groups = calloc(arms->count, sizeof *arms->groups);
    char **texts = calloc(arms->count, sizeof *texts);
    bool ok = arms->arms && arms->groups && texts;
    if (!ok) error_set(err, STATUS_FAILED, "no memory for %zu runs", arms->count);
    for (size_t i = 0; ok && i < arms->count; i++) {
        ok = make_arm(arms, i, err);
        if (!ok) break;
        texts[i] = text_without_divisor(&arms->arms[i]);
        ok = texts[i] || error_set(err, STATUS_FAILED, "no memory for %zu runs", arms->count);
    }
    if (ok) {
        find_coincidences(arms, texts);
        relate_groups(arms, texts);
    }
    for (size_t i = 0; texts && i < arms->count; i++) free(texts[i]);
    free(texts);
    return ok;
}

void arms_free(Arms *arms) {
    free(arms->arms);
    free(arms->groups);
    *arms = (Arms){0};
}

size_t arms_runs(const Arms *arms) {
    size_t runs = 0;
    for (size_t i = 0; i < arms->count; i++) runs += arms->arms[i].same_as == i;
    return runs;
}
