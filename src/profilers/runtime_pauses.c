/* Runtime pauses: every suspension of managed code, from the request until all threads run again, and its reason. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include "model/dist.h"
#include "exam/events.h"
#include "eventpipe/gc_log.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define CHART_BARS_MAX 2000
#define TABLE_ROWS 200

/* What is a problem. A pause adds to the latency of whatever request it hits, so its length counts by itself; many
 * short ones count by their share of the time. */
#define LONG_NS (50 * NS_PER_MS)
#define VERY_LONG_NS (250 * NS_PER_MS)
#define SHARE_MUCH 0.05
#define SHARE_VERY_MUCH 0.20
/* Pauses that code asks for with GC.Collect are avoidable, so a smaller share of them is a finding. */
#define INDUCED_LONG_NS (10 * NS_PER_MS)
#define INDUCED_SHARE 0.01

struct pauses {
	struct gc_log log;
	struct dist *lengths, *to_suspend;
	struct events_stream stream;
};

static void on_pause(void *user, const struct gc_pause *pause)
{
	struct pauses *p = user;
	dist_add(p->lengths, gc_pause_ns(pause));
	dist_add(p->to_suspend, pause->stopped_ns - pause->begin_ns);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	gc_log_event(user, event);
}

static void pauses_free(void *state)
{
	struct pauses *p = state;
	gc_log_fini(&p->log);
	dist_free(p->lengths);
	dist_free(p->to_suspend);
	mem_free(p);
}

static struct err *run(struct exam *exam)
{
	static const struct ipc_provider gc_events = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	struct pauses *p = exam->state = mem_zalloc(sizeof(*p));
	p->lengths = dist_new(GC_LOG_PAUSES_MAX);
	p->to_suspend = dist_new(GC_LOG_PAUSES_MAX);
	gc_log_init(&p->log);
	p->log.on_pause = on_pause;
	p->log.user = p;
	p->stream = (struct events_stream){
		.name = "gc", .providers = &gc_events, .n_providers = 1, .event = on_event, .user = &p->log
	};
	return exam_events(exam, &p->stream, 1, exam_duration_ms(exam));
}

/* --- report --- */

static int longest_first(const void *a, const void *b)
{
	uint64_t x = gc_pause_ns(a), y = gc_pause_ns(b);
	return CMP(y, x);
}

static void describe(const struct pauses *p, const struct gc_pause *pause, struct buf *out)
{
	buf_clear(out);
	gc_log_describe(&p->log, pause, out);
}

/* A cause: pauses of one kind, however many. */
struct cause {
	char *name;
	uint64_t count, sum_ns, max_ns;
	bool induced;
	bool young, full; /* a collection of generation 0 or 1; of all */
};

static int cause_heaviest_first(const void *a, const void *b)
{
	const struct cause *x = a, *y = b;
	return CMP(y->sum_ns, x->sum_ns);
}

VEC_TYPE(causes, struct cause);

static void find_causes(const struct pauses *p, struct causes *causes)
{
	struct strtab names = { 0 };
	struct buf text = { 0 };
	vec_each(pause, &p->log.pauses) {
		describe(p, pause, &text);
		uint32_t id = strtab_add(&names, buf_cstr(&text), text.len);
		if (id == causes->n)
			vec_push(causes, ((struct cause){ .name = mem_strdup(buf_cstr(&text)) }));
		struct cause *c = &causes->v[id];
		c->count++;
		c->sum_ns += gc_pause_ns(pause);
		c->max_ns = MAX(c->max_ns, gc_pause_ns(pause));
		const struct gc *gc = pause->gc >= 0 ? &p->log.gcs.v[pause->gc] : NULL;
		c->induced = gc && clr_gc_induced(gc->reason);
		c->young = gc && gc->generation < 2;
		c->full = gc && gc->generation == 2;
	}
	buf_free(&text);
	strtab_free(&names);
	vec_sort(causes, cause_heaviest_first);
}

static void causes_free(struct causes *causes)
{
	vec_each(c, causes)
		mem_free(c->name);
	vec_free(causes);
}

