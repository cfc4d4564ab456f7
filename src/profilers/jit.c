/* The JIT: what is compiled while the program runs, how long that takes, and whether it ever ends.
 *
 * The time of a compilation is from MethodJittingStarted to MethodLoad of the same method on the same thread, without
 * that of others that were compiled in between on that thread. Methods are kept in groups that differ only in what they
 * were made for, so that code which is made again and again is one line. Events come without stacks. */

#include "profilers/jit.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "exam/profiler.h"
#include <ctype.h>
#include <string.h>

#define GROUPS_MAX 20000
#define THREADS_MAX 10000
#define NAME_UNITS 2048

static struct jit_thread *thread_of(struct jit *j, uint64_t id)
{
	bool new;
	if (j->threads.n >= THREADS_MAX && !map_u64_get(&j->thread_index, id))
		return NULL;
	uint64_t *i = map_u64_put(&j->thread_index, id, &new);
	if (new) {
		*i = j->threads.n;
		vec_push(&j->threads, ((struct jit_thread){ 0 }));
	}
	return &j->threads.v[*i];
}

static void on_start(struct jit *j, const struct nettrace_event *event)
{
	struct clr_method start;
	struct jit_thread *t = thread_of(j, event->thread_id);
	if (!t || !clr_decode_jitting(event, &start))
		return;
	if (t->n == JIT_DEPTH) /* so deep is no real program: ends were lost */
		t->n = 0;
	t->open[t->n++] = (struct jit_open){ .method = start.id, .start_ns = event->time, .il_bytes = start.il_bytes };
}

/* Ends the compilation that began with that method; what began later on the thread and did not end was given up. */
static bool take_open(struct jit *j, const struct nettrace_event *event, uint64_t method, struct jit_open *ret)
{
	struct jit_thread *t = thread_of(j, event->thread_id);
	for (size_t i = t ? t->n : 0; i-- > 0;) {
		if (t->open[i].method != method || event->time < t->open[i].start_ns)
			continue;
		*ret = t->open[i];
		t->n = i;
		if (i)
			t->open[i - 1].inner_ns += event->time - ret->start_ns;
		return true;
	}
	return false;
}

/* Without what a generic was made for: "Rule`1[Shop.Pair]" is "Rule`1". */
static void add_plain(struct buf *out, struct utf16_span span)
{
	struct buf whole = { 0 };
	utf16_add(&whole, span.units, MIN(span.n, (size_t)NAME_UNITS));
	int depth = 0;
	for (const char *p = buf_cstr(&whole); *p; p++) {
		depth += *p == '[';
		if (!depth)
			buf_char(out, *p);
		depth -= *p == ']' && depth;
	}
	buf_free(&whole);
}

/* "Regex17_Scan" and "Regex18_Scan" are "Regex#_Scan". */
static void add_unnumbered(struct buf *out, const char *name)
{
	for (const char *p = name; *p; p++) {
		bool digit = isdigit((unsigned char)*p);
		if (!digit)
			buf_char(out, *p);
		else if (p == name || !isdigit((unsigned char)p[-1]))
			buf_char(out, '#');
	}
}

static uint32_t group_of(struct jit *j, const struct clr_method *method)
{
	struct buf space = { 0 }, name = { 0 };
	buf_clear(&j->shown);
	add_plain(&space, method->space);
	add_plain(&name, method->name);
	if (method->flags & CLR_METHOD_DYNAMIC)
		add_unnumbered(&j->shown, buf_cstr(&name));
	else
		method_show(buf_cstr(&space), buf_cstr(&name), &j->shown);
	buf_free(&space);
	buf_free(&name);
	if (j->groups.n >= GROUPS_MAX && strtab_find(&j->names, buf_cstr(&j->shown), j->shown.len) == STRTAB_NONE) {
		buf_clear(&j->shown);
		buf_str(&j->shown, "(more methods)");
	}
	uint32_t id = strtab_add(&j->names, buf_cstr(&j->shown), j->shown.len);
	if (id == j->groups.n)
		vec_push(&j->groups, ((struct jit_group){ .name = id }));
	return id;
}

static void add(struct jit_sum *sum, uint64_t ns, uint64_t il_bytes, uint64_t code_bytes)
{
	sum->count++;
	sum->ns += ns;
	sum->il_bytes += il_bytes;
	sum->code_bytes += code_bytes;
}

