/* The report of the thread-pool profiler: is the pool starving, and what blocks its workers? */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include "profilers/thread_pool.h"
#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS 20

#define LATE_LEAST 3 /* items: one or two say nothing about the pool */
#define VERY_LATE_NS NS_PER_S
#define STALLED_NS (500 * NS_PER_MS)
#define MOSTLY_BLOCKED 0.5
#define OWN_SHARE 0.5	 /* of the cores that it may use: less, and others have the rest */
#define DELAY_LEAST 0.05 /* threads, on average, that could run and had no CPU */
#define CROWD_LEAST 8	 /* blocked workers */
#define CROWD_A_CORE 2.0
#define IDLE_CORES 0.1 /* of all: a process that uses less does not compute, not even in native calls */

/* What a worker is at, in the order of what explains most. */
enum worker_state {
	WORKER_TASK,
	WORKER_SLEEP,
	WORKER_IO,
	WORKER_LOCK,
	WORKER_SIGNAL,
	WORKER_NATIVE,
	WORKER_WORK,
	WORKER_COUNT
};

static const char *const worker_words[WORKER_COUNT] = {
	[WORKER_TASK] = "waits for a task",
	[WORKER_SLEEP] = "sleeps",
	[WORKER_IO] = "waits for I/O",
	[WORKER_LOCK] = "waits for a lock",
	[WORKER_SIGNAL] = "waits for a signal",
	[WORKER_NATIVE] = "is in a lock or native call",
	[WORKER_WORK] = "runs",
};
static const char *const worker_advice[WORKER_COUNT] = {
	[WORKER_TASK] = "Await that task instead of blocking on it (.Result, .Wait(), GetAwaiter().GetResult()): its "
			"continuation needs a worker too, and there is none left. Until then, ThreadPool.SetMinThreads "
			"buys time.",
	[WORKER_SLEEP] =
		"Use await Task.Delay instead of Thread.Sleep in pool work, or give the sleeper a thread of its own.",
	[WORKER_IO] =
		"Use the asynchronous form of that call (ReadAsync, SendAsync ...) and await it, or move it to threads "
		"of its own.",
	[WORKER_NATIVE] =
		"Look at that call: it waits for a lock (run lock-contention), or is native code that blocks or "
		"computes.",
	[WORKER_LOCK] = "Run lock-contention to see who has the lock; hold it shorter.",
	[WORKER_SIGNAL] =
		"Await an asynchronous signal instead (SemaphoreSlim.WaitAsync, a TaskCompletionSource, a Channel), "
		"or give the waiter a thread of its own.",
};

struct worker_site {
	const char *method;
	enum worker_state state;
	uint32_t stack;
	uint64_t seen;
};

struct pool_view {
	uint64_t window_ns, p50, p95, pending;
	double cores;		   /* used; negative = not known */
	uint64_t busy, idle;	   /* workers, all looks together */
	uint64_t blocked, perhaps; /* of the busy; perhaps: a native call may compute as well */
	uint32_t looks;
	uint32_t held;	/* workers that were blocked at the look into memory */
	uint32_t crowd; /* the same, when they are many */
	bool late, stalled, frozen, estimated;
	VEC(struct worker_site) sites; /* most first */
};

/* --- what workers do --- */

static bool starts_any(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++) {
		if (str_starts(name, *prefixes))
			return true;
	}
	return false;
}

static enum worker_state worker_state_of_frame(const char *name)
{
	static const char *const io[] = { "System.Net.",     "System.IO.",   "Interop.Sys.",	   "Interop.OpenSsl",
					  "Microsoft.Data.", "System.Data.", "System.ConsolePal.", NULL };
	static const char *const lock[] = { "System.Threading.Monitor.Enter", "System.Threading.Monitor.TryEnter",
					    "System.Threading.Monitor.ReliableEnter", "System.Threading.Lock.", NULL };
	static const char *const signal[] = { "System.Threading.Monitor.Wait",
					      "System.Threading.WaitHandle.",
					      "System.Threading.SemaphoreSlim.",
					      "System.Threading.ManualResetEventSlim.",
					      "System.Threading.ReaderWriterLockSlim.",
					      "System.Threading.Barrier.",
					      "System.Threading.CountdownEvent.",
					      "System.Threading.Thread.Join",
					      "System.Collections.Concurrent.BlockingCollection",
					      NULL };
	bool task = str_starts(name, "System.Threading.Tasks.Task") &&
		    (strstr(name, "Wait") || strstr(name, "GetResultCore"));
	if (task || str_starts(name, "System.Runtime.CompilerServices.TaskAwaiter"))
		return WORKER_TASK;
	if (str_starts(name, "System.Threading.Thread.Sleep"))
		return WORKER_SLEEP;
	return starts_any(name, io)	  ? WORKER_IO
	       : starts_any(name, lock)	  ? WORKER_LOCK
	       : starts_any(name, signal) ? WORKER_SIGNAL
					  : WORKER_COUNT;
}

