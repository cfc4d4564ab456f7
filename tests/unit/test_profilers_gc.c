#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include <math.h>

enum { START = 1, END = 2, RESTARTED = 3, HEAP_STATS = 4, SUSPENDED = 8, SUSPEND = 9, TRIGGERED = 35, HISTORY = 204 };
enum { STACK = 5 };
static const uint32_t kinds[] = { START, END, RESTARTED, HEAP_STATS, SUSPENDED, SUSPEND, TRIGGERED, HISTORY };

#define MB (1ull << 20)

static void words(struct build_nettrace *b, uint32_t id, uint64_t at_ns, uint32_t stack, const uint32_t *list, size_t n)
{
	struct buf payload = { 0 };
	for (size_t i = 0; i < n; i++)
		build_u32(&payload, list[i]);
	build_u16(&payload, 0);
	fixture_event(b, id, at_ns, 7, stack, &payload);
	buf_free(&payload);
}

struct part {
	uint64_t before, free_before, after, free_after, promoted;
};

/* One collection: what the generations were before and after, as 5 parts. */
struct collection {
	uint64_t at_ns, pause_ns;
	uint32_t number, generation, reason, type;
	struct part parts[5];
	uint32_t heaps; /* 0 = 1; the parts are then divided */
	bool call;
};

static void add_history(struct build_nettrace *b, const struct collection *c, uint64_t at_ns)
{
	uint32_t heaps = MAX(c->heaps, 1u);
	for (uint32_t h = 0; h < heaps; h++) {
		struct buf payload = { 0 };
		build_u16(&payload, 0);
		for (int i = 0; i < 6; i++)
			build_u64(&payload, 0);
		for (int i = 0; i < 5; i++)
			build_u32(&payload, 0);
		build_u32(&payload, h);
		build_u64(&payload, 0);
		build_u32(&payload, 5);
		for (int g = 0; g < 5; g++) {
			const struct part *p = &c->parts[g];
			const uint64_t fields[10] = { p->before, p->free_before, 0, p->after, 0, p->free_after };
			for (int i = 0; i < 10; i++)
				build_u64(&payload, fields[i] / heaps);
		}
		fixture_event(b, HISTORY, at_ns, 7, 0, &payload);
		buf_free(&payload);
	}
}

static void add_stats(struct build_nettrace *b, const struct collection *c, uint64_t at_ns)
{
	struct buf payload = { 0 };
	for (int g = 0; g < 4; g++) {
		build_u64(&payload, c->parts[g].after);
		build_u64(&payload, c->parts[g].promoted);
	}
	build_u64(&payload, 0);
	build_u64(&payload, 0);
	build_u32(&payload, 3 + c->number); /* pinned */
	build_u32(&payload, 0);
	build_u32(&payload, 70 + c->number); /* handles */
	build_u16(&payload, 0);
	build_u64(&payload, c->parts[4].after);
	build_u64(&payload, c->parts[4].promoted);
	fixture_event(b, HEAP_STATS, at_ns, 7, 0, &payload);
	buf_free(&payload);
}

static void add_collection(struct build_nettrace *b, const struct collection *c)
{
	uint64_t end = c->at_ns + c->pause_ns;
	words(b, SUSPEND, c->at_ns, 0, (uint32_t[]){ 1, c->number - 1 }, 2);
	words(b, SUSPENDED, c->at_ns + 1000, 0, NULL, 0);
	words(b, TRIGGERED, c->at_ns + 2000, c->call ? STACK : 0, (uint32_t[]){ c->reason }, 1);
	words(b, START, c->at_ns + 3000, 0, (uint32_t[]){ c->number, c->generation, c->reason, c->type }, 4);
	add_history(b, c, end - 3000);
	words(b, END, end - 2000, 0, (uint32_t[]){ c->number, c->generation }, 2);
	add_stats(b, c, end - 1000);
	words(b, RESTARTED, end, 0, NULL, 0);
}

