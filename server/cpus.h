/* How many CPUs this process may use: affinity, and the CPU quota of its control groups. */
#ifndef DFM_SERVER_CPUS_H
#define DFM_SERVER_CPUS_H

#include <stdint.h>

/* At least 1. */
uint32_t dfm_cpus_available(void);

/* The quota of the control groups that `membership` (text of /proc/self/cgroup) names, in CPUs
 * rounded up; the smallest on the way to the root counts. `mount` is where they are mounted,
 * /sys/fs/cgroup. Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us). 0: no limit. */
uint32_t dfm_cpus_quota(const char *mount, const char *membership);

#endif
