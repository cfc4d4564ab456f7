/* Where glibc keeps its arenas: found in the data of libc by what they must look like, since no symbol says so. */

#include "base/str.h"
#include "malloc/internal.h"
#include <string.h>

#define DATA_MAX ((uint64_t)4 << 20)
/* Of the 127 bins: a thread that stands still in the middle of malloc may have one in its hands. */
#define BINS_WRONG_MOST 2
/* The end of struct malloc_par, as nobody sets it: tcache_bins, tcache_max_bytes. */
#define CACHE_BINS 64
#define CACHE_BYTES 1032
#define MAPPINGS_MOST 65536 /* n_mmaps_max */

struct libc_data {
	uint64_t at;
	uint8_t *bytes;
	size_t len;
};

static uint64_t data_word(const struct libc_data *d, size_t at)
{
	uint64_t v;
	memcpy(&v, d->bytes + at, sizeof(v));
	return v;
}

static uint32_t data_half(const struct libc_data *d, size_t at)
{
	uint32_t v;
	memcpy(&v, d->bytes + at, sizeof(v));
	return v;
}

static bool is_libc_data(const struct image_mapping *m)
{
	const char *slash = strrchr(m->path, '/');
	return slash && (str_starts(slash + 1, "libc.so.6") || str_starts(slash + 1, "libc-2.")) &&
	       (m->prot & IMAGE_WRITE) && !m->shared;
}

/* What libc may write: its data, and the anonymous memory right behind. */
static bool read_data(const struct image *img, struct libc_data *ret)
{
	size_t n;
	const struct image_mapping *m = image_mappings(img, &n);
	for (size_t i = 0; i < n; i++) {
		if (!is_libc_data(&m[i]))
			continue;
		uint64_t end = m[i].end;
		if (i + 1 < n && m[i + 1].start == end && !*m[i + 1].path && (m[i + 1].prot & IMAGE_WRITE))
			end = m[i + 1].end;
		size_t len = (size_t)MIN(end - m[i].start, DATA_MAX);
		*ret = (struct libc_data){ .at = m[i].start, .bytes = mem_alloc(len) };
		image_read(img, m[i].start, ret->bytes, len, &ret->len);
		return true;
	}
	return false;
}

/* An empty bin refers to itself; else its first and its last chunk refer to it. */
static bool bin_fits(struct malloc_walk *w, const struct libc_data *d, size_t state, unsigned bin)
{
	size_t at = state + STATE_BINS + (size_t)16 * bin;
	uint64_t self = d->at + at - CHUNK_HEAD, first = data_word(d, at), last = data_word(d, at + 8), back, forth;
	if (first == self || last == self)
		return first == last;
	return !((first | last) & (CHUNK_ALIGN - 1)) && malloc_word(w, first + 24, &back) &&
	       malloc_word(w, last + 16, &forth) && back == self && forth == self;
}

static bool is_arena(struct malloc_walk *w, const struct libc_data *d, size_t at)
{
	uint64_t top = data_word(d, at + STATE_TOP), next = data_word(d, at + STATE_NEXT), unused;
	unsigned wrong = 0;
	if (!top || top & (CHUNK_ALIGN - 1) || !next || next & 7 || data_half(d, at + STATE_FLAGS) > 3 ||
	    data_word(d, at + STATE_SYSTEM) & (MALLOC_PAGE - 1) || !malloc_word(w, top + 8, &unused) ||
	    !malloc_word(w, next + STATE_NEXT, &unused))
		return false;
	for (unsigned bin = 0; bin < STATE_N_BINS && wrong <= BINS_WRONG_MOST; bin++)
		wrong += !bin_fits(w, d, at, bin);
	return wrong <= BINS_WRONG_MOST;
}

/* struct malloc_par ends with tcache_bins, tcache_max_bytes, tcache_count. Before it: sbrk_base, max_mmapped_mem,
 * mmapped_mem, and numbers of mappings, which 2.35 has moved by four bytes. */
static void read_parameters(struct malloc_walk *w, const struct libc_data *d)
{
	enum { BEFORE = 88 };
	for (size_t at = BEFORE; at + 24 <= d->len; at += 8) {
		if (data_word(d, at) != CACHE_BINS || data_word(d, at + 8) != CACHE_BYTES)
			continue;
		bool old = data_half(d, at - 36) == MAPPINGS_MOST;
		if (!old && data_half(d, at - 40) != MAPPINGS_MOST)
			continue;
		w->look->mapped.known = true;
		w->look->mapped.sum.bytes = data_word(d, at - 24);
		w->look->mapped.sum.chunks = data_half(d, old ? at - 40 : at - 44);
		w->look->arena_max = data_word(d, old ? at - 48 : at - 72);
		return;
	}
}

bool malloc_find_main(struct malloc_walk *w)
{
	struct libc_data d = { 0 };
	unsigned found = 0;
	if (!read_data(w->img, &d))
		return false;
	for (size_t at = 0; at + STATE_SIZE <= d.len; at += 8) {
		if (!is_arena(w, &d, at))
			continue;
		w->main_at = d.at + at;
		found++;
	}
	read_parameters(w, &d);
	mem_free(d.bytes);
	/* Two that look alike: nobody could say which one it is. */
	return found == 1;
}
