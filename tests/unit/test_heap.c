#include "unit.h"

#include "build_heap.h"
#include "heap/drain_internal.h"

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

/* ---- the walk ---- */

struct seen {
	VEC(struct heap_found) objects;
	VEC(uint64_t) refs; /* not null */
	struct heap_health health;
};

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	struct seen *seen = user;
	assert_true(at >= BUILT_HEAP && at + 8 * n <= BUILT_HEAP + BUILT_ROOM);
	for (size_t i = 0; i < n; i++)
		if (refs[i])
			vec_push(&seen->refs, refs[i]);
}

static struct seen walk(struct heap *h, const struct heap_outline *outline)
{
	struct seen seen = { 0 };
	struct heap_found f;
	struct heap_walk *w = heap_walk_new(h, outline);
	while (heap_walk_next(w, &f)) {
		vec_push(&seen.objects, f);
		heap_walk_refs(w, &f, on_refs, &seen);
	}
	seen.health = heap_walk_health(w);
	heap_walk_free(w);
	return seen;
}

static void seen_free(struct seen *seen)
{
	vec_free(&seen->objects);
	vec_free(&seen->refs);
}

/* Opens the shop again, after its memory was changed. */
static void reopen(struct shop *s)
{
	heap_close(s->h);
	image_close(s->img);
	s->img = build_heap_image(s->b);
	struct heap_source source = build_heap_source(s->b);
	assert_ok(heap_open_source(s->img, &source, &s->h));
}

