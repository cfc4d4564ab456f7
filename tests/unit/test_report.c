#include "report/treemap.h"
#include "unit.h"

#include "report_checks.h"
#include "report_samples.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "report/doc.h"
#include <ctype.h>
#include <math.h>

/* JSON may carry invisible characters, but only as escapes or as what they are; the check above is for what people
 * see. */
static void every_sample_keeps_the_promises(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(report_samples); i++) {
		CLEANUP(report_freep) struct report *r = report_samples[i].make();
		check_all(r);
	}
}

static void an_empty_report_is_still_a_report(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct buf b = { 0 };
	assert_null(report_finding(r));
	check_all(r);
	render(r, TEXT, &b);
	assert_contains(&b, "No verdict was reached.");
	buf_free(&b);
}

/* ---- golden files ---- */

/* The sheet and the script have files of their own; a change there is no change of a report. */
static void mask(struct buf *page, const char *open, const char *close)
{
	char *from = strstr(page->data, open), *to = from ? strstr(from + strlen(open), close) : NULL;
	assert_non_null(to);
	from += strlen(open);
	size_t gone = (size_t)(to - from);
	memmove(from, to, strlen(to) + 1);
	page->len -= gone;
}

static void compare_golden(const struct report *r, const char *name, enum form form)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/golden/report/%s.%s", TESTS_DIR, name, form_names[form]);
	struct buf now = { 0 }, want = { 0 };
	render(r, form, &now);
	if (form == HTML) {
		mask(&now, "<style>", "</style>");
		mask(&now, "<script>", "</script>");
		mask(&now, "style-src '", "'");
		mask(&now, "script-src '", "'");
	}
	if (getenv("UPDATE_GOLDEN")) {
		assert_ok(file_write_atomic(path, now.data, now.len, 0644));
	} else {
		assert_ok(file_read(path, 1 << 20, &want));
		if (want.len != now.len || memcmp(want.data, now.data, want.len))
			print_message("# %s is not what it was; `make golden` rewrites it\n", path);
		assert_same(&want, &now);
	}
	buf_free(&now);
	buf_free(&want);
}

static void reports_look_as_they_did(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(report_samples); i++) {
		CLEANUP(report_freep) struct report *r = report_samples[i].make();
		for (enum form f = 0; f < FORMS; f++)
			compare_golden(r, report_samples[i].name, f);
	}
}

/* ---- building ---- */

static struct report_table *simple_table(struct report *r, const char *title)
{
	struct report_table *t = report_table(r, title);
	report_column(t, "Name", VALUE_CODE, 0);
	report_column(t, "Count", VALUE_COUNT, COLUMN_MAIN);
	return t;
}

static void rows_are_sorted_by_the_main_column(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct report_table *t = simple_table(r, "t");
	report_row(t, (struct value[]){ V_CODE("two"), V_COUNT(2) });
	report_row(t, (struct value[]){ V_CODE("none"), V_NONE });
	report_row(t, (struct value[]){ V_CODE("nine"), V_COUNT(9) });
	report_row(t, (struct value[]){ V_CODE("also-two"), V_COUNT(2) });
	struct buf b = { 0 };
	render(r, JSON, &b);
	assert_contains(&b, "[{\"cells\":[\"nine\",9]},{\"cells\":[\"two\",2]},{\"cells\":[\"also-two\",2]},"
			    "{\"cells\":[\"none\",null]}]");
	buf_free(&b);
}

static void a_full_table_keeps_the_largest_and_counts_the_rest(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct report_table *t = simple_table(r, "t");
	for (int i = 0; i < 1500; i++) {
		struct report_row *row = report_row(t, (struct value[]){ V_CODE("x"), V_COUNT(i) });
		report_row_line(row, VALUE_TEXT, "line", NULL);
	}
	struct buf b = { 0 };
	render(r, JSON, &b);
	assert_contains(&b, "\"rows\":[{\"cells\":[\"x\",1499]");
	assert_contains(&b, "[\"x\",500]");
	assert_lacks(&b, "[\"x\",499]");
	assert_contains(&b, "\"rowsCut\":500");
	render(r, TEXT, &b);
	assert_contains(&b, "…1,488 more");
	render(r, HTML, &b);
	assert_contains(&b, "500 more rows were not kept in this report.");
	buf_free(&b);
	check_round_trip(r);
}

static void trees_are_bounded_in_size_and_depth(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct report_table *t = report_tree(r, "t");
	report_column(t, "Name", VALUE_CODE, 0);
	struct report_row *row = report_row(t, (struct value[]){ V_CODE("top") });
	for (int i = 0; i < 200; i++)
		row = report_child(row, (struct value[]){ V_CODE("deep") });
	for (int i = 0; i < 6000; i++)
		report_row(t, (struct value[]){ V_CODE("wide") });
	struct buf b = { 0 };
	render(r, JSON, &b);
	assert_contains(&b, "\"depth\":63");
	assert_lacks(&b, "\"depth\":64");
	assert_contains(&b, "\"rowsCut\":1201"); /* 137 too deep, 1,064 too many */
	buf_free(&b);
	check_all(r);
}

