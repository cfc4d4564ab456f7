#pragma once
/* Joins events into requests: which calls, waits and threads belong to which request, and what each one's time went to.
 *
 * An event belongs to the innermost activity that its id names and that is open, else to the nearest one above it in the
 * path of the id (requests/activity_path.h); an activity that begins belongs first of all to the one its related id names. A
 * call whose end carries the id of the activity around it (Npgsql) is the last one of its kind that began there.
 *
 * A thread is a request's from one of its events to the next on that thread, unless an event of something else came in
 * between, or the thread had nothing more to do and said so.
 *
 * It does not know where events come from, what routes there are, what is slow, or any report. It cannot know of requests that
 * began before the first event. Events come in the order of time; memory is bounded whatever they say. One thread. */

#include "requests/activity_path.h"
#include "requests/split.h"

enum span_news {
	SPAN_BEGIN,
	SPAN_END,
	SPAN_REQUEST_FAILED, /* an exception left the request's handler */
	SPAN_LEFT_QUEUE,     /* a call has its connection, after queued_ns */
	SPAN_OF_IT,	     /* any other event that has its id */
	SPAN_IDLE,	     /* the thread has nothing more to do */
	SPAN_SUSPENDED,	     /* all threads stand still for a collection */
	SPAN_RESUMED
};
enum span_what {
	SPAN_REQUEST,
	SPAN_SQL,
	SPAN_HTTP,
	SPAN_BODY, /* of a call's answer */
	SPAN_DNS,
	SPAN_CONNECT,
	SPAN_TLS,
	SPAN_LOCK,
	SPAN_WAIT
};

struct span_event {
	enum span_news news;
	enum span_what what;
	uint64_t time_ns, thread;
	const uint8_t *id, *related; /* 16 bytes, or NULL */
	const char *method;	     /* of a request that begins; any text, or NULL */
	const char *label;	     /* the path of a request, what is called; any text, or NULL */
	uint64_t queued_ns;
	bool failed; /* of a call that ends */
};

struct request_seen {
	const char *method, *path; /* cut to SPANS_TEXT_MAX bytes; as the client sent it */
	uint64_t from_ns, to_ns;
	uint64_t parts_ns[REQUEST_PARTS];
	const struct request_span *spans; /* in no order */
	size_t n_spans;
	bool failed;
	bool open;	/* it had not ended when the events did; to_ns is when that was */
	bool truncated; /* not all of its spans were kept: some of its time is unexplained for that reason */
};
#define SPANS_TEXT_MAX 512

struct request_spans_counts {
	uint64_t requests; /* that began and ended */
	uint64_t without_id, not_kept;
	uint64_t cut;	      /* were open when the events paused: request_spans_pause() */
	uint64_t ended_only;  /* their begin was not seen */
	uint64_t unpaired;    /* calls whose begin or end was not seen */
	uint64_t left_behind; /* calls of work that went on when its request had ended */
	uint64_t outside;     /* calls that belong to no request */
};

struct request_spans;
/* seen() gets each request when it ends; what it gets is valid during that call. */
struct request_spans *request_spans_new(enum activity_form form,
					void (*seen)(void *user, const struct request_seen *request), void *user);
/* Whoever knows what threads did is asked when a request ends, for each time a thread was its own; he answers by
 * request_spans_ran(), during that call only. */
void request_spans_tell(struct request_spans *s, void (*ran)(void *user, struct request_spans *s, uint64_t thread,
							     uint64_t from_ns, uint64_t to_ns));
/* PART_CPU or PART_READY. */
void request_spans_ran(struct request_spans *s, enum request_part part, uint64_t from_ns, uint64_t to_ns);
void request_spans_free(struct request_spans *s);
DEFINE_CLEANUP(request_spans_free, struct request_spans *)
void request_spans_add(struct request_spans *s, const struct span_event *event);
/* Events will be missing: nothing that is open is continued. */
void request_spans_pause(struct request_spans *s);
/* No more events come: tells of the requests that are open. */
void request_spans_end(struct request_spans *s, uint64_t now_ns);
const struct request_spans_counts *request_spans_counts(const struct request_spans *s);
/* "" of SPAN_NO_LABEL. Valid until request_spans_free(). */
const char *request_spans_label(const struct request_spans *s, uint32_t label);
