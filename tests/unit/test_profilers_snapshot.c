/* A heap out of the runtime's bulk events: what it becomes, and that anything short of the whole is refused. Also:
 * which objects of one look are there again at a later one. */

#include "unit.h"

#include "base/str.h"
#include "eventpipe/clr.h"
#include "memory/heap_snapshot.h"
#include "memory/same_objects.h"

enum { TYPE = 15, ROOT = 16, LINK = 17, NODE = 18, EDGE = 19, STATIC = 38 };
enum { T_LIST = 0x1000, T_ORDER = 0x2000, T_ARRAY = 0x3000, T_STRING = 0x4000, T_CACHE = 0x5000 };
enum { CACHE = 0x10000, LIST = 0x10020, ITEMS = 0x10040, ORDER = 0x10100, TEXT = 0x10120, TABLE = 0x20000000 };

/* ---- events ---- */

struct told {
	struct buf payload[8];
	uint32_t id[8];
	size_t n;
};

static struct buf *event(struct told *t, uint32_t id)
{
	t->id[t->n] = id;
	return &t->payload[t->n++];
}

#define PUT(out, type, value) buf_add(out, &(type){ (type)(value) }, sizeof(type))

static void put_text(struct buf *out, const char *s)
{
	utf16_from_utf8(out, s);
	PUT(out, uint16_t, 0);
}

static void put_head(struct buf *out, uint32_t index, uint32_t n)
{
	PUT(out, uint32_t, index);
	PUT(out, uint32_t, n);
	PUT(out, uint16_t, 0);
}

static void put_type(struct buf *out, uint64_t id, const char *name, uint32_t flags, uint64_t param)
{
	PUT(out, uint64_t, id);
	PUT(out, uint64_t, 7);
	PUT(out, uint32_t, 0x2000001);
	PUT(out, uint32_t, flags);
	PUT(out, uint8_t, 0);
	put_text(out, name);
	PUT(out, uint32_t, param ? 1 : 0);
	if (param)
		PUT(out, uint64_t, param);
}

static void put_node(struct buf *out, uint64_t at, uint64_t size, uint64_t type, uint64_t edges)
{
	PUT(out, uint64_t, at);
	PUT(out, uint64_t, size);
	PUT(out, uint64_t, type);
	PUT(out, uint64_t, edges);
}

static void put_edges(struct buf *out, uint32_t index, const uint64_t *to, uint32_t n)
{
	put_head(out, index, n);
	for (uint32_t i = 0; i < n; i++) {
		PUT(out, uint64_t, to[i]);
		PUT(out, uint32_t, 0);
	}
}

static void put_root(struct buf *out, uint64_t object, uint8_t kind, uint32_t flags)
{
	PUT(out, uint64_t, object);
	PUT(out, uint8_t, kind);
	PUT(out, uint32_t, flags);
	PUT(out, uint64_t, 0x99);
}

/* Static Shop.Cache.All -> a list -> its array -> an order with a text; the field lives in a table that a handle
 * holds, as they do. Two events of nodes and of edges. */
static void tell(struct told *t)
{
	struct buf *out = event(t, TYPE);
	PUT(out, uint32_t, 5);
	PUT(out, uint16_t, 0);
	put_type(out, T_CACHE, "Shop.Cache", 0, 0);
	put_type(out, T_LIST, "System.Collections.Generic.List`1", 0, T_ORDER);
	put_type(out, T_ORDER, "Shop.Order", 0, 0);
	put_type(out, T_ARRAY, "System.Object[]", 8, 0);
	put_type(out, T_STRING, "System.String", 0, 0);
	out = event(t, NODE);
	put_head(out, 0, 3);
	put_node(out, TABLE, 40, T_ARRAY, 2); /* not in order of address */
	put_node(out, CACHE, 24, T_CACHE, 1);
	put_node(out, LIST, 32, T_LIST, 1);
	out = event(t, EDGE);
	put_edges(out, 0, (uint64_t[]){ LIST, TEXT, LIST }, 3);
	out = event(t, NODE);
	put_head(out, 1, 3);
	put_node(out, ITEMS, 100, T_ARRAY, 2); /* sizes are rounded up */
	put_node(out, ORDER, 32, T_ORDER, 1);
	put_node(out, TEXT, 30, T_STRING, 0);
	out = event(t, EDGE);
	put_edges(out, 1, (uint64_t[]){ ITEMS, ORDER, 0, TEXT }, 4);
	out = event(t, ROOT);
	put_head(out, 0, 3);
	put_root(out, TABLE, 2, 1);
	put_root(out, CACHE, 0, 0);
	put_root(out, ORDER, 2, 2); /* weak: holds nothing */
	out = event(t, STATIC);
	PUT(out, uint32_t, 1);
	PUT(out, uint64_t, 1);
	PUT(out, uint16_t, 0);
	PUT(out, uint64_t, 0x99);
	PUT(out, uint64_t, LIST);
	PUT(out, uint64_t, T_CACHE);
	PUT(out, uint32_t, 0);
	put_text(out, "All");
}

