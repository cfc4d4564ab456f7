#pragma once
/* What the wall time of one request went to: every instant between its begin and its end counts as one part, so that the
 * parts add up to it. Where several things happen at an instant, the first of enum request_part counts. Pure. */

#include "base/base.h"

enum request_part {
	PART_GC,  /* a collection's pause, while a thread of the request was stopped by it */
	PART_CPU, /* a thread of the request was on a CPU; known only where somebody tells, see request_spans_tell() */
	PART_READY, /* the same: it could have run, and another had the CPU */
	PART_LOCK,  /* waits for a lock */
	PART_WAIT,  /* blocks in a wait handle: a task, a semaphore */
	PART_SQL,
	PART_DNS,
	PART_CONNECT,
	PART_TLS,
	PART_HTTP_QUEUE, /* waits for a connection of the client's pool */
	PART_HTTP_BODY,
	PART_HTTP, /* the rest of a call: sends, and waits for the answer */
	/* A thread was the request's own from one of its events to the next: it computed, blocked in something that sends
	 * no events, or waited for a CPU. Where PART_CPU and PART_READY are known: it blocked. */
	PART_THREAD,
	/* None of its events was near: it awaited something that sends none (a timer, a semaphore, another client), its
	 * continuation waited for a worker, or it computed behind such an await. */
	PART_UNEXPLAINED,
	REQUEST_PARTS
};

#define SPAN_NO_LABEL UINT32_MAX

struct request_span {
	uint64_t from_ns, to_ns;
	uint32_t label; /* what was called: the host, the shape of the statement; SPAN_NO_LABEL */
	uint8_t part;
	bool failed;
	bool open;	 /* had not ended */
	uint64_t thread; /* of PART_THREAD */
};

/* The parts of from_ns..to_ns, in ns; their sum is to_ns - from_ns. Spans may overlap and reach beyond it. */
void request_split(const struct request_span *spans, size_t n, uint64_t from_ns, uint64_t to_ns,
		   uint64_t ret_ns[REQUEST_PARTS]);
