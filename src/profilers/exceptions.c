/* Exceptions: what is thrown, how often, where.
 *
 * Two streams. "counts" sees every throw, without stacks (cheap). "stacks" sees them with stacks and is dear at high
 * rates, so it listens in bursts; at low rates it sees everything as well. Counts are exact, sites are what the stacks
 * that were seen say. Before .NET 9 the runtime cannot leave the stacks out: there "stacks" counts as well, and when it
 * turns to bursts, "counts" asks the runtime's own counter for the total, which the bursts cannot know (walking stacks
 * slows down whoever throws). Names come early (as soon as one exception was seen), so that they are
 * there when the process dies of the next one. */

#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include "nettrace/fields.h"
#include "exam/events.h"
#include "exam/profiler.h"
#include "exam/stacks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_MAX 2000
#define MESSAGE_UNITS 400
#define SAID_LETTERS 100 /* of it in the verdict */
#define THREADS_MAX 100000
#define RATE_BINS 512
#define FIRST_BIN_NS 2000000
#define CHART_POINTS 120
#define CHART_LEAST 12
#define POINT_THROWS 10
#define NS_PER_S 1000000000ull
/* Stacks are walked in the target, at some microseconds each: above this rate only part of the time. */
#define BURST_RATE 500.0
#define BURST_SHARE 0.05
/* Runtimes that cannot leave the stacks out are heard a little more, since their counts depend on it. */
#define OLD_BURST_SHARE 0.10
#define COUNTER_S "0.5"

/* A few exceptions are ordinary; what costs is a steady rate. */
#define RATE_MANY 10.0
#define RATE_VERY_MANY 500.0
/* Above it, that some were thrown again is not worth a word. */
#define NEARLY_ALL 0.95
#define NEARLY_AS_MANY 0.9

struct exceptions_type {
	char *name;
	uint64_t count, stacked, rethrown, with_inner;
	uint64_t first_ns, last_ns;
	char *message;	      /* of the first one */
	struct map_u64 inner; /* type index of the exception thrown just before on the same thread -> times */
};

/* Throws of one type with one stack. */
struct site_count {
	uint32_t type, stack;
	uint64_t count;
};

struct exceptions {
	struct strtab units;		   /* names of types as the runtime sends them, by index */
	VEC(struct exceptions_type) types; /* likewise */
	uint64_t count, over_limit;
	uint64_t start_ns, bin_ns;
	uint64_t bins[RATE_BINS];
	struct map_u64 last_on_thread; /* thread -> type index + 1 */
	struct stacks *stacks;
	struct map_u64 site_index; /* type << 32 | stack -> index in sites */
	VEC(struct site_count) sites;
	uint64_t with_stack;
	struct methods *methods;
	struct buf text;
	const struct exam *exam;
	bool old;		   /* one stream for both */
	double counted, counted_s; /* by the runtime's own counter, and over how many seconds */
	struct events_stream streams[4];
};

/* On old runtimes "counts" is the runtime's own counter, asked only when the stacks come in bursts. */
enum { NAMES, COMPILED, STACKS, COUNTS };

/* Index of the type, or UINT32_MAX past the limit. */
static uint32_t type_of(struct exceptions *x, struct utf16_span name)
{
	/* Known types are found by their units as they came: this is done for every throw. */
	const char *units = (const char *)name.units;
	size_t bytes = MIN(name.n, (size_t)1024) * 2;
	uint32_t id = strtab_find(&x->units, units, bytes);
	if (id != STRTAB_NONE)
		return id;
	if (x->types.n >= TYPES_MAX)
		return UINT32_MAX;
	id = strtab_add(&x->units, units, bytes);
	buf_clear(&x->text);
	utf16_add(&x->text, name.units, bytes / 2);
	vec_push(&x->types, ((struct exceptions_type){ .name = mem_strdup(buf_cstr(&x->text)) }));
	return id;
}