static void gc_report(struct fixture *f, const char *runtime, const struct collection *list, size_t n)
{
	struct build_nettrace gc = { 0 }, calls = { 0 }, names = { 0 };
	bool one = !str_starts(runtime, "10.");
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup(runtime);
	fixture_window(f->recording, 10000 * MS);
	fixture_stream(&gc, kinds, ARRAY_SIZE(kinds));
	build_nettrace_stack(&gc, STACK, (uint64_t[]){ 0x1010, 0x2021 }, 2);
	fixture_stream(&calls, (uint32_t[]){ TRIGGERED }, 1);
	build_nettrace_stack(&calls, STACK, (uint64_t[]){ 0x1010, 0x2021 }, 2);
	for (size_t i = 0; i < n; i++) {
		add_collection(&gc, &list[i]);
		words(&calls, TRIGGERED, list[i].at_ns + 2000, STACK, (uint32_t[]){ list[i].reason }, 1);
	}
	fixture_end_stream(&gc);
	fixture_end_stream(&calls);
	fixture_names(&names,
		      (struct fixture_method[]){ { 0x1000, "System.GC", "Collect" },
						 { 0x2000, "Shop.MonthEnd", "CloseBooks" } },
		      2);
	fixture_part(f->recording, "gc-0.nettrace", &gc);
	if (one)
		build_nettrace_free(&calls);
	else
		fixture_part(f->recording, "calls-0.nettrace", &calls);
	fixture_part(f->recording, "late-names-0.nettrace", &names);
	fixture_examine(f, "gc-stats");
}

static const json_t *cells(const json_t *rows, size_t row)
{
	return json_object_get(json_array_get(rows, row), "cells");
}

static double number(const json_t *rows, size_t row, size_t column)
{
	return json_number_value(json_array_get(cells(rows, row), column));
}

static const char *text(const json_t *rows, size_t row, size_t column)
{
	return json_string_value(json_array_get(cells(rows, row), column));
}

static void near(double value, double wanted)
{
	if (fabs(value - wanted) > fabs(wanted) * 1e-6)
		fail_msg("%.9g is not %.9g", value, wanted);
}

/* Ten collections a second apart; each finds 30 MB in generation 0 of which 1 MB survives, and 5 MB more among large
 * objects than the last one left there. */
static void steady(struct collection *list, size_t n, uint32_t generation, uint32_t reason, uint64_t pause_ns)
{
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct collection){
			.at_ns = (i * 1000 + 100) * MS,
			.pause_ns = pause_ns,
			.number = i + 1,
			.generation = generation,
			.reason = reason,
			.call = reason == 1,
			.parts = { { .before = 30 * MB, .promoted = MB },
				   { .before = MB, .after = MB, .promoted = 0 },
				   { .before = 100 * MB, .after = 100 * MB, .free_after = 10 * MB },
				   { .before = 20 * MB,
				     .free_before = 5 * MB,
				     .after = 20 * MB,
				     .free_after = 10 * MB },
				   { .before = MB, .after = MB } },
		};
}

static void collections_are_counted_and_weighed(void **state UNUSED)
{
	struct collection list[10];
	for (uint32_t heaps = 1; heaps <= 2; heaps++) {
		struct fixture f;
		steady(list, ARRAY_SIZE(list), 0, 0, 60 * MS);
		for (size_t i = 0; i < ARRAY_SIZE(list); i++)
			list[i].heaps = heaps;
		gc_report(&f, "9.0.20", list, ARRAY_SIZE(list));
		assert_string_equal(report_finding(f.report), "much-time-in-gc");
		near(fixture_figure(f.report, "Collections"), 10);
		near(fixture_figure(f.report, "Time in GC"), 0.06);
		near(fixture_figure(f.report, "Allocated per second"), (30 + 5) * MB);
		near(fixture_figure(f.report, "Heap after a GC"), 122 * MB);
		json_t *j = fixture_json(f.report);
		const json_t *rows = fixture_rows(j, "Collections by kind");
		assert_int_equal(json_array_size(rows), 1);
		assert_string_equal(text(rows, 0, 0), "gen 0 blocking GC, small-object allocation");
		near(number(rows, 0, 1), 10);
		near(number(rows, 0, 3), 600 * MS);
		near(number(rows, 0, 4), 10 * MB);
		near(number(rows, 0, 5), 1.0 / 30);
		rows = fixture_rows(j, "The heap");
		near(number(rows, 2, 2), 100 * MB);
		near(number(rows, 2, 4), 10 * MB);
		near(number(rows, 0, 5), 10 * MB);
		rows = fixture_rows(j, "What holds objects in place or alive");
		near(number(rows, 0, 1), 4);
		near(number(rows, 0, 2), 13);
		near(number(rows, 1, 3), 80);
		assert_null(fixture_rows(j, "Who asked for collections"));
		json_decref(j);
		fixture_end(&f);
	}
}

