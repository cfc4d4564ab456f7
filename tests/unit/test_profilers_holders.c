#include "unit.h"

#include "build_graph.h"
#include "memory/holders.h"

/* Two arrays, each in a root of its own, share all nodes: they belong to neither alone. */
static void what_two_hold_is_one_holder_that_names_both(void **state UNUSED)
{
	enum { NODES = 40 };
	struct built_edge edges[2 + 2 * NODES];
	size_t n = 0;
	edges[n++] = (struct built_edge){ BUILT_ROOT(0), 1 };
	edges[n++] = (struct built_edge){ BUILT_ROOT(1), 3 };
	for (uint32_t i = 0; i < NODES; i++) {
		edges[n++] = (struct built_edge){ 1, 4 + 2 * i };
		edges[n++] = (struct built_edge){ 3, 4 + 2 * i };
	}
	CLEANUP(buf_free) struct buf bytes = { 0 };
	build_graph(&bytes, 4 + 2 * NODES, 2, edges, n);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	assert_ok(heapgraph_read(&in, &g));
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	struct holders hs;
	holders_find(g, (uint64_t)NODES / 2 * BUILT_SIZE, &hs);
	assert_int_equal(hs.v.n, 1);
	const struct holder *h = &hs.v.v[0];
	assert_true(h->several);
	assert_int_equal(h->alike, NODES);
	assert_int_equal(h->objects, NODES);
	assert_int_equal(h->bytes, NODES * BUILT_SIZE);
	assert_int_equal(h->claims, 2);
	assert_int_equal(h->root + h->also, 2 * g->n + 1); /* both roots, in any order */
	assert_int_equal(hs.rest_objects, 2);
	CLEANUP(buf_free) struct buf name = { 0 }, detail = { 0 };
	holder_name(g, h, &name);
	holder_detail(g, h, &detail);
	assert_string_equal(buf_cstr(&name), "Shop.Node ×40");
	assert_non_null(strstr(buf_cstr(&detail), "held by "));
	assert_non_null(strstr(buf_cstr(&detail), " and "));
	assert_non_null(strstr(buf_cstr(&detail), " at once"));
	holders_free(&hs);
}

/* A node that only one of them has is that one's. */
static void what_one_holds_alone_stays_its_own(void **state UNUSED)
{
	struct built_edge edges[] = { { BUILT_ROOT(0), 1 }, { BUILT_ROOT(1), 3 }, { 1, 4 }, { 3, 4 }, { 1, 6 } };
	CLEANUP(buf_free) struct buf bytes = { 0 };
	build_graph(&bytes, 8, 2, edges, ARRAY_SIZE(edges));
	struct cursor in = cursor_make(bytes.data, bytes.len);
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	assert_ok(heapgraph_read(&in, &g));
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	struct holders hs;
	uint64_t bytes_of_all = 0, objects = 0;
	holders_find(g, 8, &hs);
	vec_each(h, &hs.v) {
		bytes_of_all += h->bytes;
		objects += h->objects;
		assert_int_equal(h->several, h->vertex == 4);
	}
	assert_int_equal(objects + hs.rest_objects, 4);
	assert_int_equal(bytes_of_all + hs.rest_bytes, 4 * BUILT_SIZE);
	holders_free(&hs);
}

/* Whatever the graph, rows and rest are all that is held: lists, rings, parts in parts. */
static void each_object_is_counted_once(void **state UNUSED)
{
	enum { GRAPHS = 300, MOST = 60 };
	uint64_t lot = 88172645463325252;
	for (unsigned round = 0; round < GRAPHS; round++) {
		struct built_edge edges[3 * MOST];
		uint32_t n = 2 + round % MOST, n_roots = 1 + round % 4;
		size_t n_edges = n_roots + n * (1 + round % 2);
		for (size_t i = 0; i < n_edges; i++) {
			lot ^= lot << 13;
			lot ^= lot >> 7;
			lot ^= lot << 17;
			uint32_t to = (uint32_t)(lot >> 32) % n, from = (uint32_t)lot % n;
			edges[i] = (struct built_edge){ i < n_roots ? BUILT_ROOT((uint32_t)i) : from, to };
		}
		CLEANUP(buf_free) struct buf bytes = { 0 };
		build_graph(&bytes, n, n_roots, edges, n_edges);
		struct cursor in = cursor_make(bytes.data, bytes.len);
		CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
		assert_ok(heapgraph_read(&in, &g));
		heap_mark_own(g, NULL);
		heapgraph_dominate(g);
		struct holders hs;
		holders_find(g, 1, &hs);
		uint64_t all_bytes = hs.rest_bytes, objects = hs.rest_objects;
		vec_each(h, &hs.v) {
			all_bytes += h->bytes;
			objects += h->objects;
			assert_true(h->main_type == GRAPH_NONE || h->main_bytes <= h->bytes);
		}
		assert_int_equal(all_bytes, g->reached_units * 8);
		assert_int_equal(objects, g->reached_objects);
		holders_free(&hs);
	}
}

/* ---- heaps of an application and its framework ---- */

