/* JSON values, over jansson: the only file that includes it, so that the library can be replaced here alone. */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

/* Set when an allocation fails, all of which jansson makes here: its own errors may then be of syntax. It returns NULL,
   and adding NULL to an object fails too. js_dump reports the failure, so that no caller has to check each value. */
static bool memory_ran_out = false;

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (!memory) memory_ran_out = true;
    return memory;
}
__attribute__((constructor)) static void begin(void) { json_set_alloc_funcs(allocate, free); }

Json *js_object(void) { return json_object(); }
Json *js_array(void) { return json_array(); }
Json *js_text(const char *text) {
    Json *value = json_string(text);
    char *ascii = value ? NULL : strdup(text);
    for (char *c = ascii; c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    if (ascii) value = json_string(ascii);
    if (!value) memory_ran_out = true;
    free(ascii);
    return value;
}
Json *js_boolean(bool value) { return json_boolean(value); }
Json *js_integer(int64_t value) { return json_integer(value); }
Json *js_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

void js_set(Json *object, const char *key, Json *value) {
    if (json_object_set_new(object, key, value) != 0) memory_ran_out = true;
}
void js_remove(Json *object, const char *key) { (void)json_object_del(object, key); }
void js_append(Json *array, Json *value) {
    if (json_array_append_new(array, value) != 0) memory_ran_out = true;
}
Json *js_list(Json *object, const char *key) {
    if (!json_is_array(json_object_get(object, key))) js_set(object, key, js_array());
    return json_object_get(object, key);
}
Json *js_copy(Json *value) { return json_incref(value); }
void js_free(Json *value) { json_decref(value); }

bool js_dump(const Json *value, JsonLayout layout, char **text, Error *err) {
    static const size_t flags[] = {JSON_COMPACT, JSON_INDENT(2) | JSON_REAL_PRECISION(15),
                                   JSON_COMPACT | JSON_ENSURE_ASCII};
    *text = memory_ran_out ? NULL : json_dumps(value, flags[layout]);
    const bool whole = !memory_ran_out; /* jansson may leave out what did not fit */
    memory_ran_out = false;             /* the flag is for one document */
    if (whole) return true;
    free(*text);
    *text = NULL;
    return runtime_error(err, "no memory for a JSON text");
}

bool js_parse(const char *text, size_t size, const char *what, Json **value, Error *err) {
    json_error_t error;
    const bool before = memory_ran_out; /* for the document that is being built */
    memory_ran_out = false;
    *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    const bool no_memory = memory_ran_out;
    memory_ran_out = before;
    if (*value && !no_memory) return true;
    js_free(*value); /* what jansson makes of a text that it could not hold */
    *value = NULL;
    if (no_memory) return runtime_error(err, "no memory to read %s", what);
    return usage_error(err, "%s is no valid JSON: line %d, column %d: %s", what, error.line, error.column, error.text);
}

bool js_save(Json *value, JsonLayout layout, const char *path, Error *err) {
    char *text = NULL;
    const bool ok = js_dump(value, layout, &text, err) && file_write(path, text, strlen(text), err);
    free(text);
    js_free(value);
    return ok;
}

bool js_load(Json **value, const char *path, const char *what, Error *err) {
    char *text = NULL;
    size_t size;
    *value = NULL;
    const bool ok = file_read(path, what, (size_t)64 << 20, STATUS_USAGE, &text, &size, err) &&
                    js_parse(text, size, path, value, err);
    free(text);
    return ok;
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
