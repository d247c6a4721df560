/* The files of a run, as they become part of the page's data: its logs, thinned out, and its samples. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "lab/report/report.h"

/* Returns whether a line has something in this field; -1: no field. */
static bool has_field(const char *line, int field) {
    for (int i = 0; i < field && line; i++) line = strchr(line, ',') ? strchr(line, ',') + 1 : NULL;
    return field >= 0 && line && *line != ',' && *line != '\n';
}

/* Thins out a log in place. It keeps the header, about `limit` groups of `group` lines at even distances, the last
   group, and about `limit` lines with a validation loss. A last line without its end is left out. */
static void thin(char *text, size_t group, size_t limit, bool metrics) {
    const int validation = metrics ? log_field(LOG_METRICS, METRICS_VAL_LOSS, text) : -1;
    char *out = text, *line = text;
    size_t lines = 0, validated = 0, seen = 0;
    for (const char *c = text; *c; c++) {
        validated += (c == text || c[-1] == '\n') && has_field(c, validation);
        lines += *c == '\n';
    }
    const size_t last = lines > 1 ? (lines - 2) / group : 0, every = 1 + lines / group / (limit + 1),
                 every_validated = 1 + validated / (limit + 1);
    for (size_t i = 0; strchr(line, '\n'); i++) {
        const size_t length = strcspn(line, "\n") + 1, at = i ? (i - 1) / group : 0;
        const bool kept = has_field(line, validation) && seen++ % every_validated == 0;
        if (at % every == 0 || at == last || kept) {
            memmove(out, line, length);
            out += length;
        }
        line += length;
    }
    *out = 0;
}

void report_add_file(Json *run, const char *directory, const char *name, const char *key, size_t group, size_t limit) {
    char path[PATH_CAPACITY];
    size_t size;
    path_join(path, directory, name);
    if (!path_exists(path)) return;
    char *text = file_read(path, "the file", SIZE_MAX / 2, &size);
    thin(text, group, limit, strcmp(key, "metrics") == 0);
    js_set(run, key, js_text(text));
    memory_free(text);
}

/* Reads the line that begins a sample. Returns its length, or 0 if it is another line. */
static size_t sample_header(const char *text, size_t *step) {
    char line[80], digits[20];
    int end = 0;
    const size_t length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : 0), text);
    if (sscanf(line, "==== step %19[0-9], validation loss %*s ====%n", digits, &end) != 1) return 0;
    *step = strtoull(digits, NULL, 10);
    return end && line[end] == 0 && text[length] ? length + 1 : 0;
}

Json *report_samples(const SweepRun *run, size_t limit) {
    char path[PATH_CAPACITY];
    size_t size, step, header;
    path_join(path, run->directory, "samples.txt");
    if (!path_exists(path)) return NULL;
    char *text = file_read(path, "the file", SIZE_MAX / 2, &size), *at = text;
    Json *list = js_array();
    while ((header = sample_header(at, &step)) != 0) {
        char *end = at + header;
        for (size_t i = 0; i < run->config.log.sample_tokens && *end; i++) {
            uint32_t character;
            const size_t length = utf8_decode(end, strnlen(end, 4), &character);
            end += length ? length : 1;
        }
        if ((size_t)(text + size - at) <= limit) {
            const char next = *end;
            *end = 0;
            Json *sample = js_object();
            js_set(sample, "step", js_size(step));
            js_set(sample, "text", js_text(at + header));
            js_append(list, sample);
            *end = next;
        }
        at = end + strspn(end, "\n");
    }
    memory_free(text);
    return list;
}
