#include "heap/drain.h"
#include "base/str.h"
#include "heap/drain_internal.h"
#include "heap/internal.h"
#include <string.h>

#define PROGRESS_OBJECTS 65536
#define MAX_NESTING 8 /* of structures in an object */
#define MAX_SLOTS 4096

struct drain_state {
	struct heap *h;
	struct dac *dac;
	struct heap_drain *drain;
	struct heapgraph_writer *writer;
	struct roots roots;
	struct heap_outline outline;
	struct heap_walk *walk;
	struct root_path *way;	       /* receives the objects instead of the writer, or NULL */
	struct addresses chosen;       /* of only_to */
	VEC(struct graph_type) shapes; /* by type index; name NULL = not made yet */
	bool cut_statics;	       /* of the current object */
	size_t next_static;	       /* of roots.statics: the first that is not below it */
	uint64_t refs[512];
};

/* ---- types ---- */

/* Which words of an instance are references, in the order in which the walk gives them. */
static size_t slots_of(struct heap *h, const struct heap_type *type, uint32_t slots[MAX_SLOTS])
{
	const struct ref_map *map = heap_ref_map(h, type);
	uint64_t size = (type->base_size + 7u) & ~7u;
	size_t n = 0;
	for (uint32_t i = 0; i < map->n && !map->repeated; i++) {
		int64_t len = map->parts[i].size + (int64_t)size;
		for (uint64_t at = map->parts[i].start; len > 0 && at < size - 8; at += 8, len -= 8)
			if (n < MAX_SLOTS)
				slots[n++] = (uint32_t)at;
	}
	return n;
}

static struct graph_type *shape_of(struct drain_state *s, const struct heap_type *type)
{
	while (s->shapes.n <= type->index)
		vec_push(&s->shapes, (struct graph_type){ 0 });
	struct graph_type *shape = &s->shapes.v[type->index];
	if (shape->name)
		return shape;
	static const uint8_t kinds[] = { [HEAP_OBJECT] = GRAPH_OBJECT,
					 [HEAP_STRING] = GRAPH_STRING,
					 [HEAP_ARRAY] = GRAPH_ARRAY,
					 [HEAP_FREE] = GRAPH_FREE };
	uint32_t slots[MAX_SLOTS];
	*shape = (struct graph_type){
		.name = type->name,
		.kind = kinds[type->kind],
		.loader = type->loader,
		.variable = type->component_size != 0,
	};
	if (!shape->variable) {
		shape->units = (type->base_size + 7) / 8;
		shape->n_slots = type->has_refs ? (uint32_t)slots_of(s->h, type, slots) : 0;
	}
	return shape;
}

/* Names the slots that lie in the fields of a type; those in structures as "outer.inner". */
static void name_slots(struct drain_state *s, const struct heap_type *type, uint32_t base, const char *prefix,
		       unsigned depth, const uint32_t *slots, size_t n, const char **names)
{
	struct heap_fields fields = heap_fields(s->h, type);
	for (size_t i = 0; i < fields.n; i++) {
		const struct heap_field *f = &fields.v[i];
		if (f->is_static || (f->element != HEAP_CLASS && f->element != HEAP_STRUCT))
			continue;
		const char *name = *prefix ? arena_printf(&s->roots.arena, "%s.%s", prefix, f->name) : f->name;
		uint32_t at = base + f->offset;
		if (f->element == HEAP_STRUCT) {
			const struct heap_type *inner =
				depth < MAX_NESTING && f->type ? heap_type(s->h, f->type) : NULL;
			if (inner && inner->has_refs)
				name_slots(s, inner, at, name, depth + 1, slots, n, names);
			continue;
		}
		for (size_t k = 0; k < n; k++)
			if (slots[k] == at)
				names[k] = name;
	}
}

static void write_types(struct drain_state *s)
{
	size_t n;
	const uint32_t *order = heapgraph_type_order(s->writer, &n);
	for (size_t i = 0; i < n; i++) {
		const struct heap_type *type = &s->h->types.v[order[i]]->type;
		struct graph_type shape = s->shapes.v[order[i]];
		uint32_t slots[MAX_SLOTS];
		const char *names[MAX_SLOTS];
		shape.name = type->name;
		shape.module = heap_module_file(s->h, type);
		shape.slots = names;
		for (uint32_t k = 0; k < shape.n_slots; k++)
			names[k] = "";
		if (shape.n_slots)
			name_slots(s, type, 8, "", 0, slots, slots_of(s->h, type, slots), names);
		heapgraph_write_type(s->writer, &shape);
	}
}

/* ---- objects ---- */

static void put_refs(struct drain_state *s, const uint64_t *refs, size_t n)
{
	if (s->way)
		root_path_refs(s->way, refs, n);
	else
		heapgraph_write_refs(s->writer, refs, n);
}

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	struct drain_state *s = user;
	if (!s->cut_statics) {
		put_refs(s, refs, n);
		return;
	}
	size_t next = s->next_static;
	while (next < s->roots.statics.n && s->roots.statics.v[next].slot < at)
		next++;
	for (size_t done = 0; done < n; done += ARRAY_SIZE(s->refs)) {
		size_t part = MIN(n - done, ARRAY_SIZE(s->refs));
		uint64_t from = at + 8 * done;
		memcpy(s->refs, refs + done, part * 8);
		for (; next < s->roots.statics.n && s->roots.statics.v[next].slot < from + 8 * part; next++)
			s->refs[(s->roots.statics.v[next].slot - from) / 8] = 0;
		put_refs(s, s->refs, part);
	}
}

