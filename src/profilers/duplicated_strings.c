/* Duplicated strings: equal values that are kept more than once, what the copies cost, and who keeps them. */

#include "base/fmt.h"
#include "base/str.h"
#include "memory/retention_sites.h"
#include "exam/profiler.h"
#include "memory/string_values.h"
#include <stdlib.h>
#include <string.h>

/* From where on copies are mentioned. */
#define WORTH_BYTES ((uint64_t)1 << 20)
#define WORTH_SHARE 0.05
#define MAIN_SHARE 0.4	/* of the waste: then that is the place to look at */
#define ROW_SHARE 0.001 /* of the waste: what has less is summed up */
#define ROWS_MIN 5	/* however little each wastes */
#define PLACE_ROWS 50
#define LINES 8	 /* places under one value */
#define PATHS 20 /* places of a given string */
#define VERDICT_CHARS 40

struct strings_state {
	struct heap_look look;
	struct string_values strings;
};

struct strings_ranked {
	uint32_t value;
	uint64_t wasted;
};
/* Copies of one value that are kept in one way. */
struct strings_share {
	uint32_t value, place, copies, example;
};
struct place_sum {
	uint32_t place;
	uint64_t copies, values;
	double wasted;
};
struct strings_findings {
	struct retention_sites *places;
	VEC(struct strings_ranked) order; /* most wasted first */
	VEC(struct strings_share) shares; /* by value, most copies first */
	VEC(struct place_sum) by_place;	  /* most wasted first */
	uint64_t wasted, copies, garbage;
	uint64_t strings, string_bytes, heap; /* that are held */
};

static void findings_free(struct strings_findings *f)
{
	retention_sites_free(f->places);
	vec_free(&f->order);
	vec_free(&f->shares);
	vec_free(&f->by_place);
}

/* ---- sums ---- */

static int most_wasted_first(const void *a, const void *b)
{
	const struct strings_ranked *x = a, *y = b;
	return CMP(y->wasted, x->wasted) ?: CMP(x->value, y->value);
}

static void rank_values(const struct string_values *s, struct strings_findings *f)
{
	for (uint32_t i = 0; i < s->values.n; i++) {
		const struct string_value *v = &s->values.v[i];
		uint64_t wasted = string_wasted(v);
		f->garbage += v->copies + v->garbage > 1 ? v->garbage : 0;
		if (!wasted)
			continue;
		vec_push(&f->order, ((struct strings_ranked){ i, wasted }));
		f->wasted += wasted;
		f->copies += v->copies;
	}
	vec_sort(&f->order, most_wasted_first);
}

static int by_value(const void *a, const void *b)
{
	const struct strings_share *x = a, *y = b;
	return CMP(x->value, y->value) ?: CMP(y->copies, x->copies) ?: CMP(x->place, y->place);
}

/* Where each copy is kept. */
static void find_places(const struct string_values *s, const struct heapgraph *g, uint32_t asked,
			struct strings_findings *f)
{
	CLEANUP(map_u64_free) struct map_u64 index = { 0 };
	uint32_t k = 0;
	f->places = retention_sites_new(g);
	for (uint32_t i = 0; i < g->n; i++) {
		if (g->types.v[g->type[i]].kind != GRAPH_STRING)
			continue;
		uint32_t value = s->of_string[k++];
		if (!heapgraph_reached(g, i))
			continue;
		f->strings++;
		f->string_bytes += (uint64_t)g->units[i] * 8;
		if (!value || (value - 1 != asked && s->values.v[value - 1].copies < 2))
			continue;
		uint32_t place = retention_sites_of(f->places, i);
		bool fresh;
		uint64_t *at = map_u64_put(&index, (uint64_t)value << 32 | place, &fresh);
		if (fresh) {
			*at = f->shares.n;
			vec_push(&f->shares,
				 ((struct strings_share){ .value = value - 1, .place = place, .example = i }));
		}
		f->shares.v[*at].copies++;
	}
	vec_sort(&f->shares, by_value);
}

static int worst_place_first(const void *a, const void *b)
{
	const struct place_sum *x = a, *y = b;
	return CMP(y->wasted, x->wasted) ?: CMP(x->place, y->place);
}

/* One copy of each value has to be: no place is better than another for it, so each carries its part. */
static void sum_places(const struct string_values *s, struct strings_findings *f)
{
	for (uint32_t i = 0; i < retention_sites_count(f->places); i++)
		vec_push(&f->by_place, (struct place_sum){ .place = i });
	vec_each(share, &f->shares) {
		const struct string_value *v = &s->values.v[share->value];
		struct place_sum *sum = &f->by_place.v[share->place];
		if (v->copies < 2)
			continue;
		sum->copies += share->copies;
		sum->values++;
		sum->wasted += (double)string_wasted(v) * share->copies / v->copies;
	}
	vec_sort(&f->by_place, worst_place_first);
}

