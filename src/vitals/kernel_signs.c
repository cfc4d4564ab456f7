#include "vitals/kernel_signs.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "target/cpus.h"
#include "target/groups.h"
#include "target/threads.h"
#include "vitals/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESTLESS_NS ((double)NS_PER_MS)
#define RESTLESS_SHARE 0.3

/* Totals so far; UINT64_MAX = not known. */
struct kernel_totals {
	uint64_t at_ns, cpu_ns;
	uint64_t periods, stopped, stopped_ns; /* of the CPU limit */
	uint64_t pressure_ns;
};

struct kernel_signs {
	const char *proc;
	const struct target *target;
	struct kernel_totals first, last;
	struct target_threads at_first;
	bool begun;
};

struct kernel_signs *kernel_signs_new(const char *proc, const struct target *target)
{
	struct kernel_signs *k = mem_zalloc(sizeof(*k));
	k->proc = proc;
	k->target = target;
	return k;
}

void kernel_signs_free(struct kernel_signs *k)
{
	if (!k)
		return;
	vec_free(&k->at_first);
	mem_free(k);
}

/* ---- memory ---- */

static double status_bytes(const char *text, const char *key)
{
	const char *line = strstr(text, key);
	return line ? strtod(line + strlen(key), NULL) * 1024 : NAN;
}

static void add_memory(const struct kernel_signs *k, uint64_t at_ns, struct vitals *v)
{
	static const struct {
		enum vital_id id;
		const char *key;
	} lines[] = {
		{ VITALS_RSS, "\nVmRSS:" },	   { VITALS_RSS_ANON, "\nRssAnon:" },
		{ VITALS_RSS_FILE, "\nRssFile:" }, { VITALS_RSS_SHMEM, "\nRssShmem:" },
		{ VITALS_SWAP, "\nVmSwap:" },
	};
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!file_text(&text, "%s/%d/status", k->proc, (int)k->target->pid))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		vitals_add(v, lines[i].id, at_ns, status_bytes(buf_cstr(&text), lines[i].key));
	const char *threads = strstr(buf_cstr(&text), "\nThreads:");
	if (threads)
		vitals_add(v, VITALS_THREADS, at_ns, strtod(threads + strlen("\nThreads:"), NULL));
}

/* ---- control groups ---- */

/* A number that a group may not have. */
static double told(uint64_t n)
{
	return n == GROUP_NONE ? NAN : (double)n;
}

/* Of the level whose limit is the nearest; page cache that can be given back does not count. */
static void add_memory_group(const struct kernel_signs *k, struct kernel_totals *now, struct vitals *v)
{
	CLEANUP(groups_fini) struct groups g = { 0 };
	groups_add(&g, k->proc, k->target->pid, GROUP_MEMORY);
	const struct group_level *least = groups_least(&g, GROUP_MEMORY);
	if (least) {
		vitals_add(v, VITALS_MEMORY_LIMIT, now->at_ns, told(least->of[GROUP_MEMORY_LIMIT]));
		vitals_add(v, VITALS_MEMORY_USED, now->at_ns, told(group_memory(least)));
	} else {
		vitals_absent(v, VITALS_MEMORY_LIMIT, "no memory limit is set");
		vitals_absent(v, VITALS_MEMORY_USED, "no memory limit is set");
	}
	now->pressure_ns = UINT64_MAX;
	if (!g.levels.n)
		return;
	const uint64_t *own = g.levels.v[0].of;
	now->pressure_ns = own[GROUP_MEMORY_STALL_NS];
	vitals_add(v, VITALS_MEMORY_KILLS, now->at_ns, told(own[GROUP_MEMORY_KILLS]));
}

