/* The report of the allocations profiler: verdict, figures, tables. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/calltree.h"
#include "profilers/allocations.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define MB (1024.0 * 1024)

/* A young collection costs little and most programs allocate some megabytes a second; above this the collector becomes
 * a part of the bill, and far above it the main part. */
#define RATE_HIGH (30 * MB)
#define RATE_ALARMING (200 * MB) /* below that it is told without alarm: gc-stats knows what it costs */
#define RATE_VERY_HIGH (500 * MB)
/* Large objects are freed by full collections only. */
#define LARGE_RATE_HIGH (2 * MB)
#define LARGE_SHARE_HIGH 0.25

#define SAMPLES_FEW 30 /* below it a share is a guess */
#define ROWS 100
#define STACK_LINES 20
#define FLAME_NODES 20000
#define FRAMES_MAX 128

static void show_type(const struct allocations *a, uint32_t type, struct buf *out)
{
	buf_clear(out);
	type_show(strtab_get(&a->names, type), out);
}

static struct value objects_value(const struct allocations *a, double objects)
{
	return a->sizes_unknown ? V_NONE : V_COUNT((uint64_t)(objects + 0.5));
}

static const char *finding_of(const struct alloc_view *v)
{
	double large_rate = per_second(v->all.large_bytes, v->window_ns);
	if (large_rate >= LARGE_RATE_HIGH && v->all.large_bytes >= LARGE_SHARE_HIGH * v->all.bytes)
		return "large-objects";
	return v->rate >= RATE_HIGH ? "high-allocation-rate" : "nothing-found";
}

/* The heaviest; of large objects only, where these are the finding. */
static const struct alloc_site *main_site(const struct alloc_sites *sites, bool large)
{
	const struct alloc_site *best = &sites->v[0];
	vec_each(site, sites) {
		if (large && site->sum.large_bytes > best->sum.large_bytes)
			best = site;
	}
	return best;
}

static void add_top(const struct allocations *a, const struct alloc_view *v, const struct alloc_site *top, bool large,
		    struct rich *text)
{
	struct buf name = { 0 };
	show_type(a, top->type, &name);
	double share = large ? top->sum.large_bytes / v->all.large_bytes : top->sum.bytes / v->all.bytes;
	if (share > 0.995)
		rich_text(text, large ? "All of these are " : "All of it is ");
	else
		rich_text(text, "%s of %s ", fmt_percent(share).s, large ? "these are" : "it is");
	rich_code(text, buf_cstr(&name));
	if (top->method) {
		rich_text(text, ", allocated in ");
		rich_code(text, top->method);
	}
	rich_text(text, ".");
	buf_free(&name);
}

/* A pool makes new buffers when those that were rented do not come back. */
static bool is_rented(const struct allocations *a, const struct alloc_site *site)
{
	for (size_t i = 0; site->method && i < stacks_depth(a->events.stacks, site->stack); i++) {
		const char *name = stacks_frame(a->events.stacks, a->events.methods, site->stack, i).name;
		if (str_starts(name, "System.Buffers.SharedArrayPool") ||
		    str_starts(name, "System.Buffers.ConfigurableArrayPool"))
			return true;
		if (str_eq(name, site->method))
			return false;
	}
	return false;
}

/* What helps depends on what it is: nobody can rent a string. */
static const char *advice_for(const struct allocations *a, const struct alloc_site *site, bool large)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	show_type(a, site->type, &name);
	bool array = name.len > 2 && str_eq(buf_cstr(&name) + name.len - 2, "[]");
	bool text = str_eq(buf_cstr(&name), "System.String");
	if (is_rented(a, site))
		return "rented";
	if (large)
		return text ? "large-strings" : "large-objects";
	return text ? "high-allocation-rate-strings" : array ? "high-allocation-rate-arrays" : "high-allocation-rate";
}

