#include "base/str.h"
#include "model/calltree.h"
#include "report/compare.h"
#include "unit.h"
#include <math.h>

static void add_stack(struct calltree *t, uint64_t weight, const char *a, const char *b)
{
	uint32_t path[] = { calltree_frame(t, a, FRAME_CODE), calltree_frame(t, b, FRAME_CODE) };
	calltree_add(t, path, 2, weight);
}

/* Tax at `tax` of 100, the rest Discount; `rest` says that rows were left out. */
static struct report *build(unsigned tax, uint64_t window_ns, bool rest)
{
	struct report *r = report_new();
	struct report_facts facts = { .profiler = "cpu-hotpaths",
				      .title = "CPU hotpaths",
				      .process = "Shop",
				      .window_ns = window_ns,
				      .session = "7f3c0000-0000-0000-0000-000000000000" };
	report_set_facts(r, &facts);
	rich_text(report_verdict(r, REPORT_INFO, "hot-path"), "v");
	report_figure(r, "Cores busy", V_NUMBER(tax / 10.0), NULL);
	struct report_table *t = report_table(r, "Hottest methods");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "Self", VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	if (tax)
		report_row(t, (struct value[]){ V_CODE("Shop.Tax"), V_RATIO(tax / 100.0) });
	report_row(t, (struct value[]){ V_CODE("Shop.Discount"), V_RATIO((100 - tax) / 100.0 - 0.05) });
	report_row(t, (struct value[]){ V_CODE("<b>same</b>"), V_RATIO(0.05) });
	if (rest)
		report_rest(t, (struct value[]){ V_TEXT("3 more methods"), V_RATIO(0.01) });
	struct calltree *tree = calltree_new(100);
	if (tax)
		add_stack(tree, tax, "Main", "Shop.Tax");
	add_stack(tree, 100 - tax, "Main", "Shop.Discount");
	calltree_sort(tree);
	report_flame(r, "Flame graph", tree, VALUE_NS);
	calltree_free(tree);
	return r;
}

static void contains(const struct buf *b, const char *text)
{
	if (!strstr(buf_cstr(b), text))
		fail_msg("no \"%s\" in:\n%s", text, buf_cstr(b));
}

static struct report *compared(unsigned before, unsigned after, struct buf *text, struct buf *html)
{
	CLEANUP(report_freep) struct report *a = build(before, 1000000000, false), *b = build(after, 1000000000, false);
	struct report *r = NULL;
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, text);
	report_render_html(r, html);
	return r;
}

static void the_largest_change_comes_first(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf text = { 0 }, html = { 0 }, json = { 0 }, again = { 0 };
	CLEANUP(report_freep) struct report *r = compared(20, 70, &text, &html), *back = NULL;
	assert_string_equal(report_finding(r), "grew");
	contains(&text, "Shop.Tax grew most: from 20 % to 70 % (Hottest methods, Self).");
	contains(&text, "Cores busy 7 (before: 2, +250 %)");
	contains(&text, "20 %   70 %   +50 %");
	contains(&text, "75 %   25 %   -50 %");
	assert_null(strstr(buf_cstr(&text), "same</b>")); /* what did not change is only counted */
	contains(&text, "1 other as before");
	contains(&html, "data-c=\"0.500000\"");
	contains(&html, "data-c=\"-0.500000\"");
	contains(&html, "c-up3");
	report_render_json(r, &json);
	assert_ok(report_from_json(json.data, json.len, &back));
	report_render_html(back, &again);
	assert_string_equal(buf_cstr(&again), buf_cstr(&html));
}

static void what_came_and_what_went(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf text = { 0 }, html = { 0 }, other = { 0 };
	report_free(compared(0, 60, &text, &html));
	contains(&text, "Shop.Tax grew most: from 0 % to 60 %");
	report_free(compared(60, 0, &other, &html));
	contains(&other, "Shop.Discount grew most: from 35 % to 95 %");
	contains(&other, "Shop.Tax             60 %    0 %   -60 %");
}

