#include "memory/retention_sites.h"
#include "base/str.h"
#include <string.h>

/* What a place is told apart by. */
struct key {
	uint32_t near; /* type of the nearest own object, or the root's vertex */
	uint32_t slot; /* reference of it; GRAPH_NONE = one without a name */
	uint32_t far;  /* type of the object, or the root's vertex, that it hangs on */
	uint8_t near_is_root, far_is_root, shared, zero;
};

struct retention_sites {
	const struct heapgraph *g;
	uint32_t *shortest;
	/* By object, GRAPH_NONE = not known yet: the nearest own vertex at or above it on the shortest way, and the
	 * vertex below that one (itself = it is the own one). */
	uint32_t *near, *step;
	uint32_t *far; /* the uppermost own one among its dominators; the top = none */
	VEC(uint32_t) climb;
	struct strtab keys;
};

static bool is_own(const struct heapgraph *g, uint32_t v)
{
	return v < g->n ? g->types.v[g->type[v]].own : v < heapgraph_top(g) && g->roots.v[v - g->n].own;
}

static uint32_t *unknown(size_t n)
{
	uint32_t *v = mem_array(n + 1, sizeof(*v));
	memset(v, 0xFF, (n + 1) * sizeof(*v));
	return v;
}

struct retention_sites *retention_sites_new(const struct heapgraph *g)
{
	struct retention_sites *p = mem_zalloc(sizeof(*p));
	p->g = g;
	p->shortest = heapgraph_shortest(g);
	p->near = unknown(g->n);
	p->step = unknown(g->n);
	p->far = unknown(g->n);
	return p;
}

void retention_sites_free(struct retention_sites *p)
{
	if (!p)
		return;
	mem_free(p->shortest);
	mem_free(p->near);
	mem_free(p->step);
	mem_free(p->far);
	vec_free(&p->climb);
	strtab_free(&p->keys);
	mem_free(p);
}

/* ---- the nearest ---- */

/* Where the way up ends for lack of anything own: at its root. */
static void learn_near(struct retention_sites *p, uint32_t object)
{
	const struct heapgraph *g = p->g;
	uint32_t v = object;
	vec_clear(&p->climb);
	while (v < g->n && p->near[v] == GRAPH_NONE && !is_own(g, v)) {
		vec_push(&p->climb, v);
		v = p->shortest[v];
	}
	if (v < g->n && p->near[v] == GRAPH_NONE) {
		p->near[v] = v;
		p->step[v] = v;
	}
	uint32_t near = v < g->n ? p->near[v] : v, step = v < g->n ? p->step[v] : v;
	for (size_t i = p->climb.n; i-- > 0;) {
		uint32_t at = p->climb.v[i];
		step = step == near ? at : step;
		p->near[at] = near;
		p->step[at] = step;
	}
}

/* ---- its root ---- */

static void learn_far(struct retention_sites *p, uint32_t object)
{
	const struct heapgraph *g = p->g;
	uint32_t v = object;
	vec_clear(&p->climb);
	while (v < g->n && p->far[v] == GRAPH_NONE) {
		vec_push(&p->climb, v);
		v = g->dominator[v];
	}
	uint32_t far = v < g->n ? p->far[v] : v;
	for (size_t i = p->climb.n; i-- > 0;) {
		uint32_t at = p->climb.v[i];
		if (!is_own(g, far) && is_own(g, at))
			far = at;
		p->far[at] = far;
	}
}

/* ---- places ---- */

/* A static field says enough, even the framework's. Under a stack or a handle the uppermost object's type says more. */
static bool is_named(const struct heapgraph *g, uint32_t root)
{
	uint8_t kind = g->roots.v[root - g->n].kind;
	return kind == GRAPH_STATIC || kind == GRAPH_THREAD_STATIC;
}

static struct key key_of(struct retention_sites *p, uint32_t object)
{
	const struct heapgraph *g = p->g;
	uint32_t above = p->shortest[object];
	struct key key = { .slot = GRAPH_NONE };
	if (above >= g->n) {
		key.near = above;
		key.near_is_root = true;
	} else {
		if (p->near[above] == GRAPH_NONE)
			learn_near(p, above);
		uint32_t near = p->near[above], step = p->step[above] == near ? object : p->step[above];
		key.near_is_root = near >= g->n;
		key.near = key.near_is_root ? near : g->type[near];
		if (!key.near_is_root) {
			key.slot = heap_slot(g, near, step);
		} else if (!is_named(g, near)) {
			key.near_is_root = false;
			key.near = g->type[step];
		}
	}
	if (p->far[object] == GRAPH_NONE)
		learn_far(p, object);
	uint32_t far = p->far[object];
	if (far == heapgraph_top(g)) {
		for (far = object; far < g->n; far = p->shortest[far])
			;
		key.shared = true;
	}
	key.far_is_root = far >= g->n;
	key.far = key.far_is_root ? far : g->type[far];
	return key;
}

uint32_t retention_sites_of(struct retention_sites *p, uint32_t object)
{
	struct key key = key_of(p, object);
	return strtab_add(&p->keys, (const char *)&key, sizeof(key));
}

size_t retention_sites_count(const struct retention_sites *p)
{
	return p->keys.n;
}

/* ---- words ---- */

static struct key key_at(const struct retention_sites *p, uint32_t place)
{
	struct key key;
	memcpy(&key, strtab_get(&p->keys, place), sizeof(key));
	return key;
}

void retention_site_field(const struct retention_sites *p, uint32_t place, struct buf *out)
{
	struct key key = key_at(p, place);
	if (key.near_is_root) {
		heap_root_name(p->g, key.near - p->g->n, true, out);
		return;
	}
	heap_type_name(p->g, key.near, out);
	heap_slot_name(p->g, key.near, key.slot, out);
}

void retention_site_holder(const struct retention_sites *p, uint32_t place, struct buf *out)
{
	struct key key = key_at(p, place);
	if (key.far_is_root == key.near_is_root && key.far == key.near)
		return;
	if (key.shared)
		buf_str(out, "several, the nearest ");
	if (key.far_is_root)
		heap_root_name(p->g, key.far - p->g->n, true, out);
	else
		heap_type_name(p->g, key.far, out);
}

void retention_site_name(const struct retention_sites *p, uint32_t place, struct buf *out)
{
	CLEANUP(buf_free) struct buf holder = { 0 };
	retention_site_field(p, place, out);
	retention_site_holder(p, place, &holder);
	if (holder.len)
		buf_printf(out, " in %s", buf_cstr(&holder));
}

void retention_site_path(const struct retention_sites *p, uint32_t object, struct buf *out)
{
	heap_path_words(p->g, p->shortest, object, out);
}