/* Calls that do nothing but wait. A thread in one is blocked, whatever the runtime noted about its mode: that may still
 * be the mode of just before. */
static bool only_waits(const char *name)
{
	static const char *const calls[] = {
		"System.Threading.Thread.Sleep",	  "System.Threading.Thread.Join",
		"System.Threading.Monitor.Wait",	  "System.Threading.Monitor.Enter",
		"System.Threading.Monitor.ReliableEnter", "System.Threading.WaitHandle.Wait",
		"System.Threading.WaitSubsystem.",	  NULL
	};
	return starts_any(name, calls);
}

/* From the leaf up to the user's own code: what explains most. */
static enum worker_state worker_state_of(struct pool *p, const struct pool_seen *seen)
{
	enum worker_state best = WORKER_COUNT;
	bool blocked = !seen->managed;
	for (size_t i = 0; i < stacks_depth(p->stacks, seen->stack); i++) {
		struct stack_frame f = stacks_frame(p->stacks, p->methods, seen->stack, i);
		if (!f.framework)
			break;
		blocked |= i == 0 && only_waits(f.name);
		best = MIN(best, worker_state_of_frame(f.name));
	}
	if (!blocked)
		return WORKER_WORK;
	return best == WORKER_COUNT ? WORKER_NATIVE : best;
}

/* A thread of the pool; *ret_busy when it is at a work item. */
static bool is_worker(struct pool *p, uint32_t stack, bool *ret_busy)
{
	bool worker = false;
	*ret_busy = false;
	for (size_t i = 0; i < stacks_depth(p->stacks, stack); i++) {
		const char *name = stacks_frame(p->stacks, p->methods, stack, i).name;
		*ret_busy |= str_starts(name, "System.Threading.ThreadPoolWorkQueue.Dispatch");
		worker |= str_starts(name, "System.Threading.PortableThreadPool.WorkerThread.") ||
			  str_starts(name, "System.Threading.ThreadPoolWorkQueue.");
	}
	return worker;
}

static int most_seen_first(const void *a, const void *b)
{
	const struct worker_site *x = a, *y = b;
	return CMP(y->seen, x->seen);
}

static void add_activity(struct pool *p, struct pool_view *v, const struct pool_seen *seen)
{
	size_t site = stacks_site(p->stacks, p->methods, seen->stack);
	struct worker_site now = { .method = stacks_frame(p->stacks, p->methods, seen->stack, site).name,
				   .state = worker_state_of(p, seen),
				   .stack = seen->stack,
				   .seen = 1 };
	v->blocked += now.state != WORKER_WORK;
	v->perhaps += now.state == WORKER_NATIVE;
	vec_each(a, &v->sites) {
		if (str_eq(a->method, now.method) && a->state == now.state) {
			a->seen++;
			return;
		}
	}
	vec_push(&v->sites, now);
}

