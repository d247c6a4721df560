/* The figures of ./train theory as a picture: entropy, largest weight and gradient against d_k. */
#pragma once

#include "theory/theory.h"

enum { THEORY_DIVISORS = 4 };

typedef struct {
    size_t d_k;
    ScaleDivisor divisor;
    TheoryFigures measured;
    TheoryExact exact;
} TheoryPoint;

/* points (count, THEORY_DIVISORS), a row for each d_k. Three charts, one below the other. */
bool theory_picture_save(const TheoryPoint *points, size_t count, size_t keys, const char *path, Error *err);
