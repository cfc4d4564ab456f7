/* Off-CPU: where threads wait, for how long and for what.
 *
 * Every switch away from a cpu is timed by the kernel and most are sampled with their whole stack; threads that never
 * run in the window are read from outside. Runtime threads and pools that wait for work are separated from waits below
 * the user's own code, which are the ones that make something slow. */

#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "knowledge/knowledge.h"
#include "sampling/sample_summary.h"
#include "exam/profiler.h"
#include "sampling/sampling.h"
#include "sampling/switches.h"
#include "report/flame_svg.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES 8192
/* Fewer waiting threads than this, on average, are nothing to explain. */
#define FEW_THREADS 0.05
#define MANY_ALIKE 5
#define LOCK_SHARE 0.20
#define STARVED_SHARE 0.5
#define STACK_LINES 40
#define SLEEP_INTEREST 0.3

struct off {
	struct samples *samples;
	struct sampling_facts facts;
	struct knowledge known;
};

static void off_free(void *state)
{
	struct off *o = state;
	samples_free(o->samples);
	knowledge_fini(&o->known);
	mem_free(o);
}

static struct err *collect(struct exam *exam, struct off *o)
{
	struct sampling_options options = {
		.kind = SAMPLER_SWITCHES,
		.period = 1,
		.stack_bytes = STACK_BYTES,
		.window_ms = exam_duration_ms(exam),
	};
	struct err *err = exam_samples(exam, &options, &o->samples, &o->facts);
	if (!err || err_kind(err) != ERR_DENIED || exam->way != WAY_SAMPLES || exam->way_named ||
	    !exam->patient->answered)
		return err;
	/* Sampling is allowed, but switches need more rights: the runtime at least reports locks. */
	exam_log(exam, "%s", err_text(err));
	exam->way = WAY_EVENTS;
	exam->way_reason = mem_strdup(err_text(err));
	err_free(err);
	if (exam->recording) {
		json_t *way = json_string(way_name(exam->way));
		recording_set_fact(exam->recording, "way", way);
		json_decref(way);
	}
	return exam_samples(exam, &options, &o->samples, &o->facts);
}

static struct err *run(struct exam *exam)
{
	struct off *o = exam->state = mem_zalloc(sizeof(*o));
	TRY(collect(exam, o));
	knowledge_look(exam, &(struct knowledge_wanted){ 0 }, &o->known);
	return NULL;
}

/* --- what it adds up to --- */

/* Waits of one kind at one place of the user's code. */
struct off_cpu_place {
	uint32_t frame, caller; /* UINT32_MAX: none of the user's code; no caller */
	uint32_t called;	/* what of the framework it called to wait, of the longest; UINT32_MAX: nothing */
	unsigned kind;
	uint64_t weight, count, longest;
	uint64_t whole, whole_weight; /* waits that lasted as long as we looked */
	uint32_t stack;		      /* of the longest */
	bool for_work;		      /* an item of a queue, a connection: whoever waits for work delays nobody */
};

struct off_cpu_view {
	const struct off *off;
	VEC(struct off_cpu_place) places;
	uint64_t window_ns;
	uint64_t yours, others, cpu;	   /* waits below the user's code that came or went; without any; for a cpu */
	uint64_t still, still_ns;	   /* waits below the user's code that did neither */
	uint64_t held;			   /* of these: for a lock that no thread got meanwhile */
	const struct off_cpu_place *alike; /* of these: where most are, when there are many */
	uint64_t by_kind[WAIT_KINDS];
	bool thinned;  /* not each wait has its stack */
	bool in_turns; /* nor was each recorded */
};

static const char *frame_name(const struct off_cpu_view *v, uint32_t frame)
{
	return samples_frame_name(v->off->samples, frame);
}

