#include "unit.h"

#include "build_heap.h"

/* ---- a shop ---- */

struct shop {
	struct built_heap *b;
	uint64_t animal, dog, point, points, dogs, cache, cache_of_int;
	uint64_t rex, name, array, pairs, box;
	struct image *img;
	struct heap *h;
};

static struct shop *shop(void)
{
	struct shop *s = mem_zalloc(sizeof(*s));
	struct built_heap *b = s->b = build_heap_new();
	struct built_series one = { .size = 8 - 32, .start = 8 }, two = { .size = 8 - 56, .start = 8 };
	struct built_series elements = { .size = 8 - 32, .start = 16 };
	s->animal = build_type(b, "Shop.Animal", b->object_type, 32, 0, &one, 1);
	s->dog = build_type(b, "Shop.Dog", s->animal, 56, 0, &two, 1);
	s->point = build_type(b, "Shop.Point", b->value_type, 32, 0, NULL, 0);
	s->dogs = build_type(b, "Shop.Dog[]", b->object_type, 24, 8, &elements, 1);
	s->points = build_struct_array(b, "Shop.Point[]", s->point, 16, 1, 8);
	s->cache = build_type(b, "Shop.Cache", b->object_type, 24, 0, NULL, 0);
	s->cache_of_int =
		build_type(b, "Shop.Cache`1[[System.Int32, System.Private.CoreLib]]", b->object_type, 24, 0, NULL, 0);
	uint32_t generic = 0x10;
	build_put(b, s->cache_of_int, &generic, 4);
	build_field(b, s->animal, "_name", 0x0E, 0, b->string_type);
	build_field(b, s->animal, "_age", 0x06, 8, 0);
	build_field(b, s->dog, "_good", 0x02, 10, 0);
	build_field(b, s->dog, "_at", 0x11, 16, s->point);
	build_field(b, s->dog, "_debt", 0x08, 12, 0);
	build_field(b, s->dog, "_far", 0x0A, 4000, 0); /* outside */
	build_field(b, s->point, "X", 0x08, 0, 0);
	build_field(b, s->point, "Y", 0x08, 4, 0);
	build_static(b, s->cache, "Best", 0x12, 0, false);
	build_static(b, s->cache, "Count", 0x08, 16, false);
	build_static(b, s->cache, "Home", 0x11, 8, false);
	build_static(b, s->cache, "Mine", 0x12, 0, true);
	build_static(b, s->cache_of_int, "Items", 0x12, 8, false);
	vec_push(&b->statics_list, ((struct dac_statics){ s->cache, BUILT_STATICS, BUILT_STATICS + 64 }));
	vec_push(&b->statics_list, ((struct dac_statics){ s->cache_of_int, BUILT_STATICS + 128, BUILT_STATICS + 192 }));

	s->name = build_string(b, "Rex the 1st");
	s->rex = build_object(b, s->dog, 0);
	s->array = build_object(b, s->dogs, 3);
	s->pairs = build_object(b, s->points, 2);
	s->box = build_object(b, s->point, 0);
	build_put_u64(b, s->rex + 8, s->name);
	build_put(b, s->rex + 16, &(int16_t){ -3 }, 2);
	build_put(b, s->rex + 18, "\1", 1);
	build_put(b, s->rex + 20, &(int32_t){ -70000 }, 4);
	build_put(b, s->rex + 24, (int32_t[]){ 11, 12 }, 8);
	build_put_u64(b, s->array + 16 + 8, s->rex);
	build_put(b, s->pairs + 16 + 16, (int32_t[]){ 21, 22 }, 8);
	build_put(b, s->box + 8, (int32_t[]){ 31, 32 }, 8);
	build_put_u64(b, BUILT_STATICS, s->rex);
	build_put_u64(b, BUILT_STATICS + 8, s->box);
	build_put_u64(b, BUILT_STATICS + 64 + 16, 42);
	build_put_u64(b, BUILT_STATICS + 128 + 8, s->array);
	build_put_u64(b, BUILT_STATICS + 512, s->name); /* of thread 512 */
	s->img = build_heap_image(b);
	struct heap_source source = build_heap_source(b);
	assert_ok(heap_open_source(s->img, &source, &s->h));
	return s;
}

static void shop_free(struct shop *s)
{
	heap_close(s->h);
	image_close(s->img);
	build_heap_free(s->b);
	mem_free(s);
}