/* Bins are narrow at first and join in pairs as time goes on: nobody knows when the window will end. */
static void count_bin(struct exceptions *x, uint64_t time)
{
	if (time < x->exam->start_ns)
		return;
	uint64_t since = time - x->exam->start_ns;
	while (since / x->bin_ns >= RATE_BINS) {
		for (size_t i = 0; i < RATE_BINS; i++)
			x->bins[i] = i < RATE_BINS / 2 ? x->bins[2 * i] + x->bins[2 * i + 1] : 0;
		x->bin_ns *= 2;
	}
	x->bins[since / x->bin_ns]++;
}

/* An exception with an inner one wraps what its thread threw just before. */
static void note_inner(struct exceptions *x, struct exceptions_type *type, uint64_t thread)
{
	const uint64_t *before = map_u64_get(&x->last_on_thread, thread);
	if (before && *before)
		++*map_u64_put(&type->inner, *before - 1, NULL);
}

static void on_count(void *user, const struct nettrace_event *event)
{
	struct exceptions *x = user;
	struct clr_exception e;
	if (clr_event(event) != CLR_EXCEPTION_THROWN || !clr_decode_exception(event, &e))
		return;
	x->count++;
	count_bin(x, event->time);
	uint32_t index = type_of(x, e.type);
	if (index == UINT32_MAX) {
		x->over_limit++;
		return;
	}
	struct exceptions_type *t = &x->types.v[index];
	/* Threads come one after the other, not in order of time. */
	t->first_ns = t->count++ ? MIN(t->first_ns, event->time) : event->time;
	t->last_ns = MAX(t->last_ns, event->time);
	t->rethrown += (e.flags & CLR_EXCEPTION_RETHROWN) != 0;
	if (e.flags & CLR_EXCEPTION_HAS_INNER) {
		t->with_inner++;
		note_inner(x, t, event->thread_id);
	}
	if (!t->message && e.message.n) {
		buf_clear(&x->text);
		utf16_add(&x->text, e.message.units, MIN(e.message.n, (size_t)MESSAGE_UNITS));
		if (e.message.n > MESSAGE_UNITS)
			buf_str(&x->text, "…");
		t->message = mem_strdup(buf_cstr(&x->text));
	}
	if (x->last_on_thread.n < THREADS_MAX || map_u64_get(&x->last_on_thread, event->thread_id))
		*map_u64_put(&x->last_on_thread, event->thread_id, NULL) = index + 1;
}

static void on_stack(void *user, const struct nettrace_event *event)
{
	struct exceptions *x = user;
	struct clr_exception e;
	if (clr_event(event) != CLR_EXCEPTION_THROWN || !clr_decode_exception(event, &e))
		return;
	uint32_t type = type_of(x, e.type), stack = stacks_add(x->stacks, event);
	if (type == UINT32_MAX || stack == STACKS_NONE)
		return;
	x->with_stack++;
	x->types.v[type].stacked++;
	bool new;
	uint64_t *index = map_u64_put(&x->site_index, (uint64_t)type << 32 | stack, &new);
	if (new) {
		*index = x->sites.n;
		vec_push(&x->sites, ((struct site_count){ .type = type, .stack = stack }));
	}
	x->sites.v[*index].count++;
}

static void on_both(void *user, const struct nettrace_event *event)
{
	on_count(user, event);
	on_stack(user, event);
}

/* The runtime's own counter of throws: no types, no times, but every throw at no cost. */
static void on_counter(void *user, const struct nettrace_event *event)
{
	struct exceptions *x = user;
	struct nettrace_value name, increment, seconds;
	double throws, interval;
	if (!nettrace_find(event, "Payload.Name", &name) || !nettrace_find(event, "Payload.Increment", &increment) ||
	    !nettrace_find(event, "Payload.IntervalSec", &seconds))
		return;
	buf_clear(&x->text);
	if (!nettrace_value_text(&name, &x->text) || !str_eq(buf_cstr(&x->text), "exception-count") ||
	    !nettrace_value_number(&increment, &throws) || !nettrace_value_number(&seconds, &interval))
		return;
	if (throws >= 0 && throws < 1e15 && interval > 0 && interval < 1e6) {
		x->counted += throws;
		x->counted_s += interval;
	}
}

