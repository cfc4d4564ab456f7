#include "memory/holders.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>

#define MOST 0.5	 /* of what is left: then that is where it is */
#define DEPTH_MAX 200	 /* of what lies between a root and something of the user's: a longer chain is a list */
#define PARTS_DEPTH 16	 /* nested objects of the user's own */
#define ROWS_MAX 1000	 /* holders that are told apart */
#define FOUND_MAX 200000 /* before those alike are one */
#define MAIN_SHARE 0.25	 /* of a holder: then it is what the holder has */
#define MAIN_STEPS 6	 /* into single objects, to find what a holder has many of */
#define WAY_STEPS 2	 /* between a root and a holder that are named */

VEC_TYPE(holders_vertices, uint32_t);

/* ---- what is whose ---- */

static bool is_own(const struct heapgraph *g, uint32_t v)
{
	return v < g->n ? g->types.v[g->type[v]].own : g->roots.v[v - g->n].own;
}

/* What of that is a type's alone, once for all: asked for every object. */
enum { OWN = 1, CLOSURE = 2, PLUMBING = 4 };

/* Arrays and the inner parts of collections: their names mean nothing to a user. */
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

struct content {
	uint64_t objects, units;
	uint32_t last;
};

/* Another object that goes by the same holder. */
struct member {
	uint32_t vertex, next;
};

struct holders_search {
	const struct heapgraph *g;
	struct holders *out;
	uint64_t least; /* units */
	/* What of a vertex no holder below it has taken: units, objects; for those that are large enough. */
	struct map_u64 left_units, left_objects;
	struct content *by_type; /* for the current vertex */
	uint8_t *flags;		 /* by type */
	VEC(struct member) members;
	/* Types of the user's own objects above the current one. */
	uint32_t inside[PARTS_DEPTH];
	unsigned n_inside;
};

static void add_holder(struct holders_search *s, uint32_t vertex, uint64_t units, uint64_t objects)
{
	if (s->out->v.n >= FOUND_MAX)
		return;
	vec_push(&s->out->v, ((struct holder){ .vertex = vertex,
					       .root = root_of(s->g, vertex),
					       .also = GRAPH_NONE,
					       .alike = 1,
					       .bytes = units * 8,
					       .objects = objects,
					       .member = GRAPH_NONE,
					       .main_type = GRAPH_NONE }));
}

static void set_left(struct holders_search *s, uint32_t v, uint64_t units, uint64_t objects)
{
	*map_u64_put(&s->left_units, v, NULL) = units;
	*map_u64_put(&s->left_objects, v, NULL) = objects;
}

static uint8_t *flags_of(const struct heapgraph *g)
{
	uint8_t *flags = mem_zalloc(g->types.n + 1);
	for (uint32_t t = 0; t < g->types.n; t++) {
		const struct graph_type *type = &g->types.v[t];
		bool own = type->own, inner = type->kind == GRAPH_OBJECT && strchr(type->name, '+');
		flags[t] = (uint8_t)((own ? OWN : 0) | (own && heap_type_is_closure(g, t) ? CLOSURE : 0) |
				     (type->kind == GRAPH_ARRAY || (inner && !own) ? PLUMBING : 0));
	}
	return flags;
}

/* Down to where a search for content goes. */
enum depth_of_search {
	TO_OWN,	     /* the first object or field of the user's own */
	THROUGH_OWN, /* the same, but into closures */
	TO_NAMED,    /* the first that is no plumbing, or has nothing below */
};

static bool stops_at(const struct holders_search *s, enum depth_of_search depth, uint32_t v)
{
	const struct heapgraph *g = s->g;
	uint8_t flags = v < g->n ? s->flags[g->type[v]] : 0;
	if (depth == TO_NAMED)
		return !(flags & PLUMBING) || g->child[v] == GRAPH_NONE;
	return (flags & OWN) && (depth == TO_OWN || !(flags & CLOSURE));
}

