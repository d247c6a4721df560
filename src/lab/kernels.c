#include "lab/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "ops/matmul.h"

/* Set in the second life, so that there is no third. */
static const char *const AGAIN = "SQRTDK_KERNELS_CHOSEN";

void kernels_choose(char *const *argv, int quiet) {
    const char *core = matmul_core(), *users = getenv("OPENBLAS_CORETYPE"), *better = cpu_core_for(cpu_level());
    CpuLevel has = cpu_level_of_core(core), can = cpu_level();
    if (has == CPU_OTHER || can == CPU_OTHER || has >= can || !better) return;
    if (getenv(AGAIN)) {
        if (!quiet)
            fprintf(
                stderr,
                "train: OpenBLAS keeps to its %s kernels although this processor has %s: expect half the speed or less\n",
                core, cpu_level_name(can));
        return;
    }
    if (users && *users) {
        if (!quiet)
            fprintf(
                stderr,
                "train: OPENBLAS_CORETYPE=%s is set: %s kernels on a processor with %s, up to half the speed lost; unset it\n",
                users, cpu_level_name(has), cpu_level_name(can));
        return;
    }
    if (!quiet)
        fprintf(
            stderr,
            "train: OpenBLAS chose its %s kernels on a processor with %s; starting again with OPENBLAS_CORETYPE=%s\n",
            core, cpu_level_name(can), better);
    setenv("OPENBLAS_CORETYPE", better, 1);
    setenv(AGAIN, "1", 1);
    execv("/proc/self/exe", argv);
    unsetenv("OPENBLAS_CORETYPE"); /* no such file here: go on as we are */
}
