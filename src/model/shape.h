/* Sizes of a model. Letters as everywhere: C d_model, H heads, D d_k, F d_ff, V vocabulary, L layers, T context. */
#pragma once

#include "model/attention.h"

typedef struct {
    size_t T, C, F, V, L;
    Attention attention; /* H, D, and how scores are made */
    bool pre_norm, bias, tied, relu;
    double dropout;
} ModelShape;

ModelShape model_shape(const Config *config, size_t vocabulary);

/* Weights of the blocks' linear layers. */
double model_linear_weights(const ModelShape *shape);

/* Floating-point operations of one training step over `tokens` tokens. A token costs 6 for each weight of the linear
   layers, output head included, and 12 L H D T for the attention's products (Chowdhery et al. 2022, PaLM, appendix
   B); the causal half that is skipped is counted, as is usual. */
double model_flops(const ModelShape *shape, double tokens);
