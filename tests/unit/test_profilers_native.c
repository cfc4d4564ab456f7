/* What native-memory says of looks that were recorded. The looks themselves: test_malloc.c, tests/e2e/test_native_memory.py. */
#include "unit.h"

#include "exam_fixture.h"
#include "memory/native_look.h"
#include "recording/recording.h"

#define MB ((uint64_t)1 << 20)
#define SECOND (1000 * (uint64_t)MS)
#define HOUR (3600 * SECOND)

/* A process of 100 MB with nothing wrong. */
static struct native_look healthy(void)
{
	struct native_look l = { .pages_known = true, .threads = 20, .understood = true, .n_arenas = 2 };
	l.allocator = (struct malloc_allocator){ MALLOC_GLIBC, "libc.so.6" };
	l.mapped_known = l.mapped_found = true;
	l.kind[NATIVE_HEAP] = 30 * MB;
	l.kind[NATIVE_USED] = 20 * MB;
	l.kind[NATIVE_TRIMMABLE] = 5 * MB;
	l.kind[NATIVE_LIBRARIES] = 45 * MB;
	return l;
}

static void keep(struct fixture *f, unsigned number, struct native_look *l)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct recording_part *part;
	char name[32], key[64];
	l->rss = 0;
	for (unsigned k = 0; k < NATIVE_KINDS; k++)
		l->rss += l->kind[k];
	buf_add(&out, "DRLOOK\0", 8);
	buf_u32(&out, NATIVE_LOOK_VERSION);
	native_look_write(l, &out);
	snprintf(name, sizeof(name), "native-%u", number);
	assert_ok(recording_part_new(f->recording, name, "look", &part));
	recording_part_write(part, out.data, out.len);
	recording_part_close(part, true);
	snprintf(key, sizeof(key), "look-%s", name);
	json_t *fact = json_pack("{s:I, s:I}", "at_ns", (json_int_t)(WINDOW_START + (number - 1) * 20 * SECOND),
				 "pause_ns", (json_int_t)3 * MS);
	recording_set_fact(f->recording, key, fact);
	json_decref(fact);
}

static void examine(struct fixture *f, struct native_look *looks, size_t n, uint64_t age_ns)
{
	fixture_begin(f);
	fixture_window(f->recording, (n - 1) * 20 * SECOND);
	for (unsigned i = 0; i < n; i++)
		keep(f, i + 1, &looks[i]);
	json_t *age = json_integer((json_int_t)age_ns);
	recording_set_fact(f->recording, "process_age_ns", age);
	json_decref(age);
	f->way = WAY_IMAGE;
	fixture_examine(f, "native-memory");
}

static void assert_finding(struct native_look l, const char *finding, enum report_health health)
{
	struct fixture f;
	examine(&f, &l, 1, HOUR);
	assert_string_equal(report_finding(f.report), finding);
	assert_int_equal(report_health(f.report), health);
	fixture_end(&f);
}

static void the_largest_kind_is_named(void **state UNUSED)
{
	static const struct {
		enum native_kind kind;
		uint64_t mb;
		const char *finding;
		enum report_health health;
	} cases[] = {
		{ NATIVE_HEAP, 400, "managed-heap", REPORT_OK },
		{ NATIVE_USED, 400, "native-in-use", REPORT_INFO },
		{ NATIVE_TRIMMABLE, 400, "trimmable", REPORT_WARN },
		{ NATIVE_SCATTERED, 400, "fragmented", REPORT_WARN },
		{ NATIVE_STACKS, 400, "stacks", REPORT_INFO },
		{ NATIVE_OLD_STACKS, 400, "stacks", REPORT_INFO },
		{ NATIVE_OTHER, 400, "mappings", REPORT_INFO },
		{ NATIVE_LOADER, 400, "code-and-types", REPORT_INFO },
		{ NATIVE_FILES, 400, "files", REPORT_INFO },
		/* As much as any process has. */
		{ NATIVE_USED, 140, "nothing-found", REPORT_OK },
		{ NATIVE_TRIMMABLE, 90, "nothing-found", REPORT_OK },
		{ NATIVE_STACKS, 100, "nothing-found", REPORT_OK },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct native_look l = healthy();
		l.kind[cases[i].kind] = cases[i].mb * MB;
		assert_finding(l, cases[i].finding, cases[i].health);
	}
	assert_finding(healthy(), "nothing-found", REPORT_OK);
}

/* Of several that are large the largest, not the first. */
static void what_is_larger_comes_first(void **state UNUSED)
{
	struct native_look l = healthy();
	l.kind[NATIVE_USED] = 400 * MB;
	l.kind[NATIVE_TRIMMABLE] = 500 * MB;
	assert_finding(l, "trimmable", REPORT_WARN);
	l.kind[NATIVE_HEAP] = 600 * MB;
	assert_finding(l, "managed-heap", REPORT_OK);
}

/* Arenas that were not understood, and mapped chunks that were not found, lie in what has no name: nobody is accused. */
static void what_is_not_understood_accuses_nobody(void **state UNUSED)
{
	struct native_look l = healthy();
	struct fixture f;
	l.kind[NATIVE_OTHER] = 300 * MB;
	l.doubtful = 1;
	l.doubtful_bytes = 290 * MB;
	examine(&f, &l, 1, HOUR);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "arenas not understood 290 MB"));
	fixture_end(&f);
	l.doubtful = 0;
	l.doubtful_bytes = 0;
	l.mapped_found = false;
	l.mapped.bytes = 290 * MB;
	assert_finding(l, "nothing-found", REPORT_OK);
}