static void the_text_only_names_details(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	rich_text(report_verdict(r, REPORT_WARN, "x"), "v");
	report_row(simple_table(r, "First"), (struct value[]){ V_CODE("shown"), V_COUNT(1) });
	report_details(r);
	report_row(simple_table(r, "Second"), (struct value[]){ V_CODE("hidden"), V_COUNT(1) });
	report_row(simple_table(r, "Third"), (struct value[]){ V_CODE("hidden"), V_COUNT(1) });
	rich_text(report_note(r, REPORT_INFO), "noted");
	struct buf b = { 0 }, html = { 0 };
	render(r, TEXT, &b);
	assert_contains(&b, "shown");
	assert_lacks(&b, "hidden");
	assert_contains(&b, "noted");
	assert_contains(&b, "More as a page (-o FILE.html): Second, Third.");
	render(r, HTML, &html);
	assert_contains(&html, "hidden");
	buf_free(&b);
	buf_free(&html);
	check_all(r);
}

static void a_flame_graph_knows_when(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new(), *none = NULL;
	struct calltree *tree = calltree_new(100);
	uint32_t main_ = calltree_frame(tree, "Main", FRAME_CODE), leaf = calltree_frame(tree, "Leaf", FRAME_CODE);
	uint32_t nodes[] = { calltree_add(tree, (uint32_t[]){ main_, leaf }, 2, 30),
			     calltree_add(tree, &main_, 1, 10) };
	const struct report_moment moments[] = { { 10000000, 10, nodes[0] },
						 { 20000000, 10, nodes[0] }, /* the same cell */
						 { 1990000000, 10, nodes[0] },
						 { 2050000000, 10, nodes[1] } }; /* after the end: the last cell */
	report_flame_timed(r, "Flame graph", tree, VALUE_NS, moments, 4, 2050000000);
	calltree_free(tree);
	struct buf json = { 0 }, html = { 0 };
	render(r, JSON, &json);
	assert_contains(&json, "\"heat\":{\"columns\":2,\"seconds\":1,\"cells\":[[0,0,2,20],[1,19,1,10],[1,19,2,10]]}");
	render(r, HTML, &html);
	assert_contains(&html, "data-cells=\"0,0,2,20;1,19,1,10;1,19,2,10\"");
	check_all(r);
	/* Cells that lie. */
	static const struct {
		const char *from, *to;
	} lies[] = { { "[0,0,2,20]", "[2,0,2,20]" },	      { "[0,0,2,20]", "[0,20,2,20]" },
		     { "[0,0,2,20]", "[0,0,3,20]" },	      { "[0,0,2,20]", "[0,0,2,-1]" },
		     { "\"columns\":2", "\"columns\":9999" }, { "\"seconds\":1", "\"seconds\":0" } };
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct buf lie = { 0 };
		const char *at = strstr(json.data, lies[i].from);
		assert_non_null(at);
		buf_add(&lie, json.data, (size_t)(at - json.data));
		buf_str(&lie, lies[i].to);
		buf_str(&lie, at + strlen(lies[i].from));
		assert_err(report_from_json(lie.data, lie.len, &none), ERR_BAD_DATA);
		buf_free(&lie);
	}
	buf_free(&json);
	buf_free(&html);
}

static void too_many_parts_are_counted(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct rich *v = report_verdict(r, REPORT_WARN, "x");
	for (int i = 0; i < 100; i++) {
		rich_text(v, "w");
		report_figure(r, "f", V_COUNT(1), NULL);
		report_how(r, "h", V_COUNT(1), NULL);
		report_param(r, "p", "v", false);
		rich_text(report_note(r, REPORT_INFO), "n");
		struct report_table *t = simple_table(r, "t");
		for (int c = 0; c < 20; c++)
			report_column(t, "more", VALUE_TEXT, 0);
		struct value cells[24] = { V_CODE("x"), V_COUNT(1) };
		struct report_row *row = report_row(t, cells);
		for (int l = 0; l < 300; l++)
			report_row_line(row, VALUE_CODE, "l", NULL);
	}
	struct buf b = { 0 };
	render(r, TEXT, &b);
	assert_contains(&b, "parts did not fit this report.");
	assert_contains(&b, "more");
	buf_free(&b);
	check_all(r);
}

static void a_long_string_says_how_long_it_was(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(mem_freep) char *text = mem_alloc((1 << 20) + 1);
	for (size_t i = 0; i < 1 << 20; i += 4)
		memcpy(text + i, "\xf0\x9f\x99\x82", 4);
	text[1 << 20] = '\0';
	struct report_table *t = simple_table(r, text);
	report_row_line(report_row(t, (struct value[]){ V_CODE(text), V_COUNT(1) }), VALUE_TEXT, text, text);
	rich_code(report_verdict(r, REPORT_WARN, "x"), text);
	struct buf b = { 0 };
	render(r, JSON, &b);
	assert_contains(&b, "\"cutStrings\":5");
	assert_true(b.len < 6 * 65536 + 4096);
	for (enum form f = 0; f < JSON; f++) {
		render(r, f, &b);
		assert_contains(&b, "… (1,048,576 bytes)");
		assert_true(b.len < 120000);
	}
	buf_free(&b);
	check_all(r);
}

