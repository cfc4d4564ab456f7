/* GC statistics: how often the collector runs, why, what it costs and what it finds.
 *
 * Everything comes from the events around each collection. The caller of an induced one is in the stack of GCTriggered,
 * the only GC event written by the thread that asks for the GC, on workstation and server GC alike. From .NET 10 on the
 * runtime sends that event alone with its stack; before, one stream has stacks for all GC events, of which there are
 * few.
 *
 * What was allocated between two collections is the difference between what the later one found and what the earlier
 * one left: in generation 0, and among large and pinned objects. */

#include "profilers/gc_stats.h"
#include "base/clock.h"
#include "base/str.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define CALLS_MAX 100000

/* --- collecting --- */

static void on_gc(void *user, const struct nettrace_event *event)
{
	struct gc_stats *s = user;
	gc_log_event(&s->log, event);
}

static void on_call(void *user, const struct nettrace_event *event)
{
	struct gc_stats *s = user;
	uint32_t reason;
	if (clr_event(event) != CLR_GC_TRIGGERED || !clr_decode_gc_triggered(event, &reason))
		return;
	if (!clr_gc_induced(reason) || s->calls.n >= CALLS_MAX)
		return;
	vec_push(&s->calls,
		 ((struct gc_call){ .time = event->time, .reason = reason, .stack = stacks_add(s->stacks, event) }));
}

static void on_both(void *user, const struct nettrace_event *event)
{
	on_gc(user, event);
	on_call(user, event);
}

static void gc_stats_free(void *state)
{
	struct gc_stats *s = state;
	gc_log_fini(&s->log);
	vec_free(&s->calls);
	stacks_free(s->stacks);
	methods_free(s->methods);
	mem_free(s);
}

static struct err *run(struct exam *exam)
{
	static const uint32_t triggered = 35;
	static const struct ipc_provider all = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	static const struct ipc_provider calls = {
		.name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4, .only_ids = &triggered, .n_only_ids = 1
	};
	struct gc_stats *s = exam->state = mem_zalloc(sizeof(*s));
	gc_log_init(&s->log);
	s->stacks = stacks_new(exam->whose);
	s->methods = methods_new();
	s->one_stream = exam_runtime_major(exam) < 10;
	s->streams[GC_STATS_LOG] = (struct events_stream){
		.name = "gc",
		.providers = &all,
		.n_providers = 1,
		.stacks = s->one_stream,
		.event = s->one_stream ? on_both : on_gc,
		.user = s,
	};
	s->streams[GC_STATS_CALLS] = (struct events_stream){
		.name = "calls", .providers = &calls, .n_providers = 1, .stacks = true, .event = on_call, .user = s
	};
	TRY(exam_events(exam, s->streams, s->one_stream ? GC_STATS_CALLS : GC_STATS_STREAMS, exam_duration_ms(exam)));
	/* Names cost more than all the rest, so they are asked for only when there is a stack to name. */
	if (stacks_count(s->stacks))
		TRY(exam_methods(exam, s->methods));
	return NULL;
}

/* --- working it out --- */

/* Indexes of collections, in the order of a time. */
struct ordered {
	uint64_t ns;
	size_t gc;
};

static int by_ns(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	return CMP(x->ns, y->ns);
}

static uint64_t grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

static void add_allocated(const struct gc_stats *s, struct gc_view *v)
{
	VEC(struct ordered) ended = { 0 };
	for (size_t i = 0; i < s->log.gcs.n; i++) {
		const struct gc *gc = &s->log.gcs.v[i];
		if (gc->end_ns && gc->has_history)
			vec_push(&ended, ((struct ordered){ gc->end_ns, i }));
	}
	vec_sort(&ended, by_ns);
	const struct gc *young = NULL, *large = NULL, *first = NULL, *last = NULL;
	vec_each(each, &ended) {
		const struct gc *gc = &s->log.gcs.v[each->gc];
		if (large)
			v->allocated += grown(large->large_after, gc->large_before);
		large = gc;
		/* A background GC does not collect generation 0, and looks at it while the program goes on. */
		if (gc->type == GC_BACKGROUND)
			continue;
		if (young)
			v->allocated += grown(young->young_after, gc->young_before);
		else
			first = gc;
		young = last = gc;
	}
	if (first && last != first)
		v->allocated_over = last->start_ns - first->start_ns;
	vec_free(&ended);
}

