/* The safetensors format (Hugging Face): 8 bytes of header length, a JSON header of names, types, shapes and offsets,
   then the numbers, little-endian, in the table's order. */
#ifndef SQRTDK_TRAIN_SAFETENSORS_H
#define SQRTDK_TRAIN_SAFETENSORS_H

#include "model/tensors.h"

/* Every tensor of the table out of `flat`, through a new name, an fsync and a rename. */
bool safetensors_save(const char *path, const TensorTable *table, const real *flat, Error *err);

/* Into `flat`, which stays as it was on failure. The file must hold exactly the table's tensors, with their shapes and
   type, without gaps or overlaps; anything else is an error of status STATUS_USAGE that names the difference. */
bool safetensors_load(const char *path, const TensorTable *table, real *flat, Error *err);

#endif