static void view_init(struct pool_view *v, const struct exam *exam, struct pool *p)
{
	*v = (struct pool_view){ .window_ns = exam->end_ns - exam->start_ns, .cores = -1 };
	v->p50 = dist_quantile(p->waits, 0.5);
	v->p95 = dist_quantile(p->waits, 0.95);
	v->estimated = p->streams[POOL_QUEUE].bursting;
	for (size_t i = p->head; i < p->items.n; i++)
		v->pending += !p->items.v[i].gone;
	if (p->cpu_ns && v->window_ns)
		v->cores = (double)p->cpu_ns / (double)v->window_ns;
	uint64_t last_idle = 0, last_busy = 0;
	vec_each(seen, &p->seen) {
		bool busy;
		if (seen->look > v->looks) {
			v->looks = seen->look;
			last_idle = last_busy = 0;
		}
		if (!is_worker(p, seen->stack, &busy))
			continue;
		*(busy ? &v->busy : &v->idle) += 1;
		last_idle += !busy;
		last_busy += busy;
		if (busy)
			add_activity(p, v, seen);
	}
	vec_sort(&v->sites, most_seen_first);
	const struct pool_item *oldest = pool_oldest(p);
	v->late = v->p95 >= POOL_LATE_NS && p->late >= LATE_LEAST;
	v->stalled = oldest && exam->end_ns > oldest->queued_ns + STALLED_NS &&
		     exam->end_ns > p->last_taken_ns + STALLED_NS && v->looks && v->busy && !last_idle;
	/* Fewer than there are cores would not matter: the pool adds up to that many at once. */
	v->frozen = !p->dequeued && !p->injected && last_busy && (double)last_busy >= p->budget.cores && !last_idle &&
		    v->blocked == v->busy;
	v->held = pool_blocked(p);
	v->crowd = v->held >= CROWD_LEAST && v->held >= CROWD_A_CORE * p->budget.cores ? v->held : 0;
}

/* Do they wait for a CPU that others have? Not when it uses what it may use itself, or stands still for its limit. */
static bool lacks_cpu(const struct pool *p, const struct pool_view *v)
{
	bool others = v->cores >= 0 && v->cores < OWN_SHARE * p->budget.cores && !cpu_budget_too_small(&p->budget);
	return others && (double)p->delay_ns > DELAY_LEAST * (double)v->window_ns && p->delay_ns > 2 * p->cpu_ns;
}

/* Do the workers wait rather than compute? Where none was seen at work, the pool says so when it adds threads; but it does
 * that as well while they wait for a CPU. */
static bool mostly_blocked(const struct pool *p, const struct pool_view *v)
{
	if (!v->busy)
		return p->injected > 0 && !lacks_cpu(p, v);
	bool idle = v->cores >= 0 && v->cores < IDLE_CORES * p->budget.cores;
	uint64_t blocked = idle ? v->blocked : v->blocked - v->perhaps;
	return (double)blocked >= MOSTLY_BLOCKED * (double)v->busy;
}

/* --- verdict --- */

static const char *finding_of(const struct pool *p, const struct pool_view *v)
{
	if (!v->late && !v->stalled)
		return v->frozen ? "workers-blocked" : v->crowd ? "many-blocked" : "nothing-found";
	return mostly_blocked(p, v) ? "starvation" : lacks_cpu(p, v) ? "cpu-starved" : "queue-latency";
}

/* More than the pool would have by itself: it has grown for them. */
static void say_crowd(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	rich_strong(text, "%u workers of the pool are blocked", v->crowd);
	rich_text(text, ": ");
	pool_say_blocked(p, text);
	rich_text(text, ". The pool keeps up for now: work waits %s in the queue (p95 %s).", fmt_duration_ns(v->p50).s,
		  fmt_duration_ns(v->p95).s);
}

/* What the look into memory adds: whom they wait for. */
static void say_held(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	if (!v->held || p->known.older)
		return;
	rich_text(text, " %s blocked: ", fmt_plural(v->held, "worker is", "workers are").s);
	pool_say_blocked(p, text);
	rich_text(text, ".");
}

static void say_fine(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!p->dequeued && !p->enqueued) {
		rich_text(text, "No problem here: the thread pool had nothing to do in %s.", window.s);
		say_held(p, v, text);
		return;
	}
	rich_text(text, "No problem here: work waits %s in the queue (p95 %s).", fmt_duration_ns(v->p50).s,
		  fmt_duration_ns(v->p95).s);
	if (p->injected)
		rich_text(text, " The pool added %s because work blocks, and keeps up.",
			  fmt_plural(p->injected, "thread", "threads").s);
	say_held(p, v, text);
}

/* An expression that a web framework compiled to call a handler, which may be inlined in it, has no name of an author's: the
 * look into memory knows the handler. */
static const char *place_of(const struct pool *p, const struct worker_site *site)
{
	const char *known = method_is_compiled(site->method) && !p->known.older ? pool_blocked_in(p) : NULL;
	return known ? known : site->method;
}

/* Several at once are callbacks of a timer: it comes again before they have ended. */
static bool timer_overlaps(const struct pool *p, const struct pool_view *v, const struct worker_site *site)
{
	if (site->seen < 2ull * v->looks)
		return false;
	for (size_t i = 0; i < stacks_depth(p->stacks, site->stack); i++)
		if (str_starts(stacks_frame(p->stacks, p->methods, site->stack, i).name,
			       "System.Threading.TimerQueueTimer."))
			return true;
	return false;
}