static void add_gc(struct gc_view *v, const struct gc *gc)
{
	v->longest_ns = MAX(v->longest_ns, gc->pause_ns);
	if (clr_gc_induced(gc->reason)) {
		v->induced++;
		v->induced_pause_ns += gc->pause_ns;
	}
	if (gc->generation >= 2) {
		v->full++;
		v->full_pause_ns += gc->pause_ns;
	}
	if (gc->type == GC_BACKGROUND && gc->end_ns) {
		v->background++;
		v->background_ns += gc->end_ns - gc->start_ns;
	}
	if (gc->has_stats) {
		v->first = v->first ? v->first : gc;
		v->last = !v->last || gc->end_ns > v->last->end_ns ? gc : v->last;
		v->heap_most = MAX(v->heap_most, gc_after(gc));
	}
}

struct gc_view gc_stats_view(const struct exam *exam, const struct gc_stats *s)
{
	struct gc_view v = { .window_ns = exam->end_ns - exam->start_ns, .count = s->log.n_gcs };
	vec_each(gc, &s->log.gcs)
		add_gc(&v, gc);
	vec_each(pause, &s->log.pauses) {
		if (pause->reason == SUSPEND_GC || pause->reason == SUSPEND_GC_PREP)
			v.pause_ns += gc_pause_ns(pause);
	}
	add_allocated(s, &v);
	if (v.last && v.last->has_history) {
		uint64_t size = v.last->size[2] + v.last->size[3];
		v.free_bytes = MIN(size, v.last->free[2] + v.last->free[3]);
		v.free_share = ratio(v.free_bytes, size);
	}
	v.share = ratio(v.pause_ns, v.window_ns);
	v.rate = per_second(v.count, v.window_ns);
	v.full_rate = per_second(v.full, v.window_ns);
	return v;
}

static int most_pause_first(const void *a, const void *b)
{
	const struct gc_kind *x = a, *y = b;
	return CMP(y->pause_ns, x->pause_ns);
}

void gc_stats_kinds(const struct gc_stats *s, struct gc_kinds *kinds)
{
	struct map_u64 index = { 0 };
	vec_each(gc, &s->log.gcs) {
		bool new;
		uint64_t *i = map_u64_put(&index, (uint64_t)gc->generation << 16 | gc->type << 8 | gc->reason, &new);
		if (new) {
			*i = kinds->n;
			vec_push(kinds, ((struct gc_kind){ .gc = *gc, .survival_known = true }));
		}
		struct gc_kind *k = &kinds->v[*i];
		k->count++;
		k->pause_ns += gc->pause_ns;
		k->longest_ns = MAX(k->longest_ns, gc->pause_ns);
		k->survival_known &= gc->has_history && gc->has_stats;
		k->survived_from += gc->survived_from;
		for (size_t g = 0; g < CLR_GENERATIONS; g++)
			k->promoted += gc->promoted[g];
	}
	map_u64_free(&index);
	vec_sort(kinds, most_pause_first);
}

static int caller_first(const void *a, const void *b)
{
	const struct gc_caller *x = a, *y = b;
	return CMP(y->pause_ns, x->pause_ns) ?: CMP(y->count, x->count);
}

static int by_time(const void *a, const void *b)
{
	const struct gc_call *x = a, *y = b;
	return CMP(x->time, y->time);
}