static void add_pids(const struct kernel_signs *k, uint64_t at_ns, struct vitals *v)
{
	CLEANUP(groups_fini) struct groups g = { 0 };
	groups_add(&g, k->proc, k->target->pid, GROUP_PIDS);
	const struct group_level *least = groups_least(&g, GROUP_PIDS);
	if (least) {
		vitals_add(v, VITALS_PIDS_LIMIT, at_ns, told(least->of[GROUP_PIDS_LIMIT]));
		vitals_add(v, VITALS_PIDS, at_ns, told(least->of[GROUP_PIDS_USED]));
	} else {
		vitals_absent(v, VITALS_PIDS_LIMIT, "no limit of threads is set");
		vitals_absent(v, VITALS_PIDS, "no limit of threads is set");
	}
}

/* ---- CPU ---- */

/* What happened since: of totals that are known at both ends. */
static double since(uint64_t before, uint64_t now)
{
	return before == UINT64_MAX || now == UINT64_MAX || now < before ? NAN : (double)(now - before);
}

static void take_cpu(const struct kernel_signs *k, struct kernel_totals *ret, struct vitals *v)
{
	struct target_cpus cpus = target_cpus(k->proc, k->target->pid);
	ret->cpu_ns = UINT64_MAX;
	if (!target_cpu_ns(k->target, &ret->cpu_ns))
		ret->cpu_ns = UINT64_MAX;
	vitals_add(v, VITALS_CPU_USABLE, ret->at_ns, cpus.usable);
	ret->periods = cpus.periods;
	ret->stopped = cpus.stopped;
	ret->stopped_ns = cpus.stopped_ns;
}

/* Between two readings. */
static void add_cpu(const struct kernel_totals *from, const struct kernel_totals *to, struct vitals *v)
{
	double ns = (double)(to->at_ns - from->at_ns);
	double cores = since(from->cpu_ns, to->cpu_ns) / ns, periods = since(from->periods, to->periods);
	vitals_add(v, VITALS_CPU, to->at_ns, cores);
	vitals_add(v, VITALS_CPU_RATIO, to->at_ns, cores / v->of[VITALS_CPU_USABLE].last);
	vitals_add(v, VITALS_THROTTLED, to->at_ns, periods > 0 ? since(from->stopped, to->stopped) / periods : 0);
	vitals_add(v, VITALS_THROTTLED_TIME, to->at_ns, since(from->stopped_ns, to->stopped_ns) / ns);
	vitals_add(v, VITALS_MEMORY_PRESSURE, to->at_ns, since(from->pressure_ns, to->pressure_ns) / ns);
}

/* ---- threads ---- */

static int busiest_first(const void *a, const void *b)
{
	const struct vitals_thread *x = a, *y = b;
	return CMP(y->wants, x->wants);
}

/* Was it mostly the kernel that took the CPU from it, since it began? One that waits gives it back by itself. */
static bool is_preempted(const struct kernel_signs *k, pid_t tid)
{
	static const char by_itself[] = "\nvoluntary_ctxt_switches:", by_kernel[] = "nonvoluntary_ctxt_switches:";
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!file_text(&text, "%s/%d/task/%d/status", k->proc, (int)k->target->pid, (int)tid))
		return false;
	const char *own = strstr(buf_cstr(&text), by_itself), *forced = strstr(buf_cstr(&text), by_kernel);
	return own && forced &&
	       strtoull(forced + strlen(by_kernel), NULL, 10) > strtoull(own + strlen(by_itself), NULL, 10);
}

/* A thread that computes without rest: on a busy machine what it waits for a CPU counts as well. One that only wakes up
 * often waits too, but runs shortly and stops by itself. */
static double wants(const struct kernel_signs *k, const struct vitals_thread *t, double ran_ns, double turns)
{
	bool much = t->cpu + t->waiting >= RESTLESS_SHARE;
	bool restless = much && turns > 0 && (ran_ns / turns >= RESTLESS_NS || is_preempted(k, t->tid));
	return t->cpu + (restless ? t->waiting : 0);
}