static void told_free(struct told *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->payload); i++)
		buf_free(&t->payload[i]);
}

static void feed(struct told_heap *s, const struct told *t, size_t i, size_t len)
{
	struct nettrace_meta meta = { .provider = CLR_PROVIDER, .event_id = t->id[i] };
	told_heap_event(s, &(struct nettrace_event){ .meta = &meta,
						     .payload = (const uint8_t *)t->payload[i].data,
						     .payload_size = len });
}

static struct err *snapshot_of(const struct told *t, struct buf *out)
{
	CLEANUP(told_heap_freep) struct told_heap *s = told_heap_new();
	for (size_t i = 0; i < t->n; i++)
		feed(s, t, i, t->payload[i].len);
	return told_heap_write(s, out);
}

/* ---- a heap ---- */

static void becomes_a_graph(void **state)
{
	(void)state;
	struct told t = { 0 };
	CLEANUP(buf_free) struct buf out = { 0 }, name = { 0 };
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	tell(&t);
	assert_ok(snapshot_of(&t, &out));
	struct cursor in = cursor_make(out.data, out.len);
	assert_ok(heapgraph_read(&in, &g));
	assert_int_equal(g->n, 6);
	assert_int_equal(g->facts.objects, 6);
	assert_int_equal(g->facts.bytes, 40 + 24 + 32 + 104 + 32 + 32);
	assert_int_equal(g->regions.n, 2); /* the table is far away */
	assert_int_equal(g->roots.n, 3);
	heapgraph_dominate(g);
	/* The table does not compete with the field that lives in it, but with nothing else either. */
	uint32_t list = heapgraph_at(g, LIST), text = heapgraph_at(g, TEXT), order = heapgraph_at(g, ORDER);
	heap_type_name(g, g->type[list], &name);
	assert_string_equal(buf_cstr(&name), "System.Collections.Generic.List<Order>");
	assert_int_equal(g->types.v[g->type[text]].kind, GRAPH_STRING);
	assert_int_equal(g->dominator[text], heapgraph_top(g)); /* the table and the order hold it */
	assert_true(heapgraph_reached(g, order));
	buf_clear(&name);
	uint32_t root = g->dominator[list];
	/* The stack holds the cache, which refers to the list as the field does; but the field is there to stay. */
	assert_int_equal(root, g->n);
	heap_root_name(g, 0, true, &name);
	assert_string_equal(buf_cstr(&name), "static All");
	buf_clear(&name);
	heap_root_name(g, 1, true, &name);
	assert_string_equal(buf_cstr(&name), "stacks of threads");
	told_free(&t);
}

static void nothing_may_be_missing(void **state)
{
	(void)state;
	struct told t = { 0 };
	CLEANUP(buf_free) struct buf out = { 0 };
	tell(&t);
	/* Any event of nodes or edges that does not come. */
	for (size_t skip = 0; skip < t.n; skip++) {
		if (t.id[skip] != NODE && t.id[skip] != EDGE)
			continue;
		CLEANUP(told_heap_freep) struct told_heap *s = told_heap_new();
		for (size_t i = 0; i < t.n; i++)
			if (i != skip)
				feed(s, &t, i, t.payload[i].len);
		assert_err(told_heap_write(s, &out), ERR_BAD_DATA);
		assert_int_equal(out.len, 0);
	}
	/* Any that is cut short. */
	for (size_t cut = 0; cut < t.n; cut++)
		for (size_t len = 0; len < t.payload[cut].len; len++) {
			CLEANUP(told_heap_freep) struct told_heap *s = told_heap_new();
			for (size_t i = 0; i < t.n; i++)
				feed(s, &t, i, i == cut ? len : t.payload[i].len);
			assert_err(told_heap_write(s, &out), ERR_BAD_DATA);
		}
	CLEANUP(told_heap_freep) struct told_heap *empty = told_heap_new();
	assert_err(told_heap_write(empty, &out), ERR_BAD_DATA);
	told_free(&t);
}

