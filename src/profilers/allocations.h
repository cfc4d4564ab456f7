#pragma once
/* Allocations as they are collected and estimated; what its report is made from. Internal to the profiler. */

#include "base/map.h"
#include "base/vec.h"
#include "model/timeline.h"
#include "exam/counted_events.h"

/* What the samples of something represent. */
struct alloc_sum {
	uint64_t samples;
	double bytes, objects, large_bytes;
	double variance; /* of bytes */
};

/* What was allocated of one type with one stack. */
struct alloc_stack {
	uint32_t type, stack;
	struct alloc_sum sum;
};

struct allocations {
	struct strtab names;
	VEC(struct alloc_sum) types; /* by name id */
	struct alloc_sum all;
	struct map_u64 stack_index; /* type << 32 | stack -> index in by_stack */
	VEC(struct alloc_stack) by_stack;
	uint64_t with_stack;
	struct timeline bytes;
	struct buf text;
	const struct exam *exam;
	bool ticks;	    /* reported by AllocationTick: before .NET 10 */
	bool sizes_unknown; /* ticks that do not contain the size of the object */
	struct counted_events events;
};

/* Allocations of one type from one method. */
struct alloc_site {
	uint32_t type;
	const char *method; /* NULL: no stack was seen for this type */
	uint32_t stack;	    /* the heaviest one */
	double stack_bytes;
	struct alloc_sum sum;
};
VEC_TYPE(alloc_sites, struct alloc_site);

struct alloc_view {
	uint64_t window_ns;
	double scale; /* above 1 only where counting was in bursts */
	struct alloc_sum all;
	double rate;	/* bytes a second */
	double error;	/* of all bytes, a ratio; 95 % of estimates are within it */
	bool estimated; /* from bursts */
};

void alloc_sum_add(struct alloc_sum *to, const struct alloc_sum *sum, double scale);
struct alloc_view alloc_view(const struct allocations *a);
/* Heaviest first. They, and the sums by stack, are scaled to all that was allocated. */
void alloc_find_sites(struct allocations *a, const struct alloc_view *v, struct alloc_sites *sites);
/* As a ratio of its bytes: 95 % of such estimates are within it. */
double alloc_error(const struct allocations *a, const struct alloc_view *v, const struct alloc_sum *sum);
struct err *alloc_report(struct exam *exam, struct report *report) MUST_USE;