struct pauses_view {
	uint64_t count, sum_ns, max_ns, window_ns;
	double share;
	bool slow_stop; /* the stopping, not the work, takes most of the time */
};

static struct pauses_view view_of(const struct pauses *p, const struct exam *exam)
{
	struct pauses_view v = {
		.count = dist_count(p->lengths),
		.sum_ns = dist_sum(p->lengths),
		.max_ns = dist_max(p->lengths),
		.window_ns = exam->end_ns - exam->start_ns,
	};
	v.share = ratio(v.sum_ns, v.window_ns);
	v.slow_stop = dist_sum(p->to_suspend) * 2 > v.sum_ns && dist_max(p->to_suspend) > LONG_NS / 5;
	return v;
}

static const char *finding_of(const struct pauses_view *v, const struct causes *causes)
{
	if (!v->count || !causes->n)
		return "no-pause";
	bool much = v->max_ns >= LONG_NS || v->share >= SHARE_MUCH;
	if (much && v->slow_stop)
		return "slow-to-stop";
	const struct cause *top = &causes->v[0];
	bool induced = top->induced && top->count > 1 && top->sum_ns * 2 > v->sum_ns;
	if (induced && (much || top->max_ns >= INDUCED_LONG_NS || v->share >= INDUCED_SHARE))
		return "induced-collections";
	if (!much)
		return "nothing-found";
	if (v->max_ns >= LONG_NS)
		return top->young ? "long-young-pauses" : "long-pauses";
	return top->full ? "frequent-full-pauses" : "frequent-pauses";
}

static enum report_health health_of(const struct pauses_view *v, const char *finding)
{
	if (str_eq(finding, "no-pause") || str_eq(finding, "nothing-found"))
		return REPORT_OK;
	return v->max_ns >= VERY_LONG_NS || v->share >= SHARE_VERY_MUCH ? REPORT_BAD : REPORT_WARN;
}

static void add_verdict(const struct exam *exam, struct pauses *p, const struct pauses_view *v,
			const struct causes *causes, struct report *report)
{
	const char *finding = finding_of(v, causes);
	enum report_health health = health_of(v, finding);
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns);
	if (!v->count || !causes->n) {
		rich_text(text, "No problem here: the runtime did not pause once in %s.", window.s);
		return;
	}
	struct fmt_text pauses = fmt_plural(v->count, "pause", "pauses");
	if (health == REPORT_OK) {
		rich_text(text, "No problem here: %s, %s in all (%s of the time), the longest %s.", pauses.s,
			  fmt_duration_ns(v->sum_ns).s, fmt_percent(v->share).s, fmt_duration_ns(v->max_ns).s);
		return;
	}
	rich_text(text, "Managed code stood still for ");
	rich_strong(text, "%s of %s", fmt_duration_ns(v->sum_ns).s, window.s);
	rich_text(text, " (%s) in %s; the longest took ", fmt_percent(v->share).s, pauses.s);
	rich_strong(text, "%s", fmt_duration_ns(v->max_ns).s);
	if (v->count >= 100) /* else it is nearly the longest itself */
		rich_text(text, ", p99 %s", fmt_duration_ns(dist_quantile(p->lengths, 0.99)).s);
	rich_text(text, ". ");
	const struct cause *main_cause = &causes->v[0];
	rich_text(text, "%s of that time is one kind: ", fmt_percent((double)main_cause->sum_ns / (double)v->sum_ns).s);
	rich_strong(text, "%s", main_cause->name);
	rich_text(text, " (%s).", fmt_plural(main_cause->count, "pause", "pauses").s);
	if (v->slow_stop)
		rich_text(text, " Most of it, %s, went by before all threads had stopped.",
			  fmt_duration_ns(dist_sum(p->to_suspend)).s);
	report_advice(report, exam->profiler, finding);
}

