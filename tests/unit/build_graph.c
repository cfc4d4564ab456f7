#include "build_graph.h"

static uint64_t address_of(uint32_t object)
{
	return BUILT_OBJECTS + (uint64_t)object * BUILT_SIZE;
}

static void write_roots(struct heapgraph_writer *w, uint32_t n_roots, const struct built_edge *edges, size_t n_edges)
{
	for (uint32_t r = 0; r < n_roots; r++) {
		VEC(uint64_t) held = { 0 };
		for (size_t i = 0; i < n_edges; i++)
			if (edges[i].from == BUILT_ROOT(r))
				vec_push(&held, address_of(edges[i].to));
		heapgraph_write_root(w, r % GRAPH_ROOTS, "Shop.Cache._orders", r % 2 ? "mailer" : "", held.v, held.n);
		vec_free(&held);
	}
}

void build_graph(struct buf *out, uint32_t n, uint32_t n_roots, const struct built_edge *edges, size_t n_edges)
{
	const char *slots[] = { "_first", "_second", "_third" };
	struct graph_type fixed = {
		.name = "Shop.Node", .module = "Shop.dll", .units = 4, .n_slots = 3, .slots = slots
	};
	struct graph_type array = { .name = "Shop.Node[]", .kind = GRAPH_ARRAY, .variable = true };
	struct heapgraph_writer *w = heapgraph_writer_new(out);
	/* Two regions with a hole between them, where no object is. */
	uint64_t middle = address_of(n / 2), end = address_of(n);
	if (n / 2)
		heapgraph_write_region(
			w, &(struct graph_region){ .start = BUILT_OBJECTS, .end = middle, .generation = 2 });
	heapgraph_write_region(w, &(struct graph_region){ .start = middle, .end = end + 64, .committed = end + 4096 });
	write_roots(w, n_roots, edges, n_edges);
	for (uint32_t object = 0; object < n; object++) {
		heapgraph_write_object(w, address_of(object), BUILT_SIZE, object % 2 ? 7 : 3,
				       object % 2 ? &array : &fixed);
		for (size_t i = 0; i < n_edges; i++)
			if (edges[i].from == object) {
				uint64_t to = address_of(edges[i].to);
				heapgraph_write_refs(w, &to, 1);
			}
	}
	heapgraph_end_objects(w);
	size_t n_types;
	const uint32_t *order = heapgraph_type_order(w, &n_types);
	for (size_t i = 0; i < n_types; i++)
		heapgraph_write_type(w, order[i] == 7 ? &array : &fixed);
	heapgraph_write_facts(
		w, &(struct graph_facts){ .objects = n, .n_heaps = 1, .area = { 1, 2, 3 }, .uses_regions = true });
	heapgraph_writer_free(w);
}
