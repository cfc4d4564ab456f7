#pragma once
/* The thread pool in two halves: the collector (thread_pool.c) and the report (thread_pool_report.c). */

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/dist.h"
#include "model/timeline.h"
#include "exam/events.h"
#include "exam/cpu_budget.h"
#include "exam/stacks.h"
#include "exam/thread_names.h"
#include "knowledge/knowledge.h"
#include "report/report.h"

/* A request that waits a tenth of a second before a worker takes it is late; on a busy machine a few milliseconds are
 * nothing. */
#define POOL_LATE_NS (100 * NS_PER_MS)
#define POOL_REASONS 9 /* of adjustments, see clr_pool_reason() */
#define POOL_WORKER_NAME ".NET TP Worker"

struct pool_item {
	uint64_t id, queued_ns;
	bool gone; /* taken by a worker */
};

struct pool_workers {
	uint64_t at_ns;
	uint32_t n;
};

/* A worker as one look found it. */
struct pool_seen {
	uint32_t look, stack;
	bool managed; /* in managed code, not in a call that waits or leaves it */
};

struct pool {
	struct exam *exam;

	/* The queue. Items that were queued before the window have waited at least since its beginning. */
	VEC(struct pool_item) items;
	size_t head;	      /* items before it are gone */
	uint64_t dropped;     /* items cut off the front: index = position + dropped */
	struct map_u64 by_id; /* -> index + 1 */
	struct dist *waits;
	uint64_t enqueued, dequeued, older /* of those: queued before the window */, not_kept;
	uint64_t late; /* waited POOL_LATE_NS or more */
	uint64_t longest_ns;
	bool longest_is_older;
	uint64_t heard_since_ns; /* of this burst; 0 = nothing yet */
	uint64_t last_taken_ns, slow_at_ns;
	uint32_t burst;
	struct timeline longest; /* wait that ended then */

	/* The workers. */
	uint64_t adjusted[POOL_REASONS + 1]; /* by reason; the last: any other */
	uint32_t wanted;		     /* workers, as last reported; 0 = not yet */
	uint64_t injected, needed_at_ns;     /* because work blocks: starvation or cooperative blocking */
	VEC(struct pool_workers) workers;
	uint64_t started, stopped;
	size_t workers_before, workers_after; /* by their names; 0 = not known */
	uint64_t cpu_ns;		      /* of the process in the window; 0 = not known */
	uint64_t delay_ns;		      /* in which its threads could run and had no CPU */
	struct cpu_budget budget;

	/* Looks at all threads, only while work waits. */
	uint32_t looks; /* asked for */
	uint64_t looked_at_ns, stopped_since_ns, paused_ns, pauses;
	struct map_u64 looked; /* look << 32 | thread */
	VEC(struct pool_seen) seen;

	struct knowledge known; /* what the workers wait for */

	struct stacks *stacks;
	struct methods *methods;
	struct thread_names names;
	bool old; /* the runtime walks a stack for every event */
	struct events_stream streams[4];
};
enum { POOL_NAMES, POOL_LOOKS, POOL_EVENTS, POOL_QUEUE };

/* The item that waits longest now, or NULL. Items that a worker took without an event (tasks that run inside a wait for
 * them) stay in the list, so it alone is no proof. */
const struct pool_item *pool_oldest(const struct pool *p);
/* So many workers are blocked, out of the look into memory; 0 as well without one. */
uint32_t pool_blocked(const struct pool *p);
/* What most of them do: "30 in X (GET /orders) block on tasks of Y, which in the end await Z". False = there are none. */
bool pool_say_blocked(const struct pool *p, struct rich *text);
/* Where most of them are, as their authors know it; NULL = there are none. */
const char *pool_blocked_in(const struct pool *p);
/* Workers that are blocked, by what they wait for and who has it. */
void pool_add_waits(const struct pool *p, struct report *report);
struct err *pool_analyse(struct exam *exam, struct report *report) MUST_USE;