static const char *const kinds[] = {
	"Shop.Host",
	"Shop.Orders",
	"Shop.Order",
	"Shop.Worker+<>c__DisplayClass3_0",
	"System.Threading.Timer",
	"System.Collections.Generic.List`1[[Shop.Order, Shop]]",
	"System.Collections.Generic.Dictionary`2+Entry[[System.Int32, System.Private.CoreLib],[Shop.Order, Shop]]",
	"Microsoft.Extensions.Hosting.Internal.Host",
};
static const char *const fields[] = { "_a", "_b", "_c", "_d" };
static const char *const roots[] = { "Shop.Program._host", "System.Threading.TimerQueue.s_queues", "Shop.Main()",
				     "strong handles", "finalizer queue" };
static const enum graph_root root_kinds[] = { GRAPH_STATIC, GRAPH_STATIC, GRAPH_STACK, GRAPH_HANDLE, GRAPH_FINALIZER };

static uint64_t next_lot(void)
{
	static uint64_t lot = 88172645463325252;
	lot ^= lot << 13;
	lot ^= lot >> 7;
	lot ^= lot << 17;
	return lot >> 16;
}

/* Objects mostly refer to a few that come after them: trees with some knots. */
static void write_objects(struct heapgraph_writer *w, uint32_t n, uint32_t reach)
{
	struct graph_type shapes[ARRAY_SIZE(kinds)];
	uint64_t step = 80;
	const char *slots[ARRAY_SIZE(fields)];
	memcpy(slots, fields, sizeof(fields));
	for (uint32_t k = 0; k < ARRAY_SIZE(kinds); k++)
		shapes[k] = (struct graph_type){ .name = kinds[k],
						 .module = k < 4 ? "Shop.dll" : "System.Private.CoreLib.dll",
						 .units = 4 + k % 7,
						 .n_slots = ARRAY_SIZE(fields),
						 .slots = slots };
	for (uint32_t i = 0; i < n; i++) {
		uint64_t refs[ARRAY_SIZE(fields)];
		uint32_t kind = (uint32_t)(next_lot() % ARRAY_SIZE(kinds));
		for (size_t k = 0; k < ARRAY_SIZE(refs); k++) {
			uint32_t to =
				next_lot() % 16 ? i + 1 + (uint32_t)(next_lot() % reach) : (uint32_t)(next_lot() % n);
			refs[k] = to < n && next_lot() % 3 ? BUILT_OBJECTS + to * step : 0;
		}
		heapgraph_write_object(w, BUILT_OBJECTS + i * step, shapes[kind].units * 8ull, kind, &shapes[kind]);
		heapgraph_write_refs(w, refs, ARRAY_SIZE(refs));
	}
	heapgraph_end_objects(w);
	size_t n_types;
	const uint32_t *order = heapgraph_type_order(w, &n_types);
	for (size_t i = 0; i < n_types; i++)
		heapgraph_write_type(w, &shapes[order[i]]);
}

static struct heapgraph *random_heap(uint32_t n, uint32_t reach)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct heapgraph_writer *w = heapgraph_writer_new(&bytes);
	struct heapgraph *g = NULL;
	heapgraph_write_region(w, &(struct graph_region){ .start = BUILT_OBJECTS, .end = BUILT_OBJECTS + n * 80ull });
	for (size_t r = 0; r < ARRAY_SIZE(roots); r++) {
		uint64_t held = BUILT_OBJECTS + next_lot() % n * 80;
		heapgraph_write_root(w, root_kinds[r], roots[r], "", &held, 1);
	}
	write_objects(w, n, reach);
	heapgraph_write_facts(w, &(struct graph_facts){ .objects = n, .n_heaps = 1 });
	heapgraph_writer_free(w);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(heapgraph_read(&in, &g));
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	return g;
}

/* Every object is one holder's, or of the rest; and what a holder is said to have is in what it has. */
static void sums_are_those_of_the_heap(void **state UNUSED)
{
	size_t several = 0, with_main = 0;
	for (uint32_t round = 0; round < 3000; round++) {
		CLEANUP(heapgraph_freep) struct heapgraph *g = random_heap(1 + round % 200, 1 + round % 9);
		struct holders hs;
		holders_find(g, 8ull << round % 8, &hs);
		uint64_t bytes = hs.rest_bytes, objects = hs.rest_objects;
		vec_each(h, &hs.v) {
			bytes += h->bytes;
			objects += h->objects;
			if (h->main_type == GRAPH_NONE)
				continue;
			with_main++;
			assert_true(h->main_bytes <= h->bytes);
			assert_true(h->main_objects <= h->objects);
		}
		several += hs.v.n > 3;
		assert_int_equal(bytes, g->reached_units * 8);
		assert_int_equal(objects, g->reached_objects);
		holders_free(&hs);
	}
	assert_true(several > 100 && with_main > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_two_hold_is_one_holder_that_names_both),
		cmocka_unit_test(what_one_holds_alone_stays_its_own),
		cmocka_unit_test(each_object_is_counted_once),
		cmocka_unit_test(sums_are_those_of_the_heap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
