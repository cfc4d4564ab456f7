#pragma once
/* The events instrument as profilers use it: streams of runtime events over the window of an exam, live or replayed.
 *
 * A stream is one EventPipe session, or a series of short ones (bursts) where its events are expensive. Each is also a
 * part of the recording, so a replay delivers the same events in the same order. */

#include "eventpipe/methods.h"
#include "ipc/ipc.h"
#include "nettrace/nettrace.h"
#include "exam/exam.h"
#include "exam/stacks.h"

struct events_stream {
	/* What is asked for. */
	const char *name; /* of the recording's part: "gc" */
	const struct ipc_provider *providers;
	size_t n_providers;
	bool stacks, unordered;
	uint32_t buffer_mb; /* 0 = 64 */
	uint64_t rundown;   /* keywords of what the runtime lists when the session ends */
	bool unkept;	    /* no part of the recording */
	/* Opened only when that other stream has had an event, and stopped at once: for its rundown. */
	const struct events_stream *after;
	/* Opened whenever this returns true (asked ten times a second), and stopped at once: one look at something that
	 * is expensive to watch, such as all threads. Not asked when replaying. */
	bool (*when)(void *user, uint64_t now_ns);
	/* Opened only when that other stream has changed to bursts, to receive what they miss. */
	const struct events_stream *beside;
	/* Share 0: one session over the whole window. Else, when so many events or more come per second, the session is
	 * stopped and opened again so that it is open for at most that share of the time; at lower rates it stays open.
	 */
	double burst_rate, burst_share;
	uint32_t burst_least_ms; /* a burst lasts at least so long */
	bool scaled;		 /* its bursts represent the window: events outside of open_ns are left out */
	bool anytime;		 /* the event() below also gets what happened before and after the window */
	bool optional;		 /* when it cannot be opened the window continues without it */
	/* Once all of the window has come, the end of the stream is not waited for: for data that no replay needs. */
	bool brief;
	bool certain; /* while it is open events come, whatever the process does */
	/* Gets the events of the window only (of a rundown: all). Times are on our clock, in ns. */
	void (*event)(void *user, const struct nettrace_event *event);
	void *user;

	/* Results. */
	uint64_t from_memory; /* keywords of its rundown that were read from memory instead: exam/code_list.h */
	uint64_t events, lost, bytes;
	uint64_t heard;	  /* events that came at all: also others, and from outside of the window */
	uint64_t beat_ns; /* when the runtime was made to write an event into it, see exam/proof.h; 0 = it was not */
	uint64_t beats;	  /* such events that came since */
	uint64_t open_ns; /* how long it was listening in the window, all bursts together */
	uint32_t opened;  /* so far: while events come, the number of the burst they belong to */
	bool stacks_refused, damaged;
	bool bursting; /* at least once it was stopped for its rate: it heard only part of the window */
};

/* After the window: reads what the runtime lists when a session ends (`rundown` of the stream). Nothing when the target
 * is gone; the reason is logged. */
struct err *exam_rundown(struct exam *exam, struct events_stream *s) MUST_USE;
/* Another instrument that runs in the same window. start() is called when the streams are open and the window is about
 * to begin, turn() at least every 50 ms and when fd() is readable, stop() when the window ends, before the streams do,
 * and stopped(), which may be NULL, when they have been asked to. */
struct events_beside {
	struct err *(*start)(void *user);
	int (*fd)(void *user);
	void (*turn)(void *user);
	void (*stop)(void *user);
	void (*stopped)(void *user);
	void *user;
	const char *doing; /* shown as progress */
	bool prompt;	   /* the streams shall end soon after the window does, see eventpipe/stream_wake.h */
};
/* Runs the window: window_ms long, cut short when the exam is cancelled or the target ends (then exam->partial says
 * so and the result is what was seen). Fills in the exam's window. Another instrument may run beside (or
 * NULL); there may be no streams at all. */
struct err *exam_events_beside(struct exam *exam, struct events_stream *streams, size_t n, uint64_t window_ms,
			       const struct events_beside *beside) MUST_USE;
static inline struct err *MUST_USE exam_events(struct exam *exam, struct events_stream *streams, size_t n,
					       uint64_t window_ms)
{
	return exam_events_beside(exam, streams, n, window_ms, NULL);
}
/* A stream that fetches the names of all methods as soon as `after` has had an event: early, so that they are known
 * even when the target ends. */
struct events_stream exam_methods_stream(const struct events_stream *after, struct methods *methods);
/* A stream of the methods that are compiled during the window: hot code moves to new addresses (tiered compilation),
 * and after the target has ended they cannot be asked for. */
struct events_stream exam_compiled_stream(struct methods *methods);
/* All names once more after the window, for what is still unknown, and the source lines of lambdas
 * (exam/lambda_lines.h). Fewer or none when the target is gone; the reason is logged. */
struct err *exam_methods(struct exam *exam, struct methods *methods) MUST_USE;
/* The same; names only where frames of these stacks have none yet. */
struct err *exam_methods_of(struct exam *exam, struct stacks *stacks, struct methods *methods) MUST_USE;
/* The names now, before or in the middle of a window; `part` names its recording. */
struct err *exam_methods_now(struct exam *exam, struct methods *methods, const char *part) MUST_USE;
