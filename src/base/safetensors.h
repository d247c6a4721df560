/* The safetensors format (Hugging Face): 8 bytes of header length, a JSON header of names, types, shapes and offsets,
   then the numbers, little-endian, in the order in which they were given. */
#pragma once

#include <stddef.h>
#include <stdio.h>

typedef enum { ARRAY_F32, ARRAY_F64 } ArrayType;

/* An array of a file: its name there, and where its numbers are in memory, row-major. */
enum { ARRAY_NAME = 64, ARRAY_DIMENSIONS = 4 };
typedef struct {
    char name[ARRAY_NAME];
    ArrayType type;
    size_t dimensions, shape[ARRAY_DIMENSIONS];
    void *data;
} NamedArray;

/* Returns the bytes of an array's numbers; SIZE_MAX when that does not fit into size_t. */
size_t named_array_bytes(const NamedArray *array);

/* One line of a file's metadata, which are texts (UTF-8). */
typedef struct {
    const char *key, *value;
} Metadata;

/* Writes `count` arrays, and `lines` of metadata after "format" and "producer". A line "checksum" comes last. The
   caller checks the stream. */
void safetensors_write(FILE *out, const NamedArray *arrays, size_t count, const Metadata *metadata, size_t lines);

/* A file being read; all of it is in memory. */
typedef struct json_t Json;
typedef struct {
    const char *path; /* owned by the caller */
    char *bytes;
    size_t size, begin; /* bytes of the file; where its numbers begin */
    Json *header;
} SafetensorsFile;

/* Reads a file whose numbers have at most `limit` bytes. */
SafetensorsFile safetensors_open(const char *path, size_t limit);

/* Returns a value of the metadata; NULL when there is none of that name. */
const char *safetensors_metadata(const SafetensorsFile *file, const char *key);

/* Copies the numbers into the arrays' memory, which an error leaves as it was. Of an array whose `data` is NULL, only
   the entry is checked. The file must hold exactly these arrays, with these types and shapes, without gaps or overlaps,
   and have the checksum that its metadata names, if any. `owner` ("the config's model") says in the message whose
   arrays were expected. */
void safetensors_take(const SafetensorsFile *f, const NamedArray *arrays, size_t count, const char *owner);
