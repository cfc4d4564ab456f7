#include "vitals/runtime_signs.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "eventpipe/counters.h"
#include <math.h>
#include <string.h>

#define COUNTERS_KEYWORD ((uint64_t)1 << 43) /* no event of that provider but its counters */
#define COUNTERS_LEVEL 1
#define EVERY_SECOND "EventCounterIntervalSec=1"
#define SOURCE(provider)                                                                                               \
	{                                                                                                              \
		.name = (provider), .keywords = COUNTERS_KEYWORD, .level = COUNTERS_LEVEL, .args = EVERY_SECOND        \
	}

#define RUNTIME "System.Runtime"
#define HOSTING "Microsoft.AspNetCore.Hosting"
#define KESTREL "Microsoft-AspNetCore-Server-Kestrel"
#define HTTP "System.Net.Http"
#define SOCKETS "System.Net.Sockets"
#define DNS "System.Net.NameResolution"
#define NPGSQL "Npgsql"
#define SQL_CLIENT "Microsoft.Data.SqlClient.EventSource"

const struct ipc_provider runtime_signs_counters[RUNTIME_SIGNS_COUNTERS] = {
	SOURCE(RUNTIME), SOURCE(HOSTING),    SOURCE(KESTREL),
	SOURCE(HTTP),	 SOURCE(DNS),	     SOURCE(SOCKETS),
	SOURCE(NPGSQL),	 SOURCE(SQL_CLIENT), SOURCE("Microsoft.EntityFrameworkCore"),
};
const struct ipc_provider runtime_signs_gc = { .name = CLR_PROVIDER, .keywords = CLR_GC | CLR_THREADING, .level = 4 };
const struct ipc_provider runtime_signs_locks = { .name = CLR_PROVIDER, .keywords = CLR_CONTENTION, .level = 4 };

/* Which counter is which signal. scale: from the counter's unit to the signal's. */
static const struct counter_sign {
	const char *provider, *name;
	enum vital_id id;
	double scale;
} counter_signs[] = {
	{ RUNTIME, "gc-heap-size", VITALS_HEAP, 1e6 }, /* in MB of a million */
	{ RUNTIME, "gc-committed", VITALS_HEAP_COMMITTED, 1e6 },
	{ RUNTIME, "alloc-rate", VITALS_ALLOCATED, 1 },
	{ RUNTIME, "gc-fragmentation", VITALS_FRAGMENTED, 0.01 },
	{ RUNTIME, "time-in-gc", VITALS_GC_COUNTER, 0.01 },
	{ RUNTIME, "exception-count", VITALS_EXCEPTIONS, 1 },
	{ RUNTIME, "monitor-lock-contention-count", VITALS_CONTENTIONS, 1 },
	{ RUNTIME, "threadpool-thread-count", VITALS_POOL_THREADS, 1 },
	{ RUNTIME, "threadpool-queue-length", VITALS_POOL_QUEUE, 1 },
	{ RUNTIME, "threadpool-completed-items-count", VITALS_POOL_DONE, 1 },
	{ RUNTIME, "active-timer-count", VITALS_TIMERS, 1 },
	{ RUNTIME, "assembly-count", VITALS_ASSEMBLIES, 1 },
	{ RUNTIME, "methods-jitted-count", VITALS_JITTED, 1 },
	{ HOSTING, "requests-per-second", VITALS_REQUESTS, 1 },
	{ HOSTING, "current-requests", VITALS_REQUESTS_NOW, 1 },
	{ HOSTING, "failed-requests", VITALS_REQUESTS_FAILED, 1 },
	{ KESTREL, "current-connections", VITALS_KESTREL_CONNECTIONS, 1 },
	{ KESTREL, "connection-queue-length", VITALS_KESTREL_QUEUE, 1 },
	{ HTTP, "requests-started-rate", VITALS_HTTP_OUT, 1 },
	{ HTTP, "current-requests", VITALS_HTTP_OUT_NOW, 1 },
	{ HTTP, "requests-failed-rate", VITALS_HTTP_OUT_FAILED, 1 },
	{ HTTP, "http11-requests-queue-duration", VITALS_HTTP_OUT_QUEUE, 1e6 }, /* in ms */
	{ SOCKETS, "outgoing-connections-established", VITALS_CONNECTED, 1 },
	{ DNS, "dns-lookups-duration", VITALS_DNS, 1e6 },
	{ NPGSQL, "busy-connections", VITALS_DB_BUSY, 1 },
	{ NPGSQL, "idle-connections", VITALS_DB_IDLE, 1 },
	{ SQL_CLIENT, "number-of-active-connections", VITALS_DB_BUSY, 1 },
	{ SQL_CLIENT, "number-of-free-connections", VITALS_DB_IDLE, 1 },
};

