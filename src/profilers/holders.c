#include "profilers/holders.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define MOST 0.5      /* of what is left: then that is where it is */
#define DEPTH_MAX 200 /* of what lies between a root and something of the user's: a longer chain is a list */
#define ROWS_MAX 1000 /* holders that are told apart */
#define MAIN_STEPS 6  /* into single objects, to find what a holder has many of */

/* ---- what is whose ---- */

static bool is_own(const struct heapgraph *g, uint32_t v)
{
	return v < g->n ? heap_type_is_own(g, g->type[v]) : heap_root_is_own(g, v - g->n);
}

/* Arrays and the inner parts of collections: nobody's word for anything. */
static bool is_plumbing(const struct heapgraph *g, uint32_t v)
{
	const struct graph_type *t = v < g->n ? &g->types.v[g->type[v]] : NULL;
	return t && (t->kind == GRAPH_ARRAY || (t->kind == GRAPH_OBJECT && strchr(t->name, '+') && !is_own(g, v)));
}

static uint32_t root_of(const struct heapgraph *g, uint32_t v)
{
	while (v < g->n)
		v = g->dominator[v];
	return v == heapgraph_top(g) ? GRAPH_NONE : v;
}

/* ---- finding them ---- */

struct search {
	const struct heapgraph *g;
	struct holders *out;
	uint64_t least; /* units */
	/* What of a vertex no holder below it has taken: units, objects; for those that are large enough. */
	struct map_u64 left_units, left_objects;
};

static void add_holder(struct search *s, uint32_t vertex, uint64_t units, uint64_t objects)
{
	if (s->out->v.n >= ROWS_MAX)
		return;
	vec_push(&s->out->v, ((struct holder){ .vertex = vertex,
					       .root = root_of(s->g, vertex),
					       .also = GRAPH_NONE,
					       .alike = 1,
					       .bytes = units * 8,
					       .objects = objects,
					       .main_type = GRAPH_NONE }));
}

static void set_left(struct search *s, uint32_t v, uint64_t units, uint64_t objects)
{
	*map_u64_put(&s->left_units, v, NULL) = units;
	*map_u64_put(&s->left_objects, v, NULL) = objects;
}

/* The first of the user's own on each way down takes all that it has. */
static void explore(struct search *s, uint32_t v, unsigned depth)
{
	const struct heapgraph *g = s->g;
	uint64_t units = g->retained[v], objects = g->retained_objects[v];
	if (is_own(g, v)) {
		add_holder(s, v, units, objects);
		set_left(s, v, 0, 0);
		return;
	}
	for (uint32_t c = g->child[v]; c != GRAPH_NONE && depth < DEPTH_MAX; c = g->sibling[c]) {
		if (g->retained[c] < s->least)
			continue;
		explore(s, c, depth + 1);
		units -= g->retained[c] - *map_u64_get(&s->left_units, c);
		objects -= g->retained_objects[c] - *map_u64_get(&s->left_objects, c);
	}
	set_left(s, v, units, objects);
}

/* What is left at v belongs to whatever has most of it, as far down as there is one and it has a name. */
static uint32_t settle_on(struct search *s, uint32_t v)
{
	const struct heapgraph *g = s->g;
	uint32_t named = v;
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		uint64_t here = *map_u64_get(&s->left_units, v), most = 0;
		uint32_t next = GRAPH_NONE;
		for (uint32_t c = g->child[v]; c != GRAPH_NONE; c = g->sibling[c]) {
			const uint64_t *left = map_u64_get(&s->left_units, c);
			if (left && *left > most) {
				most = *left;
				next = c;
			}
		}
		if (next == GRAPH_NONE || (double)most < MOST * (double)here)
			break;
		v = next;
		named = is_plumbing(g, v) ? named : v;
	}
	return named;
}

static void settle(struct search *s, uint32_t v)
{
	uint64_t units = *map_u64_get(&s->left_units, v), objects = *map_u64_get(&s->left_objects, v);
	uint32_t named = units >= s->least ? settle_on(s, v) : v;
	if (named != v) {
		uint64_t its_units = *map_u64_get(&s->left_units, named);
		uint64_t its_objects = *map_u64_get(&s->left_objects, named);
		add_holder(s, named, its_units, its_objects);
		units -= its_units;
		objects -= its_objects;
	}
	if (units >= s->least)
		add_holder(s, v, units, objects);
}