static void types_and_sizes(void **state)
{
	(void)state;
	struct shop *s = shop();
	assert_string_equal(heap_type_of(s->h, s->rex)->name, "Shop.Dog");
	assert_int_equal(heap_type_of(s->h, s->rex)->kind, HEAP_OBJECT);
	assert_int_equal(heap_type_of(s->h, s->name)->kind, HEAP_STRING);
	assert_int_equal(heap_type_of(s->h, s->array)->kind, HEAP_ARRAY);
	assert_int_equal(heap_size_of(s->h, s->rex), 56);
	assert_int_equal(heap_size_of(s->h, s->name), 22 + 11 * 2 + 4);
	assert_int_equal(heap_size_of(s->h, s->array), 24 + 3 * 8);
	assert_int_equal(heap_size_of(s->h, s->pairs), 24 + 2 * 16);
	assert_ptr_equal(heap_type_of(s->h, s->rex), heap_type(s->h, s->dog));
	assert_true(heap_is_struct(s->h, heap_type(s->h, s->point)));
	assert_false(heap_is_struct(s->h, heap_type(s->h, s->dog)));
	/* No objects: null, odd, outside, a pointer to nothing. */
	uint64_t none[] = { 0, 1, s->rex + 4, s->rex + 8, 0x7FFFFFFFFFF8, UINT64_MAX - 7, BUILT_TYPES };
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_null(heap_type_of(s->h, none[i]));
		assert_int_equal(heap_size_of(s->h, none[i]), 0);
	}
	assert_null(heap_type(s->h, 0x12345678));
	assert_null(heap_trouble(s->h));
	shop_free(s);
}

static void fields_and_values(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct heap_value rex, at, again;
	int64_t n;
	uint64_t ref;
	struct buf text = { 0 };
	assert_true(heap_object(s->h, s->rex, &rex));
	struct heap_fields all = heap_fields(s->h, rex.type);
	assert_int_equal(all.n, 5);
	assert_string_equal(all.v[0].name, "_name"); /* inherited first */
	assert_int_equal(all.v[0].declaring, s->animal);
	assert_true(heap_get_int(s->h, rex, "_age", &n) && n == -3);
	assert_true(heap_get_int(s->h, rex, "_good", &n) && n == 1);
	assert_true(heap_get_int(s->h, rex, "_debt", &n) && n == -70000);
	assert_true(heap_get_ref(s->h, rex, "_name", &ref) && ref == s->name);
	assert_true(heap_get_string(s->h, rex, "_name", 3, &text));
	assert_string_equal(buf_cstr(&text), "Rex");
	assert_true(heap_get_struct(s->h, rex, "_at", &at));
	assert_true(heap_get_int(s->h, at, "Y", &n) && n == 12);
	/* Of another shape, or not there. */
	assert_false(heap_get_int(s->h, rex, "_name", &n));
	assert_false(heap_get_int(s->h, rex, "_at", &n));
	assert_false(heap_get_int(s->h, rex, "_far", &n));
	assert_false(heap_get_ref(s->h, rex, "_age", &ref));
	assert_false(heap_get_ref(s->h, rex, "nothing", &ref));
	assert_false(heap_get_struct(s->h, rex, "_name", &again));
	assert_false(heap_get_string(s->h, at, "X", 9, &text));
	assert_false(heap_object(s->h, 0, &again));
	assert_int_equal(n, 12);
	buf_free(&text);
	shop_free(s);
}

static void strings_and_arrays(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct buf text = { 0 };
	struct heap_array dogs, points;
	struct heap_value point;
	uint64_t ref = 1;
	uint32_t units;
	int64_t n;
	assert_true(heap_string(s->h, s->name, 100, &text, &units));
	assert_string_equal(buf_cstr(&text), "Rex the 1st");
	assert_int_equal(units, 11);
	assert_false(heap_string(s->h, s->rex, 100, &text, &units));
	assert_true(heap_array(s->h, s->array, &dogs));
	assert_int_equal(dogs.n, 3);
	assert_true(heap_element_ref(s->h, &dogs, 0, &ref) && ref == 0);
	assert_true(heap_element_ref(s->h, &dogs, 1, &ref) && ref == s->rex);
	assert_false(heap_element_ref(s->h, &dogs, 3, &ref));
	assert_false(heap_element_struct(s->h, &dogs, 0, &point));
	assert_true(heap_array(s->h, s->pairs, &points));
	assert_true(heap_element_struct(s->h, &points, 1, &point));
	assert_true(heap_get_int(s->h, point, "X", &n) && n == 21);
	assert_false(heap_element_ref(s->h, &points, 0, &ref));
	assert_false(heap_array(s->h, s->rex, &dogs));
	assert_false(heap_array(s->h, s->name, &dogs));
	buf_free(&text);
	shop_free(s);
}

/* A length that claims more than there is costs nothing but the answer. */
static void hostile_lengths(void **state)
{
	(void)state;
	uint32_t lengths[] = { 0x80000000u, 0x7FFFFFFFu, 0xFFFFFFFFu, BUILT_ROOM };
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct shop *s = shop();
		struct buf text = { 0 };
		build_put(s->b, s->name + 8, &lengths[i], 4);
		build_put(s->b, s->array + 8, &lengths[i], 4);
		image_close(s->img);
		heap_close(s->h);
		s->img = build_heap_image(s->b);
		struct heap_source source = build_heap_source(s->b);
		assert_ok(heap_open_source(s->img, &source, &s->h));
		assert_false(heap_string(s->h, s->name, SIZE_MAX, &text, NULL));
		assert_int_equal(text.len, 0);
		struct heap_array a;
		uint64_t ref;
		if (heap_array(s->h, s->array, &a))
			assert_false(heap_element_ref(s->h, &a, a.n - 1, &ref));
		buf_free(&text);
		shop_free(s);
	}
}

