#pragma once
/* A profile that is to be written to a file: threads, each with its samples in order of time, and every different stack
 * once.
 *
 * Stacks come as places (addresses, or names that are known already); the names of places are asked for once, when the
 * profile is sealed, because a trace has them at its end. Samples are spooled to an unnamed file, so memory is bounded
 * by the number of different stacks (PROFILE_NODES_MAX); further ones are counted under one frame. */

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "model/calltree.h"

#define PROFILE_NODES_MAX ((size_t)8 << 20)

enum profile_unit {
	PROFILE_NS,
	PROFILE_COUNT,
	PROFILE_BYTES /* of what is kept, count: objects; only for pprof */
};

struct profile;
/* spool_dir: where its large temporary file may lie. */
struct profile *profile_new(const char *spool_dir, enum profile_unit unit);
void profile_free(struct profile *p);
DEFINE_CLEANUP(profile_free, struct profile *)

/* A place that is known by name. */
uint64_t profile_place(struct profile *p, const char *name, enum frame_kind kind);
/* The stack's number; places[0] is the leaf. */
uint32_t profile_stack(struct profile *p, const uint64_t *places, size_t n);
/* The thread's number; `id` is the system's. A name may be given later, "" = "Thread ID". */
uint32_t profile_thread(struct profile *p, uint64_t id);
void profile_thread_name(struct profile *p, uint32_t thread, const char *name);

struct profile_sample {
	uint64_t time_ns, weight; /* weight: its ns, number or bytes */
	uint32_t stack;
	uint32_t count; /* samples it is; 0 = 1 */
};
/* Of one thread in order of time. Those of a time profile that follow each other without a gap and have the same stack
 * are kept as one. Failures are kept for profile_seal(). */
void profile_sample(struct profile *p, uint32_t thread, struct profile_sample sample);

/* No more samples. name() appends what the place is called and returns its kind. */
struct err *profile_seal(struct profile *p, enum frame_kind (*name)(void *user, uint64_t place, struct buf *out),
			 void *user) MUST_USE;

/* Sealed: for the writers. Frames and nodes are dense numbers; node 0 is the empty stack. */
enum profile_unit profile_unit(const struct profile *p);
size_t profile_n_frames(const struct profile *p);
const char *profile_frame(const struct profile *p, uint32_t frame);
enum frame_kind profile_frame_kind(const struct profile *p, uint32_t frame);
struct profile_node {
	uint32_t parent, frame; /* a parent's number is below its children's */
};
struct profile_node profile_node(const struct profile *p, uint32_t node);
/* The frames of a node, root first, into *ret (grown as needed, the caller's vector). */
VEC_TYPE(profile_path, uint32_t);
void profile_path(const struct profile *p, uint32_t node, struct profile_path *ret);
size_t profile_n_threads(const struct profile *p);
const char *profile_thread_text(const struct profile *p, uint32_t thread);
uint64_t profile_thread_id(const struct profile *p, uint32_t thread);
uint64_t profile_start_ns(const struct profile *p), profile_end_ns(const struct profile *p);
uint64_t profile_n_samples(const struct profile *p);
/* How many samples did not find room for their stack. */
uint64_t profile_cut(const struct profile *p);
/* A thread's samples; their stack is a node. */
struct err *profile_read(const struct profile *p, uint32_t thread,
			 void (*sample)(void *user, const struct profile_sample *s), void *user) MUST_USE;

/* Samples with the same thread and stack, added up; in order of first appearance within their thread. */
struct profile_sum {
	uint32_t thread, node;
	uint64_t count, weight;
};
VEC_TYPE(profile_sums, struct profile_sum);
struct err *profile_sum(const struct profile *p, struct profile_sums *ret) MUST_USE;
