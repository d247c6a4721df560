/* The page: page.html with its {{...}} replaced by the style sheet, the program and the data. */
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "lab/report/report.h"
#include "lab/sweep/sweep.h"
#include "show/progress.h"

extern const char report_html[], report_css[], report_js[]; /* page.S */

/* A script element ends at the first "</script", and a page must not hold the character DEL; both can only stand inside
   the strings of JSON, where any character may be escaped. */
static void write_data(const char *json, FILE *out) {
    for (; *json; json++) {
        if (*json == '<' || *json == 0x7f) fprintf(out, "\\u%04x", (unsigned)*json);
        else fputc(*json, out);
    }
}

/* Writes a text of the data into the page itself, for a browser without scripts. If the data has no such text, writes
   `other`. */
static void write_text(const Json *data, const char *key, const char *other, FILE *out) {
    const char *text = js_as_text(js_get(data, key));
    char plain[2048];
    snprintf(plain, sizeof plain, "%s", text ? text : other);
    text_make_plain(plain);
    for (const char *c = plain; *c; c++) {
        if (strchr("<>&\"", *c)) fprintf(out, "&#%d;", *c);
        else fputc(*c, out);
    }
}

static void write_page(const Json *data, const char *json, FILE *out) {
    const char *text = report_html;
    for (const char *mark; (mark = strstr(text, "{{")) != NULL; text = strstr(mark, "}}") + 2) {
        fwrite(text, 1, (size_t)(mark - text), out);
        const char *name = mark + 2;
        if (strncmp(name, "data", 4) == 0) write_data(json, out);
        else if (strncmp(name, "heading", 7) == 0) write_text(data, "heading", "sqrtdk", out);
        else if (strncmp(name, "why", 3) == 0) write_text(data, "why", "", out);
        else fputs(strncmp(name, "page.css", 8) == 0 ? report_css : report_js, out);
    }
    fputs(text, out);
}

static void save(const Json *data, const Directory *directory, const char *name) {
    const char *json = js_dump(data, JS_ASCII);
    FileWriter *file = file_writer_open(directory, name);
    write_page(data, json, file->stream);
    file_writer_commit(file);
}

void report_write(const Directory *directory) { report_write_noting(directory, NULL); }

void report_write_noting(const Directory *into, FILE *notes) {
    const size_t mark = memory_mark();
    const char *directory = into->path;
    const Sweep *sweep = sweep_is(directory) ? sweep_view(directory) : NULL;
    const Json *data = sweep ? report_sweep_data(sweep) : report_run_data(&directory, 1);
    save(data, into, "report.html");
    if (sweep) report_pictures(sweep, data, into);
    const Json *list = js_get(data, "notes");
    for (size_t i = 0; notes && i < js_array_size(list); i++) print_plain(notes, "%s", js_as_text(js_at(list, i)));
    memory_release(mark);
}

void report_compare(const char *const *directories, size_t count, const char *path) {
    save(report_run_data(directories, count), &no_directory, path);
}