static void count_time(struct jit *j, struct jit_group *g, uint64_t time, uint64_t ns)
{
	if (time < j->exam->start_ns)
		return;
	uint64_t at = time - j->exam->start_ns;
	timeline_add_span(&j->spent, at - MIN(at, ns), at);
	/* Half seconds, not parts of the window: it may end before its time. */
	uint32_t slot = (uint32_t)(at / JIT_SLOT_NS) + 1;
	if (slot > g->last_slot) {
		g->last_slot = slot;
		g->slots++;
	}
}

static void on_load(struct jit *j, const struct nettrace_event *event)
{
	struct clr_method method;
	struct jit_open open = { 0 };
	if (!clr_decode_method(event, &method))
		return;
	if (!(method.flags & CLR_METHOD_JITTED)) {
		j->precompiled++;
		return;
	}
	uint64_t ns = 0;
	if (take_open(j, event, method.id, &open)) {
		uint64_t whole = event->time - open.start_ns;
		ns = whole - MIN(whole, open.inner_ns);
	} else {
		j->untimed++;
	}
	unsigned tier = clr_method_tier(method.flags);
	uint32_t id = group_of(j, &method);
	struct jit_group *g = &j->groups.v[id];
	add(&g->sum, ns, open.il_bytes, method.size);
	add(&j->all, ns, open.il_bytes, method.size);
	add(&j->tiers[tier], ns, open.il_bytes, method.size);
	g->longest_ns = MAX(g->longest_ns, ns);
	g->tiers[tier]++;
	if (method.flags & CLR_METHOD_DYNAMIC) {
		g->dynamic = true;
		add(&j->dynamic, ns, open.il_bytes, method.size);
	}
	if (method.flags & CLR_METHOD_REJECTED) {
		g->rejected++;
		j->rejected++;
	}
	count_time(j, g, event->time, ns);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct jit *j = user;
	switch (clr_event(event)) {
	case CLR_METHOD_JITTING:
		on_start(j, event);
		break;
	case CLR_METHOD_LOAD:
		on_load(j, event);
		break;
	case CLR_METHOD_UNLOAD:
		j->unloaded++;
		break;
	default:
		break;
	}
}

static void jit_free(void *state)
{
	struct jit *j = state;
	map_u64_free(&j->thread_index);
	vec_free(&j->threads);
	strtab_free(&j->names);
	vec_free(&j->groups);
	buf_free(&j->shown);
	mem_free(j);
}

static struct err *run(struct exam *exam)
{
	static const uint32_t ids[] = { 143, 144, 145 };
	/* Level 5: the beginnings too. */
	static const struct ipc_provider provider = { .name = CLR_PROVIDER,
						      .keywords = CLR_JIT | CLR_NGEN,
						      .level = 5,
						      .only_ids = ids,
						      .n_only_ids = ARRAY_SIZE(ids) };
	struct jit *j = exam->state = mem_zalloc(sizeof(*j));
	uint64_t window_ms = exam_duration_ms(exam);
	j->exam = exam;
	/* Order matters only within a thread. */
	j->stream = (struct events_stream){
		.name = "jit", .providers = &provider, .n_providers = 1, .unordered = true, .event = on_event, .user = j
	};
	return exam_events(exam, &j->stream, 1, window_ms);
}

const struct profiler profiler_jit = {
	.id = "jit",
	.uuid = "F54D24C5-44DE-4D37-8B54-F11E42EA7FA4",
	.name = "JIT compilation",
	.chapter = CHAPTER_RUNTIME,
	.label = "The start is slow",
	.symptom = "the start is slow, the first requests are slow, or CPU goes into compiling code",
	.description =
		"Lists what the JIT compiles: how many methods, how long each takes, by tier; precompiled code that "
		"was rejected; and code that is made and compiled again and again.",
	.cost = "no stop; two events for each method that is compiled",
	.params =
		(const struct param[]){
			PARAM_DURATION("20"),
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "generics-made-again",
			  "A generic method is compiled once for each value type that it is made for, and this goes "
			  "on: "
			  "look for types made at run time (MakeGenericType, MakeGenericMethod, value tuples) and keep "
			  "what was made, or use a class in their place." },
			{ "code-made-again", "Make it once and keep it: a Regex in a static field or [GeneratedRegex], "
					     "compiled expressions, "
					     "dynamic methods and serializers in a cache." },
			{ "precompiled-code-rejected", "Publish with ReadyToRun for this very runtime version and "
						       "processor: code compiled ahead that "
						       "does not fit is compiled again at the start." },
			{ "much-compilation",
			  "Publish with ReadyToRun (PublishReadyToRun) so that less is compiled at the start, and "
			  "leave "
			  "tiered compilation on. If it goes on after the start, look at what is compiled last." },
		},
	.n_advice = 4,
	.run = run,
	.analyse = jit_report,
	.free_state = jit_free,
};