static void every_object_once(void **state)
{
	(void)state;
	struct shop *s = shop();
	build_put_u64(s->b, s->pairs + 16, s->rex);	 /* the reference of element 0 */
	build_put_u64(s->b, s->pairs + 24, 0xDEADBEEF0); /* what is not one */
	build_object(s->b, s->b->free_type, 40);
	uint64_t last = build_string(s->b, "");
	reopen(s);
	struct heap_outline outline = build_outline(s->b);
	struct seen seen = walk(s->h, &outline);
	uint64_t want[] = { s->name, s->rex, s->array, s->pairs, s->box, last - 64, last };
	assert_int_equal(seen.objects.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_int_equal(seen.objects.v[i].address, want[i]);
	assert_int_equal(seen.objects.v[2].n, 3);
	uint64_t refs[] = { s->name, s->rex, s->rex, 11 | 12ull << 32 };
	/* Element 1 of the pairs has a number where the map says a reference: it is given as it is. */
	refs[3] = 21 | 22ull << 32;
	assert_int_equal(seen.refs.n, ARRAY_SIZE(refs));
	assert_memory_equal(seen.refs.v, refs, sizeof(refs));
	assert_int_equal(seen.health.objects, 6);
	assert_int_equal(seen.health.free_bytes, 64);
	assert_int_equal(seen.health.lost_bytes, 0);
	seen_free(&seen);
	heap_outline_free(&outline);
	shop_free(s);
}

/* Room that a thread has taken is stepped over, an object that is being born too, and the raw end of the youngest. */
static void unfilled_room(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct heap_outline outline = build_outline(s->b);
	uint64_t context = s->b->next_object;
	memset(s->b->heap + (context - BUILT_HEAP), 0xAA, 100);
	s->b->next_object += 96 + 24; /* its limit leaves room for a gap behind it */
	uint64_t after = build_string(s->b, "after");
	uint64_t unborn = s->b->next_object;
	s->b->next_object += 48;
	uint64_t second = s->b->next_object;
	s->b->next_object += 24;
	uint64_t young = build_string(s->b, "young");
	memset(s->b->heap + (s->b->next_object - BUILT_HEAP), 0xBB, 2000);
	outline.regions.v[0].end = s->b->next_object + 2000;
	outline.regions.v[0].generation = HEAP_GEN0;
	vec_push(&outline.contexts, ((struct heap_context){ context, context + 96 }));
	vec_push(&outline.contexts, ((struct heap_context){ second, second }));
	reopen(s);
	struct seen seen = walk(s->h, &outline);
	assert_int_equal(seen.objects.n, 7);
	assert_int_equal(seen.objects.v[5].address, after);
	assert_int_equal(seen.objects.v[6].address, young);
	assert_int_equal(seen.health.unused_bytes, 96 + 24 + (second - unborn) + 24 + 2000);
	assert_int_equal(seen.health.lost_bytes, 0);
	seen_free(&seen);
	/* The same raw bytes in an old region are a loss, and said to be. */
	outline.regions.v[0].generation = HEAP_GEN2;
	seen = walk(s->h, &outline);
	assert_int_equal(seen.health.lost_bytes, 2000);
	assert_int_equal(seen.health.lost_regions, 1);
	assert_int_equal(seen.health.lost_at, s->b->next_object);
	seen_free(&seen);
	heap_outline_free(&outline);
	shop_free(s);
}

/* Large objects without references are not read, and those with references in portions. */
static void large_objects(void **state)
{
	(void)state;
	struct shop *s = shop();
	uint64_t many = build_object(s->b, s->dogs, 7000);
	for (uint32_t i = 0; i < 7000; i += 7)
		build_put_u64(s->b, many + 16 + 8ull * i, s->rex);
	reopen(s);
	struct heap_outline outline = build_outline(s->b);
	struct seen seen = walk(s->h, &outline);
	assert_int_equal(seen.objects.n, 6);
	assert_int_equal(seen.refs.n, 3 + 1000);
	seen_free(&seen);
	heap_outline_free(&outline);
	shop_free(s);
}

static void the_check_compares(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct heap_outline outline = build_outline(s->b);
	for (int damage = 0; damage < 3; damage++) {
		struct heap_found f;
		struct heap_walk *w = heap_walk_new(s->h, &outline);
		while (heap_walk_next(w, &f))
			;
		s->b->fails = damage == 2;
		s->b->object_list.v[1].size += damage == 1 ? 8 : 0;
		if (damage == 0)
			assert_ok(heap_walk_check(w));
		else
			assert_err(heap_walk_check(w), damage == 1 ? ERR_UNSUPPORTED : ERR_IO);
		heap_walk_free(w);
	}
	heap_outline_free(&outline);
	shop_free(s);
}

/* Whatever a byte of the heap or of a method table is changed to: the walk ends, stays inside, and counts to the same
 * sum of bytes. */
static void flipped_bytes(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct heap_outline outline = build_outline(s->b);
	uint64_t whole = s->b->next_object - BUILT_HEAP - 8;
	size_t heap_used = (size_t)(s->b->next_object - BUILT_HEAP),
	       types_used = (size_t)(s->b->next_type - BUILT_TYPES);
	for (size_t i = 0; i < heap_used + types_used; i += i < heap_used ? 1 : 5) {
		uint8_t *byte = i < heap_used ? &s->b->heap[i] : &s->b->types[i - heap_used];
		for (int bit = 0; bit < 8; bit += 3) {
			uint8_t saved = *byte;
			*byte ^= (uint8_t)(1 << bit);
			reopen(s);
			struct seen seen = walk(s->h, &outline);
			assert_int_equal(seen.health.bytes + seen.health.free_bytes + seen.health.lost_bytes, whole);
			seen_free(&seen);
			*byte = saved;
		}
	}
	heap_outline_free(&outline);
	shop_free(s);
}

static void outlines(void **state)
{
	(void)state;
	struct dac_facts facts = { .server_gc = true };
	struct dac_heap heap = { .n_generations = 5, .n_fill_pointers = 7 };
	struct dac_segment segments[] = {
		{ .address = 1, .mem = 0x1000, .allocated = 0x2000, .committed = 0x3000, .generation = 2 },
		{ .address = 2, .mem = 0x8000, .allocated = 0x8008, .generation = 2, .flags = 1 },
		{ .address = 3, .mem = 0x10000, .allocated = 0x10000, .committed = 0x20000, .generation = 0 },
		{ .address = 4, .mem = 0x1800, .allocated = 0x1900, .generation = 3 }, /* inside the first */
		{ .address = 5, .mem = 0x30000, .allocated = 0x2F000, .generation = 3 },
		{ .address = 6, .mem = 0x40001, .allocated = 0x50000, .generation = 3 },
	};
	struct dac_heaps heaps = { &heap, 1, 1 };
	struct dac_segments list = { segments, ARRAY_SIZE(segments), ARRAY_SIZE(segments) };
	struct heap_outline o;
	heap.generations[0].start_segment = 3;
	heap.generations[1].start_segment = 9;
	heap.ephemeral_segment = 3;
	heap.alloc_allocated = 0x10100;
	for (unsigned i = 0; i < 7; i++)
		heap.fill_pointers[i] = 0x70000 + 0x10 * i;
	assert_ok(heap_outline_make(&facts, &heaps, &list, NULL, &o));
	assert_int_equal(o.regions.n, 3);
	assert_int_equal(o.left_out, 3);
	assert_int_equal(o.regions.v[1].generation, HEAP_FROZEN);
	assert_int_equal(o.regions.v[2].end, 0x10100);
	assert_int_equal(o.n_finalizable, 8);
	assert_int_equal(o.ready.n, 1);
	assert_int_equal(o.ready.v[0].size, 0x20);
	assert_ptr_equal(heap_region_at(&o, 0x1000), &o.regions.v[0]);
	assert_null(heap_region_at(&o, 0x2000));
	assert_null(heap_region_at(&o, 0));
	heap_outline_free(&o);

	/* Segments: the last one holds three generations. */
	heap.generations[0] = (typeof(heap.generations[0])){ .start_segment = 1, .alloc_start = 0x1C00 };
	heap.generations[1] = (typeof(heap.generations[0])){ .start_segment = 1, .alloc_start = 0x1800 };
	heap.ephemeral_segment = 1;
	heap.alloc_allocated = 0x1E00;
	list.n = 1;
	assert_ok(heap_outline_make(&facts, &heaps, &list, NULL, &o));
	assert_int_equal(o.regions.n, 3);
	assert_int_equal(o.regions.v[0].generation, HEAP_GEN2);
	assert_int_equal(o.regions.v[1].start, 0x1800);
	assert_int_equal(o.regions.v[2].generation, HEAP_GEN0);
	assert_int_equal(o.regions.v[2].end, 0x1E00);
	heap_outline_free(&o);

	list.n = 0;
	assert_err(heap_outline_make(&facts, &heaps, &list, NULL, &o), ERR_BAD_DATA);
	segments[0].allocated = 0x1000 + HEAP_MAX_BYTES + 8;
	heap.ephemeral_segment = 0;
	list.n = 1;
	assert_err(heap_outline_make(&facts, &heaps, &list, NULL, &o), ERR_UNSUPPORTED);
}

/* ---- types made at run time ---- */

static void emitted_types_have_names(void **state)
{
	(void)state;
	struct shop *s = shop();
	struct built_heap *b = s->b;
	struct built_series refs = { .size = 32 - 56, .start = 8 };
	uint64_t builder = build_type(b, "System.Reflection.Emit.RuntimeTypeBuilder", b->object_type, 56, 0, &refs, 1);
	uint64_t runtime_type = build_type(b, "System.RuntimeType", b->object_type, 32, 0, NULL, 0);
	uint64_t made[3];
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		made[i] = build_type(b, "<Unloaded Type>", b->object_type, 24, 0, NULL, 0);
	build_field(b, builder, "m_bakedRuntimeType", 0x12, 0, runtime_type);
	build_field(b, builder, "m_strFullQualName", 0x0E, 8, b->string_type);
	build_field(b, builder, "m_strNameSpace", 0x0E, 16, b->string_type);
	build_field(b, builder, "m_strName", 0x0E, 24, b->string_type);
	build_field(b, runtime_type, "m_handle", 0x18, 0, 0);
	uint64_t makers[4];
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++) {
		uint64_t type = build_object(b, runtime_type, 0);
		/* The last one says that it made a type with a name. */
		build_put_u64(b, type + 8, i < 3 ? made[i] : s->dog);
		makers[i] = build_object(b, builder, 0);
		build_put_u64(b, makers[i] + 8, i == 2 ? 0 : type);
		build_put_u64(b, makers[i] + 32, build_string(b, i == 1 ? "OrderProxy" : "Other"));
	}
	build_put_u64(b, makers[0] + 16, build_string(b, "Shop.Rules.Rule1"));
	build_put_u64(b, makers[1] + 24, build_string(b, "Shop.Proxies"));
	reopen(s);
	struct emitted list = { 0 };
	assert_true(emitted_is_builder(heap_type(s->h, builder)));
	assert_false(emitted_is_builder(heap_type(s->h, s->dog)));
	for (size_t i = 0; i < ARRAY_SIZE(makers); i++)
		emitted_note(s->h, makers[i], &list);
	emitted_note(s->h, s->rex, &list);
	emitted_note(s->h, 0x7000, &list);
	assert_int_equal(list.n, 3);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		assert_string_equal(heap_type(s->h, made[i])->name, "<Unloaded Type>");
	emitted_name(s->h, &list);
	assert_string_equal(heap_type(s->h, made[0])->name, "Shop.Rules.Rule1");
	assert_string_equal(heap_type(s->h, made[1])->name, "Shop.Proxies.OrderProxy");
	assert_string_equal(heap_type(s->h, made[2])->name, "<Unloaded Type>");
	assert_string_equal(heap_type(s->h, s->dog)->name, "Shop.Dog");
	vec_free(&list);
	shop_free(s);
}

