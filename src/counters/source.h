#pragma once
/* Receives the counters of one process: EventCounters in one session, meters in another, both open as long as the
 * caller needs them; all values are kept as series.
 *
 * A meter session is shared with other tools where they share theirs. It is stopped only between two collections of
 * values, because a runtime that is stopped during its first collection can block its diagnostics server for ever.
 * Prints nothing, makes no files. One thread; the caller polls. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "model/series.h"
#include <poll.h>

/* A provider or meter, and which of its counters; none named = all. */
struct counters_group {
	const char *name;
	const char *const *items;
	size_t n_items;
	bool optional; /* the user did not name it: no message when it is not there */
};

struct counters_want {
	const struct counters_group *counters; /* EventCounters of these providers */
	size_t n_counters;
	const struct counters_group *meters;
	size_t n_meters;
	bool all_meters;
	bool wildcard; /* the runtime knows '*'; otherwise it is asked for the names first, which takes a second */
	/* EventCounters to take instead when the meters are refused; NULL = none. */
	const struct counters_group *instead;
	uint64_t interval_ms; /* COUNTERS_INTERVAL_MS: take the interval of a tool that receives the meters already */
};
/* The runtime cannot list its EventCounters providers; these are the ones of .NET and the usual libraries, the
 * runtime's own first. Ended by NULL. */
#define COUNTERS_USUAL_MAX 24
extern const char *const counters_usual[COUNTERS_USUAL_MAX];

#define COUNTERS_INTERVAL_MS 1000
#define COUNTERS_MIN_INTERVAL_MS 500
#define COUNTERS_MAX_FDS 2

struct counters;
/* Is this process old enough for counters that no user asked for (the live list)? See eventpipe/settle.h. */
bool counters_unasked_bearable(const char *socket);
/* Everything in want must live as long as the result. */
struct err *counters_open(const char *socket, const struct counters_want *want, struct deadline deadline,
			  struct counters **ret) MUST_USE;
/* Closes; the runtime itself ends sessions that were not stopped. */
void counters_free(struct counters *c);
DEFINE_CLEANUP(counters_free, struct counters *)

/* What to poll, and how long at most before counters_pump() has something to do anyway. */
size_t counters_fds(const struct counters *c, struct pollfd ret[COUNTERS_MAX_FDS]);
struct deadline counters_due(const struct counters *c);
/* Takes what has come. *ret_ended: the process is gone or has ended the sessions. */
struct err *counters_pump(struct counters *c, bool *ret_ended) MUST_USE;
/* Ends the sessions when that is safe for the runtime: waits for the next moment between two collections of values
 * until the deadline, or until `hurry_fd` (or -1) is readable; then takes a few seconds at most. ERR_TIMEOUT when the
 * runtime does not confirm. */
struct err *counters_stop(struct counters *c, struct deadline deadline, int hurry_fd) MUST_USE;

struct series_set *counters_series(struct counters *c);
/* How many intervals have been reported in full. Grows also when nothing came for an interval. */
uint64_t counters_ticks(const struct counters *c);
/* Has everything that was asked for been received, rates included, or waited for long enough? */
bool counters_complete(const struct counters *c);
/* The interval in use: it may be that of another tool. */
uint64_t counters_interval_ms(const struct counters *c);
/* Is it of the interval that was reported last? */
bool counters_fresh(const struct counters *c, const struct series *s);
/* Lost events, so far. */
uint64_t counters_lost(const struct counters *c);

/* Messages for the user, each once, in order; NULL past the last. */
const char *counters_note(const struct counters *c, size_t i);
/* What was asked for and did not come, a sentence a line, with what there is instead. */
void counters_missing(const struct counters *c, struct buf *out);
