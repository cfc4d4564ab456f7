/* What the throws say: how many, of which types, from which places. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "profilers/exceptions.h"
#include "exam/profiler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAID_LETTERS 100 /* of a message in the verdict */
#define CHART_LEAST 24
#define POINT_THROWS 10

/* A few exceptions are ordinary; what costs is a steady rate. */
#define RATE_MANY 10.0
#define RATE_VERY_MANY 500.0
/* Above it, rethrows are not worth mentioning. */
#define NEARLY_ALL 0.95
#define NEARLY_AS_MANY 0.9

/* When the target is killed, its last moments are in one stream or the other. If both were open all the time, what
 * either of them has did happen. */
static void unite_streams(struct exceptions *x)
{
	if (x->events.old)
		return;
	vec_each(t, &x->types) {
		if (t->stacked > t->count) {
			x->count += t->stacked - t->count;
			t->count = t->stacked;
		}
	}
}

/* Throws of one type from one method. */
struct exceptions_site {
	uint32_t type;
	const char *method; /* NULL: no stack was seen for this type */
	uint32_t stack;	    /* the most frequent one */
	uint64_t stack_count, count;
	bool own;	 /* the method is the user's */
	bool again;	 /* thrown again at an await or by ExceptionDispatchInfo, not where it began */
	double estimate; /* of all throws */
};

/* The whole, as far as it was heard. */
struct exceptions_view {
	uint64_t total, window_ns;
	double sum; /* the total before it was rounded: what shares are of */
	double rate;
	double scale; /* throws that each received one represents: above 1 only where counting was in bursts */
	bool estimated, counter; /* by the runtime's own counter */
};

/* A number of throws as the report shows it: rounded when it is an estimate. */
static double told(const struct exceptions_view *v, double throws)
{
	return v->estimated ? fmt_estimate(throws) : round(throws);
}

static struct exceptions_view view_of(const struct exam *exam, const struct exceptions *x)
{
	const struct events_stream *s = counted_events_by(&x->events);
	struct exceptions_view v = { .window_ns = exam->end_ns - exam->start_ns,
				     .scale = counted_events_scale(&x->events, exam),
				     .estimated = s->bursting };
	v.counter = v.estimated && x->counted_s > 0 && x->counted > 0 && x->count;
	if (v.counter)
		v.scale = x->counted / x->counted_s * ((double)v.window_ns / NS_PER_S) / (double)x->count;
	v.sum = (double)x->count * v.scale;
	v.total = (uint64_t)told(&v, v.sum);
	v.rate = per_second(v.sum, v.window_ns);
	if (v.estimated)
		v.rate = told(&v, v.rate);
	return v;
}

VEC_TYPE(exceptions_sites, struct exceptions_site);

static int most_first(const void *a, const void *b)
{
	const struct exceptions_site *x = a, *y = b;
	return CMP(y->estimate, x->estimate) ?: CMP(x->type, y->type);
}

/* Behind the runtime's own throwing code, which is managed from .NET 9 on. */
static size_t first_frame(struct exceptions *x, uint32_t stack)
{
	size_t i = 0, depth = stacks_depth(x->events.stacks, stack);
	while (i + 1 < depth &&
	       str_eq(stacks_frame(x->events.stacks, x->events.methods, stack, i).space, "System.Runtime.EH"))
		i++;
	return i;
}

static bool thrown_again(struct exceptions *x, uint32_t stack)
{
	size_t first = first_frame(x, stack);
	struct stack_frame leaf = stacks_frame(x->events.stacks, x->events.methods, stack, first);
	return str_starts(leaf.name, "System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw");
}

static const char unknown_place[] = "code without a name";

/* Groups the stacks by type and method, and spreads the exact counts of each type over its sites. */
static void find_sites(struct exceptions *x, double scale, struct exceptions_sites *sites)
{
	struct map_u64 index = { 0 };
	CLEANUP(mem_freep) uint64_t *seen = mem_zalloc((x->types.n + 1) * sizeof(*seen));
	vec_each(s, &x->sites) {
		size_t at = MAX(stacks_site(x->events.stacks, x->events.methods, s->stack), first_frame(x, s->stack));
		struct stack_frame frame = stacks_frame(x->events.stacks, x->events.methods, s->stack, at);
		const char *name = frame.known ? frame.name : unknown_place;
		bool again = thrown_again(x, s->stack), new;
		uint64_t key = hash_u64((uint64_t)(uintptr_t)name ^ (uint64_t)s->type << 48 ^ (uint64_t)again << 47);
		uint64_t *i = map_u64_put(&index, key, &new);
		if (new) {
			*i = sites->n;
			vec_push(sites, ((struct exceptions_site){ .type = s->type,
								   .method = name,
								   .own = frame.known && !frame.framework,
								   .again = again }));
		}
		struct exceptions_site *site = &sites->v[*i];
		site->count += s->count;
		seen[s->type] += s->count;
		if (s->count > site->stack_count) {
			site->stack_count = s->count;
			site->stack = s->stack;
		}
	}
	vec_each(site, sites)
		site->estimate =
			(double)site->count * (double)x->types.v[site->type].count * scale / (double)seen[site->type];
	for (uint32_t t = 0; t < x->types.n; t++) {
		if (!seen[t])
			vec_push(sites, ((struct exceptions_site){ .type = t,
								   .estimate = (double)x->types.v[t].count * scale }));
	}
	map_u64_free(&index);
	vec_sort(sites, most_first);
}

