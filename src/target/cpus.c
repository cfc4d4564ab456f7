#include "target/cpus.h"
#include "target/cgroup.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More is no limit but a number that was never meant. */
#define CPUS_MAX 65536

/* "50000 100000" or "max 100000"; v1 has a file for each. False without a limit. */
static bool limit_of(const struct cgroup_level *l, double *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	char *end = NULL;
	uint64_t period;
	if (!cgroup_read(l, l->v2 ? "cpu.max" : "cpu.cfs_quota_us", &text) || !text.len || text.data[0] < '0' ||
	    text.data[0] > '9')
		return false;
	uint64_t quota = strtoull(text.data, &end, 10);
	period = l->v2 ? strtoull(end, NULL, 10) : cgroup_number(l, "cpu.cfs_period_us", 0);
	if (!quota || !period)
		return false;
	*ret = (double)quota / (double)period;
	return *ret < CPUS_MAX;
}

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

struct target_cpus target_cpus(const char *proc, pid_t pid)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct target_cpus c = { .machine = online > 0 ? (uint32_t)online : 1 };
	c.usable = c.machine;
	if (!pid)
		return c;
	uint32_t allowed = allowed_on(pid);
	if (allowed && allowed < c.machine)
		c.usable = allowed;
	CLEANUP(cgroup_fini) struct cgroup g = { 0 };
	cgroup_add(&g, proc, pid, "cpu", "cpu.cfs_quota_us");
	cgroup_add(&g, proc, pid, NULL, "cpu.max");
	for (size_t i = 0; i < g.n; i++) {
		const struct cgroup_level *l = &g.levels[i];
		double limit;
		if (!limit_of(l, &limit) || limit >= c.usable)
			continue;
		c.usable = limit;
		c.limited = true;
		c.periods = cgroup_stat(l, "cpu.stat", "nr_periods");
		c.stopped = cgroup_stat(l, "cpu.stat", "nr_throttled");
		c.stopped_ns = l->v2 ? cgroup_stat(l, "cpu.stat", "throttled_usec") * 1000
				     : cgroup_stat(l, "cpu.stat", "throttled_time");
	}
	return c;
}
