/* The report of the jit profiler: verdict, figures, tables. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "profilers/jit.h"
#include "exam/profiler.h"
#include <stdlib.h>

/* Of the time. A program that has started compiles next to nothing. Background compilation delays no thread, and takes
 * long by the clock where cores are few. */
#define SHARE_MUCH 0.10
#define SHARE_VERY_MUCH 0.50
/* Code that is made again and again, not only while the program starts. */
#define AGAIN_COUNT 20
#define AGAIN_RATE 2.0
#define AGAIN_SLOTS 0.5
#define REJECTED_MANY 50
#define REJECTED_SHARE 0.10

#define ROWS 40

struct jit_view {
	uint64_t window_ns;
	double share;		       /* of the time; may exceed 1 with several threads */
	uint64_t own_ns;	       /* on threads that wait for it */
	const struct jit_group *again; /* made again and again, the most expensive; or NULL */
	struct jit_group *sorted;      /* slowest first; the caller frees it */
};

/* Tier 1 is compiled in the background; all else by the thread that is about to run the method. */
static bool in_background(unsigned tier)
{
	return tier == 4 || tier == 6 || tier == 7;
}

static int slowest_first(const void *a, const void *b)
{
	const struct jit_group *x = a, *y = b;
	return CMP(y->sum.ns, x->sum.ns) ?: CMP(y->sum.count, x->sum.count);
}

static bool made_again(const struct jit_group *g, uint64_t window_ns)
{
	double rate = per_second(g->sum.count, window_ns);
	double slots = (double)window_ns / JIT_SLOT_NS;
	return g->sum.count >= AGAIN_COUNT && rate >= AGAIN_RATE && g->slots >= AGAIN_SLOTS * slots;
}

static struct jit_view view_of(const struct exam *exam, const struct jit *j)
{
	struct jit_view v = { .window_ns = exam->end_ns - exam->start_ns };
	v.share = ratio(j->all.ns, v.window_ns);
	for (unsigned t = 0; t < CLR_TIERS; t++)
		v.own_ns += in_background(t) ? 0 : j->tiers[t].ns;
	v.sorted = mem_array(j->groups.n + 1, sizeof(*v.sorted));
	for (size_t i = 0; i < j->groups.n; i++)
		v.sorted[i] = j->groups.v[i];
	if (j->groups.n > 1)
		qsort(v.sorted, j->groups.n, sizeof(*v.sorted), slowest_first);
	for (size_t i = 0; i < j->groups.n && !v.again; i++) {
		if (made_again(&v.sorted[i], v.window_ns))
			v.again = &v.sorted[i];
	}
	return v;
}

static const char *finding_of(const struct jit *j, const struct jit_view *v)
{
	if (v->again)
		return v->again->dynamic ? "code-made-again" : "generics-made-again";
	if (j->rejected >= REJECTED_MANY && (double)j->rejected >= REJECTED_SHARE * (double)j->all.count)
		return "precompiled-code-rejected";
	double waiting = ratio(v->own_ns, v->window_ns);
	return waiting >= SHARE_MUCH || v->share >= SHARE_VERY_MUCH ? "much-compilation" : "nothing-found";
}

static void add_reason(const struct jit *j, const struct jit_view *v, const char *finding, struct rich *text)
{
	if (v->again && str_ends(finding, "-made-again")) {
		rich_text(text, " New code is made all the time: ");
		rich_code(text, strtab_get(&j->names, v->again->name));
		rich_text(text, "%s was compiled ", v->again->dynamic ? ", a dynamic method," : "");
		rich_strong(text, "%s times", fmt_count(v->again->sum.count).s);
		rich_text(text, " (%s).", fmt_rate(per_second(v->again->sum.count, v->window_ns)).s);
	} else if (str_eq(finding, "precompiled-code-rejected")) {
		rich_text(text, " For ");
		rich_strong(text, "%s of them", fmt_count(j->rejected).s);
		rich_text(text, " there was precompiled code that could not be used.");
	} else {
		rich_text(text, " The most time, %s, went into ",
			  fmt_percent((double)v->sorted[0].sum.ns / (double)MAX(j->all.ns, 1ull)).s);
		rich_code(text, strtab_get(&j->names, v->sorted[0].name));
		rich_text(text, ".");
	}
}

static void add_verdict(const struct exam *exam, const struct jit *j, const struct jit_view *v, struct report *report)
{
	const char *finding = finding_of(j, v);
	bool found = !str_eq(finding, "nothing-found");
	/* What is compiled once may look like what is compiled again and again as long as all of it is new. */
	bool begins =
		exam_is_young(exam) && (str_eq(finding, "generics-made-again") || str_eq(finding, "much-compilation"));
	enum report_health health = !found			  ? REPORT_OK
				    : begins			  ? REPORT_INFO
				    : v->share >= SHARE_VERY_MUCH ? REPORT_BAD
								  : REPORT_WARN;
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!j->all.count) {
		rich_text(text, "No problem here: nothing was compiled in %s.", window.s);
		return;
	}
	struct fmt_text methods = fmt_plural(j->all.count, "method", "methods"), took = fmt_duration_ns(j->all.ns);
	if (!found) {
		rich_text(text, "No problem here: %s compiled in %s, which took %s (%s of the time).", methods.s,
			  window.s, took.s, fmt_percent(v->share).s);
		return;
	}
	rich_text(text, "The JIT compiled ");
	rich_strong(text, "%s", methods.s);
	rich_text(text, " in %s and took ", window.s);
	rich_strong(text, "%s", took.s);
	rich_text(text, " (%s of the time), %s of it on threads that wait for the code.", fmt_percent(v->share).s,
		  fmt_duration_ns(v->own_ns).s);
	add_reason(j, v, finding, text);
	if (begins)
		rich_text(text, " It started %s before this, and compiles its code, as every process does at first.",
			  fmt_duration_ns(exam->age_ns).s);
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct jit *j, const struct jit_view *v, struct report *report)
{
	report_figure(report, "Methods", V_COUNT(j->all.count), fmt_rate(per_second(j->all.count, v->window_ns)).s);
	CLEANUP(mem_freep) char *share = mem_printf("%s of the time", fmt_percent(v->share).s);
	report_figure(report, "Compiling", V_NS(j->all.ns), share);
	CLEANUP(mem_freep)
	char *il = mem_printf("from %s of IL%s", fmt_bytes(j->all.il_bytes).s,
			      j->dynamic.count ? ", dynamic methods not told" : "");
	report_figure(report, "Machine code", V_BYTES(j->all.code_bytes), il);
	CLEANUP(mem_freep) char *freed = mem_printf("%s freed again", fmt_plural(j->unloaded, "method", "methods").s);
	report_figure(report, "Dynamic methods", V_COUNT(j->dynamic.count), freed);
	CLEANUP(mem_freep)
	char *used = mem_printf("%s taken as they were", fmt_count(j->precompiled).s);
	report_figure(report, "Precompiled, rejected", V_COUNT(j->rejected), used);
}

