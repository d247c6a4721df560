/* The divisor of the scores: its value for a d_k, and its forms in a config and in a title. A new way of scaling is an
   entry in ScaleMode, SCALE_NAMES, divisor_value and the titles. */
#include "config/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *const SCALE_NAMES[] = {"sqrt_dk", "none", "dk", "2sqrt_dk", "sqrt_dmodel", NULL};

double divisor_value(ScaleDivisor divisor, size_t d_k) {
    switch (divisor.mode) {
    case SCALE_SQRT_DK: return sqrt((double)d_k);
    case SCALE_NONE: return 1;
    case SCALE_DK: return (double)d_k;
    case SCALE_2SQRT_DK: return 2 * sqrt((double)d_k);
    case SCALE_SQRT_DMODEL: return sqrt(divisor.number);
    case SCALE_NUMBER: return divisor.number;
    }
    return NAN;
}

real divisor_multiplier(double divisor) { return (real)(1 / divisor); }

bool scale_parse(const char *text, ScaleDivisor *divisor) {
    for (int mode = SCALE_SQRT_DK; mode < SCALE_NUMBER; mode++) {
        if (strcmp(text, SCALE_NAMES[mode]) == 0) {
            *divisor = (ScaleDivisor){.mode = (ScaleMode)mode};
            return true;
        }
    }
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= SCALE_LEAST) || !(number <= SCALE_MOST)) return false;
    *divisor = (ScaleDivisor){.mode = SCALE_NUMBER, .number = number};
    return true;
}

void scale_text(ScaleDivisor divisor, char *out, size_t capacity) {
    if (divisor.mode == SCALE_NUMBER) text_number(divisor.number, out, capacity);
    else snprintf(out, capacity, "%s", SCALE_NAMES[divisor.mode]);
}

void scale_title(ScaleDivisor divisor, size_t d_k, char *out, size_t capacity) {
    static const char *const titles[] = {"√d_k", "1", "d_k", "2√d_k", "√d_model"};
    double value = divisor_value(divisor, d_k);
    if (divisor.mode == SCALE_NUMBER) snprintf(out, capacity, "%.4g", value);
    else if (divisor.mode == SCALE_NONE || d_k == 0) snprintf(out, capacity, "%s", titles[divisor.mode]);
    else snprintf(out, capacity, "%s = %.4g", titles[divisor.mode], value);
}
