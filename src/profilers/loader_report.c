/* The report of the loader profiler: what was loaded, which code asked for it, and is it unloaded again? */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "profilers/loader.h"
#include "exam/profiler.h"
#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS 20
#define SLICES 10
/* The same assembly so often is no start-up any more. */
#define COPIES_MANY 3
/* Unloading follows a collection by finalizers; give them time. */
#define AFTER_GC_NS NS_PER_S
#define STAYED_SHARE 0.5
#define DYNAMIC_MANY 20
#define DYNAMIC_SLICES 5
#define ASSEMBLIES_MANY 30
#define THREADS_LISTED 3
#define THREADS_MANY 20
#define THREADS_RATE_MANY 5 /* a second: a pool would have kept them */

struct loader_place {
	const char *kind, *method;
	uint32_t stack;
	uint64_t stack_count, count, bytes;
};
VEC_TYPE(loader_places, struct loader_place);

struct loader_view {
	uint64_t window_ns, loads;
	uint64_t contexts, contexts_gone;
	uint64_t copies, copies_gone;	       /* assemblies that were loaded again and again */
	uint64_t before_gc, stayed;	       /* of the copies: there before a full collection, and after it */
	uint64_t fixed;			       /* of the copies of main_copy: can never go, since not collectible */
	uint32_t main_copy;		       /* the assembly with most of them */
	struct loader_places dynamics, starts; /* most first */
	size_t slices;			       /* tenths of the window with new dynamic code */
	uint64_t pool_starts;		       /* threads that the pool started */
};

static const char *simple_name(const struct loader *l, uint32_t assembly)
{
	return strtab_get(&l->names, l->simple_names.v[assembly]);
}

static const char *site_name(struct loader *l, uint32_t stack)
{
	if (stack == STACKS_NONE)
		return NULL;
	return stacks_frame(l->stacks, l->methods, stack, stacks_site(l->stacks, l->methods, stack)).name;
}

static bool started_by_pool(struct loader *l, uint32_t stack)
{
	for (size_t i = 0; i < stacks_depth(l->stacks, stack); i++) {
		if (str_starts(stacks_frame(l->stacks, l->methods, stack, i).name,
			       "System.Threading.PortableThreadPool"))
			return true;
	}
	return false;
}

static int place_most_first(const void *a, const void *b)
{
	const struct loader_place *x = a, *y = b;
	return CMP(y->count, x->count);
}

static struct loader_place *place_of(struct loader_places *places, const char *kind, const char *method)
{
	vec_each(p, places) {
		if (p->method == method && str_eq(p->kind, kind))
			return p;
	}
	vec_push(places, ((struct loader_place){ .kind = kind, .method = method, .stack = STACKS_NONE }));
	return &vec_last(places);
}

static void place_add(struct loader *l, struct loader_places *places, const char *kind, uint32_t stack, uint64_t count,
		      uint64_t bytes)
{
	struct loader_place *p = place_of(places, kind, site_name(l, stack));
	p->count += count;
	p->bytes += bytes;
	if (count > p->stack_count) {
		p->stack_count = count;
		p->stack = stack;
	}
}

/* The names that libraries give their dynamic methods; a user's own DynamicMethod has the name that the user gave it.
 */
