/* The tensors of a model's table as a safetensors file: parameters under their own names, an optimizer's moments under
   those of torch.optim. */
#pragma once

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

/* Writes a file through a new name, an fsync and a rename, with `step` among its metadata. */
bool tensor_set_save(const char *path, const TensorSet *set, size_t step, Error *err);

/* Into the flat arrays, which stay as they were on failure; what the file must hold says safetensors_take. *step is
   what the metadata say, SIZE_MAX when they say nothing. */
bool tensor_set_load(const char *path, const TensorSet *set, size_t *step, Error *err);