static void add_figures(struct pauses *p, const struct pauses_view *v, struct report *report)
{
	CLEANUP(mem_freep) char *rate = mem_printf("%s", fmt_rate(per_second(v->count, v->window_ns)).s);
	report_figure(report, "Pauses", V_COUNT(v->count), rate);
	CLEANUP(mem_freep) char *share = mem_printf("%s of the time", fmt_percent(v->share).s);
	report_figure(report, "Standing still", V_NS(v->sum_ns), share);
	CLEANUP(mem_freep) char *median = mem_printf("p50 %s", fmt_duration_ns(dist_quantile(p->lengths, 0.5)).s);
	report_figure(report, "p95", V_NS(dist_quantile(p->lengths, 0.95)), median);
	report_figure(report, "p99", V_NS(dist_quantile(p->lengths, 0.99)), NULL);
	CLEANUP(mem_freep)
	char *stop = mem_printf("slowest to stop %s", fmt_duration_ns(dist_max(p->to_suspend)).s);
	report_figure(report, "Longest", V_NS(v->max_ns), stop);
}

static void add_causes(const struct pauses_view *v, const struct causes *causes, struct report *report)
{
	struct report_table *t = report_table(report, "What for");
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "Pauses", VALUE_COUNT, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	report_column(t, "In all", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	vec_each(c, causes)
		report_row(t, (struct value[]){ V_TEXT(c->name), V_COUNT(c->count), V_NS(c->max_ns), V_NS(c->sum_ns),
						V_RATIO((double)c->sum_ns / (double)v->sum_ns) });
}

static struct value heap_value(uint64_t bytes)
{
	return bytes ? V_BYTES(bytes) : V_NONE;
}

static void add_worst(const struct pauses *p, const struct exam *exam, struct report *report)
{
	struct report_table *t = report_table(report, "Worst pauses");
	report_column(t, "At", VALUE_NS, 0);
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "Stopping", VALUE_NS, 0);
	report_column(t, "Pause", VALUE_NS, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Heap before", VALUE_BYTES, 0);
	report_column(t, "after", VALUE_BYTES, 0);
	VEC(struct gc_pause) sorted = { 0 };
	vec_each(pause, &p->log.pauses)
		vec_push(&sorted, *pause);
	vec_sort(&sorted, longest_first);
	struct buf text = { 0 };
	for (size_t i = 0; i < MIN(sorted.n, (size_t)TABLE_ROWS); i++) {
		const struct gc_pause *pause = &sorted.v[i];
		const struct gc *gc = pause->gc >= 0 ? &p->log.gcs.v[pause->gc] : NULL;
		uint64_t at = pause->begin_ns > exam->start_ns ? pause->begin_ns - exam->start_ns : 0;
		describe(p, pause, &text);
		report_row(t, (struct value[]){ V_NS(at), V_TEXT(buf_cstr(&text)),
						V_NS(pause->stopped_ns - pause->begin_ns), V_NS(gc_pause_ns(pause)),
						heap_value(gc ? gc->before : 0), heap_value(gc ? gc_after(gc) : 0) });
	}
	if (sorted.n > TABLE_ROWS) {
		uint64_t rest = 0;
		for (size_t i = TABLE_ROWS; i < sorted.n; i++)
			rest += gc_pause_ns(&sorted.v[i]);
		CLEANUP(mem_freep) char *words = mem_printf("%s shorter pauses", fmt_count(sorted.n - TABLE_ROWS).s);
		report_rest(t, (struct value[]){ V_NONE, V_TEXT(words), V_NONE, V_NS(rest), V_NONE, V_NONE });
	}
	buf_free(&text);
	vec_free(&sorted);
}

static void add_pictures(struct pauses *p, const struct exam *exam, const struct pauses_view *v, struct report *report)
{
	struct report_chart *chart = report_chart(report, "When", VALUE_NS, v->window_ns);
	/* Only the longest where there are more than a picture can show. */
	uint64_t least = p->log.pauses.n > CHART_BARS_MAX
				 ? dist_quantile(p->lengths, 1 - (double)CHART_BARS_MAX / (double)p->log.pauses.n)
				 : 0;
	struct buf text = { 0 };
	size_t bars = 0;
	vec_each(pause, &p->log.pauses) {
		if (gc_pause_ns(pause) < least || bars >= CHART_BARS_MAX || pause->begin_ns < exam->start_ns)
			continue;
		describe(p, pause, &text);
		report_chart_bar(chart, pause->begin_ns - exam->start_ns, gc_pause_ns(pause),
				 (double)gc_pause_ns(pause), buf_cstr(&text));
		bars++;
	}
	buf_free(&text);
	struct report_histogram *h = report_histogram(report, "How long", VALUE_NS);
	struct dist_bucket buckets[64];
	size_t n = dist_buckets(p->lengths, 1000, buckets, ARRAY_SIZE(buckets));
	for (size_t i = 0; i < n; i++)
		report_bucket(h, (double)buckets[i].from, (double)buckets[i].to, buckets[i].count);
}

static void add_how(const struct pauses *p, struct report *report)
{
	report_how(report, "Way", V_TEXT("events"), "every suspension was heard");
	report_how(report, "Pause imposed", V_TEXT("none"), NULL);
	CLEANUP(mem_freep)
	char *of = mem_printf("of %s events", fmt_count(p->stream.events + p->stream.lost).s);
	report_how(report, "Lost", V_COUNT(p->stream.lost), of);
	if (p->log.unpaired)
		report_how(report, "Left out", V_COUNT(p->log.unpaired), "suspensions whose begin or end was not seen");
	if (p->log.pauses.n < dist_count(p->lengths))
		report_how(report, "Listed", V_COUNT(p->log.pauses.n),
			   "the tables show only these; the figures have all");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct pauses *p = exam->state;
	struct pauses_view v = view_of(p, exam);
	struct causes causes = { 0 };
	find_causes(p, &causes);
	add_verdict(exam, p, &v, &causes, report);
	if (v.count) {
		add_figures(p, &v, report);
		add_causes(&v, &causes, report);
		add_worst(p, exam, report);
		add_pictures(p, exam, &v, report);
	}
	add_how(p, report);
	causes_free(&causes);
	return NULL;
}

const struct profiler profiler_runtime_pauses = {
	.id = "runtime-pauses",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E85",
	.name = "Runtime pauses",
	.chapter = CHAPTER_RUNTIME,
	.label = "p95 or p99 latency spikes",
	.symptom = "p95 or p99 latency spikes; everything stands still for moments",
	.description = "Lists every moment in which the runtime stopped all managed code: for how long, how long the "
		       "stopping itself took, and what for (which GC, of which generation, why).",
	.cost = "no stop; a few events a GC",
	.contract_files = (const char *const[]){ "summary.md", NULL },
	.params =
		(const struct param[]){
			PARAM_DURATION("20"),
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "induced-collections", "Find who calls GC.Collect and remove the call: the collector knows "
						 "better when, and each full "
						 "collection stops every request." },
			{ "long-pauses", "Look at what survives: a large generation 2 or many large objects make full "
					 "collections long. Is "
					 "concurrent GC (System.GC.Concurrent) switched off?" },
			{ "long-young-pauses",
			  "Collections of young objects are long when many of these still live (batches, queues, "
			  "buffered results), or when they are dense with references: gc-stats shows how much "
			  "survives, "
			  "allocations what it is." },
			{ "frequent-pauses",
			  "Allocate less: pauses this frequent come from a high allocation rate. Server GC or a larger "
			  "generation 0 (GCGen0Size) makes them rarer." },
			{ "frequent-full-pauses",
			  "Full collections this frequent come from large objects (85,000 bytes and more) or from a "
			  "lack "
			  "of memory: run allocations to see which are allocated. Large arrays can be rented "
			  "(ArrayPool), large strings be written to a stream in pieces." },
			{ "slow-to-stop",
			  "Look for threads that run long without a safepoint (tight loops over spans, memory copies) "
			  "and for too little CPU: off-cpu measures how long threads waited for one." },
		},
	.n_advice = 6,
	.runs = (const struct advice_run[]){ { "long-young-pauses", "gc-stats" },
					     { "frequent-full-pauses", "allocations" },
					     { "slow-to-stop", "off-cpu" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = pauses_free,
};