/* Their counters add up from the start of the process; the signals are rates. */
static bool is_total(enum vital_id id)
{
	return id == VITALS_JITTED || id == VITALS_CONNECTED;
}

/* Their sources exist once they are used: where the runtime's own counters come and theirs do not, there is nothing. */
static const struct {
	enum vital_id id;
	const char *why;
} made_on_use[] = {
	{ VITALS_REQUESTS, "it serves no HTTP" },
	{ VITALS_REQUESTS_NOW, "it serves no HTTP" },
	{ VITALS_REQUESTS_FAILED, "it serves no HTTP" },
	{ VITALS_KESTREL_CONNECTIONS, "it serves no HTTP" },
	{ VITALS_KESTREL_QUEUE, "it serves no HTTP" },
	{ VITALS_HTTP_OUT, "it sends no HTTP requests" },
	{ VITALS_HTTP_OUT_NOW, "it sends no HTTP requests" },
	{ VITALS_HTTP_OUT_FAILED, "it sends no HTTP requests" },
	{ VITALS_HTTP_OUT_QUEUE, "no HTTP request waited" },
	{ VITALS_CONNECTED, "it opens no connections" },
	{ VITALS_DNS, "no name was looked up" },
};

void runtime_signs_init(struct runtime_signs *r, struct vitals *v)
{
	*r = (struct runtime_signs){ .vitals = v };
	gc_log_init(&r->gcs);
}

void runtime_signs_fini(struct runtime_signs *r)
{
	gc_log_fini(&r->gcs);
}

/* Since the last time it came. */
static void add_total(struct runtime_signs *r, enum vital_id id, uint64_t at_ns, double value)
{
	struct runtime_total *t = &r->totals[id];
	if (t->at_ns && at_ns > t->at_ns && value >= t->value)
		vitals_add(r->vitals, id, at_ns, (value - t->value) * 1e9 / (double)(at_ns - t->at_ns));
	*t = (struct runtime_total){ at_ns, value };
}

static void on_counter(struct runtime_signs *r, const struct nettrace_event *event)
{
	struct counters_event c;
	if (!counters_decode(event, &c) || c.news != COUNTERS_VALUE)
		return;
	double value = c.type == COUNTERS_RATE ? c.delta / (c.interval_s > 0 ? c.interval_s : 1) : c.value;
	r->counters++;
	/* Some runtimes report a heap below 0 between two collections: that was not measured. */
	if (value < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(counter_signs); i++) {
		const struct counter_sign *s = &counter_signs[i];
		if (!str_eq(s->provider, c.provider) || !str_eq(s->name, c.name))
			continue;
		if (is_total(s->id))
			add_total(r, s->id, event->time, value);
		else
			vitals_add(r->vitals, s->id, event->time, value * s->scale);
	}
}

/* Old objects as each full collection left them: what stays is what grows when memory leaks. */
static void on_heap_stats(struct runtime_signs *r, const struct nettrace_event *event)
{
	struct clr_heap_stats stats;
	if (clr_decode_heap_stats(event, &stats))
		vitals_add(r->vitals, VITALS_HEAP_OLD, event->time, (double)(stats.size[2] + stats.size[3]));
}

