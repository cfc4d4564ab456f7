#pragma once
/* Gives up every right, for good, before code of strangers is loaded.
 *
 * After sandbox_enter: no open, no new process or thread, no network, no look into other processes; memory, CPU time
 * and descriptors are limited; nothing is written to disk. The one file that may still be "opened" is the library
 * whose descriptor was handed in: the filter traps the loader's openat and the answer is a copy of that descriptor,
 * so that not even while its constructors run is there a real open. After sandbox_seal: no new executable memory.
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

/* NULL, or what could not be given up (then nothing of strangers may be loaded). */
const char *sandbox_enter(const struct sandbox_limits *limits);
/* dlopen of an open file inside the sandbox; NULL and dlerror() as usual. */
void *sandbox_load(int library_fd);
const char *sandbox_seal(void);