static void what_one_side_does_not_show_is_not_zero(void **state UNUSED)
{
	CLEANUP(report_freep)
	struct report *a = build(0, 1000000000, true), *b = build(60, 1000000000, false), *r = NULL, *other = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, &text);
	contains(&text, "Shop.Tax                –   60 %       –");
	assert_ok(report_compare(b, a, &other));
	buf_clear(&text);
	report_render_text(other, NULL, &text);
	contains(&text, "Shop.Tax             60 %      –       –");
}

static void equal_reports_have_no_change(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf text = { 0 }, html = { 0 };
	CLEANUP(report_freep) struct report *r = compared(30, 31, &text, &html);
	assert_string_equal(report_finding(r), "no-change");
	contains(&text, "Nothing of note changed between the two: Shop.Tax grew most, from 30 % to 31 % (Hottest");
	buf_clear(&text);
	report_free(compared(30, 30, &text, &html));
	contains(&text, "Nothing of note changed between the two.\n");
}

static struct report *build_holders(unsigned objects, unsigned bytes)
{
	struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .profiler = "memory-leaks" });
	rich_text(report_verdict(r, REPORT_BAD, "leak"), "v");
	struct report_table *t = report_table(r, "Holders");
	report_column(t, "Holder", VALUE_CODE, 0);
	report_column(t, "Last seen", VALUE_TIME, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Grew by", VALUE_BYTES, 0);
	report_row(t, (struct value[]){ V_CODE("Shop._carts"), V_TIME(1), V_COUNT(objects), V_BYTES(bytes) });
	return r;
}

static void amounts_tell_more_than_counts(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *a = build_holders(9, 1000), *b = build_holders(9, 9000), *r = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, &text);
	contains(&text, "Shop._carts grew most: from 1000 bytes to 8.8 KB (Holders, Grew by).");
}

static void windows_that_differ_are_said(void **state UNUSED)
{
	CLEANUP(report_freep)
	struct report *a = build(20, 1000000000, false), *b = build(70, 3000000000, false), *r = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, &text);
	contains(&text, "The windows differ: 1 s before, 3 s after.");
}

static void different_profilers_are_refused(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *a = build(20, 1, false), *b = report_new(), *r = NULL;
	report_set_facts(b, &(struct report_facts){ .profiler = "exceptions" });
	assert_err(report_compare(a, b, &r), ERR_USAGE);
	/* Documents with nothing to compare are still documents. */
	CLEANUP(report_freep) struct report *c = report_new(), *d = report_new();
	assert_ok(report_compare(c, d, &r));
	assert_string_equal(report_finding(r), "no-change");
}

/* One row of a table of that kind, and a figure, in numbers of that kind. */
static struct report *build_one(enum value_kind kind, const char *row, double number)
{
	struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .profiler = "exceptions" });
	struct value v = { .kind = kind, .number = number };
	report_figure(r, "Figure", v, NULL);
	struct report_table *t = report_table(r, "Rows");
	report_column(t, "Name", VALUE_CODE, 0);
	report_column(t, "Value", kind, COLUMN_MAIN);
	if (row)
		report_row(t, (struct value[]){ V_CODE(row), v });
	return r;
}

static json_t *compared_json(const struct report *a, const struct report *b)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, false);
	json_t *json = NULL;
	jsonw_object(&w, NULL);
	assert_ok(report_compare_json(a, b, &w));
	jsonw_object_end(&w);
	assert_ok(json_parse(buf_cstr(&text), text.len, text.len, &json));
	return json;
}

/* The verdict, the document's table, the row and the figure for programs: all by one rule. */
static void check_threshold(enum value_kind kind, double before, double after, const char *status)
{
	CLEANUP(report_freep) struct report *a = build_one(kind, "N", before), *b = build_one(kind, "N", after);
	CLEANUP(report_freep) struct report *r = NULL;
	CLEANUP(json_decrefp) json_t *json = compared_json(a, b);
	CLEANUP(buf_free) struct buf html = { 0 };
	bool changed = !str_eq(status, "same");
	assert_ok(report_compare(a, b, &r));
	assert_string_equal(report_finding(r), changed ? status : "no-change");
	report_render_html(r, &html);
	assert_int_equal(strstr(buf_cstr(&html), "Rows: Value") != NULL, changed);
	const json_t *table = json_array_get(json_object_get(json, "tables"), 0),
		     *row = json_array_get(json_object_get(table, "rows"), 0),
		     *figure = json_array_get(json_object_get(json, "figures"), 0);
	assert_string_equal(json_get_str(row, "status", ""), status);
	assert_string_equal(json_get_str(figure, "status", ""), status);
	assert_true(fabs(json_number_value(json_object_get(row, "change")) - (after - before)) < 1e-9);
}

