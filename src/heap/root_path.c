/* The shortest path from a root to one object: breadth first, until the object is found. It keeps a bit for each 8
 * bytes of heap, 4 bytes an object and 4 a reference; of objects that the search reaches, 8 bytes each. */

#include "base/ranks.h"
#include "heap/drain_internal.h"
#include <stdlib.h>

#define NONE RANKS_NONE
/* Objects are seldom nearer to each other on the average. */
#define UNITS_AN_OBJECT 64
#define AHEAD 8

struct root_met {
	uint32_t object, from; /* from: the one that leads there, by its place in the list; NONE = a root does */
};

struct root_path {
	const struct roots *roots;
	const struct heap_outline *outline;
	VEC(uint64_t) positions; /* by region: units of those before it */
	size_t last_region;
	struct ranks places;   /* where objects begin, in units of all regions */
	VEC(uint32_t) first;   /* by object: of its references */
	VEC(uint32_t) targets; /* positions */
	VEC(struct heap_link) links;
	size_t next_link;
	uint64_t last, loader; /* the last object, and what it keeps alive by its type */
	bool full;	       /* there are more references than can be counted */
	/* While it searches: */
	VEC(struct root_met) met;
	uint64_t *seen; /* a bit an object */
};

static int by_from(const void *a, const void *b)
{
	const struct heap_link *x = a, *y = b;
	return CMP(x->from, y->from);
}

struct root_path *root_path_new(const struct roots *r, const struct heap_outline *outline)
{
	struct root_path *w = mem_zalloc(sizeof(*w));
	uint64_t units = 0;
	w->roots = r;
	w->outline = outline;
	vec_each(region, &outline->regions) {
		vec_push(&w->positions, units);
		units += (region->end - region->start) / 8;
	}
	ranks_init(&w->places, units, units / UNITS_AN_OBJECT);
	vec_each(link, &r->links)
		vec_push(&w->links, *link);
	vec_sort(&w->links, by_from);
	return w;
}

void root_path_free(struct root_path *w)
{
	if (!w)
		return;
	vec_free(&w->positions);
	ranks_free(&w->places);
	vec_free(&w->first);
	vec_free(&w->targets);
	vec_free(&w->links);
	vec_free(&w->met);
	mem_free(w->seen);
	mem_free(w);
}

/* ---- what is there ---- */

/* NONE: in no region. */
static uint32_t position_of(struct root_path *w, uint64_t address)
{
	const struct heap_region *at = &w->outline->regions.v[w->last_region];
	if (address < at->start || address >= at->end) {
		at = heap_region_at(w->outline, address);
		if (!at)
			return NONE;
		w->last_region = (size_t)(at - w->outline->regions.v);
	}
	return (uint32_t)(w->positions.v[w->last_region] + (address - at->start) / 8);
}

static inline void add_target(struct root_path *w, uint64_t ref)
{
	uint32_t position = ref && !(ref & 7) ? position_of(w, ref) : NONE;
	if (position == NONE)
		return;
	if (w->targets.n >= NONE - 1)
		w->full = true;
	else
		vec_push(&w->targets, position);
}

/* Behind an object's own references: what it keeps alive otherwise. */
static void end_object(struct root_path *w)
{
	const struct heap_link *links = w->links.v;
	if (w->loader)
		add_target(w, w->loader);
	while (w->next_link < w->links.n && links[w->next_link].from < w->last)
		w->next_link++;
	for (; w->next_link < w->links.n && links[w->next_link].from == w->last; w->next_link++)
		add_target(w, links[w->next_link].to);
}

void root_path_object(struct root_path *w, const struct heap_found *found)
{
	if (found->type->kind == HEAP_FREE)
		return;
	end_object(w);
	w->last = found->address;
	w->loader = found->type->loader;
	ranks_add(&w->places, position_of(w, found->address));
	vec_push(&w->first, (uint32_t)w->targets.n);
}

void root_path_refs(struct root_path *w, const uint64_t *refs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_target(w, refs[i]);
}

/* ---- the search ---- */

static uint64_t address_of(const struct root_path *w, uint32_t object)
{
	uint64_t position = ranks_at(&w->places, object);
	size_t region = w->positions.n - 1;
	while (w->positions.v[region] > position)
		region--;
	return w->outline->regions.v[region].start + (position - w->positions.v[region]) * 8;
}

/* A stack may refer to the inside of an object. */
static uint32_t object_around(struct root_path *w, uint64_t address)
{
	uint32_t position = position_of(w, address);
	uint32_t object = position == NONE ? NONE : ranks_up_to(&w->places, position);
	if (object == NONE)
		return NONE;
	uint64_t start = address_of(w, object);
	return address - start < heap_size_of(w->roots->h, start) ? object : NONE;
}

static void meet(struct root_path *w, uint32_t object, uint32_t from)
{
	if (object == NONE || w->seen[object / 64] >> object % 64 & 1)
		return;
	w->seen[object / 64] |= (uint64_t)1 << object % 64;
	vec_push(&w->met, ((struct root_met){ object, from }));
}

/* Has the search reached it? Then it is the last of them. */
static bool is_met(const struct root_path *w, uint32_t wanted)
{
	return w->seen[wanted / 64] >> wanted % 64 & 1;
}

/* Objects that the search needs next are all over the memory: prefetching them saves the waits. */
static inline void fetch(const struct root_path *w, size_t i)
{
	if (i + 2 * AHEAD < w->met.n)
		__builtin_prefetch(&w->first.v[w->met.v[i + 2 * AHEAD].object]);
	if (i + AHEAD < w->met.n)
		__builtin_prefetch(&w->targets.v[w->first.v[w->met.v[i + AHEAD].object]]);
}

/* Is there a way? Then the last one met is the object. */
static bool search(struct root_path *w, uint32_t wanted)
{
	vec_each(root, &w->roots->objects) {
		meet(w, object_around(w, *root), NONE);
		if (is_met(w, wanted))
			return true;
	}
	for (size_t i = 0; i < w->met.n; i++) {
		uint32_t object = w->met.v[i].object;
		fetch(w, i);
		for (uint32_t k = w->first.v[object]; k < w->first.v[object + 1]; k++) {
			meet(w, ranks_of(&w->places, w->targets.v[k]), (uint32_t)i);
			if (is_met(w, wanted))
				return true;
		}
	}
	return false;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return CMP(x, y);
}

struct err *root_path_find(struct root_path *w, uint64_t object, struct addresses *ret)
{
	end_object(w);
	vec_push(&w->first, (uint32_t)w->targets.n);
	ranks_seal(&w->places);
	if (w->full)
		return err_new(ERR_UNSUPPORTED, "the heap has more than four billion references");
	uint32_t position = position_of(w, object);
	uint32_t wanted = position == NONE ? NONE : ranks_of(&w->places, position);
	w->seen = mem_zalloc(((size_t)w->places.n / 64 + 1) * sizeof(*w->seen));
	if (wanted != NONE && !search(w, wanted))
		vec_push(ret, object);
	else if (wanted != NONE)
		for (uint32_t i = (uint32_t)w->met.n - 1; i != NONE; i = w->met.v[i].from)
			vec_push(ret, address_of(w, w->met.v[i].object));
	vec_sort(ret, by_address);
	return NULL;
}