static void headers(void **state)
{
	(void)state;
	struct shop *s = shop();
	static const struct {
		uint32_t word;
		struct heap_header want;
	} cases[] = {
		{ 0, { 0 } },
		{ 0x00030007, { .thin_owner = 7, .recursion = 3 } },
		{ 0x08000123, { .sync_block = 0x123 } },
		{ 0x0C000456, { .hash = 0x456 } },
		{ 0x10000007, { 0 } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct heap_header got;
		build_put(s->b, s->rex - 4, &cases[i].word, 4);
		struct image *img = build_heap_image(s->b);
		struct heap_source source = build_heap_source(s->b);
		struct heap *h;
		assert_ok(heap_open_source(img, &source, &h));
		assert_true(heap_header(h, s->rex, &got));
		assert_memory_equal(&got, &cases[i].want, sizeof(got));
		assert_false(heap_header(h, 0, &got));
		heap_close(h);
		image_close(img);
	}
	shop_free(s);
}

static void statics(void **state)
{
	(void)state;
	struct shop *s = shop();
	const struct heap_type *cache, *generic, *none;
	struct heap_value value;
	uint64_t ref;
	int64_t n;
	assert_ok(heap_find_type(s->h, "Shop.dll", "Shop.Cache", &cache));
	assert_ok(heap_find_type(s->h, NULL, "Shop.Cache`1[[System.Int32, System.Private.CoreLib]]", &generic));
	assert_ok(heap_find_type(s->h, "Other.dll", "Shop.Cache", &none));
	assert_non_null(cache);
	assert_non_null(generic);
	assert_null(none);
	assert_true(heap_static_ref(s->h, 0, cache, "Best", &ref) && ref == s->rex);
	assert_true(heap_static_int(s->h, 0, cache, "Count", &n) && n == 42);
	assert_true(heap_static_struct(s->h, 0, cache, "Home", &value));
	assert_true(heap_get_int(s->h, value, "Y", &n) && n == 32);
	assert_true(heap_static_ref(s->h, 0, generic, "Items", &ref) && ref == s->array);
	assert_true(heap_static_ref(s->h, 512, cache, "Mine", &ref) && ref == s->name);
	assert_false(heap_static_ref(s->h, 0, cache, "Mine", &ref));
	assert_false(heap_static_ref(s->h, 512, cache, "Best", &ref));
	assert_false(heap_static_ref(s->h, 0, cache, "Count", &ref));
	assert_false(heap_static_int(s->h, 0, cache, "Nothing", &n));
	assert_false(heap_static_ref(s->h, 0, NULL, "Best", &ref));

	struct heap_statics all;
	struct dac_thread thread = { .address = 512, .os_id = 9 };
	struct dac_threads threads = { &thread, 1, 1 };
	assert_ok(heap_statics(s->h, &threads, &all));
	assert_int_equal(all.n, 4);
	assert_string_equal(all.v[0].field->name, "Best");
	assert_string_equal(all.v[1].field->name, "Home");
	assert_string_equal(all.v[2].field->name, "Items");
	assert_string_equal(all.v[3].field->name, "Mine");
	assert_true(all.v[3].thread == 512 && all.v[3].object == s->name);
	heap_statics_free(&all);
	shop_free(s);
}

/* The library's death is no crash of ours: what was learnt stays, the rest is not there, and the reason is kept. */
static void failing_source(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct heap_value rex;
	int64_t n;
	assert_non_null(heap_type(s->h, s->dog));
	s->b->fails = true;
	assert_true(heap_object(s->h, s->rex, &rex));
	assert_false(heap_get_int(s->h, rex, "_age", &n));
	assert_null(heap_type_of(s->h, s->array));
	assert_string_equal(heap_trouble(s->h), "the library is gone");
	shop_free(s);
}

/* A type that is its own ancestor. */
static void circular_parents(void **state)
{
	(void)state;
	struct shop *s = shop();
	vec_each(t, &s->b->type_list)
		if (t->type == s->animal)
			t->parent = s->dog;
	struct heap_fields all = heap_fields(s->h, heap_type(s->h, s->dog));
	assert_true(all.n >= 3 && all.n < 20);
	shop_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_and_sizes),
		cmocka_unit_test(fields_and_values),
		cmocka_unit_test(strings_and_arrays),
		cmocka_unit_test(hostile_lengths),
		cmocka_unit_test(headers),
		cmocka_unit_test(statics),
		cmocka_unit_test(failing_source),
		cmocka_unit_test(circular_parents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