static void show_type(struct exceptions *x, uint32_t type, struct buf *out)
{
	buf_clear(out);
	type_show(x->types.v[type].name, out);
}

static const char *finding_of(const struct exceptions_view *v)
{
	if (!v->total)
		return "nothing-found";
	return v->rate < RATE_MANY ? "few-exceptions" : "many-exceptions";
}

/* How many there were when one that is thrown again at every await on its way counts once. Some are made without a
 * throw (SetException) and first thrown at an await: the stack that threw most of their type counts these. */
static double count_once(struct exceptions *x, double scale)
{
	CLEANUP(mem_freep) double *began = mem_zalloc((x->types.n + 1) * sizeof(*began));
	CLEANUP(mem_freep) double *again = mem_zalloc((x->types.n + 1) * sizeof(*again));
	double sum = 0;
	vec_each(s, &x->sites) {
		if (thrown_again(x, s->stack))
			again[s->type] = MAX(again[s->type], (double)s->count);
		else
			began[s->type] += (double)s->count;
	}
	for (uint32_t t = 0; t < x->types.n; t++) {
		const struct exceptions_type *type = &x->types.v[t];
		double seen = MAX(began[t], again[t]), all = (double)type->count * scale;
		sum += type->stacked ? seen * all / (double)type->stacked : all;
	}
	return sum;
}

/* What to look at first: where most begin. Of two that are about as many, the cause rather than what wraps it. */
static const struct exceptions_site *main_site(const struct exceptions *x, const struct exceptions_sites *sites)
{
	const struct exceptions_site *best = NULL;
	vec_each(site, sites) {
		if (site->again)
			continue;
		if (!best)
			best = site;
		else if (site->estimate >= NEARLY_AS_MANY * best->estimate && x->types.v[best->type].with_inner &&
			 !x->types.v[site->type].with_inner)
			return site;
	}
	return best ? best : &sites->v[0];
}

/* What is thrown in one place only says the same, as a rule. */
static void add_message(const struct exceptions *x, const struct exceptions_sites *sites,
			const struct exceptions_site *top, struct rich *text)
{
	const char *message = x->types.v[top->type].message;
	CLEANUP(buf_free) struct buf said = { 0 };
	size_t places = 0;
	vec_each(site, sites)
		places += site->type == top->type && !site->again;
	if (!message || places != 1)
		return;
	str_add_message(&said, message, SAID_LETTERS);
	if (said.len)
		rich_text(text, " The first says “%s”.", buf_cstr(&said));
}

/* Where what the platform throws comes to the user's own code. */
static void add_receiver(const struct exceptions_sites *sites, const struct exceptions_site *top, struct rich *text)
{
	const struct exceptions_site *best = NULL;
	vec_each(site, sites)
		if (site->again && site->own && site->type == top->type && (!best || site->estimate > best->estimate))
			best = site;
	if (top->own || !best)
		return;
	rich_text(text, ", which reaches ");
	rich_code(text, best->method);
}

/* Something outside fails: the network, a file, what a library talks to. */
static bool is_failed_call(const struct exceptions *x, const struct exceptions_site *top)
{
	const char *name = x->types.v[top->type].name;
	return str_starts(name, "System.Net.") || str_starts(name, "System.IO.") ||
	       whose_code(x->exam->whose, name) == WHOSE_LIBRARY;
}

/* "10 % are X, thrown in Y." about the most frequent ones. */
static void add_top(struct exceptions *x, const struct exceptions_view *v, const struct exceptions_sites *sites,
		    double once, struct rich *text)
{
	struct buf name = { 0 };
	const struct exceptions_site *top = main_site(x, sites);
	show_type(x, top->type, &name);
	double share = MIN(top->estimate / once, 1.0);
	/* The table counts throws. */
	const char *of = once < NEARLY_ALL * v->sum ? " of the exceptions" : "";
	if (v->total == 1)
		rich_text(text, "It is ");
	else if (share > 0.995)
		rich_text(text, "All are ");
	else if (share < 0.3 && x->types.n > 1)
		rich_text(text, "%s types; the most frequent, with %s%s, is ", fmt_count(x->types.n).s,
			  fmt_percent(share).s, of);
	else
		rich_text(text, "%s%s are ", fmt_percent(share).s, of);
	rich_code(text, buf_cstr(&name));
	if (top->method) {
		rich_text(text, top->again ? ", thrown again in " : ", thrown in ");
		rich_code(text, top->method);
		add_receiver(sites, top, text);
	}
	rich_text(text, ".");
	add_message(x, sites, top, text);
	buf_free(&name);
}

