/* Allocations: how much, of what, where.
 *
 * From .NET 10 on the runtime samples every allocated byte with the same probability, one in 102,400, and reports the
 * object it belongs to (AllocationSampled). An object of s bytes is sampled with p = 1 - (1 - 1/102400)^s, so each
 * sampled one represents 1/p objects and s/p bytes: an estimate without bias, whose error is known from the samples
 * themselves. Before, the runtime reports after about every 100 KB on a heap what it is just allocating
 * (AllocationTick): the amount is exact, and is credited to the type and stack of that moment.
 *
 * Two streams: "counts" has every sample without its stack, "stacks" has them with stacks and is open in bursts at high
 * rates. Before .NET 9 stacks cannot be left out, and one stream does both. */

#include "profilers/allocations.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include <math.h>
#include <stdlib.h>

#define SAMPLING_MEAN 102400.0 /* bytes; fixed in the runtime */
#define TYPES_MAX 5000
#define NAME_UNITS 1024
#define SITES_MAX 200000
/* A stack is walked in the target, at tens of microseconds where stacks are deep: above this rate (about 200 MB/s) only
 * part of the time. */
#define BURST_RATE 2000.0
#define BURST_SHARE 0.1

/* --- collecting --- */

static void sum_sample(const struct allocations *a, const struct clr_allocation *e, struct alloc_sum *ret)
{
	double size = (double)e->object_bytes;
	*ret = (struct alloc_sum){ .samples = 1 };
	if (a->ticks) {
		double rest = (double)e->tick_bytes - MIN(size, (double)e->tick_bytes);
		ret->bytes = (double)e->tick_bytes;
		ret->objects = ratio(ret->bytes, size);
		ret->variance = rest * rest;
	} else {
		double chance = -expm1(size * log1p(-1 / SAMPLING_MEAN));
		ret->bytes = size / chance;
		ret->objects = 1 / chance;
		ret->variance = (1 - chance) * ret->bytes * ret->bytes;
	}
	if (e->heap == CLR_HEAP_LARGE)
		ret->large_bytes = ret->bytes;
}

void alloc_sum_add(struct alloc_sum *to, const struct alloc_sum *sum, double scale)
{
	to->samples += sum->samples;
	to->bytes += sum->bytes * scale;
	to->objects += sum->objects * scale;
	to->large_bytes += sum->large_bytes * scale;
	to->variance += sum->variance * scale * scale;
}

static bool is_allocation(const struct allocations *a, const struct nettrace_event *event, struct clr_allocation *ret)
{
	enum clr_event wanted = a->ticks ? CLR_ALLOCATION_TICK : CLR_ALLOCATION_SAMPLED;
	return clr_event(event) == wanted && clr_decode_allocation(event, ret);
}

/* Types past the limit are one. */
static uint32_t type_of(struct allocations *a, struct utf16_span name)
{
	buf_clear(&a->text);
	utf16_add(&a->text, name.units, MIN(name.n, (size_t)NAME_UNITS));
	if (!a->text.len)
		buf_str(&a->text, "(type not told)");
	if (a->types.n >= TYPES_MAX && strtab_find(&a->names, buf_cstr(&a->text), a->text.len) == STRTAB_NONE) {
		buf_clear(&a->text);
		buf_str(&a->text, "(more types)");
	}
	uint32_t id = strtab_add(&a->names, buf_cstr(&a->text), a->text.len);
	while (a->types.n < a->names.n)
		vec_push(&a->types, ((struct alloc_sum){ 0 }));
	return id;
}

static void on_count(void *user, const struct nettrace_event *event)
{
	struct allocations *a = user;
	struct clr_allocation e;
	struct alloc_sum sum;
	if (!is_allocation(a, event, &e))
		return;
	sum_sample(a, &e, &sum);
	uint32_t type = type_of(a, e.type);
	alloc_sum_add(&a->types.v[type], &sum, 1);
	alloc_sum_add(&a->all, &sum, 1);
	a->sizes_unknown |= !e.object_bytes;
	if (event->time >= a->exam->start_ns)
		timeline_add(&a->bytes, event->time - a->exam->start_ns, sum.bytes);
}