static void missing_is_never_zero(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	rich_text(report_verdict(r, REPORT_INFO, "x"), "v");
	report_figure(r, "Nothing", V_NONE, NULL);
	report_figure(r, "Not a number", V_NS(NAN), NULL);
	report_figure(r, "No text", V_TEXT(NULL), "because");
	report_figure(r, "Infinite", V_RATE(INFINITY), NULL);
	struct buf b = { 0 };
	render(r, TEXT, &b);
	assert_contains(&b, "Nothing – not measured");
	assert_contains(&b, "Not a number – not measured");
	assert_contains(&b, "No text – (because)");
	render(r, JSON, &b);
	assert_contains(&b, "{\"label\":\"Nothing\",\"kind\":\"text\",\"value\":null");
	assert_contains(&b, "{\"label\":\"Infinite\",\"kind\":\"rate\",\"value\":null");
	render(r, HTML, &b);
	assert_contains(&b, "not measured");
	buf_free(&b);
	check_all(r);
}

static void values_read_as_people_write_them(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .when_unix_ns = SAMPLE_WHEN });
	rich_text(report_verdict(r, REPORT_INFO, "x"), "v");
	const struct {
		struct value v;
		const char *want;
	} cases[] = {
		{ V_COUNT(1204311), "1,204,311" },
		{ V_COUNT(-3), "-3" },
		{ V_BYTES(310 << 20), "310 MB" },
		{ V_NS(6200000), "6.2 ms" },
		{ V_NS(-6200000), "-6.2 ms" },
		{ V_RATIO(0.0015), "0.15 %" },
		{ V_RATE(412), "412/s" },
		{ V_NUMBER(-0.0), "F 0\n" },
		{ V_COUNT(1e30), "18,446," },
		{ V_TIME(SAMPLE_WHEN), "03:12:09.114Z" },
		{ V_TIME(1000000000), "1970-01-01 00:00:01Z" },
		{ V_TIME(1e300), "2261-07-1" },
		{ V_TEXT("a\tb"), "a\\u{9}b" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(report_freep) struct report *one = report_new();
		report_set_facts(one, report_facts(r));
		report_figure(one, "F", cases[i].v, NULL);
		struct buf b = { 0 };
		render(one, TEXT, &b);
		assert_contains(&b, cases[i].want);
		buf_free(&b);
		check_round_trip(one);
	}
}

static void lines_keep_their_peaks(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	enum { N = 100000 };
	uint64_t *x = mem_array(N, sizeof(*x));
	double *y = mem_array(N, sizeof(*y));
	for (size_t i = 0; i < N; i++) {
		x[i] = i * 1000;
		y[i] = i == 77777 ? 555 : 1;
	}
	struct report_chart *c = report_chart(r, "c", VALUE_COUNT, N * 1000);
	report_chart_line(c, "l", x, y, N);
	for (size_t i = 0; i < 5000; i++)
		report_chart_bar(c, i * 100, 5, i == 4 ? 444 : (double)(i % 100), NULL);
	mem_free(x);
	mem_free(y);
	struct buf b = { 0 };
	render(r, JSON, &b);
	assert_contains(&b, "[77777000,555]");
	assert_contains(&b, "\"y\":444");
	assert_contains(&b, "\"barsCut\":3000");
	assert_true(b.len < 250000);
	buf_free(&b);
	check_all(r);
}

static void a_huge_call_tree_becomes_a_bounded_picture(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(calltree_freep) struct calltree *tree = calltree_new(200000);
	uint32_t frames[400];
	for (uint32_t s = 0; s < 30000; s++) {
		for (uint32_t d = 0; d < 8; d++) {
			char name[32];
			snprintf(name, sizeof(name), "N.M%u", (uint32_t)(hash_u64(s * 8 + d) % (3 + d)));
			frames[d] = calltree_frame(tree, name, FRAME_CODE);
		}
		calltree_add(tree, frames, 8, 1 + s % 7);
	}
	for (uint32_t d = 0; d < 400; d++)
		frames[d] = calltree_frame(tree, "N.Recursion", FRAME_CODE);
	calltree_add(tree, frames, 400, 100000);
	report_flame(r, "f", tree, VALUE_COUNT);
	struct buf b = { 0 };
	render(r, HTML, &b);
	size_t boxes = 0;
	for (const char *p = b.data; (p = strstr(p, "data-w=")); p++)
		boxes++;
	assert_in_range(boxes, 200, 2000);
	buf_free(&b);
	check_all(r);
}

/* ---- text ---- */

static const char *plain_of(const struct rich *t, struct buf *out)
{
	buf_clear(out);
	rich_plain(t, out);
	return buf_cstr(out);
}

static void a_verdict_is_quoted_in_parts(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new(), *quoting = report_new();
	CLEANUP(buf_free) struct buf text = { 0 };
	struct rich *whole = report_verdict(r, REPORT_BAD, "sick");
	rich_text(whole, "It is late. It waits in ");
	rich_code(whole, "Shop.Bank.Pay");
	rich_text(whole, " for ");
	rich_data(whole, "secret 17");
	rich_text(whole, ", 3.5 s. More of it. ");
	rich_strong(whole, "Much");
	rich_text(whole, " more.");
	struct rich *place = report_verdict(quoting, REPORT_BAD, "sick"), *rest = report_next(quoting),
		    *clause = report_effect(quoting);
	rich_add_place(place, whole);
	assert_string_equal(plain_of(place, &text), "It is late. It waits in Shop.Bank.Pay for secret 17, 3.5 s.");
	rich_add_rest(rest, whole);
	assert_string_equal(plain_of(rest, &text), "More of it. Much more.");
	rich_add_clause(clause, whole);
	assert_string_equal(plain_of(clause, &text), "it is late");
	report_mask(quoting);
	assert_null(strstr(plain_of(place, &text), "secret"));
}

