/* The table of settings as text: the resolved .ini of a run, --help, and the Markdown reference in docs/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

void config_write(const Config *config, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char value[CONFIG_VALUE_MAX];
        config_value_text(config, i, value, sizeof value);
        if (strcmp(SETTINGS[i].section, section) != 0)
            fprintf(out, "%s[%s]\n", i > 0 ? "\n" : "", section = SETTINGS[i].section);
        fprintf(out, "%s = %s\n", SETTINGS[i].key, value);
    }
}

char *config_text(const Config *config) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) return NULL;
    config_write(config, stream);
    if (fclose(stream) == 0) return text;
    free(text);
    return NULL;
}

static void range_text(const Setting *setting, char *out, size_t capacity) {
    char low[32], high[32];
    text_number(setting->low, low, sizeof low);
    text_number(setting->high, high, sizeof high);
    if (setting->above_low || setting->below_high)
        snprintf(out, capacity, "%s %s x %s %s", low,
                 setting->above_low ? "<" : "<=", setting->below_high ? "<" : "<=", high);
    else
        snprintf(out, capacity, "%s..%s", low, high);
}

/* What may stand behind the "=", short: "1..1000", "pre | post". */
static void values_text(const Setting *setting, char *out, size_t capacity) {
    char names[64];
    switch (setting->kind) {
    case KIND_TEXT: snprintf(out, capacity, "text"); break;
    case KIND_INTEGER:
        snprintf(out, capacity, "%lld..%lld", (long long)setting->least, (long long)setting->most);
        break;
    case KIND_NUMBER: range_text(setting, out, capacity); break;
    case KIND_SWITCH: snprintf(out, capacity, "yes | no"); break;
    case KIND_SCALE:
        words_text(SCALE_NAMES, " | ", " | ", names, sizeof names);
        snprintf(out, capacity, "%s | number", names);
        break;
    case KIND_CHOICE: words_text(setting->choices, " | ", " | ", out, capacity); break;
    }
}

static const char *default_text(const Setting *setting) { return setting->shown ? setting->shown : setting->initial; }

void config_write_help(FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const Setting *setting = &SETTINGS[i];
        char values[96] = "";
        values_text(setting, values, sizeof values);
        if (strcmp(setting->section, section) != 0)
            fprintf(out, "%s[%s]\n", i > 0 ? "\n" : "", section = setting->section);
        fprintf(out, "  %-16s  %-28s  default %s\n", setting->key, values, default_text(setting));
        fprintf(out, "      %s\n", setting->help);
    }
    fprintf(out, "\n[sweep]\n"
                 "  section.key       v1, v2, ...\n"
                 "      Values of a key for ./train sweep, which runs every combination.\n"
                 "\n"
                 "Comments begin with ; or #, at the start of a line or after a blank. A value in\n"
                 "double quotes keeps its blanks, ; and #; in it \\n \\t \\r \\\" \\\\ are escapes.\n");
}

void config_write_markdown(FILE *out) {
    const char *section = "";
    fprintf(
        out,
        "# The keys of a config\n\n"
        "Printed by `./train --keys`. A config says only what it is about; everything else has the default below. "
        "On the command\nline: `--set section.key=value`. Comments begin with `;` or `#`, at the start of a line or after a "
        "blank; a value\nin double quotes keeps blanks, `;` and `#`, and has the escapes `\\n \\t \\r \\\" \\\\`.\n\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const Setting *setting = &SETTINGS[i];
        char values[96] = "";
        values_text(setting, values, sizeof values);
        if (strcmp(setting->section, section) != 0)
            fprintf(out, "%s## [%s]\n\n| key | values | default | meaning |\n|---|---|---|---|\n", i > 0 ? "\n" : "",
                    section = setting->section);
        fprintf(out, "| `%s` | `", setting->key);
        text_write_cell(values, out);
        fprintf(out, "` | `%s` | ", default_text(setting));
        text_write_cell(setting->help, out);
        fprintf(out, " |\n");
    }
    fprintf(out,
            "\n## [sweep]\n\n| key | values | default | meaning |\n|---|---|---|---|\n"
            "| `section.key` | `v1, v2, ...` | | Values of a key for `./train sweep`, which runs every combination; "
            "at most %d keys of at most %d values. |\n",
            SWEEP_AXES_MAX, SWEEP_VALUES_MAX);
}