static const struct strings_share *shares_of(const struct strings_findings *f, uint32_t value, size_t *ret_n)
{
	size_t lo = 0, hi = f->shares.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (f->shares.v[mid].value < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	size_t end = lo;
	while (end < f->shares.n && f->shares.v[end].value == value)
		end++;
	*ret_n = end - lo;
	return f->shares.n ? &f->shares.v[lo] : NULL;
}

/* ---- words ---- */

static bool is_worth(const struct strings_findings *f)
{
	return f->wasted >= WORTH_BYTES && ratio(f->wasted, f->heap) >= WORTH_SHARE;
}

static void say_place(const struct strings_findings *f, struct rich *v)
{
	const struct place_sum *top = f->by_place.n ? &f->by_place.v[0] : NULL;
	CLEANUP(buf_free) struct buf field = { 0 }, holder = { 0 };
	if (!top || top->wasted < MAIN_SHARE * (double)f->wasted)
		return;
	retention_site_field(f->places, top->place, &field);
	retention_site_holder(f->places, top->place, &holder);
	rich_text(v, " %s of that is in ", fmt_percent(ratio(top->wasted, f->wasted)).s);
	rich_code(v, buf_cstr(&field));
	if (holder.len) {
		rich_text(v, ", held by ");
		rich_code(v, buf_cstr(&holder));
	}
	rich_text(v, ".");
}

static void add_verdict(const struct exam *exam, const struct string_values *s, const struct strings_findings *f,
			struct report *report)
{
	bool worth = is_worth(f);
	const char *finding = worth ? "strings-duplicated" : "nothing-found";
	struct rich *v = report_verdict(report, worth ? REPORT_WARN : REPORT_OK, finding);
	if (!worth) {
		rich_text(v, "No problem here: copies of equal strings take ");
		rich_strong(v, "%s", fmt_bytes(f->wasted).s);
		rich_text(v, ", %s of what is alive on the heap.", fmt_percent(ratio(f->wasted, f->heap)).s);
		return;
	}
	const struct string_value *top = &s->values.v[f->order.v[0].value];
	CLEANUP(buf_free) struct buf text = { 0 };
	if (top->text)
		string_show(top, VERDICT_CHARS, &text);
	rich_text(v, "Copies of equal strings take ");
	rich_strong(v, "%s, %s of the heap", fmt_bytes(f->wasted).s, fmt_percent(ratio(f->wasted, f->heap)).s);
	rich_text(v, ": %s kept %s times in all, the worst ", fmt_plural(f->order.n, "value is", "values are").s,
		  fmt_count(f->copies).s);
	rich_data(v, buf_cstr(&text));
	rich_text(v, " %s times.", fmt_count(top->copies).s);
	say_place(f, v);
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct heapgraph *g, const struct strings_findings *f, struct report *report)
{
	CLEANUP(mem_freep) char *values = mem_printf("in %s", fmt_plural(f->order.n, "value", "values").s);
	report_figure(report, "Wasted", V_BYTES(f->wasted), values);
	report_figure(report, "Strings", V_BYTES(f->string_bytes), fmt_count(f->strings).s);
	report_figure(report, "Alive", V_BYTES(f->heap), fmt_plural(g->reached_objects, "object", "objects").s);
}

/* ---- tables ---- */

static void add_lines(const struct strings_findings *f, uint32_t value, struct report_row *row)
{
	size_t n;
	const struct strings_share *shares = shares_of(f, value, &n);
	uint64_t rest = 0;
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		if (i >= LINES) {
			rest += shares[i].copies;
			continue;
		}
		retention_site_name(f->places, shares[i].place, &name);
		report_row_line(row, VALUE_CODE, buf_cstr(&name), fmt_count(shares[i].copies).s);
	}
	if (rest) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more places", fmt_count(n - LINES).s);
		report_row_line(row, VALUE_TEXT, words, fmt_count(rest).s);
	}
}