/* A handler may be inlined in what was made to call it. */
static void find_compiled(const struct samples *s, const struct samples_stack *k, struct off_cpu_place *ret)
{
	uint32_t called = UINT32_MAX;
	for (uint32_t i = 0; i < k->n && ret->frame == UINT32_MAX; i++) {
		uint32_t frame = s->stack_frames.v[k->first + i];
		if (s->frames.v[frame].kind != FRAME_FRAMEWORK)
			continue;
		if (method_is_compiled(samples_frame_name(s, frame)))
			ret->frame = frame;
		else
			called = frame;
	}
	ret->called = called;
}

static void find_place(const struct samples *s, uint32_t stack, struct off_cpu_place *ret)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	ret->frame = ret->caller = ret->called = UINT32_MAX;
	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t frame = s->stack_frames.v[k->first + i];
		if (s->frames.v[frame].kind == FRAME_FRAMEWORK && ret->frame == UINT32_MAX)
			ret->called = frame;
		if (s->frames.v[frame].kind != FRAME_CODE)
			continue;
		if (ret->frame == UINT32_MAX) {
			ret->frame = frame;
		} else if (s->frames.v[frame].name != s->frames.v[ret->frame].name) {
			ret->caller = frame;
			return;
		}
	}
	if (ret->frame == UINT32_MAX)
		find_compiled(s, k, ret);
}

/* Loops that take work as it comes. */
static bool waits_for_work(const struct samples *s, const struct off_cpu_place *p)
{
	static const char *const takes[] = { "System.Collections.Concurrent.BlockingCollection",
					     "System.Net.Sockets.Socket.Accept",
					     "System.Net.Sockets.TcpListener.Accept",
					     "System.Net.HttpListener.GetContext" };
	const char *name = p->called == UINT32_MAX ? "" : samples_frame_name(s, p->called);
	for (size_t i = 0; i < ARRAY_SIZE(takes); i++)
		if (str_starts(name, takes[i]))
			return !strstr(name, ".Add") && !strstr(name, ".TryAdd");
	return false;
}

static int longest_first(const void *a, const void *b)
{
	const struct off_cpu_place *x = a, *y = b;
	return CMP(y->weight, x->weight) ?: CMP(x->frame, y->frame);
}

/* Idle workers of the pool and locks spin: they give their cpu away, over and over, and miss nothing. */
static bool gave_way(const struct samples *s, uint32_t stack)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	for (uint32_t i = 0; i < k->n; i++) {
		const struct samples_frame *f = &s->frames.v[s->stack_frames.v[k->first + i]];
		if (f->kind != FRAME_KERNEL && f->kind != FRAME_NATIVE)
			return false;
		if (strstr(strtab_get(&s->strings, f->name), "sched_yield"))
			return true;
	}
	return false;
}

/* Where some got it, it is contended, not held. */
static bool is_held(const struct off_cpu_place *p)
{
	return p->kind == WAIT_LOCK && p->whole && p->whole_weight == p->weight;
}

static void add_up(struct off_cpu_view *v)
{
	const struct samples *s = v->off->samples;
	struct map_u64 index = { 0 };
	vec_each(x, &s->list) {
		struct off_cpu_place p = { .kind = x->kind & (WAIT_WHOLE - 1), .stack = x->stack };
		if (!p.kind || p.kind >= WAIT_KINDS)
			p.kind = WAIT_OTHER;
		if (p.kind == WAIT_CPU) {
			v->cpu += gave_way(s, x->stack) ? 0 : x->weight;
			continue;
		}
		find_place(s, x->stack, &p);
		bool still = x->kind & WAIT_WHOLE;
		p.for_work = waits_for_work(s, &p);
		*(p.frame == UINT32_MAX || p.for_work ? &v->others : still ? &v->still_ns : &v->yours) += x->weight;
		if (p.frame == UINT32_MAX)
			continue;
		v->still += still;
		v->by_kind[p.kind] += still || p.for_work ? 0 : x->weight;
		bool new;
		uint64_t name = s->frames.v[p.frame].name;
		uint64_t *i = map_u64_put(&index, name << 8 | (unsigned)p.for_work << 7 | p.kind, &new);
		if (new) {
			*i = v->places.n;
			vec_push(&v->places, p);
		}
		struct off_cpu_place *place = &v->places.v[*i];
		place->weight += x->weight;
		place->count++;
		place->whole += (x->kind & WAIT_WHOLE) != 0;
		place->whole_weight += x->kind & WAIT_WHOLE ? x->weight : 0;
		if (x->weight > place->longest) {
			place->longest = x->weight;
			place->stack = x->stack;
			place->called = p.called;
		}
	}
	map_u64_free(&index);
	vec_sort(&v->places, longest_first);
	vec_each(p, &v->places) {
		v->held += is_held(p) ? p->whole : 0;
		if (p->whole >= MANY_ALIKE && !is_held(p) && (!v->alike || p->whole > v->alike->whole))
			v->alike = p;
	}
}

