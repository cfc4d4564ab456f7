/* Threads that end before a sample of theirs is due, and processes that the target starts. */

#include "base/clock.h"
#include "sampling/sampling_parts.h"
#include <string.h>
#include <time.h>

/* A thread has its first sample when it has run for a period: those that end sooner are never seen by events of their
 * own. Events of whole cpus see their share. */
#define GONE_NS_LEAST (10 * NS_PER_MS)
#define GONE_SHARE 0.2
#define NAMES_MAX 256 /* of processes it started; all others are the last one's */
#define PROCESSES_MAX 65536

/* Also of threads that have ended; 0 when it is not known. */
static uint64_t process_clock_ns(pid_t pid)
{
	clockid_t clock;
	struct timespec t;
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)timespec_ns(t);
}

static void note_early(struct sampling *g, pid_t tid)
{
	struct sampling_clock c;
	if (!sampling_task_clock(g->exam->patient->target.pid, tid, &c))
		return;
	*map_u64_put(&g->lives.by_thread, (uint64_t)tid, NULL) = c.cpu_ns;
	g->lives.threads_ns += c.cpu_ns;
}

/* The process first: what threads use until they are asked then counts for the living. */
void sampling_lives_begin(struct sampling *g)
{
	g->lives.process_ns = process_clock_ns(g->exam->patient->target.pid);
	sampling_each_thread(g, note_early);
}

static void note_since(struct sampling *g, pid_t tid)
{
	struct sampling_clock c;
	uint64_t *early = map_u64_get(&g->lives.by_thread, (uint64_t)tid);
	if (sampling_task_clock(g->exam->patient->target.pid, tid, &c))
		g->lives.since_ns += c.cpu_ns - MIN(c.cpu_ns, early ? *early : 0);
}

/* Just now, and in all its life: a thread of the runtime's that ends with our asking for names is no habit. */
bool sampling_lives_are_short(struct sampling *g)
{
	const struct sampling_lives *l = &g->lives;
	uint64_t now = process_clock_ns(g->exam->patient->target.pid);
	if (!now || !l->process_ns)
		return false;
	sampling_each_thread(g, note_since);
	uint64_t since = now - MIN(now, l->process_ns), gone = since - MIN(since, l->since_ns);
	uint64_t before = l->process_ns - MIN(l->process_ns, l->threads_ns);
	return gone >= GONE_NS_LEAST && (double)gone >= GONE_SHARE * (double)since &&
	       (double)before >= GONE_SHARE * (double)l->process_ns;
}

/* --- processes that it started --- */

/* Until it becomes another program it is a copy of the target and has its name. */
static size_t started_name(struct sampling *g, const char *name, size_t len)
{
	struct sampling_started s = { .ns = 0 };
	memcpy(s.name, name, MIN(len, sizeof(s.name) - 1));
	for (size_t i = 0; i < g->children.n; i++) {
		if (!strcmp(g->children.v[i].name, s.name))
			return i;
	}
	if (g->children.n < NAMES_MAX)
		vec_push(&g->children, s);
	return g->children.n - 1;
}

void sampling_on_started(struct sampling *g, const struct record *r)
{
	uint64_t *index = map_u64_get(&g->children_index, r->pid);
	if (r->kind == RECORD_COMM && (index || g->children_index.n < PROCESSES_MAX)) {
		size_t name = started_name(g, r->comm, strnlen(r->comm, r->comm_len));
		*map_u64_put(&g->children_index, r->pid, NULL) = name + 1;
	} else if (r->kind == RECORD_SAMPLE) {
		const char *own = g->exam->patient->target.name;
		size_t name = index ? *index - 1 : started_name(g, own ? own : "", own ? strlen(own) : 0);
		g->children.v[name].ns += r->period;
		g->facts->started_ns += r->period;
	}
}

void sampling_started_sum(struct sampling *g)
{
	uint64_t most = 0;
	vec_each(s, &g->children) {
		if (s->ns > most)
			memcpy(g->facts->started, s->name, sizeof(s->name));
		most = MAX(most, s->ns);
	}
}

void sampling_lives_fini(struct sampling *g)
{
	map_u64_free(&g->lives.by_thread);
	map_u64_free(&g->children_index);
	vec_free(&g->children);
}
