/* A stack sample says where a thread was at one instant; it counts for the time until the next sample of the same thread.
 * The runtime samples in rounds: all managed threads, one after the other. A thread that is missing in a round has
 * ended (or its sample was lost), so its last sample counts until that round began and no longer. */

#include "trace/samples.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include <stdio.h>
#include <string.h>

#define SAMPLE_EXTERNAL 1 /* the thread is in native code, or waits there */

struct sampled {
	uint32_t thread; /* of the profile */
	uint64_t round;
	struct profile_sample last;
	struct buf stack; /* of it, as it came: a thread is mostly where it was */
	uint32_t type;
	bool waiting; /* for the end of its last sample */
};

/* What an event is to us, found once for each kind. */
enum meaning { IS_SAMPLE = 1, IS_WANTED, IS_STACK, IS_OTHER };

struct trace_sampler {
	struct trace_samples_options options;
	struct nettrace_header header;
	struct profile *profile;
	struct methods *methods;
	bool cpu;
	uint64_t first_ticks;
	VEC(uint64_t) places;
	VEC(struct sampled) threads;
	struct map_u64 by_id; /* thread id -> index + 1 */
	VEC(uint32_t) alive;  /* indexes of threads whose last sample waits */
	uint64_t round, round_ns, interval_ns, native_place;
	uint64_t unnamed;
	struct map_u64 event_places; /* meta -> place of its name */
	struct map_u64 meanings;     /* meta -> enum meaning */
	const struct nettrace_meta *last_meta;
	enum meaning last_meaning;
};

struct trace_sampler *trace_sampler_new(const struct trace_samples_options *options)
{
	struct trace_sampler *s = mem_zalloc(sizeof(*s));
	s->options = *options;
	s->methods = methods_new();
	s->profile = profile_new(options->spool_dir, PROFILE_COUNT);
	return s;
}

void trace_sampler_free(struct trace_sampler *s)
{
	if (!s)
		return;
	profile_free(s->profile);
	methods_free(s->methods);
	vec_free(&s->places);
	vec_each(t, &s->threads)
		buf_free(&t->stack);
	vec_free(&s->threads);
	vec_free(&s->alive);
	map_u64_free(&s->meanings);
	map_u64_free(&s->by_id);
	map_u64_free(&s->event_places);
	mem_free(s);
}

void trace_sampler_header(struct trace_sampler *s, const struct nettrace_header *header)
{
	s->header = *header;
}

/* The event's stack below (that is, as callers of) what is there already. */
static void add_places(struct trace_sampler *s, const struct nettrace_event *event)
{
	for (size_t i = 0; i < event->n_frames; i++)
		/* All but the leaf are return addresses: the call is just before. */
		vec_push(&s->places, nettrace_event_frame(event, i) - (i ? 1 : 0));
}

static struct sampled *thread_of(struct trace_sampler *s, uint64_t id)
{
	bool new;
	uint64_t *at = map_u64_put(&s->by_id, id, &new);
	if (new) {
		vec_push(&s->threads, ((struct sampled){ .thread = profile_thread(s->profile, id) }));
		*at = s->threads.n;
	}
	return &s->threads.v[*at - 1];
}

static void end_sample(struct trace_sampler *s, struct sampled *t, uint64_t end_ns)
{
	t->last.weight = end_ns > t->last.time_ns ? end_ns - t->last.time_ns : 0;
	profile_sample(s->profile, t->thread, t->last);
	t->waiting = false;
}

/* A round ends when a thread is sampled for the second time. A thread that was not in it ended before it began. */
static void next_round(struct trace_sampler *s, uint64_t now_ns)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->alive.n; i++) {
		struct sampled *t = &s->threads.v[s->alive.v[i]];
		if (t->waiting && t->round < s->round)
			end_sample(s, t, s->round_ns);
		if (t->waiting)
			s->alive.v[kept++] = s->alive.v[i];
	}
	s->alive.n = kept;
	if (s->round_ns && now_ns > s->round_ns)
		s->interval_ns = now_ns - s->round_ns;
	s->round++;
	s->round_ns = now_ns;
}

static void begin_cpu(struct trace_sampler *s)
{
	profile_free(s->profile);
	s->profile = profile_new(s->options.spool_dir, PROFILE_NS);
	s->native_place = profile_place(s->profile, "[native code or waiting]", FRAME_NATIVE);
	s->cpu = true;
}

static uint32_t stack_of_sample(struct trace_sampler *s, struct sampled *t, const struct nettrace_event *event,
				uint32_t type)
{
	size_t bytes = event->n_frames * event->pointer_size;
	if (t->round && type == t->type && bytes == t->stack.len &&
	    (!bytes || !memcmp(event->stack, t->stack.data, bytes)))
		return t->last.stack;
	t->type = type;
	buf_clear(&t->stack);
	buf_add(&t->stack, event->stack, bytes);
	vec_clear(&s->places);
	if (type == SAMPLE_EXTERNAL)
		vec_push(&s->places, s->native_place);
	add_places(s, event);
	return profile_stack(s->profile, s->places.v, s->places.n);
}

