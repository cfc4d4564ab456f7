#pragma once
/* The bytes below a stopped thread's stack with which the thread restores itself. Pure: builds bytes and registers,
 * accesses no process.
 *
 * A thread that is stopped in a system call is made to run another one. We may be killed at any moment, so we do not
 * rely on putting the registers back ourselves. Everything that restores them is written first:
 *
 *      higher addresses   the thread's stack, up to its stack pointer and the 128 bytes below it that are in use
 *                         ┌──────────────────────────┐
 *                         │ vector and float state    │
 *                         │ signal frame of a copy    │  return address: sigreturn; context: exit_group(0)
 *      stack pointer ───► │ signal frame of the thread│  return address: sigreturn; context: the call begun anew
 *                         └──────────────────────────┘
 *      program counter ─► `syscall; ret` somewhere in the process's own code
 *
 * The kernel runs the injected call, `ret` goes to the C library's own sigreturn, and that restores registers, vector
 * state and signal mask: the thread does it by itself, with or without us. A copy that the injected call makes starts
 * on the second frame: if nobody controls it, the only thing it can do is exit. */

#include "base/base.h"
#include "image/image.h"

#define FRAME_XSTATE_MAX 16384
#define FRAME_RED_ZONE 128
/* Free stack that must be left below the frames. */
#define FRAME_SPARE 16384

struct frame_state {
	struct image_regs regs;		  /* as the kernel shows them in the stop */
	uint64_t call;			  /* the system call to begin anew: carrier_call() */
	uint64_t mask;			  /* blocked signals */
	uint8_t xstate[FRAME_XSTATE_MAX]; /* NT_X86_XSTATE */
	size_t xstate_len;
	uint64_t syscall_at, sigreturn_at; /* instructions */
};

struct frame {
	uint64_t at; /* address of the lowest byte */
	size_t len;
	uint8_t bytes[FRAME_XSTATE_MAX + 1024];
	struct image_regs heal; /* registers with which the thread restores itself at once */
};
/* False when the vector state cannot be restored by a signal return (a thread that uses tile registers). */
bool frame_build(const struct frame_state *state, struct frame *ret);
/* Registers with which the thread makes this call and then restores itself. */
struct image_regs frame_call(const struct frame *f, const struct frame_state *state, uint64_t nr,
			     const uint64_t args[4]);
/* The stack pointer for a copy, which must end. */
uint64_t frame_exit_stack(const struct frame *f);

/* ---- which thread can make the call ---- */

enum carrier_kind {
	CARRIER_NO,
	CARRIER_PLAIN, /* the kernel would begin the call anew with the same arguments */
	CARRIER_TIMED, /* it would continue it by restart_syscall; beginning anew is the same for this call */
};
/* The kind of system call that the thread is stopped in. code: the 7 bytes before the program counter, or NULL when
 * they could not be read. *ret_call gets the system call. */
enum carrier_kind carrier_kind(const struct image_regs *regs, const uint8_t code[7], uint64_t *ret_call);
/* Lower is better. Threads of the runtime are known to stand on stacks of their own. */
unsigned carrier_rank(enum carrier_kind kind, const char *name);
