#pragma once
/* Gives up every right, irrevocably, before untrusted code is loaded.
 *
 * After sandbox_enter: no open, no new process or thread, no network, no access to other processes; memory, CPU time
 * and descriptors are limited; nothing is written to disk. The one file that may still be "opened" is the library whose
 * descriptor was passed in: the filter traps the loader's openat and returns a copy of that descriptor, so that not
 * even its constructors can open a file. After sandbox_seal: no new executable memory.
 *
 * Knows nothing of .NET. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sandbox_limits {
	uint64_t memory_bytes;
	uint32_t cpu_seconds;
	unsigned n_fds; /* descriptors 0 to n_fds - 1 stay, all others are closed */
};

/* NULL, or what could not be given up (then no untrusted code may be loaded). */
const char *sandbox_enter(const struct sandbox_limits *limits);
/* dlopen of an open file inside the sandbox; NULL and dlerror() as usual. */
void *sandbox_load(int library_fd);
const char *sandbox_seal(void);
