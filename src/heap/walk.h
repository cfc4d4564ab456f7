#pragma once
/* Every object of the heap, region by region in order of addresses, and what each refers to.
 *
 * Memory is read in windows; the inside of large objects without references is not read at all. Where the heap makes no
 * sense, the walk leaves out the rest of that region, continues with the next, and reports how much it left out. Not
 * for threads. */

#include "heap/objects.h"

/* ---- where objects are ---- */

enum heap_generation { HEAP_GEN0, HEAP_GEN1, HEAP_GEN2, HEAP_LARGE, HEAP_PINNED, HEAP_FROZEN, HEAP_GENERATIONS };
struct heap_region {
	uint64_t start, end; /* of objects */
	uint64_t committed;  /* end of the memory that it has; start and end of one segment's parts are all in the first
			      */
	uint32_t heap;	     /* which of a server's */
	enum heap_generation generation;
};
/* Memory that a thread has reserved for allocation and not yet filled. */
struct heap_context {
	uint64_t ptr, limit;
};
struct heap_outline {
	VEC(struct heap_region) regions; /* sorted, apart from each other */
	VEC(struct heap_context) contexts;
	uint32_t n_heaps;
	bool uses_regions; /* false: segments */
	bool server;
	uint32_t left_out; /* regions that made no sense */
	/* Objects that wait for their finalizer, as address ranges of references; and those that have one. */
	VEC(struct dac_range) ready;
	uint64_t n_finalizable;
};
#define HEAP_MAX_BYTES ((uint64_t)32 << 30)
/* threads may be NULL. ERR_BAD_DATA when there is no heap in it, ERR_UNSUPPORTED above HEAP_MAX_BYTES. */
struct err *heap_outline_make(const struct dac_facts *facts, const struct dac_heaps *heaps,
			      const struct dac_segments *segments, const struct dac_threads *threads,
			      struct heap_outline *ret) MUST_USE;
/* The same with all that the runtime says of it. */
struct err *heap_outline_of(struct heap *h, struct dac *d, struct heap_outline *ret) MUST_USE;
void heap_outline_free(struct heap_outline *outline);
/* The references of one heap to what waits for its finalizer, as an address range; empty when none does. */
struct dac_range heap_ready_range(const struct dac_heap *heap);
/* The region that holds the address, or NULL. */
const struct heap_region *heap_region_at(const struct heap_outline *outline, uint64_t addr);

/* ---- the walk ---- */

struct heap_found {
	uint64_t address, size;
	const struct heap_type *type; /* of kind HEAP_FREE too: a gap */
	uint32_t region;	      /* index */
	uint32_t n;		      /* components */
};
struct heap_health {
	uint64_t objects, bytes, free_objects, free_bytes;
	uint64_t unused_bytes; /* taken by threads and not yet filled */
	uint64_t lost_bytes;   /* behind something that is no object, to its region's end */
	uint32_t lost_regions;
	uint64_t lost_at; /* the first such place */
};
struct heap_walk;
/* The outline must outlive the walk. */
struct heap_walk *heap_walk_new(struct heap *h, const struct heap_outline *outline);
void heap_walk_free(struct heap_walk *w);
DEFINE_CLEANUP(heap_walk_free, struct heap_walk *)
/* False at the end; then types that were made at run time have their names too. */
bool heap_walk_next(struct heap_walk *w, struct heap_found *ret);
/* Once it ended: the object that begins there, not counted again. False: none does. */
bool heap_walk_again(struct heap_walk *w, uint64_t address, struct heap_found *ret);
/* Words in a row that are references, null ones too; `at` is the first one's address. */
typedef void (*heap_refs_fn)(void *user, uint64_t at, const uint64_t *refs, size_t n);
/* Of the object that was given last. */
void heap_walk_refs(struct heap_walk *w, const struct heap_found *found, heap_refs_fn on_refs, void *user);
/* len bytes of it from offset on, at most 64 KB at a time; NULL when they are not there. Valid until the next call. */
const uint8_t *heap_walk_bytes(struct heap_walk *w, const struct heap_found *found, uint64_t offset, size_t len);
struct heap *heap_walk_heap(const struct heap_walk *w);
struct heap_health heap_walk_health(const struct heap_walk *w);

/* Does the runtime's own library report the same types and sizes for a sample of what was walked? ERR_UNSUPPORTED says
 * where it does not: then nothing that was read of this heap may be used. */
struct err *heap_walk_check(struct heap_walk *w) MUST_USE;
