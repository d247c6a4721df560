/* Takes the place of base/json.c in WebAssembly, where jansson is not: values that are made and returned as text. What
   reads JSON has no use there. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct json_t {
    char open;                   /* '{' of an object, '[' of an array; 0: a value */
    const char *key;             /* in the object that it belongs to; else NULL */
    const char *text;            /* of a value, as it is written */
    struct json_t *first, *last; /* the values of an object or array */
    struct json_t *next;         /* in it */
};

static Json *make(char open, const char *text) {
    Json *value = memory_make(1, sizeof *value, "JSON");
    value->open = open;
    if (text) value->text = memory_copy_text(text, strlen(text));
    return value;
}
static Json *print(const char *format, double number) {
    char text[40];
    snprintf(text, sizeof text, format, number);
    return make(0, text);
}
Json *js_object(void) { return make('{', NULL); }
Json *js_array(void) { return make('[', NULL); }
Json *js_integer(int64_t value) { return print("%.0f", (double)value); }
Json *js_size(size_t value) { return print("%.0f", (double)value); }
Json *js_number(double value) {
    const bool whole = value == floor(value) && fabs(value) < 1e15; /* a number stays one of type double */
    return isfinite(value) ? print(whole ? "%.1f" : "%.17g", value) : make(0, "null");
}
Json *js_text(const char *text) {
    char *quoted = memory_make(6 * strlen(text) + 3, 1, "JSON"), *end = quoted;
    *end++ = '"';
    for (const char *c = text; *c; c++) {
        const bool marked = *c == '"' || *c == '\\', hidden = (unsigned char)*c < 0x20;
        if (hidden) end += snprintf(end, 7, "\\u%04x", (unsigned)*c);
        if (marked) *end++ = '\\';
        if (!hidden) *end++ = *c;
    }
    *end = '"';
    Json *value = make(0, NULL);
    value->text = quoted;
    return value;
}

void js_append(Json *array, Json *value) {
    if (array->last) array->last->next = value;
    else array->first = value;
    array->last = value;
}
/* Returns an object's entry under a quoted key; NULL: there is none. */
static Json *find(const Json *object, const char *quoted) {
    Json *value = object->first;
    while (value && strcmp(value->key, quoted) != 0) value = value->next;
    return value;
}
Json *js_set(Json *object, const char *key, Json *value) {
    value->key = js_text(key)->text;
    Json *there = find(object, value->key);
    if (!there) {
        js_append(object, value);
        return value;
    }
    value->next = there->next;
    *there = *value;
    return there;
}
Json *js_list(Json *object, const char *key) {
    Json *there = find(object, js_text(key)->text);
    return there ? there : js_set(object, key, js_array());
}

/* Writes a value. In many lines, a list inside begins `depth` steps to the right. */
static void write(const Json *value, bool lines, int depth, FILE *out) {
    if (value->key) fprintf(out, "%s:%s", value->key, lines ? " " : "");
    if (!value->open) {
        fputs(value->text, out);
        return;
    }
    fputc(value->open, out);
    for (const Json *inner = value->first; inner; inner = inner->next) {
        if (inner != value->first) fputc(',', out);
        if (lines) fprintf(out, "\n%*s", 2 * (depth + 1), "");
        write(inner, lines, depth + 1, out);
    }
    if (lines && value->first) fprintf(out, "\n%*s", 2 * depth, "");
    fputc(value->open == '{' ? '}' : ']', out);
}
char *js_dump(const Json *value, JsonLayout layout) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) runtime_error("no memory for JSON");
    write(value, layout == JS_INDENTED, 0, out);
    fclose(out);
    char *copy = memory_copy_text(text, size);
    free(text);
    return copy;
}