/* --- report --- */

static double threads_of(const struct off_cpu_view *v, uint64_t ns)
{
	return ratio(ns, v->window_ns);
}

static double share(const struct off_cpu_view *v, uint64_t ns)
{
	return ratio(ns, v->yours);
}

static const char *finding_of(const struct off_cpu_view *v)
{
	const struct sampling_facts *f = &v->off->facts;
	uint64_t used = f->cpu_ns == UINT64_MAX ? 0 : f->cpu_ns;
	bool starved = threads_of(v, v->cpu) > STARVED_SHARE && v->cpu > 2 * used;
	if (v->held)
		return "lock-held";
	if (starved && v->cpu >= v->yours)
		return "cpu-starved";
	if (threads_of(v, v->yours) < FEW_THREADS)
		return "nothing-waits";
	if (share(v, v->by_kind[WAIT_LOCK]) >= LOCK_SHARE)
		return "lock-waits";
	return share(v, v->by_kind[WAIT_GC]) >= LOCK_SHARE ? "gc-waits" : "waits";
}

/* "SemaphoreSlim.Wait" of "System.Threading.SemaphoreSlim.Wait". */
static const char *short_call(const char *name)
{
	int dots = 0, depth = 0;
	for (const char *p = name + strlen(name); p > name; p--) {
		depth += p[-1] == '>' ? 1 : p[-1] == '<' ? -1 : 0;
		bool dot = p[-1] == '.' && *p != '.'; /* "Type..ctor" */
		if (dot && !depth && ++dots == 2)
			return p;
	}
	return name;
}

/* The call says more than its kind does, but for a sleep and an ordinary lock. */
static const char *telling_call(const struct off_cpu_view *v, const struct off_cpu_place *p)
{
	if (p->called == UINT32_MAX || p->kind == WAIT_SLEEP || p->kind == WAIT_GC)
		return NULL;
	const char *name = frame_name(v, p->called);
	bool ordinary = str_starts(name, "System.Threading.Monitor.") || str_starts(name, "System.Threading.Lock.") ||
			(!str_starts(name, "System.") && !method_is_library(v->off->samples->whose, name));
	return ordinary ? NULL : short_call(name);
}

static void add_place(const struct off_cpu_view *v, const struct off_cpu_place *p, struct rich *text)
{
	if (p->caller != UINT32_MAX) {
		rich_code(text, frame_name(v, p->caller));
		rich_text(text, " → ");
	}
	rich_code(text, frame_name(v, p->frame));
	if (p->kind == WAIT_SLEEP)
		rich_text(text, ", which sleeps");
	else
		rich_text(text, ", waiting for %s", wait_kind_words((enum wait_kind)p->kind));
	const char *call = telling_call(v, p);
	if (call) {
		rich_text(text, " in ");
		rich_code(text, call);
	}
	knowledge_add_serving(&v->off->known, frame_name(v, p->frame), text);
}

