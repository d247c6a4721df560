/* The divisor of the scores: its value for a d_k, and its forms in a config and in a title. A new way of scaling is an
   entry in ScaleMode, SCALE_NAMES, divisor_value and the titles. */
#include "config/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const char *const SCALE_NAMES[] = {"sqrt_dk", "none", "dk", "2sqrt_dk", "sqrt_dmodel", NULL};

double divisor_value(DivisorChoice choice, size_t d_k) {
    switch (choice.mode) {
    case SCALE_SQRT_DK: return sqrt((double)d_k);
    case SCALE_NONE: return 1;
    case SCALE_DK: return (double)d_k;
    case SCALE_2SQRT_DK: return 2 * sqrt((double)d_k);
    case SCALE_SQRT_DMODEL: return sqrt(choice.number);
    case SCALE_NUMBER: return choice.number;
    }
    return NAN;
}

real divisor_multiplier(double divisor) { return (real)(1 / divisor); }

bool scale_parse(const char *text, DivisorChoice *choice) {
    for (int mode = SCALE_SQRT_DK; mode < SCALE_NUMBER; mode++) {
        if (strcmp(text, SCALE_NAMES[mode]) == 0) {
            *choice = (DivisorChoice){.mode = (ScaleMode)mode};
            return true;
        }
    }
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= SCALE_LEAST) || !(number <= SCALE_MOST)) return false;
    *choice = (DivisorChoice){.mode = SCALE_NUMBER, .number = number};
    return true;
}

void scale_text(DivisorChoice choice, char *out, size_t capacity) {
    if (choice.mode == SCALE_NUMBER) text_number(choice.number, out, capacity);
    else snprintf(out, capacity, "%s", SCALE_NAMES[choice.mode]);
}

void scale_title(DivisorChoice choice, size_t d_k, char *out, size_t capacity) {
    static const char *const titles[] = {"√d_k", "1", "d_k", "2√d_k", "√d_model"};
    double value = divisor_value(choice, d_k);
    if (choice.mode == SCALE_NUMBER) snprintf(out, capacity, "%.4g", value);
    else if (choice.mode == SCALE_NONE || d_k == 0) snprintf(out, capacity, "%s", titles[choice.mode]);
    else snprintf(out, capacity, "%s = %.4g", titles[choice.mode], value);
}
