/* Chunks that look used and are free: those that a thread keeps for its next request, and those in fast bins. Both are
 * lists by size; since glibc 2.32 each link is mixed with its own address. */

#include "malloc/internal.h"
#include <string.h>

#define CACHE_LISTS 64 /* sizes of a thread's cache: 32, 48, ... */

VEC_TYPE(malloc_list, uint64_t);

/* A list of chunks of one size, as addresses of their memory. Links lead to the memory or `before` bytes before it. */
static bool read_list(struct malloc_walk *w, uint64_t first, uint64_t before, uint64_t size, uint64_t most, bool mixed,
		      struct malloc_list *out)
{
	size_t had = out->n;
	for (uint64_t link = first; link;) {
		uint64_t at = link + before, next, head;
		if (link & (CHUNK_ALIGN - 1) || out->n - had >= most || !malloc_word(w, at - 8, &head) ||
		    (head & ~(uint64_t)CHUNK_FLAGS) != size || !malloc_word(w, at, &next)) {
			out->n = had;
			return false;
		}
		vec_push(out, at);
		link = mixed ? next ^ at >> 12 : next;
	}
	return true;
}

static bool read_either(struct malloc_walk *w, uint64_t first, uint64_t before, uint64_t size, uint64_t most,
			struct malloc_list *out)
{
	return read_list(w, first, before, size, most, true, out) ||
	       read_list(w, first, before, size, most, false, out);
}

static struct malloc_arena *arena_at(const struct malloc_look *look, uint64_t at)
{
	size_t low = 0, high = look->heaps.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (look->heaps.v[mid].end <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < look->heaps.n && look->heaps.v[low].start <= at ? &look->arenas.v[look->heaps.v[low].arena] : NULL;
}

static void take_out(struct malloc_walk *w, const struct malloc_list *list, uint64_t size, struct map_u64 *seen)
{
	vec_each(at, list) {
		struct malloc_arena *a = arena_at(w->look, *at);
		uint64_t *chunks = map_u64_get(&w->sizes, size);
		bool fresh;
		map_u64_put(seen, *at, &fresh);
		if (!fresh || !a || !chunks || !*chunks || a->state[MALLOC_USED].bytes < size)
			continue;
		--*chunks;
		a->state[MALLOC_USED].chunks--;
		a->state[MALLOC_USED].bytes -= size;
		a->state[MALLOC_CACHED].chunks++;
		a->state[MALLOC_CACHED].bytes += size;
	}
}

/* uint16_t counts[64], then the first of each list. Any chunk in use may have that size: it is a cache only if each of
 * its lists is as long as its count says. One that is changed at this moment may be one off. */
static bool read_cache(struct malloc_walk *w, uint64_t table, struct malloc_list lists[CACHE_LISTS])
{
	struct {
		uint16_t counts[CACHE_LISTS];
		uint64_t first[CACHE_LISTS];
	} t;
	bool some = false;
	if (!image_read_all(w->img, table, &t, sizeof(t)))
		return false;
	for (unsigned i = 0; i < CACHE_LISTS; i++) {
		uint64_t most = (uint64_t)t.counts[i] + 1;
		if (!t.first[i] && !t.counts[i])
			continue;
		if (!read_either(w, t.first[i], 0, CHUNK_LEAST + (uint64_t)CHUNK_ALIGN * i, most, &lists[i]) ||
		    lists[i].n + 1 < t.counts[i])
			return false;
		some = true;
	}
	return some;
}

static void find_in_caches(struct malloc_walk *w, struct map_u64 *seen)
{
	vec_each(table, &w->cache_tables) {
		struct malloc_list lists[CACHE_LISTS] = { 0 };
		bool is = read_cache(w, *table, lists);
		w->look->caches += is;
		for (unsigned i = 0; i < CACHE_LISTS; i++) {
			if (is)
				take_out(w, &lists[i], CHUNK_LEAST + (uint64_t)CHUNK_ALIGN * i, seen);
			vec_free(&lists[i]);
		}
	}
}

static void find_in_fast_bins(struct malloc_walk *w, const struct malloc_arena *a, struct map_u64 *seen)
{
	uint64_t first[STATE_N_FASTBINS];
	uint64_t most = a->state[MALLOC_USED].chunks;
	if (!image_read_all(w->img, a->at + STATE_FASTBINS, first, sizeof(first)))
		return;
	for (unsigned i = 0; i < STATE_N_FASTBINS; i++) {
		struct malloc_list list = { 0 };
		uint64_t size = CHUNK_LEAST + (uint64_t)CHUNK_ALIGN * i;
		if (read_either(w, first[i], CHUNK_HEAD, size, most, &list))
			take_out(w, &list, size, seen);
		else
			w->look->lists_unread++;
		vec_free(&list);
	}
}

void malloc_find_cached(struct malloc_walk *w)
{
	CLEANUP(map_u64_free) struct map_u64 seen = { 0 };
	find_in_caches(w, &seen);
	vec_each(a, &w->look->arenas)
		if (!a->doubt)
			find_in_fast_bins(w, a, &seen);
}