/* In waits that began or ended while we looked: one that does neither is as a rule a main thread or a loop without
 * work. */
static uint64_t moving_ns(const struct off_cpu_place *p)
{
	return p->weight - p->whole_weight;
}

/* The verdict is about what took the most time. But a sleep is usually intended, by a loop that polls. */
static const struct off_cpu_place *top_place(const struct off_cpu_view *v, unsigned kind,
					     const struct off_cpu_place *but)
{
	const struct off_cpu_place *top = NULL;
	double most = 0;
	vec_each(p, &v->places) {
		double interest = (double)moving_ns(p) * (p->kind == WAIT_SLEEP ? SLEEP_INTEREST : 1);
		if ((!kind || p->kind == kind) && p != but && !p->for_work && interest > most) {
			most = interest;
			top = p;
		}
	}
	return top;
}

/* kind: of the finding, 0 = any. */
static void add_top(const struct off_cpu_view *v, unsigned kind, struct rich *text)
{
	const struct off_cpu_place *top = top_place(v, kind, NULL);
	if (!top)
		return;
	const struct off_cpu_place *next = kind ? NULL : top_place(v, 0, top);
	rich_strong(text, "%s", fmt_percent(share(v, moving_ns(top))).s);
	rich_text(text, " of that is in ");
	add_place(v, top, text);
	if (next && share(v, moving_ns(next)) >= LOCK_SHARE) {
		rich_text(text, "; %s in ", fmt_percent(share(v, moving_ns(next))).s);
		add_place(v, next, text);
	}
	rich_text(text, ".");
}

/* What threads that waited all the time wait for, and who has it: such a wait still lasts when we look. */
static void add_known(const struct off_cpu_view *v, const struct off_cpu_place *p, struct rich *text)
{
	knowledge_add_serving(&v->off->known, frame_name(v, p->frame), text);
	knowledge_add_blocked_in(&v->off->known, frame_name(v, p->frame), ": they ", text);
}

/* To wait all the time for work, a signal or the clock is ordinary; for a lock it is not. */
static void add_held(const struct off_cpu_view *v, struct rich *text)
{
	const struct off_cpu_place *most = NULL;
	vec_each(p, &v->places) {
		if (is_held(p) && (!most || p->whole > most->whole))
			most = p;
	}
	if (!most)
		return;
	rich_strong(text, "%s waited all the time for a lock", fmt_plural(v->held, "thread", "threads").s);
	rich_text(text, most->whole == v->held ? ", in " : ", most in ");
	rich_code(text, frame_name(v, most->frame));
	add_known(v, most, text);
	rich_text(text, v->yours ? ". " : ".");
}

/* One that waits all the time is a main thread or a loop without work. Many in the same place may be requests. */
static void add_alike(const struct off_cpu_view *v, struct rich *text)
{
	const struct off_cpu_place *p = v->alike;
	if (!p)
		return;
	rich_strong(text, "%llu threads waited all the time", (unsigned long long)p->whole);
	rich_text(text, " in ");
	rich_code(text, frame_name(v, p->frame));
	if (p->kind == WAIT_SLEEP)
		rich_text(text, ", which sleeps");
	else
		rich_text(text, " for %s", wait_kind_words((enum wait_kind)p->kind));
	add_known(v, p, text);
	rich_text(text, v->yours ? ". " : ".");
}

