#pragma once
/* Writes a whole heap of an image as the stream of a heap graph (model/heapgraph.h): roots with their names, every
 * object and its references, names of types and fields. Reads everything once in order of addresses, so that the copy
 * of a living process can be released soon; the analysis works from the stream. */

#include "heap/walk.h"
#include "model/heapgraph.h"

struct heap_drain {
	/* Called now and then; false = stop (ERR_CANCELLED). May be NULL. */
	bool (*on_progress)(void *user, double ratio);
	/* Called for each object as it is written, with its number among them, gaps not counted. May be NULL. */
	void (*on_object)(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number);
	/* Called before the walk; the outline is valid until the end. May be NULL. */
	void (*on_outline)(void *user, struct heap *h, const struct heap_outline *outline);
	void *user;
	/* An object: then the graph has only the objects on a shortest path from a root to it, and the roots; the
	 * object alone when nothing keeps it alive, nothing when it is no object. Needs less memory and time. 0 = all
	 * objects. */
	uint64_t only_to;
	/* What the caller knows of the process: rss and area are taken over into the facts. */
	struct graph_facts memory;

	/* Results. */
	struct graph_facts facts;
	uint32_t threads_unread; /* threads whose stacks could not be asked for their references */
	uint32_t modules_unread; /* modules whose static fields are not known */
};
/* ERR_UNSUPPORTED when the heap has a layout that we do not know; ERR_BUSY when a collection was running. */
struct err *heap_drain(struct heap *h, struct dac *d, struct heap_drain *drain, struct buf *out) MUST_USE;
