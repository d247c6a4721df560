/* The choice of OpenBLAS kernels: this program stands in for an OpenBLAS that always takes the processor for a Prescott
   unless it is told otherwise, starts itself as a child, and reads what the child says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "lab/kernels.h"
#include "ops/matmul.h"

/* In place of the library's. */
char *openblas_get_corename(void);
char *openblas_get_corename(void) {
    static char prescott[] = "Prescott";
    char *users = getenv("OPENBLAS_CORETYPE");
    return users && !getenv("DEAF") ? users : prescott;
}

/* Runs this program as the child, with `environment` before it; its two streams, at most `capacity` bytes. */
static void child(const char *environment, const char *argument, char *out, size_t capacity) {
    char command[512];
    snprintf(command, sizeof command, "env -u OPENBLAS_CORETYPE -u SQRTDK_KERNELS_CHOSEN %s /proc/%d/exe child %s 2>&1",
             environment, (int)getpid(), argument);
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    size_t size = fread(out, 1, capacity - 1, stream);
    out[size] = 0;
    assert_int_equal(pclose(stream), 0);
}

static size_t lines(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

static void starts_again_with_newer_kernels(void **state) {
    (void)state;
    char out[2048], expected[128];
    const char *better = cpu_core_for(cpu_level());
    if (!better) skip(); /* a processor without AVX, or none of this family */
    child("", "two words", out, sizeof out);
    snprintf(expected, sizeof expected, "starting again with OPENBLAS_CORETYPE=%s\n", better);
    assert_non_null(strstr(out, expected));
    snprintf(expected, sizeof expected, "core %s, arguments two words\n", better);
    assert_non_null(strstr(out, expected));
    assert_int_equal(lines(out), 2);
}

static void leaves_a_users_choice_alone(void **state) {
    (void)state;
    char out[2048];
    if (!cpu_core_for(cpu_level())) skip();
    child("OPENBLAS_CORETYPE=Nehalem", "a", out, sizeof out);
    assert_non_null(strstr(out, "OPENBLAS_CORETYPE=Nehalem is set: SSE kernels"));
    assert_non_null(strstr(out, "core Nehalem, arguments a\n"));
    assert_int_equal(lines(out), 2);
}

static void starts_again_only_once(void **state) {
    (void)state;
    char out[2048];
    if (!cpu_core_for(cpu_level())) skip();
    child("DEAF=1", "a", out, sizeof out); /* an OpenBLAS that does not listen */
    assert_non_null(strstr(out, "keeps to its Prescott kernels"));
    assert_int_equal(lines(out), 3);
}

static void says_nothing_when_all_is_well_or_quiet(void **state) {
    (void)state;
    char out[2048];
    child("OPENBLAS_CORETYPE=SkylakeX", "a", out, sizeof out);
    assert_string_equal(out, "core SkylakeX, arguments a\n");
    child("OPENBLAS_CORETYPE=Prescott QUIET=1", "a", out, sizeof out);
    assert_string_equal(out, "core Prescott, arguments a\n");
}

static void knows_the_cores(void **state) {
    (void)state;
    assert_int_equal(cpu_level_of_core("Prescott"), CPU_BASELINE);
    assert_int_equal(cpu_level_of_core("Sandybridge"), CPU_AVX);
    assert_int_equal(cpu_level_of_core("Haswell"), CPU_AVX2);
    assert_int_equal(cpu_level_of_core("Zen"), CPU_AVX2);
    assert_int_equal(cpu_level_of_core("skylakex"), CPU_AVX512);
    assert_int_equal(cpu_level_of_core("NEOVERSEN1"), CPU_OTHER);
    for (CpuLevel level = CPU_AVX; level <= CPU_AVX512; level++)
        assert_int_equal(cpu_level_of_core(cpu_core_for(level)), level);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        kernels_choose(argv, getenv("QUIET") != NULL);
        printf("core %s, arguments %s%s%s\n", matmul_core(), argv[2], argc > 3 ? " " : "", argc > 3 ? argv[3] : "");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_again_with_newer_kernels),
        cmocka_unit_test(leaves_a_users_choice_alone),
        cmocka_unit_test(starts_again_only_once),
        cmocka_unit_test(says_nothing_when_all_is_well_or_quiet),
        cmocka_unit_test(knows_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
