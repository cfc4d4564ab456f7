#pragma once
/* The copy of a living process, seen from the image that owns it. Private to image. */

#include "image/image.h"

struct snapshot;
/* Kills and reaps the copy, ends the tracer. NULL is fine. */
void snapshot_free(struct snapshot *s);

/* ---- before the process is stopped ---- */

/* Two instructions in its own code: `syscall; ret`, and the C library's return from signals. */
struct err *gadgets_find(int mem_fd, const char *maps, size_t len, uint64_t *ret_syscall, uint64_t *ret_sigreturn)
	MUST_USE;
