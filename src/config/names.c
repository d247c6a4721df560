/* Names of sections and keys: finding them, and what to say about one that is not there. */
#include <string.h>

#include "config/table.h"

bool section_check(const char *section, Error *why) {
    char shown[64], list[128] = "", hint[64] = "";
    size_t best = SIZE_MAX, used = 0;
    for (const char *const *name = SECTIONS; *name; name++) {
        if (strcmp(section, *name) == 0) return true;
        if (is_nearer(section, *name, &best)) snprintf(hint, sizeof hint, "; did you mean [%s]?", *name);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *name);
    }
    text_clip(section, strlen(section), 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "there is no section [%s]%s The sections: %s", shown, *hint ? hint : ".", list);
}

bool setting_names(const char *key, const char *between, char *out, size_t capacity) {
    size_t used = 0;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strcmp(SETTINGS[i].key, key) == 0 && used < capacity)
            used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? between : "", SETTINGS[i].name);
    return used > 0;
}

/* A key as written, without regard to its section: the nearest key of all, by its full name. */
static bool unknown_key(const char *key, Error *why) {
    char shown[64], hint[96] = "";
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (is_nearer(key, SETTINGS[i].key, &best) || is_nearer(key, SETTINGS[i].name, &best))
            snprintf(hint, sizeof hint, "; did you mean %s?", SETTINGS[i].name);
    text_clip(key, strlen(key), 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "there is no key %s%s", shown, hint);
}

static bool unknown_in_section(const char *section, const char *key, Error *why) {
    char shown[64], hint[160] = "", list[512] = "", others[96];
    size_t best = SIZE_MAX, used = 0;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const Setting *setting = &SETTINGS[i];
        if (strcmp(setting->section, section) != 0) continue;
        if (is_nearer(key, setting->key, &best)) snprintf(hint, sizeof hint, "; did you mean %s?", setting->key);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", setting->key);
    }
    if (setting_names(key, " and ", others, sizeof others))
        snprintf(hint, sizeof hint, "; there is %s.", others);
    else if (best == SIZE_MAX)
        for (size_t i = 0; i < SETTING_COUNT; i++)
            if (is_nearer(key, SETTINGS[i].key, &best) || is_nearer(key, SETTINGS[i].name, &best))
                snprintf(hint, sizeof hint, "; did you mean %s?", SETTINGS[i].name);
    text_clip(key, strlen(key), 40, shown, sizeof shown);
    return error_set(why, STATUS_USAGE, "[%s] has no key %s%s It accepts: %s", section, shown, *hint ? hint : ".",
                     list);
}

static bool find_in(const char *section, const char *key, size_t *setting, Error *why) {
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(SETTINGS[i].section, section) != 0 || strcmp(SETTINGS[i].key, key) != 0) continue;
        *setting = i;
        return true;
    }
    return unknown_in_section(section, key, why);
}

/* In [sweep] a key has its section in front, or is the only one of its name. */
static bool find_swept(const char *key, size_t *setting, Error *why) {
    char names[128], section[64];
    const char *dot = strchr(key, '.');
    if (dot) {
        text_clip(key, (size_t)(dot - key), 40, section, sizeof section);
        if (strcmp(section, "sweep") == 0) return unknown_key(key, why);
        return section_check(section, why) && find_in(section, dot + 1, setting, why);
    }
    if (!setting_names(key, " or ", names, sizeof names)) return unknown_key(key, why);
    if (strstr(names, " or "))
        return error_set(why, STATUS_USAGE, "%s is a key of several sections: write %s", key, names);
    for (*setting = 0; strcmp(SETTINGS[*setting].key, key) != 0;) ++*setting;
    return true;
}

bool setting_find(const char *section, const char *key, size_t *setting, Error *why) {
    return strcmp(section, "sweep") == 0 ? find_swept(key, setting, why) : find_in(section, key, setting, why);
}
