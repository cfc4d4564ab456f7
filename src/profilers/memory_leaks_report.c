/* What the looks of memory-leaks say: what grows, and the report of it. */

#include "profilers/memory_leaks.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdlib.h>

#define ROWS 25
#define TYPE_ROWS 25
#define CHART_LINES 5

/* Growth that is mentioned: caches and the runtime itself grow a little now and then. */
#define GROWTH_BYTES ((int64_t)100 << 10)
#define GROWTH_SHARE 0.01 /* of what is alive */
/* Of the heap could not be read: then nobody can say that nothing grows. */
#define UNREAD_SHARE 0.01
#define GARBAGE_BYTES ((int64_t)16 << 20) /* less is ordinary between two collections */

/* ---- what grows ---- */

static int64_t growth(const struct leaks *l, const struct grower *g)
{
	return (int64_t)g->at[l->n - 1].bytes - (int64_t)g->at[0].bytes;
}

static int64_t object_growth(const struct leaks *l, const struct grower *g)
{
	return (int64_t)g->at[l->n - 1].objects - (int64_t)g->at[0].objects;
}

/* More objects at every look, and at the last still about as many more as before. */
static bool grows_steadily(const struct leaks *l, const struct grower *g)
{
	int64_t last = 0;
	for (uint32_t i = 1; i < l->n; i++) {
		last = (int64_t)g->at[i].objects - (int64_t)g->at[i - 1].objects;
		if (last <= 0)
			return false;
	}
	return (double)last >= STILL_GROWS * (double)object_growth(l, g) / (double)(l->n - 1);
}

static bool is_leak(const struct leaks *l, const struct grower *g)
{
	int64_t least = MAX(GROWTH_BYTES, (int64_t)(GROWTH_SHARE * (double)l->alive[l->n - 1].bytes));
	return growth(l, g) >= least && grows_steadily(l, g);
}

static double minutes(const struct leaks *l)
{
	uint64_t ns = l->facts[l->n - 1].at_ns - l->facts[0].at_ns;
	return (double)MAX(ns, (uint64_t)1) / 60e9;
}

static int64_t steady_growth(const struct leaks *l, const uint64_t *bytes)
{
	struct memory_steps steps = { .n = l->n };
	memcpy(steps.bytes, bytes, sizeof(steps.bytes));
	return memory_steps_grow(&steps, l->rss[l->n - 1]);
}

/* Of memory outside of the managed heap the kind that grows most, from look to look; GRAPH_AREAS = none does. One kind
 * may grow while another shrinks: then the process does not. And at first it takes memory whatever it does. */
static enum graph_area growing_area(const struct leaks *l)
{
	enum graph_area most = GRAPH_AREAS;
	int64_t of_most = 0, of_all = (int64_t)l->rss[l->n - 1] - (int64_t)l->rss[0];
	for (enum graph_area a = 0; l->rss[0] && !l->young && a < GRAPH_AREAS; a++) {
		int64_t grown = a == GRAPH_AREA_HEAP ? 0 : steady_growth(l, l->area[a]);
		if (grown > of_most && of_all * 2 >= grown) {
			most = a;
			of_most = grown;
		}
	}
	return most;
}

/* qsort has no argument for it. */
static const struct leaks *sorting;

static int leaks_first(const void *a, const void *b)
{
	const struct grower *x = a, *y = b;
	bool lx = is_leak(sorting, x), ly = is_leak(sorting, y);
	int64_t gx = growth(sorting, x), gy = growth(sorting, y);
	return CMP(ly, lx) ?: CMP(gy, gx) ?: strcmp(x->name, y->name);
}

/* ---- words ---- */

/* What all of them are kept by tells more than in how many places they are. */
static bool kept_all(const struct grower *g)
{
	bool all = g->kept_by && !g->how.leads && g->how.telling && g->how.all > 1 && g->how.objects == g->how.all;
	/* A delay ends by itself: what it keeps for now is no holder that grows. */
	return all && !strstr(g->kept_by, g->shown) && !strstr(g->kept_by, "Task.Delay");
}

static void say_grower(const struct leaks *l, const struct grower *g, struct rich *v)
{
	uint32_t last = l->n - 1;
	int64_t kept = (int64_t)g->kept[last] - (int64_t)g->kept[0];
	bool counts = g->keeps && kept > 0;
	bool leads = g->how.leads;
	rich_code(v, leads ? g->kept_by : g->shown);
	if (kept_all(g)) {
		rich_text(v, ", kept by ");
		rich_code(v, g->kept_by);
		rich_text(v, ",");
	} else if (*g->detail && !leads) {
		rich_text(v, " (");
		rich_code(v, g->detail);
		rich_text(v, ")");
	}
	rich_text(v, leads ? " keep more and more: " : " keeps growing: ");
	rich_strong(v, "%s a minute", fmt_bytes((uint64_t)((double)growth(l, g) / minutes(l))).s);
	rich_text(v, ", %s ", fmt_signed(counts ? kept : object_growth(l, g)).s);
	if (counts)
		rich_code(v, g->keeps);
	else
		rich_text(v, "objects");
	rich_text(v, " in %s; %s %s.", fmt_duration_ns((uint64_t)(minutes(l) * 60e9)).s, leads ? "now" : "it now keeps",
		  fmt_bytes(g->at[last].bytes).s);
}

