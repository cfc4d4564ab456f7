#pragma once
/* Vital signs that the runtime itself reports: counters of .NET and of the usual libraries, and its own events on
 * collections, exceptions, locks and the thread pool, at low verbosity and without stacks.
 *
 * It takes events from any stream; the providers that a stream must ask for are below. Counters come once a second, in a
 * session that must not be interrupted. Lock events can come by the thousand, so their provider is separate: its stream
 * may be open in bursts only (exam/events.h). */

#include "eventpipe/gc_log.h"
#include "ipc/ipc.h"
#include "model/series.h"
#include "vitals/vitals.h"

#define RUNTIME_SIGNS_COUNTERS 9
extern const struct ipc_provider runtime_signs_counters[RUNTIME_SIGNS_COUNTERS]; /* EventCounters of managed code */
extern const struct ipc_provider runtime_signs_gc;				 /* collections and the thread pool */
extern const struct ipc_provider runtime_signs_locks;

/* Of a counter that counts from the start of the process: as it came last. */
struct runtime_total {
	uint64_t at_ns;
	double value;
};

struct runtime_signs {
	struct vitals *vitals;
	struct gc_log gcs;
	uint64_t starved; /* how often the pool added threads because its threads were blocked */
	uint64_t lock_waits, lock_ns, lock_longest_ns;
	uint64_t counters; /* how many values have come */
	struct runtime_total totals[VITALS_N];
};
void runtime_signs_init(struct runtime_signs *r, struct vitals *v);
void runtime_signs_fini(struct runtime_signs *r);
void runtime_signs_event(struct runtime_signs *r, const struct nettrace_event *event);
/* Makes signals of the totals so far, at the end of the window or in its middle. The arguments say for how long the
 * streams of collections and of locks were open; 0 = not at all. */
void runtime_signs_end(struct runtime_signs *r, uint64_t gc_heard_ns, uint64_t locks_heard_ns);

/* The newest value of a signal in the history of a process's counters; NAN when there is none, or when it is a rate of what
 * the counter only adds up. For the list of processes. */
double runtime_signs_newest(const struct series_set *set, enum vital_id id);
