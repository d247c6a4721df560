/* The initial parameters: unit, xavier (Glorot and Bengio 2010), torch (nn.Linear's default) and gpt2 (Radford et al.
   2019); the rules are in docs/model.md. */
#pragma once

#include "model/tensors.h"

/* Standard deviation of the embeddings' initial entries, whatever `init` is. */
#define EMBEDDING_STD 0.02

/* Sets every parameter. A number that is drawn depends on seed, tensor and index alone. */
void tensors_initialize(const TensorTable *table, const ModelShape *shape, Init init, uint64_t seed, size_t threads,
                        real *flat);

/* Returns the variance of an entry of a tensor's column block right after initialization; 0 when the model has no such
   tensor. */
double initial_variance(const ModelShape *shape, TensorRole role, size_t block, Init init);
