/* Reading a heap back. The stream may be anything: every count is bounded by the bytes that are left, every number by
 * what it has to fit into. */

#include "base/ranks.h"
#include "model/heapgraph_internal.h"
#include <stdlib.h>
#include <string.h>

#define MAX_UNITS ((uint64_t)UINT32_MAX - 1)
#define TEXT_LIMIT 65536

struct heapgraph_link {
	uint32_t from, to;
};

struct heapgraph_reader {
	struct cursor *in;
	struct heapgraph *g;
	uint32_t n_all;	  /* objects and gaps that the stream claims */
	uint64_t n_edges; /* room in target */
	uint64_t used;	  /* of it */
	size_t last_region;
	VEC(uint64_t) root_addresses;
	VEC(uint64_t) link_ends; /* from, to */
	VEC(struct heapgraph_link) links;
	struct ranks places; /* positions of objects */
};

static inline uint64_t get(struct heapgraph_reader *r)
{
	struct cursor *c = r->in;
	if (c->p < c->end && *c->p < 0x80 && !c->bad)
		return *c->p++;
	return cursor_varu64(c);
}

static const char *get_text(struct heapgraph_reader *r)
{
	uint64_t len = get(r);
	if (len > TEXT_LIMIT)
		r->in->bad = true;
	const uint8_t *p = cursor_take(r->in, (size_t)MIN(len, (uint64_t)TEXT_LIMIT));
	return p && len ? arena_strndup(&r->g->arena, (const char *)p, (size_t)len) : "";
}

/* A count of things that take at least a byte each. */
static size_t get_count(struct heapgraph_reader *r)
{
	uint64_t n = get(r);
	if (n > cursor_left(r->in)) {
		r->in->bad = true;
		return 0;
	}
	return (size_t)n;
}

static struct err *misshapen(const char *what)
{
	return err_new(ERR_BAD_DATA, "the heap's recording is damaged: %s", what);
}

/* ---- regions, roots, links ---- */

static bool read_regions(struct heapgraph_reader *r)
{
	size_t n = get_count(r);
	uint64_t position = 0, end = 0;
	for (size_t i = 0; i < n && !r->in->bad; i++) {
		uint64_t start = get(r), units = get(r), committed = get(r), heap = get(r), generation = get(r);
		if (start > UINT64_MAX / 16 || units > MAX_UNITS || start < end || position + units > MAX_UNITS ||
		    heap > UINT16_MAX || generation >= GRAPH_GENERATIONS)
			return false;
		end = start + units;
		committed = MIN(committed, MAX_UNITS);
		vec_push(&r->g->regions, ((struct graph_region){
						 .start = start * 8,
						 .end = end * 8,
						 .committed = (start + committed) * 8,
						 .heap = (uint32_t)heap,
						 .generation = (uint8_t)generation,
						 .position = position,
					 }));
		position += units;
	}
	return !r->in->bad;
}

static bool read_roots(struct heapgraph_reader *r)
{
	size_t n = get_count(r);
	for (size_t i = 0; i < n && !r->in->bad; i++) {
		struct graph_root_set set = { .first = (uint32_t)r->root_addresses.n };
		uint64_t kind = get(r);
		if (kind >= GRAPH_ROOTS)
			return false;
		set.kind = (uint8_t)kind;
		set.name = get_text(r);
		set.thread = get_text(r);
		set.n = (uint32_t)get_count(r);
		for (uint32_t k = 0; k < set.n && !r->in->bad; k++)
			vec_push(&r->root_addresses, get(r) * 8);
		vec_push(&r->g->roots, set);
	}
	n = get_count(r);
	for (size_t i = 0; i < 2 * n && !r->in->bad; i++)
		vec_push(&r->link_ends, get(r) * 8);
	return !r->in->bad;
}

/* ---- objects ---- */

static const struct graph_region *region_at(const struct heapgraph *g, uint64_t address)
{
	size_t lo = 0, hi = g->regions.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (address < g->regions.v[mid].start)
			hi = mid;
		else if (address >= g->regions.v[mid].end)
			lo = mid + 1;
		else
			return &g->regions.v[mid];
	}
	return NULL;
}