static void who_asked_is_named(void **state UNUSED)
{
	static const char *const runtimes[] = { "8.0.31", "10.0.12" };
	for (size_t r = 0; r < ARRAY_SIZE(runtimes); r++) {
		struct collection list[10];
		struct fixture f;
		steady(list, ARRAY_SIZE(list), 2, 1, 30 * MS);
		list[9].reason = list[9].generation = 0;
		list[9].call = false;
		gc_report(&f, runtimes[r], list, ARRAY_SIZE(list));
		assert_string_equal(report_finding(f.report), "induced-collections");
		assert_true(fixture_says(f.report, "9 of them were asked for by code"));
		assert_true(fixture_says(f.report, "in Shop.MonthEnd.CloseBooks."));
		json_t *j = fixture_json(f.report);
		const json_t *rows = fixture_rows(j, "Who asked for collections");
		assert_int_equal(json_array_size(rows), 1);
		assert_string_equal(text(rows, 0, 0), "Shop.MonthEnd.CloseBooks");
		near(number(rows, 0, 2), 9);
		near(number(rows, 0, 3), 9 * 30 * MS);
		json_decref(j);
		fixture_end(&f);
	}
}

static void findings_are_told_apart(void **state UNUSED)
{
	struct collection list[120];
	struct fixture f;
	steady(list, 10, 2, 4, 15 * MS);
	gc_report(&f, "10.0.12", list, 10);
	assert_string_equal(report_finding(f.report), "frequent-full-collections");
	fixture_end(&f);

	steady(list, ARRAY_SIZE(list), 0, 0, 2 * MS);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i].at_ns = (i * 80 + 1) * MS;
	gc_report(&f, "10.0.12", list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "frequent-collections");
	fixture_end(&f);

	steady(list, 3, 0, 0, MS);
	gc_report(&f, "10.0.12", list, 3);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	for (size_t i = 0; i < 3; i++)
		list[i].parts[2].free_after = 90 * MB;
	gc_report(&f, "10.0.12", list, 3);
	assert_string_equal(report_finding(f.report), "fragmented-heap");
	fixture_end(&f);

	gc_report(&f, "10.0.12", NULL, 0);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "no garbage collection in 10 s"));
	fixture_end(&f);
}

/* A background GC runs beside the program, and a young one runs inside it. */
static void background_time_is_not_pause_time(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("9.0.20");
	fixture_window(f.recording, 10000 * MS);
	fixture_stream(&b, kinds, ARRAY_SIZE(kinds));
	words(&b, SUSPEND, 100 * MS, 0, (uint32_t[]){ 1, 0 }, 2);
	words(&b, SUSPENDED, 101 * MS, 0, NULL, 0);
	words(&b, START, 102 * MS, 0, (uint32_t[]){ 1, 2, 0, 1 }, 4);
	words(&b, RESTARTED, 104 * MS, 0, NULL, 0);
	add_collection(&b, &(struct collection){ .at_ns = 300 * MS, .pause_ns = 5 * MS, .number = 2, .type = 2 });
	words(&b, SUSPEND, 600 * MS, 0, (uint32_t[]){ 6, 1 }, 2);
	words(&b, SUSPENDED, 601 * MS, 0, NULL, 0);
	words(&b, RESTARTED, 603 * MS, 0, NULL, 0);
	words(&b, END, 1102 * MS, 0, (uint32_t[]){ 1, 2 }, 2);
	fixture_end_stream(&b);
	fixture_part(f.recording, "gc-0.nettrace", &b);
	fixture_examine(&f, "gc-stats");
	near(fixture_figure(f.report, "Collections"), 2);
	near(fixture_figure(f.report, "Time in GC"), 0.0012);
	near(fixture_figure(f.report, "In the background"), 1000 * MS);
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "Collections by kind");
	assert_string_equal(text(rows, 0, 0), "gen 2 background GC, small-object allocation");
	near(number(rows, 0, 3), 7 * MS);
	json_decref(j);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collections_are_counted_and_weighed),
		cmocka_unit_test(who_asked_is_named),
		cmocka_unit_test(findings_are_told_apart),
		cmocka_unit_test(background_time_is_not_pause_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
