#pragma once
/* Shared by the files of this module: reading words, and a walk that is under way. */

#include "base/map.h"
#include "malloc/arenas.h"

/* struct malloc_state, the same from 2.27 to 2.41. */
enum {
	STATE_FLAGS = 4,
	STATE_FASTBINS = 16,
	STATE_TOP = 96,
	STATE_BINS = 112,
	STATE_NEXT = 2160,
	STATE_SYSTEM = 2184,
	STATE_SIZE = 2200,
	STATE_N_FASTBINS = 10,
	STATE_N_BINS = 127,
};
/* Of a chunk: what was before it, its size with flags, then its memory. */
enum { CHUNK_HEAD = 16, CHUNK_LEAST = 32, CHUNK_ALIGN = 16, CHUNK_PREV_USED = 1, CHUNK_MAPPED = 2, CHUNK_FLAGS = 7 };
#define MALLOC_PAGE ((uint64_t)4096)
#define MALLOC_CACHE_SIZE ((uint64_t)0x290) /* of the chunk that has the table of a thread's cache */

#define MALLOC_WINDOW ((size_t)65536)
struct malloc_walk {
	const struct image *img;
	const struct malloc_ask *ask;
	struct malloc_look *look;
	uint64_t main_at;
	struct map_u64 sizes;	    /* of chunks in use: size -> chunks */
	struct map_u64 heaps_seen;  /* addresses of heaps of all arenas */
	VEC(uint64_t) cache_tables; /* memory that may be a thread's cache */
	uint64_t window_at;
	size_t window_len;
	uint8_t window[MALLOC_WINDOW];
};
bool malloc_word(struct malloc_walk *w, uint64_t at, uint64_t *ret);
static inline uint64_t malloc_page_up(uint64_t at)
{
	return (at + MALLOC_PAGE - 1) & ~(MALLOC_PAGE - 1);
}
static inline uint64_t malloc_page_down(uint64_t at)
{
	return at & ~(MALLOC_PAGE - 1);
}

/* The main arena, and what the allocator's parameters say; false when there is none that makes sense. */
bool malloc_find_main(struct malloc_walk *w);
/* The heaps and chunks of one arena; the doubt, or NULL. */
const char *malloc_walk_arena(struct malloc_walk *w, uint32_t arena);
/* Takes what waits in caches of threads and in fast bins out of what is used. */
void malloc_find_cached(struct malloc_walk *w);
void malloc_find_mapped(struct malloc_walk *w);
