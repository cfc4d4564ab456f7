#pragma once
/* Samples as profilers see them: stacks of named frames with weights, by thread and time. Made by the sampling
 * instrument (sampling.h), saved as one part of the recording and read back from it.
 *
 * The part, little endian, v = LEB128:
 *   "DRSAMPLE" u32 version(1)
 *   v n strings: v length, bytes                     of all names
 *   v n frames:  v name, v module, u8 kind
 *   v n threads: v tid, v tid it knows itself by, v name, v cpu ns by the kernel's clock + 1 (0 = not known)
 *   v n stacks:  u8 end | guessed << 4, v n, n x v frame (leaf first)
 *   v n samples: v microseconds since the last one, v thread, v stack, v weight, v kind
 *
 * Bounded: past the limits samples are counted in `dropped`. All of a part that is read back is hostile. */

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "eventpipe/whose.h"
#include "model/calltree.h"
#include "sampler/unwind.h"

struct samples_frame {
	uint32_t name, module; /* in strings; module may be STRTAB_NONE: none */
	uint8_t kind;	       /* enum frame_kind */
};
struct samples_thread {
	uint32_t tid, own_tid; /* as we see it, as it sees itself */
	uint32_t name;
	uint64_t cpu_ns; /* in the window, by the kernel's clock; UINT64_MAX = not known */
	uint64_t start_cpu_ns, start_delay_ns, start_runs; /* live only: the same clock when the window began */
};
struct samples_stack {
	uint32_t first, n; /* in stack_frames */
	uint32_t next;	   /* with the same hash */
	uint8_t end;	   /* enum unwind_end */
	bool guessed;
};
struct sample {
	uint32_t time_us; /* since the window's start */
	uint32_t thread, stack;
	uint32_t kind;	 /* what the instrument says of it; 0 of CPU samples */
	uint64_t weight; /* ns */
};

struct samples {
	struct strtab strings;
	VEC(struct samples_frame) frames;
	struct map_u64 frame_index; /* hash of the three -> frame */
	VEC(struct samples_thread) threads;
	struct map_u64 thread_index; /* tid -> index */
	VEC(struct samples_stack) stacks;
	VEC(uint32_t) stack_frames;
	struct map_u64 stack_index; /* hash -> first stack */
	VEC(struct sample) list;
	uint64_t dropped;		 /* samples beyond what we keep */
	const struct whose_names *whose; /* of its program; somebody else's, not kept. NULL = not known */
	bool lock_frames; /* live only: a lock statement that waits has a frame of its own (from .NET 10 on) */
};

struct samples *samples_new(void);
void samples_free(struct samples *s);
DEFINE_CLEANUP(samples_free, struct samples *)

uint32_t samples_frame(struct samples *s, const char *name, const char *module, enum frame_kind kind);
/* The same frame as one of another kind. `name` is for one that only has its file's, as "[libcoreclr.so]". */
uint32_t samples_frame_as(struct samples *s, uint32_t frame, const char *name, enum frame_kind kind);
/* The thread's index; a new one has no name and no CPU time. */
uint32_t samples_thread(struct samples *s, uint32_t tid, bool *ret_new);
void samples_thread_name(struct samples *s, uint32_t thread, const char *name, size_t len);
#define SAMPLES_FULL UINT32_MAX
/* The stack's id, SAMPLES_FULL when there are too many. frames[0] is the leaf. */
uint32_t samples_stack(struct samples *s, const uint32_t *frames, size_t n, enum unwind_end end, bool guessed);
void samples_add(struct samples *s, uint64_t time_us, uint32_t thread, uint32_t stack, uint64_t weight, uint32_t kind);

static inline const char *samples_frame_name(const struct samples *s, uint32_t frame)
{
	return strtab_get(&s->strings, s->frames.v[frame].name);
}
static inline const char *samples_thread_show(const struct samples *s, uint32_t thread)
{
	uint32_t name = s->threads.v[thread].name;
	return name == STRTAB_NONE ? "" : strtab_get(&s->strings, name);
}

/* The frames of a stack with repeats folded: a run of the same one to four frames, called again and again, stands once.
 * `same` maps frames that are one to a reader to the first of them (NULL = none do). Leaf first, into `out` (room for
 * the stack's n). Returns how many. */
size_t samples_fold(const struct samples *s, const uint32_t *same, uint32_t stack, uint32_t *out);

void samples_write(const struct samples *s, struct buf *out);
struct err *samples_read(const void *bytes, size_t len, struct samples **ret) MUST_USE;
