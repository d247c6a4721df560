/* A trained model in GPT-2's layout, for Hugging Face transformers. GPT-2 always divides its scores by the square root
   of a head's width, so W_Q and b_Q include the run's divisor. */
#pragma once

#include "base/command.h"
#include "run/run.h"

/* Raises an error of status STATUS_USAGE if GPT-2 cannot represent the model of a config. It names the first key that
   prevents it. */
void export_check(const Config *config);

/* A model as GPT-2's tensors. */
typedef struct {
    TensorTable table; /* in GPT-2's shape: biases everywhere, heads of width d_model / heads */
    float *numbers;    /* (table.flat) */
} ExportedTensors;
/* Returns the tensors of a model that export_check accepts. */
ExportedTensors export_tensors(const Model *model);
