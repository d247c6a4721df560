#include "config/scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {"sqrt_dk", "none", "dk", "2sqrt_dk"};

double scale_value(ScaleDivisor divisor, size_t d_k) {
    switch (divisor.mode) {
    case SCALE_SQRT_DK: return sqrt((double)d_k);
    case SCALE_NONE: return 1;
    case SCALE_DK: return (double)d_k;
    case SCALE_2SQRT_DK: return 2 * sqrt((double)d_k);
    case SCALE_NUMBER: return divisor.number;
    }
    return NAN;
}

double scale_multiplier(ScaleDivisor divisor, size_t d_k) { return 1 / scale_value(divisor, d_k); }

bool scale_parse(const char *text, ScaleDivisor *divisor) {
    for (int mode = SCALE_SQRT_DK; mode < SCALE_NUMBER; mode++) {
        if (strcmp(text, NAMES[mode]) == 0) {
            *divisor = (ScaleDivisor){.mode = (ScaleMode)mode};
            return true;
        }
    }
    char *end;
    double number = strtod(text, &end);
    /* The bounds keep the multiplier, and scores times it, inside a float. */
    if (end == text || *end || !(number >= 1e-6) || !(number <= 1e6)) return false;
    *divisor = (ScaleDivisor){.mode = SCALE_NUMBER, .number = number};
    return true;
}

void scale_text(ScaleDivisor divisor, char *out, size_t capacity) {
    if (divisor.mode == SCALE_NUMBER)
        for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back equal */
            snprintf(out, capacity, "%.*g", digits, divisor.number);
            if (strtod(out, NULL) == divisor.number) break;
        }
    else
        snprintf(out, capacity, "%s", NAMES[divisor.mode]);
}

void scale_title(ScaleDivisor divisor, size_t d_k, char *out, size_t capacity) {
    static const char *const titles[] = {"√d_k", "1 (none)", "d_k", "2√d_k"};
    double value = scale_value(divisor, d_k);
    if (divisor.mode == SCALE_NUMBER)
        snprintf(out, capacity, "%.4g", value);
    else if (divisor.mode == SCALE_NONE || d_k == 0)
        snprintf(out, capacity, "%s", titles[divisor.mode]);
    else
        snprintf(out, capacity, "%s = %.4g", titles[divisor.mode], value);
}