/* Without a place all of it is one part; names and abbreviations keep their first letter. */
static void short_verdicts_are_quoted_whole(void **state UNUSED)
{
	static const char *const clauses[][2] = { { "No deadlock: none.", "no deadlock: none" },
						  { "GC is calm.", "GC is calm" },
						  { "1.5 of 2 cores", "1.5 of 2 cores" },
						  { "Fine. Really.", "fine" } };
	for (size_t i = 0; i < ARRAY_SIZE(clauses); i++) {
		CLEANUP(report_freep) struct report *r = report_new();
		CLEANUP(buf_free) struct buf text = { 0 };
		struct rich *whole = report_verdict(r, REPORT_OK, "well"), *part = report_next(r);
		rich_text(whole, "%s", clauses[i][0]);
		rich_add_rest(part, whole);
		assert_string_equal(plain_of(part, &text), "");
		rich_add_clause(part, whole);
		assert_string_equal(plain_of(part, &text), clauses[i][1]);
	}
}

/* What was ruled out is many: the text names the first, unless there is little else to say. */
static void the_text_cuts_long_lists(void **state UNUSED)
{
	for (int sick = 0; sick < 2; sick++) {
		CLEANUP(report_freep) struct report *r = report_new();
		CLEANUP(buf_free) struct buf text = { 0 };
		rich_text(report_verdict(r, sick ? REPORT_BAD : REPORT_OK, "found"), "So.");
		struct report_findings *out = report_findings(r, "Ruled out", true);
		for (int i = 0; i < 30; i++)
			rich_text(report_finding_add(out, "id", 0, NULL), "thing-%d", i);
		report_render_text(r, NULL, &text);
		assert_non_null(strstr(buf_cstr(&text), "thing-0"));
		assert_int_equal(!strstr(buf_cstr(&text), "thing-29"), sick);
		assert_int_equal(!!strstr(buf_cstr(&text), "…12 more."), sick);
	}
}

static void findings_have_weight_and_words(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(buf_free) struct buf text = { 0 }, json = { 0 }, page = { 0 };
	sample_facts(r, "p", "P", 5, "x");
	rich_text(report_verdict(r, REPORT_OK, "healthy"), "Healthy.");
	struct report_findings *f = report_findings(r, "Also seen", false);
	rich_text(report_finding_add(f, "a-finding", 140, "Certain: by a test"), "Something <b>.");
	struct report_findings *out = report_findings(r, "Ruled out", true);
	rich_text(report_finding_add(out, "one", 0, NULL), "CPU (idle)");
	rich_text(report_finding_add(out, "two", 0, NULL), "disk (idle)");
	report_render_text(r, NULL, &text);
	assert_non_null(strstr(buf_cstr(&text), "  Also seen:\n    Something <b>. (a-finding, severity 100)\n"));
	assert_non_null(strstr(buf_cstr(&text), "  Ruled out: CPU (idle) · disk (idle).\n"));
	report_render_json(r, &json);
	assert_non_null(strstr(buf_cstr(&json),
			       "\"finding\":\"a-finding\",\"severity\":100,\"confidence\":\"Certain: by a test\""));
	report_render_html(r, &page);
	assert_non_null(
		strstr(buf_cstr(&page), "<li>Something &lt;b&gt;.<span class=\"x\">a-finding, severity 100, Certain"));
}

static void blocks_of_another_report_are_taken_over(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(buf_free) struct buf text = { 0 };
	struct report *from = report_new();
	sample_facts(r, "p", "P", 5, "x");
	rich_text(report_verdict(r, REPORT_WARN, "f"), "Sick.");
	rich_code(report_verdict(from, REPORT_BAD, "g"), "Shop.Stock");
	report_how(from, "Target paused", V_NS(7), NULL);
	static const char *const titles[] = { "First", "Second" };
	for (size_t i = 0; i < ARRAY_SIZE(titles); i++) {
		struct report_table *t = simple_table(from, titles[i]);
		report_row(t, (struct value[]){ V_CODE("a"), V_COUNT(1) });
	}
	assert_true(report_how_number(from, "Target paused") == 7 && isnan(report_how_number(from, "Lost")));
	rich_add(report_section(r, "Its proof", "deadlocks", report_health(from), report_finding(from)),
		 report_verdict_text(from));
	report_take_blocks(r, from, 1);
	report_render_text(r, NULL, &text);
	const char *section = strstr(buf_cstr(&text), "Its proof: Shop.Stock");
	assert_non_null(section);
	assert_non_null(strstr(section, "First\n"));
	assert_non_null(strstr(section, "More as a page (-o FILE.html): Second."));
}

static void the_text_begins_with_who_and_what(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = sample_pauses();
	struct buf b = { 0 };
	render(r, TEXT, &b);
	assert_true(str_starts(b.data,
			       "Shop.Api (pid 4211, .NET 10.0.12) · Runtime pauses · 2026-11-15 03:12:09Z · 20 s\n\n"
			       "  Full garbage collections stop it for up to 212 ms: "));
	assert_contains(&b, "\n  Next: find who calls GC.Collect");
	assert_contains(&b, "\nHow: Events of the runtime");
	buf_free(&b);
}

