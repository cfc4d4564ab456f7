#pragma once
/* What a process could run out of: looks at every limit that the kernel keeps for it, and what is used of each. Reads
 * files of /proc and of control groups only; nothing is stopped.
 *
 * A look is what was read at one moment. What costs a system call for each descriptor or socket is read only in the looks
 * that ask for it: the first and the last of a window. A number that could not be read is LIMITS_NONE. */

#include "base/err.h"
#include "target/groups.h"
#include "target/target.h"

/* X(name, id). The order is that of what a recording keeps. */
#define LIMITS_NUMBERS(X)                                                                                              \
	X(FDS, "fds")                                                                                                  \
	X(FDS_LIMIT, "fds-limit")                                                                                      \
	X(USER_THREADS, "user-threads")                                                                                \
	X(USER_THREADS_LIMIT, "user-threads-limit")                                                                    \
	X(MAPS, "maps")                                                                                                \
	X(MAPS_LIMIT, "maps-limit")                                                                                    \
	X(INOTIFY, "inotify")                                                                                          \
	X(INOTIFY_LIMIT, "inotify-limit")                                                                              \
	X(PORTS, "ports")                                                                                              \
	X(PORTS_LIMIT, "ports-limit")                                                                                  \
	X(TIME_WAIT, "time-wait")                                                                                      \
	X(FILES, "machine-files")                                                                                      \
	X(FILES_LIMIT, "machine-files-limit")                                                                          \
	X(THREADS, "machine-threads")                                                                                  \
	X(THREADS_LIMIT, "machine-threads-limit")                                                                      \
	X(RAM, "machine-memory")                                                                                       \
	X(RAM_LIMIT, "machine-memory-limit")                                                                           \
	X(RSS, "rss")                                                                                                  \
	X(HUGE, "huge-pages")                                                                                          \
	X(CPU_NS, "cpu-ns")                                                                                            \
	X(CPUS_MACHINE, "cpus-machine")                                                                                \
	X(CPUS_ALLOWED, "cpus-allowed")

enum limits_number {
#define LIMITS_ENUM(name, id) LIMITS_##name,
	LIMITS_NUMBERS(LIMITS_ENUM)
#undef LIMITS_ENUM
		LIMITS_NUMBERS_N
};
#define LIMITS_NONE UINT64_MAX

struct limits_look {
	uint64_t at_ns; /* monotonic */
	uint64_t of[LIMITS_NUMBERS_N];
	struct groups groups;
	char ports_to[64]; /* where most of the ports in use lead to; "" = not known */
};
#define LIMITS_LOOKS_MAX 64
VEC_TYPE(limits_looks, struct limits_look);

/* `proc` is "/proc" but for tests. whole: also what costs more. */
void limits_look(const char *proc, const struct target *t, bool whole, struct limits_look *ret);
void limits_look_fini(struct limits_look *l);
void limits_looks_free(struct limits_looks *looks);

/* For a recording; what comes back may be damaged or hostile. */
json_t *limits_looks_json(const struct limits_looks *looks);
struct err *limits_looks_from_json(const json_t *json, struct limits_looks *ret) MUST_USE;
