#pragma once
/* What the control groups of a process say of themselves, v1 and v2 alike: limits, and what is used of them. Reads files
 * only. A number that a version of control groups does not have, or that is no limit, is GROUP_NONE.
 *
 * Everything is read below `proc`, "/proc" but for tests. */

#include "base/json.h"
#include "base/vec.h"

enum group_kind { GROUP_CPU, GROUP_MEMORY, GROUP_PIDS, GROUP_KINDS };

/* The second number of a file's first line. */
#define GROUP_SECOND ""

/* X(name, id, kind, v1: file, key, scale, v2: file, key, scale). Without a key it is the number that the file begins
 * with, else the one behind that word at the start of a line. Without a file that version does not tell. */
#define GROUP_NUMBERS(X)                                                                                               \
	X(CPU_QUOTA, "cpu-quota", CPU, "cpu.cfs_quota_us", NULL, 1, "cpu.max", NULL, 1)                                \
	X(CPU_PERIOD, "cpu-period", CPU, "cpu.cfs_period_us", NULL, 1, "cpu.max", GROUP_SECOND, 1)                     \
	X(CPU_PERIODS, "cpu-periods", CPU, "cpu.stat", "nr_periods", 1, "cpu.stat", "nr_periods", 1)                   \
	X(CPU_STOPPED, "cpu-stopped", CPU, "cpu.stat", "nr_throttled", 1, "cpu.stat", "nr_throttled", 1)               \
	X(CPU_STOPPED_NS, "cpu-stopped-ns", CPU, "cpu.stat", "throttled_time", 1, "cpu.stat", "throttled_usec", 1000)  \
	X(CPU_STALL_NS, "cpu-stall-ns", CPU, NULL, NULL, 1, "cpu.pressure", "some", 1000)                              \
	X(MEMORY_LIMIT, "memory-limit", MEMORY, "memory.limit_in_bytes", NULL, 1, "memory.max", NULL, 1)               \
	X(MEMORY_HIGH, "memory-high", MEMORY, NULL, NULL, 1, "memory.high", NULL, 1)                                   \
	X(MEMORY_USED, "memory-used", MEMORY, "memory.usage_in_bytes", NULL, 1, "memory.current", NULL, 1)             \
	X(MEMORY_PEAK, "memory-peak", MEMORY, "memory.max_usage_in_bytes", NULL, 1, "memory.peak", NULL, 1)            \
	X(MEMORY_SWAP, "memory-swap", MEMORY, "memory.stat", "total_swap", 1, "memory.swap.current", NULL, 1)          \
	X(MEMORY_SWAP_LIMIT, "memory-swap-limit", MEMORY, NULL, NULL, 1, "memory.swap.max", NULL, 1)                   \
	X(MEMORY_ANON, "memory-anon", MEMORY, "memory.stat", "total_rss", 1, "memory.stat", "anon", 1)                 \
	X(MEMORY_FILE, "memory-file", MEMORY, "memory.stat", "total_cache", 1, "memory.stat", "file", 1)               \
	X(MEMORY_SHMEM, "memory-shmem", MEMORY, "memory.stat", "total_shmem", 1, "memory.stat", "shmem", 1)            \
	X(MEMORY_IDLE, "memory-idle", MEMORY, "memory.stat", "total_inactive_file", 1, "memory.stat", "inactive_file", \
	  1)                                                                                                           \
	X(MEMORY_KERNEL, "memory-kernel", MEMORY, "memory.kmem.usage_in_bytes", NULL, 1, "memory.stat", "kernel", 1)   \
	X(MEMORY_REACHED, "memory-reached", MEMORY, "memory.failcnt", NULL, 1, "memory.events", "max", 1)              \
	X(MEMORY_SLOWED, "memory-slowed", MEMORY, NULL, NULL, 1, "memory.events", "high", 1)                           \
	X(MEMORY_KILLS, "memory-kills", MEMORY, "memory.oom_control", "oom_kill", 1, "memory.events", "oom_kill", 1)   \
	X(MEMORY_STALL_NS, "memory-stall-ns", MEMORY, NULL, NULL, 1, "memory.pressure", "some", 1000)                  \
	X(PIDS_LIMIT, "pids-limit", PIDS, "pids.max", NULL, 1, "pids.max", NULL, 1)                                    \
	X(PIDS_USED, "pids-used", PIDS, "pids.current", NULL, 1, "pids.current", NULL, 1)                              \
	X(PIDS_REFUSED, "pids-refused", PIDS, "pids.events", "max", 1, "pids.events", "max", 1)

enum group_number {
#define GROUP_ENUM(name, id, kind, file1, key1, scale1, file2, key2, scale2) GROUP_##name,
	GROUP_NUMBERS(GROUP_ENUM)
#undef GROUP_ENUM
		GROUP_NUMBERS_N
};

#define GROUP_NONE UINT64_MAX

struct group_level {
	enum group_kind kind;
	bool v2;
	char *path; /* below the root of its hierarchy: "/kubepods/pod1/app"; "/" is the root. Not trusted */
	uint64_t of[GROUP_NUMBERS_N];
};
/* By kind; of each its own level first, then each above it: a limit holds for all below. Levels that say nothing, as the
 * root of v2, are left out. */
struct groups {
	VEC(struct group_level) levels;
	bool hidden; /* it is in a group whose files we cannot see */
};

/* Adds the levels of one kind. pid 0 has none. */
void groups_add(struct groups *g, const char *proc, pid_t pid, enum group_kind kind);
void groups_fini(struct groups *g);
/* How many CPUs the level's own limit allows; INFINITY = it has none. */
double group_cpus(const struct group_level *l);
/* What counts against the memory limit: page cache that can be given back does not. GROUP_NONE = not known. */
uint64_t group_memory(const struct group_level *l);
/* Of the levels with that kind the one whose limit is the least, or NULL when none limits it. */
const struct group_level *groups_least(const struct groups *g, enum group_kind kind);

/* For a recording; what comes back may be damaged or hostile. */
json_t *groups_json(const struct groups *g);
void groups_from_json(const json_t *json, struct groups *ret);
