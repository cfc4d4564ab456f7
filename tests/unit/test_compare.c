#include "model/calltree.h"
#include "report/compare.h"
#include "unit.h"

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
	contains(&text, "Cores busy 7 (before: 2)");
	contains(&text, "20 %   70 %    50 %");
	contains(&text, "75 %   25 %   -50 %");
	assert_null(strstr(buf_cstr(&text), "same")); /* what did not change is not there */
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
	contains(&other, "Shop.Tax         60 %    0 %   -60 %");
}

static void what_one_side_does_not_show_is_not_zero(void **state UNUSED)
{
	CLEANUP(report_freep)
	struct report *a = build(0, 1000000000, true), *b = build(60, 1000000000, false), *r = NULL, *other = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	assert_ok(report_compare(a, b, &r));
	report_render_text(r, NULL, &text);
	contains(&text, "Shop.Tax            –   60 %       –");
	assert_ok(report_compare(b, a, &other));
	buf_clear(&text);
	report_render_text(other, NULL, &text);
	contains(&text, "Shop.Tax         60 %      –       –");
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