static void exceptions_free(void *state)
{
	struct exceptions *x = state;
	vec_each(t, &x->types) {
		mem_free(t->name);
		mem_free(t->message);
		map_u64_free(&t->inner);
	}
	vec_free(&x->types);
	vec_free(&x->sites);
	strtab_free(&x->units);
	map_u64_free(&x->last_on_thread);
	map_u64_free(&x->site_index);
	stacks_free(x->stacks);
	methods_free(x->methods);
	buf_free(&x->text);
	mem_free(x);
}

static struct err *run(struct exam *exam)
{
	/* Level 2: the throws themselves; catch and finally blocks are told from level 4 on. */
	static const struct ipc_provider throws = { .name = CLR_PROVIDER, .keywords = CLR_EXCEPTION, .level = 2 };
	static const struct ipc_provider counters = {
		.name = "System.Runtime", .keywords = ~0ull, .level = 4, .args = "EventCounterIntervalSec=" COUNTER_S
	};
	struct exceptions *x = exam->state = mem_zalloc(sizeof(*x));
	uint64_t window_ms = (uint64_t)params_int(exam->params, "duration") * 1000;
	x->exam = exam;
	x->stacks = stacks_new();
	x->methods = methods_new();
	x->bin_ns = FIRST_BIN_NS;
	x->old = exam_runtime_major(exam) < 9;
	x->streams[COUNTS] = (struct events_stream){
		.name = "counts",
		.providers = x->old ? &counters : &throws,
		.n_providers = 1,
		.unordered = true,
		.beside = x->old ? &x->streams[STACKS] : NULL,
		.event = x->old ? on_counter : on_count,
		.user = x,
	};
	x->streams[STACKS] = (struct events_stream){
		.name = "stacks",
		.providers = &throws,
		.n_providers = 1,
		.stacks = true,
		.burst_rate = BURST_RATE,
		.burst_share = x->old ? OLD_BURST_SHARE : BURST_SHARE,
		.event = x->old ? on_both : on_stack,
		.user = x,
	};
	x->streams[NAMES] = exam_methods_stream(&x->streams[STACKS], x->methods);
	x->streams[COMPILED] = exam_compiled_stream(x->methods);
	TRY(exam_events(exam, x->streams, COUNTS + 1, window_ms));
	if (stacks_unknown(x->stacks, x->methods))
		TRY(exam_methods(exam, x->methods));
	return NULL;
}

/* --- report --- */

/* When the target dies, its last moments are in one stream or the other. Where both have heard all the time, what one
 * of them heard happened. */
static void unite_streams(struct exceptions *x)
{
	if (x->old)
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
	double scale; /* throws that one which was heard stands for: above 1 only where counting was in bursts */
	bool estimated, counter; /* by the runtime's own counter */
};

/* Did it listen only part of the time? */
static bool in_bursts(const struct events_stream *s, uint64_t window_ns)
{
	return s->open_ns && s->open_ns < window_ns / 50 * 49;
}

/* A number of throws as it is told: two digits of an estimate, which is no better than that. */
static double told(const struct exceptions_view *v, double throws)
{
	double unit = 1;
	while (v->estimated && throws / unit >= 100)
		unit *= 10;
	return round(throws / unit) * unit;
}

static struct exceptions_view view_of(const struct exam *exam, const struct exceptions *x)
{
	const struct events_stream *s = &x->streams[x->old ? STACKS : COUNTS];
	struct exceptions_view v = { .window_ns = exam->end_ns - exam->start_ns, .scale = 1 };
	v.estimated = x->old && in_bursts(s, v.window_ns);
	v.counter = v.estimated && x->counted_s > 0 && x->counted > 0 && x->count;
	if (v.counter)
		v.scale = x->counted / x->counted_s * (double)v.window_ns / 1e9 / (double)x->count;
	else if (v.estimated)
		v.scale = (double)v.window_ns / (double)s->open_ns;
	v.sum = (double)x->count * v.scale;
	v.total = (uint64_t)told(&v, v.sum);
	v.rate = v.window_ns ? v.sum * 1e9 / (double)v.window_ns : 0;
	if (v.estimated)
		v.rate = told(&v, v.rate);
	return v;
}