static void add_verdict(const struct exam *exam, struct exceptions *x, const struct exceptions_view *v,
			const struct exceptions_sites *sites, struct report *report)
{
	const char *finding = finding_of(v);
	/* Few are no alarm, yet which they are is what may have been asked for. */
	enum report_health health = !v->total		       ? REPORT_OK
				    : v->rate < RATE_MANY      ? REPORT_INFO
				    : v->rate < RATE_VERY_MANY ? REPORT_WARN
							       : REPORT_BAD;
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!v->total) {
		rich_text(text, "No problem here: no exception was thrown in %s.", window.s);
		return;
	}
	bool few = health == REPORT_INFO;
	if (few)
		rich_text(text, "Nothing alarming: ");
	double once = count_once(x, v->scale);
	bool again = once < NEARLY_ALL * v->sum;
	rich_strong(text, "%s%s", v->estimated ? few ? "about " : "About " : "",
		    fmt_plural(v->total, again ? "throw" : "exception", again ? "throws" : "exceptions").s);
	rich_text(text, " in %s (%s)", window.s, fmt_rate(v->rate).s);
	if (again)
		rich_text(text, " of %s%s: they are thrown again on the way, as awaits do",
			  v->estimated ? "about " : "",
			  fmt_plural((uint64_t)told(v, once), "exception", "exceptions").s);
	rich_text(text, ". ");
	add_top(x, v, sites, once, text);
	bool failed = str_eq(finding, "many-exceptions") && is_failed_call(x, main_site(x, sites));
	report_advice(report, exam->profiler, failed ? "failed-calls" : finding);
}

static void add_figures(const struct exceptions *x, const struct exceptions_view *v, struct report *report)
{
	uint64_t rethrown = 0, inner = 0;
	vec_each(t, &x->types) {
		rethrown += t->rethrown;
		inner += t->with_inner;
	}
	CLEANUP(mem_freep)
	char *window = mem_printf("in %s%s", fmt_duration_ns(v->window_ns).s, v->estimated ? ", estimated" : "");
	report_figure(report, "Throws", V_COUNT(v->total), window);
	CLEANUP(mem_freep) char *most = mem_printf("at most %s", fmt_rate(timeline_peak(&x->throws, v->window_ns)).s);
	report_figure(report, "Rate", V_RATE(v->rate), v->estimated || v->window_ns < 2 * NS_PER_S ? NULL : most);
	report_figure(report, "Types", V_COUNT(x->types.n), NULL);
	if (rethrown)
		report_figure(report, "Rethrown", V_COUNT(told(v, (double)rethrown * v->scale)), "by throw;");
	if (inner)
		report_figure(report, "With an inner one", V_COUNT(told(v, (double)inner * v->scale)), NULL);
}

/* "wraps FormatException": what was mostly thrown just before on the same thread. */
static void add_inner_line(struct exceptions *x, const struct exceptions_view *v, const struct exceptions_type *type,
			   struct report_row *row)
{
	uint64_t best = 0, best_type = 0;
	size_t pos = 0;
	for (uint64_t t, times; map_u64_next(&type->inner, &pos, &t, &times);) {
		if (times > best) {
			best = times;
			best_type = t;
		}
	}
	if (!type->with_inner)
		return;
	uint64_t inner = (uint64_t)told(v, (double)type->with_inner * v->scale);
	struct buf name = { 0 }, line = { 0 };
	if (best) {
		show_type(x, (uint32_t)best_type, &name);
		buf_printf(&line, "%s with an inner exception; %s of them right after %s on the same thread",
			   fmt_count(inner).s, fmt_percent((double)best / (double)type->with_inner).s, buf_cstr(&name));
	} else {
		buf_printf(&line, "%s with an inner exception", fmt_count(inner).s);
	}
	report_row_line(row, VALUE_TEXT, buf_cstr(&line), NULL);
	buf_free(&name);
	buf_free(&line);
}

