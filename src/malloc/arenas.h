#pragma once
/* The heap of glibc's malloc in an image that does not change: its arenas, and what the chunks in them are at that
 * instant. Layouts of glibc 2.31 to 2.41 on x86-64, found without symbols.
 *
 * Knows nothing of who uses the memory. Nothing is assumed that is not checked: an arena whose heaps do not add up to
 * what glibc itself counts for it (system_mem), or whose chunks do not lead from the first to the last, has a doubt
 * instead of numbers. All of it is hostile: every step leads upwards or is counted, so that a walk ends. */

#include "base/vec.h"
#include "image/image.h"

enum malloc_state {
	MALLOC_USED,
	MALLOC_CACHED, /* free, kept for the next request of its size: by a thread, or in a fast bin */
	MALLOC_FREE,
	MALLOC_TOP, /* behind the last chunk of an arena, where it grows */
	MALLOC_STATES
};
struct malloc_sum {
	uint64_t chunks, bytes; /* with their headers, as glibc counts */
};
struct malloc_arena {
	uint64_t at;
	uint64_t system; /* bytes that it has taken from the system, as it counts itself */
	uint32_t heaps;	 /* the main arena has one */
	bool main;
	const char *doubt; /* why nothing else is known of it; NULL = all of it adds up */
	struct malloc_sum state[MALLOC_STATES];
	/* Of its free memory what malloc_trim would give back: whole pages, resident as far as that is known. The rest of
	 * the free memory shares its pages with chunks in use. */
	uint64_t trimmable;
	uint64_t whole_pages;  /* in free chunks, resident or not */
	uint64_t top_resident; /* whole pages; malloc_trim gives back those of the main arena */
};
/* Memory of arena number `arena`, without gaps. */
struct malloc_heap {
	uint64_t start, end;
	uint32_t arena;
};
struct malloc_size {
	uint64_t size, chunks;
};
/* Chunks that were each taken from the system by a mapping of their own. */
struct malloc_mapped {
	bool known;	       /* glibc's own counters were found */
	struct malloc_sum sum; /* as they say */
	bool found;	       /* the ranges are those, no more and no fewer */
};

struct malloc_look {
	const char *doubt;		 /* why no arena is known; NULL = they are */
	VEC(struct malloc_arena) arenas; /* the main arena first */
	VEC(struct malloc_heap) heaps;	 /* of arenas without doubt, by address */
	VEC(struct malloc_size) sizes;	 /* of chunks in use, mapped ones too: most bytes first */
	VEC(struct image_range) ranges;	 /* mapped chunks, by address; only when they are found */
	struct malloc_mapped mapped;
	uint64_t arena_max;    /* as set by MALLOC_ARENA_MAX; 0 = not set, or not known */
	uint32_t caches;       /* of threads that were read */
	uint32_t lists_unread; /* of free chunks that made no sense: they count as used */
};
struct malloc_ask {
	/* How many bytes of whole pages are in RAM. NULL = not known: all count. */
	uint64_t (*resident)(void *user, uint64_t start, uint64_t end);
	void *user;
	/* Where no chunk is: not searched. Sorted. */
	const struct image_range *skip;
	size_t n_skip;
};
void malloc_look(const struct image *img, const struct malloc_ask *ask, struct malloc_look *ret);
void malloc_look_free(struct malloc_look *look);
