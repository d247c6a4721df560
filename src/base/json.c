/* JSON values, over jansson: the only file that includes it, so that the library can be replaced here alone. */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"

/* Jansson's lexer does not check that its buffer has grown: without memory it omits a character, and then reads beyond
   the text or ends the program. So jansson never gets NULL: the error of memory_make jumps out of its functions, and
   frees the memory that they have allocated. */
static void *allocate(size_t size) { return memory_make(1, size, "JSON"); }
__attribute__((constructor)) static void begin(void) { json_set_alloc_funcs(allocate, memory_free); }

Json *js_object(void) { return json_object(); }
Json *js_array(void) { return json_array(); }
Json *js_text(const char *text) {
    Json *value = json_string(text);
    if (value) return value;
    char *ascii = memory_copy_text(text, strlen(text));
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    value = json_string(ascii);
    memory_free(ascii);
    return value;
}
Json *js_integer(int64_t value) { return json_integer(value); }
Json *js_size(size_t value) { return json_integer((json_int_t)value); }
Json *js_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

Json *js_set(Json *object, const char *key, Json *value) {
    json_object_set_new(object, key, value);
    return value;
}
void js_remove(Json *object, const char *key) { (void)json_object_del(object, key); }
void js_append(Json *array, Json *value) { json_array_append_new(array, value); }
Json *js_list(Json *object, const char *key) {
    if (!json_is_array(json_object_get(object, key))) js_set(object, key, js_array());
    return json_object_get(object, key);
}

char *js_dump(const Json *value, JsonLayout layout) {
    static const size_t flags[] = {JSON_COMPACT, JSON_INDENT(2) | JSON_REAL_PRECISION(15),
                                   JSON_COMPACT | JSON_ENSURE_ASCII};
    return json_dumps(value, flags[layout]);
}

Json *js_parse(const char *text, size_t size, const char *what) {
    json_error_t error = {.line = 0};
    Json *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!value) usage_error("%s is not valid JSON: line %d, column %d: %s", what, error.line, error.column, error.text);
    return value;
}

void js_save(const Json *value, JsonLayout layout, const Directory *directory, const char *name) {
    char *text = js_dump(value, layout);
    file_write(directory, name, text, strlen(text));
    memory_free(text);
}

Json *js_load(const char *path, const char *what) {
    size_t size;
    char *text = file_read(path, what, (size_t)64 << 20, &size);
    Json *value = js_parse(text, size, path);
    memory_free(text);
    return value;
}

const Json *js_get(const Json *object, const char *key) { return json_object_get(object, key); }
Json *js_at(const Json *array, size_t i) { return json_array_get(array, i); }
size_t js_array_size(const Json *array) { return json_array_size(array); }
size_t js_object_size(const Json *object) { return json_object_size(object); }

const char *js_object_key(const Json *object, size_t i) {
    void *entry = json_object_iter((Json *)object);
    while (entry && i-- > 0) entry = json_object_iter_next((Json *)object, entry);
    return entry ? json_object_iter_key(entry) : NULL;
}

const char *js_as_text(const Json *value) { return json_string_value(value); }
bool js_as_integer(const Json *value, int64_t *out) {
    if (!json_is_integer(value)) return false;
    *out = json_integer_value(value);
    return true;
}
bool js_as_number(const Json *value, double *out) {
    if (!json_is_number(value)) return false;
    *out = json_number_value(value);
    return true;
}