/* Among the units of all regions, GRAPH_NONE when it is in none. */
static uint32_t position_of(struct heapgraph_reader *r, uint64_t address)
{
	const struct graph_region *at = &r->g->regions.v[r->last_region];
	if (address < at->start || address >= at->end) {
		at = region_at(r->g, address);
		if (!at)
			return GRAPH_NONE;
		r->last_region = (size_t)(at - r->g->regions.v);
	}
	return (uint32_t)(at->position + (address - at->start) / 8);
}

/* One reference, as the position that it leads to. */
static inline void put_edge(struct heapgraph_reader *r, uint64_t address, uint64_t code)
{
	uint32_t position = GRAPH_NONE;
	if (code) {
		int64_t delta = (int64_t)((code - 1) >> 1) ^ -(int64_t)((code - 1) & 1);
		position = position_of(r, address + (uint64_t)delta * 8);
		r->g->facts.strays += position == GRAPH_NONE;
	}
	if (r->used < r->n_edges)
		r->g->target[r->used++] = position;
	else
		r->in->bad = true;
}

static bool read_shape(struct heapgraph_reader *r)
{
	struct graph_type t = { .name = "", .module = "" };
	uint64_t kind = get(r), variable = get(r);
	t.kind = (uint8_t)kind;
	t.variable = variable;
	if (!t.variable) {
		uint64_t units = get(r), slots = get(r);
		if (units > MAX_UNITS || slots > units || slots > cursor_left(r->in))
			return false;
		t.units = (uint32_t)units;
		t.n_slots = (uint32_t)slots;
	}
	vec_push(&r->g->types, t);
	return kind <= GRAPH_FREE && variable <= 1;
}

static void read_edges(struct heapgraph_reader *r, const struct graph_type *type, uint64_t address)
{
	uint64_t code;
	for (uint32_t i = 0; i < type->n_slots && !r->in->bad; i++)
		put_edge(r, address, get(r));
	while (type->variable && !r->in->bad && (code = get(r)))
		put_edge(r, address, code);
}

/* false: the stream makes no sense. *left: units of the region. */
static bool read_object(struct heapgraph_reader *r, struct graph_region *region, uint64_t tag, uint64_t *left)
{
	struct heapgraph *g = r->g;
	uint64_t number = tag - HEAPGRAPH_TYPES;
	if (number > g->types.n || (number == g->types.n && !read_shape(r)))
		return false;
	const struct graph_type *type = &g->types.v[number];
	uint64_t units = type->variable ? get(r) : type->units;
	uint64_t address = region->end - *left * 8;
	if (!units || units > *left)
		return false;
	*left -= units;
	if (type->kind == GRAPH_FREE) {
		region->free_bytes += units * 8;
		return !type->variable || !get(r);
	}
	if (g->n >= r->n_all)
		return false;
	g->position[g->n] = (uint32_t)(region->position + (address - region->start) / 8);
	ranks_add(&r->places, g->position[g->n]);
	g->type[g->n] = (uint32_t)number;
	g->units[g->n] = (uint32_t)units;
	g->first[g->n++] = (uint32_t)r->used;
	region->n++;
	region->bytes += units * 8;
	read_edges(r, type, address);
	return !r->in->bad;
}

static bool read_region(struct heapgraph_reader *r, struct graph_region *region)
{
	uint64_t left = (region->end - region->start) / 8, tag;
	region->first = r->g->n;
	while (!r->in->bad && (tag = get(r)) != HEAPGRAPH_END) {
		if (tag == HEAPGRAPH_GAP) {
			uint64_t gap = get(r);
			if (gap > left)
				return false;
			left -= gap;
		} else if (!read_object(r, region, tag, &left)) {
			return false;
		}
	}
	return !r->in->bad;
}

static bool read_objects(struct heapgraph_reader *r, uint64_t objects, uint64_t references)
{
	struct heapgraph *g = r->g;
	/* Each takes a byte at least. */
	if (objects > cursor_left(r->in) || references > cursor_left(r->in) || references >= GRAPH_NONE ||
	    objects >= GRAPH_NONE / 2)
		return false;
	const struct graph_region *last = &vec_last(&g->regions);
	ranks_init(&r->places, last->position + (last->end - last->start) / 8, objects);
	r->n_all = (uint32_t)objects;
	r->n_edges = references;
	g->position = mem_array(MAX(objects, (uint64_t)1), sizeof(uint32_t));
	g->type = mem_array(MAX(objects, (uint64_t)1), sizeof(uint32_t));
	g->units = mem_array(MAX(objects, (uint64_t)1), sizeof(uint32_t));
	g->first = mem_array(objects + 1, sizeof(uint32_t));
	g->target = mem_array(MAX(references, (uint64_t)1), sizeof(uint32_t));
	vec_each(region, &g->regions)
		if (!read_region(r, region))
			return false;
	g->first[g->n] = (uint32_t)r->used;
	return !r->in->bad;
}

