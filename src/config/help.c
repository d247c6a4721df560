/* The table of keys as text: the resolved .ini of a run, --help, and the Markdown reference in docs/. All three walk
   the table, so none of them can lack a key. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/table.h"

void config_write_but(const Config *config, bool (*left_out)(const void *arg, size_t key), const void *arg, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char value[CONFIG_VALUE_MAX];
        char *path = i == key_at(KEY(data.corpus)) ? realpath(config->data.corpus, NULL) : NULL;
        const bool fits = path && strlen(path) < sizeof config->data.corpus;
        value_text(&KEYS[i], fits ? path : (const char *)config + KEYS[i].offset, value, sizeof value);
        free(path);
        if (strcmp(KEYS[i].section, section) != 0)
            fprintf(out, "%s[%s]\n", i > 0 ? "\n" : "", section = KEYS[i].section);
        if (left_out && left_out(arg, i)) fprintf(out, "; %s differs between runs\n", KEYS[i].name);
        else {
            fprintf(out, "%s = ", KEYS[i].name);
            text_write(value, strlen(value), out);
            fputc('\n', out);
        }
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

/* "`score = additive`", or for any value but the default "`softcap`". */
static void write_key_and_value(size_t offset, const char *value, FILE *out) {
    fprintf(out, "| `%s%s%s` ", KEYS[key_at(offset)].full, value ? " = " : "", value ? value : "");
}

static void write_refused_pairs(FILE *out) {
    fprintf(
        out,
        "\n## What does not go together\n\nA key without a value is set to anything but its default. Other "
        "pairs go together, if each key has what it needs: the error says what.\n\n| | with | why not |\n|---|---|---|\n");
    for (const RefusedPair *pair = REFUSED_PAIRS; pair->reason; pair++) {
        write_key_and_value(pair->first.key, pair->first.value, out);
        write_key_and_value(pair->second.key, pair->second.value, out);
        fprintf(out, "| %s |\n", pair->reason);
    }
}

void config_write_markdown(FILE *out) {
    static const char COLUMNS[] = "| key | values | default | meaning |\n|---|---|---|---|\n";
    const char *section = "";
    char accepted[96];
    fprintf(out, "# The keys of a config\n\n"
                 "Printed by `./train --keys`. A config says only what it is about; everything else has the default "
                 "below. On the command\nline: `--set section.key=value`, or `--set key=value` where only one section "
                 "has the key. Comments begin with `;` or\n`#`, at the start of a line or after a blank; a value in "
                 "double quotes keeps blanks, `;` and `#`, and has the escapes\n`\\n \\t \\r \\\" \\\\`.\n");
    for (const Key *key = KEYS; key < KEYS + KEY_COUNT; key++) {
        if (strcmp(key->section, section) != 0) fprintf(out, "\n## [%s]\n\n%s", key->section, COLUMNS);
        section = key->section;
        value_accepted(key, accepted, sizeof accepted);
        fprintf(out, "| `%s` | %s | `%s` | %s |\n", key->name, accepted, default_text(key), key->help);
    }
    write_refused_pairs(out);
    fprintf(out,
            "\n## [sweep]\n\n%s| `section.key` | `v1, v2, ...` | | Values of a key for `./train sweep`, which runs "
            "every combination; at most %d keys of at most %d values. |\n",
            COLUMNS, SWEEP_AXES_MAX, SWEEP_VALUES_MAX);
}
