#include "unit.h"

#include "build_graph.h"

static uint64_t seed = 88172645463325252u;
static uint32_t chance(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 11) % below);
}

static struct heapgraph *read_graph(const struct buf *b)
{
	struct cursor in = cursor_make(b->data, b->len);
	struct heapgraph *g = NULL;
	assert_ok(heapgraph_read(&in, &g));
	assert_int_equal(cursor_left(&in), 0);
	return g;
}

static struct heapgraph *graph(uint32_t n, uint32_t n_roots, const struct built_edge *edges, size_t n_edges)
{
	struct buf b = { 0 };
	build_graph(&b, n, n_roots, edges, n_edges);
	struct heapgraph *g = read_graph(&b);
	buf_free(&b);
	return g;
}

/* ---- slow and sure ---- */

/* Marks what the roots reach without going through `without`. What is firm they reach without stacks: nothing that is
 * not counts there. firm = NULL: the roots that are no stacks. */
static void reach(const struct heapgraph *g, uint32_t without, const bool *firm, bool *reached)
{
	memset(reached, 0, heapgraph_top(g) + 1);
	bool changed = true;
	for (uint32_t r = 0; r < g->roots.n; r++)
		reached[g->n + r] = g->n + r != without && (firm || g->roots.v[r].kind != GRAPH_STACK);
	while (changed) {
		changed = false;
		for (uint32_t v = 0; v < heapgraph_top(g); v++) {
			bool root = v >= g->n;
			uint32_t n = root ? g->roots.v[v - g->n].n : g->first[v + 1] - g->first[v];
			const uint32_t *to =
				root ? g->root_targets + g->roots.v[v - g->n].first : g->target + g->first[v];
			for (uint32_t i = 0; reached[v] && i < n; i++)
				if (to[i] != GRAPH_NONE && to[i] != without && !reached[to[i]] &&
				    (!firm || firm[v] || !firm[to[i]]))
					changed = reached[to[i]] = true;
		}
	}
}

/* Retained is what is lost when a vertex is taken out; its dominator is the one of those that dominate it which has the
 * least. */
static void check_against_removal(struct heapgraph *g)
{
	uint32_t top = heapgraph_top(g);
	bool *all = mem_zalloc(top + 1), *without = mem_zalloc(top + 1), *firm = mem_zalloc(top + 1);
	uint32_t *best = mem_array(top + 1, sizeof(*best)), *units = mem_array(top + 1, sizeof(*units));
	heapgraph_dominate(g);
	reach(g, GRAPH_NONE, NULL, firm);
	reach(g, GRAPH_NONE, firm, all);
	for (uint32_t v = 0; v <= top; v++) {
		best[v] = top;
		units[v] = UINT32_MAX;
	}
	for (uint32_t v = 0; v < top; v++) {
		uint32_t lost = 0;
		assert_int_equal(heapgraph_reached(g, v), all[v]);
		if (!all[v])
			continue;
		reach(g, v, firm, without);
		for (uint32_t o = 0; o < g->n; o++)
			lost += all[o] && !without[o] ? g->units[o] : 0;
		assert_int_equal(g->retained[v], lost);
		assert_int_equal(g->retained_objects[v], lost / (BUILT_SIZE / 8));
		for (uint32_t o = 0; o < top; o++)
			if (o != v && all[o] && !without[o] && lost < units[o]) {
				best[o] = v;
				units[o] = lost;
			}
	}
	for (uint32_t v = 0; v < top; v++)
		if (all[v])
			assert_int_equal(g->dominator[v], best[v]);
	uint64_t kept = 0;
	for (uint32_t c = g->child[top]; c != GRAPH_NONE; c = g->sibling[c])
		kept += g->retained[c];
	assert_int_equal(kept, g->reached_units);
	mem_free(all);
	mem_free(firm);
	mem_free(without);
	mem_free(best);
	mem_free(units);
}

/* Every step of a path is a reference, and no path is shorter: the distance by rounds is the same. */
static void check_paths(const struct heapgraph *g)
{
	uint32_t *from = heapgraph_shortest(g), *distance = mem_array(g->n + 1, sizeof(*distance));
	struct graph_path path = { 0 };
	memset(distance, 0xFF, (g->n + 1) * sizeof(*distance));
	for (uint32_t r = 0; r < g->roots.n; r++)
		for (uint32_t i = 0; i < g->roots.v[r].n; i++)
			distance[g->root_targets[g->roots.v[r].first + i]] = 1;
	for (uint32_t round = 1; round <= g->n; round++)
		for (uint32_t v = 0; v < g->n; v++)
			for (uint32_t i = g->first[v]; distance[v] == round && i < g->first[v + 1]; i++)
				if (g->target[i] != GRAPH_NONE && distance[g->target[i]] > round + 1)
					distance[g->target[i]] = round + 1;
	for (uint32_t v = 0; v < g->n; v++) {
		heapgraph_path(g, from, v, &path);
		if (distance[v] == GRAPH_NONE) {
			assert_int_equal(path.n, 1);
			continue;
		}
		assert_int_equal(path.n, distance[v] + 1);
		assert_true(path.v[0] >= g->n);
		assert_int_equal(path.v[path.n - 1], v);
		for (size_t i = 1; i + 1 < path.n; i++) {
			bool real = false;
			for (uint32_t k = g->first[path.v[i]]; k < g->first[path.v[i] + 1]; k++)
				real |= g->target[k] == path.v[i + 1];
			assert_true(real);
		}
	}
	vec_free(&path);
	mem_free(from);
	mem_free(distance);
}

