#include "target/cpus.h"
#include "target/groups.h"
#include <sched.h>
#include <unistd.h>

/* More is no limit but a number that was never meant. */
#define CPUS_MAX 65536

/* How many CPUs it is allowed on; 0 = not known. */
static uint32_t allowed_on(pid_t pid)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	if (!set)
		return 0;
	int n = sched_getaffinity(pid, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
	CPU_FREE(set);
	return (uint32_t)n;
}

static uint64_t told(uint64_t n)
{
	return n == GROUP_NONE ? 0 : n;
}

struct target_cpus target_cpus(const char *proc, pid_t pid)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct target_cpus c = { .machine = online > 0 ? (uint32_t)online : 1 };
	c.usable = c.machine;
	if (!pid)
		return c;
	c.allowed = allowed_on(pid);
	if (c.allowed && c.allowed < c.machine)
		c.usable = c.allowed;
	CLEANUP(groups_fini) struct groups g = { 0 };
	groups_add(&g, proc, pid, GROUP_CPU);
	const struct group_level *l = groups_least(&g, GROUP_CPU);
	if (!l || group_cpus(l) >= MIN(c.usable, CPUS_MAX))
		return c;
	c.usable = group_cpus(l);
	c.limited = true;
	c.periods = told(l->of[GROUP_CPU_PERIODS]);
	c.stopped = told(l->of[GROUP_CPU_STOPPED]);
	c.stopped_ns = told(l->of[GROUP_CPU_STOPPED_NS]);
	return c;
}
