/* The figures of ./train theory as a picture: entropy, largest weight and gradient against d_k. */
#pragma once

#include "theory/theory.h"

/* What each d_k is measured with: the divisors of a dot product, then the other ways to score. */
enum { THEORY_DIVISORS = 4, THEORY_SCORINGS = THEORY_DIVISORS + THEORY_SCORE_COUNT - 1 };

typedef struct {
    size_t d_k;
    TheoryScoring scoring;
    TheoryFigures measured;
    TheoryExact exact;
} TheoryPoint;

/* points (count, THEORY_SCORINGS), a row for each d_k. Three charts, one below the other, of the divisors; beside them
   the same of the other ways to score. */
bool theory_picture_save(const TheoryPoint *points, size_t count, size_t keys, const char *path, Error *err);
