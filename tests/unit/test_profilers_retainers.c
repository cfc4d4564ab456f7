/* Retainers: how objects are kept, by the shapes that the table of rules knows, on heaps that are built here. */

#include "unit.h"

#include "memory/retainers.h"
#include <string.h>

#define AT 0x100000u
#define STEP 0x100u
#define SLOTS 6

struct kind {
	const char *name;
	bool array;
	const char *slots[SLOTS];
};
enum {
	FEED,
	HANDLER,
	LIST,
	PAGE,
	CLOSURE,
	TIMER,
	POLLER,
	NODE,
	REGISTRATIONS,
	SOURCE,
	SCOPE,
	PROVIDER,
	SERVICES,
	CONTEXT,
	MAP,
	LOCAL,
	TENANT,
	KINDS
};
static const struct kind kinds[KINDS] = {
	[FEED] = { "Shop.Feed", false, { "Changed", "_next", "<Page>k__BackingField" } },
	[HANDLER] = { "System.EventHandler", false, { "_target", "_methodBase", "_invocationList" } },
	[LIST] = { "System.Object[]", true, { NULL } },
	[PAGE] = { "Shop.Page", false, { "_other" } },
	[CLOSURE] = { "Shop.Page+<>c__DisplayClass3_0", false, { "page", "<>4__this" } },
	[TIMER] = { "System.Threading.TimerQueueTimer",
		    false,
		    { "_next", "_timerCallback", "_state", "_executionContext" } },
	[POLLER] = { "Shop.Poller", false, { "_timer" } },
	[NODE] = { "System.Threading.CancellationTokenSource+CallbackNode",
		   false,
		   { "Next", "Registrations", "Callback", "CallbackState" } },
	[REGISTRATIONS] = { "System.Threading.CancellationTokenSource+Registrations",
			    false,
			    { "Source", "Callbacks" } },
	[SOURCE] = { "System.Threading.CancellationTokenSource", false, { "_registrations" } },
	[SCOPE] = { "Microsoft.Extensions.DependencyInjection.ServiceLookup.ServiceProviderEngineScope",
		    false,
		    { "_disposables", "<RootProvider>k__BackingField" } },
	[PROVIDER] = { "Microsoft.Extensions.DependencyInjection.ServiceProvider", false, { "<Root>k__BackingField" } },
	[SERVICES] = { "System.Collections.Generic.List`1[[System.Object, System.Private.CoreLib]]",
		       false,
		       { "_items" } },
	[CONTEXT] = { "System.Threading.ExecutionContext", false, { "m_localValues" } },
	[MAP] = { "System.Threading.AsyncLocalValueMap+OneElementAsyncLocalValueMap", false, { "_key1", "_value1" } },
	[LOCAL] = { "System.Threading.AsyncLocal`1[[Shop.Tenant, Shop]]", false, { NULL } },
	[TENANT] = { "Shop.Tenant", false, { NULL } },
};

/* An object: its kind and the numbers of those it refers to, 0 = null, else 1 + number. */
struct thing {
	unsigned kind;
	unsigned refs[SLOTS];
};
struct root {
	enum graph_root kind;
	const char *name;
	unsigned object; /* number */
};

static unsigned n_slots(const struct kind *kind)
{
	unsigned n = 0;
	while (n < SLOTS && kind->slots[n])
		n++;
	return n;
}

