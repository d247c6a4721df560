/* The safetensors format (Hugging Face): 8 bytes of header length, a JSON header of names, types, shapes and offsets,
   then the numbers, little-endian, in the table's order. */
#ifndef SQRTDK_TRAIN_SAFETENSORS_H
#define SQRTDK_TRAIN_SAFETENSORS_H

#include <stdio.h>

#include "model/tensors.h"

/* What one file holds: every tensor of a table, once for each group, from that group's flat array. */
enum { TENSOR_GROUPS_MAX = 2 };
typedef struct {
    const TensorTable *table;
    size_t groups;
    struct {
        const char *prefix; /* in front of the tensors' names: "", "exp_avg." */
        real *flat;
    } group[TENSOR_GROUPS_MAX];
} TensorSet;
/* A model's parameters: one group, names as in the table. */
TensorSet tensor_set(const TensorTable *table, real *flat);

/* Writes the file's bytes, `step` among its metadata; whether they got there the stream's owner asks. */
bool safetensors_write(FILE *stream, const TensorSet *set, size_t step, Error *err);
/* The same to a path, through a new name, an fsync and a rename. */
bool safetensors_save(const char *path, const TensorSet *set, size_t step, Error *err);

/* Into the flat arrays, which stay as they were on failure. The file must hold exactly the set's tensors, with their
   shapes and type, without gaps or overlaps; anything else is an error of status STATUS_USAGE that names the
   difference. *step is what the metadata say, SIZE_MAX when they say nothing. */
bool safetensors_load(const char *path, const TensorSet *set, size_t *step, Error *err);

#endif
