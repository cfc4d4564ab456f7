#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"

enum { LOAD = 143, UNLOAD = 144, JITTING = 145 };
enum { DYNAMIC = 1, JITTED = 8, REJECTED = 0x40 };
#define TIER(n) ((uint32_t)(n) << 7)
#define US 1000ull

static void jitting(struct build_nettrace *b, uint64_t at_ns, uint64_t thread, uint64_t method, uint32_t il_bytes)
{
	struct buf payload = { 0 };
	build_u64(&payload, method);
	build_u64(&payload, 0);
	build_u32(&payload, 0x6000001);
	build_u32(&payload, il_bytes);
	build_utf16z(&payload, "");
	build_utf16z(&payload, "");
	build_utf16z(&payload, "");
	build_u16(&payload, 0);
	fixture_event(b, JITTING, at_ns, thread, 0, &payload);
	buf_free(&payload);
}

static void loaded(struct build_nettrace *b, uint64_t at_ns, uint64_t thread, uint64_t method, uint32_t size,
		   uint32_t flags, const char *space, const char *name)
{
	struct buf payload = { 0 };
	build_u64(&payload, method);
	build_u64(&payload, 0);
	build_u64(&payload, 0x1000 * method);
	build_u32(&payload, size);
	build_u32(&payload, 0x6000001);
	build_u32(&payload, flags);
	build_utf16z(&payload, space);
	build_utf16z(&payload, name);
	build_utf16z(&payload, "void ()");
	build_u16(&payload, 0);
	fixture_event(b, LOAD, at_ns, thread, 0, &payload);
	buf_free(&payload);
}

static void begin(struct fixture *f, struct build_nettrace *b)
{
	*b = (struct build_nettrace){ 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 20000 * MS);
	fixture_stream(b, (uint32_t[]){ LOAD, UNLOAD, JITTING }, 3);
}

static void examine(struct fixture *f, struct build_nettrace *b)
{
	fixture_end_stream(b);
	fixture_part(f->recording, "jit-0.nettrace", b);
	fixture_examine(f, "jit");
}

static const json_t *row_of(const json_t *rows, const char *name)
{
	const json_t *each;
	size_t i;
	json_array_foreach(rows, i, each)
	{
		const json_t *cells = json_object_get(each, "cells");
		if (str_eq(json_string_value(json_array_get(cells, 0)), name))
			return cells;
	}
	fail_msg("no row '%s'", name);
	return NULL;
}

static uint64_t number(const json_t *cells, size_t column)
{
	return (uint64_t)json_number_value(json_array_get(cells, column));
}

static void compilations_are_timed_on_their_threads(void **state UNUSED)
{
	struct build_nettrace b;
	struct fixture f;
	begin(&f, &b);
	/* Two threads at once, and one inside another. */
	jitting(&b, 1 * MS, 7, 1, 100);
	jitting(&b, 2 * MS, 7, 2, 50);
	loaded(&b, 3 * MS, 7, 2, 300, JITTED | TIER(3), "Shop.Inner", ".cctor");
	loaded(&b, 5 * MS, 7, 1, 800, JITTED | TIER(3), "Shop.Outer", "Run");
	b.last.sequence = 0;
	jitting(&b, 2 * MS, 8, 3, 10);
	loaded(&b, 9 * MS, 8, 3, 90, JITTED | TIER(4), "Shop.Hot", "Loop");
	/* Its beginning was before the window; and one that was given up. */
	loaded(&b, 10 * MS, 8, 4, 40, JITTED | TIER(3), "Shop.Early", "Run");
	jitting(&b, 11 * MS, 8, 5, 10);
	jitting(&b, 12 * MS, 8, 6, 10);
	loaded(&b, 13 * MS, 8, 5, 20, JITTED | TIER(3) | REJECTED, "Shop.Late", "Run");
	loaded(&b, 14 * MS, 8, 9, 20, TIER(2), "System.String", "Concat"); /* precompiled */
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_int_equal((int)fixture_figure(f.report, "Methods"), 5);
	assert_int_equal((uint64_t)fixture_figure(f.report, "Compiling"), (1 + 3 + 7 + 0 + 2) * MS);
	assert_int_equal((int)fixture_figure(f.report, "Machine code"), 300 + 800 + 90 + 40 + 20);
	assert_int_equal((int)fixture_figure(f.report, "Precompiled, rejected"), 1);
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "By method");
	assert_int_equal(number(row_of(rows, "Shop.Outer.Run"), 4), 3 * MS);
	assert_int_equal(number(row_of(rows, "Shop.Inner..cctor"), 4), 1 * MS);
	rows = fixture_rows(j, "By tier");
	assert_int_equal(number(row_of(rows, "tier 1"), 4), 7 * MS);
	assert_int_equal(number(row_of(rows, "tier 0"), 2), 4);
	json_decref(j);
	fixture_end(&f);
}

