/* AdamW and SGD. The copy of the constants in each function tells the compiler that no array overlaps them. */
#include "ops/update.h"

#include <math.h>

/* AdamW, with g the clipped gradient and t the number of the update, from 1:
       m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2,
       p = p (1 - lr weight_decay) - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) */
MULTIVERSIONED static void adamw(const Update *u, real *restrict p, real *restrict m, real *restrict v,
                                 const real *restrict g, size_t n) {
    const Update k = *u;
    for (size_t i = 0; i < n; i++) {
        real gradient = g[i] * k.clip;
        m[i] = k.beta1 * m[i] + k.one_minus_beta1 * gradient;
        v[i] = k.beta2 * v[i] + k.one_minus_beta2 * gradient * gradient;
        real root = (real)sqrt((double)v[i]) * k.bias_correction2;
        p[i] = p[i] * k.decay - k.lr * (m[i] * k.bias_correction1) / (root + k.eps);
    }
}

/* SGD: velocity b = momentum b + g,   p = p (1 - lr weight_decay) - lr b */
MULTIVERSIONED static void sgd(const Update *u, real *restrict p, real *restrict b, real *restrict v,
                               const real *restrict g, size_t n) {
    const Update k = *u;
    (void)v;
    for (size_t i = 0; i < n; i++) {
        b[i] = k.momentum * b[i] + g[i] * k.clip;
        p[i] = p[i] * k.decay - k.lr * b[i];
    }
}

const OptimizerRow OPTIMIZERS[] = {{"AdamW", 2, adamw, false}, {"SGD", 1, sgd, false}, {"AdamW", 2, adamw, true}};
