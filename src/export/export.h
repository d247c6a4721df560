/* A trained model in GPT-2's layout, for Hugging Face transformers. GPT-2 divides its scores by the square root of a
   head's width and has no other divisor, so W_Q and b_Q include the run's divisor. */
#pragma once

#include "base/command.h"
#include "run/run.h"

/* Whether GPT-2 can represent the model of a config. If not, fails with status STATUS_USAGE and names the first key
   that prevents it. */
bool export_check(const Config *config, Error *err);

/* The model as GPT-2's tensors. */
typedef struct {
    TensorTable table; /* GPT-2's own shape: biases everywhere, heads of width d_model / heads */
    float *numbers;    /* (table.flat) */
} ExportedTensors;
/* Fills them from a model that export_check accepts. Free with exported_free, also after a failure. */
bool export_tensors(ExportedTensors *exported, const Model *model, Error *err);
void exported_free(ExportedTensors *exported);

/* Whether a directory can be made at `path`: nothing is there, or an empty directory, and nothing is at PATH.new.
   Anything else is an error of status STATUS_USAGE. */
bool export_check_path(const char *path, Error *err);
/* Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and model.safetensors into
   PATH.new, which then takes the name `path`: all of them are there, or none. */
bool export_write(const Run *run, const Model *model, const char *path, Error *err);

extern const Verb export_verb;
