#pragma once
/* Counters of processes that somebody looks at: one listener a process, shared by all who ask, with their history.
 *
 * A listener begins with the first question and ends when nobody has asked for a while, so an idle server listens to
 * nobody. Only EventCounters: those of every .NET since 8 have the same names, and they may be stopped at any time. */

#include "base/json.h"
#include "ipc/patient.h"

#define WATCHES_MAX 64

struct watches;
struct watches *watches_new(void);
void watches_free(struct watches *w); /* ends all listeners in good order */

struct watch_query {
	bool full;		     /* all the usual providers; otherwise the runtime's own only */
	int64_t since_ms;	     /* points after it; negative = only the newest of each */
	const char *provider, *name; /* NULL = all */
	uint64_t wait_ms;	     /* for the first values, when the listener is new */
};
/* Members of an object: now, intervalMs, lostEvents, notes, series. ERR_BUSY: too many are watched. */
struct err *watches_json(struct watches *w, const struct patient *p, const struct watch_query *q, struct jsonw *out)
	MUST_USE;
/* The newest value of one of System.Runtime's counters, NAN when there is none. Begins listening, does not wait. */
struct watch_vitals {
	double heap_bytes, exceptions_per_second, gc_percent;
};
struct watch_vitals watches_vitals(struct watches *w, const struct patient *p);
size_t watches_count(struct watches *w);
