/* Derivatives from differences, for comparison with those worked out by hand. */
#pragma once

#include <math.h>

/* Returns f(x + delta) - f(x) for the f and x that `context` knows. For central differences it may be f(x + delta). */
typedef double (*Perturbed)(void *context, double delta);

/* The side of x on which a difference is taken. */
typedef enum { BELOW, CENTRAL, ABOVE } Side;

static inline double difference_quotient(Perturbed f, void *context, Side side, double h) {
    if (side == CENTRAL) return (f(context, h) - f(context, -h)) / (2 * h);
    const double delta = side == BELOW ? -h : h;
    return f(context, delta) / delta;
}

/* The intended error of a difference, in units of the caller's scale. */
#define DIFFERENCE_ACCURACY 1e-9

/* Computes df/dx by differences D(h), extrapolated: with p = 4, R(h) = (p D(h/2) - D(h)) / (p - 1) is wrong by a term
   in h^4, and (p^2 R(h/2) - R(h)) / (p^2 - 1) by one in h^6 (Richardson 1911, section 1). Differences on one side have
   p = 2, and errors in h^2 and h^3.

   Rounding wants h wide and curvature wants it narrow, and between the gradients of one model lie six powers of ten
   of either. So the step starts at *step and is halved until R(h) and R(h/2) agree to the accuracy, or to what
   `rounding`, that of f, explains; the result is then better than that by far. They do not agree where a kink of f lies
   within h, unless it is so near to x that the other side's slope is all that h sees. *step becomes the one that
   served. It need not start wider than rounding / (DIFFERENCE_ACCURACY scale), and should not: far away, two secants
   can agree by chance. */
static inline double difference_extrapolated(Perturbed f, void *context, Side side, double rounding, double scale,
                                             double *step) {
    const double p = side == CENTRAL ? 4 : 2;
    double h = *step, d = difference_quotient(f, context, side, h / 2);
    double r = (p * d - difference_quotient(f, context, side, h)) / (p - 1);
    for (int halvings = 0;; halvings++) {
        double narrower_d = difference_quotient(f, context, side, h / 4), narrower_r = (p * narrower_d - d) / (p - 1);
        double doubt = fabs(narrower_r - r);
        if (!(doubt > DIFFERENCE_ACCURACY * scale && doubt > rounding / h) || halvings == 40) { /* a NaN ends it too */
            *step = h;
            return narrower_r + (narrower_r - r) / (p * p - 1);
        }
        h /= 2, d = narrower_d, r = narrower_r;
    }
}
