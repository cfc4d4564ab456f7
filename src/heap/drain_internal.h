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
	struct heap_statics statics; /* sorted by slot */
	uint32_t threads_unread;
};
struct err *roots_gather(struct roots *r, struct heap *h, struct dac *d) MUST_USE;
void roots_write(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline);
void roots_free(struct roots *r);
/* Static fields are kept in arrays that handles hold. They are roots of their own, so the arrays must not seem to hold
 * what they hold. Is a static field kept between start and end? The first one from start on. */
bool roots_hold_slots(const struct roots *r, uint64_t start, uint64_t end);
size_t roots_slot_from(const struct roots *r, uint64_t start);