static void nothing_found_is_short(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = sample_nothing();
	struct buf b = { 0 };
	render(r, TEXT, &b);
	assert_contains(&b, "No problem here: 14 pauses");
	assert_contains(&b, "How: ");
	assert_lacks(&b, "Small GC");
	assert_lacks(&b, "Longest");
	render(r, HTML, &b);
	assert_contains(&b, "Small GC");
	buf_free(&b);
}

static void partial_is_said_beside_the_verdict(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = sample_partial();
	struct buf b = { 0 };
	for (enum form f = 0; f < JSON; f++) {
		render(r, f, &b);
		assert_contains(&b, "Only the first 3.2 s: the process ended.");
	}
	sample_facts(r, "p", "P", 3200 * MS, "the process ended after 3.2 s");
	render(r, TEXT, &b);
	assert_contains(&b, "Only a part: the process ended after 3.2 s.");
	buf_free(&b);
}

static void what_is_no_member_is_not_split_off(void **state UNUSED)
{
	static const struct {
		const char *name;
		size_t member;
	} cases[] = { { "Shop.Order..ctor(int)", 11 },
		      { "A.B<C.D>.<Run>b__0(X.Y)", 9 },
		      { "Main", 0 },
		      { "finish_task_switch.isra.0", 0 },
		      { "Cpu.cs:25", 0 },
		      { "Shop.Model2.Find:", 12 },
		      { "ns::f.Method2", 6 },
		      { "Shop.", 0 },
		      { "", 0 },
		      { "Shop.Cache._orders : Dictionary", 11 } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(name_split(cases[i].name).member, cases[i].member);
}

static void names_lose_their_namespace_first(void **state UNUSED)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{ "Shop.Payments.Gateways.Remote.CardGateway.Authorize", "CardGateway.Authorize" },
		{ "Some.Very.Long.Namespace.Of.Things.Order..ctor", "Order..ctor" },
		{ "System.Collections.Generic.Dictionary`2[System.Int32,Shop.Orders.Order].get_Item",
		  "Dictionary`2[…].get_Item" },
		{ "Shop.Api.Controllers.OrdersController.<PostSomething>b__0(Shop.Order)", "<PostSomething>b__0(" },
		{ "Shop.Stock.Reserve(System.Collections.Generic.List<Shop.Order>, int)", "Reserve(…)" },
		{ "AMemberWithoutAnyNamespaceThatIsTooLongForItsColumn", "AMemberWithout" },
		{ "lambda in Shop.Payments.Gateways.Remote.Card.Pay", "lambda in …Remote.Card.Pay" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(report_freep) struct report *r = report_new();
		struct report_table *t = simple_table(r, "t");
		report_row(t, (struct value[]){ V_CODE(cases[i].name), V_COUNT(123456) });
		struct report_text_style style = { .columns = 42 };
		struct buf b = { 0 };
		report_render_text(r, &style, &b);
		assert_contains(&b, cases[i].want);
		assert_contains(&b, "…");
		buf_free(&b);
	}
}

static void narrow_tables_say_what_they_left_out(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = sample_pauses();
	struct report_text_style style = { .columns = 50 };
	struct buf b = { 0 };
	report_render_text(r, &style, &b);
	assert_contains(&b, "No room for: ");
	assert_contains(&b, "212 ms");
	buf_free(&b);
}

/* ---- hostile JSON ---- */

static void small_json(struct buf *out)
{
	CLEANUP(report_freep) struct report *r = report_new();
	sample_facts(r, "p", "P", 5, "x");
	rich_strong(report_verdict(r, REPORT_BAD, "f"), "v");
	rich_code(report_next(r), "n");
	report_figure(r, "f", V_BYTES(5), "c");
	struct report_table *t = report_tree(r, "t");
	report_column(t, "n", VALUE_CODE, 0);
	report_column(t, "c", VALUE_NS, COLUMN_BAR | COLUMN_MAIN);
	struct report_row *row = report_row(t, (struct value[]){ V_CODE("a.b"), V_NS(9) });
	report_child(row, (struct value[]){ V_TEXT("c"), V_NONE });
	report_rest(t, (struct value[]){ V_TEXT("r"), V_RATIO(0.5) });
	t = simple_table(r, "u");
	report_row_line(report_row(t, (struct value[]){ V_CODE("x"), V_COUNT(1) }), VALUE_CODE, "l", "r");
	struct report_chart *c = report_chart(r, "c", VALUE_RATE, 100);
	report_chart_line(c, "l", (uint64_t[]){ 1, 50 }, (double[]){ 2, 3.5 }, 2);
	report_chart_bar(c, 5, 6, 7, "b");
	report_bucket(report_histogram(r, "h", VALUE_NS), 1, 2, 3);
	CLEANUP(calltree_freep) struct calltree *tree = calltree_new(10);
	calltree_add(tree, (uint32_t[]){ calltree_frame(tree, "m", FRAME_GC) }, 1, 5);
	report_flame(r, "g", tree, VALUE_COUNT);
	rich_text(report_note(r, REPORT_INFO), "t");
	rich_text(report_finding_add(report_findings(r, "o", true), "i", 40, "s"), "w");
	rich_text(report_section(r, "s", "q", REPORT_WARN, "i"), "y");
	report_how(r, "h", V_TIME(5), NULL);
	report_param(r, "p", "v", true);
	report_render_json(r, out);
}

