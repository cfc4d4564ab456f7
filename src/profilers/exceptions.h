#pragma once
/* Exceptions as they are collected; what its report is made from. Internal to the profiler. */

#include "base/map.h"
#include "base/vec.h"
#include "exam/counted_events.h"
#include "model/timeline.h"

struct exceptions_type {
	char *name;
	uint64_t count, stacked, rethrown, with_inner;
	uint64_t first_ns, last_ns;
	char *message;	      /* of the first one */
	struct map_u64 inner; /* type index of the exception thrown just before on the same thread -> times */
};

/* Throws of one type with one stack. */
struct site_count {
	uint32_t type, stack;
	uint64_t count;
};

struct exceptions {
	struct strtab units;		   /* names of types as the runtime sends them, by index */
	VEC(struct exceptions_type) types; /* likewise */
	uint64_t count, over_limit;
	struct timeline throws;
	struct map_u64 last_on_thread; /* thread -> type index + 1 */
	struct map_u64 site_index;     /* type << 32 | stack -> index in sites */
	VEC(struct site_count) sites;
	uint64_t with_stack;
	struct buf text;
	const struct exam *exam;
	struct counted_events events;
	double counted, counted_s; /* by the runtime's own counter, and over how many seconds */
};

struct err *exceptions_report(struct exam *exam, struct report *report) MUST_USE;