static void say_workers(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	if (v->sites.n) {
		const struct worker_site *top = &v->sites.v[0];
		double share = (double)top->seen / (double)v->busy;
		rich_text(text, share > 0.995 ? " All workers" : " %s of the workers at work", fmt_percent(share).s);
		rich_text(text, " %s in ",
			  top->state == WORKER_WORK	? "run"
			  : top->state == WORKER_NATIVE ? "are"
							: "are blocked");
		rich_code(text, place_of(p, top));
		if (top->state != WORKER_WORK)
			rich_text(text, " (%s%s)", worker_words[top->state],
				  timer_overlaps(p, v, top)
					  ? "; callbacks of a timer that fires again before they have ended"
					  : "");
		rich_text(text, ".");
	}
	if (p->injected && p->started)
		rich_text(text, " The pool added %s%s.", fmt_plural(p->started, "thread", "threads").s,
			  v->pending ? " and did not catch up" : "");
}

static void say_frozen(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	rich_strong(text, "No work item ran in %s", fmt_duration_ns(v->window_ns).s);
	rich_text(text, ": all %s of the pool are blocked, most in ",
		  fmt_plural(v->busy / v->looks, "worker", "workers").s);
	rich_code(text, place_of(p, &v->sites.v[0]));
	rich_text(text, " (%s). Whether work waits behind them the runtime does not say until a worker is free.",
		  worker_words[v->sites.v[0].state]);
}

static void say_lacks_cpu(const struct pool *p, const struct pool_view *v, struct rich *text)
{
	rich_text(text, "Other processes take the CPU: ");
	rich_strong(text, "work waits %s in the queue of the pool (p95 %s)", fmt_duration_ns(v->p50).s,
		    fmt_duration_ns(v->p95).s);
	rich_text(text,
		  ", and its threads could run for %s of CPU time more than the %s they got. No worker is to blame.",
		  fmt_duration_ns(p->delay_ns).s, fmt_duration_ns(p->cpu_ns).s);
}

static void add_verdict(const struct exam *exam, const struct pool *p, const struct pool_view *v, struct report *report)
{
	const char *finding = finding_of(p, v);
	bool fine = str_eq(finding, "nothing-found"), starving = str_eq(finding, "starvation");
	bool crowd = str_eq(finding, "many-blocked"), lacks = str_eq(finding, "cpu-starved");
	enum report_health health = fine				 ? REPORT_OK
				    : crowd || lacks			 ? REPORT_INFO
				    : starving || v->p95 >= VERY_LATE_NS ? REPORT_BAD
									 : REPORT_WARN;
	struct rich *text = report_verdict(report, health, finding);
	if (fine) {
		say_fine(p, v, text);
		return;
	}
	if (lacks) {
		say_lacks_cpu(p, v, text);
		report_advice(report, exam->profiler, finding);
		return;
	}
	if (crowd || str_eq(finding, "workers-blocked")) {
		if (crowd)
			say_crowd(p, v, text);
		else
			say_frozen(p, v, text);
		if (!crowd)
			say_held(p, v, text);
		report_advice(report, exam->profiler, finding);
		return;
	}
	rich_text(text, starving ? "The thread pool starves: " : "Work waits too long in the thread pool: ");
	if (dist_count(p->waits)) {
		/* Where most items run at once, the verdict is about those that do not. */
		bool most = v->p50 >= POOL_LATE_NS;
		rich_text(text, most ? "an item waits " : "one item in twenty waits ");
		rich_strong(text, "%s%s", p->older || !most ? "at least " : "",
			    fmt_duration_ns(most ? v->p50 : v->p95).s);
		rich_text(text, " in the queue, the longest %s%s", p->longest_is_older ? "more than " : "",
			  fmt_duration_ns(p->longest_ns).s);
	} else {
		rich_text(text, "%s", fmt_plural(v->pending, "item waits and none runs", "items wait and none runs").s);
	}
	if (v->cores >= 0)
		rich_text(text, starving ? ", while the process uses %s of %s" : "; the process uses %s of %s",
			  fmt_number(v->cores).s, cpu_budget_words(&p->budget).s);
	rich_text(text, ".");
	say_workers(p, v, text);
	say_held(p, v, text);
	enum worker_state state = v->sites.n ? v->sites.v[0].state : WORKER_WORK;
	const char *next = starving || state == WORKER_NATIVE ? worker_advice[state] : NULL;
	if (next)
		rich_text(report_next(report), "%s", next);
	else
		report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct pool *p, const struct pool_view *v, struct report *report)
{
	bool any = dist_count(p->waits) > 0;
	CLEANUP(mem_freep) char *p95 = mem_printf("p95 %s", fmt_duration_ns(v->p95).s);
	report_figure(report, "Time in the queue", any ? V_NS(v->p50) : V_NONE, any ? p95 : "no item was taken");
	CLEANUP(mem_freep)
	char *longest = p->longest_is_older ? mem_strdup("or more: it was queued before we listened") : NULL;
	report_figure(report, "Longest", any ? V_NS(p->longest_ns) : V_NONE, longest);
	double rate = per_second(p->dequeued, v->estimated ? p->streams[POOL_QUEUE].open_ns : v->window_ns);
	CLEANUP(mem_freep)
	char *flow = v->late || v->stalled
			     ? mem_printf("%s; %s still queued", fmt_rate(rate).s, fmt_count(v->pending).s)
			     : mem_printf("%s", fmt_rate(rate).s);
	report_figure(report, "Items taken", V_COUNT(p->dequeued), flow);
	uint32_t last = p->workers.n ? vec_last(&p->workers).n : (uint32_t)p->workers_after;
	CLEANUP(mem_freep)
	char *held = p->known.threads && !p->known.older ? mem_printf("; %s blocked", fmt_count(v->held).s) : NULL;
	CLEANUP(mem_freep)
	char *added =
		mem_printf("%s added, %s ended%s", fmt_count(p->started).s, fmt_count(p->stopped).s, held ? held : "");
	report_figure(report, "Workers", last ? V_COUNT(last) : V_NONE, added);
	if (v->cores >= 0) {
		CLEANUP(mem_freep) char *of = mem_printf("of %s", cpu_budget_words(&p->budget).s);
		report_figure(report, "CPU in use", V_NUMBER(v->cores), of);
	}
}

