#include "unit.h"

#include "build_graph.h"
#include "model/gcdump.h"

static const struct built_edge edges[] = {
	{ BUILT_ROOT(0), 0 }, { BUILT_ROOT(1), 3 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 }, { 3, 0 }, { 5, 4 },
};

static struct heapgraph *built(void)
{
	struct buf b = { 0 };
	struct heapgraph *g = NULL;
	build_graph(&b, 6, 2, edges, ARRAY_SIZE(edges));
	struct cursor in = cursor_make(b.data, b.len);
	assert_ok(heapgraph_read(&in, &g));
	heapgraph_dominate(g);
	buf_free(&b);
	return g;
}

static void written(const struct heapgraph *g, struct buf *out)
{
	char name[] = "Shop Ü 🛒";
	struct gcdump_facts facts = { .process = name, .pid = 4711, .when_unix_ns = 1763194329000000000 };
	gcdump_write(g, &facts, out);
	assert_false(out->overflow);
}

static struct heapgraph *read_back(const struct buf *file, struct gcdump_facts *facts)
{
	struct buf b = { 0 };
	struct heapgraph *g = NULL;
	assert_ok(gcdump_read(file->data, file->len, facts, &b));
	struct cursor in = cursor_make(b.data, b.len);
	assert_ok(heapgraph_read(&in, &g));
	assert_int_equal(cursor_left(&in), 0);
	heapgraph_dominate(g);
	buf_free(&b);
	return g;
}

static void test_there_and_back(void **state)
{
	(void)state;
	struct buf file = { 0 };
	struct gcdump_facts facts = { 0 };
	struct heapgraph *g = built();
	written(g, &file);
	assert_true(gcdump_is(file.data, file.len));
	struct heapgraph *back = read_back(&file, &facts);
	assert_string_equal(facts.process, "Shop Ü 🛒");
	assert_int_equal(facts.pid, 4711);
	assert_int_equal(facts.when_unix_ns, 1763194329000000000);
	assert_true(facts.count_multiplier == 1);
	/* Two of the six objects nobody holds. */
	assert_int_equal(g->reached_objects, 4);
	assert_int_equal(back->n, 4);
	assert_int_equal(back->reached_objects, 4);
	assert_int_equal(back->reached_units, g->reached_units);
	assert_int_equal(back->roots.n, g->roots.n);
	for (uint32_t i = 0; i < back->n; i++) {
		assert_string_equal(back->types.v[back->type[i]].name, g->types.v[g->type[i]].name);
		assert_int_equal(back->units[i], g->units[i]);
		assert_int_equal(back->retained[i], g->retained[i]);
		assert_int_equal(back->dominator[i] < back->n ? back->dominator[i] : back->n,
				 g->dominator[i] < g->n ? g->dominator[i] : back->n);
	}
	gcdump_facts_fini(&facts);
	heapgraph_free(back);
	heapgraph_free(g);
	buf_free(&file);
}

static void test_facts_alone(void **state)
{
	(void)state;
	struct buf file = { 0 };
	struct gcdump_facts facts = { 0 };
	struct heapgraph *g = built();
	written(g, &file);
	assert_ok(gcdump_read(file.data, file.len, &facts, NULL));
	assert_int_equal(facts.pid, 4711);
	gcdump_facts_fini(&facts);
	heapgraph_free(g);
	buf_free(&file);
}

/* Whatever is read must be a graph; most must be refused. */
static bool understood(const char *data, size_t len)
{
	struct buf b = { 0 };
	struct heapgraph *g = NULL;
	struct gcdump_facts facts = { 0 };
	struct err *err = gcdump_read(data, len, &facts, &b);
	bool ok = !err;
	if (ok) {
		struct cursor in = cursor_make(b.data, b.len);
		assert_ok(heapgraph_read(&in, &g));
		heapgraph_dominate(g);
		heapgraph_free(g);
	} else {
		assert_int_equal(b.len, 0);
	}
	err_free(err);
	gcdump_facts_fini(&facts);
	buf_free(&b);
	return ok;
}

static void test_cut_and_bent(void **state)
{
	(void)state;
	struct buf file = { 0 };
	struct heapgraph *g = built();
	size_t refused = 0;
	written(g, &file);
	for (size_t len = 0; len < file.len; len++) {
		char *part = len ? memcpy(mem_alloc(len), file.data, len) : mem_alloc(1);
		refused += !understood(part, len);
		(void)gcdump_is(part, len);
		mem_free(part);
	}
	/* What stands behind the graph is facts and a table, which nobody needs. */
	assert_true(refused > file.len / 2);
	for (size_t at = 0; at < file.len; at++)
		for (int bit = 0; bit < 8; bit++) {
			file.data[at] ^= (char)(1 << bit);
			(void)understood(file.data, file.len);
			file.data[at] ^= (char)(1 << bit);
		}
	assert_true(understood(file.data, file.len));
	heapgraph_free(g);
	buf_free(&file);
}

static void test_other_files(void **state)
{
	(void)state;
	assert_false(gcdump_is("\177ELF", 4));
	assert_false(understood("\024\0\0\0!FastSerialization.1", 24));
	assert_err(gcdump_read("", 0, NULL, &(struct buf){ 0 }), ERR_BAD_DATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_facts_alone),
		cmocka_unit_test(test_cut_and_bent),
		cmocka_unit_test(test_other_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
