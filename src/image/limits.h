#pragma once
/* How much room there is for a copy: the process's memory, its memory cgroups (v1 and v2, every level that we can see),
 * the machine. Reads files only. Private to image.
 *
 * Everything is read below `proc`, "/proc" but for tests. */

#include "base/base.h"
#include "base/err.h"
#include "target/cgroup.h"

struct limits_process {
	uint64_t rss, anon, page_tables, huge; /* bytes; huge: of large pages, which a copy needs twice */
	uint64_t threads;
	char state;
	pid_t tracer;
	int seccomp; /* of any thread: 0 none, 1 strict, 2 filter */
	bool shadow_stack;
	uint64_t start_ticks;
};
struct err *limits_read_process(const char *proc, pid_t pid, struct limits_process *ret) MUST_USE;
/* A thread of it in an uninterruptible wait (on a disk, in vfork, frozen); 0 = none. */
pid_t limits_stuck_thread(const char *proc, pid_t pid);

/* Files that are read again and again while a copy lives. */
struct limits_watch {
	struct cgroup memory;
	struct cgroup freezer; /* its own group first */
	char *meminfo;
	bool hidden; /* it is in a cgroup whose files we cannot see */
};
struct limits_room {
	uint64_t bytes; /* how much memory is free where the least is free; UINT64_MAX = no limit anywhere */
	bool machine;	/* that is the machine, not a cgroup */
	bool oom_group; /* when it is used up, the kernel kills the whole cgroup */
	uint64_t limit; /* how much there is in all, in the same place */
};
void limits_watch_init(struct limits_watch *w, const char *proc, pid_t pid);
void limits_watch_fini(struct limits_watch *w);
struct limits_room limits_watch_room(const struct limits_watch *w);
bool limits_frozen(const struct limits_watch *w);

/* How many bytes must be free before a copy of this process is made. */
uint64_t limits_need(const struct limits_process *p);
/* While a copy lives: it is dropped when fewer bytes than this are free. */
uint64_t limits_reserve(uint64_t limit);
/* How long a copy of this process will stop it, as predicted. */
uint64_t limits_pause_ns(const struct limits_process *p);

/* Of /proc/PID/smaps_rollup: bytes that it shares with no other process. */
uint64_t limits_private_bytes(const char *proc, pid_t pid);