static void noise_is_no_change(void **state UNUSED)
{
	/* Points of a share, whatever it was. */
	check_threshold(VALUE_RATIO, 0.50, 0.515, "same");
	check_threshold(VALUE_RATIO, 0.50, 0.52, "grew");
	check_threshold(VALUE_RATIO, 0.005, 0.015, "same");
	check_threshold(VALUE_RATIO, 0.05, 0.02, "shrank");
	/* A tenth of the larger one of anything else, in any unit. */
	enum value_kind kinds[] = { VALUE_COUNT, VALUE_BYTES, VALUE_NS, VALUE_RATE, VALUE_NUMBER };
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		check_threshold(kinds[i], 1000, 1000, "same");
		check_threshold(kinds[i], 1000, 1099, "same");
		check_threshold(kinds[i], 1000, 1120, "grew");
		check_threshold(kinds[i], 1000, 901, "same");
		check_threshold(kinds[i], 1000, 900, "shrank");
		check_threshold(kinds[i], 1e12, 1.2e12, "grew");
	}
}

static void figures_say_by_how_much(void **state UNUSED)
{
	static const struct {
		enum value_kind kind;
		double before, after;
		const char *words;
	} cases[] = {
		{ VALUE_COUNT, 4, 4, "\"context\":\"as before\"" },
		{ VALUE_COUNT, 100, 105, "before: 100, about the same\"" },
		{ VALUE_NS, 1e9, 3e9, "before: 1 s, +200 %\"" },
		{ VALUE_BYTES, 4096, 1024, "before: 4 KB, -75 %\"" },
		{ VALUE_RATIO, 0.2, 0.5, "before: 20 %, +30 points\"" },
		{ VALUE_COUNT, 0, 7, "before: 0\"" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(report_freep)
		struct report *a = build_one(cases[i].kind, "N", cases[i].before),
			      *b = build_one(cases[i].kind, "N", cases[i].after), *r = NULL;
		CLEANUP(buf_free) struct buf text = { 0 };
		assert_ok(report_compare(a, b, &r));
		report_render_json(r, &text);
		contains(&text, cases[i].words);
	}
}

static void new_and_gone(void **state UNUSED)
{
	CLEANUP(report_freep)
	struct report *a = build_one(VALUE_COUNT, "Old", 5), *b = build_one(VALUE_COUNT, "New", 9);
	CLEANUP(json_decrefp) json_t *json = compared_json(a, b);
	const json_t *rows = json_object_get(json_array_get(json_object_get(json, "tables"), 0), "rows"),
		     *first = json_array_get(rows, 0), *second = json_array_get(rows, 1);
	assert_string_equal(json_get_str(first, "status", ""), "new");
	assert_true(json_is_null(json_object_get(first, "before")));
	assert_int_equal(json_number_value(json_object_get(first, "change")), 9);
	assert_string_equal(json_get_str(second, "status", ""), "gone");
	assert_true(json_is_null(json_object_get(second, "after")));
	assert_int_equal(json_number_value(json_object_get(second, "change")), -5);
}

static struct report *build_two_names(const char *where, const char *state, unsigned count)
{
	struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .profiler = "exceptions" });
	struct report_table *t = report_table(r, "Thrown");
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "Count", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Where", VALUE_CODE, 0);
	report_column(t, "State", VALUE_TEXT, 0);
	report_row(t, (struct value[]){ V_CODE("Shop.Bad"), V_COUNT(5), V_CODE("Shop.A"), V_TEXT("x") });
	report_row(t, (struct value[]){ V_CODE("Shop.Bad"), V_COUNT(count), V_CODE(where), V_TEXT(state) });
	return r;
}

