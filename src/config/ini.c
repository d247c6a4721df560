#include "config/ini.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"

enum { FILE_LIMIT = 1 << 20 };

typedef struct {
    char path[408], line[108]; /* for messages: as they are, cut where they are long */
    int number;                /* of the line, from 1 */
    const char *section;       /* that the line is in */
    IniHandler *handler;
    void *user;
    Error *err;
} Reader;

static bool fail(const Reader *r, Status status, const char *reason) {
    return error_set(r->err, status, "%s:%d: \"%s\": %s", r->path, r->number, r->line, reason);
}

static bool hand_over(const Reader *r, const char *key, const char *written) {
    Error why;
    return r->handler(r->user, r->section, key, written, r->number, &why) || fail(r, why.status, why.message);
}

/* Where a comment begins, or the text ends. */
static char *comment_in(char *text) {
    char *at = text;
    while (*at && !((*at == ';' || *at == '#') && (at == text || isspace((unsigned char)at[-1])))) at++;
    return at;
}

static bool only_comment(char *rest) {
    rest = text_trim(rest);
    return comment_in(rest) == rest;
}

static bool take_section(Reader *r, char *line) {
    char *close = strchr(line, ']');
    if (!close) return fail(r, STATUS_USAGE, "a ] is missing after the section's name");
    if (!only_comment(close + 1)) return fail(r, STATUS_USAGE, "only a comment may follow [section] on its line");
    *close = 0;
    r->section = line + 1;
    return hand_over(r, NULL, NULL);
}

/* Ends a value behind the double quote that closes it. */
static bool cut_quoted(const Reader *r, char *value) {
    char *close = value + 1;
    while (*close && *close != '"') close += *close == '\\' && close[1] ? 2 : 1;
    if (!*close)
        return fail(r, STATUS_USAGE,
                    "the value opens with a double quote and none closes it; inside, a double quote is written \\\"");
    if (!only_comment(close + 1)) return fail(r, STATUS_USAGE, "only a comment may follow the closing double quote");
    close[1] = 0;
    return true;
}

static bool take_pair(const Reader *r, char *line) {
    char *comment = comment_in(line), *mark = strpbrk(line, "=:");
    bool has_key = mark && mark > line && mark < comment;
    if (!has_key) return fail(r, STATUS_USAGE, "this is neither a [section] nor key = value nor a comment (; or #)");
    *mark = 0;
    char *value = mark + 1;
    while (isspace((unsigned char)*value)) value++;
    if (*value != '"') *comment = 0;
    if (*value == '"' && !cut_quoted(r, value)) return false;
    return hand_over(r, text_trim(line), text_trim(value));
}

static bool take_line(Reader *r, char *line) {
    text_clip(line, 100, r->line, sizeof r->line);
    if (comment_in(line) == line) return true; /* nothing else, or nothing at all */
    return *line == '[' ? take_section(r, line) : take_pair(r, line);
}

/* A binary file, or text in UTF-16. */
static bool refuse_zero_bytes(const Reader *r, const char *data, size_t size) {
    const char *zero = memchr(data, 0, size);
    int number = 1;
    for (const char *c = data; zero && c < zero; c++) number += *c == '\n';
    return !zero || error_set(r->err, STATUS_USAGE, "%s:%d: a zero byte; a config is text in UTF-8", r->path, number);
}

/* After "cannot read": the file that was meant, where there is one. */
static void hint_at_file(const char *path, Error *err) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (strlen(path) > 400 || path_exists(path) || !*base) return;
    for (int form = 0; form < 3; form++) {
        char candidate[512];
        snprintf(candidate, sizeof candidate, "%s%s%s", form > 0 ? "configs/" : "", form > 0 ? base : path,
                 form != 1 ? ".ini" : "");
        if (!path_exists(candidate)) continue;
        const Error first = *err;
        error_set(err, first.status, "%.500s; did you mean %s?", first.message, candidate);
        return;
    }
}

bool ini_read(const char *path, IniHandler *handler, void *user, Error *err) {
    static const char BYTE_ORDER_MARK[] = "\xEF\xBB\xBF";
    char *data;
    size_t size;
    if (!file_read(path, "config", FILE_LIMIT, STATUS_USAGE, &data, &size, err)) {
        hint_at_file(path, err);
        return false;
    }
    Reader r = {.section = "", .handler = handler, .user = user, .err = err};
    text_clip(path, 400, r.path, sizeof r.path);
    bool ok = refuse_zero_bytes(&r, data, size);
    char *rest = strncmp(data, BYTE_ORDER_MARK, 3) == 0 ? data + 3 : data;
    for (char *line; ok && (line = strsep(&rest, "\n"));) {
        r.number++;
        ok = take_line(&r, text_trim(line));
    }
    free(data);
    return ok;
}