static struct heapgraph *build(const struct thing *things, unsigned n, const struct root *roots, unsigned n_roots,
			       unsigned link_from, unsigned link_to)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct heapgraph_writer *w = heapgraph_writer_new(&bytes);
	struct graph_type shapes[KINDS];
	const char *slots[KINDS][SLOTS];
	memset(shapes, 0, sizeof(shapes));
	heapgraph_write_region(w, &(struct graph_region){ .start = AT, .end = AT + n * STEP });
	for (unsigned r = 0; r < n_roots; r++) {
		uint64_t held = AT + roots[r].object * STEP;
		heapgraph_write_root(w, roots[r].kind, roots[r].name, "main", &held, 1);
	}
	if (link_from != link_to)
		heapgraph_write_link(w, AT + link_from * STEP, AT + link_to * STEP);
	for (unsigned k = 0; k < KINDS; k++) {
		memcpy(slots[k], kinds[k].slots, sizeof(slots[k]));
		shapes[k] = (struct graph_type){ .name = kinds[k].name,
						 .module = "",
						 .kind = kinds[k].array ? GRAPH_ARRAY : GRAPH_OBJECT,
						 .variable = kinds[k].array,
						 .units = kinds[k].array ? 0 : 8,
						 .n_slots = n_slots(&kinds[k]),
						 .slots = slots[k] };
	}
	for (unsigned i = 0; i < n; i++) {
		const struct graph_type *shape = &shapes[things[i].kind];
		uint64_t refs[SLOTS];
		unsigned count = shape->variable ? SLOTS : shape->n_slots;
		for (unsigned k = 0; k < count; k++)
			refs[k] = things[i].refs[k] ? AT + (things[i].refs[k] - 1) * STEP : 0;
		heapgraph_write_object(w, AT + i * STEP, 64, things[i].kind, shape);
		heapgraph_write_refs(w, refs, count);
	}
	heapgraph_end_objects(w);
	size_t n_types;
	const uint32_t *order = heapgraph_type_order(w, &n_types);
	for (size_t i = 0; i < n_types; i++)
		heapgraph_write_type(w, &shapes[order[i]]);
	heapgraph_write_facts(w, &(struct graph_facts){ .objects = n, .n_heaps = 1 });
	heapgraph_writer_free(w);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	struct heapgraph *g = NULL;
	assert_ok(heapgraph_read(&in, &g));
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	return g;
}

#define BUILD(things, roots) build(things, ARRAY_SIZE(things), roots, ARRAY_SIZE(roots), 0, 0)

static void expect(const struct heapgraph *g, const struct heap_notes *notes, uint32_t object, const char *words,
		   bool telling)
{
	CLEANUP(retainers_freep) struct retainers *k = retainers_new(g, notes);
	CLEANUP(buf_free) struct buf text = { 0 }, path = { 0 };
	struct kept_groups groups = { 0 };
	retainers_group(k, &object, 1, &groups);
	assert_int_equal(groups.n, 1);
	assert_int_equal(groups.v[0].objects, 1);
	retainer_words(k, groups.v[0].chain, &text);
	assert_string_equal(buf_cstr(&text), words);
	assert_int_equal(retainer_is_telling(k, groups.v[0].chain), telling);
	retainer_path(k, object, &path);
	assert_true(path.len > 0);
	vec_free(&groups);
}