/* ---- the shortest way ---- */

#define TOWN 40

/* Dogs that know each other or live as long as another one; roots at and inside of them. */
struct town {
	uint64_t dogs[TOWN];
	bool knows[TOWN][TOWN];
	uint32_t distance[TOWN]; /* from the roots, by rounds; 0 = none leads there */
	struct roots roots;
};

static uint64_t lot = 88172645463325252u;
static uint32_t chance(uint32_t below)
{
	lot ^= lot << 13;
	lot ^= lot >> 7;
	lot ^= lot << 17;
	return (uint32_t)((lot >> 11) % below);
}

static void build_town(struct town *t, struct shop *s)
{
	for (size_t i = 0; i < TOWN; i++) {
		t->dogs[i] = build_object(s->b, s->dogs, 3);
		if (chance(4) == 0)
			build_object(s->b, s->b->free_type, 8);
	}
	for (size_t i = 0; i < TOWN; i++)
		for (size_t k = 0; k < 3; k++) {
			size_t friend = chance(TOWN);
			/* Some refer to what is no object: a place inside of one, outside of all. */
			uint64_t ref = chance(3) ? t->dogs[friend] : chance(2) ? t->dogs[friend] + 8 : 0x7000;
			t->knows[i][friend] |= ref == t->dogs[friend];
			build_put_u64(s->b, t->dogs[i] + 16 + 8 * k, ref);
		}
	for (size_t i = 0; i < 6; i++) {
		size_t from = chance(TOWN), to = chance(TOWN);
		t->knows[from][to] = true;
		vec_push(&t->roots.links, ((struct heap_link){ t->dogs[from], t->dogs[to] }));
	}
	vec_push(&t->roots.links, ((struct heap_link){ 0x7000, t->dogs[0] }));
	for (size_t i = 0; i < 3; i++) {
		size_t dog = chance(TOWN);
		t->distance[dog] = 1;
		vec_push(&t->roots.objects, t->dogs[dog] + (chance(2) ? 0 : 20));
	}
	for (uint32_t round = 1; round < TOWN; round++)
		for (size_t i = 0; i < TOWN; i++)
			for (size_t k = 0; k < TOWN && t->distance[i] == round; k++)
				if (t->knows[i][k] && !t->distance[k])
					t->distance[k] = round + 1;
}