static void add_values(const struct string_values *s, const struct strings_findings *f, size_t max_chars,
		       size_t max_rows, struct report *report)
{
	struct report_table *t = report_table(report, "Values");
	uint64_t rest_values = 0, rest_copies = 0, rest_wasted = 0;
	report_column(t, "Value", VALUE_CODE, COLUMN_DATA);
	report_column(t, "Length", VALUE_COUNT, 0);
	report_column(t, "Copies", VALUE_COUNT, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < f->order.n; i++) {
		const struct string_value *v = &s->values.v[f->order.v[i].value];
		CLEANUP(buf_free) struct buf text = { 0 };
		if (i >= max_rows || (i >= ROWS_MIN && (double)f->order.v[i].wasted < ROW_SHARE * (double)f->wasted)) {
			rest_values++;
			rest_copies += v->copies;
			rest_wasted += f->order.v[i].wasted;
			continue;
		}
		if (v->text)
			string_show(v, max_chars, &text);
		struct report_row *row =
			report_row(t, (struct value[]){ v->text ? V_CODE(buf_cstr(&text)) : V_TEXT("(text not kept)"),
							v->text ? V_COUNT(v->length) : V_NONE, V_COUNT(v->copies),
							V_BYTES(f->order.v[i].wasted),
							V_RATIO(ratio(f->order.v[i].wasted, f->wasted)) });
		add_lines(f, f->order.v[i].value, row);
	}
	if (rest_copies) {
		CLEANUP(mem_freep)
		char *words = mem_printf("%s", fmt_plural(rest_values, "smaller value", "smaller values").s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT(rest_copies), V_BYTES(rest_wasted),
						 V_RATIO(ratio(rest_wasted, f->wasted)) });
	}
}

static void add_places(const struct strings_findings *f, struct report *report)
{
	struct report_table *t = report_table(report, "Where they are kept");
	struct place_sum rest = { 0 };
	report_column(t, "Field", VALUE_CODE, 0);
	report_column(t, "Values", VALUE_COUNT, 0);
	report_column(t, "Copies", VALUE_COUNT, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < f->by_place.n; i++) {
		const struct place_sum *p = &f->by_place.v[i];
		CLEANUP(buf_free) struct buf field = { 0 }, holder = { 0 };
		if (!p->copies)
			continue;
		if (i >= PLACE_ROWS || p->wasted < ROW_SHARE * (double)f->wasted) {
			rest.values++;
			rest.copies += p->copies;
			rest.wasted += p->wasted;
			continue;
		}
		retention_site_field(f->places, p->place, &field);
		retention_site_holder(f->places, p->place, &holder);
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(buf_cstr(&field)), V_COUNT(p->values),
							V_COUNT(p->copies), V_BYTES((uint64_t)(p->wasted + 0.5)),
							V_RATIO(ratio(p->wasted, f->wasted)) });
		if (holder.len) {
			CLEANUP(mem_freep) char *line = mem_printf("in %s", buf_cstr(&holder));
			report_row_line(row, VALUE_CODE, line, NULL);
		}
	}
	if (rest.copies) {
		CLEANUP(mem_freep)
		char *words = mem_printf("%s", fmt_plural(rest.values, "smaller place", "smaller places").s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT(rest.copies),
						 V_BYTES((uint64_t)(rest.wasted + 0.5)),
						 V_RATIO(ratio(rest.wasted, f->wasted)) });
	}
}

/* ---- one given string ---- */

#define NOT_ASKED UINT32_MAX

/* Its value's number; NOT_ASKED when it is not there. */
static uint32_t find_asked(const struct string_values *s, const char *asked)
{
	size_t len = strlen(asked);
	for (uint32_t i = 0; i < s->values.n; i++)
		if (s->values.v[i].text && s->values.v[i].text_len == len &&
		    memcmp(s->values.v[i].text, asked, len) == 0)
			return i;
	return NOT_ASKED;
}

static void say_absent(const struct exam *exam, const struct string_values *s, const char *asked, struct report *report)
{
	struct rich *v = report_verdict(report, REPORT_INFO, "string-not-found");
	rich_text(v, "There is no string ");
	rich_data(v, asked);
	rich_text(v, exam->replay ? " among the %s values whose text the recording keeps." : " on the heap.",
		  fmt_count(MIN(s->values.n, (size_t)STRING_TEXTS)).s);
}

static void add_paths(const struct strings_findings *f, const struct strings_share *shares, size_t n,
		      struct report *report)
{
	struct report_table *t = report_table(report, "Who keeps it");
	uint64_t rest = 0;
	report_column(t, "Field", VALUE_CODE, 0);
	report_column(t, "Copies", VALUE_COUNT, COLUMN_MAIN);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf field = { 0 }, path = { 0 };
		if (i >= PATHS) {
			rest += shares[i].copies;
			continue;
		}
		retention_site_field(f->places, shares[i].place, &field);
		retention_site_path(f->places, shares[i].example, &path);
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(buf_cstr(&field)), V_COUNT(shares[i].copies) });
		report_row_line(row, VALUE_CODE, buf_cstr(&path), NULL);
	}
	if (rest) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more", fmt_count(n - PATHS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_COUNT(rest) });
	}
}