/* Whatever is turned around in it: an error, or a graph that can be read. */
static void survives_every_flip(void **state)
{
	(void)state;
	struct told t = { 0 };
	tell(&t);
	for (size_t k = 0; k < t.n; k++)
		for (size_t at = 0; at < t.payload[k].len; at++) {
			CLEANUP(buf_free) struct buf out = { 0 };
			CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
			t.payload[k].data[at] ^= 0x41;
			struct err *err = snapshot_of(&t, &out);
			struct cursor in = cursor_make(out.data, out.len);
			if (!err)
				err = heapgraph_read(&in, &g);
			if (!err)
				heapgraph_dominate(g);
			err_free(err);
			t.payload[k].data[at] ^= 0x41;
		}
	told_free(&t);
}

/* ---- the same objects ---- */

static struct heapgraph *heap_of(const uint64_t *old, size_t n_old, const uint64_t *young, size_t n_young,
				 uint64_t anchor)
{
	static const struct graph_type type = { .name = "Shop.Order", .units = 4 };
	CLEANUP(buf_free) struct buf out = { 0 };
	struct heapgraph *g = NULL;
	CLEANUP(heapgraph_writer_freep) struct heapgraph_writer *w = heapgraph_writer_new(&out);
	VEC(uint64_t) all = { 0 };
	heapgraph_write_region(w, &(struct graph_region){ .start = 0x1000, .end = 0x2000, .generation = GRAPH_GEN2 });
	heapgraph_write_region(w, &(struct graph_region){ .start = 0x3000, .end = 0x4000, .generation = GRAPH_GEN0 });
	for (size_t i = 0; i < n_old; i++)
		vec_push(&all, old[i]);
	for (size_t i = 0; i < n_young; i++)
		vec_push(&all, young[i]);
	heapgraph_write_root(w, GRAPH_STATIC, "Shop.Cache.All", "", &anchor, 1);
	heapgraph_write_root(w, GRAPH_HANDLE, "strong handles", "", all.v, all.n);
	vec_each(object, &all)
		heapgraph_write_object(w, *object, 32, 0, &type);
	heapgraph_end_objects(w);
	heapgraph_write_type(w, &type);
	heapgraph_write_facts(w, &(struct graph_facts){ .objects = all.n, .n_heaps = 1 });
	struct cursor in = cursor_make(out.data, out.len);
	assert_ok(heapgraph_read(&in, &g));
	heapgraph_dominate(g);
	vec_free(&all);
	return g;
}

static void knows_objects_again(void **state)
{
	(void)state;
	const uint32_t ids[] = { 0 };
	struct same_objects same = { 0 };
	struct same_count count = { 0 };
	struct heapgraph *before =
		heap_of((uint64_t[]){ 0x1000, 0x1020, 0x1040 }, 3, (uint64_t[]){ 0x3000, 0x3020 }, 2, 0x1000);
	struct heapgraph *after =
		heap_of((uint64_t[]){ 0x1000, 0x1040, 0x1060 }, 3, (uint64_t[]){ 0x3020, 0x3040 }, 2, 0x1000);
	same_objects_keep(&same, before, ids);
	assert_true(same_objects_find(&same, after, ids, &count));
	assert_int_equal(count.stayed, 3); /* 1000, 1040, 3020 */
	assert_int_equal(count.unsure, 1); /* 3000 was young */
	heapgraph_free(after);
	/* The field's object is elsewhere: all of them may be. */
	after = heap_of((uint64_t[]){ 0x1000, 0x1040 }, 2, NULL, 0, 0x1040);
	assert_false(same_objects_find(&same, after, ids, &count));
	heapgraph_free(after);
	heapgraph_free(before);
	same_objects_free(&same);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(becomes_a_graph),
		cmocka_unit_test(nothing_may_be_missing),
		cmocka_unit_test(survives_every_flip),
		cmocka_unit_test(knows_objects_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