static void on_lock(struct runtime_signs *r, const struct nettrace_event *event)
{
	uint64_t ns;
	if (!clr_decode_contention_stop(event, &ns))
		return;
	r->lock_waits++;
	r->lock_ns += ns;
	r->lock_longest_ns = MAX(r->lock_longest_ns, ns);
}

static void on_pool(struct runtime_signs *r, const struct nettrace_event *event)
{
	struct clr_pool_adjustment a;
	if (clr_decode_pool_adjustment(event, &a))
		r->starved += a.reason == CLR_POOL_STARVATION || a.reason == CLR_POOL_COOPERATIVE_BLOCKING;
}

void runtime_signs_event(struct runtime_signs *r, const struct nettrace_event *event)
{
	switch (clr_event(event)) {
	case CLR_CONTENTION_STOP:
		on_lock(r, event);
		break;
	case CLR_POOL_ADJUSTMENT:
		on_pool(r, event);
		break;
	case CLR_GC_HEAP_STATS:
		on_heap_stats(r, event);
		gc_log_event(&r->gcs, event);
		break;
	case CLR_UNKNOWN:
		on_counter(r, event);
		break;
	default:
		gc_log_event(&r->gcs, event);
	}
}

static void end_gc(struct runtime_signs *r, uint64_t at_ns, double seconds)
{
	uint64_t full = 0, induced = 0, paused = 0, longest = 0;
	vec_each(gc, &r->gcs.gcs) {
		full += gc->generation == 2;
		induced += clr_gc_induced(gc->reason);
	}
	vec_each(p, &r->gcs.pauses) {
		if (p->reason != SUSPEND_GC && p->reason != SUSPEND_GC_PREP)
			continue;
		paused += gc_pause_ns(p);
		longest = MAX(longest, gc_pause_ns(p));
	}
	vitals_total(r->vitals, VITALS_GCS, at_ns, (double)r->gcs.n_gcs / seconds);
	vitals_total(r->vitals, VITALS_GCS_FULL, at_ns, (double)full / seconds);
	vitals_total(r->vitals, VITALS_GCS_INDUCED, at_ns, (double)induced);
	vitals_total(r->vitals, VITALS_GC_PAUSED, at_ns, (double)paused / NS_PER_S / seconds);
	vitals_total(r->vitals, VITALS_GC_LONGEST, at_ns, (double)longest);
}

void runtime_signs_end(struct runtime_signs *r, uint64_t gc_heard_ns, uint64_t locks_heard_ns)
{
	struct vitals *v = r->vitals;
	uint64_t at_ns = v->end_ns;
	if (gc_heard_ns) {
		end_gc(r, at_ns, (double)gc_heard_ns / NS_PER_S);
		vitals_total(v, VITALS_POOL_STARVED, at_ns, (double)r->starved);
		vitals_absent(v, VITALS_HEAP_OLD, "no collection in the window");
	}
	if (locks_heard_ns) {
		vitals_total(v, VITALS_LOCK_WAITING, at_ns, (double)r->lock_ns / (double)locks_heard_ns);
		vitals_total(v, VITALS_LOCK_LONGEST, at_ns, (double)r->lock_longest_ns);
	}
	for (size_t i = 0; r->counters && i < ARRAY_SIZE(made_on_use); i++)
		vitals_absent(v, made_on_use[i].id, made_on_use[i].why);
	vitals_lack_source(v, VITAL_OF_COUNTERS,
			   r->counters ? "nothing in it reports that" : "no counter of its runtime came");
	vitals_lack_source(v, VITAL_OF_EVENTS, "its runtime's events could not be heard");
}

double runtime_signs_newest(const struct series_set *set, enum vital_id id)
{
	for (size_t i = 0; i < ARRAY_SIZE(counter_signs); i++) {
		const struct counter_sign *c = &counter_signs[i];
		const struct series *s = c->id == id && !is_total(id)
						 ? series_find(set, (struct series_key){ c->provider, c->name, "" })
						 : NULL;
		if (s && s->n)
			return s->last[0] * c->scale;
	}
	return NAN;
}
