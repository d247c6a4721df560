/* JSON values, over jansson: the only file that includes it, so that the library can be replaced here alone. */
#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

/* Set when an allocation fails, all of which jansson makes here: its own errors may then be of syntax. It returns NULL,
   and adding NULL to an object fails too. js_dump reports the failure, so that no caller has to check each value. */
static bool memory_ran_out = false;

/* Jansson's lexer does not check that its buffer has grown. Without memory it leaves out a character, and then reads
   beyond the text or ends the program. So a parse that gets no memory ends at once, by a jump to `leave`, and the
   blocks that it has taken are freed. The list has all blocks of jansson, the newest first. */
typedef struct Block {
    struct Block *next, *before;
} Block;
static Block blocks = {&blocks, &blocks};
static jmp_buf leave;
static bool parsing = false;

static void *allocate(size_t size) {
    Block *block = malloc(sizeof *block + size);
    if (!block) {
        memory_ran_out = true;
        if (parsing) longjmp(leave, 1);
        return NULL;
    }
    *block = (Block){blocks.next, &blocks};
    block->next->before = block;
    blocks.next = block;
    return block + 1;
}
static void release(void *memory) {
    if (!memory) return;
    Block *block = (Block *)memory - 1;
    block->next->before = block->before;
    block->before->next = block->next;
    free(block);
}
__attribute__((constructor)) static void begin(void) { json_set_alloc_funcs(allocate, release); }

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

Json *js_set(Json *object, const char *key, Json *value) {
    if (json_object_set_new(object, key, value) == 0) return value;
    memory_ran_out = true;
    return NULL;
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
    const size_t size = memory_ran_out ? 0 : json_dumpb(value, NULL, 0, flags[layout]);
    *text = size ? malloc(size + 1) : NULL; /* to be freed by free */
    const bool dumped = *text && json_dumpb(value, *text, size, flags[layout]) == size;
    if (dumped) (*text)[size] = 0;
    const bool whole = dumped && !memory_ran_out; /* jansson may leave out what did not fit */
    memory_ran_out = false;                       /* the flag is for one document */
    if (whole) return true;
    free(*text);
    *text = NULL;
    return runtime_error(err, "no memory for a JSON text");
}

bool js_parse(const char *text, size_t size, const char *what, Json **value, Error *err) {
    json_error_t error = {.line = 0};
    const bool before = memory_ran_out; /* for the document that is being built */
    const Block *newest = blocks.next;
    *value = NULL;
    memory_ran_out = false;
    parsing = true;
    if (setjmp(leave) == 0) *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    parsing = false;
    const bool no_memory = memory_ran_out;
    memory_ran_out = before;
    while (no_memory && blocks.next != newest) release(blocks.next + 1);
    if (no_memory) return runtime_error(err, "no memory to read %s", what);
    if (*value) return true;
    return usage_error(err, "%s is no valid JSON: line %d, column %d: %s", what, error.line, error.column, error.text);
}

bool js_save(Json *value, JsonLayout layout, const Directory *directory, const char *name, Error *err) {
    char *text = NULL;
    const bool ok = js_dump(value, layout, &text, err) && file_write(directory, name, text, strlen(text), err);
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