static void random_graphs(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t n = 1 + chance(30), n_roots = chance(5);
		struct built_edge edges[120];
		size_t n_edges = chance(1 + MIN(n * 3, (uint32_t)ARRAY_SIZE(edges)));
		for (size_t i = 0; i < n_edges; i++) {
			edges[i].from = n_roots && chance(8) == 0 ? BUILT_ROOT(chance(n_roots)) : chance(n);
			edges[i].to = chance(n);
		}
		struct heapgraph *g = graph(n, n_roots, edges, n_edges);
		assert_int_equal(g->n, n);
		check_against_removal(g);
		check_paths(g);
		heapgraph_free(g);
	}
}

/* A list of many: nothing here may be as deep as the heap. */
static void long_list(void **state)
{
	(void)state;
	enum { N = 20000 };
	struct built_edge *edges = mem_array(N, sizeof(*edges));
	for (uint32_t i = 0; i < N; i++)
		edges[i] = i ? (struct built_edge){ 2 * (i - 1), 2 * i } : (struct built_edge){ BUILT_ROOT(0), 0 };
	/* build_graph looks through all edges for each object: so that it stays quick, write it by hand */
	struct buf b = { 0 };
	struct heapgraph_writer *w = heapgraph_writer_new(&b);
	const char *slots[] = { "_next" };
	struct graph_type node = { .name = "Node", .units = 3, .n_slots = 1, .slots = slots };
	uint64_t first = 0x10000;
	heapgraph_write_region(w, &(struct graph_region){ .start = 0x10000, .end = 0x10000 + 24ull * N });
	heapgraph_write_root(w, GRAPH_STATIC, "Head", "", &first, 1);
	for (uint32_t i = 0; i < N; i++) {
		uint64_t next = i + 1 < N ? 0x10000 + 24ull * (i + 1) : 0;
		heapgraph_write_object(w, 0x10000 + 24ull * i, 24, 0, &node);
		heapgraph_write_refs(w, &next, 1);
	}
	heapgraph_end_objects(w);
	heapgraph_write_type(w, &node);
	heapgraph_write_facts(w, &(struct graph_facts){ 0 });
	heapgraph_writer_free(w);
	struct heapgraph *g = read_graph(&b);
	heapgraph_dominate(g);
	assert_int_equal(g->retained[0], 3 * N);
	assert_int_equal(g->retained[N - 1], 3);
	assert_int_equal(g->dominator[N - 1], N - 2);
	assert_string_equal(heapgraph_step(g, 5, 6), "_next");
	heapgraph_free(g);
	buf_free(&b);
	mem_free(edges);
}

/* A method that is at work on what a static field holds has no share in it; what only it has is its own. */
static void stacks_come_last(void **state)
{
	(void)state;
	/* Root 0 is a static field, root 2 a stack. */
	struct built_edge edges[] = { { BUILT_ROOT(0), 0 }, { 0, 1 }, { 1, 2 }, { BUILT_ROOT(2), 2 },
				      { BUILT_ROOT(2), 3 }, { 3, 1 }, { 3, 4 } };
	struct heapgraph *g = graph(5, 3, edges, ARRAY_SIZE(edges));
	assert_int_equal(g->roots.v[2].kind, GRAPH_STACK);
	heapgraph_dominate(g);
	assert_int_equal(g->dominator[1], 0);
	assert_int_equal(g->dominator[2], 1);
	assert_int_equal(g->dominator[3], g->n + 2);
	assert_int_equal(g->dominator[4], 3);
	assert_int_equal(g->retained_objects[g->n + 0], 3);
	assert_int_equal(g->retained_objects[g->n + 2], 2);
	heapgraph_free(g);
}