static void add_verdict(const struct exam *exam, const struct allocations *a, const struct alloc_view *v,
			const struct alloc_sites *sites, struct report *report)
{
	const char *finding = finding_of(v);
	bool large = str_eq(finding, "large-objects"), found = !str_eq(finding, "nothing-found");
	enum report_health health = !found				? REPORT_OK
				    : v->rate >= RATE_VERY_HIGH		? REPORT_BAD
				    : large || v->rate >= RATE_ALARMING ? REPORT_WARN
									: REPORT_INFO;
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!v->all.samples) {
		rich_text(text,
			  "No problem here: next to nothing was allocated in %s (not one sample, and there is "
			  "about one for every 100 KB).",
			  window.s);
		return;
	}
	struct fmt_text rate = fmt_bytes((uint64_t)v->rate), all = fmt_bytes((uint64_t)v->all.bytes);
	if (!found) {
		rich_text(text, "No problem here: about %s a second (%s in %s).", rate.s, all.s, window.s);
		if (v->all.samples >= SAMPLES_FEW) {
			rich_text(text, " ");
			add_top(a, v, &sites->v[0], false, text);
		}
		return;
	}
	rich_text(text, "The program allocates %s", v->estimated ? "about " : "");
	rich_strong(text, "%s a second", rate.s);
	rich_text(text, " (%s in %s", all.s, window.s);
	if (large) {
		rich_text(text, "), and ");
		rich_strong(text, "%s of that are large objects", fmt_percent(v->all.large_bytes / v->all.bytes).s);
		rich_text(text, ", which only full collections free. ");
	} else if (v->all.large_bytes >= 0.01 * v->all.bytes) {
		rich_text(text, ", %s of it large objects). ", fmt_percent(v->all.large_bytes / v->all.bytes).s);
	} else {
		rich_text(text, "). ");
	}
	add_top(a, v, main_site(sites, large), large, text);
	report_advice(report, exam->profiler, advice_for(a, main_site(sites, large), large));
}

static void add_figures(const struct allocations *a, const struct alloc_view *v, struct report *report)
{
	CLEANUP(mem_freep) char *all = mem_printf("%s in all", fmt_bytes((uint64_t)v->all.bytes).s);
	report_figure(report, "Per second", V_BYTES(v->rate), all);
	CLEANUP(mem_freep)
	char *objects = mem_printf("about %s", fmt_rate(per_second(v->all.objects, v->window_ns)).s);
	report_figure(report, "Objects", objects_value(a, v->all.objects),
		      a->sizes_unknown ? "not told by this runtime" : objects);
	CLEANUP(mem_freep) char *large = mem_printf("%s in all", fmt_bytes((uint64_t)v->all.large_bytes).s);
	report_figure(report, "Large objects", V_RATIO(v->all.large_bytes / v->all.bytes), large);
	report_figure(report, "Types", V_COUNT(a->types.n), "that were met");
	CLEANUP(mem_freep)
	char *error = v->estimated ? mem_strdup("heard in bursts and scaled up")
		      : a->ticks   ? mem_strdup("the sum is exact, shares are estimates")
				   : mem_printf("sum within ±%s", fmt_percent(v->error).s);
	report_figure(report, "Samples", V_COUNT(v->all.samples), error);
}

static void add_stack_lines(struct allocations *a, const struct alloc_site *site, struct report_row *row)
{
	size_t depth = stacks_depth(a->events.stacks, site->stack), end = MIN(depth, (size_t)STACK_LINES);
	for (size_t i = 0; i < end; i++)
		report_row_line(row, VALUE_CODE, stacks_frame(a->events.stacks, a->events.methods, site->stack, i).name,
				NULL);
	if (depth > end) {
		CLEANUP(mem_freep) char *more = mem_printf("%zu more frames", depth - end);
		report_row_line(row, VALUE_TEXT, more, NULL);
	}
}

static void add_lines(struct allocations *a, const struct alloc_view *v, const struct alloc_site *site,
		      struct report_row *row)
{
	double rate = per_second(site->sum.bytes, v->window_ns);
	const char *large = site->sum.large_bytes <= 0			      ? ""
			    : site->sum.large_bytes > 0.999 * site->sum.bytes ? "; all large objects"
									      : "; some large objects";
	CLEANUP(mem_freep)
	char *line = mem_printf("%s a second, from %s%s", fmt_bytes((uint64_t)rate).s,
				fmt_plural(site->sum.samples, "sample", "samples").s, large);
	report_row_line(row, VALUE_TEXT, line, NULL);
	if (site->method)
		add_stack_lines(a, site, row);
}

