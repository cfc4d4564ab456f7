#pragma once
/* How much CPU a process may use: the CPUs it is allowed on, and the CPU limits of the cgroups it is in. Reads only. */

#include "base/base.h"

struct target_cpus {
	uint32_t machine;	   /* that are there */
	uint32_t allowed;	   /* that it is allowed on; 0 = not known */
	double usable;		   /* what it may use at once; as many as the machine has when nothing limits it */
	bool limited;		   /* ... because of a cgroup's limit, not of the CPUs it is allowed on */
	uint64_t periods, stopped; /* of that limit, so far: periods with work; those in which all was used up */
	uint64_t stopped_ns;	   /* ... and how long its threads stood still for it, all together */
};

/* pid 0: not visible, so only the machine is known. `proc` is "/proc" but for tests. */
struct target_cpus target_cpus(const char *proc, pid_t pid);