static void what_was_written(void **state)
{
	(void)state;
	struct built_edge edges[] = {
		{ BUILT_ROOT(0), 0 }, { BUILT_ROOT(1), 3 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 1, 1 }, { 4, 0 },
	};
	struct heapgraph *g = graph(5, 2, edges, ARRAY_SIZE(edges));
	assert_int_equal(g->n, 5);
	assert_int_equal(g->types.n, 2);
	assert_string_equal(g->types.v[g->type[0]].name, "Shop.Node");
	assert_string_equal(g->types.v[g->type[1]].name, "Shop.Node[]");
	assert_int_equal(heapgraph_address(g, 3), BUILT_OBJECTS + 3 * BUILT_SIZE);
	assert_int_equal(heapgraph_at(g, BUILT_OBJECTS + 3 * BUILT_SIZE), 3);
	assert_int_equal(heapgraph_at(g, BUILT_OBJECTS + 3 * BUILT_SIZE + 8), GRAPH_NONE);
	assert_int_equal(heapgraph_at(g, 8), GRAPH_NONE);
	assert_int_equal(heapgraph_region(g, 1)->generation, 2);
	assert_int_equal(heapgraph_region(g, 4)->generation, 0);
	assert_int_equal(heapgraph_region(g, 4)->bytes, 3 * BUILT_SIZE);
	assert_string_equal(heapgraph_step(g, 0, 2), "_second");
	assert_string_equal(heapgraph_step(g, 1, 3), "");
	assert_string_equal(g->roots.v[1].thread, "mailer");
	assert_int_equal(g->facts.area[2], 3);
	assert_true(g->facts.uses_regions && !g->facts.server);
	heapgraph_dominate(g);
	assert_false(heapgraph_reached(g, 4)); /* it refers to others, but nobody to it */
	assert_int_equal(g->retained[0], 12);
	assert_int_equal(g->dominator[3], heapgraph_top(g)); /* two hold it */
	heapgraph_free(g);
}

/* Free room, links, what a type's loader keeps, a root into an object, references to nowhere. */
static void the_rest_of_a_heap(void **state)
{
	(void)state;
	struct buf b = { 0 };
	struct graph_type node = { .name = "Node", .units = 4, .n_slots = 2, .loader = 0x10060 };
	struct graph_type gap = { .name = "Free", .kind = GRAPH_FREE, .variable = true };
	struct heapgraph_writer *w = heapgraph_writer_new(&b);
	heapgraph_write_region(w, &(struct graph_region){ .start = 0x10000, .end = 0x20000 });
	heapgraph_write_root(w, GRAPH_STACK, "Main", "1", (uint64_t[]){ 0x10010, 0x99999 }, 2);
	heapgraph_write_link(w, 0x10000, 0x10080);
	heapgraph_write_link(w, 0x10000, 0x10020);
	heapgraph_write_link(w, 0x77770, 0x10020); /* of nothing */
	for (unsigned i = 0; i < 5; i++) {
		if (i == 2) {
			heapgraph_write_object(w, 0x10040, 32, 9, &gap);
			continue;
		}
		heapgraph_write_object(w, 0x10000 + i * 32, 32, 4, &node);
		heapgraph_write_refs(w, (uint64_t[]){ i == 0 ? 0x55558 : 0, 0x10003, 1, 2, 3 }, 5);
	}
	heapgraph_end_objects(w);
	heapgraph_write_type(w, &node);
	heapgraph_write_type(w, &gap);
	heapgraph_write_facts(w, &(struct graph_facts){ 0 });
	heapgraph_writer_free(w);
	struct heapgraph *g = read_graph(&b);
	heapgraph_dominate(g);
	assert_int_equal(g->n, 4);
	assert_int_equal(g->regions.v[0].free_bytes, 32);
	assert_int_equal(g->facts.strays, 2);
	assert_int_equal(g->first[1] - g->first[0], 2 + 3);
	/* 0 is held by the stack, and holds 1 and 3 by links, and 2 as its loader, which the others hold as well. */
	for (uint32_t v = 0; v < 4; v++)
		assert_true(heapgraph_reached(g, v));
	assert_int_equal(g->retained[0], 16);
	heapgraph_free(g);
	buf_free(&b);
}

/* Cut anywhere it is refused; with any byte changed it is refused or read, and then makes sense to the algorithms. */
static void hostile(void **state)
{
	(void)state;
	struct buf b = { 0 };
	struct built_edge edges[] = {
		{ BUILT_ROOT(0), 0 }, { BUILT_ROOT(1), 3 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 3, 7 }, { 7, 0 }, { 8, 1 },
	};
	build_graph(&b, 9, 2, edges, ARRAY_SIZE(edges));
	for (size_t len = 0; len < b.len; len++) {
		struct heapgraph *g = NULL;
		char *part = mem_dup(b.data, MAX(len, (size_t)1));
		struct cursor in = cursor_make(part, len);
		assert_err(heapgraph_read(&in, &g), ERR_BAD_DATA);
		mem_free(part);
	}
	unsigned refused = 0;
	for (size_t i = 0; i < b.len; i++)
		for (unsigned value = 0; value < 256; value += 5) {
			char saved = b.data[i];
			struct heapgraph *g = NULL;
			b.data[i] = (char)value;
			struct cursor in = cursor_make(b.data, b.len);
			struct err *err = heapgraph_read(&in, &g);
			refused += err != NULL;
			if (!err) {
				heapgraph_dominate(g);
				mem_free(heapgraph_shortest(g));
				for (uint32_t v = 0; v < g->n; v++)
					assert_int_equal(heapgraph_at(g, heapgraph_address(g, v)), v);
			}
			err_free(err);
			heapgraph_free(g);
			b.data[i] = saved;
		}
	assert_true(refused > 100);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written), cmocka_unit_test(the_rest_of_a_heap),
		cmocka_unit_test(random_graphs),    cmocka_unit_test(long_list),
		cmocka_unit_test(hostile),	    cmocka_unit_test(stacks_come_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