static void say_asked(const struct string_values *s, const struct strings_findings *f, uint32_t asked, const char *text,
		      struct report *report)
{
	const struct string_value *v = &s->values.v[asked];
	size_t n;
	const struct strings_share *shares = shares_of(f, asked, &n);
	struct rich *verdict = report_verdict(report, REPORT_INFO, v->copies ? "string-held" : "string-garbage");
	rich_text(verdict, "The string ");
	rich_data(verdict, text);
	if (!v->copies) {
		rich_text(verdict, " is there %s and nobody holds it: garbage that waits for a collection.",
			  fmt_plural(v->garbage, "time", "times").s);
		return;
	}
	rich_text(verdict, " is kept ");
	rich_strong(verdict, "%s, %s in all", fmt_plural(v->copies, "time", "times").s, fmt_bytes(v->bytes).s);
	if (n) {
		CLEANUP(buf_free) struct buf path = { 0 };
		retention_site_path(f->places, shares[0].example, &path);
		rich_text(verdict, "; %s by ", n == 1 ? "all" : fmt_count(shares[0].copies).s);
		rich_code(verdict, buf_cstr(&path));
	}
	rich_text(verdict, ".");
	add_paths(f, shares, n, report);
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct strings_state *s = exam->state = mem_zalloc(sizeof(*s));
	string_values_watch(&s->strings, &s->look, params_text(exam->params, "string"));
	return heap_look(&s->look, exam, "heap");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct strings_state *s = exam->state;
	struct heapgraph *g = s->look.graph;
	CLEANUP(findings_free) struct strings_findings f = { 0 };
	const char *text = params_text(exam->params, "string");
	uint32_t asked = str_empty(text) ? NOT_ASKED : find_asked(&s->strings, text);
	heapgraph_dominate(g);
	TRY(string_values_count(&s->strings, g));
	f.heap = g->reached_units * 8;
	rank_values(&s->strings, &f);
	find_places(&s->strings, g, asked, &f);
	sum_places(&s->strings, &f);
	if (str_empty(text))
		add_verdict(exam, &s->strings, &f, report);
	else if (asked == NOT_ASKED)
		say_absent(exam, &s->strings, text, report);
	else
		say_asked(&s->strings, &f, asked, text, report);
	add_figures(g, &f, report);
	if (!params_is_default(exam->params, "top_count") ||
	    !params_is_default(exam->params, "max_string_display_size"))
		report_asked(report);
	if (str_empty(text) && f.order.n) {
		add_values(&s->strings, &f, (size_t)params_int(exam->params, "max_string_display_size"),
			   (size_t)params_int(exam->params, "top_count"), report);
		add_places(&f, report);
	}
	image_exam_how(report, &s->look.facts, 1);
	heap_look_how(report, &s->look);
	if (f.garbage)
		report_how(report, "Garbage", V_COUNT(f.garbage), "further copies that nobody holds; not counted");
	if (s->strings.unread)
		report_how(report, "Strings not read", V_COUNT(s->strings.unread), "their text is not in the image");
	return NULL;
}

static void free_state(void *state)
{
	struct strings_state *s = state;
	heap_look_fini(&s->look);
	string_values_fini(&s->strings);
	mem_free(s);
}

const struct profiler profiler_duplicated_strings = {
	.id = "duplicated-strings",
	.uuid = "bdaba522-104c-4343-8952-036bed81527d",
	.name = "Duplicated strings",
	.chapter = CHAPTER_MEMORY,
	.label = "Memory is high in a program full of strings",
	.symptom = "memory is high in a program full of strings: which values are kept over and over?",
	.description =
		"Compares every string on the managed heap and lists the values that are kept more than once, with "
		"what the copies cost (headers included) and the fields that keep them. Given one string, it "
		"says who keeps that one. Values are shown as they are; by a share link, and in a report that is masked, only "
		"their shape is.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.contract_files = (const char *const[]){ "summary.md", NULL },
	.params =
		(const struct param[]){
			{ .key = "top_count",
			  .name = "Values shown",
			  .description = "The most wasteful ones; the rest is summed up.",
			  .type = PARAM_INT,
			  .default_value = "100",
			  .min = 1,
			  .max = 1e6 },
			{ .key = "max_string_display_size",
			  .name = "Characters shown",
			  .description = "Of each value; more than 1,024 are not kept.",
			  .type = PARAM_INT,
			  .default_value = "128",
			  .min = 1,
			  .max = 1e6 },
			{ .key = "string",
			  .name = "One string",
			  .description = "Who keeps this very string? Empty = all that are kept more than once.",
			  .type = PARAM_STRING,
			  .default_value = "",
			  .data = true },
			PARAM_MAX_PAUSE,
		},
	.n_params = 4,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "strings-duplicated",
			  "Where that field is filled, take the value from one place: a constant, an enum, "
			  "string.Intern, or a pool of your own (a Dictionary, or StringPool)." },
		},
	.n_advice = 1,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