static void feed_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	(void)at;
	root_path_refs(user, refs, n);
}

static void find_way(struct shop *s, struct town *t, uint64_t object, struct addresses *ret)
{
	struct heap_outline outline = build_outline(s->b);
	struct heap_walk *walk = heap_walk_new(s->h, &outline);
	struct root_path *way = root_path_new(&t->roots, &outline);
	struct heap_found f;
	vec_clear(ret);
	while (heap_walk_next(walk, &f)) {
		root_path_object(way, &f);
		heap_walk_refs(walk, &f, feed_refs, way);
	}
	assert_ok(root_path_find(way, object, ret));
	vec_each(address, ret) {
		assert_true(heap_walk_again(walk, *address, &f));
		assert_int_equal(f.address, *address);
	}
	assert_false(heap_walk_again(walk, 0x7000, &f));
	root_path_free(way);
	heap_walk_free(walk);
	heap_outline_free(&outline);
}

static size_t dog_at(const struct town *t, uint64_t address)
{
	for (size_t i = 0; i < TOWN; i++)
		if (t->dogs[i] == address)
			return i;
	fail_msg("%llx is no dog", (unsigned long long)address);
	return 0;
}

/* One at each distance, and each knows the next. */
static void check_way(const struct town *t, const struct addresses *way, size_t wanted)
{
	size_t by_distance[TOWN + 1] = { 0 }, n = t->distance[wanted];
	assert_int_equal(way->n, MAX(n, (size_t)1));
	vec_each(address, way)
		by_distance[t->distance[dog_at(t, *address)]] = dog_at(t, *address);
	assert_int_equal(by_distance[n], wanted);
	for (size_t i = 1; i < n; i++)
		assert_true(t->knows[by_distance[i]][by_distance[i + 1]]);
}

static void shortest_ways(void **state)
{
	(void)state;
	size_t far = 0, alone = 0;
	for (int round = 0; round < 40; round++) {
		struct shop *s = shop();
		struct town t = { 0 };
		struct addresses way = { 0 };
		build_town(&t, s);
		reopen(s);
		t.roots.h = s->h;
		for (size_t i = 0; i < TOWN; i++) {
			find_way(s, &t, t.dogs[i], &way);
			check_way(&t, &way, i);
			far += t.distance[i] > 3;
			alone += !t.distance[i];
		}
		find_way(s, &t, t.dogs[0] + 8, &way);
		assert_int_equal(way.n, 0);
		find_way(s, &t, 0x7000, &way);
		assert_int_equal(way.n, 0);
		vec_free(&way);
		vec_free(&t.roots.objects);
		vec_free(&t.roots.links);
		shop_free(s);
	}
	assert_true(far > 50 && alone > 50);
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
		cmocka_unit_test(every_object_once),
		cmocka_unit_test(unfilled_room),
		cmocka_unit_test(large_objects),
		cmocka_unit_test(the_check_compares),
		cmocka_unit_test(flipped_bytes),
		cmocka_unit_test(outlines),
		cmocka_unit_test(emitted_types_have_names),
		cmocka_unit_test(shortest_ways),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
