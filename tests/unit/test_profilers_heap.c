/* The profilers of the heap over recordings of small heaps: who is named as holder, what is counted, what is refused.
 */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "memory/heap_look.h"
#include "memory/holders.h"

/* ---- heaps ---- */

enum { ORDER, BYTES, LIST, FRAMEWORK, SERVICE, TEXT, APP, LINK, N_TYPES };

struct built {
	struct buf out;
	struct heapgraph_writer *w;
	uint64_t next;
	struct graph_facts facts;
};
#define START 0x10000u
#define UNITS_ORDER 4

static const char *order_slots[] = { "<Payload>k__BackingField", "_next" };
static const char *framework_slots[] = { "_items", "_other" };
static const struct graph_type types[N_TYPES] = {
	[ORDER] = { .name = "Shop.Order", .units = UNITS_ORDER, .n_slots = 2, .slots = order_slots },
	[BYTES] = { .name = "System.Byte[]", .kind = GRAPH_ARRAY, .variable = true },
	[LIST] = { .name = "Shop.Order[]", .kind = GRAPH_ARRAY, .variable = true },
	[FRAMEWORK] = { .name = "System.Collections.Generic.List`1[[Shop.Order, Shop]]",
			.units = 4,
			.n_slots = 2,
			.slots = framework_slots },
	[SERVICE] = { .name = "Shop.Cache", .units = 4, .n_slots = 2, .slots = framework_slots },
	[TEXT] = { .name = "System.String", .kind = GRAPH_STRING, .variable = true },
	[APP] = { .name = "Shop.App", .units = 4, .n_slots = 2, .slots = framework_slots },
	[LINK] = { .name = "System.Threading.TimerLink", .units = 4, .n_slots = 2, .slots = order_slots },
};

static void begin(struct built *b)
{
	*b = (struct built){ .next = START, .facts = b->facts };
	buf_add(&b->out, "DRLOOK\0", 8);
	buf_add(&b->out, &(uint32_t){ HEAP_LOOK_VERSION }, 4);
	b->w = heapgraph_writer_new(&b->out);
	heapgraph_write_region(b->w,
			       &(struct graph_region){ .start = START, .end = START + (64 << 20), .generation = 2 });
}

static uint64_t object(struct built *b, int type, uint64_t size, const uint64_t *refs, size_t n)
{
	uint64_t at = b->next;
	heapgraph_write_object(b->w, at, size, (uint32_t)type, &types[type]);
	heapgraph_write_refs(b->w, refs, n);
	b->next += size;
	return at;
}

static void end(struct built *b)
{
	size_t n;
	heapgraph_end_objects(b->w);
	const uint32_t *order = heapgraph_type_order(b->w, &n);
	for (size_t i = 0; i < n; i++)
		heapgraph_write_type(b->w, &types[order[i]]);
	b->facts.objects = b->facts.n_heaps = 1;
	b->facts.bytes = b->next - START;
	heapgraph_write_facts(b->w, &b->facts);
	heapgraph_writer_free(b->w);
	buf_add(&b->out, &(uint32_t){ 0 }, 4);
}

static uint64_t address_of_orders(uint64_t first, unsigned i)
{
	return first + i * (uint64_t)(UNITS_ORDER * 8 + 1024);
}

/* A list object, its array, and n orders with a kilobyte each; the list is at the address that is returned. */
static uint64_t list_of_orders(struct built *b, unsigned n)
{
	uint64_t list = b->next, array = list + 32, first = array + 24 + 8ull * n;
	uint64_t *refs = mem_array(n + 1, sizeof(*refs));
	for (unsigned i = 0; i < n; i++)
		refs[i] = address_of_orders(first, i);
	object(b, FRAMEWORK, 32, &array, 1);
	object(b, LIST, 24 + 8ull * n, refs, n);
	for (unsigned i = 0; i < n; i++) {
		uint64_t payload = b->next + UNITS_ORDER * 8;
		object(b, ORDER, UNITS_ORDER * 8, &payload, 1);
		object(b, BYTES, 1024, NULL, 0);
	}
	mem_free(refs);
	return list;
}