static void add_lines(struct exceptions *x, const struct exam *exam, const struct exceptions_view *v,
		      const struct exceptions_site *site, struct report_row *row)
{
	const struct exceptions_type *type = &x->types.v[site->type];
	if (type->message) {
		CLEANUP(mem_freep) char *message = mem_printf("“%s”", type->message);
		report_row_line(row, VALUE_TEXT, message, NULL);
	}
	double rate = per_second(site->estimate, v->window_ns);
	CLEANUP(mem_freep)
	char *seen = mem_printf("%s; first after %s, last after %s", fmt_rate(v->estimated ? told(v, rate) : rate).s,
				fmt_duration_ns(type->first_ns - MIN(type->first_ns, exam->start_ns)).s,
				fmt_duration_ns(type->last_ns - MIN(type->last_ns, exam->start_ns)).s);
	report_row_line(row, VALUE_TEXT, seen, NULL);
	if (type->rethrown) {
		CLEANUP(mem_freep)
		char *again = mem_printf("%s rethrown by throw;",
					 fmt_count((uint64_t)told(v, (double)type->rethrown * v->scale)).s);
		report_row_line(row, VALUE_TEXT, again, NULL);
	}
	add_inner_line(x, v, type, row);
	if (site->method)
		stacks_lines(x->events.stacks, x->events.methods, site->stack, first_frame(x, site->stack), row);
}

static void add_table(struct exceptions *x, const struct exam *exam, const struct exceptions_view *v,
		      const struct exceptions_sites *sites, struct report *report)
{
	struct report_table *t = report_table(report, "By type and place");
	report_column(t, "Exception", VALUE_CODE, 0);
	report_column(t, "Thrown in", VALUE_CODE, 0);
	report_column(t, "Count", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct buf name = { 0 };
	vec_each(site, sites) {
		show_type(x, site->type, &name);
		CLEANUP(mem_freep)
		char *where =
			site->method ? mem_printf("%s%s", site->method, site->again ? " (thrown again)" : "") : NULL;
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(buf_cstr(&name)), where ? V_CODE(where) : V_NONE,
					     V_COUNT(told(v, site->estimate)), V_RATIO(site->estimate / v->sum) });
		add_lines(x, exam, v, site, row);
	}
	buf_free(&name);
}

static void add_chart(const struct exceptions *x, const struct exceptions_view *v, struct report *report)
{
	uint64_t at[TIMELINE_POINTS];
	double rate[TIMELINE_POINTS];
	/* Some throws in each point, for single ones are no rate. */
	size_t points = MAX((size_t)(x->count / POINT_THROWS), (size_t)CHART_LEAST);
	size_t n = timeline_rates(&x->throws, v->window_ns, points, at, rate);
	struct report_chart *chart = report_chart(report, "Rate over time", VALUE_RATE, v->window_ns);
	report_chart_line(chart, "exceptions", at, rate, n);
}

static void add_how(const struct exceptions *x, const struct exceptions_view *v, struct report *report)
{
	const struct events_stream *stacks = &x->events.streams[COUNTED_STACKS],
				   *counts = counted_events_by(&x->events);
	double share = MIN(1.0, ratio(stacks->open_ns, v->window_ns));
	report_how(report, "Way", V_TEXT("events"),
		   !v->estimated ? "every throw was counted"
		   : v->counter	 ? "total by the runtime's own counter, types and places from bursts"
				 : "heard in bursts and scaled up");
	report_how(report, "Pause imposed", V_TEXT("none"), NULL);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(counts->events + counts->lost).s);
	report_how(report, "Lost", V_COUNT(counts->lost), of);
	CLEANUP(mem_freep) char *heard = NULL;
	if (stacks->bursting)
		heard = mem_printf("in %s, %s of the time: counts by place are estimates",
				   fmt_plural(stacks->opened, "burst", "bursts").s, fmt_percent(share).s);
	else
		heard = mem_printf("of %s exceptions", fmt_count(x->count).s);
	if (x->with_stack != x->count || stacks->bursting)
		report_how(report, "Stacks seen", V_COUNT(x->with_stack), heard);
	if (!x->events.old)
		report_how(report, "Not counted", V_TEXT("rethrows"), ".NET 9 and later do not tell of them");
	if (x->over_limit)
		report_how(report, "Not listed", V_COUNT(x->over_limit), "exceptions of types beyond the first 2,000");
}

struct err *exceptions_report(struct exam *exam, struct report *report)
{
	struct exceptions *x = exam->state;
	unite_streams(x);
	struct exceptions_view v = view_of(exam, x);
	struct exceptions_sites sites = { 0 };
	find_sites(x, v.scale, &sites);
	add_verdict(exam, x, &v, &sites, report);
	if (v.total) {
		add_figures(x, &v, report);
		add_table(x, exam, &v, &sites, report);
		if (!v.estimated) /* between bursts nothing was received, which does not mean that nothing happened */
			add_chart(x, &v, report);
	}
	add_how(x, &v, report);
	vec_free(&sites);
	return NULL;
}