/* ---- types and facts ---- */

static bool read_types(struct heapgraph_reader *r)
{
	vec_each(t, &r->g->types) {
		t->name = get_text(r);
		t->module = get_text(r);
		t->loader = get(r) * 8;
		if (r->in->bad || t->n_slots > cursor_left(r->in))
			return false;
		t->slots = arena_zalloc(&r->g->arena, (t->n_slots + 1) * sizeof(*t->slots));
		for (uint32_t i = 0; i < t->n_slots; i++)
			t->slots[i] = get_text(r);
	}
	return !r->in->bad;
}

static bool read_facts(struct heapgraph_reader *r)
{
	uint64_t values[HEAPGRAPH_FACTS];
	if (get(r) != HEAPGRAPH_FACTS)
		return false;
	for (size_t i = 0; i < HEAPGRAPH_FACTS; i++)
		values[i] = get(r);
	heapgraph_facts_from_values(values, &r->g->facts);
	return !r->in->bad;
}

/* ---- positions into objects ---- */

static uint32_t object_at(const struct heapgraph_reader *r, uint32_t position)
{
	_Static_assert(GRAPH_NONE == RANKS_NONE, "no position, no object");
	return ranks_of(&r->places, position);
}

static uint32_t object_around(const struct heapgraph_reader *r, uint32_t position)
{
	uint32_t object = position == GRAPH_NONE ? GRAPH_NONE : ranks_up_to(&r->places, position);
	return object != GRAPH_NONE && position - r->g->position[object] < r->g->units[object] ? object : GRAPH_NONE;
}

static void resolve(struct heapgraph_reader *r)
{
	struct heapgraph *g = r->g;
	for (uint64_t i = 0; i < r->used; i++) {
		uint32_t position = g->target[i];
		g->target[i] = object_at(r, position);
		g->facts.strays += position != GRAPH_NONE && g->target[i] == GRAPH_NONE;
	}
	/* A stack may refer to the inside of an object. */
	g->root_targets = mem_array(MAX(r->root_addresses.n, (size_t)1), sizeof(uint32_t));
	uint32_t kept = 0;
	vec_each(set, &g->roots) {
		uint32_t first = kept;
		for (uint32_t i = 0; i < set->n; i++) {
			uint32_t object = object_around(r, position_of(r, r->root_addresses.v[set->first + i]));
			if (object != GRAPH_NONE)
				g->root_targets[kept++] = object;
			else
				g->facts.strays++;
		}
		set->first = first;
		set->n = kept - first;
	}
}

/* ---- links ---- */

static int by_from(const void *a, const void *b)
{
	const struct heapgraph_link *x = a, *y = b;
	return CMP(x->from, y->from);
}

static void add_link(struct heapgraph_reader *r, uint32_t from, uint32_t to)
{
	if (from != GRAPH_NONE && to != GRAPH_NONE)
		vec_push(&r->links, ((struct heapgraph_link){ from, to }));
}

static void gather_links(struct heapgraph_reader *r)
{
	struct heapgraph *g = r->g;
	bool any = false;
	for (size_t i = 0; i + 1 < r->link_ends.n; i += 2)
		add_link(r, object_at(r, position_of(r, r->link_ends.v[i])),
			 object_at(r, position_of(r, r->link_ends.v[i + 1])));
	vec_each(t, &g->types)
		any |= t->loader != 0;
	if (!any)
		return;
	for (uint32_t i = 0; i < g->n; i++)
		if (g->types.v[g->type[i]].loader)
			add_link(r, i, object_at(r, position_of(r, g->types.v[g->type[i]].loader)));
}

