/* Derivatives from differences, for comparison with those worked out by hand. */
#pragma once

#include <math.h>

/* f(x + delta) for the f and x that `context` knows; or f(x + delta) - f(x), where that can be summed with less
   rounding. */
typedef double (*Perturbed)(void *context, double delta);

static inline double difference_central(Perturbed f, void *context, double h) {
    return (f(context, h) - f(context, -h)) / (2 * h);
}

/* How near to the derivative a difference is meant to come, in units of the caller's scale. */
#define DIFFERENCE_ACCURACY 1e-9

/* Computes df/dx by central differences D(h), extrapolated: R(h) = (4 D(h/2) - D(h)) / 3 is wrong by a term in h^4, and
   (16 R(h/2) - R(h)) / 15 by one in h^6 (Richardson 1911, section 1). Each correction is about the square of the one
   before, so where the first is well below the root of the accuracy there is no second.

   Rounding wants h wide and curvature wants it narrow, and between the gradients of one model lie six powers of ten
   of either. So the step starts at *step and is halved until R(h) and R(h/2) agree to the accuracy, or to what
   `rounding`, that of f, explains; the result is then better than that by far. *step becomes the one that served,
   for the next derivative of the same kind. It need not start wider than rounding / (DIFFERENCE_ACCURACY scale), and
   should not: far away, two secants can agree by chance. */
static inline double difference_extrapolated(Perturbed f, void *context, double rounding, double scale, double *step) {
    double h = *step, wide = difference_central(f, context, h), d = difference_central(f, context, h / 2);
    double r = (4 * d - wide) / 3;
    if (fabs(r - d) <= sqrt(DIFFERENCE_ACCURACY) / 100 * scale) return r;
    for (int halvings = 0;; halvings++) {
        double narrower_d = difference_central(f, context, h / 4), narrower_r = (4 * narrower_d - d) / 3;
        double doubt = fabs(narrower_r - r);
        if (!(doubt > DIFFERENCE_ACCURACY * scale && doubt > rounding / h) || halvings == 40) { /* a NaN ends it too */
            *step = h;
            return narrower_r + (narrower_r - r) / 15;
        }
        h /= 2, d = narrower_d, r = narrower_r;
    }
}
