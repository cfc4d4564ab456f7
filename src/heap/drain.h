#pragma once
/* A whole heap out of an image, as the stream of a heap graph (model/heapgraph.h): roots with their names, every object
 * and its references, names of types and fields. Reads once in order of addresses, so that a copy of a living process
 * can go soon; what it means is found out afterwards. */

#include "heap/walk.h"
#include "model/heapgraph.h"

struct heap_drain {
	/* Told now and then; false = stop (ERR_CANCELLED). May be NULL. */
	bool (*on_progress)(void *user, double ratio);
	/* Each object as it is written, with its number among them, gaps not counted. May be NULL. */
	void (*on_object)(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number);
	/* Before the walk; the outline lives until the end. May be NULL. */
	void (*on_outline)(void *user, struct heap *h, const struct heap_outline *outline);
	void *user;
	/* An object: then its graph has only those on a shortest way from a root to it, and the roots; it alone when
	 * nothing keeps it alive, nothing when it is none. Needs less memory, and less time. 0 = all objects. */
	uint64_t only_to;
	/* What the caller knows of the process: rss and area are taken over into the facts. */
	struct graph_facts memory;

	/* Results. */
	struct graph_facts facts;
	uint32_t threads_unread; /* whose stacks could not be asked for what they hold */
};
/* ERR_UNSUPPORTED when the heap is not laid out as we know it; ERR_BUSY when a collection was at work. */
struct err *heap_drain(struct heap *h, struct dac *d, struct heap_drain *drain, struct buf *out) MUST_USE;
