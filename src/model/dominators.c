/* Who keeps what alive: a vertex dominates another when every way from the roots to it leads through it.
 *
 * Semi-NCA (Georgiadis): number the vertices in the order of a depth-first search, find semidominators with path
 * compression from the last to the first, then each dominator as the nearest common ancestor of parent and
 * semidominator. Near-linear in practice. Retained sizes are sums from the end: a vertex has a higher number than its
 * dominator.
 *
 * What stacks hold comes last: a method that is just at work on a cache would otherwise own a share of all that is in
 * it. What other roots reach is theirs, and a reference to it from what only stacks reach does not count.
 *
 * Heaps are large, so memory counts: an edge that leads to a higher number comes from an ancestor, and of those only
 * the least matters, which is one word. Only edges to lower numbers are turned round, and they are few. */

#include "base/vec.h"
#include "model/heapgraph_internal.h"
#include <string.h>

/* Edges of any vertex, in one shape. */
static inline const uint32_t *edges_of(const struct heapgraph *g, uint32_t vertex, uint32_t *ret_n)
{
	if (vertex < g->n) {
		*ret_n = g->first[vertex + 1] - g->first[vertex];
		return g->target + g->first[vertex];
	}
	const struct graph_root_set *set = &g->roots.v[vertex - g->n];
	*ret_n = set->n;
	return g->root_targets + set->first;
}

struct dominator_search {
	const struct heapgraph *g;
	uint32_t n_vertices, n; /* n: reached */
	uint32_t firm;		/* numbers below are reached without stacks */
	uint32_t *number;	/* by vertex; GRAPH_NONE = not reached */
	uint32_t *vertex;	/* by number, and so are all below */
	uint32_t *parent;
	uint32_t *semi; /* at first, the least predecessor above it */
	uint32_t *best; /* least semidominator on the compressed way up */
	uint32_t *ancestor;
	uint32_t *before_first, *before; /* predecessors of higher number */
};

static void visit(struct dominator_search *s, uint32_t vertex, uint32_t parent)
{
	s->number[vertex] = s->n;
	s->vertex[s->n] = vertex;
	s->parent[s->n] = parent;
	s->semi[s->n] = 0; /* the next edge to follow, while searching */
	s->n++;
}

/* The roots twice, stacks and the like only the second time. */
static uint32_t root_at(const struct heapgraph *g, uint32_t i)
{
	uint32_t n = (uint32_t)g->roots.n, root = i % n;
	return heapgraph_is_late(&g->roots.v[root]) == (i >= n) ? g->n + root : GRAPH_NONE;
}

/* Depth first; the way back is the parents. */
static void number_all(struct dominator_search *s)
{
	const struct heapgraph *g = s->g;
	uint32_t top = heapgraph_top(g), at = 0;
	visit(s, top, 0);
	for (;;) {
		uint32_t vertex = s->vertex[at], n = 2 * (uint32_t)g->roots.n, next = GRAPH_NONE;
		const uint32_t *edges = vertex == top ? NULL : edges_of(g, vertex, &n);
		while (s->semi[at] < n && next == GRAPH_NONE) {
			if (vertex == top && s->semi[at] == g->roots.n)
				s->firm = s->n;
			uint32_t to = vertex == top ? root_at(g, s->semi[at]) : edges[s->semi[at]];
			s->semi[at]++;
			if (to != GRAPH_NONE && s->number[to] == GRAPH_NONE)
				next = to;
		}
		if (next != GRAPH_NONE) {
			visit(s, next, at);
			at = s->n - 1;
		} else if (at) {
			at = s->parent[at];
		} else {
			return;
		}
	}
}

