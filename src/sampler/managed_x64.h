#pragma once
/* How managed x86-64 code keeps its frames: the unwind data that the runtime itself uses, from the code header of
 * compiled methods and from the tables of ReadyToRun images; where neither can be read, the prologue's instructions.
 *
 * Funclets (catch, finally and filter bodies) and on-stack-replaced methods have unwind data of their own, so they need
 * no special care here. All bytes are hostile. */

#include "base/base.h"

/* One function's unwind data: what its prologue does, last thing first. */
struct managed_unwind {
	uint8_t prolog, n_codes, frame_reg, frame_offset;
	const uint8_t *codes; /* 2 bytes each, unaligned */
};
/* False when it is no unwind data of version 1 or 2. */
bool managed_unwind_parse(const uint8_t *bytes, size_t len, struct managed_unwind *ret);

struct managed_frame {
	uint64_t r[16], ip;
};
typedef bool (*managed_read)(void *user, uint64_t address, uint64_t *ret);

/* The caller's registers. `into` is the offset of the ip in the function (less than the prologue: only a part of it has
 * run). False when the frame cannot be read or the data are damaged. */
bool managed_apply(const struct managed_unwind *info, uint64_t into, managed_read read, void *user,
		   struct managed_frame *frame);
/* The value of the stack pointer while the function calls another, computed from its frame register if it has one; else
 * the current value. */
uint64_t managed_body_sp(const struct managed_unwind *info, const struct managed_frame *frame);
/* If the instructions at the ip are an epilogue: executes it. */
bool managed_epilogue(const uint8_t *code, size_t len, managed_read read, void *user, struct managed_frame *frame);
/* From the instructions at the start of a method, without any data. `into` as above. */
bool managed_prologue(const uint8_t *code, size_t len, uint64_t into, managed_read read, void *user,
		      struct managed_frame *frame);