static void generics_over_ever_new_types(void **state UNUSED)
{
	struct build_nettrace b;
	struct fixture f;
	begin(&f, &b);
	for (uint64_t i = 0; i < 100; i++) {
		CLEANUP(mem_freep) char *space = mem_printf("Shop.Rule`1[Shop.Pair`2[A%u,B]]", (unsigned)i);
		jitting(&b, i * 200 * MS, 7, i, 20);
		loaded(&b, i * 200 * MS + 100 * US, 7, i, 30, JITTED | TIER(3), space, "Apply");
	}
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "generics-made-again");
	assert_true(fixture_says(f.report, "Shop.Rule.Apply was compiled 100 times (5/s)"));
	fixture_end(&f);
}

static void code_that_is_made_again_is_one_line(void **state UNUSED)
{
	struct build_nettrace b;
	struct fixture f;
	begin(&f, &b);
	for (uint64_t i = 0; i < 100; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("Regex%u_Scan", (unsigned)i);
		CLEANUP(mem_freep) char *space = mem_printf("Shop.Rule`1[Shop.Pair`2[A%u,B]]", (unsigned)i);
		jitting(&b, i * 200 * MS, 7, 2 * i, 0);
		loaded(&b, i * 200 * MS + 300 * US, 7, 2 * i, 80, JITTED | DYNAMIC | TIER(2), "dynamicClass", name);
		jitting(&b, i * 200 * MS + 400 * US, 7, 2 * i + 1, 20);
		loaded(&b, i * 200 * MS + 500 * US, 7, 2 * i + 1, 30, JITTED | TIER(3), space, "Apply");
	}
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "code-made-again");
	assert_true(fixture_says(f.report, "Regex#_Scan, a dynamic method, was compiled 100 times (5/s)"));
	assert_int_equal((int)fixture_figure(f.report, "Dynamic methods"), 100);
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "By method");
	assert_int_equal(json_array_size(rows), 2);
	assert_int_equal(number(row_of(rows, "Regex#_Scan"), 4), 100 * 300 * US);
	assert_int_equal(number(row_of(rows, "Shop.Rule.Apply"), 1), 100);
	json_decref(j);
	fixture_end(&f);
}

/* The same in a short time is a start, not a habit. */
static void a_start_is_told_from_a_habit(void **state UNUSED)
{
	struct build_nettrace b;
	struct fixture f;
	begin(&f, &b);
	for (uint64_t i = 0; i < 400; i++) {
		CLEANUP(mem_freep) char *space = mem_printf("System.List`1[A%u]", (unsigned)i);
		jitting(&b, i * 10 * MS, 7, i, 20);
		loaded(&b, i * 10 * MS + 9 * MS, 7, i, 30, JITTED | TIER(3) | (i % 4 ? 0 : REJECTED), space, ".ctor");
	}
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "precompiled-code-rejected");
	assert_true(fixture_says(f.report, "100 of them"));
	fixture_end(&f);
	begin(&f, &b);
	for (uint64_t i = 0; i < 400; i++) {
		jitting(&b, i * 10 * MS, 7, i, 20);
		loaded(&b, i * 10 * MS + 9 * MS, 7, i, 30, JITTED | TIER(3), "Shop.Start", i % 2 ? "Load" : "Wire");
	}
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "much-compilation");
	fixture_end(&f);
	begin(&f, &b);
	examine(&f, &b);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "nothing was compiled"));
	fixture_end(&f);
}

static void odd_events_do_no_harm(void **state UNUSED)
{
	struct build_nettrace b;
	struct fixture f;
	begin(&f, &b);
	struct buf payload = { 0 };
	for (size_t len = 0; len < 60; len++) {
		fixture_event(&b, len % 2 ? LOAD : JITTING, len, 7, 0, &payload);
		build_u8(&payload, 0xff);
	}
	buf_free(&payload);
	for (uint64_t i = 0; i < 1000; i++) /* never ends */
		jitting(&b, 100 + i, 7, i, 1);
	loaded(&b, 2000, 7, 999, 1, JITTED, "]]]][[[[", "]`[");
	loaded(&b, 2001, 7, 998, UINT32_MAX, UINT32_MAX, "", "");
	examine(&f, &b);
	assert_int_equal((int)fixture_figure(f.report, "Methods"), 2);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compilations_are_timed_on_their_threads),
		cmocka_unit_test(generics_over_ever_new_types),
		cmocka_unit_test(code_that_is_made_again_is_one_line),
		cmocka_unit_test(a_start_is_told_from_a_habit),
		cmocka_unit_test(odd_events_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