/* What a static field of the application, the framework's own (with a service of the application behind it) and a stack
 * hold; orders as asked for. */
static void shop(struct built *b, unsigned cached, unsigned served)
{
	begin(b);
	uint64_t list = START, cache_bytes = 32 + 24 + 8ull * cached + cached * (UNITS_ORDER * 8 + 1024ull);
	uint64_t plumbing = list + cache_bytes, service = plumbing + 32;
	heapgraph_write_root(b->w, GRAPH_STATIC, "Shop.Registry`1[[Shop.Order, Shop]].<All>k__BackingField", "", &list,
			     1);
	heapgraph_write_root(b->w, GRAPH_STATIC, "System.Provider.s_services", "", &plumbing, 1);
	heapgraph_write_root(b->w, GRAPH_STACK, "Shop.Main(System.String[])", "main", &plumbing, 0);
	list_of_orders(b, cached);
	object(b, FRAMEWORK, 32, &service, 1);
	uint64_t inner = service + 32;
	object(b, SERVICE, 32, &inner, 1);
	list_of_orders(b, served);
	object(b, BYTES, 64 << 10, NULL, 0); /* garbage */
	end(b);
}

static void keep(struct fixture *f, const char *name, struct built *b)
{
	struct recording_part *part;
	assert_ok(recording_part_new(f->recording, name, "look", &part));
	recording_part_write(part, b->out.data, b->out.len);
	recording_part_close(part, true);
	buf_free(&b->out);
}

static void keep_at(struct fixture *f, const char *name, uint64_t at_ns)
{
	char key[64];
	snprintf(key, sizeof(key), "look-%s", name);
	json_t *fact = json_pack("{s:I, s:I}", "at_ns", (json_int_t)at_ns, "pause_ns", (json_int_t)3 * MS);
	recording_set_fact(f->recording, key, fact);
	json_decref(fact);
}

static const json_t *row(const json_t *json, const char *title, const char *name)
{
	size_t i;
	const json_t *one;
	json_array_foreach(fixture_rows(json, title), i,
			   one) if (str_eq(json_string_value(json_array_get(json_object_get(one, "cells"), 0)),
					   name)) return json_object_get(one, "cells");
	fail_msg("no row %s in %s", name, title);
	return NULL;
}

static uint64_t number(const json_t *cells, size_t column)
{
	return (uint64_t)json_number_value(json_array_get(cells, column));
}

/* ---- gc-survivors, heap-stats ---- */

static void survivors(void **state)
{
	(void)state;
	struct fixture f;
	struct built b = { 0 };
	fixture_begin(&f);
	fixture_window(f.recording, 0);
	shop(&b, 3000, 1000);
	keep(&f, "heap", &b);
	f.way = WAY_IMAGE;
	fixture_examine(&f, "gc-survivors");
	assert_string_equal(report_finding(f.report), "one-holder");
	json_t *json = fixture_json(f.report);
	const json_t *mine = row(json, "Holders", "Shop.Registry<Order>.All");
	assert_string_equal(json_string_value(json_array_get(mine, 1)), "3,000 Order");
	assert_int_equal(number(mine, 3), 32 + 24 + 8 * 3000 + 3000 * (32 + 1024));
	/* The framework's root is folded away: the service behind it is the holder. */
	const json_t *service = row(json, "Holders", "Shop.Cache._items");
	assert_string_equal(json_string_value(json_array_get(service, 1)), "1,000 Order");
	assert_int_equal(number(service, 2), 2003);
	assert_true(fixture_says(f.report, "Shop.Registry<Order>.All (static List<Order>) keeps 3,000 Order alive"));
	assert_true(fixture_says(f.report, ".Payload → Byte[]"));
	json_decref(json);
	fixture_end(&f);
}

