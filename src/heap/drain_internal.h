#pragma once
/* What the files of the drain share. */

#include "base/arena.h"
#include "base/vec.h"
#include "heap/drain.h"

/* `to` lives as long as `from`. */
struct heap_link {
	uint64_t from, to;
};

struct roots {
	struct heap *h;
	struct dac *dac;
	struct arena arena;
	struct dac_threads threads;
	struct dac_handles handles;
	/* Sorted by slot. The runtime keeps static fields in arrays that handles hold. They are roots of their own, so
	 * references from those arrays are left out. */
	struct heap_statics statics;
	uint32_t threads_unread;
	/* As they were written: */
	VEC(uint64_t) objects;
	VEC(struct heap_link) links;
};
struct err *roots_gather(struct roots *r, struct heap *h, struct dac *d) MUST_USE;
struct err *roots_write(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline) MUST_USE;
void roots_free(struct roots *r);

/* The shortest path from a root to one object. It gets all objects and their references, in order of addresses, and
 * keeps of each only its address and its references. */
struct root_path;
/* Both must outlive it. */
struct root_path *root_path_new(const struct roots *r, const struct heap_outline *outline);
void root_path_free(struct root_path *w);
void root_path_object(struct root_path *w, const struct heap_found *found);
/* Of the object given last. */
void root_path_refs(struct root_path *w, const uint64_t *refs, size_t n);
VEC_TYPE(addresses, uint64_t);
/* Once all were given: the objects on the path, in order of addresses, the last one too; only that one when no path
 * leads there, none when it is no object. */
struct err *root_path_find(struct root_path *w, uint64_t object, struct addresses *ret) MUST_USE;