static void on_stack(void *user, const struct nettrace_event *event)
{
	struct allocations *a = user;
	struct clr_allocation e;
	struct alloc_sum sum;
	if (!is_allocation(a, event, &e) || a->by_stack.n >= SITES_MAX)
		return;
	sum_sample(a, &e, &sum);
	if (sum.bytes <= 0)
		return;
	uint32_t type = type_of(a, e.type), stack = stacks_add(a->events.stacks, event);
	if (stack == STACKS_NONE)
		return;
	bool new;
	uint64_t *index = map_u64_put(&a->stack_index, (uint64_t)type << 32 | stack, &new);
	if (new) {
		*index = a->by_stack.n;
		vec_push(&a->by_stack, ((struct alloc_stack){ .type = type, .stack = stack }));
	}
	alloc_sum_add(&a->by_stack.v[*index].sum, &sum, 1);
	a->with_stack++;
}

static void allocations_free(void *state)
{
	struct allocations *a = state;
	strtab_free(&a->names);
	vec_free(&a->types);
	map_u64_free(&a->stack_index);
	vec_free(&a->by_stack);
	counted_events_fini(&a->events);
	buf_free(&a->text);
	mem_free(a);
}

static struct err *run(struct exam *exam)
{
	static const struct ipc_provider samples = { .name = CLR_PROVIDER,
						     .keywords = CLR_ALLOCATION_SAMPLING,
						     .level = 4 };
	static const struct ipc_provider ticks = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 5 };
	struct allocations *a = exam->state = mem_zalloc(sizeof(*a));
	a->exam = exam;
	a->ticks = exam_runtime_major(exam) < 10;
	counted_events_init(&a->events, exam);
	TRY(counted_events_run(&a->events, exam,
			       &(struct counted_wanted){ .provider = a->ticks ? &ticks : &samples,
							 .burst_rate = BURST_RATE,
							 .burst_share = BURST_SHARE,
							 .compiled = true,
							 .count = on_count,
							 .stack = on_stack,
							 .user = a }));
	return counted_events_names(&a->events, exam);
}

/* --- estimating --- */

double alloc_error(const struct allocations *a, const struct alloc_view *v, const struct alloc_sum *sum)
{
	if (sum->bytes <= 0)
		return 0;
	double variance = sum->variance;
	if (a->ticks && v->all.bytes > 0) /* the whole is exact; only whose it is, is drawn */
		variance *= 1 - MIN(1.0, sum->bytes / v->all.bytes);
	return 1.96 * sqrt(variance) / sum->bytes;
}

struct alloc_view alloc_view(const struct allocations *a)
{
	const struct events_stream *counts = counted_events_by(&a->events);
	struct alloc_view v = { .window_ns = a->exam->end_ns - a->exam->start_ns,
				.scale = counted_events_scale(&a->events, a->exam),
				.estimated = counts->bursting };
	alloc_sum_add(&v.all, &a->all, v.scale);
	v.rate = per_second(v.all.bytes, v.window_ns);
	v.error = alloc_error(a, &v, &v.all);
	return v;
}

static int heaviest_first(const void *a, const void *b)
{
	const struct alloc_site *x = a, *y = b;
	return CMP(y->sum.bytes, x->sum.bytes) ?: CMP(x->type, y->type);
}

static const char unknown_place[] = "code without a name";

/* Stacks of one type that lead to the same method of the user's are one site. */
static void merge_stacks(struct allocations *a, struct alloc_sites *sites)
{
	struct map_u64 index = { 0 };
	struct strtab methods = { 0 };
	vec_each(s, &a->by_stack) {
		size_t at = stacks_site(a->events.stacks, a->events.methods, s->stack);
		struct stack_frame frame = stacks_frame(a->events.stacks, a->events.methods, s->stack, at);
		const char *name = frame.known ? frame.name : unknown_place;
		bool new;
		uint64_t *i = map_u64_put(&index, (uint64_t)s->type << 32 | strtab_add_cstr(&methods, name), &new);
		if (new) {
			*i = sites->n;
			vec_push(sites, ((struct alloc_site){ .type = s->type, .method = name }));
		}
		struct alloc_site *site = &sites->v[*i];
		alloc_sum_add(&site->sum, &s->sum, 1);
		if (s->sum.bytes > site->stack_bytes) {
			site->stack_bytes = s->sum.bytes;
			site->stack = s->stack;
		}
	}
	strtab_free(&methods);
	map_u64_free(&index);
}