/* Links become the last references of their objects: everything behind moves up, from the end on. */
static bool insert_links(struct heapgraph_reader *r)
{
	struct heapgraph *g = r->g;
	size_t left = r->links.n;
	if (!left)
		return true;
	if (r->used + left >= GRAPH_NONE)
		return false;
	vec_sort(&r->links, by_from);
	g->target = mem_realloc_array(g->target, r->used + left, sizeof(uint32_t));
	for (uint32_t object = g->n; object-- > 0 && left;) {
		uint32_t first = g->first[object], end = g->first[object + 1];
		/* first[object + 1] still is the old one: it is moved on the way */
		size_t own = 0;
		while (own < left && r->links.v[left - 1 - own].from == object)
			own++;
		g->first[object + 1] = (uint32_t)(end + left);
		for (size_t i = 0; i < own; i++)
			g->target[end + left - 1 - i] = r->links.v[left - 1 - i].to;
		left -= own;
		memmove(&g->target[first + left], &g->target[first], (end - first) * sizeof(uint32_t));
	}
	return true;
}

/* ---- all of it ---- */

static struct err *read_all(struct heapgraph_reader *r)
{
	uint32_t magic = cursor_u32(r->in);
	uint64_t objects = cursor_u64(r->in), references = cursor_u64(r->in);
	if (!cursor_ok(r->in) || magic != HEAPGRAPH_MAGIC)
		return misshapen("it does not begin like one");
	if (!read_regions(r) || !r->g->regions.n)
		return misshapen("its regions make no sense");
	if (!read_roots(r))
		return misshapen("its roots make no sense");
	if (!read_objects(r, objects, references))
		return misshapen("its objects make no sense");
	uint64_t strays = r->g->facts.strays;
	if (!read_types(r) || !read_facts(r))
		return misshapen("its types make no sense");
	r->g->facts.strays = strays;
	ranks_seal(&r->places);
	resolve(r);
	gather_links(r);
	return insert_links(r) ? NULL : misshapen("it has too many references");
}

struct err *heapgraph_read(struct cursor *in, struct heapgraph **ret)
{
	CLEANUP(heapgraph_freep) struct heapgraph *g = mem_zalloc(sizeof(*g));
	struct heapgraph_reader r = { .in = in, .g = g };
	struct err *err = read_all(&r);
	vec_free(&r.root_addresses);
	vec_free(&r.link_ends);
	vec_free(&r.links);
	ranks_free(&r.places);
	if (!err)
		*ret = STEAL(g);
	return err;
}

void heapgraph_free(struct heapgraph *g)
{
	if (!g)
		return;
	vec_free(&g->regions);
	vec_free(&g->types);
	vec_free(&g->roots);
	mem_free(g->root_targets);
	mem_free(g->position);
	mem_free(g->type);
	mem_free(g->units);
	mem_free(g->first);
	mem_free(g->target);
	mem_free(g->dominator);
	mem_free(g->retained);
	mem_free(g->retained_objects);
	mem_free(g->child);
	mem_free(g->sibling);
	arena_free(&g->arena);
	mem_free(g);
}

/* ---- questions ---- */

const struct graph_region *heapgraph_region(const struct heapgraph *g, uint32_t object)
{
	size_t lo = 0, hi = g->regions.n;
	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;
		if (g->regions.v[mid].position <= g->position[object])
			lo = mid;
		else
			hi = mid;
	}
	return &g->regions.v[lo];
}

uint64_t heapgraph_address(const struct heapgraph *g, uint32_t object)
{
	const struct graph_region *region = heapgraph_region(g, object);
	return region->start + (g->position[object] - region->position) * 8;
}

uint32_t heapgraph_at(const struct heapgraph *g, uint64_t address)
{
	const struct graph_region *region = region_at(g, address);
	if (!region || address & 7)
		return GRAPH_NONE;
	uint32_t position = (uint32_t)(region->position + (address - region->start) / 8);
	uint32_t lo = region->first, hi = region->first + region->n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (g->position[mid] < position)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < region->first + region->n && g->position[lo] == position ? lo : GRAPH_NONE;
}

/* The field that a reference is in; "" when it has no name. i counts from g->first[object]. */
static const char *slot_name(const struct heapgraph *g, uint32_t object, uint32_t i)
{
	const struct graph_type *t = &g->types.v[g->type[object]];
	return i < t->n_slots ? t->slots[i] : "";
}

const char *heapgraph_step(const struct heapgraph *g, uint32_t from, uint32_t to)
{
	if (from >= g->n)
		return "";
	for (uint32_t i = g->first[from]; i < g->first[from + 1]; i++)
		if (g->target[i] == to)
			return slot_name(g, from, i - g->first[from]);
	return "";
}