/* Does the array hold static fields? Asked in order of addresses. */
static bool holds_statics(struct drain_state *s, const struct heap_found *f)
{
	const struct heap_statics *statics = &s->roots.statics;
	while (s->next_static < statics->n && statics->v[s->next_static].slot < f->address)
		s->next_static++;
	return s->next_static < statics->n && statics->v[s->next_static].slot < f->address + f->size;
}

static void put_object(struct drain_state *s, const struct heap_found *f)
{
	if (s->way)
		root_path_object(s->way, f);
	else
		heapgraph_write_object(s->writer, f->address, f->size, f->type->index, shape_of(s, f->type));
	s->cut_statics = f->type->kind == HEAP_ARRAY && holds_statics(s, f);
	heap_walk_refs(s->walk, f, on_refs, s);
}

static struct err *put_all(struct drain_state *s)
{
	struct heap_found f;
	uint64_t whole = 0, done = 0, n = 0;
	uint32_t number = 0;
	vec_each(r, &s->outline.regions)
		whole += r->end - r->start;
	while (heap_walk_next(s->walk, &f)) {
		put_object(s, &f);
		if (f.type->kind != HEAP_FREE) {
			if (s->drain->on_object)
				s->drain->on_object(s->drain->user, s->walk, &f, number);
			number++;
		}
		done += f.size;
		if (++n % PROGRESS_OBJECTS == 0 && s->drain->on_progress &&
		    !s->drain->on_progress(s->drain->user, ratio(done, whole)))
			return err_new(ERR_CANCELLED, "cancelled while the heap was read");
	}
	return NULL;
}

static struct err *put_way(struct drain_state *s)
{
	struct heap_found f;
	s->way = root_path_new(&s->roots, &s->outline);
	TRY(put_all(s));
	TRY(root_path_find(s->way, s->drain->only_to, &s->chosen));
	root_path_free(s->way);
	s->way = NULL;
	s->next_static = 0;
	vec_each(address, &s->chosen)
		if (heap_walk_again(s->walk, *address, &f))
			put_object(s, &f);
	return NULL;
}

/* ---- all of it ---- */

static struct err *make_outline(struct drain_state *s)
{
	struct dac_heaps heaps = { 0 };
	struct dac_segments segments = { 0 };
	struct err *err = dac_heaps(s->dac, &heaps);
	if (!err)
		err = dac_segments(s->dac, &segments);
	if (!err)
		err = heap_outline_make(heap_facts(s->h), &heaps, &segments, &s->roots.threads, &s->outline);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	return err;
}

static void write_facts(struct drain_state *s)
{
	struct heap_health health = heap_walk_health(s->walk);
	struct graph_facts f = s->drain->memory;
	f.objects = health.objects;
	f.bytes = health.bytes;
	f.free_objects = health.free_objects;
	f.free_bytes = health.free_bytes;
	f.unused_bytes = health.unused_bytes;
	f.lost_bytes = health.lost_bytes;
	f.lost_regions = health.lost_regions + s->outline.left_out;
	f.lost_at = health.lost_at;
	f.n_finalizable = s->outline.n_finalizable;
	f.n_heaps = s->outline.n_heaps;
	f.server = s->outline.server;
	f.uses_regions = s->outline.uses_regions;
	vec_each(r, &s->outline.regions)
		f.committed += r->committed > r->start ? r->committed - r->start : 0;
	s->drain->facts = f;
	s->drain->threads_unread = s->roots.threads_unread;
	s->drain->modules_unread = s->h->modules_unread;
	heapgraph_write_facts(s->writer, &f);
}

static struct err *drain_all(struct drain_state *s)
{
	if (!heap_facts(s->h)->heap_valid)
		return err_new(ERR_BUSY, "a garbage collection was at work: its heap is in disorder");
	TRY_WRAP(roots_gather(&s->roots, s->h, s->dac), "what holds objects alive");
	TRY_WRAP(make_outline(s), "the outline of the heap");
	if (s->drain->on_outline)
		s->drain->on_outline(s->drain->user, s->h, &s->outline);
	vec_each(r, &s->outline.regions)
		heapgraph_write_region(s->writer, &(struct graph_region){ .start = r->start,
									  .end = r->end,
									  .committed = r->committed,
									  .heap = r->heap,
									  .generation = (uint8_t)r->generation });
	TRY(roots_write(&s->roots, s->writer, &s->outline));
	s->walk = heap_walk_new(s->h, &s->outline);
	TRY(s->drain->only_to ? put_way(s) : put_all(s));
	heapgraph_end_objects(s->writer);
	TRY(heap_walk_check(s->walk));
	write_types(s);
	write_facts(s);
	return NULL;
}

struct err *heap_drain(struct heap *h, struct dac *d, struct heap_drain *drain, struct buf *out)
{
	struct drain_state *s = mem_zalloc(sizeof(*s));
	s->h = h;
	s->dac = d;
	s->drain = drain;
	s->writer = heapgraph_writer_new(out);
	struct err *err = drain_all(s);
	heapgraph_writer_free(s->writer);
	heap_walk_free(s->walk);
	root_path_free(s->way);
	vec_free(&s->chosen);
	heap_outline_free(&s->outline);
	roots_free(&s->roots);
	vec_free(&s->shapes);
	mem_free(s);
	return err;
}