/* Units of a vertex that no holder below it has taken; 0 = it is a holder itself. */
static uint64_t left_of(const struct holders_search *s, uint32_t v)
{
	const uint64_t *left = s->g->retained[v] >= s->least ? map_u64_get(&s->left_units, v) : NULL;
	return left ? *left : s->g->retained[v];
}

/* Adds up what lies below a vertex by type, but for what other holders have. A list, each in the one before, is as many
 * as it is long. */
static void sum_content(struct holders_search *s, uint32_t holder, enum depth_of_search depth)
{
	const struct heapgraph *g = s->g;
	uint32_t v = g->child[holder], list = GRAPH_NONE; /* the first of a list that we are in */
	while (v != GRAPH_NONE && v != holder) {
		uint64_t left = left_of(s, v);
		bool stop = list != GRAPH_NONE || stops_at(s, depth, v), down = !stop && left;
		if (stop && left && v < g->n && (list == GRAPH_NONE || g->type[v] == g->type[list])) {
			struct content *c = &s->by_type[g->type[v]];
			c->objects++;
			c->units += list == GRAPH_NONE ? left : 0;
			c->last = v;
			list = list == GRAPH_NONE ? v : list;
			down = true;
		}
		if (down && g->child[v] != GRAPH_NONE) {
			v = g->child[v];
			continue;
		}
		list = list == v ? GRAPH_NONE : list;
		while (v != holder && g->sibling[v] == GRAPH_NONE) {
			v = g->dominator[v];
			list = list == v ? GRAPH_NONE : list;
		}
		if (v != holder)
			v = g->sibling[v];
	}
}

static void clear_content(struct holders_search *s)
{
	memset(s->by_type, 0, s->g->types.n * sizeof(*s->by_type));
}

static bool is_inside(const struct holders_search *s, uint32_t type)
{
	for (unsigned i = 0; i < s->n_inside; i++)
		if (s->inside[i] == type)
			return true;
	return false;
}

/* A type with a single object is a part of the program: a service in a host, a cache in a service. A type with many
 * objects is what a collection contains, and so is a linked list of them. */
static void find_parts(struct holders_search *s, uint32_t v, struct holders_vertices *ret)
{
	const struct heapgraph *g = s->g;
	if (s->n_inside >= PARTS_DEPTH)
		return;
	clear_content(s);
	sum_content(s, v, TO_OWN);
	for (uint32_t t = 0; t < g->types.n; t++)
		if (s->by_type[t].objects == 1 && s->by_type[t].units >= s->least && !is_inside(s, t))
			vec_push(ret, s->by_type[t].last);
}

/* The only object of the user's own that a static field refers to goes by the field's name. */
static uint32_t named_by_root(const struct heapgraph *g, uint32_t v)
{
	uint32_t only = g->child[v];
	bool one = v >= g->n && only < g->n && g->sibling[only] == GRAPH_NONE && is_own(g, only);
	return one ? only : v;
}

/* What a part has is no longer in what lies between it and v. */
static void take_from_above(struct holders_search *s, uint32_t part, uint32_t v)
{
	const struct heapgraph *g = s->g;
	for (uint32_t u = g->dominator[part]; u != v; u = g->dominator[u]) {
		const uint64_t *objects = map_u64_get(&s->left_objects, u);
		set_left(s, u, left_of(s, u) - g->retained[part],
			 (objects ? *objects : g->retained_objects[u]) - g->retained_objects[part]);
	}
}

