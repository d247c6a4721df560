/* The table of keys as text: the resolved .ini of a run, and the reference of `help config`. Both walk the table. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

void config_write_but(const Config *config, bool (*differs)(const void *arg, size_t key), const void *arg, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char value[CONFIG_VALUE_MAX];
        char *path = i == key_at(KEY(data.corpus)) ? realpath(config->data.corpus, NULL) : NULL;
        const bool fits = path && strlen(path) < sizeof config->data.corpus;
        value_text(&KEYS[i], fits ? path : (const char *)config + KEYS[i].offset, value, sizeof value);
        free(path);
        if (strcmp(KEYS[i].section, section) != 0)
            fprintf(out, "%s[%s]\n", i > 0 ? "\n" : "", section = KEYS[i].section);
        if (differs && differs(arg, i)) continue;
        fprintf(out, "%s = ", KEYS[i].name);
        text_write(value, strlen(value), out);
        fputc('\n', out);
    }
}

void config_write(const Config *config, FILE *out) { config_write_but(config, NULL, NULL, out); }

static const char *default_text(const Key *key) { return key->shown ? key->shown : key->initial; }

void config_write_help(FILE *out) {
    const char *section = "";
    char accepted[96];
    for (const Key *key = KEYS; key < KEYS + KEY_COUNT; key++) {
        if (strcmp(key->section, section) != 0) fprintf(out, "%s[%s]\n", *section ? "\n" : "", key->section);
        section = key->section;
        value_accepted(key, accepted, sizeof accepted);
        const int width = 20 + (int)strlen(accepted) + 10 + (int)strlen(default_text(key));
        fprintf(out, "  %-16s  %s;%sdefault %s\n      %s\n", key->name, accepted,
                width <= 80 ? " " : "\n                    ", default_text(key), key->help);
    }
    fprintf(out, "\n[sweep]\n"
                 "  section.key       v1, v2, ...\n"
                 "      Values of a key for sweep, which runs every combination.\n"
                 "\n"
                 "Comments begin with ; or #, at the start of a line or after a blank. A value in\n"
                 "double quotes keeps its blanks, ; and #; in it \\n \\t \\r \\\" \\\\ are escapes.\n");
}
