/* Chunks so large that each was taken from the system by a mapping of its own. Neighbours merge into one mapping, also
 * with memory that is not malloc's, so their beginnings are searched for; glibc's own counters say whether those found
 * are all, and only those. */

#include "base/str.h"
#include "malloc/internal.h"
#include <stdlib.h>

#define PAGES_MAX ((uint64_t)1 << 22) /* 16 GB: reading that many heads takes seconds */

/* The first of n ranges, sorted by address, that ends above; n = none does. */
#define FIRST_ABOVE(n, end_of)                                                                                         \
	({                                                                                                             \
		size_t low_ = 0, high_ = (n);                                                                          \
		while (low_ < high_) {                                                                                 \
			size_t i = low_ + (high_ - low_) / 2;                                                          \
			if ((end_of) <= at)                                                                            \
				low_ = i + 1;                                                                          \
			else                                                                                           \
				high_ = i;                                                                             \
		}                                                                                                      \
		low_;                                                                                                  \
	})

/* The address, or the end of what is skipped or is another part of malloc's memory there. */
static uint64_t past_others(const struct malloc_walk *w, uint64_t at)
{
	const struct image_range *skip = w->ask->skip;
	const struct malloc_look *l = w->look;
	size_t s = FIRST_ABOVE(w->ask->n_skip, skip[i].start + skip[i].size);
	size_t h = FIRST_ABOVE(l->heaps.n, l->heaps.v[i].end);
	if (s < w->ask->n_skip && skip[s].start <= at)
		return skip[s].start + skip[s].size;
	return h < l->heaps.n && l->heaps.v[h].start <= at ? l->heaps.v[h].end : at;
}

static bool is_ours(const struct image_mapping *m)
{
	return (!*m->path || str_starts(m->path, "[anon:")) && !m->shared &&
	       (m->prot & (IMAGE_READ | IMAGE_WRITE)) == (IMAGE_READ | IMAGE_WRITE);
}

static bool search(struct malloc_walk *w, const struct image_mapping *m, uint64_t *pages, struct malloc_sum *sum)
{
	for (uint64_t at = malloc_page_up(m->start), head[2]; at < m->end;) {
		uint64_t next = past_others(w, at);
		if (next != at) {
			at = malloc_page_up(next);
			continue;
		}
		if (++*pages > PAGES_MAX)
			return false;
		uint64_t bytes = image_read_all(w->img, at, head, sizeof(head)) ? head[1] & ~(uint64_t)CHUNK_FLAGS : 0;
		if (!bytes || head[0] || (head[1] & CHUNK_FLAGS) != CHUNK_MAPPED || bytes & (MALLOC_PAGE - 1) ||
		    bytes > m->end - at) {
			at += MALLOC_PAGE;
			continue;
		}
		vec_push(&w->look->ranges, ((struct image_range){ at, bytes }));
		sum->chunks++;
		sum->bytes += bytes;
		at += bytes;
	}
	return true;
}

void malloc_find_mapped(struct malloc_walk *w)
{
	struct malloc_mapped *mapped = &w->look->mapped;
	struct malloc_sum sum = { 0 };
	uint64_t pages = 0;
	size_t n;
	const struct image_mapping *m = image_mappings(w->img, &n);
	bool all = mapped->known;
	for (size_t i = 0; i < n && all; i++)
		if (is_ours(&m[i]))
			all = search(w, &m[i], &pages, &sum);
	mapped->found = all && sum.chunks == mapped->sum.chunks && sum.bytes == mapped->sum.bytes;
	if (!mapped->found)
		vec_clear(&w->look->ranges);
	vec_each(r, &w->look->ranges)
		++*map_u64_put(&w->sizes, r->size, NULL);
}