/* Takes all that it dominates, except what its parts take, which do the same. */
static void explore_own(struct holders_search *s, uint32_t v)
{
	const struct heapgraph *g = s->g;
	uint64_t units = g->retained[v], objects = g->retained_objects[v];
	uint32_t from = named_by_root(g, v);
	struct holders_vertices parts = { 0 };
	unsigned n_inside = s->n_inside;
	if (from < g->n && n_inside < PARTS_DEPTH)
		s->inside[s->n_inside++] = g->type[from];
	find_parts(s, from, &parts);
	vec_each(part, &parts) {
		explore_own(s, *part);
		take_from_above(s, *part, v);
		set_left(s, *part, 0, 0);
		units -= MIN(units, (uint64_t)g->retained[*part]);
		objects -= MIN(objects, (uint64_t)g->retained_objects[*part]);
	}
	vec_free(&parts);
	s->n_inside = n_inside;
	if (units >= s->least)
		add_holder(s, v, units, objects);
}

/* The first object of the user's own on each path down takes all that it dominates. */
static void explore(struct holders_search *s, uint32_t v, unsigned depth)
{
	const struct heapgraph *g = s->g;
	uint64_t units = g->retained[v], objects = g->retained_objects[v];
	if (is_own(g, v)) {
		explore_own(s, v);
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

/* Linked lists and rings: the path reaches a type again. */
static bool was_there(const struct heapgraph *g, const struct holders_vertices *way, uint32_t v)
{
	for (size_t i = 0; v < g->n && i < way->n; i++)
		if (way->v[i] < g->n && g->type[way->v[i]] == g->type[v])
			return true;
	return false;
}

/* A collection says little about the code that filled it. */
static bool is_collection(const struct heapgraph *g, uint32_t v)
{
	return v < g->n && str_starts(g->types.v[g->type[v]].name, "System.Collections.");
}

/* What is left at v belongs to whatever has most of it, as far down as there is one and it has a name: that of what has
 * a collection rather than the collection's, unless there is but a stack or a handle above it. */
static uint32_t settle_on(struct holders_search *s, uint32_t v)
{
	const struct heapgraph *g = s->g;
	struct holders_vertices way = { 0 };
	bool telling = v < g->n || g->roots.v[v - g->n].kind == GRAPH_STATIC ||
		       g->roots.v[v - g->n].kind == GRAPH_THREAD_STATIC;
	uint32_t named = v, collection = GRAPH_NONE;
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
		if (next == GRAPH_NONE || (double)most < MOST * (double)here || was_there(g, &way, next))
			break;
		v = next;
		vec_push(&way, v);
		if (is_collection(g, v) && collection == GRAPH_NONE && !telling)
			collection = v;
		else if (!is_plumbing(g, v) && !is_collection(g, v)) {
			named = v;
			telling = true;
		}
	}
	vec_free(&way);
	return telling || collection == GRAPH_NONE ? named : collection;
}

static void settle(struct holders_search *s, uint32_t v)
{
	uint64_t units = *map_u64_get(&s->left_units, v), objects = *map_u64_get(&s->left_objects, v);
	uint32_t named = units >= s->least ? settle_on(s, v) : v;
	if (named != v) {
		uint64_t its_units = *map_u64_get(&s->left_units, named);
		uint64_t its_objects = *map_u64_get(&s->left_objects, named);
		add_holder(s, named, its_units, its_objects);
		units -= its_units;
		objects -= its_objects;
		/* What it holds no longer counts for the dominators above it. */
		set_left(s, named, 0, 0);
		for (uint32_t u = named; u != v;) {
			u = s->g->dominator[u];
			set_left(s, u, *map_u64_get(&s->left_units, u) - its_units,
				 *map_u64_get(&s->left_objects, u) - its_objects);
		}
	}
	if (units >= s->least)
		add_holder(s, v, units, objects);
}

static int largest_first(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	return CMP(y->bytes, x->bytes) ?: CMP(x->vertex, y->vertex);
}

/* Objects of one type at one root are one holder. */
static void merge_alike(struct holders_search *s, struct holders *h)
{
	const struct heapgraph *g = s->g;
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
				/* Small ones are found by their type. */
				if (!one->small) {
					vec_push(&s->members, ((struct member){ one->vertex, h->v.v[*at].member }));
					h->v.v[*at].member = (uint32_t)s->members.n - 1;
				}
				h->v.v[*at].alike += one->alike;
				h->v.v[*at].small |= one->small;
				h->v.v[*at].bytes += one->bytes;
				h->v.v[*at].objects += one->objects;
			}
		}
		if (fresh)
			h->v.v[n++] = *one;
	}
	h->v.n = n;
	vec_sort(&h->v, largest_first);
	h->v.n = MIN(n, (size_t)ROWS_MAX);
}