static void add_verdict(const struct exam *exam, const struct off_cpu_view *v, struct report *report)
{
	const char *finding = finding_of(v);
	bool bad = str_starts(finding, "lock-") || str_eq(finding, "cpu-starved") || str_eq(finding, "gc-waits");
	bool none = str_eq(finding, "nothing-waits");
	struct rich *text = report_verdict(report, none ? REPORT_OK : bad ? REPORT_WARN : REPORT_INFO, finding);
	if (none) {
		rich_text(text, "Hardly a wait of your code began or ended in %s. ", fmt_duration_ns(v->window_ns).s);
		if (v->still && !v->alike)
			rich_text(text, "%s waited all the time, as main threads and idle loops do.",
				  fmt_plural(v->still, "thread", "threads").s);
	}
	if (str_eq(finding, "cpu-starved")) {
		rich_text(text, "Threads that could run waited ");
		rich_strong(text, "%s", fmt_duration_ns(v->cpu).s);
		rich_text(text, " for a CPU in %s.%s", fmt_duration_ns(v->window_ns).s,
			  v->yours || v->held || v->alike ? " " : "");
	}
	add_held(v, text);
	add_alike(v, text);
	if (threads_of(v, v->yours) >= FEW_THREADS) {
		rich_text(text, "Your code waited ");
		rich_strong(text, "%s", fmt_duration_ns(v->yours).s);
		struct fmt_text threads = fmt_number(threads_of(v, v->yours));
		rich_text(text, " in %s (%s %s on average). ", fmt_duration_ns(v->window_ns).s, threads.s,
			  str_eq(threads.s, "1") ? "thread" : "threads");
		add_top(v, str_eq(finding, "lock-waits") ? WAIT_LOCK : str_eq(finding, "gc-waits") ? WAIT_GC : 0, text);
	}
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct off_cpu_view *v, struct report *report)
{
	CLEANUP(mem_freep) char *in = mem_printf("in %s, all threads together", fmt_duration_ns(v->window_ns).s);
	report_figure(report, "Your code waited", V_NS(v->yours), in);
	report_figure(report, "Threads waiting", V_NUMBER(threads_of(v, v->yours)), "below your code, on average");
	report_figure(report, "Locks", V_RATIO(share(v, v->by_kind[WAIT_LOCK])), "of that");
	/* Events report neither. */
	if (v->off->facts.by_events)
		return;
	report_figure(report, "Waited all the time", V_COUNT(v->still), "threads below your code, not counted before");
	report_figure(report, "Waited for a CPU", V_NS(v->cpu), "able to run; all threads together");
}

static bool is_managed(uint8_t kind)
{
	return kind == FRAME_CODE || kind == FRAME_FRAMEWORK;
}

static void add_stack(const struct off_cpu_view *v, uint32_t stack, struct report_row *row)
{
	const struct samples *s = v->off->samples;
	CLEANUP(mem_freep) uint32_t *frames = mem_array(s->stacks.v[stack].n, sizeof(*frames));
	size_t n = samples_fold(s, NULL, stack, frames), first = 0;
	/* How the kernel and the runtime put a thread to sleep is always the same; the flame graph has it. */
	while (first < n && !is_managed(s->frames.v[frames[first]].kind))
		first++;
	first = first < n ? first : 0;
	for (size_t i = first; i < n && i < first + STACK_LINES; i++)
		report_row_line(row, VALUE_CODE, frame_name(v, frames[i]), NULL);
}

static void add_places(const struct exam *exam, const struct off_cpu_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Where your code waits");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "Waits for", VALUE_TEXT, 0);
	report_column(t, "Time", VALUE_NS, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "Waits", VALUE_COUNT, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	if (!v->off->facts.by_events)
		report_column(t, "All the time", VALUE_COUNT, 0);
	size_t rows = (size_t)params_int(exam->params, "rows");
	for (size_t i = 0; i < v->places.n && i < rows; i++) {
		const struct off_cpu_place *p = &v->places.v[i];
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(frame_name(v, p->frame)),
							V_TEXT(wait_kind_words((enum wait_kind)p->kind)),
							V_NS(p->weight), v->thinned ? V_NONE : V_COUNT(p->count),
							v->thinned ? V_NONE : V_NS(p->longest), V_COUNT(p->whole) });
		knowledge_add_serving_line(&v->off->known, frame_name(v, p->frame), row);
		add_stack(v, p->stack, row);
	}
}

