/* The report of the gc-stats profiler: verdict, figures, tables, charts. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "profilers/gc_stats.h"
#include "exam/profiler.h"

#define MB (1024.0 * 1024)

/* What is a problem: a share of the time that matters to a program; collections so frequent that objects are promoted
 * before they are unused; full ones as regular as only large objects, lack of memory or a caller cause them. */
#define SHARE_MUCH 0.05
#define SHARE_VERY_MUCH 0.20
/* Below this the rhythm does not matter. */
#define SHARE_SOME 0.01
#define RATE_HIGH 10.0
#define FULL_RATE_HIGH 1.0
/* Those that code asks for are avoidable, so a smaller share of them is a finding. */
#define INDUCED_RATE 0.5
#define INDUCED_SHARE 0.01
#define HOLES_MUCH 0.5
#define HOLES_BYTES (64 * MB)

#define CHART_POINTS 2000
#define STACK_LINES 20

static const char *const generation_names[CLR_GENERATIONS] = { "generation 0", "generation 1", "generation 2",
							       "large objects", "pinned objects" };

static const char *finding_of(const struct gc_view *v, const struct gc_kinds *kinds)
{
	bool full = v->full_rate >= FULL_RATE_HIGH && v->full > 1;
	double induced_rate = per_second(v->induced, v->window_ns);
	double induced_share = ratio(v->induced_pause_ns, v->window_ns);
	if (v->induced > 1 && (induced_rate >= INDUCED_RATE || induced_share >= INDUCED_SHARE) &&
	    v->induced_pause_ns * 2 >= v->pause_ns)
		return "induced-collections";
	/* Full collections are frequent for other reasons than young ones. */
	if (v->share >= SHARE_MUCH)
		return full && kinds->n && kinds->v[0].gc.generation == 2 ? "frequent-full-collections"
									  : "much-time-in-gc";
	if (full && v->share >= SHARE_SOME)
		return "frequent-full-collections";
	if (v->rate >= RATE_HIGH && v->share >= SHARE_SOME)
		return "frequent-collections";
	if (v->free_share >= HOLES_MUCH && (double)v->free_bytes >= HOLES_BYTES)
		return "fragmented-heap";
	return "nothing-found";
}

static void add_main_kind(const struct gc_view *v, const struct gc_kinds *kinds, struct rich *text)
{
	const struct gc_kind *k = &kinds->v[0];
	struct buf name = { 0 };
	gc_describe(&k->gc, &name);
	if (kinds->n == 1) {
		rich_text(text, v->count == 1 ? " It is a " : " All are of one kind: ");
		rich_strong(text, "%s", buf_cstr(&name));
	} else {
		rich_text(text, " %s of the pause time is one kind: ", fmt_percent(ratio(k->pause_ns, v->pause_ns)).s);
		rich_strong(text, "%s", buf_cstr(&name));
		rich_text(text, " (%s)", fmt_count(k->count).s);
	}
	rich_text(text, ".");
	buf_free(&name);
}

static void add_induced(const struct gc_view *v, const struct gc_callers *callers, struct rich *text)
{
	rich_text(text, " ");
	rich_strong(text, "%s of them %s asked for by code", v->induced == v->count ? "All" : fmt_count(v->induced).s,
		    v->induced == 1 ? "was" : "were");
	rich_text(text, ", with %s of the pauses", fmt_duration_ns(v->induced_pause_ns).s);
	if (callers->n && callers->v[0].method) {
		rich_text(text, callers->n > 1 ? "; mostly in " : ", in ");
		rich_code(text, callers->v[0].method);
	}
	rich_text(text, ".");
}