/* Where only some stacks were seen, they represent all of their type. */
static void scale_stacks(struct allocations *a, const struct alloc_view *v, double *seen)
{
	vec_each(s, &a->by_stack)
		seen[s->type] += s->sum.bytes;
	vec_each(s, &a->by_stack) {
		struct alloc_sum heard = s->sum;
		s->sum = (struct alloc_sum){ 0 };
		alloc_sum_add(&s->sum, &heard, a->types.v[s->type].bytes * v->scale / seen[s->type]);
	}
}

void alloc_find_sites(struct allocations *a, const struct alloc_view *v, struct alloc_sites *sites)
{
	CLEANUP(mem_freep) double *seen = mem_zalloc((a->types.n + 1) * sizeof(*seen));
	scale_stacks(a, v, seen);
	merge_stacks(a, sites);
	for (uint32_t t = 0; t < a->types.n; t++) {
		if (seen[t] > 0 || a->types.v[t].bytes <= 0)
			continue;
		vec_push(sites, ((struct alloc_site){ .type = t }));
		alloc_sum_add(&vec_last(sites).sum, &a->types.v[t], v->scale);
	}
	vec_sort(sites, heaviest_first);
}

const struct profiler profiler_allocations = {
	.id = "allocations",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E84",
	.name = "Allocations",
	.chapter = CHAPTER_MEMORY,
	.label = "The GC runs often",
	.symptom = "the GC runs often, or memory is used up fast: who allocates?",
	.description = "Estimates what is allocated, by type and by the method that does it: bytes, objects, rate, and "
		       "how much goes to the large object heap. Needs no GC to happen.",
	.cost = "no stop; one sample for about every 100 KB allocated",
	.contract_files = (const char *const[]){ "summary.md", NULL },
	.params =
		(const struct param[]){
			{ .key = "duration",
			  .name = "Duration",
			  .description = "How long to listen. Longer means more samples, so smaller errors.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "20",
			  .min = 1,
			  .max = 86400 },
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "high-allocation-rate",
			  "Allocate less in the first row of the table: keep such objects and use them again, build "
			  "collections once and with their final size. gc-stats shows what the rate costs." },
			{ "high-allocation-rate-arrays",
			  "Allocate less in the first row of the table: rent these arrays (ArrayPool), or keep one "
			  "and use it again. gc-stats shows what the rate costs." },
			{ "high-allocation-rate-strings",
			  "Allocate less in the first row of the table: make each string once and keep it, compare and "
			  "parse spans instead of substrings, write to a stream or an interpolated handler instead of "
			  "joining strings. gc-stats shows what the rate costs." },
			{ "rented",
			  "These are rented from an ArrayPool, which makes new ones because too few come back: return "
			  "each, also when an exception comes between, and do not rent more at once than the pool "
			  "keeps." },
			{ "large-objects",
			  "Rent large buffers from ArrayPool, or work in pieces below 85,000 bytes: large objects are "
			  "collected only with generation 2, so they drive full collections." },
			{ "large-strings",
			  "Do not build strings of this size: read and write the text in pieces (streams, TextReader, "
			  "Utf8JsonWriter). Large objects are collected only with generation 2, so they drive full "
			  "collections." },
		},
	.n_advice = 6,
	.runs = (const struct advice_run[]){ { "high-allocation-rate", "gc-stats" },
					     { "high-allocation-rate-arrays", "gc-stats" },
					     { "high-allocation-rate-strings", "gc-stats" },
					     { 0 } },
	.run = run,
	.analyse = alloc_report,
	.free_state = allocations_free,
};