/* A static field has the program, the program a service, the service collects: the service is named, not the program.
 */
static void parts_of_a_program(void **state)
{
	(void)state;
	struct fixture f;
	struct built b = { 0 };
	fixture_begin(&f);
	fixture_window(f.recording, 0);
	begin(&b);
	uint64_t app = START, services = app + 32;
	heapgraph_write_root(b.w, GRAPH_STATIC, "Shop.Program.App", "", &app, 1);
	object(&b, APP, 32, &services, 1);
	uint64_t service = b.next + 32, list = service + 32;
	object(&b, FRAMEWORK, 32, &service, 1);
	object(&b, SERVICE, 32, &list, 1);
	assert_int_equal(list_of_orders(&b, 3000), list);
	end(&b);
	keep(&f, "heap", &b);
	f.way = WAY_IMAGE;
	fixture_examine(&f, "gc-survivors");
	assert_true(
		fixture_says(f.report, "Shop.Cache._items (in static Shop.Program.App › App) keeps 3,000 Order alive"));
	fixture_end(&f);
}

/* Each link of a framework's list holds the next one: the first has the name. */
static void list_of_links(void **state)
{
	(void)state;
	enum { LINKS = 3000, STEP = 32 + 32 + 1024 };
	struct fixture f;
	struct built b = { 0 };
	fixture_begin(&f);
	fixture_window(f.recording, 0);
	begin(&b);
	heapgraph_write_root(b.w, GRAPH_STATIC, "System.Threading.Timers.s_all", "", &(uint64_t){ START }, 1);
	for (unsigned i = 0; i < LINKS; i++) {
		uint64_t at = b.next, refs[] = { at + 32, i + 1 < LINKS ? at + STEP : 0 }, payload = at + 64;
		object(&b, LINK, 32, refs, 2);
		object(&b, ORDER, 32, &payload, 1);
		object(&b, BYTES, 1024, NULL, 0);
	}
	end(&b);
	keep(&f, "heap", &b);
	f.way = WAY_IMAGE;
	fixture_examine(&f, "gc-survivors");
	json_t *json = fixture_json(f.report);
	assert_string_equal(report_finding(f.report), "one-holder");
	assert_true(fixture_says(f.report, "keeps 3,000 Order alive"));
	assert_true(fixture_says(f.report, "System.Threading.Timers.s_all"));
	json_decref(json);
	fixture_end(&f);
}

