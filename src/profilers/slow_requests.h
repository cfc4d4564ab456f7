#pragma once
/* What the slow-requests profiler collects; what its report is made from. Internal to the profiler. */

#include "base/map.h"
#include "base/vec.h"
#include "exam/cpu_budget.h"
#include "exam/events.h"
#include "model/dist.h"
#include "requests/request_events.h"
#include "requests/routes.h"
#include "requests/spans.h"

#define SLOW_WORST 10 /* requests that are kept with all their spans */

/* Parts as a reader thinks of them. */
enum slow_group {
	SLOW_CPU,
	SLOW_READY,
	SLOW_THREAD,
	SLOW_GC,
	SLOW_LOCKS,
	SLOW_BLOCKED,
	SLOW_HTTP,
	SLOW_SQL,
	SLOW_UNEXPLAINED,
	SLOW_GROUPS
};

/* One request, kept for the report. */
struct slow_request {
	uint64_t from_ns, to_ns;
	uint32_t method, path; /* in texts */
	uint32_t http, sql;    /* what it spent most of such calls on; SPAN_NO_LABEL */
	uint32_t n_http, n_sql;
	uint64_t http_ns; /* of its calls, each by itself: more than their part when they overlap */
	uint64_t parts_ns[REQUEST_PARTS];
	bool failed, open, truncated;
};

struct slow_worst {
	struct slow_request request;
	VEC(struct request_span) spans;
};

/* Calls to one host, or of one statement. */
struct slow_call {
	uint32_t label;
	enum request_part part;
	uint64_t failed, open;
	struct dist *times;
};

enum { SLOW_EVENTS, SLOW_ROUTES, SLOW_STREAMS };

/* When threads had a CPU, by the kernel's records of their switches: slow_requests_cpu.c. */
struct sampler;
struct slow_cpu {
	struct sampler *sampler; /* NULL = not recorded now */
	struct map_u64 index;
	VEC(struct slow_cpu_thread) threads;
	size_t n;
	uint64_t drained_ns, lost;
	bool recorded;
	char *why_not; /* NULL = all of the window is known */
};

struct slow {
	struct exam *exam;
	struct request_spans *spans;
	struct request_texts event_texts;
	struct routes *routes;
	uint64_t metered; /* requests that the meter counted, of whatever route */
	bool old;	  /* a runtime that cannot leave stacks out */
	uint32_t burst;
	struct cpu_budget budget;
	uint64_t cpu_ns, delay_ns; /* of all its threads: ran, and could have run had there been a CPU; 0 = not known */
	struct slow_cpu cpu;
	struct strtab texts;		     /* methods and paths */
	VEC(struct slow_request) requests;   /* ended: all, or a uniform sample of them */
	VEC(struct slow_request) open;	     /* not ended */
	struct slow_worst worst[SLOW_WORST]; /* longest first */
	size_t n_worst;
	uint64_t seen, truncated, open_seen, random;
	VEC(struct slow_call) calls;
	struct map_u64 call_index;
	struct ipc_provider providers[REQUEST_PROVIDERS_MAX];
	struct events_stream streams[SLOW_STREAMS];
};

/* ---- what the report is made from: slow_requests_view.c ---- */

struct slow_endpoint {
	const char *name; /* "GET /orders/{id}" */
	size_t first, n;  /* in slow_view.order, by how long they took */
	size_t open;
	uint64_t oldest_ns; /* of the open ones */
	uint64_t failed, sum_ns;
	uint64_t p50_ns, p95_ns, p99_ns, max_ns;
	uint64_t mean_ns, parts_ns[REQUEST_PARTS];	/* of a mean request */
	uint64_t tail_ns, tail_parts_ns[REQUEST_PARTS]; /* of a mean request of the 90th to the 99th percentile */
	double n_http, n_sql;				/* calls of a mean request */
	bool in_turn;					/* its HTTP calls run one after the other */
	uint32_t http, sql;				/* what most of that time went to; SPAN_NO_LABEL */
};

struct slow_view {
	VEC(struct slow_endpoint) endpoints; /* those that took the most time first */
	VEC(uint32_t) order;		     /* requests, by endpoint and length */
	struct map_u64 by_key;		     /* method and path -> endpoint, as they were found */
	struct strtab names;
	const struct slow_endpoint *slowest; /* the one to talk about; NULL = none ended */
	bool is_slow;
	uint64_t all_ns;
	double scale;		/* requests that one of those kept stands for */
	size_t by_route, by_us; /* endpoints by their templates, and grouped by us */
};

/* Where CPU time is not known for all of the window, it is taken out of the requests. */
void slow_view_init(struct slow_view *v, struct slow *s);
void slow_view_fini(struct slow_view *v);
const char *slow_endpoint_name(const struct slow_view *v, const struct slow_request *r);
enum slow_group slow_group_of(enum request_part part);
/* By groups, what parts have. */
void slow_groups(const uint64_t parts_ns[REQUEST_PARTS], uint64_t ret_ns[SLOW_GROUPS]);

/* ---- slow_requests_cpu.c ---- */

/* Live, before the window: beside is what runs in it. False when it cannot be recorded: why_not says why. Replaying, reads
 * what was. */
bool slow_cpu_begin(struct slow *s, struct events_beside *ret_beside);
/* For request_spans_tell(); its user is the struct slow. */
void slow_cpu_ran(void *user, struct request_spans *spans, uint64_t thread, uint64_t from_ns, uint64_t to_ns);
/* After the window: keeps it in the recording. */
void slow_cpu_end(struct slow *s);
void slow_cpu_fini(struct slow_cpu *c);

struct err *slow_analyse(struct exam *exam, struct report *report) MUST_USE;