/* Either refused with words, or a report that renders and comes back the same. */
static bool try_json(const char *text, size_t len)
{
	struct report *r = NULL;
	struct err *err = report_from_json(text, len, &r);
	if (err) {
		assert_true(err_kind(err) == ERR_BAD_DATA || err_kind(err) == ERR_UNSUPPORTED);
		assert_true(strlen(err_text(err)) > 5);
		err_free(err);
		return false;
	}
	for (enum form f = 0; f < FORMS; f++) {
		struct buf b = { 0 };
		render(r, f, &b);
		buf_free(&b);
	}
	report_free(r);
	return true;
}

static void every_truncation_is_refused(void **state UNUSED)
{
	struct buf json = { 0 };
	small_json(&json);
	assert_true(try_json(json.data, json.len));
	for (size_t n = 0; n + 1 < json.len; n++) {
		CLEANUP(mem_freep) char *copy = mem_dup(json.data, n ? n : 1);
		assert_false(try_json(copy, n));
	}
	buf_free(&json);
}

static void every_flipped_byte_is_survived(void **state UNUSED)
{
	struct buf json = { 0 };
	size_t accepted = 0;
	small_json(&json);
	for (size_t i = 0; i < json.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			json.data[i] ^= (char)(1 << bit);
			accepted += try_json(json.data, json.len);
			json.data[i] ^= (char)(1 << bit);
		}
	}
	assert_true(accepted > 0);
	buf_free(&json);
}

/* The small report with one part replaced. */
static void assert_refused(const char *from, const char *to)
{
	struct buf json = { 0 }, changed = { 0 };
	small_json(&json);
	char *at = strstr(json.data, from);
	assert_non_null(at);
	buf_add(&changed, json.data, (size_t)(at - json.data));
	buf_str(&changed, to);
	buf_str(&changed, at + strlen(from));
	struct report *r = NULL;
	struct err *err = report_from_json(changed.data, changed.len, &r);
	if (!err)
		fail_msg("%s -> %.60s was accepted", from, to);
	err_free(err);
	buf_free(&json);
	buf_free(&changed);
}

static void lies_are_refused(void **state UNUSED)
{
	assert_refused("\"format\":\"drdotnet-report\"", "\"format\":\"other\"");
	assert_refused("\"formatVersion\":1", "\"formatVersion\":2");
	assert_refused("\"health\":\"bad\"", "\"health\":\"fine\"");
	assert_refused("\"kind\":\"bytes\",\"value\":5", "\"kind\":\"bytes\",\"value\":\"5\"");
	assert_refused("\"kind\":\"bytes\"", "\"kind\":\"furlongs\"");
	assert_refused("\"depth\":0", "\"depth\":1");
	assert_refused("\"depth\":1", "\"depth\":5");
	assert_refused("\"depth\":1", "\"depth\":-1");
	assert_refused("\"block\":\"tree\"", "\"block\":\"table\"");
	assert_refused("\"block\":\"tree\"", "\"block\":\"hedge\"");
	assert_refused("\"cells\":[\"a.b\",9]", "\"cells\":[\"a.b\"]");
	assert_refused("\"cells\":[\"a.b\",9]", "\"cells\":[\"a.b\",9,9]");
	assert_refused("\"cells\":[\"a.b\",9]", "\"cells\":[\"a.b\",true]");
	assert_refused("[50,3.5]", "[-50,3.5]");
	assert_refused("[50,3.5]", "[50,\"3\"]");
	assert_refused("[1,2,3]", "[1,2,-3]");
	assert_refused("\"nodes\":[[0,0,0]", "\"nodes\":[[9,0,0]");
	assert_refused("\"nodes\":[[0,0,0]", "\"nodes\":[[0,1,0]");
	assert_refused("[1,1,5]", "[1,2,5]");
	assert_refused("[1,1,5]", "[1,0,5]");
	assert_refused("[1,1,5]", "[1,1,-5]");
	assert_refused("[\"m\",\"gc\"]", "[\"m\",\"xx\"]");
	assert_refused("\"targetId\":4211", "\"targetId\":99999999999");
	assert_refused("\"windowNs\":5", "\"windowNs\":-5");
	assert_refused("\"default\":true", "\"default\":1");
	assert_refused("\"title\":\"P\"", "\"title\":7");
}

