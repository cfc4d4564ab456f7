/* What the profilers of memory keep behind a heap's graph, whole and damaged; and how values are shown. */

#include "unit.h"

#include "build_graph.h"
#include "eventpipe/whose.h"
#include "memory/retention_sites.h"
#include "memory/collection_usage.h"
#include "memory/string_values.h"

static const struct built_edge edges[] = {
	{ BUILT_ROOT(0), 0 }, { 0, 1 }, { 0, 3 }, { 0, 5 }, { 2, 4 },
};

/* Six objects: even ones of a fixed type, odd ones arrays; 2 and 4 nobody holds. */
static struct heapgraph *built(void)
{
	struct buf b = { 0 };
	struct heapgraph *g = NULL;
	build_graph(&b, 6, 1, edges, ARRAY_SIZE(edges));
	struct cursor in = cursor_make(b.data, b.len);
	assert_ok(heapgraph_read(&in, &g));
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	buf_free(&b);
	return g;
}

/* Every byte changed in every bit, every length: refused or harmless. */
static void bend(const struct buf *whole, bool (*take)(const char *data, size_t len))
{
	char *copy = mem_alloc(whole->len);
	memcpy(copy, whole->data, whole->len);
	assert_true(take(copy, whole->len));
	for (size_t at = 0; at < whole->len; at++)
		for (int bit = 0; bit < 8; bit++) {
			copy[at] ^= (char)(1 << bit);
			(void)take(copy, whole->len);
			copy[at] ^= (char)(1 << bit);
		}
	mem_free(copy);
	for (size_t len = 0; len < whole->len; len++) {
		char *part = memcpy(mem_alloc(len + 1), whole->data, len);
		assert_false(take(part, len));
		mem_free(part);
	}
}

/* ---- strings ---- */

static bool take_strings(const char *data, size_t len)
{
	struct heap_look look = { .graph = built() };
	struct string_values s = { 0 };
	struct cursor in = cursor_make(data, len);
	look.graph->types.v[look.graph->type[1]].kind = GRAPH_STRING;
	string_values_watch(&s, &look, NULL);
	struct err *err = look.take_more(look.user, &in);
	if (!err)
		err = string_values_count(&s, look.graph);
	bool ok = !err;
	err_free(err);
	string_values_fini(&s);
	heap_look_fini(&look);
	return ok;
}

static void test_strings_kept(void **state)
{
	(void)state;
	/* Two values, one text of 4 units; objects 1 and 5 have the first, 3 is alone. */
	static const char kept[] = "STRS\x02\x01\x04\x04"
				   "abcd\x00\x03\x01\x00\x01";
	struct buf whole = { 0 };
	struct heap_look look = { .graph = built() };
	struct string_values s = { 0 };
	buf_add(&whole, kept, sizeof(kept) - 1);
	struct cursor in = cursor_make(whole.data, whole.len);
	look.graph->types.v[look.graph->type[1]].kind = GRAPH_STRING;
	string_values_watch(&s, &look, NULL);
	assert_ok(look.take_more(look.user, &in));
	assert_ok(string_values_count(&s, look.graph));
	assert_int_equal(s.values.n, 2);
	assert_int_equal(s.values.v[0].copies, 2);
	assert_int_equal(string_wasted(&s.values.v[0]), BUILT_SIZE);
	assert_int_equal(string_wasted(&s.values.v[1]), 0);
	string_values_fini(&s);
	heap_look_fini(&look);
	bend(&whole, take_strings);
	buf_free(&whole);
}

static void shown(const char *text, uint32_t length, size_t max, const char *plain)
{
	struct string_value v = { .text = text, .text_len = (uint32_t)strlen(text), .length = length };
	struct buf out = { 0 };
	string_show(&v, max, &out);
	assert_string_equal(buf_cstr(&out), plain);
	buf_free(&out);
}

static void test_values_are_cut(void **state)
{
	(void)state;
	shown("Max M. 1978", 11, 20, "Max M. 1978");
	shown("naïve 日本 🛒", 11, 20, "naïve 日本 🛒");
	shown("abcdef", 6, 3, "abc…");
	shown("abcdef", 5000, 6, "abcdef…");
	shown("", 0, 3, "");
}

/* ---- room ---- */

static bool take_room(const char *data, size_t len)
{
	struct heap_look look = { .graph = built() };
	struct collection_usage room = { 0 };
	struct cursor in = cursor_make(data, len);
	collection_usage_watch(&room, &look);
	struct err *err = look.take_more(look.user, &in);
	bool ok = !err;
	err_free(err);
	collection_usage_fini(&room);
	heap_look_fini(&look);
	return ok;
}

static void test_room_kept(void **state)
{
	(void)state;
	/* Type of object 0: the first collection; of object 1: an array without references. Numbers of all six. */
	static const char kept[] = "COLL\x02\x00\x04\x20\x00\x01\x01\x18\x01\x00\x06\x07\x08\x09\x0A\x0B\x0C";
	struct buf whole = { 0 };
	struct heap_look look = { .graph = built() };
	struct collection_usage room = { 0 };
	buf_add(&whole, kept, sizeof(kept) - 1);
	struct cursor in = cursor_make(whole.data, whole.len);
	collection_usage_watch(&room, &look);
	assert_ok(look.take_more(look.user, &in));
	assert_int_equal(room.types[look.graph->type[0]].role, USAGE_COLLECTION);
	assert_int_equal(room.types[look.graph->type[1]].component, 1);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(room.numbers[i], 7 + i);
	collection_usage_fini(&room);
	heap_look_fini(&look);
	bend(&whole, take_room);
	buf_free(&whole);
}

/* ---- whose it is ---- */

static void test_each_program_has_its_own_code(void **state)
{
	(void)state;
	struct heapgraph *g = built();
	CLEANUP(whose_names_freep) struct whose_names *names = whose_names_new();
	whose_names_add(names, "Shop", WHOSE_PACKAGE);
	const struct graph_type *node = &g->types.v[g->type[0]], *array = &g->types.v[g->type[1]];
	assert_true(node->own && !array->own && g->roots.v[0].own);
	heap_mark_own(g, names);
	assert_false(node->own || array->own || g->roots.v[0].own);
	heap_mark_own(g, NULL);
	assert_true(node->own && !array->own && g->roots.v[0].own);
	heapgraph_free(g);
}

/* ---- places ---- */

static void test_places_are_shared(void **state)
{
	(void)state;
	struct heapgraph *g = built();
	struct retention_sites *p = retention_sites_new(g);
	struct buf name = { 0 };
	uint32_t first = retention_sites_of(p, 1);
	assert_int_equal(retention_sites_of(p, 1), first);
	assert_true(retention_sites_of(p, 0) != first);
	assert_true(retention_sites_count(p) >= 2);
	retention_site_name(p, first, &name);
	assert_true(name.len > 0);
	buf_clear(&name);
	retention_site_path(p, 1, &name);
	assert_non_null(strstr(buf_cstr(&name), " → "));
	buf_free(&name);
	retention_sites_free(p);
	heapgraph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings_kept),	  cmocka_unit_test(test_values_are_cut),
		cmocka_unit_test(test_room_kept),	  cmocka_unit_test(test_each_program_has_its_own_code),
		cmocka_unit_test(test_places_are_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
