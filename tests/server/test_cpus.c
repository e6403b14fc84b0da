/* CPU quotas of control groups, version 1 and 2, from a made-up file system. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/cpus.h"

static char root[] = "/tmp/deformd-cpus-XXXXXX";

static void set_up(void) {
    strcpy(root, "/tmp/deformd-cpus-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tear_down(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *folder, const char *name, const char *text) {
    char command[256], path[256];
    snprintf(command, sizeof command, "mkdir -p %s%s", root, folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(no_quota_is_no_limit) {
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/\n"), 0);
    put("", "cpu.max", "max 100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/\n"), 0);
    put("/cpu", "cpu.cfs_quota_us", "-1\n");
    put("/cpu", "cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "4:cpu,cpuacct:/\n"), 0);
}
END_TEST

START_TEST(version_2_quota_is_rounded_up) {
    put("/pod/box", "cpu.max", "150000 100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/pod/box\n"), 2);
    put("/pod/box", "cpu.max", "10000 100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/pod/box\n"), 1);
}
END_TEST

START_TEST(smallest_quota_on_the_way_to_the_root_counts) {
    put("/pod/box", "cpu.max", "800000 100000\n");
    put("/pod", "cpu.max", "300000 100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/pod/box\n"), 3);
}
END_TEST

START_TEST(version_1_quota_is_found_among_joined_controllers) {
    put("/cpu/box", "cpu.cfs_quota_us", "250000\n");
    put("/cpu/box", "cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(dfm_cpus_quota(root, "9:cpuset:/box\n4:cpuacct,cpu:/box\n1:name=systemd:/\n"),
                      3);
    ck_assert_uint_eq(dfm_cpus_quota(root, "9:cpuset:/box\n"), 0);
}
END_TEST

START_TEST(nonsense_is_no_limit) {
    put("", "cpu.max", "rubbish");
    ck_assert_uint_eq(dfm_cpus_quota(root, "0::/\n"), 0);
    ck_assert_uint_eq(dfm_cpus_quota(root, "\n:\nx\n"), 0);
    ck_assert_uint_eq(dfm_cpus_quota(root, ""), 0);
}
END_TEST

START_TEST(this_machine_has_at_least_one_cpu) {
    ck_assert_uint_ge(dfm_cpus_available(), 1);
    ck_assert_uint_le(dfm_cpus_available(), (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpus");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, no_quota_is_no_limit);
    tcase_add_test(tests, version_2_quota_is_rounded_up);
    tcase_add_test(tests, smallest_quota_on_the_way_to_the_root_counts);
    tcase_add_test(tests, version_1_quota_is_found_among_joined_controllers);
    tcase_add_test(tests, nonsense_is_no_limit);
    tcase_add_test(tests, this_machine_has_at_least_one_cpu);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
