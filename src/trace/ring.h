#pragma once
/* The last seconds of an event stream, in memory that is bounded, as whole objects that make a valid stream again.
 *
 * What an event block needs is kept with it: all metadata, and the stack blocks since the last sequence point (numbers
 * of stacks are void after it). Blocks that were left out would look like lost events; a sequence point in front of the
 * kept ones says where the numbering of each thread stood. */

#include "base/map.h"
#include "base/vec.h"
#include "trace/cut.h"

struct ring {
	uint64_t keep_ticks;
	size_t max_bytes;
	VEC_TYPE(ring_items, struct ring_item) items; /* used from `first` on */
	size_t first;
	struct buf start, metadata;   /* written as they came: head, trace; metadata as records of (length, object) */
	struct map_u64 last_sequence; /* of what was dropped: thread -> number */
	uint64_t newest;
	size_t bytes;
	bool squeezed; /* max_bytes took events that are younger than keep_ticks */
};

void ring_init(struct ring *r, uint64_t keep_ticks, size_t max_bytes);
void ring_fini(struct ring *r);
/* Takes a copy; drops what is too old. */
void ring_add(struct ring *r, const struct cut_object *o);
/* Calls put() with every object of the stream that is kept, in order, without an end; the ring is empty then. */
void ring_drain(struct ring *r, void (*put)(void *user, const struct cut_object *o), void *user);
/* How far back it goes, in ticks. */
uint64_t ring_span(const struct ring *r);
