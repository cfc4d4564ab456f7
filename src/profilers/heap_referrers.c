#include "profilers/heap_look.h"

#define CANDIDATES 8 /* of a group: the first ones met */

struct candidate {
	uint32_t type, slot;
	uint64_t n;
};

static void count(struct candidate *c, uint32_t type, uint32_t slot)
{
	for (size_t i = 0; i < CANDIDATES; i++)
		if (!c[i].n || (c[i].type == type && c[i].slot == slot)) {
			c[i] = (struct candidate){ type, slot, c[i].n + 1 };
			return;
		}
}

/* Every reference is looked at once. */
void heap_referrers(const struct heapgraph *g, const uint32_t *group_of, size_t n_groups, struct referrer *ret)
{
	struct candidate(*seen)[CANDIDATES] = mem_zalloc((n_groups + 1) * sizeof(*seen));
	for (uint32_t from = 0; from < g->n; from++) {
		bool variable = g->types.v[g->type[from]].variable;
		for (uint32_t e = g->first[from]; heapgraph_reached(g, from) && e < g->first[from + 1]; e++) {
			uint32_t group = g->target[e] == GRAPH_NONE ? 0 : group_of[g->target[e]];
			if (group)
				count(seen[group - 1], g->type[from], variable ? 0 : e - g->first[from]);
		}
	}
	for (size_t i = 0; i < n_groups; i++) {
		ret[i] = (struct referrer){ .field = "" };
		for (size_t k = 0; k < CANDIDATES; k++) {
			const struct candidate *c = &seen[i][k];
			if (c->n <= ret[i].n)
				continue;
			const struct graph_type *t = &g->types.v[c->type];
			ret[i] = (struct referrer){ c->type, c->slot < t->n_slots ? t->slots[c->slot] : "", c->n };
		}
	}
	mem_free(seen);
}

void heap_referrer_name(const struct heapgraph *g, const struct referrer *r, struct buf *out)
{
	if (!r->n)
		return;
	heap_type_short(g, r->type, out);
	if (*r->field) {
		buf_char(out, '.');
		heap_field_name(r->field, out);
	}
}
