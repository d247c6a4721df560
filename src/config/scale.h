/* The number under Q K^T. This is the one place that turns a way of scaling into a divisor: the plain engine divides by
   it, and the fast engine multiplies by 1 / divisor. Source: Vaswani et al. 2017, equation 1, which divides by
   sqrt(d_k). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/real.h"

typedef enum { SCALE_SQRT_DK, SCALE_NONE, SCALE_DK, SCALE_2SQRT_DK, SCALE_SQRT_DMODEL, SCALE_NUMBER } ScaleMode;

/* Holds what a config says of the divisor, from which divisor_value computes it. */
typedef struct {
    ScaleMode mode;
    double number; /* SCALE_NUMBER: the divisor, SCALE_LEAST to SCALE_MOST; SCALE_SQRT_DMODEL: d_model */
} DivisorChoice;

/* The names of the modes in a config, in the order of ScaleMode but without SCALE_NUMBER, then NULL. */
extern const char *const SCALE_NAMES[];
/* The bounds of a divisor that is a number keep the multiplier, and scores times it, inside a float. */
#define SCALE_LEAST 1e-6
#define SCALE_MOST 1e6
#define SCALE_RANGE "1e-6 to 1e6"

/* Returns the divisor: sqrt(d_k), 1, d_k, 2 sqrt(d_k), sqrt(d_model) or the number. */
double divisor_value(DivisorChoice choice, size_t d_k);
/* Returns 1 / divisor, rounded as the model has it. */
real divisor_multiplier(double divisor);

/* Reads one of SCALE_NAMES or a number within the bounds, as in a config. Returns false if it is neither. The number of
   SCALE_SQRT_DMODEL is left to config_load. */
bool scale_parse(const char *text, DivisorChoice *choice);
/* Writes a choice as scale_parse reads it. */
void scale_text(DivisorChoice choice, char *out, size_t capacity);
/* Writes a choice for a title, in UTF-8: "√d_k = 8", "1", "d_k = 64", "2√d_k = 16", "3.5". With d_k 0, for runs that
   differ in it, writes the name alone: "√d_k". */
void scale_title(DivisorChoice choice, size_t d_k, char *out, size_t capacity);
