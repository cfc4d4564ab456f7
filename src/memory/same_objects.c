#include "memory/same_objects.h"
#include "base/vec.h"

#define FIELDS_STAY 0.9 /* of the static fields refer to where they did: then nothing was moved but the young */

void same_objects_keep(struct same_objects *s, const struct heapgraph *g, const uint32_t *type_ids)
{
	size_t most = MAX(g->reached_objects, (uint64_t)1);
	s->address = mem_array(most, sizeof(*s->address));
	s->type = mem_array(most, sizeof(*s->type));
	s->young = mem_array(most, sizeof(*s->young));
	vec_each(r, &g->regions)
		for (uint32_t i = r->first; i < r->first + r->n && s->n < most; i++) {
			if (!heapgraph_reached(g, i))
				continue;
			s->address[s->n] = heapgraph_address(g, i);
			s->type[s->n] = type_ids[g->type[i]];
			s->young[s->n++] = r->generation < GRAPH_GEN2;
		}
	vec_each(set, &g->roots)
		if (set->kind == GRAPH_STATIC && set->n == 1 &&
		    strtab_add_cstr(&s->statics, set->name) == s->static_address.n)
			vec_push(&s->static_address, heapgraph_address(g, g->root_targets[set->first]));
}

void same_objects_free(struct same_objects *s)
{
	mem_free(s->address);
	mem_free(s->type);
	mem_free(s->young);
	strtab_free(&s->statics);
	vec_free(&s->static_address);
	*s = (struct same_objects){ 0 };
}

static bool has_moved(const struct same_objects *s, const struct heapgraph *g)
{
	size_t known = 0, same = 0;
	vec_each(set, &g->roots) {
		if (set->kind != GRAPH_STATIC || set->n != 1)
			continue;
		uint32_t id = strtab_find(&s->statics, set->name, strlen(set->name));
		if (id == STRTAB_NONE)
			continue;
		known++;
		same += s->static_address.v[id] == heapgraph_address(g, g->root_targets[set->first]);
	}
	return !known || (double)same < FIELDS_STAY * (double)known;
}

bool same_objects_find(const struct same_objects *s, const struct heapgraph *g, const uint32_t *type_ids,
		       struct same_count *by_type)
{
	size_t at = 0;
	if (has_moved(s, g))
		return false;
	for (uint32_t i = 0; i < g->n; i++) {
		if (!heapgraph_reached(g, i))
			continue;
		uint64_t address = heapgraph_address(g, i);
		for (; at < s->n && s->address[at] < address; at++)
			by_type[s->type[at]].unsure += s->young[at];
		if (at == s->n || s->address[at] != address)
			continue;
		if (s->type[at] == type_ids[g->type[i]])
			by_type[s->type[at]].stayed++;
		else
			by_type[s->type[at]].unsure += s->young[at];
		at++;
	}
	for (; at < s->n; at++)
		by_type[s->type[at]].unsure += s->young[at];
	return true;
}