static void add_kinds(const struct off_cpu_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "By what it waits for");
	report_column(t, "Waits for", VALUE_TEXT, 0);
	report_column(t, "Time", VALUE_NS, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, 0);
	for (unsigned k = 1; k < WAIT_KINDS; k++) {
		if (v->by_kind[k])
			report_row(t, (struct value[]){ V_TEXT(wait_kind_words((enum wait_kind)k)), V_NS(v->by_kind[k]),
							V_RATIO(share(v, v->by_kind[k])) });
	}
}

static void add_how_by_events(const struct exam *exam, const struct off_cpu_view *v, struct report *report)
{
	const struct sampling_facts *f = &v->off->facts;
	bool handles = exam_runtime_major(exam) >= 9;
	report_how(report, "Way", V_TEXT(way_name(exam->way)),
		   handles ? "the runtime's own events: waits for locks, wait handles and Monitor.Wait; sleeps, files, "
			     "sockets and waits that began before are not seen"
			   : "the runtime's own events: waits for locks only; .NET 9 also tells of wait handles");
	report_how(report, "Waits", V_COUNT(f->waits), NULL);
	report_how(report, "Lost events", V_COUNT(f->lost), f->lost ? "waits around them are missing" : NULL);
	report_how(report, "Left behind", V_TEXT("nothing"), NULL);
}

static void add_how(const struct exam *exam, const struct off_cpu_view *v, struct report *report)
{
	const struct sampling_facts *f = &v->off->facts;
	report_how(report, "Way", V_TEXT(way_name(exam->way)),
		   "the kernel's context switches (perf), which stop nothing");
	CLEANUP(mem_freep)
	char *sampled = mem_printf(
		"all timed; %s of %s waits with their stack%s", fmt_count(f->waits_with_stack).s, fmt_count(f->waits).s,
		v->thinned ? ", which stand for the others of their thread (thinned to spare the process)" : "");
	report_how(report, "Switches", V_COUNT(f->switches), sampled);
	if (v->in_turns)
		report_how(report, "Listened", V_RATIO((double)f->listened_ns / (double)v->window_ns),
			   "of the time, in turns, to spare the process; times are scaled to the whole window");
	report_how(report, "Lost records", V_COUNT(f->lost), f->lost ? "waits around them are missing" : NULL);
	if (f->samples)
		report_how(report, "Whole stacks", V_RATIO((double)f->ends[UNWIND_ROOT] / (double)f->samples), NULL);
	report_how(report, "All the time", V_TEXT("from outside"),
		   "threads that waited through the whole window are looked at once, without a stop");
	CLEANUP(mem_freep)
	char *others = mem_printf(
		"by threads with none of your code on their stack, or that wait for work: an item of a queue, a connection");
	report_how(report, "Left out", V_NS(v->others), others);
	if (f->unseen_ns)
		report_how(report, "Without a stack", V_NS(f->unseen_ns), "waited, but where was not seen");
	report_how(report, "Left behind", V_TEXT("nothing"), NULL);
}

static bool below_your_code(const struct samples *s, const struct sample *x)
{
	struct off_cpu_place p;
	find_place(s, x->stack, &p);
	return p.frame != UINT32_MAX && (x->kind & (WAIT_WHOLE - 1)) != WAIT_CPU;
}

/* Only waits of the user's code: idle pools would fill the picture. Those that lasted all the time are in no sum, so
 * not here either, unless there is nothing else. */