static void take_sample(struct trace_sampler *s, const struct nettrace_event *event)
{
	if (!s->cpu)
		begin_cpu(s);
	uint64_t now_ns = trace_ns(&s->header, event->time);
	struct cursor c = cursor_make(event->payload, event->payload_size);
	struct sampled *t = thread_of(s, event->thread_id);
	if (!s->round || t->round == s->round)
		next_round(s, now_ns);
	if (t->waiting)
		end_sample(s, t, now_ns);
	else
		vec_push(&s->alive, (uint32_t)(t - s->threads.v));
	t->last = (struct profile_sample){ .time_ns = now_ns, .stack = stack_of_sample(s, t, event, cursor_u32(&c)) };
	t->round = s->round;
	t->waiting = true;
}

static uint64_t place_of_event(struct trace_sampler *s, const struct nettrace_meta *meta)
{
	bool new;
	uint64_t *at = map_u64_put(&s->event_places, (uint64_t)(uintptr_t)meta, &new);
	if (new) {
		char number[64];
		snprintf(number, sizeof(number), "event %u", meta->event_id);
		*at = profile_place(s->profile, str_empty(meta->name) ? number : meta->name, FRAME_OTHER);
	}
	return *at;
}

static void take_event(struct trace_sampler *s, const struct nettrace_event *event)
{
	uint32_t thread = profile_thread(s->profile, event->thread_id);
	vec_clear(&s->places);
	add_places(s, event);
	vec_push(&s->places, place_of_event(s, event->meta));
	profile_sample(s->profile, thread,
		       (struct profile_sample){ .time_ns = trace_ns(&s->header, event->time),
						.weight = 1,
						.stack = profile_stack(s->profile, s->places.v, s->places.n) });
}

static enum meaning meaning_of(struct trace_sampler *s, const struct nettrace_meta *meta)
{
	if (s->options.ids && !trace_ids_take(s->options.ids, meta->provider, meta->event_id))
		return IS_OTHER;
	if (s->options.event)
		return str_eq_nocase(meta->name, s->options.event) ? IS_WANTED : IS_OTHER;
	return str_eq(meta->provider, CLR_SAMPLE_PROVIDER) && !meta->event_id ? IS_SAMPLE : IS_STACK;
}

void trace_sampler_event(struct trace_sampler *s, const struct nettrace_event *event)
{
	if (event->meta != s->last_meta) {
		bool new;
		uint64_t *at = map_u64_put(&s->meanings, (uint64_t)(uintptr_t)event->meta, &new);
		if (new)
			*at = meaning_of(s, event->meta);
		s->last_meta = event->meta;
		s->last_meaning = (enum meaning)(*at);
	}
	if (!s->first_ticks || event->time < s->first_ticks)
		s->first_ticks = event->time;
	switch (s->last_meaning) {
	case IS_SAMPLE:
		take_sample(s, event);
		return;
	case IS_WANTED:
		take_event(s, event);
		break;
	case IS_STACK:
		if (!s->cpu && event->n_frames)
			take_event(s, event);
		break;
	case IS_OTHER:
		break;
	}
	methods_event(s->methods, event);
}

enum frame_kind trace_frame_name(struct methods *methods, uint64_t address, struct buf *out)
{
	const struct method *m = methods_find(methods, address);
	if (!m) {
		buf_printf(out, "[unknown 0x%llx]", (unsigned long long)address);
		return FRAME_OTHER;
	}
	method_show(m->space, m->name, out);
	return method_is_framework(NULL, m->space) ? FRAME_FRAMEWORK : FRAME_CODE;
}

static enum frame_kind name_place(void *user, uint64_t place, struct buf *out)
{
	struct trace_sampler *s = user;
	enum frame_kind kind = trace_frame_name(s->methods, place, out);
	s->unnamed += kind == FRAME_OTHER;
	return kind;
}

struct err *trace_sampler_finish(struct trace_sampler *s, struct trace_samples *ret)
{
	vec_each(t, &s->threads) {
		if (!t->waiting)
			continue;
		/* There was no further round: the sample counts for one usual round, or for no time at all. */
		uint64_t end_ns = t->round < s->round ? s->round_ns : t->last.time_ns + s->interval_ns;
		end_sample(s, t, end_ns);
	}
	TRY(profile_seal(s->profile, name_place, s));
	ret->profile = STEAL(s->profile);
	ret->cpu = s->cpu;
	ret->unnamed = s->unnamed;
	ret->interval_ns = s->interval_ns;
	ret->first_ticks = s->first_ticks;
	ret->methods = methods_count(s->methods);
	return NULL;
}

static void on_header(void *user, const struct nettrace_header *header)
{
	trace_sampler_header(user, header);
}

static void on_meta(void *user, struct nettrace_meta *meta)
{
	(void)user;
	clr_describe(meta);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	trace_sampler_event(user, event);
}

struct err *trace_samples(const char *path, const struct trace_samples_options *options, struct trace_samples *ret)
{
	static const struct nettrace_callbacks callbacks = { .header = on_header, .meta = on_meta, .event = on_event };
	/* Samples of one thread are in order as they stand, and that is all we need. */
	static const struct nettrace_options unordered = { .unordered = true };
	CLEANUP(trace_sampler_freep) struct trace_sampler *s = trace_sampler_new(options);
	*ret = (struct trace_samples){ 0 };
	TRY(trace_read(path, &unordered, &callbacks, s, &ret->source));
	struct err *err = trace_sampler_finish(s, ret);
	if (err)
		trace_source_fini(&ret->source);
	return err;
}

void trace_samples_fini(struct trace_samples *s)
{
	profile_free(s->profile);
	trace_source_fini(&s->source);
	*s = (struct trace_samples){ 0 };
}