static void an_event_goes_by_its_name_and_subscribers(void **state UNUSED)
{
	const struct thing things[] = { { FEED, { 2 } },    { HANDLER, { 0, 0, 3 } }, { LIST, { 4, 5 } },
					{ HANDLER, { 6 } }, { HANDLER, { 7 } },	      { PAGE, { 0 } },
					{ CLOSURE, { 8 } }, { PAGE, { 0 } } };
	const struct root roots[] = { { GRAPH_STATIC, "Shop.Program._feed", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 5, "event Shop.Feed.Changed (2 subscribers), in static Shop.Program._feed", true);
	expect(g, NULL, 7,
	       "variable page of Shop.Page.(closure), in event Shop.Feed.Changed (2 subscribers), in static "
	       "Shop.Program._feed",
	       true);
}

static void a_static_event_and_a_property(void **state UNUSED)
{
	const struct thing things[] = { { HANDLER, { 0, 0, 2 } }, { LIST, { 3, 4 } }, { HANDLER, { 5 } },
					{ HANDLER, { 6 } },	  { PAGE, { 0 } },    { FEED, { 0, 0, 7 } },
					{ PAGE, { 0 } } };
	const struct root roots[] = { { GRAPH_STATIC, "Shop.Prices.Fell", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 4, "event Shop.Prices.Fell (2 subscribers)", true);
	expect(g, NULL, 6, "Shop.Feed.Page, in event Shop.Prices.Fell (2 subscribers)", true);
}

/* The notes of two delegates and a timer, as a recording has them. */
static void take_notes(struct heap_notes *notes, uint32_t timer, uint32_t delegate)
{
	CLEANUP(buf_free) struct buf own = { 0 }, bytes = { 0 };
	buf_varu64(&own, 1);
	buf_vartext(&own, "Shop.Poller.Tick", 16);
	buf_varu64(&own, 2);
	buf_varu64(&own, timer);
	buf_varu64(&own, 0);
	buf_varu64(&own, 90000);
	buf_varu64(&own, 90000);
	buf_varu64(&own, delegate - timer);
	buf_varu64(&own, 1);
	buf_varu64(&own, 1);
	buf_vartext(&own, "Shop.Poller.Finalize", 20);
	buf_varu64(&own, 3);
	buf_u32(&bytes, 0x45544F4E);
	buf_u32(&bytes, (uint32_t)own.len);
	buf_add(&bytes, own.data, own.len);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_true(heap_notes_take(notes, delegate + 1, &in));
	assert_int_equal(cursor_left(&in), 0);
	assert_int_equal(notes->modules_unread, 3);
	assert_int_equal(notes->finalizer_frames.n, 1);
	/* An object that the graph does not have, and every cut. */
	for (size_t len = 8; len <= bytes.len; len++) {
		struct heap_notes bad = { 0 };
		struct cursor cut = cursor_make(bytes.data, len);
		assert_false(heap_notes_take(&bad, len == bytes.len ? delegate : delegate + 1, &cut));
		heap_notes_fini(&bad);
	}
	struct cursor none = cursor_make(bytes.data + 4, bytes.len - 4);
	struct heap_notes old = { 0 };
	assert_true(heap_notes_take(&old, 1, &none));
	assert_int_equal(cursor_left(&none), bytes.len - 4);
	heap_notes_fini(&old);
}

static void a_timer_goes_by_its_callback_and_period(void **state UNUSED)
{
	const struct thing things[] = { { TIMER, { 2, 3 } }, { TIMER, { 0, 4 } }, { HANDLER, { 5 } },
					{ HANDLER, { 6 } },  { POLLER, { 0 } },	  { POLLER, { 0 } } };
	const struct root roots[] = { { GRAPH_STATIC, "System.Threading.TimerQueue.Instances", 0 },
				      { GRAPH_STACK, "Shop.Program.Main()", 5 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	CLEANUP(heap_notes_fini) struct heap_notes notes = { 0 };
	take_notes(&notes, 1, 3);
	/* The stack refers to it too, but says less. */
	expect(g, &notes, 5, "timers calling Shop.Poller.Tick every 1 min 30 s", true);
	/* What is not noted is said by the target's type. */
	expect(g, &notes, 4, "timers calling Shop.Poller", true);
}

static void a_registration_goes_by_its_source(void **state UNUSED)
{
	const struct thing things[] = { { SOURCE, { 2 } },	  { REGISTRATIONS, { 1, 3 } }, { NODE, { 4, 2, 5 } },
					{ NODE, { 0, 2, 0, 6 } }, { HANDLER, { 7 } },	       { SOURCE, { 0 } },
					{ PAGE, { 0 } } };
	const struct root roots[] = { { GRAPH_STATIC, "Shop.Program._stopping", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 6, "registrations on Shop.Program._stopping", true);
	expect(g, NULL, 5, "registrations on Shop.Program._stopping", true);
}

static void services_of_the_root_scope(void **state UNUSED)
{
	const struct thing things[] = { { PROVIDER, { 2 } }, { SCOPE, { 3, 1 } }, { SERVICES, { 4 } },
					{ LIST, { 5, 6 } },  { PAGE, { 0 } },	  { PAGE, { 0 } } };
	const struct root roots[] = { { GRAPH_STACK, "Shop.Program.Main()", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 5, "the disposables of the root service scope (2 services)", true);
}

static void an_async_local_goes_by_its_field(void **state UNUSED)
{
	const struct thing things[] = {
		{ TIMER, { 0, 0, 0, 2 } }, { CONTEXT, { 3 } }, { MAP, { 4, 5 } }, { LOCAL, { 0 } }, { TENANT, { 0 } }
	};
	const struct root roots[] = { { GRAPH_STATIC, "System.Threading.TimerQueue.Instances", 0 },
				      { GRAPH_STATIC, "Shop.Tenant.Current", 3 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 4, "AsyncLocal Shop.Tenant.Current, in the ExecutionContext of timers", true);
}

static void fields_are_plain_and_lists_are_one(void **state UNUSED)
{
	const struct thing things[] = {
		{ FEED, { 0, 2 } }, { FEED, { 0, 3 } }, { FEED, { 0, 0, 4 } }, { PAGE, { 0 } }
	};
	const struct root roots[] = { { GRAPH_STATIC, "Shop.Program._feed", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = BUILD(things, roots);
	expect(g, NULL, 3, "Shop.Feed.Page, in Shop.Feed._next, in static Shop.Program._feed", false);
	expect(g, NULL, 0, "static Shop.Program._feed", false);
}

static void a_value_lives_as_long_as_its_key(void **state UNUSED)
{
	const struct thing things[] = { { PAGE, { 0 } }, { TENANT, { 0 } } };
	const struct root roots[] = { { GRAPH_STATIC, "Shop.Program._page", 0 } };
	CLEANUP(heapgraph_freep) struct heapgraph *g = build(things, 2, roots, 1, 0, 1);
	expect(g, NULL, 1, "a ConditionalWeakTable, with the key Shop.Page, in static Shop.Program._page", true);
}

/* Whatever refers to whatever: each object that is reachable is in one group, and all words can be said. */
static void any_heap_has_words(void **state UNUSED)
{
	uint64_t lot = 88172645463325252;
	for (unsigned round = 0; round < 500; round++) {
		struct thing things[40];
		unsigned n = 1 + round % 40;
		uint32_t all[40];
		for (unsigned i = 0; i < n; i++) {
			all[i] = i;
			for (unsigned k = 0; k <= SLOTS; k++) {
				lot ^= lot << 13;
				lot ^= lot >> 7;
				lot ^= lot << 17;
				if (k < SLOTS)
					things[i].refs[k] = lot >> 60 ? (unsigned)(lot >> 20) % (n + 1) : 0;
				else
					things[i].kind = (unsigned)(lot >> 20) % KINDS;
			}
		}
		const struct root roots[] = { { GRAPH_STATIC, "Shop.Program._feed", 0 },
					      { GRAPH_STACK, "Shop.Main()", round % n },
					      { GRAPH_HANDLE, "strong handles", n / 2 } };
		CLEANUP(heapgraph_freep) struct heapgraph *g = build(things, n, roots, 3, round % n, n / 3);
		CLEANUP(retainers_freep) struct retainers *k = retainers_new(g, NULL);
		struct kept_groups groups = { 0 };
		uint64_t objects = 0;
		retainers_group(k, all, n, &groups);
		vec_each(group, &groups) {
			CLEANUP(buf_free) struct buf words = { 0 };
			retainer_words(k, group->chain, &words);
			assert_true(words.len > 0);
			objects += group->objects;
		}
		assert_int_equal(objects, g->reached_objects);
		vec_free(&groups);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_goes_by_its_name_and_subscribers),
		cmocka_unit_test(a_static_event_and_a_property),
		cmocka_unit_test(a_timer_goes_by_its_callback_and_period),
		cmocka_unit_test(a_registration_goes_by_its_source),
		cmocka_unit_test(services_of_the_root_scope),
		cmocka_unit_test(an_async_local_goes_by_its_field),
		cmocka_unit_test(fields_are_plain_and_lists_are_one),
		cmocka_unit_test(a_value_lives_as_long_as_its_key),
		cmocka_unit_test(any_heap_has_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
