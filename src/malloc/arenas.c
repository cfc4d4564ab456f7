#include "malloc/arenas.h"
#include "malloc/internal.h"
#include <stdlib.h>
#include <string.h>

#define ARENAS_MAX 16384
#define HEAP_MAX ((uint64_t)64 << 20) /* alignment and greatest size of a heap of another arena than the main one */
#define SIZES_MAX ((size_t)1 << 16)
/* struct heap_info: up to 2.34, and since */
enum { INFO_OLD = 0x20, INFO_NEW = 0x30, INFO_ARENA = 0, INFO_PREV = 8, INFO_SIZE = 16 };

bool malloc_word(struct malloc_walk *w, uint64_t at, uint64_t *ret)
{
	if (at < w->window_at || at - w->window_at >= w->window_len || w->window_len - (at - w->window_at) < 8) {
		/* A word across two windows is read by a window that begins with it. */
		uint64_t start = at & ~(uint64_t)(MALLOC_WINDOW - 1);
		w->window_at = at - start > MALLOC_WINDOW - 8 ? at : start;
		image_read(w->img, w->window_at, w->window, MALLOC_WINDOW, &w->window_len);
		if (w->window_len < at - w->window_at + 8 && w->window_at != at) {
			w->window_at = at; /* there may be nothing at the window's start */
			image_read(w->img, at, w->window, MALLOC_WINDOW, &w->window_len);
		}
		if (w->window_len < at - w->window_at + 8)
			return false;
	}
	memcpy(ret, w->window + (at - w->window_at), sizeof(*ret));
	return true;
}

/* ---- chunks ---- */

static uint64_t resident(const struct malloc_walk *w, uint64_t start, uint64_t end)
{
	if (start >= end)
		return 0;
	return w->ask->resident ? MIN(w->ask->resident(w->ask->user, start, end), end - start) : end - start;
}

static void add_used(struct malloc_walk *w, struct malloc_arena *a, struct map_u64 *sizes, uint64_t at, uint64_t bytes)
{
	a->state[MALLOC_USED].chunks++;
	a->state[MALLOC_USED].bytes += bytes;
	if (bytes == MALLOC_CACHE_SIZE)
		vec_push(&w->cache_tables, at + CHUNK_HEAD);
	/* No real program has this many different chunk sizes: further ones count as the power of two below them. */
	if (sizes->n >= SIZES_MAX && !map_u64_get(sizes, bytes))
		bytes = (uint64_t)1 << (63 - __builtin_clzll(bytes));
	++*map_u64_put(sizes, bytes, NULL);
}

/* malloc_trim gives back whole pages behind the list's links. */
static void add_free(const struct malloc_walk *w, struct malloc_arena *a, uint64_t at, uint64_t bytes)
{
	uint64_t start = malloc_page_up(at + 48), end = malloc_page_down(at + bytes);
	a->state[MALLOC_FREE].chunks++;
	a->state[MALLOC_FREE].bytes += bytes;
	if (end > start)
		a->whole_pages += end - start;
	a->trimmable += resident(w, start, end);
}

static const char *add_top(struct malloc_walk *w, struct malloc_arena *a, uint64_t at, uint64_t end)
{
	uint64_t size, bytes;
	if (!malloc_word(w, at + 8, &size))
		return "its last chunk cannot be read";
	bytes = size & ~(uint64_t)CHUNK_FLAGS;
	if (bytes < CHUNK_LEAST || bytes != end - at)
		return "its last chunk does not end where it ends";
	a->state[MALLOC_TOP] = (struct malloc_sum){ 1, bytes };
	a->top_resident = resident(w, malloc_page_up(at + CHUNK_LEAST), end);
	return NULL;
}

/* A heap that is full ends with chunks too small to be any: 16, then 0. */
static bool is_fence(uint64_t at, uint64_t bytes, uint64_t end)
{
	return (bytes == 16 && at + 32 == end) || (!bytes && at + 16 == end);
}

/* From the first chunk to the top of the arena when that is in this heap, else to the heap's end. */
static const char *walk_heap(struct malloc_walk *w, struct malloc_arena *a, struct map_u64 *sizes, uint64_t first,
			     uint64_t end, uint64_t top)
{
	uint64_t at = first, size, next, before;
	bool has_top = top >= first && top < end;
	while (!has_top || at != top) {
		if (at + CHUNK_HEAD > end || !malloc_word(w, at + 8, &size))
			return "its memory cannot be read";
		uint64_t bytes = size & ~(uint64_t)CHUNK_FLAGS;
		if (!has_top && is_fence(at, bytes, end))
			return NULL;
		if (bytes < CHUNK_LEAST || bytes & (CHUNK_ALIGN - 1) || size & CHUNK_MAPPED ||
		    bytes > end - at - CHUNK_HEAD || (has_top && bytes > top - at))
			return "a chunk in it has a size that cannot be";
		if (!malloc_word(w, at + bytes + 8, &next) || !malloc_word(w, at + bytes, &before))
			return "its memory cannot be read";
		if (next & CHUNK_PREV_USED)
			add_used(w, a, sizes, at, bytes);
		else if (before == bytes)
			add_free(w, a, at, bytes);
		else
			return "a free chunk in it has two sizes";
		at += bytes;
	}
	return add_top(w, a, top, end);
}

/* ---- arenas ---- */

static void add_heap(struct malloc_walk *w, uint32_t arena, uint64_t start, uint64_t end)
{
	vec_push(&w->look->heaps, ((struct malloc_heap){ start, end, arena }));
	w->look->arenas.v[arena].heaps++;
}