/* Calls for each edge between numbers: twice, to count and to fill. */
static void turn_round(struct dominator_search *s, bool fill)
{
	for (uint32_t i = 1; i < s->n; i++) {
		uint32_t n;
		const uint32_t *edges = edges_of(s->g, s->vertex[i], &n);
		for (uint32_t k = 0; k < n; k++) {
			uint32_t to = edges[k] == GRAPH_NONE ? i : s->number[edges[k]];
			if (to > i)
				s->semi[to] = MIN(s->semi[to], i);
			else if (to < s->firm && i >= s->firm)
				continue;
			else if (to < i && fill)
				s->before[s->before_first[to]++] = i;
			else if (to < i)
				s->before_first[to]++;
		}
	}
}

static void link_predecessors(struct dominator_search *s)
{
	uint64_t total = 0;
	memcpy(s->semi, s->parent, (size_t)s->n * sizeof(uint32_t));
	s->before_first = mem_zalloc(((size_t)s->n + 1) * sizeof(uint32_t));
	turn_round(s, false);
	/* Counts become starts; after filling, each start has moved to the next one's. */
	for (uint32_t i = 0; i <= s->n; i++) {
		uint32_t here = s->before_first[i];
		s->before_first[i] = (uint32_t)total;
		total += here;
	}
	s->before = mem_array(MAX(total, (uint64_t)1), sizeof(uint32_t));
	turn_round(s, true);
	memmove(s->before_first + 1, s->before_first, (size_t)s->n * sizeof(uint32_t));
	s->before_first[0] = 0;
}

/* The least semidominator between v and where its tree was linked; numbers above `limit` are, v too. The way is kept
 * in `path` (as large as the graph is deep, which is why it is not recursion). */
VEC_TYPE(dominator_vertices, uint32_t);

static uint32_t evaluate(struct dominator_search *s, uint32_t v, uint32_t limit, struct dominator_vertices *path)
{
	path->n = 0;
	while (s->ancestor[v] > limit) {
		vec_push(path, v);
		v = s->ancestor[v];
	}
	uint32_t root = s->ancestor[v];
	while (path->n) {
		uint32_t below = path->v[--path->n];
		s->best[below] = MIN(s->best[below], s->best[v]);
		s->ancestor[below] = root;
		v = below;
	}
	return s->best[v];
}

static void find_dominators(struct dominator_search *s)
{
	struct dominator_vertices path = { 0 };
	memcpy(s->ancestor, s->parent, (size_t)s->n * sizeof(uint32_t));
	for (uint32_t i = s->n; i-- > 1;) {
		uint32_t semi = s->semi[i];
		for (uint32_t k = s->before_first[i]; k < s->before_first[i + 1]; k++)
			semi = MIN(semi, evaluate(s, s->before[k], i, &path));
		s->semi[i] = s->best[i] = semi;
	}
	vec_free(&path);
	/* Parents become dominators. */
	for (uint32_t i = 1; i < s->n; i++) {
		uint32_t d = s->parent[i];
		while (d > s->semi[i])
			d = s->parent[d];
		s->parent[i] = d;
	}
}

/* ---- results ---- */

static void keep(struct heapgraph *g, const struct dominator_search *s)
{
	uint32_t n = s->n_vertices;
	g->dominator = mem_array(n, sizeof(uint32_t));
	g->retained = mem_zalloc((size_t)n * sizeof(uint32_t));
	g->retained_objects = mem_zalloc((size_t)n * sizeof(uint32_t));
	memset(g->dominator, 0xFF, (size_t)n * sizeof(uint32_t));
	for (uint32_t i = s->n; i-- > 1;) {
		uint32_t v = s->vertex[i], d = s->vertex[s->parent[i]];
		if (v < g->n) {
			g->retained[v] += g->units[v];
			g->retained_objects[v] += g->units[v] != 0;
			g->reached_objects += g->units[v] != 0;
			g->reached_units += g->units[v];
		}
		g->dominator[v] = d;
		g->retained[d] += g->retained[v];
		g->retained_objects[d] += g->retained_objects[v];
	}
}

