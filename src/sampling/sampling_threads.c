/* Threads of the target and their CPU time, from /proc. */

#include "base/clock.h"
#include "base/fd.h"
#include "sampling/sampling_parts.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread that runs for less at a time gave its cpu away: it waits for work, or spins as idle workers of the pool do.
 */
#define RUN_NS_LEAST 300000

bool sampling_task_clock(pid_t pid, pid_t tid, struct sampling_clock *ret)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 256, &text);
	bool ok = !err && text.len;
	err_free(err);
	unsigned long long run, delay, runs;
	if (!ok || sscanf(text.data, "%llu %llu %llu", &run, &delay, &runs) != 3)
		return false;
	*ret = (struct sampling_clock){ run, delay, runs };
	return true;
}

/* utime and stime of /proc/PID/stat, in ticks: also counts threads that have ended. */
static bool process_cpu_ns(pid_t pid, uint64_t *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 4096, &text);
	const char *after = !err && text.len ? strrchr(text.data, ')') : NULL;
	err_free(err);
	unsigned long long user, system;
	if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		return false;
	*ret = (user + system) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return true;
}

void sampling_each_thread(struct sampling *g, void (*each)(struct sampling *g, pid_t tid))
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)g->exam->patient->target.pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (atoi(e->d_name) > 0)
			each(g, atoi(e->d_name));
	}
	if (dir)
		closedir(dir);
}

/* Thread ids of events are those of the target's own pid namespace. */
static uint32_t own_tid(pid_t pid, pid_t tid)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 16384, &text);
	const char *line = !err && text.len ? strstr(text.data, "\nNSpid:") : NULL;
	err_free(err);
	if (!line)
		return (uint32_t)tid;
	unsigned long last = (unsigned long)tid;
	char *at, *end;
	for (at = strchr(line + 1, ':') + 1; *at && *at != '\n'; at = end) {
		unsigned long n = strtoul(at, &end, 10);
		if (end == at)
			break;
		last = n;
	}
	return (uint32_t)last;
}

uint32_t sampling_thread(struct sampling *g, uint32_t tid)
{
	bool new;
	uint32_t thread = samples_thread(g->samples, tid, &new);
	if (!new || g->agent)
		return thread;
	pid_t pid = g->exam->patient->target.pid;
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%u/comm", (int)pid, tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 64, &text);
	if (!err && text.len)
		samples_thread_name(g->samples, thread, text.data, strcspn(text.data, "\n"));
	err_free(err);
	if (g->exam->patient->target.other_pid_ns)
		g->samples->threads.v[thread].own_tid = own_tid(pid, (pid_t)tid);
	return thread;
}

static void note_start(struct sampling *g, pid_t tid)
{
	struct sampling_clock c;
	if (!sampling_task_clock(g->exam->patient->target.pid, tid, &c))
		return;
	/* On its own: it may move the threads. */
	uint32_t thread = sampling_thread(g, (uint32_t)tid);
	struct samples_thread *t = &g->samples->threads.v[thread];
	t->start_cpu_ns = c.cpu_ns;
	t->start_delay_ns = c.delay_ns;
	t->start_runs = c.runs;
}

uint64_t sampling_lacked_ns(uint64_t cpu_ns, uint64_t delay_ns, uint64_t runs)
{
	return runs && cpu_ns / runs < RUN_NS_LEAST ? 0 : delay_ns;
}

static void note_end(struct sampling *g, pid_t tid)
{
	struct sampling_clock c;
	if (!sampling_task_clock(g->exam->patient->target.pid, tid, &c))
		return;
	/* One that began in the window started from nothing. */
	/* On its own: it may move the threads. */
	uint32_t thread = sampling_thread(g, (uint32_t)tid);
	struct samples_thread *t = &g->samples->threads.v[thread];
	t->cpu_ns = c.cpu_ns - MIN(c.cpu_ns, t->start_cpu_ns);
	g->facts->runs += c.runs - MIN(c.runs, t->start_runs);
	g->facts->delay_ns += sampling_lacked_ns(t->cpu_ns, c.delay_ns - MIN(c.delay_ns, t->start_delay_ns),
						 c.runs - MIN(c.runs, t->start_runs));
}

void sampling_clocks_start(struct sampling *g)
{
	sampling_each_thread(g, note_start);
	if (!process_cpu_ns(g->exam->patient->target.pid, &g->start_cpu_ns))
		g->start_cpu_ns = UINT64_MAX;
}

void sampling_clock_stop(struct sampling *g)
{
	uint64_t ns;
	if (g->start_cpu_ns != UINT64_MAX && process_cpu_ns(g->exam->patient->target.pid, &ns))
		g->facts->cpu_ns = ns - MIN(ns, g->start_cpu_ns);
}

void sampling_clocks_stop(struct sampling *g)
{
	sampling_each_thread(g, note_end);
}

void sampling_on_thread(void *user, const struct attach_thread *t)
{
	struct sampling *g = user;
	uint32_t thread = sampling_thread(g, t->tid);
	struct samples_thread *to = &g->samples->threads.v[thread];
	if (*t->name)
		samples_thread_name(g->samples, thread, t->name, strlen(t->name));
	g->facts->delay_ns += t->last ? t->delay_ns : -t->delay_ns;
	if (t->last)
		to->cpu_ns = t->cpu_ns - MIN(t->cpu_ns, to->start_cpu_ns);
	else
		to->start_cpu_ns = t->cpu_ns;
}