static struct value share_of(const struct jit *j, uint64_t ns)
{
	return V_RATIO(ratio(ns, j->all.ns));
}

static void add_tiers(const struct jit *j, struct report *report)
{
	struct report_table *t = report_table(report, "By tier");
	report_column(t, "Tier", VALUE_TEXT, 0);
	report_column(t, "Compiled", VALUE_TEXT, 0);
	report_column(t, "Methods", VALUE_COUNT, 0);
	report_column(t, "Code", VALUE_BYTES, 0);
	report_column(t, "Time", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (unsigned i = 0; i < CLR_TIERS; i++) {
		const struct jit_sum *s = &j->tiers[i];
		if (s->count)
			report_row(t,
				   (struct value[]){ V_TEXT(clr_tier_name(i)),
						     V_TEXT(in_background(i) ? "in the background" : "before it runs"),
						     V_COUNT(s->count), V_BYTES(s->code_bytes), V_NS(s->ns),
						     share_of(j, s->ns) });
	}
}

static void add_lines(const struct jit_group *g, struct report_row *row)
{
	struct buf line = { 0 };
	if (g->dynamic)
		buf_str(&line, "dynamic: made at run time; ");
	bool first = true;
	for (unsigned i = 0; i < CLR_TIERS; i++) {
		if (!g->tiers[i])
			continue;
		buf_printf(&line, "%s%s ×%s", first ? "" : ", ", clr_tier_name(i), fmt_count(g->tiers[i]).s);
		first = false;
	}
	if (g->rejected)
		buf_printf(&line, "; precompiled code rejected %s", fmt_plural(g->rejected, "time", "times").s);
	report_row_line(row, VALUE_TEXT, buf_cstr(&line), NULL);
	buf_free(&line);
}

static void add_methods(const struct jit *j, const struct jit_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "By method");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "Times", VALUE_COUNT, 0);
	report_column(t, "Code", VALUE_BYTES, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	report_column(t, "Time", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct jit_sum rest = { 0 };
	for (size_t i = 0; i < j->groups.n; i++) {
		const struct jit_group *g = &v->sorted[i];
		if (i >= ROWS) {
			rest.count += g->sum.count;
			rest.ns += g->sum.ns;
			rest.code_bytes += g->sum.code_bytes;
			continue;
		}
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(strtab_get(&j->names, g->name)), V_COUNT(g->sum.count),
							V_BYTES(g->sum.code_bytes), V_NS(g->longest_ns),
							V_NS(g->sum.ns), share_of(j, g->sum.ns) });
		add_lines(g, row);
	}
	if (j->groups.n > ROWS) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more methods", fmt_count(j->groups.n - ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_COUNT(rest.count), V_BYTES(rest.code_bytes), V_NONE,
						 V_NS(rest.ns), share_of(j, rest.ns) });
	}
}

static void add_chart(const struct jit *j, const struct jit_view *v, struct report *report)
{
	uint64_t at[TIMELINE_POINTS];
	double share[TIMELINE_POINTS];
	size_t n = timeline_rates(&j->spent, v->window_ns, TIMELINE_POINTS, at, share);
	for (size_t i = 0; i < n; i++)
		share[i] /= NS_PER_S;
	struct report_chart *chart =
		report_chart(report, "Share of the time spent compiling", VALUE_RATIO, v->window_ns);
	report_chart_line(chart, "compiling", at, share, n);
}

static void add_how(const struct jit *j, struct report *report)
{
	const struct events_stream *s = &j->stream;
	report_how(report, "Way", V_TEXT("events"),
		   "from MethodJittingStarted to MethodLoad of each method, by the clock on the wall");
	report_how(report, "Target paused", V_TEXT("not by us"), NULL);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(s->events + s->lost).s);
	report_how(report, "Lost", V_COUNT(s->lost), of);
	if (j->untimed)
		report_how(report, "Not timed", V_COUNT(j->untimed), "methods of which the beginning was not seen");
	report_how(report, "Names", V_TEXT("grouped"), "a generic method is one line, and # stands for any number");
}

struct err *jit_report(struct exam *exam, struct report *report)
{
	struct jit *j = exam->state;
	struct jit_view v = view_of(exam, j);
	add_verdict(exam, j, &v, report);
	if (j->all.count) {
		add_figures(j, &v, report);
		add_methods(j, &v, report);
		add_tiers(j, report);
		add_chart(j, &v, report);
	}
	add_how(j, report);
	mem_free(v.sorted);
	return NULL;
}
