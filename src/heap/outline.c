/* Where the objects of a heap are: regions or segments, and what of them is not filled yet. */

#include "heap/internal.h"
#include "heap/walk.h"
#include "base/fmt.h"
#include <stdlib.h>
#include <string.h>

enum { SEGMENT_READ_ONLY = 1 };
/* Fill pointers of the finalization queue: from the fifth on they bound what is ready to run; a shorter list is that of
 * runtimes without a pinned heap. */
enum { FILL_READY = 4, FILL_END = 6 };

static void add_region(struct heap_outline *o, struct heap_region r)
{
	if (r.start & 7 || r.end & 7 || r.start > r.end || r.generation >= HEAP_GENERATIONS)
		o->left_out++;
	else if (r.start < r.end)
		vec_push(&o->regions, r);
}

/* Without regions the youngest two live at the end of the last segment. */
static void add_ephemeral(struct heap_outline *o, const struct dac_heap *heap, struct heap_region whole)
{
	uint64_t gen1 = heap->generations[1].alloc_start, gen0 = heap->generations[0].alloc_start;
	struct heap_region old = whole, middle = whole, young = whole;
	if (!(whole.start <= gen1 && gen1 <= gen0 && gen0 <= whole.end)) {
		add_region(o, whole);
		return;
	}
	old.end = middle.start = gen1;
	middle.end = young.start = gen0;
	middle.generation = HEAP_GEN1;
	young.generation = HEAP_GEN0;
	middle.committed = young.committed = 0;
	add_region(o, old);
	add_region(o, middle);
	add_region(o, young);
}

static void add_segment(struct heap_outline *o, const struct dac_heaps *heaps, const struct dac_segment *s)
{
	const struct dac_heap *heap = s->heap_index < heaps->n ? &heaps->v[s->heap_index] : NULL;
	bool ephemeral = heap && s->address == heap->ephemeral_segment;
	struct heap_region r = {
		.start = s->mem,
		.end = ephemeral ? heap->alloc_allocated : s->allocated,
		.committed = s->committed,
		.heap = s->heap_index,
		.generation = s->flags & SEGMENT_READ_ONLY ? HEAP_FROZEN : s->generation,
	};
	if (ephemeral && !o->uses_regions)
		add_ephemeral(o, heap, r);
	else
		add_region(o, r);
}

static void add_context(struct heap_outline *o, uint64_t ptr, uint64_t limit)
{
	if (ptr && ptr <= limit && !(ptr & 7))
		vec_push(&o->contexts, ((struct heap_context){ ptr, limit }));
}

static bool fill_pointers(const struct dac_heap *heap, uint64_t *first, uint64_t *ready, uint64_t *end)
{
	if (heap->n_fill_pointers <= FILL_END)
		return false;
	*first = heap->fill_pointers[0];
	*ready = heap->fill_pointers[FILL_READY];
	*end = heap->fill_pointers[FILL_END];
	return *first && *first <= *ready && *ready <= *end;
}

struct dac_range heap_ready_range(const struct dac_heap *heap)
{
	uint64_t first, ready, end;
	return fill_pointers(heap, &first, &ready, &end) ? (struct dac_range){ ready, end - ready }
							 : (struct dac_range){ 0 };
}

static void add_heap(struct heap_outline *o, const struct dac_heap *heap)
{
	uint64_t first, ready, end;
	for (uint32_t g = 0; g < heap->n_generations && g < DAC_MAX_GENERATIONS; g++)
		add_context(o, heap->generations[g].alloc_ptr, heap->generations[g].alloc_limit);
	if (fill_pointers(heap, &first, &ready, &end)) {
		o->n_finalizable += (ready - first) / 8;
		if (ready < end)
			vec_push(&o->ready, ((struct dac_range){ ready, end - ready }));
	}
}

static int by_start(const void *a, const void *b)
{
	const struct heap_region *x = a, *y = b;
	return CMP(x->start, y->start);
}

static int by_ptr(const void *a, const void *b)
{
	const struct heap_context *x = a, *y = b;
	return CMP(x->ptr, y->ptr);
}

/* Of regions that overlap the first is believed. */
static struct err *settle(struct heap_outline *o)
{
	size_t n = 0;
	uint64_t bytes = 0, end = 0;
	vec_sort(&o->regions, by_start);
	vec_sort(&o->contexts, by_ptr);
	vec_each(r, &o->regions) {
		if (r->start < end) {
			o->left_out++;
			continue;
		}
		end = r->end;
		bytes += r->end - r->start;
		o->regions.v[n++] = *r;
	}
	o->regions.n = n;
	if (!n)
		return err_new(ERR_BAD_DATA, "the image holds no managed heap");
	if (bytes > HEAP_MAX_BYTES)
		return err_new(ERR_UNSUPPORTED, "the managed heap has %s; up to %s can be read", fmt_bytes(bytes).s,
			       fmt_bytes(HEAP_MAX_BYTES).s);
	return NULL;
}

struct err *heap_outline_make(const struct dac_facts *facts, const struct dac_heaps *heaps,
			      const struct dac_segments *segments, const struct dac_threads *threads,
			      struct heap_outline *ret)
{
	struct heap_outline o = { .n_heaps = (uint32_t)heaps->n, .server = facts->server_gc };
	o.uses_regions =
		heaps->n && heaps->v[0].generations[0].start_segment != heaps->v[0].generations[1].start_segment;
	vec_each(s, segments)
		add_segment(&o, heaps, s);
	vec_each(heap, heaps)
		add_heap(&o, heap);
	add_context(&o, facts->global_alloc_ptr, facts->global_alloc_limit);
	for (size_t i = 0; threads && i < threads->n; i++)
		add_context(&o, threads->v[i].alloc_ptr, threads->v[i].alloc_limit);
	struct err *err = settle(&o);
	if (err)
		heap_outline_free(&o);
	else
		*ret = o;
	return err;
}

struct err *heap_outline_of(struct heap *h, struct dac *d, struct heap_outline *ret)
{
	struct dac_heaps heaps = { 0 };
	struct dac_segments segments = { 0 };
	struct dac_threads threads = { 0 };
	struct err *err = dac_heaps(d, &heaps);
	if (!err)
		err = dac_segments(d, &segments);
	if (!err)
		err = dac_threads(d, &threads);
	if (!err)
		err = heap_outline_make(heap_facts(h), &heaps, &segments, &threads, ret);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	dac_threads_free(&threads);
	return err;
}

void heap_outline_free(struct heap_outline *o)
{
	vec_free(&o->regions);
	vec_free(&o->contexts);
	vec_free(&o->ready);
}

const struct heap_region *heap_region_at(const struct heap_outline *o, uint64_t addr)
{
	size_t lo = 0, hi = o->regions.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (addr < o->regions.v[mid].start)
			hi = mid;
		else if (addr >= o->regions.v[mid].end)
			lo = mid + 1;
		else
			return &o->regions.v[mid];
	}
	return NULL;
}