struct exceptions_sites {
	struct exceptions_site *v;
	size_t n, cap;
};

static int most_first(const void *a, const void *b)
{
	const struct exceptions_site *x = a, *y = b;
	return x->estimate < y->estimate ? 1 : x->estimate > y->estimate ? -1 : (int)x->type - (int)y->type;
}

/* Behind the runtime's own throwing code, which is managed from .NET 9 on. */
static size_t first_frame(struct exceptions *x, uint32_t stack)
{
	size_t i = 0, depth = stacks_depth(x->stacks, stack);
	while (i + 1 < depth && str_eq(stacks_frame(x->stacks, x->methods, stack, i).space, "System.Runtime.EH"))
		i++;
	return i;
}

static bool thrown_again(struct exceptions *x, uint32_t stack)
{
	size_t first = first_frame(x, stack);
	struct stack_frame leaf = stacks_frame(x->stacks, x->methods, stack, first);
	return str_starts(leaf.name, "System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw");
}

static const char unknown_place[] = "code without a name";

/* Groups the stacks by type and method, and spreads the exact counts of each type over its sites. */
static void find_sites(struct exceptions *x, double scale, struct exceptions_sites *sites)
{
	struct map_u64 index = { 0 };
	CLEANUP(mem_freep) uint64_t *seen = mem_zalloc((x->types.n + 1) * sizeof(*seen));
	vec_each(s, &x->sites) {
		size_t at = MAX(stacks_site(x->stacks, x->methods, s->stack), first_frame(x, s->stack));
		struct stack_frame frame = stacks_frame(x->stacks, x->methods, s->stack, at);
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
	size_t places = 0, len = 0, n = 0;
	vec_each(site, sites)
		places += site->type == top->type && !site->again;
	if (!message || places != 1)
		return;
	for (uint32_t cp; message[len] && n < SAID_LETTERS; n++)
		len += utf8_decode(message + len, strlen(message + len), &cp);
	rich_text(text, " The first says “%.*s%s”.", (int)len, message, message[len] ? "…" : "");
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
	return str_starts(name, "System.Net.") || str_starts(name, "System.IO.") || whose_code(name) == WHOSE_LIBRARY;
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
	const char *next = profiler_next(exam->profiler, failed ? "failed-calls" : finding);
	if (next)
		rich_text(report_next(report), "%s", next);
}

/* Of the busiest second. */
static double peak_rate(const struct exceptions *x, const struct exceptions_view *v)
{
	size_t width = MAX((size_t)1, (size_t)(NS_PER_S / x->bin_ns));
	size_t bins = MIN((size_t)RATE_BINS, (size_t)(v->window_ns / x->bin_ns));
	uint64_t sum = 0, peak = 0;
	for (size_t i = 0; i < bins; i++) {
		sum += x->bins[i];
		if (i >= width)
			sum -= x->bins[i - width];
		peak = MAX(peak, sum);
	}
	return (double)peak * 1e9 / (double)(width * x->bin_ns);
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
	CLEANUP(mem_freep) char *most = mem_printf("at most %s", fmt_rate(peak_rate(x, v)).s);
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
	double rate = v->window_ns ? site->estimate * 1e9 / (double)v->window_ns : 0;
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
		stacks_lines(x->stacks, x->methods, site->stack, first_frame(x, site->stack), row);
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

/* How many bins make one point: few enough points for a picture, and some throws in each, for single ones are no rate.
 */
static size_t bins_joined(const struct exceptions *x, size_t used)
{
	size_t join = (used + CHART_POINTS - 1) / CHART_POINTS;
	while (join < used / CHART_LEAST && x->count * join < (uint64_t)POINT_THROWS * used)
		join++;
	return MAX(join, (size_t)1);
}

static void add_chart(const struct exam *exam, const struct exceptions *x, struct report *report)
{
	uint64_t window = exam->end_ns - exam->start_ns;
	uint64_t at[RATE_BINS];
	double rate[RATE_BINS];
	size_t n = 0, used = (size_t)MIN(window / x->bin_ns + 1, (uint64_t)RATE_BINS), join = bins_joined(x, used);
	uint64_t width = x->bin_ns * join;
	for (; n * join < used && n * width < window; n++) {
		uint64_t sum = 0;
		for (size_t i = n * join; i < MIN((n + 1) * join, used); i++)
			sum += x->bins[i];
		at[n] = n * width;
		rate[n] = (double)sum * 1e9 / (double)MIN(width, window - at[n]);
	}
	struct report_chart *chart = report_chart(report, "Rate over time", VALUE_RATE, window);
	report_chart_line(chart, "exceptions", at, rate, n);
}

static void add_how(const struct exceptions *x, const struct exceptions_view *v, struct report *report)
{
	const struct events_stream *stacks = &x->streams[STACKS], *counts = x->old ? stacks : &x->streams[COUNTS];
	double share = v->window_ns ? MIN(1.0, (double)stacks->open_ns / (double)v->window_ns) : 0;
	report_how(report, "Way", V_TEXT("events"),
		   !v->estimated ? "every throw was counted"
		   : v->counter	 ? "total by the runtime's own counter, types and places from bursts"
				 : "heard in bursts and scaled up");
	report_how(report, "Pause imposed", V_TEXT("none"), NULL);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(counts->events + counts->lost).s);
	report_how(report, "Lost", V_COUNT(counts->lost), of);
	CLEANUP(mem_freep) char *heard = NULL;
	if (in_bursts(stacks, v->window_ns))
		heard = mem_printf("in %s, %s of the time: counts by place are estimates",
				   fmt_plural(stacks->opened, "burst", "bursts").s, fmt_percent(share).s);
	else
		heard = mem_printf("of %s exceptions", fmt_count(x->count).s);
	if (x->with_stack != x->count || in_bursts(stacks, v->window_ns))
		report_how(report, "Stacks seen", V_COUNT(x->with_stack), heard);
	if (!x->old)
		report_how(report, "Not counted", V_TEXT("rethrows"), ".NET 9 and later do not tell of them");
	if (x->over_limit)
		report_how(report, "Not listed", V_COUNT(x->over_limit), "exceptions of types beyond the first 2,000");
}

static struct err *analyse(struct exam *exam, struct report *report)
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
		if (!v.estimated) /* between bursts nothing was heard, which is not the same as nothing */
			add_chart(exam, x, report);
	}
	add_how(x, &v, report);
	vec_free(&sites);
	return NULL;
}

const struct profiler profiler_exceptions = {
	.id = "exceptions",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E82",
	.name = "Thrown exceptions",
	.label = "Exceptions are many",
	.symptom = "exceptions are many, or errors appear that nobody logs",
	.description =
		"Counts every exception that is thrown, handled or not: by type and by the method that throws it, "
		"with a message, the stack and the rate over time.",
	.cost = "no stop; stacks only in short bursts when the rate is high",
	.params =
		(const struct param[]){
			PARAM_DURATION("10"),
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "many-exceptions", "Avoid the throw where it is expected (TryParse, TryGetValue, a check "
					     "before the call): every "
					     "throw walks the stack, caught or not." },
			{ "failed-calls", "Something that it calls fails: look there. Until that is mended, wait "
					  "longer before each new "
					  "try, and give up for a while when many fail." },
			{ "few-exceptions",
			  "The rate is no problem. Is one of them unexpected? Their messages and stacks are below." },
		},
	.n_advice = 3,
	.run = run,
	.analyse = analyse,
	.free_state = exceptions_free,
};
