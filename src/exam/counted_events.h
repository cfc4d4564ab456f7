#pragma once
/* Events that are counted, and the stacks of where they happen.
 *
 * From .NET 9 on there are two streams: "counts" hears every event without its stack, which costs little; "stacks" hears
 * it with its stack, in bursts where events are many. Before .NET 9 the runtime cannot leave the stacks out: "stacks"
 * counts as well, and what it hears in bursts stands for the whole window. Methods get their names from further streams,
 * early, so that names are there when the process ends.
 *
 *	counted_events_init(&c, exam);
 *	TRY(counted_events_run(&c, exam, &wanted));
 *	TRY(counted_events_names(&c, exam));
 *	... counted_events_by(&c)->bursting, counted_events_scale(&c, exam) ...
 *	counted_events_fini(&c); */

#include "exam/events.h"
#include "exam/stacks.h"

enum { COUNTED_NAMES, COUNTED_COMPILED, COUNTED_STACKS, COUNTED_COUNTS, COUNTED_STREAMS };

struct counted_events {
	bool old; /* before .NET 9: one stream for both */
	struct stacks *stacks;
	struct methods *methods;
	struct events_stream streams[COUNTED_STREAMS];
};

struct counted_wanted {
	const struct ipc_provider *provider;
	double burst_rate, burst_share; /* of "stacks" */
	bool unordered;			/* "counts" does not need its events in order of time */
	bool compiled;			/* hear also of methods that are compiled meanwhile */
	/* Old runtimes only, or NULL: takes the place of "counts" and is opened when "stacks" has turned to bursts. */
	const struct events_stream *counter;
	void (*count)(void *user, const struct nettrace_event *event);
	void (*stack)(void *user, const struct nettrace_event *event);
	void *user;
};

void counted_events_init(struct counted_events *c, const struct exam *exam);
void counted_events_fini(struct counted_events *c);
/* Over the profiler's duration. */
struct err *counted_events_run(struct counted_events *c, struct exam *exam, const struct counted_wanted *wanted)
	MUST_USE;
/* After it: names of methods that are still unknown. */
struct err *counted_events_names(struct counted_events *c, struct exam *exam) MUST_USE;
/* The stream whose events were counted. */
const struct events_stream *counted_events_by(const struct counted_events *c);
/* How many events of the window one that was counted stands for: 1, or more where they were heard in bursts. */
double counted_events_scale(const struct counted_events *c, const struct exam *exam);
