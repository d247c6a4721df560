/* The .ini file, through inih, the only file to include <ini.h>. inih (55, as Debian builds it) gives a reader no line
   numbers, cuts lines at 200 bytes, takes an indented line for a continuation and cuts values at " ;" but not at " #".
   So it reads through next_line, which counts lines, trims them, cuts comments of both kinds, and keeps a value in
   double quotes back: inih sees `key = "` and the handler puts the value itself in its place. Thus the length of a
   quoted value is bounded by what the setting takes, and a plain line too long for inih is refused, never cut. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "base/files.h"
#include "config/table.h"

enum { FILE_LIMIT = 1 << 20, SHOWN = 100 };

typedef struct {
    Config *config;
    Origins *origins;
    Error *err;
    const char *path;
    char *next, *end; /* what is not read yet */
    int number;       /* of the line, from 1 */
    char *line;       /* without the blanks around it; not ended by a zero byte */
    size_t length;
    char *quoted; /* a value in quotes, in the line, up to `quoted_end`; else NULL */
    char *quoted_end;
    bool pending; /* inih has a key and value of this line to hand over */
    bool failed;
} Reader;

static bool is_blank(char c) { return isspace((unsigned char)c); }

static bool fail(Reader *reader, Status status, const char *reason) {
    char path[512], shown[SHOWN + 8];
    text_clip(reader->path, strlen(reader->path), 400, path, sizeof path);
    text_clip(reader->line, reader->length, SHOWN, shown, sizeof shown);
    reader->failed = true;
    return error_set(reader->err, status, "%s:%d: \"%s\": %s", path, reader->number, shown, reason);
}

static bool fail_shape(Reader *reader) {
    return fail(reader, STATUS_USAGE, "this is neither a [section] nor key = value nor a comment (; or #)");
}

/* Steps to the next line; false at the end. */
static bool take_line(Reader *reader) {
    if (reader->next >= reader->end) return false;
    char *start = reader->next;
    char *stop = memchr(start, '\n', (size_t)(reader->end - start));
    if (!stop) stop = reader->end;
    reader->next = stop + 1;
    if (reader->number++ == 0 && stop - start >= 3 && memcmp(start, "\xEF\xBB\xBF", 3) == 0) start += 3;
    while (start < stop && is_blank(*start)) start++;
    while (stop > start && is_blank(stop[-1])) stop--;
    reader->line = start;
    reader->length = (size_t)(stop - start);
    reader->quoted = NULL;
    return true;
}

/* Where a comment begins: at ; or # in front or after a blank. Else the end. */
static size_t comment_start(const char *text, size_t length) {
    size_t i = 0;
    while (i < length && !((text[i] == ';' || text[i] == '#') && (i == 0 || is_blank(text[i - 1])))) i++;
    return i;
}

/* "[name]" and perhaps a comment: the bytes to hand on, up to the bracket; 0 on error. inih would ignore the rest of
   the line and a line without the bracket. */
static size_t section_line(Reader *reader) {
    char name[64];
    Error why;
    char *close = memchr(reader->line, ']', reader->length);
    if (!close) return fail(reader, STATUS_USAGE, "a ] is missing after the section's name");
    size_t used = (size_t)(close + 1 - reader->line), rest = used;
    while (rest < reader->length && is_blank(reader->line[rest])) rest++;
    if (rest < reader->length && comment_start(reader->line + rest, reader->length - rest) != 0)
        return fail(reader, STATUS_USAGE, "only a comment may follow [section] on its line");
    text_clip(reader->line + 1, used - 2, 40, name, sizeof name);
    if (!section_check(name, &why)) return fail(reader, why.status, why.message);
    return used;
}

/* A value that opens with a double quote, up to the one that closes it; 0 on error. */
static size_t quoted_line(Reader *reader, size_t quote) {
    size_t i = quote + 1;
    while (i < reader->length && reader->line[i] != '"') i += reader->line[i] == '\\' ? 2 : 1;
    if (i >= reader->length)
        return fail(reader, STATUS_USAGE,
                    "the value opens with a double quote and none closes it; inside, a double quote is written \\\"");
    reader->quoted = reader->line + quote;
    reader->quoted_end = reader->line + ++i;
    while (i < reader->length && is_blank(reader->line[i])) i++;
    if (i < reader->length && comment_start(reader->line + i, reader->length - i) != 0)
        return fail(reader, STATUS_USAGE, "only a comment may follow the closing double quote");
    return quote + 1;
}

/* The bytes of a key = value line to hand on, without its comment; 0 on error. */
static size_t pair_line(Reader *reader) {
    size_t length = comment_start(reader->line, reader->length), i = 0;
    while (i < length && reader->line[i] != '=' && reader->line[i] != ':') i++;
    if (i == length) return fail_shape(reader);
    for (i++; i < length && is_blank(reader->line[i]);) i++;
    reader->pending = true;
    return i < length && reader->line[i] == '"' ? quoted_line(reader, i) : length;
}