static void too_much_is_refused(void **state UNUSED)
{
	static const struct {
		const char *from, *open, *one, *close;
		int n;
	} cases[] = {
		{ "\"figures\":[", "\"figures\":[", "{\"label\":\"x\",\"kind\":\"ns\",\"value\":1},", "", 17 },
		{ "\"parameters\":[", "\"parameters\":[", "{\"name\":\"x\",\"value\":\"1\",\"default\":true},", "",
		  65 },
		{ "\"blocks\":[", "\"blocks\":[", "{\"block\":\"note\",\"health\":\"ok\",\"text\":[]},", "", 65 },
		{ "\"next\":[", "\"next\":[", "{\"kind\":\"text\",\"text\":\"x\"},", "", 65 },
		{ "\"rows\":[", "\"rows\":[", "{\"depth\":0,\"cells\":[\"x\",1]},", "", 5001 },
		{ "\"points\":[", "\"points\":[", "[1,1],", "", 4097 },
		{ "\"bars\":[", "\"bars\":[", "{\"x\":1,\"length\":1,\"y\":1},", "", 2001 },
		{ "\"buckets\":[", "\"buckets\":[", "[1,2,3],", "", 65 },
		{ "\"title\":\"P\"", "\"title\":\"", "0123456789abcdef", "\"", 4097 },
		{ "\"windowNs\":5", "\"windowNs\":5,\"deep\":", "[", "", 100 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = { 0 };
		buf_str(&b, cases[i].open);
		buf_repeat(&b, cases[i].one, (size_t)cases[i].n);
		buf_str(&b, cases[i].close);
		assert_refused(cases[i].from, buf_cstr(&b));
		buf_free(&b);
	}
}

static void unknown_keys_are_left_alone(void **state UNUSED)
{
	static const char text[] = "{\"format\":\"drdotnet-report\",\"formatVersion\":1,\"facts\":{},\"future\":[1]}";
	assert_true(try_json(text, strlen(text)));
}

/* ---- areas ---- */

static struct report_row *area_row(struct report_table *t, struct report_row *parent, const char *name, double bytes)
{
	struct value cells[] = { V_CODE(name), V_BYTES(bytes) };
	return parent ? report_child(parent, cells) : report_row(t, cells);
}

static struct report_table *area_tree(struct report *r)
{
	struct report_table *t = report_tree(r, "Who keeps what");
	report_column(t, "Kept alive by", VALUE_CODE, 0);
	report_column(t, "Retained", VALUE_BYTES, COLUMN_MAIN | COLUMN_AREA);
	struct report_row *orders = area_row(t, NULL, "Cache._orders", 60);
	struct report_row *dictionary = area_row(t, orders, "Dictionary", 60);
	area_row(t, dictionary, "Order[]", 40);
	area_row(t, dictionary, "Int32[]", 10);
	area_row(t, area_row(t, NULL, "Bus", 30), "Handler[]", 30);
	area_row(t, NULL, "tiny", 0.000001);
	report_row(t, (struct value[]){ V_CODE("unknown"), V_NONE });
	report_rest(t, (struct value[]){ V_TEXT("all others"), V_BYTES(10) });
	return t;
}

static void areas_are_as_large_as_their_numbers(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	struct treemap m;
	double leaves = 0;
	assert_true(treemap_init(&m, area_tree(r)));
	assert_int_equal(m.boxes.n, 8);
	assert_true(fabs(m.whole - 100) < 1e-4);
	vec_each(b, &m.boxes) {
		const struct treemap_place *p = &b->place;
		assert_true(fabs(p->w * p->h - b->number / m.whole) < 1e-6);
		if (!b->row || !b->row->first_child)
			leaves += p->w * p->h;
		if (b->parent_box < 0)
			continue;
		const struct treemap_box *above = &m.boxes.v[b->parent_box];
		assert_ptr_equal(above->row, b->parent);
		assert_int_equal(above->depth + 1, b->depth);
		assert_true(p->x >= above->place.x - 1e-9 && p->y >= above->place.y - 1e-9);
		assert_true(p->x + p->w <= above->place.x + above->place.w + 1e-9);
		assert_true(p->y + p->h <= above->place.y + above->place.h + 1e-9);
	}
	assert_true(fabs(leaves - 1) < 1e-6);
	treemap_fini(&m);
}

static bool overlap(const struct treemap_place *a, const struct treemap_place *b)
{
	double w = MIN(a->x + a->w, b->x + b->w) - MAX(a->x, b->x), h = MIN(a->y + a->h, b->y + b->h) - MAX(a->y, b->y);
	return w > 1e-9 && h > 1e-9;
}

static void areas_do_not_overlap(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(buf_free) struct buf json = { 0 };
	struct treemap m;
	assert_true(treemap_init(&m, area_tree(r)));
	for (size_t i = 0; i < m.boxes.n; i++)
		for (size_t k = 0; k < i; k++)
			assert_false(m.boxes.v[i].parent_box == m.boxes.v[k].parent_box &&
				     overlap(&m.boxes.v[i].place, &m.boxes.v[k].place));
	treemap_fini(&m);
	report_render_json(r, &json);
	assert_non_null(
		strstr(buf_cstr(&json), "\"areas\":{\"column\":1,\"whole\":100.000001,\"boxes\":[[0,-1,60,0,0,"));
}

static void nothing_has_no_areas(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = report_new();
	CLEANUP(buf_free) struct buf json = { 0 };
	struct report_table *t = report_table(r, "Empty");
	report_column(t, "Name", VALUE_CODE, COLUMN_AREA);
	report_column(t, "Bytes", VALUE_BYTES, COLUMN_AREA);
	report_row(t, (struct value[]){ V_CODE("a"), V_BYTES(0) });
	struct treemap m;
	assert_false(treemap_init(&m, t));
	treemap_fini(&m);
	report_render_json(r, &json);
	assert_null(strstr(buf_cstr(&json), "areas"));
}

/* A value of the target wherever one may stand, and names and words of ours beside it. */
static struct report *with_values(const char *value)
{
	struct report *r = report_new(), *other = report_new();
	rich_data(report_verdict(other, REPORT_WARN, "found"), value);
	struct rich *verdict = report_verdict(r, REPORT_WARN, "found");
	rich_text(verdict, "The worst ");
	rich_add(verdict, report_verdict_text(other));
	rich_code(verdict, "Shop.Order1");
	rich_data(report_next(r), value);
	rich_data(report_note(r, REPORT_INFO), value);
	rich_data(report_finding_add(report_findings(r, "More", false), "other", 30, "seen"), value);
	rich_data(report_section(r, "Part", "p", REPORT_INFO, "f"), value);
	struct report_table *t = report_table(r, "Values");
	report_column(t, "Value", VALUE_CODE, COLUMN_DATA);
	report_column(t, "Field", VALUE_CODE, 0);
	report_row(t, (struct value[]){ V_CODE(value), V_CODE("Shop.Order2") });
	report_row(t, (struct value[]){ V_TEXT("(text not kept)"), V_NONE });
	report_rest(t, (struct value[]){ V_TEXT("3 smaller values"), V_NONE });
	report_param(r, "One string", value, false);
	report_param_is_data(r);
	report_param(r, "Duration", "10 s", true);
	report_free(other);
	return r;
}

static void rendered(const struct report *r, struct buf *out)
{
	buf_clear(out);
	report_render_json(r, out);
	report_render_html(r, out);
	report_render_markdown(r, out);
	report_render_text(r, &(struct report_text_style){ 0 }, out);
}

static void values_are_masked_wherever_they_stand(void **state UNUSED)
{
	CLEANUP(report_freep) struct report *r = with_values("Müller 47"), *back = NULL;
	CLEANUP(buf_free) struct buf out = { 0 }, json = { 0 };
	rendered(r, &out);
	assert_non_null(strstr(buf_cstr(&out), "Müller 47"));
	report_render_json(r, &json);
	assert_ok(report_from_json(buf_cstr(&json), json.len, &back));
	for (int again = 0; again < 2; again++) { /* the second time there is nothing left to mask */
		report_mask(back);
		rendered(back, &out);
		assert_null(strstr(buf_cstr(&out), "ller 47"));
		static const char *const kept[] = { "Xxxxxx 99",      "Shop.Order1",	 "Shop.Order2",
						    "Value (masked)", "(text not kept)", "3 smaller values",
						    "10 s",	      "The worst " };
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			assert_non_null(strstr(buf_cstr(&out), kept[i]));
		assert_null(strstr(buf_cstr(&out), "(masked) (masked)"));
	}
}

static void the_shape_of_a_value(void **state UNUSED)
{
	static const char *const shapes[][2] = {
		{ "Max M. 1978", "Xxx X. 9999" }, { "naïve 日本 🛒", "xxxxx xx x" }, { "abc…", "xxx…" }, { "", "" }
	};
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		CLEANUP(buf_free) struct buf out = { 0 };
		report_mask_text(shapes[i][0], &out);
		assert_string_equal(buf_cstr(&out), shapes[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(areas_are_as_large_as_their_numbers),
		cmocka_unit_test(areas_do_not_overlap),
		cmocka_unit_test(nothing_has_no_areas),
		cmocka_unit_test(every_sample_keeps_the_promises),
		cmocka_unit_test(an_empty_report_is_still_a_report),
		cmocka_unit_test(reports_look_as_they_did),
		cmocka_unit_test(rows_are_sorted_by_the_main_column),
		cmocka_unit_test(a_full_table_keeps_the_largest_and_counts_the_rest),
		cmocka_unit_test(trees_are_bounded_in_size_and_depth),
		cmocka_unit_test(the_text_only_names_details),
		cmocka_unit_test(a_flame_graph_knows_when),
		cmocka_unit_test(too_many_parts_are_counted),
		cmocka_unit_test(a_long_string_says_how_long_it_was),
		cmocka_unit_test(missing_is_never_zero),
		cmocka_unit_test(values_read_as_people_write_them),
		cmocka_unit_test(lines_keep_their_peaks),
		cmocka_unit_test(a_huge_call_tree_becomes_a_bounded_picture),
		cmocka_unit_test(a_verdict_is_quoted_in_parts),
		cmocka_unit_test(short_verdicts_are_quoted_whole),
		cmocka_unit_test(the_text_cuts_long_lists),
		cmocka_unit_test(findings_have_weight_and_words),
		cmocka_unit_test(blocks_of_another_report_are_taken_over),
		cmocka_unit_test(the_text_begins_with_who_and_what),
		cmocka_unit_test(nothing_found_is_short),
		cmocka_unit_test(partial_is_said_beside_the_verdict),
		cmocka_unit_test(what_is_no_member_is_not_split_off),
		cmocka_unit_test(names_lose_their_namespace_first),
		cmocka_unit_test(narrow_tables_say_what_they_left_out),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_flipped_byte_is_survived),
		cmocka_unit_test(lies_are_refused),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(unknown_keys_are_left_alone),
		cmocka_unit_test(values_are_masked_wherever_they_stand),
		cmocka_unit_test(the_shape_of_a_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
