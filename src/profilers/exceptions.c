/* Exceptions: what is thrown, how often, where.
 *
 * Two streams. "counts" has every throw, without stacks (cheap). "stacks" has them with stacks and is expensive at high
 * rates, so it is open in bursts; at low rates it has everything as well. Counts are exact, sites come from the stacks
 * that were received. Before .NET 9 the runtime cannot leave the stacks out: there "stacks" counts as well, and when it
 * changes to bursts, "counts" asks the runtime's own counter for the total, which the bursts do not show (walking
 * stacks slows down the throwing threads). Names are asked for as soon as one exception was seen, so that they are
 * known when the process is ended by the next one. */

#include "profilers/exceptions.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include "nettrace/fields.h"

#define TYPES_MAX 2000
#define MESSAGE_UNITS 400
#define THREADS_MAX 100000
/* Stacks are walked in the target, at some microseconds each: above this rate only part of the time. */
#define BURST_RATE 500.0
#define BURST_SHARE 0.05
/* Runtimes that cannot leave the stacks out are open for a larger share, since their counts depend on it. */
#define OLD_BURST_SHARE 0.10
#define COUNTER_S "0.5"

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
	if (event->time >= x->exam->start_ns)
		timeline_add(&x->throws, event->time - x->exam->start_ns, 1);
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
	uint32_t type = type_of(x, e.type), stack = stacks_add(x->events.stacks, event);
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
	counted_events_fini(&x->events);
	buf_free(&x->text);
	mem_free(x);
}

static struct err *run(struct exam *exam)
{
	/* Level 2: the throws themselves; catch and finally blocks are reported from level 4 on. */
	static const struct ipc_provider throws = { .name = CLR_PROVIDER, .keywords = CLR_EXCEPTION, .level = 2 };
	static const struct ipc_provider counters = {
		.name = "System.Runtime", .keywords = ~0ull, .level = 4, .args = "EventCounterIntervalSec=" COUNTER_S
	};
	struct exceptions *x = exam->state = mem_zalloc(sizeof(*x));
	const struct events_stream counter = { .name = "counts",
					       .providers = &counters,
					       .n_providers = 1,
					       .unordered = true,
					       .event = on_counter,
					       .user = x };
	x->exam = exam;
	counted_events_init(&x->events, exam);
	TRY(counted_events_run(&x->events, exam,
			       &(struct counted_wanted){ .provider = &throws,
							 .burst_rate = BURST_RATE,
							 .burst_share = x->events.old ? OLD_BURST_SHARE : BURST_SHARE,
							 .unordered = true,
							 .compiled = true,
							 .counter = &counter,
							 .count = on_count,
							 .stack = on_stack,
							 .user = x }));
	return counted_events_names(&x->events, exam);
}

const struct profiler profiler_exceptions = {
	.id = "exceptions",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E82",
	.name = "Thrown exceptions",
	.chapter = CHAPTER_RUNTIME,
	.label = "Exceptions are many",
	.symptom = "exceptions are many, or errors appear that nobody logs",
	.description =
		"Counts every exception that is thrown, handled or not: by type and by the method that throws it, "
		"with a message, the stack and the rate over time.",
	.cost = "no stop; stacks only in short bursts when the rate is high",
	.contract_files = (const char *const[]){ "summary.md", NULL },
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
	.analyse = exceptions_report,
	.free_state = exceptions_free,
};