static void say_area(const struct leaks *l, enum graph_area a, struct rich *v)
{
	uint64_t grown = l->area[a][l->n - 1] - l->area[a][0];
	rich_code(v, heap_area_names[a]);
	rich_text(v, " takes ");
	rich_strong(v, "%s more a minute", fmt_bytes((uint64_t)((double)grown / minutes(l))).s);
	rich_text(v, " and now has %s of the %s in RAM.", fmt_bytes(l->area[a][l->n - 1]).s,
		  fmt_bytes(l->rss[l->n - 1]).s);
}

/* What each kind of memory had at the first look and has at the last. */
static void add_areas(const struct leaks *l, struct report *report)
{
	uint32_t last = l->n - 1;
	if (!l->rss[0] || !l->rss[last])
		return;
	struct report_table *t = report_table(report, "Where the memory is");
	report_column(t, "Memory", VALUE_TEXT, 0);
	report_column(t, "First look", VALUE_BYTES, 0);
	report_column(t, "Last look", VALUE_BYTES, COLUMN_MAIN);
	for (enum graph_area a = 0; a < GRAPH_AREAS; a++)
		if (l->area[a][last])
			report_row(t, (struct value[]){ V_TEXT(heap_area_names[a]), V_BYTES(l->area[a][0]),
							V_BYTES(l->area[a][last]) });
}

/* All that is alive, as one item. */
static bool all_grows(const struct leaks *l)
{
	struct grower all = { 0 };
	memcpy(all.at, l->alive, sizeof(l->alive));
	return l->n > 2 && is_leak(l, &all);
}

/* Holders are recognised by name; what has another holder at each look has none, but still grows. */
static void say_all(const struct leaks *l, struct rich *v)
{
	int64_t grown = (int64_t)l->alive[l->n - 1].bytes - (int64_t)l->alive[0].bytes;
	rich_text(v, "What is alive grows by ");
	rich_strong(v, "%s a minute", fmt_bytes((uint64_t)((double)grown / minutes(l))).s);
	rich_text(v, ", from %s to %s, though no single holder does.", fmt_bytes(l->alive[0].bytes).s,
		  fmt_bytes(l->alive[l->n - 1].bytes).s);
	if (l->types.n && growth(l, &l->types.v[0]) > 0) {
		rich_text(v, " Most of it is ");
		rich_code(v, l->types.v[0].name);
		rich_text(v, ": %s objects.", fmt_signed(object_growth(l, &l->types.v[0])).s);
	}
}

/* Of what is alive, when no holder grows at every look. */
static struct memory_steps steps_of(const struct leaks *l)
{
	struct memory_steps steps = { .n = l->n };
	for (uint32_t i = 0; i < l->n; i++)
		steps.bytes[i] = l->alive[i].bytes;
	return steps;
}

static void say_changes(const struct leaks *l, struct rich *v)
{
	struct memory_steps steps = steps_of(l);
	const struct grower *top = l->holders.n ? &l->holders.v[0] : NULL;
	memory_steps_say(&steps, v);
	if (memory_steps_fall(&steps) || !top || growth(l, top) * 2 < (int64_t)memory_steps_range(&steps))
		return;
	rich_text(v, " Most of it is kept by ");
	rich_code(v, top->shown);
	rich_text(v, ".");
}

static void say_left_out(const struct leaks *l, struct rich *v)
{
	rich_text(v, "Nothing grows in what could be read of the heap, but ");
	rich_strong(v, "%s", fmt_bytes(l->lost / l->n).s);
	rich_text(v, " of it could not be read at each look: what is in it may grow.");
}

/* Garbage is not leaked, but it takes memory until it is collected. */
static void say_garbage(const struct leaks *l, struct rich *v)
{
	if (steady_growth(l, l->garbage) >= GARBAGE_BYTES)
		rich_text(v, " Garbage has grown from %s to %s: no collection has taken it yet.",
			  fmt_bytes(l->garbage[0]).s, fmt_bytes(l->garbage[l->n - 1]).s);
}