static void add_verdict(const struct exam *exam, const struct gc_view *v, const struct gc_kinds *kinds,
			const struct gc_callers *callers, struct report *report)
{
	const char *finding = finding_of(v, kinds);
	bool found = !str_eq(finding, "nothing-found");
	enum report_health health = !found ? REPORT_OK : v->share >= SHARE_VERY_MUCH ? REPORT_BAD : REPORT_WARN;
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!v->count) {
		rich_text(text, "No problem here: no garbage collection in %s.", window.s);
		return;
	}
	struct fmt_text count = fmt_plural(v->count, "collection", "collections"), rate = fmt_rate(v->rate);
	if (!found) {
		rich_text(text, "No problem here: %s in %s, paused for %s in all (%s of the time).", count.s, window.s,
			  fmt_duration_ns(v->pause_ns).s, fmt_percent(v->share).s);
		return;
	}
	rich_strong(text, "%s", count.s);
	rich_text(text, " in %s (%s, %s of them full) took ", window.s, rate.s, fmt_count(v->full).s);
	rich_strong(text, "%s of the time", fmt_percent(v->share).s);
	rich_text(text, ": %s of pauses, the longest %s.", fmt_duration_ns(v->pause_ns).s,
		  fmt_duration_ns(v->longest_ns).s);
	if (str_eq(finding, "induced-collections"))
		add_induced(v, callers, text);
	else if (str_eq(finding, "fragmented-heap"))
		rich_text(text, " %s of the %s of generation 2 and large objects are holes (%s).",
			  fmt_bytes(v->free_bytes).s, fmt_bytes(v->last->size[2] + v->last->size[3]).s,
			  fmt_percent(v->free_share).s);
	else
		add_main_kind(v, kinds, text);
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct gc_view *v, struct report *report)
{
	CLEANUP(mem_freep) char *full = mem_printf("%s, %s full", fmt_rate(v->rate).s, fmt_count(v->full).s);
	report_figure(report, "Collections", V_COUNT(v->count), full);
	CLEANUP(mem_freep) char *paused = mem_printf("%s paused", fmt_duration_ns(v->pause_ns).s);
	report_figure(report, "Time in GC", V_RATIO(v->share), paused);
	CLEANUP(mem_freep)
	char *background = mem_printf("%s beside the program", fmt_plural(v->background, "GC", "GCs").s);
	report_figure(report, "In the background", V_NS(v->background_ns), background);
	report_figure(report, "Allocated per second",
		      v->allocated_over ? V_BYTES(per_second(v->allocated, v->allocated_over)) : V_NONE,
		      v->allocated_over ? "about, from what each GC found" : "takes two collections to know");
	CLEANUP(mem_freep) char *most = mem_printf("at most %s", fmt_bytes(v->heap_most).s);
	report_figure(report, "Heap after a GC", v->last ? V_BYTES(gc_after(v->last)) : V_NONE, v->last ? most : NULL);
}