/* ---- what several hold at once ---- */

/* Objects that two roots keep alive belong to neither, and each may be small: those of one type are one holder. */
static void add_shared(struct holders_search *s)
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
		if (s->out->v.n > before) {
			s->out->v.v[before].alike = by_type[t].alike;
			s->out->v.v[before].small = true;
		}
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
	return CMP(y->n, x->n) ?: CMP(x->key, y->key);
}

static void claim(struct map_u64 *claims, uint64_t holder, uint32_t who)
{
	bool fresh;
	uint64_t *n = map_u64_put(claims, holder << 32 | who, &fresh);
	*n = fresh ? 1 : *n + 1;
}

/* Which objects refer to what several hold: counted by where these references come from. */
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

static bool is_stack(const struct heapgraph *g, uint32_t who)
{
	return who >= g->n && who < heapgraph_top(g) && heapgraph_is_late(&g->roots.v[who - g->n]);
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
	for (size_t i = 0; i < 2 * sorted.n; i++) {
		const struct claim *c = &sorted.v[i % sorted.n];
		struct holder *one = &h->v.v[c->key >> 32];
		uint32_t who = (uint32_t)c->key;
		bool stack = is_stack(g, who), last = i >= sorted.n;
		/* Stacks have no share in what others hold. */
		if (stack != last || (stack && one->firm))
			continue;
		one->firm |= !stack;
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

static uint32_t heaviest(const struct holders_search *s)
{
	const struct content *by_type = s->by_type;
	uint32_t best = GRAPH_NONE;
	for (uint32_t t = 0; t < s->g->types.n; t++)
		if (by_type[t].objects && (best == GRAPH_NONE || by_type[t].units > by_type[best].units))
			best = t;
	return best;
}

/* Those that are too small to be found one by one. */
static void sum_shared(struct holders_search *s, const struct holder *h, enum depth_of_search depth)
{
	const struct heapgraph *g = s->g;
	for (uint32_t c = g->child[heapgraph_top(g)]; c != GRAPH_NONE; c = g->sibling[c])
		if (c < g->n && c != h->vertex && g->type[c] == g->type[h->vertex] && g->retained[c] < s->least)
			sum_content(s, c, depth);
}

static void find_main_at(struct holders_search *s, struct holder *h, enum depth_of_search depth)
{
	uint32_t at = h->vertex;
	for (int step = 0; step < MAIN_STEPS; step++) {
		clear_content(s);
		sum_content(s, at, depth);
		for (uint32_t m = h->member; !step && m != GRAPH_NONE; m = s->members.v[m].next)
			sum_content(s, s->members.v[m].vertex, depth);
		if (!step && h->small)
			sum_shared(s, h, depth);
		uint32_t best = heaviest(s);
		const struct content *c = &s->by_type[best == GRAPH_NONE ? 0 : best];
		if (best == GRAPH_NONE || (double)c->units * 8 < MAIN_SHARE * (double)h->bytes)
			break;
		h->main_type = best;
		h->main_objects = c->objects;
		h->main_bytes = c->units * 8;
		if (c->objects > 1)
			break;
		at = c->last;
	}
}

/* The user's own type that makes up most of it; without one, any. For a single object: what is in it. */
static void find_main(struct holders_search *s, struct holder *h)
{
	static const enum depth_of_search order[] = { THROUGH_OWN, TO_OWN, TO_NAMED };
	for (size_t i = 0; i < ARRAY_SIZE(order) && h->main_type == GRAPH_NONE; i++)
		find_main_at(s, h, order[i]);
}

/* ---- together ---- */

static void name_roots(const struct heapgraph *g, struct holders *h)
{
	bool any = false;
	vec_each(one, &h->v)
		any |= one->root == GRAPH_NONE;
	if (!any)
		return;
	uint32_t *shortest = heapgraph_shortest_by_rank(g, heap_root_rank);
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
	struct holders_search s = { .g = g, .out = ret };
	s.least = MAX(min_bytes / 8, (uint64_t)1);
	uint32_t top = heapgraph_top(g);
	s.by_type = mem_array(g->types.n + 1, sizeof(*s.by_type));
	s.flags = flags_of(g);
	*ret = (struct holders){ .bytes = (uint64_t)g->retained[top] * 8, .objects = g->retained_objects[top] };
	for (uint32_t c = g->child[top]; c != GRAPH_NONE; c = g->sibling[c])
		if (g->retained[c] >= s.least) {
			explore(&s, c, 0);
			settle(&s, c);
		}
	add_shared(&s);
	vec_sort(&ret->v, largest_first);
	merge_alike(&s, ret);
	name_roots(g, ret);
	ret->rest_bytes = ret->bytes;
	ret->rest_objects = ret->objects;
	vec_each(h, &ret->v) {
		find_main(&s, h);
		ret->rest_bytes -= MIN(ret->rest_bytes, h->bytes);
		ret->rest_objects -= MIN(ret->rest_objects, h->objects);
	}
	map_u64_free(&s.left_units);
	map_u64_free(&s.left_objects);
	vec_free(&s.members);
	mem_free(s.flags);
	mem_free(s.by_type);
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

/* The object below it that has most of it. */
static uint32_t main_child(const struct heapgraph *g, uint32_t v)
{
	uint32_t most = GRAPH_NONE;
	for (uint32_t c = g->child[v]; c != GRAPH_NONE; c = g->sibling[c])
		if (c < g->n && (most == GRAPH_NONE || g->retained[c] > g->retained[most]))
			most = c;
	return most != GRAPH_NONE && (double)g->retained[most] >= MOST * (double)g->retained[v] ? most : GRAPH_NONE;
}

uint32_t holder_field(const struct heapgraph *g, const struct holder *h, struct buf *out)
{
	bool one = h->vertex < g->n && h->alike == 1 && h->bytes == 8ull * g->retained[h->vertex];
	uint32_t value = one ? main_child(g, h->vertex) : GRAPH_NONE;
	/* Of the framework's own types only fields with a collection are informative, and of collections none. */
	if (value != GRAPH_NONE && !is_own(g, h->vertex) && (!is_collection(g, value) || is_collection(g, h->vertex)))
		value = GRAPH_NONE;
	const char *field = value == GRAPH_NONE ? "" : heapgraph_step(g, h->vertex, value);
	if (!*field)
		return GRAPH_NONE;
	buf_char(out, '.');
	heap_field_name(field, out);
	return value;
}

/* The user's own objects between a root and an object, the nearest ones; not what the compiler made. */
static void add_way(const struct heapgraph *g, uint32_t object, struct buf *out)
{
	uint32_t way[WAY_STEPS];
	size_t n = 0;
	for (uint32_t v = g->dominator[object]; v < g->n && n < WAY_STEPS; v = g->dominator[v])
		if (is_own(g, v) && !strchr(g->types.v[g->type[v]].name, '<') && g->type[v] != g->type[object] &&
		    (!n || g->type[way[n - 1]] != g->type[v]))
			way[n++] = v;
	while (n) {
		buf_str(out, " › ");
		heap_type_short(g, g->type[way[--n]], out);
	}
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
		add_way(g, h->vertex, out);
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
		buf_str(out, h->claims > 1u + h->by_root ? " and others at once" : " at once");
}