static const char *finding_of(const struct leaks *l, size_t n_leaks)
{
	if (l->n < 2)
		return "one-look";
	if (n_leaks && l->n > 2 && l->holders.v[0].finalizers)
		return "finalizers-behind";
	if (n_leaks)
		/* Two looks are a difference, three a direction. */
		return l->n > 2 ? "leak" : "grew";
	if (all_grows(l))
		return "leak-without-holder";
	if (growing_area(l) != GRAPH_AREAS)
		return "grows-elsewhere";
	struct memory_steps steps = steps_of(l);
	if (memory_steps_much(&steps))
		return memory_steps_fall(&steps) ? "comes-and-goes" : "grew-in-steps";
	bool unread = l->lost && ratio(l->lost, l->seen_bytes + l->lost) >= UNREAD_SHARE;
	return unread ? "not-all-read" : "nothing-found";
}

static enum report_health health_of(const char *finding)
{
	return str_starts(finding, "leak") || str_eq(finding, "finalizers-behind") ? REPORT_BAD
	       : str_eq(finding, "grew") || str_eq(finding, "grows-elsewhere")	   ? REPORT_WARN
	       : str_eq(finding, "nothing-found")				   ? REPORT_OK
										   : REPORT_INFO;
}

static void add_verdict(const struct exam *exam, const struct leaks *l, struct report *report)
{
	const struct grower *top = l->holders.n ? &l->holders.v[0] : NULL;
	size_t n_leaks = 0;
	vec_each(g, &l->holders)
		n_leaks += l->n > 1 && is_leak(l, g);
	uint64_t first = l->n ? l->alive[0].bytes : 0, last = l->n ? l->alive[l->n - 1].bytes : 0;
	const char *finding = finding_of(l, n_leaks);
	enum graph_area elsewhere = growing_area(l);
	struct rich *v = report_verdict(report, health_of(finding), finding);
	if (l->n < 2) {
		rich_text(v, "There was only one look, so nothing can be said about growth. %s are alive.",
			  fmt_bytes(last).s);
		return;
	}
	if (str_eq(finding, "leak-without-holder")) {
		say_all(l, v);
	} else if (!n_leaks && elsewhere != GRAPH_AREAS) {
		rich_text(v, "The managed heap does not grow, but the process does: ");
		say_area(l, elsewhere, v);
	} else if (str_eq(finding, "comes-and-goes") || str_eq(finding, "grew-in-steps")) {
		say_changes(l, v);
	} else if (str_eq(finding, "not-all-read")) {
		say_left_out(l, v);
	} else if (!n_leaks) {
		rich_text(v,
			  "No problem here: nothing grows steadily. %s were alive at the first look, %s at the last.",
			  fmt_bytes(first).s, fmt_bytes(last).s);
		say_garbage(l, v);
	} else {
		say_grower(l, top, v);
		if (top->kept_by && !top->how.leads && !kept_all(top))
			holder_kept_say(&top->how, top->kept_by, v);
		if (n_leaks > 1)
			rich_text(v, " %s with it.",
				  fmt_plural(n_leaks - 1, "other holder grows", "other holders grow").s);
		if (elsewhere != GRAPH_AREAS) {
			rich_text(v, " Outside of the managed heap, ");
			say_area(l, elsewhere, v);
		}
	}
	if (*l->finalizers)
		rich_text(v, " %s.", l->finalizers);
	if (top && top->kept_by && top->how.advice && (str_eq(finding, "leak") || str_eq(finding, "grew")))
		rich_text(report_next(report), "%s", top->how.advice);
	else
		report_advice(report, exam->profiler, finding);
}

static void add_holders(const struct leaks *l, struct report *report)
{
	uint32_t last = l->n - 1;
	size_t shown = 0;
	struct report_table *t = report_table(report, "Holders that grew");
	report_column(t, "Holder", VALUE_CODE, 0);
	report_column(t, "Keeps", VALUE_CODE, 0);
	report_column(t, "Steady", VALUE_TEXT, 0);
	report_column(t, "More objects", VALUE_COUNT, 0);
	report_column(t, "Grew by", VALUE_BYTES, 0);
	report_column(t, "A minute", VALUE_BYTES, 0);
	report_column(t, "Now", VALUE_BYTES, 0);
	vec_each(g, &l->holders) {
		if (growth(l, g) <= 0 || object_growth(l, g) <= 0 || shown++ >= ROWS)
			continue;
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(g->shown), g->keeps ? V_CODE(g->keeps) : V_NONE,
					     V_TEXT(is_leak(l, g) ? "yes" : "no"), V_COUNT(object_growth(l, g)),
					     V_BYTES(growth(l, g)), V_BYTES((double)growth(l, g) / minutes(l)),
					     V_BYTES(g->at[last].bytes) });
		CLEANUP(buf_free) struct buf steps = { 0 };
		for (uint32_t i = 0; i < l->n; i++)
			buf_printf(&steps, "%s%s", i ? " → " : "objects: ", fmt_count(g->at[i].objects).s);
		if (*g->detail)
			report_row_line(row, VALUE_CODE, g->detail, NULL);
		if (g->kept_by)
			holder_kept_line(row, g->kept_by);
		report_row_line(row, VALUE_TEXT, buf_cstr(&steps), NULL);
	}
}