static void add_kinds(const struct gc_view *v, const struct gc_kinds *kinds, struct report *report)
{
	struct report_table *t = report_table(report, "Collections by kind");
	report_column(t, "Kind and reason", VALUE_TEXT, 0);
	report_column(t, "Count", VALUE_COUNT, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	report_column(t, "Paused", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Promoted", VALUE_BYTES, 0);
	report_column(t, "Survived", VALUE_RATIO, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct buf name = { 0 };
	vec_each(k, kinds) {
		buf_clear(&name);
		gc_describe(&k->gc, &name);
		struct value survived = V_NONE;
		if (k->survival_known && k->survived_from && k->gc.type != GC_BACKGROUND) {
			uint64_t promoted = MIN(k->promoted, k->survived_from);
			survived = V_RATIO((double)promoted / (double)k->survived_from);
		}
		report_row(t, (struct value[]){ V_TEXT(buf_cstr(&name)), V_COUNT(k->count), V_NS(k->longest_ns),
						V_NS(k->pause_ns), V_BYTES(k->promoted), survived,
						V_RATIO(ratio(k->pause_ns, v->pause_ns)) });
	}
	buf_free(&name);
}

static void add_caller_lines(struct gc_stats *s, const struct gc_caller *c, struct report_row *row)
{
	size_t depth = stacks_depth(s->stacks, c->stack), end = MIN(depth, (size_t)STACK_LINES);
	for (size_t i = 0; i < end; i++)
		report_row_line(row, VALUE_CODE, stacks_frame(s->stacks, s->methods, c->stack, i).name, NULL);
	if (depth > end)
		report_row_line(row, VALUE_TEXT, fmt_plural(depth - end, "more frame", "more frames").s, NULL);
}

static void add_callers(struct gc_stats *s, const struct gc_view *v, const struct gc_callers *callers,
			struct report *report)
{
	if (!callers->n)
		return;
	struct report_table *t = report_table(report, "Who asked for collections");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "How", VALUE_TEXT, 0);
	report_column(t, "Calls", VALUE_COUNT, 0);
	report_column(t, "Paused", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	vec_each(c, callers) {
		struct report_row *row =
			report_row(t, (struct value[]){ c->method ? V_CODE(c->method) : V_NONE,
							V_TEXT(clr_gc_reason(c->reason)), V_COUNT(c->count),
							V_NS(c->pause_ns), V_RATIO(ratio(c->pause_ns, v->pause_ns)) });
		if (c->method)
			add_caller_lines(s, c, row);
	}
}

static void add_generations(const struct gc_stats *s, const struct gc_view *v, struct report *report)
{
	if (!v->last)
		return;
	struct report_table *t = report_table(report, "The heap");
	report_column(t, "Part", VALUE_TEXT, 0);
	report_column(t, "After the first GC", VALUE_BYTES, 0);
	report_column(t, "After the last", VALUE_BYTES, COLUMN_BAR);
	report_column(t, "Most", VALUE_BYTES, 0);
	report_column(t, "Holes in it", VALUE_BYTES, 0);
	report_column(t, "Promoted", VALUE_BYTES, 0);
	for (size_t g = 0; g < CLR_GENERATIONS; g++) {
		uint64_t most = 0, promoted = 0;
		vec_each(gc, &s->log.gcs) {
			most = MAX(most, gc->size[g]);
			promoted += gc->promoted[g];
		}
		report_row(t, (struct value[]){ V_TEXT(generation_names[g]), V_BYTES(v->first->size[g]),
						V_BYTES(v->last->size[g]), V_BYTES(most),
						v->last->has_history ? V_BYTES(v->last->free[g]) : V_NONE,
						V_BYTES(promoted) });
	}
	uint32_t pinned = 0, handles = 0;
	vec_each(gc, &s->log.gcs) {
		pinned = MAX(pinned, gc->pinned);
		handles = MAX(handles, gc->handles);
	}
	struct report_table *roots = report_table(report, "What holds objects in place or alive");
	report_column(roots, "What", VALUE_TEXT, 0);
	report_column(roots, "At the first GC", VALUE_COUNT, 0);
	report_column(roots, "At the last", VALUE_COUNT, 0);
	report_column(roots, "Most", VALUE_COUNT, 0);
	report_row(roots, (struct value[]){ V_TEXT("pinned objects met"), V_COUNT(v->first->pinned),
					    V_COUNT(v->last->pinned), V_COUNT(pinned) });
	report_row(roots, (struct value[]){ V_TEXT("GC handles"), V_COUNT(v->first->handles), V_COUNT(v->last->handles),
					    V_COUNT(handles) });
}

static bool in_chart(const struct gc *gc, const struct exam *exam, uint64_t last_ns)
{
	/* Background GCs end late, and time goes forward. */
	return gc->has_stats && gc->end_ns >= exam->start_ns && gc->end_ns > last_ns;
}

/* Sizes after each GC; of many only every n-th. */
static void add_chart(const struct gc_stats *s, const struct exam *exam, const struct gc_view *v, struct report *report)
{
	size_t step = s->log.gcs.n / CHART_POINTS + 1;
	CLEANUP(mem_freep) uint64_t *at = mem_array(CHART_POINTS + 1, sizeof(*at));
	CLEANUP(mem_freep) double *bytes = mem_array(CHART_POINTS + 1, sizeof(*bytes));
	struct report_chart *chart = NULL;
	for (size_t g = 0; g < CLR_GENERATIONS; g++) {
		double most = 0;
		uint64_t last_ns = 0;
		size_t n = 0;
		for (size_t i = 0; i < s->log.gcs.n; i += step) {
			const struct gc *gc = &s->log.gcs.v[i];
			if (!in_chart(gc, exam, last_ns))
				continue;
			last_ns = gc->end_ns;
			at[n] = gc->end_ns - exam->start_ns;
			bytes[n] = (double)gc->size[g];
			most = MAX(most, bytes[n]);
			n++;
		}
		if (n < 2 || most < 0.01 * (double)v->heap_most)
			continue;
		if (!chart)
			chart = report_chart(report, "Heap after each GC", VALUE_BYTES, v->window_ns);
		report_chart_line(chart, generation_names[g], at, bytes, n);
	}
}

static void add_how(const struct gc_stats *s, const struct gc_view *v, struct report *report)
{
	const struct events_stream *log = &s->streams[GC_STATS_LOG];
	report_how(report, "Way", V_TEXT("events"), "GC events of the runtime over its diagnostics socket");
	report_how(report, "Target paused", V_TEXT("not by us"), "no stop, no sampling");
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(log->events + log->lost).s);
	report_how(report, "Lost", V_COUNT(log->lost), of);
	if (s->log.unpaired)
		report_how(report, "Left out", V_COUNT(s->log.unpaired), "suspensions whose begin or end was not seen");
	if (s->log.gcs.n < v->count)
		report_how(report, "Listed", V_COUNT(s->log.gcs.n), "the tables show only these collections");
}

struct err *gc_stats_report(struct exam *exam, struct report *report)
{
	struct gc_stats *s = exam->state;
	struct gc_view v = gc_stats_view(exam, s);
	struct gc_kinds kinds = { 0 };
	struct gc_callers callers = { 0 };
	gc_stats_kinds(s, &kinds);
	gc_stats_callers(s, &callers);
	add_verdict(exam, &v, &kinds, &callers, report);
	if (v.count) {
		add_figures(&v, report);
		add_kinds(&v, &kinds, report);
		add_callers(s, &v, &callers, report);
		add_generations(s, &v, report);
		add_chart(s, exam, &v, report);
	}
	add_how(s, &v, report);
	vec_free(&kinds);
	vec_free(&callers);
	return NULL;
}
