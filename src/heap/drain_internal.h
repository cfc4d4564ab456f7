#pragma once
/* What the files of the drain share. */

#include "base/arena.h"
#include "heap/drain.h"

struct roots {
	struct heap *h;
	struct dac *dac;
	struct arena arena;
	struct dac_threads threads;
	struct dac_handles handles;
	/* Sorted by slot. They are kept in arrays that handles hold: roots of their own, so that the arrays must not
	 * seem to hold what they hold. */
	struct heap_statics statics;
	uint32_t threads_unread;
};
struct err *roots_gather(struct roots *r, struct heap *h, struct dac *d) MUST_USE;
void roots_write(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline);
void roots_free(struct roots *r);
