/* The tree of dominators below the holders: what would be freed with each of them, objects of one type together. */

#include "base/str.h"
#include "base/vec.h"
#include "memory/holders.h"
#include <stdlib.h>

#define MOST 0.5	/* of a holder: a single object that has so much only leads on */
#define TREE_SHARE 0.02 /* of a holder: what is below is summed up */
#define TREE_WIDTH 6
#define TREE_ROWS 24 /* below each other */

/* ---- what is below ---- */

struct holder_group {
	uint32_t type;
	const char *field;
	uint64_t units;
	VEC(uint32_t) objects;
};
VEC_TYPE(holder_groups, struct holder_group);

static int heaviest_group_first(const void *a, const void *b)
{
	const struct holder_group *x = a, *y = b;
	return CMP(y->units, x->units);
}

static void groups_free(struct holder_groups *gs)
{
	vec_each(group, gs)
		vec_free(&group->objects);
	vec_free(gs);
}

struct tree {
	const struct heapgraph *g;
	uint64_t all, whole; /* units that are held, and of the current holder */
	unsigned max_depth;
	/* Objects that are holders themselves, and what such ones below a vertex have: that is counted there. */
	struct map_u64 holders, taken;
};

static uint64_t left_of(const struct tree *t, uint32_t v)
{
	const uint64_t *taken = map_u64_get(&t->taken, v);
	uint64_t units = t->g->retained[v];
	return taken ? units - MIN(units, *taken) : units;
}

/* Children of all these, those of one type and field together. Fields are looked up for the first of a type only: all
 * the others of that type are held in the same way or it does not matter. */
static void group_children(const struct tree *t, const uint32_t *parents, size_t n, struct holder_groups *ret)
{
	const struct heapgraph *g = t->g;
	CLEANUP(map_u64_free) struct map_u64 index = { 0 };
	for (size_t i = 0; i < n; i++)
		for (uint32_t c = g->child[parents[i]]; c != GRAPH_NONE; c = g->sibling[c]) {
			bool fresh;
			/* Lists and trees of one type are one row: those below were counted with the first. */
			if (c >= g->n || (parents[i] < g->n && g->type[c] == g->type[parents[i]]) ||
			    map_u64_get(&t->holders, c))
				continue;
			uint64_t *at = map_u64_put(&index, g->type[c], &fresh);
			if (fresh) {
				*at = ret->n;
				vec_push(ret, ((struct holder_group){ .type = g->type[c],
								      .field = heapgraph_step(g, parents[i], c) }));
			}
			ret->v[*at].units += left_of(t, c);
			vec_push(&ret->v[*at].objects, c);
		}
	vec_each(group, ret)
		for (size_t i = 0; i < group->objects.n; i++)
			for (uint32_t c = g->child[group->objects.v[i]]; c != GRAPH_NONE; c = g->sibling[c])
				if (g->type[c] == group->type && !map_u64_get(&t->holders, c))
					vec_push(&group->objects, c);
	vec_sort(ret, heaviest_group_first);
}

static struct report_row *add_row(const struct tree *t, struct report_row *parent, const char *name, uint64_t objects,
				  uint64_t units)
{
	return report_child(parent, (struct value[]){ V_CODE(name), V_COUNT(objects), V_BYTES(units * 8),
						      V_RATIO(ratio(units, t->all)) });
}

/* depth counts the informative steps: single objects are passed through. */
static void add_below(const struct tree *t, struct report_row *parent, const uint32_t *parents, size_t n,
		      unsigned depth, unsigned rows)
{
	struct holder_groups groups = { 0 };
	uint64_t rest_units = 0, rest_objects = 0;
	if (depth >= t->max_depth || rows >= TREE_ROWS)
		return;
	group_children(t, parents, n, &groups);
	for (size_t i = 0; i < groups.n; i++) {
		const struct holder_group *group = &groups.v[i];
		if (i >= TREE_WIDTH || (double)group->units < TREE_SHARE * (double)t->whole) {
			rest_units += group->units;
			rest_objects += group->objects.n;
			continue;
		}
		CLEANUP(buf_free) struct buf name = { 0 };
		if (*group->field) {
			buf_char(&name, '.');
			heap_field_name(group->field, &name);
			buf_str(&name, " → ");
		}
		heap_type_short(t->g, group->type, &name);
		struct report_row *row = add_row(t, parent, buf_cstr(&name), group->objects.n, group->units);
		bool single = group->objects.n == 1 && (double)group->units >= MOST * (double)t->whole;
		add_below(t, row, group->objects.v, group->objects.n, depth + !single, rows + 1);
	}
	if ((double)rest_units >= TREE_SHARE * (double)t->whole)
		add_row(t, parent, "smaller ones", rest_objects, rest_units);
	groups_free(&groups);
}