/* --- tables and pictures --- */

static void add_activities(struct pool *p, const struct pool_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "What the workers do");
	report_column(t, "In", VALUE_CODE, 0);
	report_column(t, "It", VALUE_TEXT, 0);
	report_column(t, "Seen", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	uint64_t rest = 0;
	for (size_t i = 0; i < v->sites.n; i++) {
		const struct worker_site *a = &v->sites.v[i];
		if (i >= TABLE_ROWS) {
			rest += a->seen;
			continue;
		}
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(a->method), V_TEXT(worker_words[a->state]), V_COUNT(a->seen),
					     V_RATIO((double)a->seen / (double)(v->busy + v->idle)) });
		stacks_lines(p->stacks, p->methods, a->stack, 0, row);
	}
	if (v->idle)
		report_row(t, (struct value[]){ V_NONE, V_TEXT("is idle"), V_COUNT(v->idle),
						V_RATIO((double)v->idle / (double)(v->busy + v->idle)) });
	if (rest)
		report_rest(t, (struct value[]){ V_TEXT("elsewhere"), V_NONE, V_COUNT(rest),
						 V_RATIO((double)rest / (double)(v->busy + v->idle)) });
}

static void add_adjustments(const struct pool *p, struct report *report)
{
	uint64_t all = 0;
	for (uint32_t i = 0; i <= POOL_REASONS; i++)
		all += p->adjusted[i];
	if (!all)
		return;
	struct report_table *t = report_table(report, "Why the pool changed its size");
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "Times", VALUE_COUNT, COLUMN_MAIN);
	static const char *const meaning[POOL_REASONS] = {
		[2] = "hill climbing: tries whether another count does more",
		[3] = "hill climbing: goes where more was done",
		[4] = "hill climbing: the load changed",
		[5] = "hill climbing: settles",
		[6] = "no item was taken for half a second, so it adds a thread",
		[7] = "workers without work end",
		[8] = "a worker waits for a task (.Result, .Wait()), so it adds a thread",
	};
	for (uint32_t i = 0; i <= POOL_REASONS; i++) {
		if (!p->adjusted[i])
			continue;
		struct report_row *row =
			report_row(t, (struct value[]){ V_TEXT(clr_pool_reason(i)), V_COUNT(p->adjusted[i]) });
		if (i < POOL_REASONS && meaning[i])
			report_row_line(row, VALUE_TEXT, meaning[i], NULL);
	}
}