static void make_tree(struct heapgraph *g)
{
	uint32_t n = heapgraph_top(g) + 1;
	g->child = mem_array(n, sizeof(uint32_t));
	g->sibling = mem_array(n, sizeof(uint32_t));
	memset(g->child, 0xFF, (size_t)n * sizeof(uint32_t));
	memset(g->sibling, 0xFF, (size_t)n * sizeof(uint32_t));
	for (uint32_t v = n; v-- > 0;) {
		uint32_t d = g->dominator[v];
		if (d == GRAPH_NONE)
			continue;
		g->sibling[v] = g->child[d];
		g->child[d] = v;
	}
}

void heapgraph_dominate(struct heapgraph *g)
{
	uint32_t n = heapgraph_top(g) + 1;
	struct dominator_search s = { .g = g, .n_vertices = n };
	if (g->dominator)
		return;
	s.number = mem_array(n, sizeof(uint32_t));
	s.vertex = mem_array(n, sizeof(uint32_t));
	s.parent = mem_array(n, sizeof(uint32_t));
	s.semi = mem_array(n, sizeof(uint32_t));
	memset(s.number, 0xFF, (size_t)n * sizeof(uint32_t));
	number_all(&s);
	link_predecessors(&s);
	mem_free(s.number);
	s.best = mem_array(s.n, sizeof(uint32_t));
	s.ancestor = mem_array(s.n, sizeof(uint32_t));
	find_dominators(&s);
	mem_free(s.before);
	mem_free(s.before_first);
	mem_free(s.best);
	mem_free(s.ancestor);
	mem_free(s.semi);
	keep(g, &s);
	mem_free(s.vertex);
	mem_free(s.parent);
	make_tree(g);
}

/* ---- shortest ways ---- */

/* On from the vertices in here, until nothing new is met. */
static void spread(const struct heapgraph *g, struct dominator_vertices *here, uint32_t *from)
{
	/* The vertices of one distance, and of the next: seldom more than a part of them all. */
	struct dominator_vertices next = { 0 };
	while (here->n) {
		vec_clear(&next);
		vec_each(vertex, here) {
			uint32_t n;
			const uint32_t *edges = edges_of(g, *vertex, &n);
			for (uint32_t k = 0; k < n; k++)
				if (edges[k] != GRAPH_NONE && from[edges[k]] == GRAPH_NONE) {
					from[edges[k]] = *vertex;
					vec_push(&next, edges[k]);
				}
		}
		struct dominator_vertices done = *here;
		*here = next;
		next = done;
	}
	vec_free(&next);
}

uint32_t *heapgraph_shortest_by_rank(const struct heapgraph *g, unsigned (*rank)(const struct graph_root_set *set))
{
	uint32_t n_vertices = heapgraph_top(g), *from = mem_array((size_t)n_vertices + 1, sizeof(uint32_t));
	struct dominator_vertices here = { 0 };
	memset(from, 0xFF, ((size_t)n_vertices + 1) * sizeof(uint32_t));
	for (unsigned r = 0; r < GRAPH_RANKS; r++) {
		for (uint32_t root = g->n; root < n_vertices; root++)
			if (rank(&g->roots.v[root - g->n]) == r)
				vec_push(&here, root);
		spread(g, &here, from);
	}
	vec_free(&here);
	return from;
}

static unsigned one_rank(const struct graph_root_set *set)
{
	(void)set;
	return 0;
}

uint32_t *heapgraph_shortest(const struct heapgraph *g)
{
	return heapgraph_shortest_by_rank(g, one_rank);
}

void heapgraph_path(const struct heapgraph *g, const uint32_t *shortest, uint32_t object, struct graph_path *ret)
{
	vec_clear(ret);
	uint32_t v = object;
	/* No way is longer than there are vertices; a root has no one before it. */
	while (v != GRAPH_NONE) {
		vec_push(ret, v);
		v = v >= g->n ? GRAPH_NONE : shortest[v];
	}
	for (size_t i = 0; i < ret->n / 2; i++) {
		uint32_t t = ret->v[i];
		ret->v[i] = ret->v[ret->n - 1 - i];
		ret->v[ret->n - 1 - i] = t;
	}
}