static const char *kind_words(const char *name)
{
	static const struct {
		const char *prefix, *words;
	} kinds[] = {
		{ "Regex#_", "compiled regular expression" },
		{ "lambda_method", "compiled expression tree" },
		{ "InvokeStub_", "stub for a reflection call" },
		{ "IL_STUB", "stub for a native call or delegate" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (str_starts(name, kinds[i].prefix))
			return kinds[i].words;
	}
	return name;
}

static bool in_own_context(const struct loader *l, const struct loaded *a)
{
	return a->context != LOADER_NO_CONTEXT && !str_eq(strtab_get(&l->contexts, a->context), "Default");
}

static void count_contexts(const struct loader *l, struct loader_view *v)
{
	struct map_u64 here = { 0 }; /* context -> assemblies in it that are not gone, plus one */
	vec_each(a, &l->loaded) {
		if (!in_own_context(l, a))
			continue;
		uint64_t *n = map_u64_put(&here, a->context, NULL);
		*n = MAX(*n, (uint64_t)1) + !a->gone;
	}
	size_t pos = 0;
	for (uint64_t context, n; map_u64_next(&here, &pos, &context, &n);) {
		v->contexts++;
		v->contexts_gone += n == 1;
	}
	map_u64_free(&here);
}

/* The last full collection that finalizers had time to follow up; 0 = none. */
static uint64_t settled_gc(const struct loader *l, const struct exam *exam)
{
	uint64_t last = 0;
	vec_each(at, &l->full_gc_ns) {
		if (*at + AFTER_GC_NS <= exam->end_ns)
			last = MAX(last, *at);
	}
	return last;
}

static void count_copies(const struct loader *l, const struct exam *exam, struct loader_view *v)
{
	uint64_t most = 0, gc_ns = settled_gc(l, exam);
	for (uint32_t i = 0; i < l->assemblies.n; i++) {
		const struct assembly *a = &l->assemblies.v[i];
		if (a->loads < COPIES_MANY)
			continue;
		v->copies += a->loads;
		v->copies_gone += MIN(a->unloads, a->loads);
		if (a->loads > most) {
			most = a->loads;
			v->main_copy = i;
		}
	}
	vec_each(a, &l->loaded) {
		if (l->assemblies.v[a->name].loads < COPIES_MANY || a->at_ns >= gc_ns)
			continue;
		v->before_gc++;
		v->stayed += !a->gone;
	}
	vec_each(a, &l->loaded)
		v->fixed += v->copies && a->name == v->main_copy && !a->collectible;
}

static void view_init(struct loader_view *v, const struct exam *exam, struct loader *l)
{
	*v = (struct loader_view){ .window_ns = exam->end_ns - exam->start_ns };
	vec_each(a, &l->assemblies)
		v->loads += a->loads;
	count_contexts(l, v);
	count_copies(l, exam, v);
	vec_each(d, &l->dynamics)
		place_add(l, &v->dynamics, kind_words(strtab_get(&l->names, d->name)), d->stack, d->loads, d->bytes);
	vec_each(s, &l->starts) {
		bool pool = started_by_pool(l, s->stack);
		v->pool_starts += pool ? s->count : 0;
		place_add(l, &v->starts, pool ? "the thread pool" : "", s->stack, s->count, 0);
	}
	vec_sort(&v->dynamics, place_most_first);
	vec_sort(&v->starts, place_most_first);
	uint64_t at[TIMELINE_POINTS];
	double made[TIMELINE_POINTS];
	bool had[SLICES] = { false };
	size_t n = timeline_points(&l->dynamic_made, v->window_ns, TIMELINE_POINTS, at, made);
	for (size_t i = 0; i < n; i++)
		had[i * SLICES / n] |= made[i] > 0;
	for (size_t i = 0; i < SLICES; i++)
		v->slices += had[i];
}

/* --- verdict --- */

static const char *finding_of(const struct loader *l, const struct loader_view *v)
{
	if (v->copies) {
		if (v->fixed >= COPIES_MANY)
			return "assemblies-stay";
		if (v->before_gc >= COPIES_MANY && (double)v->stayed >= STAYED_SHARE * (double)v->before_gc)
			return "contexts-leak";
		if (v->before_gc < COPIES_MANY && v->copies_gone * 2 < v->copies)
			return "contexts-pile-up";
	}
	if (l->dynamic_loads >= DYNAMIC_MANY && v->slices >= DYNAMIC_SLICES)
		return "dynamic-code-grows";
	if (v->loads - v->copies >= ASSEMBLIES_MANY)
		return "many-assemblies";
	uint64_t own = l->threads_started - v->pool_starts;
	return own >= THREADS_MANY && own * NS_PER_S / MAX(v->window_ns, (uint64_t)1) >= THREADS_RATE_MANY
		       ? "threads-come-and-go"
		       : "nothing-found";
}

static enum report_health health_of(const char *finding)
{
	if (str_eq(finding, "nothing-found"))
		return REPORT_OK;
	if (str_eq(finding, "many-assemblies"))
		return REPORT_INFO;
	return str_eq(finding, "contexts-leak") || str_eq(finding, "assemblies-stay") ? REPORT_BAD : REPORT_WARN;
}

static uint32_t stack_of_copies(const struct loader *l, uint32_t assembly)
{
	vec_each(a, &l->loaded) {
		if (a->name == assembly && a->stack != STACKS_NONE)
			return a->stack;
	}
	return STACKS_NONE;
}

static void say_contexts(struct loader *l, const struct loader_view *v, const char *finding, struct rich *text)
{
	const struct assembly *a = &l->assemblies.v[v->main_copy];
	const char *method = site_name(l, stack_of_copies(l, v->main_copy));
	bool numbered = strchr(simple_name(l, v->main_copy), '#') != NULL;
	rich_strong(text, numbered ? "%s made at run time were loaded in %s" : "%s of one assembly were loaded in %s",
		    numbered ? fmt_plural(a->loads, "assembly", "assemblies").s
			     : fmt_plural(a->loads, "copy", "copies").s,
		    fmt_duration_ns(v->window_ns).s);
	rich_text(text, a->unloads ? " and %s unloaded: " : " and none was unloaded: ", fmt_count(a->unloads).s);
	rich_code(text, simple_name(l, v->main_copy));
	if (v->contexts)
		rich_text(text, ", in %s", fmt_plural(v->contexts, "load context", "load contexts").s);
	if (method) {
		rich_text(text, ", asked for in ");
		rich_code(text, method);
	}
	rich_text(text, ".");
	if (str_eq(finding, "assemblies-stay"))
		rich_text(text, " %s can never be unloaded: no collectible context holds them.",
			  v->fixed == a->loads ? "They" : fmt_count(v->fixed).s);
	else if (str_eq(finding, "contexts-leak"))
		rich_text(text, " %s of the %s that were there before the last full collection stayed.",
			  fmt_count(v->stayed).s, fmt_count(v->before_gc).s);
	else
		rich_text(text, " No full collection ran in time to show whether they would go.");
	if (l->listed && a->alive > a->loads)
		rich_text(text, " %s are loaded now.", fmt_count(a->alive).s);
}

static void say_dynamic(const struct loader *l, const struct loader_view *v, struct rich *text)
{
	const struct loader_place *top = v->dynamics.n ? &v->dynamics.v[0] : NULL;
	rich_strong(text, "%s were compiled in %s", fmt_plural(l->dynamic_loads, "dynamic method", "dynamic methods").s,
		    fmt_duration_ns(v->window_ns).s);
	rich_text(text, ", %s went again", l->dynamic_gone ? fmt_count(l->dynamic_gone).s : "none");
	if (!l->full_gcs)
		rich_text(text, " (no full collection ran)");
	rich_text(text, ".");
	if (!top)
		return;
	double share = (double)top->count / (double)l->dynamic_loads;
	rich_text(text, share > 0.995 ? " All of them: " : " %s of them: ", fmt_percent(share).s);
	rich_strong(text, "%s", top->kind);
	if (top->method) {
		rich_text(text, ", asked for in ");
		rich_code(text, top->method);
	}
	rich_text(text, ".");
}

static void say_loads(const struct loader *l, const struct loader_view *v, struct rich *text)
{
	if (!v->loads && !l->dynamic_loads) {
		rich_text(text, "no assembly was loaded and no dynamic code made in %s.",
			  fmt_duration_ns(v->window_ns).s);
		return;
	}
	rich_text(text, "%s loaded, %s unloaded and %s made in %s.",
		  fmt_plural(v->loads, "assembly was", "assemblies were").s, fmt_count(l->unloads).s,
		  fmt_plural(l->dynamic_loads, "dynamic method", "dynamic methods").s, fmt_duration_ns(v->window_ns).s);
}

static void say_threads(const struct loader *l, const struct loader_view *v, struct rich *text)
{
	uint64_t own = l->threads_started - v->pool_starts;
	rich_strong(text, "%s were started in %s", fmt_plural(own, "thread", "threads").s,
		    fmt_duration_ns(v->window_ns).s);
	rich_text(text, " (%s)", fmt_rate(per_second(own, v->window_ns)).s);
	vec_each(p, &v->starts) {
		if (str_eq(p->kind, "") && p->method) {
			rich_text(text, ", %s in ", fmt_percent((double)p->count / (double)own).s);
			rich_code(text, p->method);
			break;
		}
	}
	if (l->threads_before && l->threads_after)
		rich_text(text, "; there were %s before and are %s now", fmt_count(l->threads_before).s,
			  fmt_count(l->threads_after).s);
	rich_text(text, ".");
}

static void add_verdict(const struct exam *exam, struct loader *l, const struct loader_view *v, struct report *report)
{
	const char *finding = finding_of(l, v);
	struct rich *text = report_verdict(report, health_of(finding), finding);
	if (str_starts(finding, "contexts-") || str_eq(finding, "assemblies-stay")) {
		say_contexts(l, v, finding, text);
	} else if (str_eq(finding, "dynamic-code-grows")) {
		say_dynamic(l, v, text);
	} else if (str_eq(finding, "many-assemblies")) {
		rich_strong(text, "%s were loaded in %s.", fmt_plural(v->loads, "assembly", "assemblies").s,
			    fmt_duration_ns(v->window_ns).s);
	} else if (str_eq(finding, "threads-come-and-go")) {
		say_threads(l, v, text);
	} else {
		rich_text(text, "No problem here: ");
		say_loads(l, v, text);
	}
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct loader *l, const struct loader_view *v, struct report *report)
{
	CLEANUP(mem_freep)
	char *gone = l->listed ? mem_printf("%s unloaded; %s now", fmt_count(l->unloads).s, fmt_count(l->alive).s)
			       : mem_printf("%s unloaded", fmt_count(l->unloads).s);
	report_figure(report, "Assemblies loaded", V_COUNT(v->loads), gone);
	CLEANUP(mem_freep) char *contexts = mem_printf("%s gone", fmt_count(v->contexts_gone).s);
	report_figure(report, "Load contexts", V_COUNT(v->contexts), contexts);
	CLEANUP(mem_freep)
	char *methods = mem_printf("%s gone; of %s compiled", fmt_count(l->dynamic_gone).s, fmt_count(l->compiled).s);
	report_figure(report, "Dynamic methods", V_COUNT(l->dynamic_loads), methods);
	CLEANUP(mem_freep)
	char *threads = l->threads_before && l->threads_after
				? mem_printf("%s before, %s after", fmt_count(l->threads_before).s,
					     fmt_count(l->threads_after).s)
				: NULL;
	report_figure(report, "Threads started", V_COUNT(l->threads_started), threads);
	report_figure(report, "Full collections", V_COUNT(l->full_gcs), "without one nothing can go");
}

/* --- tables --- */

static const struct loader *sorting; /* qsort has no user pointer; a worker has one thread */

static int assembly_most_first(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct assembly *x = &sorting->assemblies.v[i], *y = &sorting->assemblies.v[k];
	return CMP(y->loads, x->loads) ?: CMP(i, k);
}

static void add_assembly_lines(struct loader *l, const struct exam *exam, uint32_t assembly, struct report_row *row)
{
	const struct loaded *first = NULL, *last = NULL;
	vec_each(a, &l->loaded) {
		if (a->name != assembly)
			continue;
		first = first ? first : a;
		last = a;
	}
	report_row_line(row, VALUE_CODE, strtab_get(&l->names, l->assemblies.v[assembly].full_name), NULL);
	if (!first)
		return;
	CLEANUP(mem_freep)
	char *when = mem_printf("first %s, last %s into the window",
				fmt_duration_ns(first->at_ns - MIN(first->at_ns, exam->start_ns)).s,
				fmt_duration_ns(last->at_ns - MIN(last->at_ns, exam->start_ns)).s);
	report_row_line(row, VALUE_TEXT, when, first->dynamic ? "made at run time" : NULL);
	if (last->context != LOADER_NO_CONTEXT)
		report_row_line(row, VALUE_CODE, strtab_get(&l->contexts, last->context), "its load context");
	if (first->stack != STACKS_NONE)
		stacks_lines(l->stacks, l->methods, first->stack, 0, row);
}

static void add_assemblies(struct loader *l, const struct exam *exam, struct report *report)
{
	VEC(uint32_t) order = { 0 };
	for (uint32_t i = 0; i < l->assemblies.n; i++) {
		if (l->assemblies.v[i].loads || l->assemblies.v[i].unloads)
			vec_push(&order, i);
	}
	sorting = l;
	vec_sort(&order, assembly_most_first);
	struct report_table *t = report_table(report, "Assemblies");
	report_column(t, "Assembly", VALUE_CODE, 0);
	report_column(t, "Asked for in", VALUE_CODE, 0);
	report_column(t, "Loaded", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Unloaded", VALUE_COUNT, 0);
	report_column(t, "Now", VALUE_COUNT, 0);
	uint64_t rest = 0;
	for (size_t i = 0; i < order.n; i++) {
		const struct assembly *a = &l->assemblies.v[order.v[i]];
		if (i >= TABLE_ROWS) {
			rest += a->loads;
			continue;
		}
		const char *method = site_name(l, stack_of_copies(l, order.v[i]));
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(simple_name(l, order.v[i])),
							method ? V_CODE(method) : V_NONE, V_COUNT(a->loads),
							V_COUNT(a->unloads), l->listed ? V_COUNT(a->alive) : V_NONE });
		add_assembly_lines(l, exam, order.v[i], row);
	}
	if (rest) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more", fmt_count(order.n - TABLE_ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT(rest), V_NONE, V_NONE });
	}
	vec_free(&order);
}