static void add_queue_chart(const struct pool *p, const struct pool_view *v, struct report *report)
{
	uint64_t at[TIMELINE_POINTS];
	double waits[TIMELINE_POINTS];
	size_t all = timeline_points(&p->longest, v->window_ns, TIMELINE_POINTS, at, waits), n = 0;
	for (size_t i = 0; i < all; i++) {
		if (waits[i] <= 0) /* nothing was taken, which is not the same as no wait */
			continue;
		at[n] = at[i];
		waits[n++] = waits[i];
	}
	struct report_chart *chart =
		report_chart(report, "Longest time in the queue, by when it ended", VALUE_NS, v->window_ns);
	report_chart_line(chart, "longest wait of the items taken", at, waits, n);
}

static void add_workers_chart(const struct exam *exam, const struct pool *p, const struct pool_view *v,
			      struct report *report)
{
	if (!p->workers.n)
		return;
	VEC(uint64_t) at = { 0 };
	VEC(double) workers = { 0 };
	size_t step = p->workers.n / 1000 + 1;
	if (p->workers_before) {
		vec_push(&at, 0);
		vec_push(&workers, (double)p->workers_before);
	}
	for (size_t i = 0; i < p->workers.n; i += step) {
		vec_push(&at, p->workers.v[i].at_ns - MIN(p->workers.v[i].at_ns, exam->start_ns));
		vec_push(&workers, (double)p->workers.v[i].n);
	}
	vec_push(&at, v->window_ns);
	vec_push(&workers, (double)vec_last(&p->workers).n);
	struct report_chart *chart = report_chart(report, "Workers", VALUE_COUNT, v->window_ns);
	report_chart_line(chart, "threads of the pool", at.v, workers.v, at.n);
	vec_free(&at);
	vec_free(&workers);
}

static void add_how(const struct pool *p, const struct pool_view *v, struct report *report)
{
	const struct events_stream *queue = &p->streams[POOL_QUEUE], *pool = &p->streams[POOL_EVENTS];
	report_how(report, "Way", V_TEXT("events"),
		   "of the pool and its queue; stacks of all threads while work waits");
	if (v->looks) {
		CLEANUP(mem_freep)
		char *times = mem_printf("in all, in %s at all threads", fmt_plural(v->looks, "look", "looks").s);
		report_how(report, "Target paused", p->pauses ? V_NS(p->paused_ns) : V_NONE, times);
	} else if (!p->known.threads) {
		report_how(report, "Target paused", V_TEXT("not by us"), NULL);
	}
	CLEANUP(mem_freep)
	char *of = mem_printf("of %s events", fmt_count(queue->events + queue->lost + pool->events + pool->lost).s);
	report_how(report, "Lost", V_COUNT(queue->lost + pool->lost), of);
	knowledge_how(&p->known, report);
	if (v->estimated) {
		CLEANUP(mem_freep)
		char *share = mem_printf("in %s, %s of the time: waits longer than a burst are seen as that long",
					 fmt_plural(queue->opened, "burst", "bursts").s,
					 fmt_percent((double)queue->open_ns / (double)v->window_ns).s);
		report_how(report, "Queue heard", V_TEXT("in part"), share);
	}
	if (p->older) {
		CLEANUP(mem_freep)
		char *older =
			mem_printf("of %s items taken were queued before we listened: their time counts from then",
				   fmt_count(p->dequeued).s);
		report_how(report, "Lower bounds", V_COUNT(p->older), older);
	}
}

struct err *pool_analyse(struct exam *exam, struct report *report)
{
	struct pool *p = exam->state;
	struct pool_view v;
	view_init(&v, exam, p);
	add_verdict(exam, p, &v, report);
	if (p->enqueued || p->dequeued || p->started || v.frozen || v.held) {
		add_figures(p, &v, report);
		if (v.busy)
			add_activities(p, &v, report);
		if (v.held)
			pool_add_waits(p, report);
		if (!v.estimated && dist_count(p->waits))
			add_queue_chart(p, &v, report);
		add_workers_chart(exam, p, &v, report);
		add_adjustments(p, report);
	}
	add_how(p, &v, report);
	vec_free(&v.sites);
	return NULL;
}