static void only_some_types(void **state)
{
	(void)state;
	struct fixture f;
	struct built b = { 0 };
	static const struct {
		const char *profiler, *text, *finding, *says;
	} cases[] = {
		{ "gc-survivors", "BYTE[]", "one-holder", "keeps 300 Order alive: 300 KB" },
		{ "gc-survivors", "Nothing.Like.It", "no-such-type", "in its name" },
		{ "heap-stats", "BYTE[]", "asked", "464 KB in 401 objects" },
		{ "heap-stats", "Nothing.Like.It", "no-such-type", "in its name" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fixture_begin(&f);
		fixture_window(f.recording, 0);
		shop(&b, 300, 100);
		keep(&f, "heap", &b);
		f.way = WAY_IMAGE;
		f.param_key = "type";
		f.param_value = cases[i].text;
		fixture_examine(&f, cases[i].profiler);
		assert_string_equal(report_finding(f.report), cases[i].finding);
		assert_true(fixture_says(f.report, cases[i].says));
		fixture_end(&f);
	}
}

static void statistics(void **state)
{
	(void)state;
	struct fixture f;
	struct built b = { 0 };
	fixture_begin(&f);
	fixture_window(f.recording, 0);
	shop(&b, 300, 100);
	keep(&f, "heap", &b);
	f.way = WAY_IMAGE;
	fixture_examine(&f, "heap-stats");
	json_t *json = fixture_json(f.report);
	const json_t *orders = row(json, "Types", "Shop.Order");
	assert_int_equal(number(orders, 1), 400);
	assert_int_equal(number(orders, 2), 400 * 32);
	assert_int_equal(number(orders, 3), 400 * (32 + 1024));
	/* The list retains what its orders do, and the service's list is inside of the service. */
	assert_int_equal(number(row(json, "Types", "Shop.Cache"), 3), 32 + 32 + 24 + 8 * 100 + 100 * (32 + 1024));
	assert_int_equal((uint64_t)fixture_figure(f.report, "Garbage"), 64 << 10);
	json_decref(json);
	fixture_end(&f);
}

/* ---- memory-leaks ---- */

static void leaks_of(const unsigned *cached, const unsigned *served, size_t n, struct fixture *f)
{
	fixture_begin(f);
	fixture_window(f->recording, n * 10000 * MS);
	for (size_t i = 0; i < n; i++) {
		struct built b = { 0 };
		char name[16];
		snprintf(name, sizeof(name), "heap-%zu", i + 1);
		shop(&b, cached[i], served[i]);
		keep(f, name, &b);
		keep_at(f, name, WINDOW_START + i * 10000 * MS);
	}
	f->way = WAY_IMAGE;
	fixture_examine(f, "memory-leaks");
}

static void growth(void **state)
{
	(void)state;
	struct fixture f;
	/* The cache fills and stops; the registry goes on. */
	leaks_of((unsigned[]){ 1000, 1200, 1400, 1600 }, (unsigned[]){ 100, 900, 900, 901 }, 4, &f);
	assert_string_equal(report_finding(f.report), "leak");
	assert_true(fixture_says(f.report, "Shop.Registry<Order>.All (static List<Order>) keeps growing"));
	assert_true(fixture_says(f.report, "+600 Order in 30 s"));
	json_t *json = fixture_json(f.report);
	assert_string_equal(
		json_string_value(json_array_get(row(json, "Holders that grew", "Shop.Registry<Order>.All"), 2)),
		"yes");
	assert_string_equal(json_string_value(json_array_get(row(json, "Holders that grew", "Shop.Cache._items"), 2)),
			    "no");
	json_decref(json);
	fixture_end(&f);
	/* Up and down is no leak, and neither is a little. */
	leaks_of((unsigned[]){ 1000, 2000, 1000, 3000 }, (unsigned[]){ 100, 101, 102, 103 }, 4, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	leaks_of((unsigned[]){ 1000, 2000 }, (unsigned[]){ 100, 100 }, 2, &f);
	assert_string_equal(report_finding(f.report), "grew");
	fixture_end(&f);
	leaks_of((unsigned[]){ 1000 }, (unsigned[]){ 100 }, 1, &f);
	assert_string_equal(report_finding(f.report), "one-look");
	fixture_end(&f);
}

/* Neither is a leak by three looks, and neither is "no problem". */
static void what_changes_much_is_told(void **state)
{
	(void)state;
	struct fixture f;
	leaks_of((unsigned[]){ 1000, 40000, 2000, 30000 }, (unsigned[]){ 100, 100, 100, 100 }, 4, &f);
	assert_string_equal(report_finding(f.report), "comes-and-goes");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	assert_true(fixture_says(f.report, "what is alive comes and goes, between 1.1 MB and"));
	fixture_end(&f);
	leaks_of((unsigned[]){ 10000, 10000, 40000, 40000 }, (unsigned[]){ 100, 100, 100, 100 }, 4, &f);
	assert_string_equal(report_finding(f.report), "grew-in-steps");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	assert_true(fixture_says(f.report, "but not at every look ("));
	assert_true(fixture_says(f.report, "Most of it is kept by Shop.Registry<Order>.All"));
	fixture_end(&f);
}

struct memory {
	uint64_t rss_mb, native_mb;
};

/* The same heap at each look, and memory beside it. */
static void memory_of(const struct memory *at, size_t n, uint64_t age_ns, uint64_t lost, struct fixture *f)
{
	fixture_begin(f);
	fixture_window(f->recording, n * 10000 * MS);
	for (size_t i = 0; i < n; i++) {
		struct built b = { 0 };
		char name[16];
		snprintf(name, sizeof(name), "heap-%zu", i + 1);
		b.facts = (struct graph_facts){ .rss = at[i].rss_mb << 20, .lost_bytes = lost };
		b.facts.area[GRAPH_AREA_NATIVE] = at[i].native_mb << 20;
		shop(&b, 1000, 100);
		keep(f, name, &b);
		keep_at(f, name, WINDOW_START + i * 10000 * MS);
	}
	json_t *age = json_integer((json_int_t)age_ns);
	recording_set_fact(f->recording, "process_age_ns", age);
	json_decref(age);
	f->way = WAY_IMAGE;
	fixture_examine(f, "memory-leaks");
}

static void memory_beside_the_heap(void **state)
{
	(void)state;
	struct fixture f;
	const uint64_t hour_ns = 3600 * 1000 * (uint64_t)MS, second_ns = 1000 * (uint64_t)MS;
	const struct memory grows[] = { { 200, 100 }, { 220, 120 }, { 240, 140 } };
	memory_of(grows, 3, hour_ns, 0, &f);
	assert_string_equal(report_finding(f.report), "grows-elsewhere");
	fixture_end(&f);
	/* How old it is was not recorded. */
	memory_of(grows, 3, 0, 0, &f);
	assert_string_equal(report_finding(f.report), "grows-elsewhere");
	fixture_end(&f);
	/* It has just started. */
	memory_of(grows, 3, 10 * second_ns, 0, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* What one kind takes another gives. */
	memory_of((const struct memory[]){ { 200, 100 }, { 201, 120 }, { 199, 140 } }, 3, hour_ns, 0, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* Nothing grows, but not all was read. */
	memory_of((const struct memory[]){ { 200, 100 }, { 200, 100 }, { 200, 100 } }, 3, hour_ns, 10 << 20, &f);
	assert_string_equal(report_finding(f.report), "not-all-read");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	assert_true(fixture_says(f.report, "10 MB of it could not be read at each look"));
	fixture_end(&f);
}

/* Orders that are dead: some wait for their finalizers, the others for a collection. */
static void dying(struct built *b, unsigned waiting, unsigned dead)
{
	uint64_t *queue = mem_array(waiting + 1, sizeof(*queue));
	for (unsigned i = 0; i < waiting; i++)
		queue[i] = address_of_orders(START, i);
	begin(b);
	heapgraph_write_root(b->w, GRAPH_FINALIZER, "finalizer queue", "", queue, waiting);
	for (unsigned i = 0; i < waiting + dead; i++) {
		uint64_t payload = b->next + UNITS_ORDER * 8;
		object(b, ORDER, UNITS_ORDER * 8, &payload, 1);
		object(b, BYTES, 1024, NULL, 0);
	}
	end(b);
	mem_free(queue);
}

static void dying_of(const unsigned *waiting, const unsigned *dead, struct fixture *f)
{
	fixture_begin(f);
	fixture_window(f->recording, 30000 * MS);
	for (size_t i = 0; i < 3; i++) {
		struct built b = { 0 };
		char name[16];
		snprintf(name, sizeof(name), "heap-%zu", i + 1);
		dying(&b, waiting[i], dead[i]);
		keep(f, name, &b);
		keep_at(f, name, WINDOW_START + i * 10000 * MS);
	}
	f->way = WAY_IMAGE;
	fixture_examine(f, "memory-leaks");
}

static void garbage_is_no_leak(void **state)
{
	(void)state;
	struct fixture f;
	dying_of((unsigned[]){ 100, 1000, 2000 }, (unsigned[]){ 100, 0, 100 }, &f);
	assert_string_equal(report_finding(f.report), "finalizers-behind");
	assert_true(fixture_says(f.report, "finalizer queue keeps growing"));
	assert_true(fixture_says(f.report, "merged-call-stacks"));
	fixture_end(&f);
	/* What nobody holds at all grows until it is collected: said, and no alarm. */
	dying_of((unsigned[]){ 10, 9, 10 }, (unsigned[]){ 100, 1500, 3000 }, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_false(fixture_says(f.report, "Garbage has grown"));
	fixture_end(&f);
	dying_of((unsigned[]){ 10, 9, 10 }, (unsigned[]){ 100, 15000, 30000 }, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(
		fixture_says(f.report, "Garbage has grown from 103 KB to 30.2 MB: no collection has taken it yet."));
	fixture_end(&f);
	dying_of((unsigned[]){ 10, 9, 10 }, (unsigned[]){ 100, 3000, 1500 }, &f);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_false(fixture_says(f.report, "Garbage has grown"));
	fixture_end(&f);
}

/* ---- where the memory is ---- */

static void areas(void **state)
{
	(void)state;
	static const char smaps[] =
		"00400000-00500000 r-xp 00000000 08:01 12 /app/shop\nSize: 1024 kB\nRss:   100 kB\nPss: 9 kB\n"
		"7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nRss:   200 kB\n"
		"7f0000800000-7f0000c00000 rw-p 00000000 00:00 0 \nRss:   50 kB\n"
		"7f1000000000-7f1000100000 rw-s 00000000 00:01 7 /memfd:doublemapper (deleted)\nRss: 300 kB\n"
		"7f2000000000-7f2000100000 rw-p 00000000 00:00 0 [heap]\nRss:   400 kB\n"
		"7f3000000000-7f3000100000 rw-p 00000000 00:00 0 \nRss:   500 kB\n"
		"7f4000000000-7f4000100000 r-xp 00000000 00:00 0 \nRss:   600 kB\n"
		"7f5000000000-7f5000100000 rw-s 00000000 00:01 9 /dev/shm/x y\nRss:   700 kB\n"
		"7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0 [stack]\nRss:   800 kB\n"
		"garbage\nRss: 900 kB\nffzz-\n";
	struct heap_region regions[] = { { .start = 0x7f0000000028, .end = 0x7f0000001000 },
					 { .start = 0x7f0001000028, .end = 0x7f0001001000 } };
	struct heap_outline outline = { .uses_regions = true };
	outline.regions.v = regions;
	outline.regions.n = 2;
	struct graph_facts facts = { 0 };
	struct memory_areas seen = { 0 };
	memory_areas(smaps, &outline, (uint64_t[]){ 0x7f3000000800 }, 1, &seen);
	heap_areas(&seen, &facts);
	vec_free(&seen);
	assert_int_equal(facts.area[GRAPH_AREA_FILES], 100 << 10);
	assert_int_equal(facts.area[GRAPH_AREA_HEAP], 250 << 10);
	assert_int_equal(facts.area[GRAPH_AREA_JIT], 900 << 10);
	assert_int_equal(facts.area[GRAPH_AREA_NATIVE], 400 << 10);
	assert_int_equal(facts.area[GRAPH_AREA_STACKS], (500 + 800 + 900) << 10);
	assert_int_equal(facts.area[GRAPH_AREA_SHARED], 700 << 10);
	uint64_t sum = 0;
	for (size_t i = 0; i < GRAPH_AREAS; i++)
		sum += facts.area[i];
	assert_int_equal(sum, facts.rss);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survivors),
		cmocka_unit_test(parts_of_a_program),
		cmocka_unit_test(list_of_links),
		cmocka_unit_test(only_some_types),
		cmocka_unit_test(statistics),
		cmocka_unit_test(growth),
		cmocka_unit_test(what_changes_much_is_told),
		cmocka_unit_test(memory_beside_the_heap),
		cmocka_unit_test(garbage_is_no_leak),
		cmocka_unit_test(areas),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