static void add_dynamics(struct loader *l, const struct loader_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Dynamic code");
	report_column(t, "Asked for in", VALUE_CODE, 0);
	report_column(t, "What", VALUE_TEXT, 0);
	report_column(t, "Methods", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Machine code", VALUE_BYTES, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	uint64_t rest = 0;
	for (size_t i = 0; i < v->dynamics.n; i++) {
		const struct loader_place *p = &v->dynamics.v[i];
		if (i >= TABLE_ROWS) {
			rest += p->count;
			continue;
		}
		struct report_row *row = report_row(
			t, (struct value[]){ p->method ? V_CODE(p->method) : V_NONE, V_TEXT(p->kind), V_COUNT(p->count),
					     V_BYTES(p->bytes), V_RATIO((double)p->count / (double)l->dynamic_loads) });
		if (p->stack != STACKS_NONE)
			stacks_lines(l->stacks, l->methods, p->stack, 0, row);
	}
	if (rest)
		report_rest(t, (struct value[]){ V_TEXT("others"), V_NONE, V_COUNT(rest), V_NONE,
						 V_RATIO((double)rest / (double)l->dynamic_loads) });
}

static void add_starts(struct loader *l, const struct loader_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Threads started");
	report_column(t, "Started in", VALUE_CODE, 0);
	report_column(t, "By", VALUE_TEXT, 0);
	report_column(t, "Threads", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	for (size_t i = 0; i < MIN(v->starts.n, (size_t)TABLE_ROWS); i++) {
		const struct loader_place *p = &v->starts.v[i];
		struct report_row *row = report_row(t, (struct value[]){ p->method ? V_CODE(p->method) : V_NONE,
									 V_TEXT(*p->kind ? p->kind : "the program"),
									 V_COUNT(p->count) });
		if (p->stack != STACKS_NONE)
			stacks_lines(l->stacks, l->methods, p->stack, 0, row);
	}
}

static void add_chart(const struct loader *l, const struct loader_view *v, struct report *report)
{
	uint64_t at[TIMELINE_POINTS];
	double assemblies[TIMELINE_POINTS], dynamics[TIMELINE_POINTS];
	timeline_points(&l->assembly_growth, v->window_ns, TIMELINE_POINTS, at, assemblies);
	size_t n = timeline_points(&l->dynamic_growth, v->window_ns, TIMELINE_POINTS, at, dynamics);
	for (size_t i = 1; i < n; i++) {
		assemblies[i] += assemblies[i - 1];
		dynamics[i] += dynamics[i - 1];
	}
	struct report_chart *chart =
		report_chart(report, "More than at the start: loaded less unloaded", VALUE_NUMBER, v->window_ns);
	if (v->loads || l->unloads)
		report_chart_line(chart, "assemblies", at, assemblies, n);
	if (l->dynamic_loads)
		report_chart_line(chart, "dynamic methods", at, dynamics, n);
}

static void add_how(const struct loader *l, struct report *report)
{
	const struct events_stream *s = &l->streams[LOADER_EVENTS];
	report_how(report, "Way", V_TEXT("events"),
		   l->listed ? "every load, unload and compilation; what is loaded now from the runtime's own list"
			     : "every load, unload and compilation");
	report_how(report, "Target paused", V_TEXT("not by us"), NULL);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(s->events + s->lost).s);
	report_how(report, "Lost", V_COUNT(s->lost), of);
	if (l->not_kept)
		report_how(report, "Not listed", V_COUNT(l->not_kept), "beyond what a report can hold");
}

struct err *loader_analyse(struct exam *exam, struct report *report)
{
	struct loader *l = exam->state;
	struct loader_view v;
	view_init(&v, exam, l);
	add_verdict(exam, l, &v, report);
	if (v.loads || l->unloads || l->dynamic_loads || l->threads_started)
		add_figures(l, &v, report);
	if (v.loads || l->unloads)
		add_assemblies(l, exam, report);
	if (l->dynamic_loads)
		add_dynamics(l, &v, report);
	if (l->threads_started >= THREADS_LISTED)
		add_starts(l, &v, report);
	if (v.loads || l->unloads || l->dynamic_loads)
		add_chart(l, &v, report);
	add_how(l, report);
	vec_free(&v.dynamics);
	vec_free(&v.starts);
	return NULL;
}
