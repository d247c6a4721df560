/* JSON, over jansson, which json.c alone includes. Values are blocks of base/memory.h, so that memory_release and
   errors free them. A value that is added to another one belongs to it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/directory.h"

typedef struct json_t Json;

Json *js_object(void);
Json *js_array(void);
Json *js_text(const char *text); /* in a text that is not UTF-8, bytes that are not ASCII become '?' */
Json *js_integer(int64_t value);
Json *js_size(size_t value);
Json *js_number(double value);                            /* null when it is not finite, as JSON has no such numbers */
Json *js_set(Json *object, const char *key, Json *value); /* returns the value, which is the object's */
void js_remove(Json *object, const char *key);            /* does nothing where there is no such key */
void js_append(Json *array, Json *value);
Json *js_list(Json *object, const char *key); /* the object's array of this name, made where there is none */

/* Returns a value as text: on one line, on many, or on one with all that is not ASCII escaped. A number has 17 digits,
   which read back as the same; in many lines, which people read, it has at most 15. */
typedef enum { JS_LINE, JS_INDENTED, JS_ASCII } JsonLayout;
char *js_dump(const Json *value, JsonLayout layout);

/* Returns the value of a text, which is one JSON value without repeated keys. Errors name `what`, line and column. */
Json *js_parse(const char *text, size_t size, const char *what);

/* js_save writes a value to a file, as file_write does. js_load returns the value in a file of at most 64 MB, which is
   called `what` in errors. */
void js_save(const Json *value, JsonLayout layout, const Directory *directory, const char *name);
Json *js_load(const char *path, const char *what);

/* Return NULL, or false, when there is no such entry or it is of another type. */
const Json *js_get(const Json *object, const char *key);
Json *js_at(const Json *array, size_t i);
size_t js_array_size(const Json *array);   /* 0 for what is no array */
size_t js_object_size(const Json *object); /* 0 for what is no object */
const char *js_object_key(const Json *object, size_t i);
const char *js_as_text(const Json *value);
bool js_as_integer(const Json *value, int64_t *out);
bool js_as_number(const Json *value, double *out);
