#include "server/cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    return length > 0;
}

static uint32_t cpus_of(long long quota_us, long long period_us) {
    if (quota_us <= 0 || period_us <= 0)
        return 0;
    long long cpus = (quota_us + period_us - 1) / period_us;
    return cpus > 4096 ? 0 : (uint32_t)cpus;
}

/* Version 2: "max 100000" or "150000 100000". */
static uint32_t quota_v2(const char *folder) {
    char path[PATH_MAX + 32], text[64];
    long long quota_us, period_us;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_text(path, text, sizeof text) ||
        sscanf(text, "%lld %lld", &quota_us, &period_us) != 2)
        return 0;
    return cpus_of(quota_us, period_us);
}

/* Version 1: a quota of -1 is none. */
static uint32_t quota_v1(const char *folder) {
    char path[PATH_MAX + 32], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    bool known = read_text(path, quota, sizeof quota);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!known || !read_text(path, period, sizeof period))
        return 0;
    return cpus_of(atoll(quota), atoll(period));
}

static uint32_t stricter(uint32_t a, uint32_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The group's folder and every one above it, up to `mount`. */
static uint32_t quota_upwards(const char *mount, const char *group,
                              uint32_t (*quota_of)(const char *folder)) {
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return 0;
    uint32_t quota = quota_of(folder);
    char *slash;
    while (strlen(folder) > strlen(mount) && (slash = strrchr(folder, '/')) != NULL) {
        *slash = '\0';
        quota = stricter(quota, quota_of(folder));
    }
    return quota;
}

static bool lists_cpu(const char *controllers) {
    for (const char *word = controllers; word; word = strchr(word, ',')) {
        word += *word == ',';
        if (strcspn(word, ",") == 3 && strncmp(word, "cpu", 3) == 0)
            return true;
    }
    return false;
}

/* A line is "id:controllers:/group"; version 2 has no controllers. */
static uint32_t quota_of_line(const char *mount, char *line) {
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0')
        return quota_upwards(mount, group, quota_v2);
    if (!lists_cpu(controllers))
        return 0;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/cpu", mount); /* a link to "cpu,cpuacct" where joined */
    return quota_upwards(folder, group, quota_v1);
}

uint32_t dfm_cpus_quota(const char *mount, const char *membership) {
    char text[4096];
    snprintf(text, sizeof text, "%s", membership);
    uint32_t quota = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        quota = stricter(quota, quota_of_line(mount, line));
    return quota;
}

static uint32_t cpus_of_affinity(void) {
    enum { CPUS_MAX = 16384 };
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    int count = 0;
    if (set && sched_getaffinity(0, bytes, set) == 0)
        count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t dfm_cpus_available(void) {
    char membership[4096];
    uint32_t cpus = cpus_of_affinity();
    if (!read_text("/proc/self/cgroup", membership, sizeof membership))
        return cpus;
    return stricter(cpus, dfm_cpus_quota("/sys/fs/cgroup", membership));
}
