/* The processors that a container may use, by files of control groups, of version 1 and 2. */
#include "temporary.h"

/* Lays out a cgroup's file below the test's directory. */
static void put_group(const char *folder, const char *name, const char *text) {
    char path[512];
    assert_true(directory_make_new(in(folder)) || path_exists(in(folder)));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    put_text(path, text);
}

/* The quota of a container, by both versions of cgroups: the smallest of a group and those above, rounded up. */
static void quotas(void) {
    static const struct {
        const char *groups;
        size_t processors;
    } cases[] = {
        {"0::/pod/two\n", 2},                                           /* 150000 of 100000 */
        {"0::/pod/free\n", 3},                                          /* the pod's */
        {"0::/pod/small\n", 1},                                         /* a tenth */
        {"0::/\n", SIZE_MAX},                                           /* no file at the root */
        {"0::/free\n", SIZE_MAX},                                       /* max */
        {"0::/elsewhere/on/the/host\n", SIZE_MAX},                      /* no such folder */
        {"12:cpuset:/one\n3:cpu,cpuacct:/one\n0::/\n", 4},              /* version 1, beside 2 */
        {"3:cpuacct,cpu:/none\n", 8},                                   /* -1, below the root's */
        {"5:cpuset:/one\n6:cpuacct:/one\n7:name=cpu:/one\n", SIZE_MAX}, /* other controllers */
        {"3:cpu:/docker/0123456789\n", 8},                              /* a path of the host */
        {"no line\n1:x\n", SIZE_MAX},
    };
    put_group("root/pod", "cpu.max", "300000 100000\n");
    put_group("root/pod/two", "cpu.max", "150000 100000\n");
    put_group("root/pod/small", "cpu.max", "10000 100000\n");
    put_group("root/pod/free", "cpu.max", "max 100000\n");
    put_group("root/free", "cpu.max", "max 100000\n");
    put_group("root/cpu", "cpu.cfs_quota_us", "800000\n");
    put_group("root/cpu", "cpu.cfs_period_us", "100000\n");
    put_group("root/cpu/one", "cpu.cfs_quota_us", "175000\n");
    put_group("root/cpu/one", "cpu.cfs_period_us", "50000\n");
    put_group("root/cpu/none", "cpu.cfs_quota_us", "-1\n");
    put_group("root/cpu/none", "cpu.cfs_period_us", "100000\n");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        put_text("groups", cases[i].groups);
        const size_t processors = processors_by_quota(in("groups"), in("root"));
        assert_that(processors == cases[i].processors, "%zu processors by %s", processors, cases[i].groups);
    }
    assert_true(processors_by_quota(in("missing"), in("root")) == SIZE_MAX);
}

int main(void) { return RUN_TESTS(TEMPORARY_TEST(quotas)); }