static struct gc_caller *caller_of(struct gc_stats *s, const struct gc_call *call, struct strtab *names,
				   struct map_u64 *index, struct gc_callers *callers)
{
	const char *method = NULL;
	if (call->stack != STACKS_NONE) {
		size_t at = stacks_site(s->stacks, s->methods, call->stack);
		struct stack_frame frame = stacks_frame(s->stacks, s->methods, call->stack, at);
		method = frame.known ? frame.name : "code without a name";
	}
	uint32_t name = method ? strtab_add_cstr(names, method) : UINT32_MAX;
	bool new;
	uint64_t *i = map_u64_put(index, (uint64_t)name << 8 | (call->reason & 0xff), &new);
	if (new) {
		*i = callers->n;
		vec_push(callers,
			 ((struct gc_caller){ .method = method, .stack = call->stack, .reason = call->reason }));
	}
	return &callers->v[*i];
}

/* A call gets the first collection of its reason that starts after it; a second call that comes before that start got
 * the same one. */
void gc_stats_callers(struct gc_stats *s, struct gc_callers *callers)
{
	VEC(struct ordered) gcs = { 0 };
	for (size_t i = 0; i < s->log.gcs.n; i++) {
		if (clr_gc_induced(s->log.gcs.v[i].reason))
			vec_push(&gcs, ((struct ordered){ s->log.gcs.v[i].start_ns, i }));
	}
	vec_sort(&gcs, by_ns);
	vec_sort(&s->calls, by_time);
	struct strtab names = { 0 };
	struct map_u64 index = { 0 };
	size_t next = 0;
	const struct gc *given = NULL;
	vec_each(call, &s->calls) {
		while (next < gcs.n && gcs.v[next].ns < call->time)
			next++;
		const struct gc *gc = next < gcs.n ? &s->log.gcs.v[gcs.v[next].gc] : NULL;
		struct gc_caller *c = caller_of(s, call, &names, &index, callers);
		c->count++;
		if (gc && gc != given && gc->reason == call->reason) {
			c->gcs++;
			c->pause_ns += gc->pause_ns;
			given = gc;
		}
	}
	strtab_free(&names);
	map_u64_free(&index);
	vec_free(&gcs);
	vec_sort(callers, caller_first);
}

const struct profiler profiler_gc_stats = {
	.id = "gc-stats",
	.uuid = "9B7E1655-BF13-4720-A749-8296EF7EEA3C",
	.name = "GC statistics",
	.chapter = CHAPTER_RUNTIME,
	.label = "Much time goes into garbage collection",
	.symptom = "much time goes into garbage collection, or there are too many collections",
	.description = "Counts the collections by generation and reason, and says what they cost: share of the time, "
		       "allocation rate, what survives, how full of holes the heap is, and who calls GC.Collect.",
	.cost = "no stop; a few events a GC",
	.params =
		(const struct param[]){
			PARAM_DURATION("20"),
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "induced-collections", "Remove the call, or make it rare: the collector knows better when, "
						 "and every full collection "
						 "stops the whole program." },
			{ "much-time-in-gc",
			  "Run allocations to see what is allocated and where. A larger generation 0 (GCGen0Size) or "
			  "server GC makes collections rarer; less garbage makes them cheaper." },
			{ "frequent-full-collections",
			  "Run allocations and look at large objects (85,000 bytes and more): they are collected with "
			  "generation 2 only. Reuse large arrays (ArrayPool), build no large strings, or check "
			  "whether memory is short." },
			{ "frequent-collections", "Run allocations to see what is allocated and where; a larger "
						  "generation 0 (GCGen0Size) makes "
						  "collections rarer." },
			{ "fragmented-heap",
			  "Look for pinned objects and for large objects of changing sizes: holes between them are not "
			  "given back. Compacting the large object heap once is possible (GCSettings)." },
		},
	.n_advice = 5,
	.runs = (const struct advice_run[]){ { "much-time-in-gc", "allocations" },
					     { "frequent-full-collections", "allocations" },
					     { "frequent-collections", "allocations" },
					     { 0 } },
	.run = run,
	.analyse = gc_stats_report,
	.free_state = gc_stats_free,
};
