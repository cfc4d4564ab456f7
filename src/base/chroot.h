#pragma once
/* Files of a process in a chroot have two names: /proc/PID/maps and the links beside it name them from the root of the mount
 * namespace, the process itself and /proc/PID/root from its own. */

#include <sys/types.h>

/* What the former have more at their front; "" for any other process, and where we may not look. The caller frees. */
char *chroot_of(pid_t pid);
/* The path without it, inside of the given one; a path of elsewhere stays as it is. */
const char *chroot_cut(const char *chroot, const char *path);