/* fgets for inih: one line, of which only what inih should see. NULL at the end and after an error. */
static char *next_line(char *out, int capacity, void *stream) {
    Reader *reader = stream;
    if (reader->pending && !reader->failed) fail_shape(reader); /* inih found no key and value in the line before */
    if (reader->failed || !take_line(reader)) return NULL;
    size_t length = 0;
    if (comment_start(reader->line, reader->length) > 0) {
        length = *reader->line == '[' ? section_line(reader) : pair_line(reader);
        if (length == 0) return NULL;
    }
    if (length + 2 > (size_t)capacity) {
        char reason[160];
        snprintf(reason, sizeof reason,
                 "the line has %zu bytes; at most %d are accepted, or put the value in double quotes", length,
                 capacity - 2);
        fail(reader, STATUS_USAGE, reason);
        return NULL;
    }
    memcpy(out, reader->line, length);
    memcpy(out + length, "\n", 2);
    return out;
}

static bool assign(Reader *reader, const char *section, const char *key, const char *written, Error *why) {
    bool in_sweep = strcmp(section, "sweep") == 0;
    size_t setting;
    if (!setting_find(section, key, &setting, why)) return false;
    int *line = &(in_sweep ? reader->origins->sweep_line : reader->origins->line)[setting];
    if (*line)
        return error_set(why, STATUS_USAGE, "%s is given twice, in line %d and in line %d", key, *line, reader->number);
    *line = reader->number;
    return in_sweep ? sweep_assign(reader->config, setting, written, why)
                    : setting_assign(reader->config, setting, written, why);
}

static bool without_section(const char *key, Error *why) {
    char names[128];
    if (!setting_names(key, " or ", names, sizeof names))
        return error_set(why, STATUS_USAGE, "a [section] must come first");
    return error_set(why, STATUS_USAGE, "a [section] must come first; the key is %s", names);
}

/* Called by inih for each key and value; 0 tells it of an error. */
static int handle(void *user, const char *section, const char *key, const char *written) {
    Reader *reader = user;
    Error why;
    if (!key || reader->failed) return 1;
    reader->pending = false;
    if (!*key || !written) return fail_shape(reader);
    if (!*section) {
        without_section(key, &why);
        return fail(reader, why.status, why.message);
    }
    bool ok;
    if (reader->quoted) {
        char after = *reader->quoted_end; /* at most the zero byte behind the file */
        *reader->quoted_end = 0;
        ok = assign(reader, section, key, reader->quoted, &why);
        *reader->quoted_end = after;
    } else
        ok = assign(reader, section, key, written, &why);
    return ok || fail(reader, why.status, why.message);
}

/* A binary file, or text in UTF-16: inih would see the end of a line there. */
static bool refuse_zero_bytes(Reader *reader, const char *data, size_t size) {
    const char *zero = memchr(data, 0, size);
    if (!zero) return true;
    char path[512];
    int number = 1;
    for (const char *c = data; c < zero; c++) number += *c == '\n';
    text_clip(reader->path, strlen(reader->path), 400, path, sizeof path);
    return error_set(reader->err, STATUS_USAGE, "%s:%d: a zero byte; a config is text in UTF-8", path, number);
}

/* After "cannot read": the file that was meant, where there is one. */
static void hint_at_file(const char *path, Error *err) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    if (strlen(path) > 400 || path_exists(path) || !*base) return;
    for (int form = 0; form < 3; form++) {
        char candidate[512];
        snprintf(candidate, sizeof candidate, "%s%s%s", form > 0 ? "configs/" : "", form > 0 ? base : path,
                 form != 1 ? ".ini" : "");
        if (!path_exists(candidate)) continue;
        Error first = *err;
        error_set(err, first.status, "%.500s; did you mean %s?", first.message, candidate);
        return;
    }
}

bool config_file_read(Config *config, const char *path, Origins *origins, Error *err) {
    char *data;
    size_t size;
    if (!file_read(path, "config", FILE_LIMIT, STATUS_USAGE, &data, &size, err)) {
        hint_at_file(path, err);
        return false;
    }
    Reader reader = {
        .config = config, .origins = origins, .err = err, .path = path, .next = data, .end = data + size, .line = data};
    bool ok = refuse_zero_bytes(&reader, data, size);
    if (ok) {
        int result = ini_parse_stream(next_line, &reader, handle, &reader);
        if (reader.pending && !reader.failed) fail_shape(&reader);
        ok = !reader.failed;
        if (ok && result != 0)
            ok = error_set(err, STATUS_FAILED, "%.400s: inih reports an error in line %d", path, result);
    }
    free(data);
    return ok;
}
