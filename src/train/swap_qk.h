/* What grows when scores grow: the weights of queries and keys, or the fit of the attention's inputs to them? Measures
   the scores of the initial and the trained model, each also with the other's weights and biases of queries and
   keys. docs/formats.md defines the columns. */
#pragma once

#include "train/run.h"

/* Exchanges the weights and biases of queries and keys, in all layers, between two flat arrays of parameters. */
void swap_qk(const TensorTable *table, real *a, real *b);

/* Writes the measurement as CSV, a row for each layer and head. The run's text is loaded and the model is its trained
   one, whose parameters are afterwards as they were. A caught signal cuts it short: then *complete is false and nothing
   is written. */
bool swap_qk_measure(const Run *run, Model *model, FILE *out, bool *complete, Error *err);
