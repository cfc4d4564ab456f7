/* By what name the application knows an object: searched upwards through a small heap. */

#include "unit.h"

#include "build_heap.h"
#include "memory/object_names.h"

struct stage {
	struct built_heap *b;
	uint64_t source, node, hub, lambda, flow, waiter;
	uint64_t waits; /* an object whose references do not count */
	struct image *img;
	struct heap *h;
	struct heap_outline outline;
	struct heap_statics statics;
	struct heap_field pending;
	struct strtab strings;
};

static void stage_types(struct stage *s)
{
	struct built_heap *b = s->b;
	struct built_series one = { .size = 8 - 24, .start = 8 }, two = { .size = 16 - 32, .start = 8 };
	s->source = build_type(b, "System.Threading.Tasks.TaskCompletionSource", b->object_type, 24, 0, NULL, 0);
	s->node = build_type(b, "System.Collections.Generic.LinkedListNode", b->object_type, 32, 0, &two, 1);
	s->hub = build_type(b, "Shop.Hub", b->object_type, 24, 0, &one, 1);
	s->lambda = build_type(b, "Shop.Job+<>c__DisplayClass1_0", b->object_type, 24, 0, &one, 1);
	s->flow = build_type(b, "Shop.Flow", b->object_type, 24, 0, NULL, 0);
	s->waiter = build_type(b, "System.Waiter", b->object_type, 24, 0, &one, 1);
	build_field(b, s->hub, "<Waiting>k__BackingField", HEAP_CLASS, 0, 0);
}

static uint64_t holding(struct stage *s, uint64_t type, uint64_t first, uint64_t second)
{
	uint64_t object = build_object(s->b, type, 0);
	build_put_u64(s->b, object + 8, first);
	if (second)
		build_put_u64(s->b, object + 16, second);
	return object;
}

static void stage_open(struct stage *s)
{
	struct heap_source source = build_heap_source(s->b);
	s->outline = build_outline(s->b);
	s->img = build_heap_image(s->b);
	assert_ok(heap_open_source(s->img, &source, &s->h));
}

static void stage_end(struct stage *s)
{
	strtab_free(&s->strings);
	vec_free(&s->statics);
	heap_outline_free(&s->outline);
	heap_close(s->h);
	image_close(s->img);
	build_heap_free(s->b);
}

static bool only_waits(void *user, uint64_t from, uint64_t to)
{
	(void)to;
	return from == ((struct stage *)user)->waits;
}

static void find(struct stage *s, struct object_name *v, size_t n)
{
	const struct object_names owners = { .heap = s->h,
					     .outline = &s->outline,
					     .statics = &s->statics,
					     .strings = &s->strings,
					     .skip = only_waits,
					     .user = s };
	object_names_find(&owners, v, n);
}

static void test_names(void **state)
{
	(void)state;
	struct stage s = { .b = build_heap_new(), .pending = { .name = "Pending", .is_static = true } };
	stage_types(&s);
	uint64_t sources[6];
	for (size_t i = 0; i < 6; i++)
		sources[i] = build_object(s.b, s.source, 0);
	/* A list of the platform's between the field and what is in it; the second node refers back to the first. */
	uint64_t first = holding(&s, s.node, sources[0], 0), second = holding(&s, s.node, sources[1], first);
	build_put_u64(s.b, first + 16, second);
	holding(&s, s.hub, first, 0);
	holding(&s, s.lambda, sources[3], 0);
	s.waits = holding(&s, s.waiter, sources[4], 0);
	stage_open(&s);
	vec_push(&s.statics,
		 ((struct heap_static){ .type = heap_type(s.h, s.flow), .field = &s.pending, .object = sources[2] }));
	struct object_name v[6];
	for (size_t i = 0; i < 6; i++)
		v[i] = (struct object_name){ .object = sources[i] };
	find(&s, v, 6);
	assert_string_equal(v[0].name, "Shop.Hub.Waiting");
	assert_string_equal(v[1].name, "Shop.Hub.Waiting");
	assert_string_equal(v[2].name, "Shop.Flow.Pending");
	assert_string_equal(v[3].name, "a lambda of Shop.Job");
	for (size_t i = 0; i < 4; i++)
		assert_true(v[i].referred);
	for (size_t i = 4; i < 6; i++) {
		assert_null(v[i].name);
		assert_false(v[i].referred);
	}
	stage_end(&s);
}

/* Too far away, and in a ring: it ends, and says nothing rather than something wrong. */
static void test_far(void **state)
{
	(void)state;
	struct stage s = { .b = build_heap_new() };
	stage_types(&s);
	uint64_t source = build_object(s.b, s.source, 0), at = source;
	for (size_t i = 0; i < 50; i++)
		at = holding(&s, s.node, at, source);
	holding(&s, s.hub, at, 0);
	uint64_t lonely = build_object(s.b, s.source, 0), a = holding(&s, s.node, lonely, 0);
	build_put_u64(s.b, a + 16, holding(&s, s.node, a, 0));
	stage_open(&s);
	struct object_name v[2] = { { .object = lonely }, { .object = at + 8 } };
	find(&s, v, 2);
	assert_null(v[0].name);
	assert_true(v[0].referred);
	assert_null(v[1].name);
	/* Every node refers to it, so the last one is near. */
	v[0] = (struct object_name){ .object = source };
	find(&s, v, 1);
	assert_string_equal(v[0].name, "Shop.Hub.Waiting");
	stage_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_far),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