static void add_threads(const struct kernel_signs *k, uint64_t at_ns, struct vitals *v)
{
	CLEANUP(map_u64_free) struct map_u64 index = { 0 };
	struct target_threads now = { 0 };
	VEC(struct vitals_thread) busy = { 0 };
	double ns = (double)(at_ns - k->first.at_ns), waiting = 0, turns = 0, new = 0;
	err_ignore(target_threads(k->target, &now));
	for (size_t i = 0; i < k->at_first.n; i++)
		*map_u64_put(&index, (uint64_t)k->at_first.v[i].tid, NULL) = i;
	vec_each(t, &now) {
		const uint64_t *at = map_u64_get(&index, (uint64_t)t->tid);
		const struct target_thread none = { 0 }, *before = at ? &k->at_first.v[*at] : &none;
		new += !at;
		if (t->cpu_ns == UINT64_MAX || before->cpu_ns > t->cpu_ns || before->delay_ns > t->delay_ns)
			continue;
		struct vitals_thread one = { .tid = t->tid,
					     .cpu = (double)(t->cpu_ns - before->cpu_ns) / ns,
					     .waiting = (double)(t->delay_ns - before->delay_ns) / ns };
		double times = (double)(t->turns - MIN(before->turns, t->turns));
		str_copy(one.name, sizeof(one.name), t->name);
		one.wants = wants(k, &one, one.cpu * ns, times);
		waiting += one.waiting;
		turns += times;
		vec_push(&busy, one);
	}
	vec_sort(&busy, busiest_first);
	v->n_threads = MIN(busy.n, (size_t)VITALS_THREADS_MAX);
	for (size_t i = 0; i < v->n_threads; i++)
		v->threads[i] = busy.v[i];
	if (busy.n) {
		vitals_add(v, VITALS_CPU_THREAD, at_ns, busy.v[0].wants);
		vitals_add(v, VITALS_THREADS_NEW, at_ns, new);
		vitals_add(v, VITALS_CPU_WAITING, at_ns, waiting);
		vitals_add(v, VITALS_CPU_SWITCHES, at_ns, turns * 1e9 / ns);
	}
	vec_free(&busy);
	vec_free(&now);
}

static void add_states(const struct kernel_signs *k, uint64_t at_ns, struct vitals *v)
{
	unsigned states[128];
	if (target_thread_states(k->target, states))
		vitals_add(v, VITALS_THREADS_DISK, at_ns, states['D']);
}

/* ---- readings ---- */

static void take(struct kernel_signs *k, struct kernel_totals *ret, struct vitals *v)
{
	*ret = (struct kernel_totals){ .at_ns = clock_mono_ns() };
	take_cpu(k, ret, v);
	add_memory(k, ret->at_ns, v);
	add_memory_group(k, ret, v);
	add_pids(k, ret->at_ns, v);
	add_states(k, ret->at_ns, v);
}

void kernel_signs_read(struct kernel_signs *k, struct vitals *v)
{
	struct kernel_totals now;
	if (!k->target->pid) {
		vitals_lack_source(v, VITAL_OF_PROC, "its process is not visible from here");
		vitals_lack_source(v, VITAL_OF_CGROUP, "its process is not visible from here");
		return;
	}
	take(k, &now, v);
	if (k->begun) {
		add_cpu(&k->last, &now, v);
	} else {
		k->begun = true;
		k->first = now;
		v->start_ns = now.at_ns;
		err_ignore(target_threads(k->target, &k->at_first));
		descriptor_signs(k->proc, k->target->pid, now.at_ns, v);
	}
	k->last = now;
}

void kernel_signs_end(struct kernel_signs *k, struct vitals *v)
{
	kernel_signs_read(k, v);
	v->end_ns = clock_mono_ns();
	if (!k->begun || k->last.at_ns == k->first.at_ns)
		return;
	uint64_t at_ns = k->last.at_ns;
	add_threads(k, at_ns, v);
	descriptor_signs(k->proc, k->target->pid, at_ns, v);
	vitals_lack_source(v, VITAL_OF_PROC, "the kernel does not show it to this user");
	vitals_lack_source(v, VITAL_OF_CGROUP, "its control group does not tell");
}