static int largest_first(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

/* Objects of one type at one root are one holder. */
static void merge_alike(const struct heapgraph *g, struct holders *h)
{
	CLEANUP(map_u64_free) struct map_u64 seen = { 0 };
	size_t n = 0;
	vec_each(one, &h->v) {
		bool fresh = true;
		if (one->vertex < g->n) {
			uint64_t key = (uint64_t)one->root << 32 | g->type[one->vertex];
			uint64_t *at = map_u64_put(&seen, key, &fresh);
			if (fresh) {
				*at = n;
			} else {
				h->v.v[*at].alike += one->alike;
				h->v.v[*at].bytes += one->bytes;
				h->v.v[*at].objects += one->objects;
			}
		}
		if (fresh)
			h->v.v[n++] = *one;
	}
	h->v.n = n;
	vec_sort(&h->v, largest_first);
}

/* ---- what several hold at once ---- */

/* Objects that hang on two roots belong to neither, and each may be small: those of one type are one holder. */
static void add_shared(struct search *s)
{
	const struct heapgraph *g = s->g;
	struct shared {
		uint64_t units, objects, alike;
		uint32_t largest;
	} *by_type = mem_zalloc((g->types.n + 1) * sizeof(*by_type));
	for (uint32_t c = g->child[heapgraph_top(g)]; c != GRAPH_NONE; c = g->sibling[c]) {
		if (c >= g->n || g->retained[c] >= s->least)
			continue;
		struct shared *b = &by_type[g->type[c]];
		if (!b->alike || g->retained[c] > g->retained[b->largest])
			b->largest = c;
		b->alike++;
		b->units += g->retained[c];
		b->objects += g->retained_objects[c];
	}
	for (uint32_t t = 0; t < g->types.n; t++) {
		if (by_type[t].units < s->least)
			continue;
		size_t before = s->out->v.n;
		add_holder(s, by_type[t].largest, by_type[t].units, by_type[t].objects);
		if (s->out->v.n > before)
			s->out->v.v[before].alike = by_type[t].alike;
	}
	mem_free(by_type);
}

/* What is right below the top on the way to each object: a root, or an object that several hold; climbs each way once.
 */
static uint32_t anchor_of(const struct heapgraph *g, uint32_t *known, uint32_t v)
{
	uint32_t top = heapgraph_top(g), end = v;
	while (end < g->n && known[end] == GRAPH_NONE && g->dominator[end] != top)
		end = g->dominator[end];
	uint32_t anchor = end < g->n && known[end] != GRAPH_NONE ? known[end] : end;
	for (; v < g->n && known[v] == GRAPH_NONE && v != anchor; v = g->dominator[v])
		known[v] = anchor;
	return anchor;
}

/* A root, or beyond the top a type whose objects are themselves held by several. */
static uint32_t claimant(const struct heapgraph *g, uint32_t anchor)
{
	return anchor < g->n ? heapgraph_top(g) + 1 + g->type[anchor] : anchor;
}

struct claim {
	uint64_t key, n; /* holder << 32 | claimant */
};

static int most_claims_first(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static void claim(struct map_u64 *claims, uint64_t holder, uint32_t who)
{
	bool fresh;
	uint64_t *n = map_u64_put(claims, holder << 32 | who, &fresh);
	*n = fresh ? 1 : *n + 1;
}

/* Who refers to what several hold: counted by where these references come from. */
static void find_claims(const struct heapgraph *g, const uint32_t *holder_of_type, struct map_u64 *claims)
{
	uint32_t top = heapgraph_top(g);
	uint32_t *known = mem_array(MAX(g->n, 1u), sizeof(*known));
	memset(known, 0xff, g->n * sizeof(*known));
	for (uint32_t v = 0; v < g->n; v++) {
		for (uint32_t i = g->first[v]; heapgraph_reached(g, v) && i < g->first[v + 1]; i++) {
			uint32_t to = g->target[i];
			if (to == GRAPH_NONE || g->dominator[to] != top || holder_of_type[g->type[to]] == GRAPH_NONE)
				continue;
			uint32_t anchor = anchor_of(g, known, v);
			if (anchor >= g->n || g->type[anchor] != g->type[to])
				claim(claims, holder_of_type[g->type[to]], claimant(g, anchor));
		}
	}
	for (uint32_t r = 0; r < g->roots.n; r++)
		for (uint32_t i = 0; i < g->roots.v[r].n; i++) {
			uint32_t to = g->root_targets[g->roots.v[r].first + i];
			if (g->dominator[to] == top && holder_of_type[g->type[to]] != GRAPH_NONE)
				claim(claims, holder_of_type[g->type[to]], g->n + r);
		}
	mem_free(known);
}

static void name_claimants(const struct heapgraph *g, struct holders *h)
{
	CLEANUP(map_u64_free) struct map_u64 claims = { 0 };
	VEC(struct claim) sorted = { 0 };
	uint32_t *holder_of_type = mem_array(g->types.n + 1, sizeof(*holder_of_type));
	memset(holder_of_type, 0xff, (g->types.n + 1) * sizeof(*holder_of_type));
	for (size_t i = 0; i < h->v.n; i++)
		if (h->v.v[i].several && h->v.v[i].vertex < g->n)
			holder_of_type[g->type[h->v.v[i].vertex]] = (uint32_t)i;
	find_claims(g, holder_of_type, &claims);
	size_t at = 0;
	struct claim next;
	while (map_u64_next(&claims, &at, &next.key, &next.n))
		vec_push(&sorted, next);
	vec_sort(&sorted, most_claims_first);
	vec_each(c, &sorted) {
		struct holder *one = &h->v.v[c->key >> 32];
		uint32_t who = (uint32_t)c->key;
		if (who < heapgraph_top(g) && !one->by_root) {
			one->by_root = true;
			one->root = who;
		} else if (one->also == GRAPH_NONE) {
			one->also = who;
		}
		one->claims++;
	}
	vec_free(&sorted);
	mem_free(holder_of_type);
}

/* ---- what they hold ---- */

struct content {
	uint64_t objects, units;
	uint32_t last;
};

/* Sums what lies below v by type, down to the first thing of the user's own (or, with own false, to the first that is
 * no plumbing, or has nothing below). */
static void sum_content(const struct heapgraph *g, uint32_t holder, bool own, struct content *by_type)
{
	uint32_t v = g->child[holder];
	while (v != GRAPH_NONE && v != holder) {
		bool stop = own ? is_own(g, v) : !is_plumbing(g, v) || g->child[v] == GRAPH_NONE;
		if (stop && v < g->n) {
			by_type[g->type[v]].objects++;
			by_type[g->type[v]].units += g->retained[v];
			by_type[g->type[v]].last = v;
		}
		if (!stop && g->child[v] != GRAPH_NONE) {
			v = g->child[v];
			continue;
		}
		while (v != holder && g->sibling[v] == GRAPH_NONE)
			v = g->dominator[v];
		if (v != holder)
			v = g->sibling[v];
	}
}

static uint32_t heaviest(const struct heapgraph *g, const struct content *by_type)
{
	uint32_t best = GRAPH_NONE;
	for (uint32_t t = 0; t < g->types.n; t++)
		if (by_type[t].objects && (best == GRAPH_NONE || by_type[t].units > by_type[best].units))
			best = t;
	return best;
}

/* The user's own type that most of it is; without one, any. A single object leads on to what is in it. */
static void find_main(const struct heapgraph *g, struct holder *h, struct content *by_type)
{
	for (int own = 1; own >= 0 && h->main_type == GRAPH_NONE; own--) {
		uint32_t at = h->vertex;
		for (int step = 0; step < MAIN_STEPS; step++) {
			memset(by_type, 0, g->types.n * sizeof(*by_type));
			sum_content(g, at, own, by_type);
			uint32_t best = heaviest(g, by_type);
			if (best == GRAPH_NONE || (double)by_type[best].units * 8 < 0.25 * (double)h->bytes)
				break;
			h->main_type = best;
			h->main_objects = by_type[best].objects;
			h->main_bytes = by_type[best].units * 8;
			if (by_type[best].objects > 1)
				break;
			at = by_type[best].last;
		}
	}
}

/* ---- together ---- */

static void name_roots(const struct heapgraph *g, struct holders *h)
{
	bool any = false;
	vec_each(one, &h->v)
		any |= one->root == GRAPH_NONE;
	if (!any)
		return;
	uint32_t *shortest = heapgraph_shortest(g);
	vec_each(one, &h->v) {
		if (one->root != GRAPH_NONE)
			continue;
		uint32_t v = one->vertex;
		while (v < g->n && shortest[v] != GRAPH_NONE)
			v = shortest[v];
		one->root = v;
		one->several = true;
	}
	mem_free(shortest);
	name_claimants(g, h);
}

void holders_find(const struct heapgraph *g, uint64_t min_bytes, struct holders *ret)
{
	struct search s = { .g = g, .out = ret };
	s.least = MAX(min_bytes / 8, (uint64_t)1);
	uint32_t top = heapgraph_top(g);
	*ret = (struct holders){ .bytes = (uint64_t)g->retained[top] * 8, .objects = g->retained_objects[top] };
	for (uint32_t c = g->child[top]; c != GRAPH_NONE; c = g->sibling[c])
		if (g->retained[c] >= s.least) {
			explore(&s, c, 0);
			settle(&s, c);
		}
	add_shared(&s);
	map_u64_free(&s.left_units);
	map_u64_free(&s.left_objects);
	vec_sort(&ret->v, largest_first);
	merge_alike(g, ret);
	name_roots(g, ret);
	struct content *by_type = mem_array(g->types.n + 1, sizeof(*by_type));
	ret->rest_bytes = ret->bytes;
	ret->rest_objects = ret->objects;
	vec_each(h, &ret->v) {
		find_main(g, h, by_type);
		ret->rest_bytes -= MIN(ret->rest_bytes, h->bytes);
		ret->rest_objects -= MIN(ret->rest_objects, h->objects);
	}
	mem_free(by_type);
}

void holders_free(struct holders *h)
{
	vec_free(&h->v);
}

/* ---- words ---- */

void holder_name(const struct heapgraph *g, const struct holder *h, struct buf *out)
{
	if (h->vertex >= g->n) {
		heap_root_name(g, h->vertex - g->n, false, out);
		return;
	}
	heap_type_name(g, g->type[h->vertex], out);
	if (h->alike > 1)
		buf_printf(out, " ×%s", fmt_count(h->alike).s);
}

void holder_detail(const struct heapgraph *g, const struct holder *h, struct buf *out)
{
	if (h->vertex >= g->n) {
		const struct graph_root_set *set = &g->roots.v[h->vertex - g->n];
		if ((set->kind != GRAPH_STATIC && set->kind != GRAPH_THREAD_STATIC) || !set->n)
			return;
		buf_str(out, "static ");
		heap_type_short(g, g->type[g->root_targets[set->first]], out);
		if (set->kind == GRAPH_THREAD_STATIC)
			buf_printf(out, " of thread '%s'", set->thread);
		return;
	}
	if (h->root == GRAPH_NONE || h->root < g->n)
		return;
	if (h->also == GRAPH_NONE) {
		buf_str(out, h->several ? "in several, the nearest " : "in ");
		heap_root_name(g, h->root - g->n, true, out);
		return;
	}
	buf_str(out, "held by ");
	if (h->by_root) {
		heap_root_name(g, h->root - g->n, true, out);
		buf_str(out, h->claims > 2 ? ", " : " and ");
	}
	if (h->also > heapgraph_top(g))
		heap_type_name(g, h->also - heapgraph_top(g) - 1, out);
	else
		heap_root_name(g, h->also - g->n, true, out);
	if (h->claims > 1)
		buf_str(out, h->claims > 2 ? " and others at once" : " at once");
}
