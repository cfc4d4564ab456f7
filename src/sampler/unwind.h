#pragma once
/* Unwinds the registers and a copy of the stack of a thread to its call stack, through native code (its .eh_frame),
 * managed code (the runtime's own unwind data, else its prologue) and the stubs between. One file per architecture
 * implements it: unwind_x64.c.
 *
 * Never writes to the process, never stops it; reads code and unwind data from its memory and caches them. The result
 * always says whether the root was reached. Not for threads. */

#include "symbols/space.h"

#define UNWIND_FRAMES_MAX 4096

struct unwind_regs {
	uint64_t r[16]; /* as instructions number them: ax cx dx bx sp bp si di 8..15 */
	uint64_t ip;
};
struct unwind_stack {
	uint64_t sp;	      /* where the copy starts */
	const uint8_t *bytes; /* may be unaligned */
	size_t n;
	bool full; /* there was more than fits */
};

enum unwind_end {
	UNWIND_ROOT, /* the thread's first frame */
	UNWIND_CUT,  /* the copy of the stack ended */
	UNWIND_DEEP, /* more frames than UNWIND_FRAMES_MAX */
	UNWIND_LOST, /* no rule for a frame */
	UNWIND_ENDS,
};

/* Managed code around an address, given by the caller. `version` differs when a range is used again. */
struct unwind_method {
	uint64_t start;
	uint32_t size, version;
};

struct unwinder;
struct unwinder *unwinder_new(struct space *space,
			      bool (*method)(void *user, uint64_t address, struct unwind_method *ret), void *user);
void unwinder_free(struct unwinder *u);
DEFINE_CLEANUP(unwinder_free, struct unwinder *)

struct unwound {
	uint64_t ips[UNWIND_FRAMES_MAX]; /* leaf first */
	size_t n;
	/* The address of frame i is the instruction itself, not a return address: look its name up there and not one
	 * byte before. */
	uint8_t exact[UNWIND_FRAMES_MAX / 8];
	enum unwind_end end;
	unsigned guessed; /* steps taken without a rule: a frame there may be missing */
};
void unwind(struct unwinder *u, const struct unwind_regs *regs, const struct unwind_stack *stack, struct unwound *ret);
static inline bool unwound_exact(const struct unwound *u, size_t i)
{
	return u->exact[i / 8] >> (i % 8) & 1;
}