static void rows_are_told_apart_by_all_their_names(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *a = build_two_names("Shop.B", "odd", 10), *r = NULL;
	CLEANUP(report_freep) struct report *b = build_two_names("Shop.B", "even", 40);
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, &text);
	contains(&text, "Shop.Bad, Shop.B grew most: from 10 to 40 (Thrown, Count).");
	contains(&text, "1 other as before");
}

static void frames_are_compared_with_what_they_call(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *a = build(20, 1, false), *b = build(70, 1, false), *r = NULL;
	CLEANUP(json_decrefp) json_t *json = compared_json(a, b);
	const json_t *frames = json_array_get(json_object_get(json, "tables"), 1),
		     *rows = json_object_get(frames, "rows");
	assert_string_equal(json_get_str(frames, "title", ""), "Flame graph");
	assert_int_equal(json_array_size(rows), 3);
	assert_string_equal(json_string_value(json_array_get(json_object_get(json_array_get(rows, 0), "names"), 0)),
			    "Shop.Tax");
	assert_float_equal(json_number_value(json_object_get(json_array_get(rows, 0), "change")), 0.5, 1e-9);
	assert_string_equal(json_get_str(json_array_get(rows, 2), "status", ""), "same"); /* Main: all of both */
	CLEANUP(buf_free) struct buf doc = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_json(r, &doc);
	contains(&doc, "\"compared\":true,\"nodes\":[[0,0,0,100,0]");
	contains(&doc, "\"signed\":true");
	/* A frame that calls itself counts once. */
	struct calltree *tree = calltree_new(100);
	uint32_t f = calltree_frame(tree, "Loop", FRAME_CODE);
	calltree_add(tree, (uint32_t[]){ f, f, f }, 3, 10);
	CLEANUP(report_freep) struct report *c = report_new();
	report_flame(c, "Flame graph", tree, VALUE_NS);
	calltree_free(tree);
	CLEANUP(json_decrefp) json_t *self = compared_json(c, c);
	rows = json_object_get(json_array_get(json_object_get(self, "tables"), 0), "rows");
	assert_float_equal(json_number_value(json_object_get(json_array_get(rows, 0), "after")), 1, 1e-9);
}

#define SAMPLE_WHEN INT64_C(1794712329114000000) /* 2026-11-15 03:12:09.114Z */

/* A diagnosis: findings that weigh something, one that was ruled out, and a section. */
static struct report *build_findings(const char *const *ids, const unsigned *severities, size_t n, const char *out,
				     double cpu)
{
	struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .profiler = "diagnose",
						    .title = "Diagnosis",
						    .process = "Shop",
						    .when_unix_ns = SAMPLE_WHEN });
	report_figure(r, "CPU", V_NUMBER(cpu), NULL);
	rich_text(report_verdict(r, REPORT_INFO, n ? ids[0] : "healthy"), "So it is.");
	struct report_findings *list = report_findings(r, "Also seen", false);
	for (size_t i = 0; i < n; i++)
		rich_text(report_finding_add(list, ids[i], severities[i], "Certain"), "It is so.");
	list = report_findings(r, "Ruled out", true);
	rich_text(report_finding_add(list, out, 0, NULL), "%s (none)", out);
	rich_text(report_section(r, "Exceptions", "exceptions", REPORT_OK, "nothing-found"), "None.");
	return r;
}

static void what_a_diagnosis_finds_is_compared(void **state UNUSED)
{
	static const char *const was[] = { "gc-pressure", "inotify", "exceptions.many", "thread-pool.starvation" };
	static const char *const is[] = { "gc-pressure", "descriptors" };
	CLEANUP(report_freep)
	struct report *a = build_findings(was, (unsigned[]){ 40, 30, 60, 70 }, 4, "dns-slow", 0.2);
	CLEANUP(report_freep) struct report *b = build_findings(is, (unsigned[]){ 80, 90 }, 2, "inotify", 1.9);
	CLEANUP(report_freep) struct report *r = NULL, *back = NULL, *same = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	assert_string_equal(report_finding(r), "got-worse");
	report_render_text(r, &(struct report_text_style){ .columns = 200 }, &text);
	contains(&text, "Worse: new: descriptors; worse: gc-pressure (80, was 40); gone: exceptions.many, inotify; "
			"not looked at again: thread-pool.starvation; CPU 1.9 (was 0.2).");
	assert_ok(report_compare(b, a, &back));
	assert_string_equal(report_finding(back), "got-better");
	assert_ok(report_compare(a, a, &same));
	assert_string_equal(report_finding(same), "no-change");
	CLEANUP(json_decrefp) json_t *json = compared_json(a, b);
	const json_t *first = json_array_get(json_object_get(json, "findings"), 0);
	assert_string_equal(json_get_str(first, "finding", ""), "descriptors");
	assert_string_equal(json_get_str(first, "status", ""), "new");
	assert_true(json_is_null(json_object_get(first, "before")));
	assert_int_equal(json_array_size(json_object_get(json, "findings")), 5);
}

