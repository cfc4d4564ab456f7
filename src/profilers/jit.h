#pragma once
/* What the jit profiler collects; what its report is made from. Internal to the profiler. */

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/timeline.h"
#include "eventpipe/clr.h"
#include "exam/events.h"

#define JIT_SLOT_NS (500 * NS_PER_MS)

struct jit_sum {
	uint64_t count, ns, il_bytes, code_bytes;
};

/* A method in all its versions: tiers, instantiations of a generic, dynamic methods whose names differ in numbers. */
struct jit_group {
	uint32_t name; /* in names */
	struct jit_sum sum;
	uint64_t longest_ns;
	uint64_t tiers[CLR_TIERS]; /* times compiled as */
	uint64_t rejected;
	uint32_t slots, last_slot; /* half seconds in which it was compiled: how many, and the last */
	bool dynamic;
};

/* A compilation that has begun on a thread. It may cause others on the same thread before it ends. */
struct jit_open {
	uint64_t method, start_ns, inner_ns;
	uint32_t il_bytes;
};
#define JIT_DEPTH 32
struct jit_thread {
	struct jit_open open[JIT_DEPTH];
	size_t n;
};

struct jit {
	struct map_u64 thread_index; /* thread -> index */
	VEC(struct jit_thread) threads;
	struct strtab names;
	VEC(struct jit_group) groups; /* by name id */
	struct jit_sum all, dynamic, tiers[CLR_TIERS];
	uint64_t rejected, precompiled, unloaded;
	uint64_t untimed;      /* compiled, but the beginning was not seen */
	struct timeline spent; /* compiling */
	struct buf shown;
	const struct exam *exam;
	struct events_stream stream;
};

struct err *jit_report(struct exam *exam, struct report *report) MUST_USE;