static void add_flame(struct exam *exam, const struct off *o, struct report *report)
{
	struct samples yours = *o->samples; /* borrows everything but the list */
	yours.list.v = NULL;
	yours.list.n = yours.list.cap = 0;
	for (int whole = 0; whole < 2 && !yours.list.n; whole++) {
		vec_each(x, &o->samples->list) {
			if (below_your_code(o->samples, x) && (whole || !(x->kind & WAIT_WHOLE)))
				vec_push(&yours.list, *x);
		}
	}
	CLEANUP(sample_summary_freep) struct sample_summary *hot = sample_summary_new(&yours, UINT64_MAX);
	if (hot->weight)
		report_flame(report, "Flame graph of the waiting", hot->down, VALUE_NS);
	CLEANUP(buf_free) struct buf folded = { 0 }, svg = { 0 };
	sample_summary_folded(hot, 1000, &folded);
	exam_artifact(exam, "folded_stacks.out", folded.data, folded.len);
	flame_svg(hot->down, "Time waited", VALUE_NS, &svg);
	exam_artifact(exam, "flamegraph.svg", svg.data, svg.len);
	vec_free(&yours.list);
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct off *o = exam->state;
	struct off_cpu_view v = { .off = o, .window_ns = exam->end_ns - exam->start_ns };
	v.in_turns = o->facts.listened_ns && o->facts.listened_ns < v.window_ns / 10 * 9;
	v.thinned = o->facts.period > 1 || v.in_turns;
	add_up(&v);
	add_verdict(exam, &v, report);
	if (v.places.n) {
		add_figures(&v, report);
		add_places(exam, &v, report);
		if (v.yours)
			add_kinds(&v, report);
		add_flame(exam, o, report);
	}
	if (o->facts.by_events)
		add_how_by_events(exam, &v, report);
	else
		add_how(exam, &v, report);
	knowledge_how(&o->known, report);
	vec_free(&v.places);
	return NULL;
}

const struct profiler profiler_off_cpu = {
	.id = "off-cpu",
	.uuid = "4C5D1B0E-8F0A-4B53-9C2E-6A1E7D0F3B21",
	.name = "Off-CPU",
	.chapter = CHAPTER_CPU,
	.label = "It is slow",
	.symptom = "it is slow, but the CPU is idle: what do threads wait for?",
	.description =
		"Times every wait of every thread and shows where your code waits and for what: locks, events, sleeps, "
		"files, sockets, pipes, polling, page faults. Threads that wait for work without any of your code are "
		"left out. One look into memory at the end names the locks, tasks and HTTP requests behind it.",
	.cost = LOOK_COST "; some microseconds a switch, thinned when switches are many",
	.params =
		(const struct param[]){
			{ .key = "duration",
			  .name = "Duration",
			  .description = "How long to look.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "10",
			  .min = 1,
			  .max = 3600 },
			{ .key = "rows",
			  .name = "Rows",
			  .description = "The most rows of a table.",
			  .type = PARAM_INT,
			  .default_value = "100",
			  .min = 1,
			  .max = 1000 },
			PARAM_NO_LOOK,
			PARAM_LOOK_PAUSE,
		},
	.n_params = 4,
	.ways = { WAY_SAMPLES, WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "lock-waits",
			  "Hold that lock for less time or by fewer: move work out of it, or split what it guards. "
			  "lock-contention says how long each wait is and who had the lock." },
			{ "gc-waits",
			  "It stands still while garbage is collected: gc-stats says which collections these are, and "
			  "allocations who fills the heap." },
			{ "lock-held",
			  "Run deadlocks: it says who has that lock, and whether it will ever be given back." },
			{ "waits",
			  "Is that wait on the path of a slow request? If so, make it asynchronous or shorter." },
			{ "nothing-waits", "Requests that await hold no thread: if they are slow, stuck-tasks shows "
					   "what they wait for." },
			{ "cpu-starved", "Give it more CPU, or run fewer threads: cpu-hotpaths shows what uses it." },
		},
	.n_advice = 6,
	.runs = (const struct advice_run[]){ { "lock-waits", "lock-contention" },
					     { "gc-waits", "gc-stats" },
					     { "lock-held", "deadlocks" },
					     { "nothing-waits", "stuck-tasks" },
					     { "cpu-starved", "cpu-hotpaths" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = off_free,
};