static void add_types(struct leaks *l, struct report *report)
{
	struct report_table *t = report_table(report, "Types that grew");
	size_t shown = 0;
	uint32_t last = l->n - 1;
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "New", VALUE_COUNT, 0);
	report_column(t, "Gone", VALUE_COUNT, 0);
	report_column(t, "Stayed", VALUE_COUNT, 0);
	report_column(t, "Grew by", VALUE_BYTES, 0);
	report_column(t, "Now", VALUE_BYTES, 0);
	vec_each(g, &l->types) {
		uint64_t stayed = g->same.stayed;
		if (growth(l, g) <= 0 || shown++ >= TYPE_ROWS)
			continue;
		report_row(t, (struct value[]){ V_CODE(g->name),
						l->knows_same ? V_COUNT(g->at[last].objects - stayed) : V_NONE,
						l->knows_same ? V_COUNT(g->at[0].objects - stayed) : V_NONE,
						l->knows_same ? V_COUNT(stayed) : V_NONE, V_BYTES(growth(l, g)),
						V_BYTES(g->at[last].bytes) });
	}
}

static void how_same(const struct leaks *l, struct report *report)
{
	uint64_t stayed = 0, unsure = 0;
	vec_each(g, &l->types) {
		stayed += g->same.stayed;
		unsure += g->same.unsure;
	}
	CLEANUP(mem_freep)
	char *words = unsure ? mem_printf("by address and type; %s may have moved instead, and count as gone and new",
					  fmt_plural(unsure, "young one", "young ones").s)
			     : mem_strdup("by address and type");
	if (l->knows_same)
		report_how(report, "Known again", V_COUNT(stayed), words);
	else
		report_how(report, "Known again", V_NONE,
			   "a collection has moved objects in between: which ones are new cannot be told");
}

static void add_chart(const struct leaks *l, struct report *report)
{
	uint64_t at[LOOKS_MAX], window = l->facts[l->n - 1].at_ns - l->facts[0].at_ns;
	double y[LOOKS_MAX];
	for (uint32_t i = 0; i < l->n; i++) {
		at[i] = l->facts[i].at_ns - l->facts[0].at_ns;
		y[i] = (double)l->alive[i].bytes;
	}
	struct report_chart *chart = report_chart(report, "Alive at each look", VALUE_BYTES, window);
	report_chart_line(chart, "all objects", at, y, l->n);
	for (size_t k = 0; k < l->holders.n && k < CHART_LINES; k++) {
		const struct grower *g = &l->holders.v[k];
		if (!is_leak(l, g))
			break;
		for (uint32_t i = 0; i < l->n; i++)
			y[i] = (double)g->at[i].bytes;
		report_chart_line(chart, g->shown, at, y, l->n);
	}
}

struct err *leaks_analyse(struct exam *exam, struct report *report)
{
	struct leaks *l = exam->state;
	sorting = l;
	l->young = exam_is_young(exam);
	if (l->n > 1) {
		vec_sort(&l->holders, leaks_first);
		vec_sort(&l->types, leaks_first);
	}
	add_verdict(exam, l, report);
	if (l->n > 1) {
		int64_t grown = (int64_t)l->alive[l->n - 1].bytes - (int64_t)l->alive[0].bytes;
		report_figure(report, "Alive", V_BYTES(l->alive[l->n - 1].bytes), "at the last look");
		report_figure(report, grown < 0 ? "Shrank by" : "Grew by", V_BYTES(llabs(grown)),
			      "since the first look");
		report_figure(report, "Looks", V_COUNT(l->n), fmt_duration_ns((uint64_t)(minutes(l) * 60e9)).s);
		add_chart(l, report);
		add_holders(l, report);
		report_details(report);
		add_types(l, report);
		add_areas(l, report);
	}
	image_exam_how(report, l->facts, l->n);
	if (l->n > 1)
		how_same(l, report);
	report_how(report, "Objects walked", V_COUNT(l->walked),
		   l->lost ? "a part of the heap makes no sense and was left out" : "none skipped");
	if (l->threads_unread)
		report_how(report, "Stacks not read", V_COUNT(l->threads_unread),
			   "what they alone hold is not counted");
	return NULL;
}