static void add_table(struct allocations *a, const struct alloc_view *v, const struct alloc_sites *sites,
		      struct report *report)
{
	struct report_table *t = report_table(report, "By type and place");
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "Allocated in", VALUE_CODE, 0);
	report_column(t, "Bytes", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "±", VALUE_RATIO, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct buf name = { 0 };
	struct alloc_sum rest = { 0 };
	for (size_t i = 0; i < sites->n; i++) {
		const struct alloc_site *site = &sites->v[i];
		if (i >= ROWS) {
			rest.bytes += site->sum.bytes;
			rest.objects += site->sum.objects;
			continue;
		}
		show_type(a, site->type, &name);
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(buf_cstr(&name)), site->method ? V_CODE(site->method) : V_NONE,
					     V_BYTES(site->sum.bytes), objects_value(a, site->sum.objects),
					     V_RATIO(alloc_error(a, v, &site->sum)),
					     V_RATIO(site->sum.bytes / v->all.bytes) });
		add_lines(a, v, site, row);
	}
	if (sites->n > ROWS) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more", fmt_count(sites->n - ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_BYTES(rest.bytes),
						 objects_value(a, rest.objects), V_NONE,
						 V_RATIO(rest.bytes / v->all.bytes) });
	}
	buf_free(&name);
}

/* What one type, or one method, has in all. */
struct allocation_group {
	const char *method;
	uint32_t type;
	struct alloc_sum sum;
};
VEC_TYPE(allocation_groups, struct allocation_group);

static int group_heaviest_first(const void *a, const void *b)
{
	const struct allocation_group *x = a, *y = b;
	return CMP(y->sum.bytes, x->sum.bytes);
}

static void group_by_place(const struct alloc_sites *sites, struct allocation_groups *groups)
{
	struct map_u64 index = { 0 };
	vec_each(site, sites) {
		bool new;
		/* Names of methods are kept once each, so the pointer is the name. */
		uint64_t *i = map_u64_put(&index, (uint64_t)(uintptr_t)site->method, &new);
		if (new) {
			*i = groups->n;
			vec_push(groups, ((struct allocation_group){ .method = site->method }));
		}
		alloc_sum_add(&groups->v[*i].sum, &site->sum, 1);
	}
	map_u64_free(&index);
}

/* Not from the sites: every sample was counted, also those whose stack was not seen. */
static void group_by_type(const struct allocations *a, const struct alloc_view *v, struct allocation_groups *groups)
{
	for (uint32_t t = 0; t < a->types.n; t++) {
		if (a->types.v[t].bytes <= 0)
			continue;
		vec_push(groups, ((struct allocation_group){ .type = t }));
		alloc_sum_add(&vec_last(groups).sum, &a->types.v[t], v->scale);
	}
}

