#pragma once
/* Counters of processes that clients ask for: one session a process, shared by all clients, with their history.
 *
 * A session begins with the first question and ends when there was none for a while, so an idle server has no sessions.
 * EventCounters may be stopped at any time without disturbing others; meters are shared by all tools that receive them
 * from a process, so they have sessions of their own, for clients that ask for them. */

#include "base/json.h"
#include "ipc/patient.h"

#define WATCHES_MAX 64

struct watches;
struct watches *watches_new(void);
void watches_free(struct watches *w); /* ends all listeners in good order */

enum watch_what {
	WATCH_RUNTIME,	/* EventCounters of the runtime itself */
	WATCH_USUAL,	/* and of the usual libraries */
	WATCH_PROVIDER, /* EventCounters of one provider */
	WATCH_METERS,	/* all meters */
};
struct watch_query {
	enum watch_what what;
	int64_t since_ms;	     /* points after it; negative = only the newest of each */
	const char *provider, *name; /* NULL = all; with WATCH_PROVIDER not */
	uint64_t wait_ms;	     /* for the first values, when the listener is new */
};
/* Is it one of the providers that WATCH_USUAL listens to? */
bool watches_usual(const char *provider);
/* Members of an object: now, intervalMs, lostEvents, notes, series. ERR_BUSY: too many are watched. */
struct err *watches_json(struct watches *w, const struct patient *p, const struct watch_query *q, struct jsonw *out)
	MUST_USE;
/* The newest value of each signal (vitals/vitals.h) that System.Runtime's counters give, NAN of all others; ret has
 * VITALS_N of them. Begins listening, does not wait. */
void watches_signs(struct watches *w, const struct patient *p, double *ret);