static void an_allocator_that_is_not_read(void **state UNUSED)
{
	struct native_look l = healthy();
	struct fixture f;
	l.allocator = (struct malloc_allocator){ MALLOC_JEMALLOC, "libjemalloc.so.2" };
	l.understood = false;
	l.n_arenas = 0;
	l.kind[NATIVE_OTHER] = 400 * MB;
	examine(&f, &l, 1, HOUR);
	assert_string_equal(report_finding(f.report), "other-allocator");
	assert_true(fixture_says(f.report, "Its allocator is jemalloc, whose heap is not read."));
	fixture_end(&f);
}

/* Chunks of 1,008 bytes grow by 20 MB at each look, and so does the process. */
static void grows(struct native_look looks[4], enum native_kind kind, const uint64_t mb[4])
{
	for (unsigned i = 0; i < 4; i++) {
		looks[i] = healthy();
		looks[i].kind[kind] = mb[i] * MB;
		looks[i].n_sizes = 2;
		vec_push(&looks[i].sizes, ((struct malloc_size){ 1008, 1000 + 20000 * (uint64_t)i }));
		vec_push(&looks[i].sizes, ((struct malloc_size){ 48, 5000 - i }));
	}
}

static void looks_free(struct native_look looks[4])
{
	for (unsigned i = 0; i < 4; i++)
		native_look_fini(&looks[i]);
}

static void what_grows_is_told_with_its_size(void **state UNUSED)
{
	struct native_look looks[4];
	struct fixture f;
	grows(looks, NATIVE_USED, (const uint64_t[]){ 20, 40, 60, 80 });
	examine(&f, looks, 4, HOUR);
	assert_string_equal(report_finding(f.report), "native-grows");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	assert_true(fixture_says(f.report, "grows by 60 MB a minute"));
	assert_true(fixture_says(f.report, "chunks of 1,008 bytes: +60,000 in 1 min"));
	json_t *json = fixture_json(f.report);
	const json_t *rows = fixture_rows(json, "Chunks that became more, by size");
	assert_int_equal(json_array_size(rows), 1);
	json_decref(json);
	fixture_end(&f);
	/* Two looks are no direction. */
	examine(&f, looks, 2, HOUR);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* It has just started. */
	examine(&f, looks, 4, 10 * SECOND);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	looks_free(looks);
}

static void what_does_not_go_on_is_no_growth(void **state UNUSED)
{
	static const uint64_t steps[][4] = {
		{ 20, 60, 79, 80 }, { 20, 60, 40, 80 }, { 80, 60, 40, 20 }, { 20, 20, 20, 20 }
	};
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct native_look looks[4];
		struct fixture f;
		grows(looks, NATIVE_USED, steps[i]);
		examine(&f, looks, 4, HOUR);
		assert_string_equal(report_finding(f.report), "nothing-found");
		fixture_end(&f);
		looks_free(looks);
	}
}

static void a_large_kind_says_whether_it_grew(void **state UNUSED)
{
	static const struct {
		uint64_t mb[4];
		size_t looks;
		const char *words;
	} cases[] = { { { 400, 401, 400, 400 }, 4, "It did not grow in 1 min." },
		      { { 400, 440, 450, 451 }, 4, "It grew by 51 MB in 1 min, but not steadily." },
		      { { 400, 440 }, 2, "Whether it grows is not known." },
		      { { 400 }, 1, "Whether it grows is not known." } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct native_look looks[4];
		struct fixture f;
		grows(looks, NATIVE_USED, cases[i].mb);
		examine(&f, looks, cases[i].looks, HOUR);
		assert_string_equal(report_finding(f.report), "native-in-use");
		assert_true(fixture_says(f.report, cases[i].words));
		fixture_end(&f);
		looks_free(looks);
	}
}

/* What one kind takes another gives: the process does not grow. */
static void a_process_that_does_not_grow(void **state UNUSED)
{
	struct native_look looks[4];
	struct fixture f;
	grows(looks, NATIVE_USED, (const uint64_t[]){ 20, 40, 60, 80 });
	for (unsigned i = 0; i < 4; i++)
		looks[i].kind[NATIVE_TRIMMABLE] = (80 - 20 * i) * MB;
	examine(&f, looks, 4, HOUR);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	looks_free(looks);
}

static void other_kinds_grow_too(void **state UNUSED)
{
	static const struct {
		enum native_kind kind;
		const char *finding;
	} cases[] = { { NATIVE_STACKS, "stacks-grow" }, { NATIVE_OTHER, "mappings-grow" },
		      { NATIVE_LOADER, "code-grows" },	{ NATIVE_SCATTERED, "fragmentation-grows" },
		      { NATIVE_HEAP, "nothing-found" }, /* between two collections any heap does */
		      { NATIVE_FILES, "nothing-found" } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct native_look looks[4];
		struct fixture f;
		grows(looks, cases[i].kind, (const uint64_t[]){ 20, 40, 60, 80 });
		examine(&f, looks, 4, HOUR);
		assert_string_equal(report_finding(f.report), cases[i].finding);
		fixture_end(&f);
		looks_free(looks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_kind_is_named),
		cmocka_unit_test(what_is_larger_comes_first),
		cmocka_unit_test(what_is_not_understood_accuses_nobody),
		cmocka_unit_test(an_allocator_that_is_not_read),
		cmocka_unit_test(what_grows_is_told_with_its_size),
		cmocka_unit_test(what_does_not_go_on_is_no_growth),
		cmocka_unit_test(a_large_kind_says_whether_it_grew),
		cmocka_unit_test(a_process_that_does_not_grow),
		cmocka_unit_test(other_kinds_grow_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