static void add_groups(const struct allocations *a, const struct alloc_view *v, const struct allocation_groups *groups,
		       bool by_type, struct report *report)
{
	struct report_table *t = report_table(report, by_type ? "By type" : "By place");
	report_column(t, by_type ? "Type" : "Allocated in", VALUE_CODE, 0);
	report_column(t, "Bytes", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Large objects", VALUE_BYTES, 0);
	report_column(t, "±", VALUE_RATIO, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct buf name = { 0 };
	for (size_t i = 0; i < MIN(groups->n, (size_t)ROWS); i++) {
		const struct allocation_group *g = &groups->v[i];
		if (by_type)
			show_type(a, g->type, &name);
		struct value first = by_type	 ? V_CODE(buf_cstr(&name))
				     : g->method ? V_CODE(g->method)
						 : V_TEXT("no stack seen");
		report_row(t, (struct value[]){ first, V_BYTES(g->sum.bytes), objects_value(a, g->sum.objects),
						V_BYTES(g->sum.large_bytes), V_RATIO(alloc_error(a, v, &g->sum)),
						V_RATIO(g->sum.bytes / v->all.bytes) });
	}
	buf_free(&name);
}

/* Left out where it would only repeat the first table. */
static void add_group_tables(const struct allocations *a, const struct alloc_view *v, const struct alloc_sites *sites,
			     struct report *report)
{
	for (int by_type = 1; by_type >= 0; by_type--) {
		struct allocation_groups groups = { 0 };
		if (by_type)
			group_by_type(a, v, &groups);
		else
			group_by_place(sites, &groups);
		vec_sort(&groups, group_heaviest_first);
		if (groups.n < sites->n)
			add_groups(a, v, &groups, by_type, report);
		vec_free(&groups);
	}
}

static void add_chart(const struct allocations *a, const struct alloc_view *v, struct report *report)
{
	uint64_t at[TIMELINE_POINTS];
	double rate[TIMELINE_POINTS];
	size_t n = timeline_rates(&a->bytes, v->window_ns, TIMELINE_POINTS, at, rate);
	struct report_chart *chart = report_chart(report, "Allocated per second", VALUE_BYTES, v->window_ns);
	report_chart_line(chart, "allocated", at, rate, n);
}

static void add_flame(struct allocations *a, struct report *report)
{
	CLEANUP(calltree_freep) struct calltree *tree = calltree_new(FLAME_NODES);
	vec_each(s, &a->by_stack) {
		uint32_t frames[FRAMES_MAX];
		size_t n = MIN(stacks_depth(a->events.stacks, s->stack), (size_t)FRAMES_MAX);
		for (size_t i = 0; i < n; i++) {
			struct stack_frame f = stacks_frame(a->events.stacks, a->events.methods, s->stack, n - 1 - i);
			frames[i] = calltree_frame(tree, f.name,
						   !f.known	 ? FRAME_OTHER
						   : f.framework ? FRAME_FRAMEWORK
								 : FRAME_CODE);
		}
		calltree_add(tree, frames, n, (uint64_t)s->sum.bytes);
	}
	calltree_sort(tree);
	report_flame(report, "Where the bytes come from", tree, VALUE_BYTES);
}

static void add_how(const struct allocations *a, const struct alloc_view *v, struct report *report)
{
	const struct events_stream *stacks = &a->events.streams[COUNTED_STACKS];
	const struct events_stream *counts = counted_events_by(&a->events);
	report_how(report, "Way", V_TEXT("events"),
		   a->ticks ? "AllocationTick: the runtime tells after about every 100 KB on a heap what it is "
			      "allocating (from .NET 10 on it draws without bias)"
			    : "AllocationSampled: each byte has the same chance to be drawn");
	report_how(report, "Target paused", V_TEXT("not by us"), NULL);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(counts->events + counts->lost).s);
	report_how(report, "Lost", V_COUNT(counts->lost), of);
	CLEANUP(mem_freep) char *heard = mem_printf("of %s samples", fmt_count(a->all.samples).s);
	double share = MIN(1.0, ratio(stacks->open_ns, v->window_ns));
	CLEANUP(mem_freep)
	char *bursts = mem_printf(
		"in %s, %s of the time%s", fmt_plural(stacks->opened, "burst", "bursts").s, fmt_percent(share).s,
		a->events.old ? "; all figures are scaled up" : ", so places are estimated from these");
	report_how(report, "Stacks seen", V_COUNT(a->with_stack), stacks->bursting ? bursts : heard);
	if (v->all.samples)
		report_how(report, "±", V_TEXT("95 of 100 estimates are within it"), "from the number of samples");
}

struct err *alloc_report(struct exam *exam, struct report *report)
{
	struct allocations *a = exam->state;
	struct alloc_view v = alloc_view(a);
	struct alloc_sites sites = { 0 };
	alloc_find_sites(a, &v, &sites);
	add_verdict(exam, a, &v, &sites, report);
	if (v.all.samples) {
		add_figures(a, &v, report);
		add_table(a, &v, &sites, report);
		add_group_tables(a, &v, &sites, report);
		if (a->by_stack.n)
			add_flame(a, report);
		if (!v.estimated) /* between bursts nothing was received, which does not mean that nothing happened */
			add_chart(a, &v, report);
	}
	add_how(a, &v, report);
	vec_free(&sites);
	return NULL;
}
