#include "model/shape.h"

ModelShape model_shape(const Config *config, size_t vocabulary) {
    return (ModelShape){
        .T = (size_t)config->model.context,
        .C = (size_t)config->model.d_model,
        .F = (size_t)config->model.d_ff,
        .V = vocabulary,
        .L = (size_t)config->model.layers,
        .attention = attention_make(config),
        .pre_norm = config->model.norm == NORM_PRE,
        .bias = config->model.bias,
        .tied = config->model.tie_embeddings,
        .relu = config->model.activation == ACTIVATION_RELU,
        .dropout = config->model.dropout,
    };
}

double model_linear_weights(const ModelShape *s) {
    const double C = (double)s->C, F = (double)s->F;
    const double in = (double)attention_width_in(&s->attention), out = (double)attention_width_out(&s->attention);
    return (double)s->L * (C * in + out * C + 2 * C * F);
}

double model_flops(const ModelShape *s, double tokens) {
    const double C = (double)s->C, V = (double)s->V, L = (double)s->L;
    return tokens * (6 * (model_linear_weights(s) + C * V) + 3 * L * attention_flops(&s->attention, s->T));
}