static void a_report_says_what_changed_since_the_last(void **state UNUSED)
{
	static const char *const found[] = { "descriptors" };
	CLEANUP(report_freep) struct report *a = build_findings(NULL, NULL, 0, "descriptors", 0.2);
	CLEANUP(report_freep) struct report *b = build_findings(found, (unsigned[]){ 90 }, 1, "inotify", 0.2);
	CLEANUP(buf_free) struct buf text = { 0 };
	report_since(b, a);
	report_render_text(b, NULL, &text);
	contains(&text, "Since the diagnosis of 03:12: new: descriptors.");
	const char *note = strstr(buf_cstr(&text), "Since"), *list = strstr(buf_cstr(&text), "Also seen");
	assert_true(note && list && note < list);
}

/* Through three diagnoses, each of which knows only the one before it, as JSON. */
static void a_finding_keeps_when_it_was_first_seen(void **state UNUSED)
{
	static const char *const found[] = { "descriptors", "inotify" };
	CLEANUP(report_freep) struct report *first = build_findings(found, (unsigned[]){ 90 }, 1, "dns-slow", 0.2);
	CLEANUP(report_freep) struct report *second = NULL;
	CLEANUP(buf_free) struct buf json = { 0 }, text = { 0 };
	struct report *later = build_findings(found, (unsigned[]){ 90, 60 }, 2, "dns-slow", 0.2);
	CLEANUP(report_freep) struct report *third = build_findings(found, (unsigned[]){ 90, 60 }, 2, "dns-slow", 0.2);
	struct report_facts facts = *report_facts(third);
	facts.when_unix_ns += 3600 * INT64_C(1000000000);
	report_set_facts(later, &facts);
	report_since(later, first);
	report_render_json(later, &json);
	report_free(later);
	assert_ok(report_from_json(json.data, json.len, &second));
	facts.when_unix_ns += 7 * 3600 * INT64_C(1000000000);
	report_set_facts(third, &facts);
	report_since(third, second);
	report_render_text(third, &(struct report_text_style){ .columns = 200 }, &text);
	contains(&text,
		 "Since the diagnosis of 04:12: nothing of note changed; still there: descriptors (first seen 03:12), "
		 "inotify.");
	contains(&text, "(descriptors, severity 90, first seen 03:12)");
	buf_clear(&text);
	facts.when_unix_ns += 48 * 3600 * INT64_C(1000000000);
	report_set_facts(third, &facts);
	report_render_text(third, &(struct report_text_style){ .columns = 200 }, &text);
	contains(&text, "(descriptors, severity 90, first seen 2026-11-15 03:12)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_change_comes_first),
		cmocka_unit_test(what_came_and_what_went),
		cmocka_unit_test(what_one_side_does_not_show_is_not_zero),
		cmocka_unit_test(equal_reports_have_no_change),
		cmocka_unit_test(amounts_tell_more_than_counts),
		cmocka_unit_test(windows_that_differ_are_said),
		cmocka_unit_test(different_profilers_are_refused),
		cmocka_unit_test(noise_is_no_change),
		cmocka_unit_test(figures_say_by_how_much),
		cmocka_unit_test(new_and_gone),
		cmocka_unit_test(rows_are_told_apart_by_all_their_names),
		cmocka_unit_test(frames_are_compared_with_what_they_call),
		cmocka_unit_test(what_a_diagnosis_finds_is_compared),
		cmocka_unit_test(a_report_says_what_changed_since_the_last),
		cmocka_unit_test(a_finding_keeps_when_it_was_first_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