/* ---- the holders ---- */

/* All of a type below v, but not those inside of another of them. */
static void gather(const struct heapgraph *g, uint32_t top, uint32_t type, struct holder_vertices *ret)
{
	uint32_t v = g->child[top];
	while (v != GRAPH_NONE && v != top) {
		bool found = v < g->n && g->type[v] == type;
		if (found)
			vec_push(ret, v);
		if (!found && g->child[v] != GRAPH_NONE) {
			v = g->child[v];
			continue;
		}
		while (v != top && g->sibling[v] == GRAPH_NONE)
			v = g->dominator[v];
		if (v != top)
			v = g->sibling[v];
	}
}

/* A holder represents all objects of its type at its root; one of objects that several hold represents all that no
 * single one holds. */
static void members_of(const struct heapgraph *g, const struct holder *h, struct holder_vertices *ret)
{
	if (h->vertex >= g->n || h->alike < 2) {
		vec_push(ret, h->vertex);
	} else if (h->several) {
		for (uint32_t c = g->child[heapgraph_top(g)]; c != GRAPH_NONE; c = g->sibling[c])
			if (c < g->n && g->type[c] == g->type[h->vertex])
				vec_push(ret, c);
		/* They may be further down, in what several hold. */
		for (uint32_t c = ret->n ? GRAPH_NONE : g->child[heapgraph_top(g)]; c != GRAPH_NONE; c = g->sibling[c])
			if (c < g->n)
				gather(g, c, g->type[h->vertex], ret);
	} else {
		gather(g, h->root, g->type[h->vertex], ret);
	}
}

void holder_objects(const struct heapgraph *g, const struct holder *h, struct holder_vertices *ret)
{
	struct holder_vertices members = { 0 };
	vec_clear(ret);
	members_of(g, h, &members);
	bool own = h->vertex < g->n && g->types.v[g->type[h->vertex]].own;
	if (!own || (h->alike < 2 && !h->several))
		vec_each(v, &members)
			if (h->main_type != GRAPH_NONE)
				gather(g, *v, h->main_type, ret);
	if (!ret->n)
		vec_each(v, &members)
			if (*v < g->n)
				vec_push(ret, *v);
	vec_free(&members);
}

/* A holder may be inside of another one: it takes what it has away from all between them. */
static void mark_holders(struct tree *t, const struct holders *hs)
{
	const struct heapgraph *g = t->g;
	struct holder_vertices all = { 0 };
	vec_each(h, &hs->v)
		if (!h->several)
			members_of(g, h, &all);
	vec_each(v, &all)
		*map_u64_put(&t->holders, *v, NULL) = 1;
	vec_each(v, &all)
		for (uint32_t up = g->dominator[*v]; up != heapgraph_top(g); up = g->dominator[up]) {
			*map_u64_put(&t->taken, up, NULL) += g->retained[*v];
			if (map_u64_get(&t->holders, up))
				break;
		}
	vec_free(&all);
}

struct report_table *holders_tree(const struct heapgraph *g, const struct holders *hs, size_t max_holders,
				  unsigned max_depth, struct report *report)
{
	struct tree t = { .g = g, .all = hs->bytes / 8, .max_depth = max_depth };
	struct report_table *table = report_tree(report, "Who keeps what");
	report_column(table, "Kept alive by", VALUE_CODE, 0);
	report_column(table, "Objects", VALUE_COUNT, 0);
	report_column(table, "Retained", VALUE_BYTES, COLUMN_MAIN | COLUMN_AREA);
	report_column(table, "Share", VALUE_RATIO, COLUMN_BAR);
	mark_holders(&t, hs);
	for (size_t i = 0; i < hs->v.n && i < max_holders; i++) {
		const struct holder *h = &hs->v.v[i];
		struct holder_vertices members = { 0 };
		CLEANUP(buf_free) struct buf name = { 0 };
		holder_name(g, h, &name);
		t.whole = h->bytes / 8;
		members_of(g, h, &members);
		struct report_row *row =
			report_row(table, (struct value[]){ V_CODE(buf_cstr(&name)), V_COUNT(h->objects),
							    V_BYTES(h->bytes), V_RATIO(ratio(t.whole, t.all)) });
		add_below(&t, row, members.v, members.n, 0, 0);
		vec_free(&members);
	}
	map_u64_free(&t.holders);
	map_u64_free(&t.taken);
	return table;
}
