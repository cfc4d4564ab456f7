/* Two flame graphs: what each frame is of the whole on both sides, and the second graph with what its nodes were. */

#include "report/compare_changes.h"
#include <string.h>

/* ---- frames ---- */

static void add_frames(struct compared *l, const struct report_flame *f, bool after, struct strtab *keys,
		       struct arena *arena)
{
	double all = (double)MAX(f->nodes[0].total, (uint64_t)1);
	/* For each frame the node after those of its outermost call: until there it calls itself. */
	CLEANUP(mem_freep) uint32_t *until = mem_array(MAX(f->n_frames, (size_t)1), sizeof(*until));
	memset(until, 0, MAX(f->n_frames, (size_t)1) * sizeof(*until));
	for (size_t i = 1; i < f->n_nodes; i++) {
		const struct flame_node *n = &f->nodes[i];
		const char *name = f->frames[n->frame].name;
		if (i < until[n->frame])
			continue;
		until[n->frame] = n->end;
		struct change *c = change_of(&l->changes, keys, name, strlen(name));
		if (!c->names[0]) {
			struct value *v = arena_zalloc(arena, sizeof(*v));
			*v = V_CODE(name);
			c->names[0] = v;
		}
		*(after ? &c->after : &c->before) += (double)n->total / all;
		*(after ? &c->in_after : &c->in_before) = true;
	}
}

void compare_frames(struct compared *l, struct arena *arena)
{
	struct strtab keys = { 0 };
	l->names[0] = (struct column){ .name = "Frame", .kind = VALUE_CODE };
	l->n_names = 1;
	l->value = (struct column){ .name = "With callees", .kind = VALUE_RATIO };
	add_frames(l, l->flame_before, false, &keys, arena);
	add_frames(l, l->flame_after, true, &keys, arena);
	strtab_free(&keys);
}

/* ---- the graph ---- */

struct compare_merged {
	uint32_t frame, parent;
	uint64_t before;
};
struct merging {
	struct strtab names; /* name and kind -> frame */
	VEC(struct flame_frame) frames;
	VEC(struct compare_merged) nodes;
	struct map_u64 edges; /* parent and frame -> node */
};

static uint32_t merge_frame(struct merging *m, const struct flame_frame *f)
{
	CLEANUP(mem_freep) char *key = mem_printf("%d %s", f->kind, f->name);
	uint32_t id = strtab_add_cstr(&m->names, key);
	if (id == m->frames.n)
		vec_push(&m->frames, *f);
	return id;
}

static void merge_flame(struct merging *m, const struct report_flame *f)
{
	uint32_t path[FLAME_DEPTH_MAX + 1] = { 0 };
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node *n = &f->nodes[i];
		uint32_t node = 0;
		if (i) {
			uint32_t frame = merge_frame(m, &f->frames[n->frame]), parent = path[n->depth - 1];
			bool new;
			uint64_t *at = map_u64_put(&m->edges, (uint64_t)parent << 32 | frame, &new);
			if (new) {
				*at = m->nodes.n;
				vec_push(&m->nodes, ((struct compare_merged){ .frame = frame, .parent = parent }));
			}
			node = (uint32_t)*at;
		}
		path[n->depth] = node;
		m->nodes.v[node].before += n->total;
	}
}

/* The order of the second one: its nodes, each with what it was before. */
void compare_flame(struct report *r, const struct report_flame *before, const struct report_flame *after)
{
	struct merging m = { 0 };
	vec_push(&m.nodes, ((struct compare_merged){ 0 }));
	merge_flame(&m, before);
	CLEANUP(mem_freep) char *title = mem_printf("%s: what changed", after->block.title);
	struct report_flame *f = flame_new(r, title, after->weight_kind);
	f->compared = true;
	f->frames = arena_zalloc(&r->arena, MAX(after->n_frames, (size_t)1) * sizeof(*f->frames));
	f->nodes = arena_zalloc(&r->arena, after->n_nodes * sizeof(*f->nodes));
	f->n_frames = after->n_frames;
	f->n_nodes = after->n_nodes;
	f->cut = after->cut;
	for (size_t i = 0; i < after->n_frames; i++)
		f->frames[i] = (struct flame_frame){ doc_text(r, after->frames[i].name), after->frames[i].kind };
	uint32_t path[FLAME_DEPTH_MAX + 1] = { 0 };
	for (size_t i = 0; i < after->n_nodes; i++) {
		struct flame_node n = after->nodes[i];
		uint32_t was = 0;
		if (i) {
			uint32_t frame = merge_frame(&m, &after->frames[n.frame]), parent = path[n.depth - 1];
			const uint64_t *at =
				parent == UINT32_MAX ? NULL : map_u64_get(&m.edges, (uint64_t)parent << 32 | frame);
			was = at ? (uint32_t)*at : UINT32_MAX;
		}
		path[n.depth] = was;
		n.before = was == UINT32_MAX ? 0 : m.nodes.v[was].before;
		f->nodes[i] = n;
	}
	strtab_free(&m.names);
	vec_free(&m.frames);
	vec_free(&m.nodes);
	map_u64_free(&m.edges);
}
