/* OpenBLAS chooses its kernels at load time and on some processors chooses old ones, at 2 to 5 times the cost: 0.3.21
   takes an Emerald Rapids for a Prescott. The choice can only be made before it is loaded, so the program starts itself
   again, once, with OPENBLAS_CORETYPE set. */
#ifndef SQRTDK_LAB_KERNELS_H
#define SQRTDK_LAB_KERNELS_H

/* Call it first in main. Executes the program again, with the same arguments, when OpenBLAS runs kernels older than the
   processor and OPENBLAS_CORETYPE is not set; otherwise returns. What it does, and what a user's own OPENBLAS_CORETYPE
   costs, it says in a line on stderr unless `quiet`. */
void kernels_choose(char *const *argv, int quiet);

#endif
