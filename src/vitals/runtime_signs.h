#pragma once
/* Vital signs that the runtime itself reports: counters of .NET and of the usual libraries, and its own events on
 * collections, exceptions, locks and the thread pool, at low verbosity and without stacks.
 *
 * Gets events of whichever streams; the providers to ask for are below. Counters come once a second in a session that
 * must not be interrupted; what can come by the thousand (exceptions, locks) has a provider of its own, so that it can
 * be heard in bursts (exam/events.h). */

#include "eventpipe/gc_log.h"
#include "ipc/ipc.h"
#include "model/series.h"
#include "vitals/vitals.h"

#define RUNTIME_SIGNS_COUNTERS 9
extern const struct ipc_provider runtime_signs_counters[RUNTIME_SIGNS_COUNTERS]; /* managed sources */
extern const struct ipc_provider runtime_signs_gc;				 /* collections and the pool */
extern const struct ipc_provider runtime_signs_locks;

struct runtime_signs {
	struct vitals *vitals;
	struct gc_log gcs;
	uint64_t starved; /* adjustments of the pool */
	uint64_t lock_waits, lock_ns, lock_longest_ns;
	uint64_t counters; /* values that came */
};
void runtime_signs_init(struct runtime_signs *r, struct vitals *v);
void runtime_signs_fini(struct runtime_signs *r);
void runtime_signs_event(struct runtime_signs *r, const struct nettrace_event *event);
/* The window is over (or stands for now): its totals become signals. For how long the streams were open; 0 = not at
 * all. */
void runtime_signs_end(struct runtime_signs *r, uint64_t gc_heard_ns, uint64_t locks_heard_ns);

/* The newest value of a signal in the history of a process's counters; NAN when there is none. For the live list. */
double runtime_signs_newest(const struct series_set *set, enum vital_id id);
