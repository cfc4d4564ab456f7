#pragma once
/* What gc-stats collects and works out; what its report is made from. Internal to the profiler. */

#include "base/vec.h"
#include "eventpipe/methods.h"
#include "exam/events.h"
#include "eventpipe/gc_log.h"
#include "exam/stacks.h"

/* A request for a GC. */
struct gc_call {
	uint64_t time;
	uint32_t reason, stack; /* STACKS_NONE without */
};

enum { GC_STATS_LOG, GC_STATS_CALLS, GC_STATS_STREAMS };

struct gc_stats {
	struct gc_log log;
	VEC(struct gc_call) calls; /* induced ones only */
	struct stacks *stacks;
	struct methods *methods;
	bool one_stream; /* before .NET 10 the runtime cannot send single events with stacks */
	struct events_stream streams[GC_STATS_STREAMS];
};

/* Collections of one generation, type and reason. */
struct gc_kind {
	struct gc gc; /* one of them, for its name */
	uint64_t count, pause_ns, longest_ns, promoted, survived_from;
	bool survival_known;
};
VEC_TYPE(gc_kinds, struct gc_kind);

/* Calls that came from one method. */
struct gc_caller {
	const char *method; /* NULL: no stack was seen */
	uint32_t stack, reason;
	uint64_t count, gcs, pause_ns;
};
VEC_TYPE(gc_callers, struct gc_caller);

struct gc_view {
	uint64_t window_ns, count, full, induced;
	uint64_t pause_ns, induced_pause_ns, full_pause_ns, longest_ns;
	uint64_t background_ns, background;
	double share;		       /* of the time, paused */
	uint64_t allocated;	       /* between the first and the last collection */
	uint64_t allocated_over;       /* ns; 0 = not known */
	const struct gc *first, *last; /* with heap sizes; NULL without */
	uint64_t heap_most;
	double rate, full_rate, free_share;
	uint64_t free_bytes; /* holes in generation 2 and the large object heap, at the end */
};

struct gc_view gc_stats_view(const struct exam *exam, const struct gc_stats *s);
void gc_stats_kinds(const struct gc_stats *s, struct gc_kinds *kinds); /* most pause time first */
void gc_stats_callers(struct gc_stats *s, struct gc_callers *callers); /* likewise */
struct err *gc_stats_report(struct exam *exam, struct report *report) MUST_USE;