static const char *walk_main(struct malloc_walk *w, struct malloc_arena *a, uint64_t top, struct map_u64 *sizes)
{
	uint64_t size;
	if (!malloc_word(w, top + 8, &size))
		return "its last chunk cannot be read";
	uint64_t end = top + (size & ~(uint64_t)CHUNK_FLAGS);
	if (end < top || a->system > end || top < end - a->system)
		return "its memory is not in one piece";
	add_heap(w, 0, end - a->system, end);
	return walk_heap(w, a, sizes, end - a->system, end, top);
}

static const char *walk_other(struct malloc_walk *w, uint32_t arena, uint64_t top, struct map_u64 *sizes)
{
	struct malloc_arena *a = &w->look->arenas.v[arena];
	uint64_t info = a->at & (HEAP_MAX - 1), sum = 0, at, of, prev, size;
	if (info != INFO_OLD && info != INFO_NEW)
		return "it does not begin where an arena begins";
	for (at = top & ~(HEAP_MAX - 1); at; at = prev) {
		if (!malloc_word(w, at + INFO_ARENA, &of) || !malloc_word(w, at + INFO_PREV, &prev) ||
		    !malloc_word(w, at + INFO_SIZE, &size))
			return "its memory cannot be read";
		if (of != a->at || size > HEAP_MAX || size & (MALLOC_PAGE - 1) || prev & (HEAP_MAX - 1) || !size)
			return "one of its heaps is not its own";
		bool fresh;
		map_u64_put(&w->heaps_seen, at, &fresh);
		if (!fresh)
			return "the list of its heaps has no end";
		if (at == (top & ~(HEAP_MAX - 1)) && top - at >= size)
			return "its last chunk is outside of it";
		sum += size;
		uint64_t first = at == (a->at & ~(HEAP_MAX - 1)) ? a->at + STATE_SIZE : at + info;
		add_heap(w, arena, at, at + size);
		const char *doubt = walk_heap(w, a, sizes, (first + CHUNK_ALIGN - 1) & ~(uint64_t)(CHUNK_ALIGN - 1),
					      at + size, top);
		if (doubt)
			return doubt;
	}
	return sum == a->system ? NULL : "its heaps do not add up to what it counts";
}

const char *malloc_walk_arena(struct malloc_walk *w, uint32_t arena)
{
	struct malloc_arena *a = &w->look->arenas.v[arena];
	CLEANUP(map_u64_free) struct map_u64 sizes = { 0 };
	size_t heaps = w->look->heaps.n, tables = w->cache_tables.n, pos = 0;
	uint64_t top, key, value;
	const char *doubt = "it cannot be read";
	if (malloc_word(w, a->at + STATE_TOP, &top))
		doubt = a->main ? walk_main(w, a, top, &sizes) : walk_other(w, arena, top, &sizes);
	if (doubt) {
		*a = (struct malloc_arena){ .at = a->at, .system = a->system, .main = a->main, .doubt = doubt };
		w->look->heaps.n = heaps;
		w->cache_tables.n = tables;
		return doubt;
	}
	while (map_u64_next(&sizes, &pos, &key, &value))
		*map_u64_put(&w->sizes, key, NULL) += value;
	return NULL;
}

/* A circle of all arenas, which begins and ends with the main one. */
static const char *find_arenas(struct malloc_walk *w)
{
	CLEANUP(map_u64_free) struct map_u64 seen = { 0 };
	uint64_t at = w->main_at, next, system;
	do {
		bool fresh;
		map_u64_put(&seen, at, &fresh);
		if (!fresh || w->look->arenas.n >= ARENAS_MAX)
			return "the list of its arenas has no end";
		if (!malloc_word(w, at + STATE_NEXT, &next) || !malloc_word(w, at + STATE_SYSTEM, &system))
			return "the list of its arenas leads to memory that is not there";
		vec_push(&w->look->arenas,
			 ((struct malloc_arena){ .at = at, .system = system, .main = at == w->main_at }));
		at = next;
	} while (at != w->main_at);
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	const struct malloc_heap *x = a, *y = b;
	return CMP(x->start, y->start);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct malloc_size *x = a, *y = b;
	return CMP((double)y->size * (double)y->chunks, (double)x->size * (double)x->chunks) ?: CMP(x->size, y->size);
}

void malloc_look(const struct image *img, const struct malloc_ask *ask, struct malloc_look *ret)
{
	struct malloc_walk *w = mem_zalloc(sizeof(*w));
	size_t pos = 0;
	struct malloc_size s;
	*ret = (struct malloc_look){ 0 };
	w->img = img;
	w->ask = ask;
	w->look = ret;
	ret->doubt = malloc_find_main(w) ? find_arenas(w) : "its arenas were not found in the memory of libc";
	if (ret->doubt)
		vec_clear(&ret->arenas);
	for (uint32_t i = 0; i < ret->arenas.n; i++)
		malloc_walk_arena(w, i);
	vec_sort(&ret->heaps, by_address);
	malloc_find_cached(w);
	if (!ret->doubt)
		malloc_find_mapped(w);
	while (map_u64_next(&w->sizes, &pos, &s.size, &s.chunks))
		if (s.chunks)
			vec_push(&ret->sizes, s);
	vec_sort(&ret->sizes, most_bytes_first);
	map_u64_free(&w->sizes);
	map_u64_free(&w->heaps_seen);
	vec_free(&w->cache_tables);
	mem_free(w);
}

void malloc_look_free(struct malloc_look *look)
{
	vec_free(&look->arenas);
	vec_free(&look->heaps);
	vec_free(&look->sizes);
	vec_free(&look->ranges);
}
