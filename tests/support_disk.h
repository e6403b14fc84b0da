/* A small disk for tests of full and read-only ones. Thread safety: none; the process has one
 * thread. */
#ifndef DFM_TESTS_SUPPORT_DISK_H
#define DFM_TESTS_SUPPORT_DISK_H

#include <stdbool.h>

/* Mounts a tmpfs of `size` ("400k") at `path`, in a mount namespace that the process is in from now
 * on: as root in one of its own, else as root of a user namespace. False: not to be had here. */
bool small_disk(const char *path, const char *size);

#endif
