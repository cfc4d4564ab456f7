#include "sampling/samples.h"
#include "base/cursor.h"
#include <string.h>

#define FRAMES_MAX 500000
#define STACK_FRAMES_MAX (4u << 20) /* 16 MB */
#define STACKS_MAX (1u << 20)
#define SAMPLES_MAX (1u << 20)
#define THREADS_MAX 100000
#define STRING_MAX 65536
#define FOLD_PERIOD 4

static const char magic[8] = "DRSAMPLE";
#define VERSION 1

struct samples *samples_new(void)
{
	return mem_zalloc(sizeof(struct samples));
}

void samples_free(struct samples *s)
{
	if (!s)
		return;
	strtab_free(&s->strings);
	vec_free(&s->frames);
	map_u64_free(&s->frame_index);
	vec_free(&s->threads);
	map_u64_free(&s->thread_index);
	vec_free(&s->stacks);
	vec_free(&s->stack_frames);
	map_u64_free(&s->stack_index);
	vec_free(&s->list);
	mem_free(s);
}

static uint32_t put_frame(struct samples *s, struct samples_frame f)
{
	bool new;
	uint64_t key = ((uint64_t)f.name << 32 | f.module) ^ hash_u64(f.kind + 1ull);
	uint64_t *index = map_u64_put(&s->frame_index, key, &new);
	if (new) {
		*index = s->frames.n;
		vec_push(&s->frames, f);
	}
	return (uint32_t)*index;
}

uint32_t samples_frame(struct samples *s, const char *name, const char *module, enum frame_kind kind)
{
	if (s->frames.n >= FRAMES_MAX) {
		name = "[more]";
		module = NULL;
		kind = FRAME_OTHER;
	}
	size_t len = MIN(strlen(name), (size_t)STRING_MAX);
	struct samples_frame f = { .name = strtab_add(&s->strings, name, len),
				   .module = module ? strtab_add_cstr(&s->strings, module) : STRTAB_NONE,
				   .kind = (uint8_t)kind };
	return put_frame(s, f);
}

uint32_t samples_frame_as(struct samples *s, uint32_t frame, const char *name, enum frame_kind kind)
{
	struct samples_frame f = s->frames.v[frame];
	if (s->frames.n >= FRAMES_MAX)
		return frame;
	if (*samples_frame_name(s, frame) == '[')
		f.name = strtab_add_cstr(&s->strings, name);
	f.kind = (uint8_t)kind;
	return put_frame(s, f);
}

uint32_t samples_thread(struct samples *s, uint32_t tid, bool *ret_new)
{
	bool full = s->threads.n >= THREADS_MAX;
	uint64_t *known = full ? map_u64_get(&s->thread_index, tid) : NULL;
	*ret_new = false;
	if (full)
		return known ? (uint32_t)*known : 0;
	uint64_t *index = map_u64_put(&s->thread_index, tid, ret_new);
	if (*ret_new) {
		*index = s->threads.n;
		vec_push(&s->threads, ((struct samples_thread){
					      .tid = tid, .own_tid = tid, .name = STRTAB_NONE, .cpu_ns = UINT64_MAX }));
	}
	return (uint32_t)*index;
}

void samples_thread_name(struct samples *s, uint32_t thread, const char *name, size_t len)
{
	s->threads.v[thread].name = strtab_add(&s->strings, name, MIN(len, (size_t)64));
}

uint32_t samples_stack(struct samples *s, const uint32_t *frames, size_t n, enum unwind_end end, bool guessed)
{
	bool new;
	uint64_t hash = hash_bytes(frames, n * sizeof(*frames), (uint64_t)end << 1 | guessed);
	uint64_t *head = map_u64_get(&s->stack_index, hash);
	for (uint32_t i = head ? (uint32_t)*head : SAMPLES_FULL; i != SAMPLES_FULL; i = s->stacks.v[i].next) {
		const struct samples_stack *k = &s->stacks.v[i];
		if (k->n == n && k->end == end && k->guessed == guessed &&
		    !memcmp(&s->stack_frames.v[k->first], frames, n * sizeof(*frames)))
			return i;
	}
	if (s->stacks.n >= STACKS_MAX || n > STACK_FRAMES_MAX - s->stack_frames.n || !n)
		return SAMPLES_FULL;
	head = map_u64_put(&s->stack_index, hash, &new);
	struct samples_stack k = { .first = (uint32_t)s->stack_frames.n,
				   .n = (uint32_t)n,
				   .next = new ? SAMPLES_FULL : (uint32_t)*head,
				   .end = (uint8_t)end,
				   .guessed = guessed };
	vec_reserve(&s->stack_frames, s->stack_frames.n + n);
	memcpy(&s->stack_frames.v[s->stack_frames.n], frames, n * sizeof(*frames));
	s->stack_frames.n += n;
	*head = s->stacks.n;
	vec_push(&s->stacks, k);
	return (uint32_t)*head;
}

void samples_add(struct samples *s, uint64_t time_us, uint32_t thread, uint32_t stack, uint64_t weight, uint32_t kind)
{
	if (s->list.n >= SAMPLES_MAX || stack == SAMPLES_FULL) {
		s->dropped++;
		return;
	}
	uint32_t time = (uint32_t)MIN(time_us, (uint64_t)UINT32_MAX);
	struct sample sample = { .time_us = time, .thread = thread, .stack = stack, .kind = kind, .weight = weight };
	vec_push(&s->list, sample);
}

size_t samples_fold(const struct samples *s, const uint32_t *same, uint32_t stack, uint32_t *out)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	size_t n = 0;
	for (size_t i = 0; i < k->n; i++) {
		uint32_t frame = s->stack_frames.v[k->first + i];
		out[n++] = same ? same[frame] : frame;
		/* Does what was just written repeat what stands before it? */
		for (size_t period = 1; period <= FOLD_PERIOD && n >= 2 * period; period++) {
			if (!memcmp(&out[n - period], &out[n - 2 * period], period * sizeof(*out))) {
				n -= period;
				break;
			}
		}
	}
	return n;
}

/* --- writing --- */

void samples_write(const struct samples *s, struct buf *out)
{
	buf_add(out, magic, sizeof(magic));
	buf_u32(out, VERSION);
	buf_varu64(out, s->strings.n);
	for (uint32_t i = 0; i < s->strings.n; i++)
		buf_vartext(out, strtab_get(&s->strings, i), strtab_len(&s->strings, i));
	buf_varu64(out, s->frames.n);
	vec_each(f, &s->frames) {
		buf_varu64(out, f->name);
		buf_varu64(out, f->module == STRTAB_NONE ? 0 : (uint64_t)f->module + 1);
		buf_char(out, (char)f->kind);
	}
	buf_varu64(out, s->threads.n);
	vec_each(t, &s->threads) {
		buf_varu64(out, t->tid);
		buf_varu64(out, t->own_tid);
		buf_varu64(out, t->name == STRTAB_NONE ? 0 : (uint64_t)t->name + 1);
		buf_varu64(out, t->cpu_ns == UINT64_MAX ? 0 : t->cpu_ns + 1);
	}
	buf_varu64(out, s->stacks.n);
	vec_each(k, &s->stacks) {
		buf_char(out, (char)(k->end | k->guessed << 4));
		buf_varu64(out, k->n);
		for (uint32_t i = 0; i < k->n; i++)
			buf_varu64(out, s->stack_frames.v[k->first + i]);
	}
	buf_varu64(out, s->list.n);
	uint32_t before = 0;
	vec_each(x, &s->list) {
		/* Rings come one after the other where one ran full: a step back is written as the difference mod 2^32.
		 */
		buf_varu64(out, (uint32_t)(x->time_us - before));
		before = x->time_us;
		buf_varu64(out, x->thread);
		buf_varu64(out, x->stack);
		buf_varu64(out, x->weight);
		buf_varu64(out, x->kind);
	}
	buf_varu64(out, s->dropped);
}

/* --- reading --- */

/* A count of things that take at least one byte each. */
static size_t take_count(struct cursor *c, size_t max)
{
	uint64_t n = cursor_varu64(c);
	if (n > max || n > cursor_left(c)) {
		c->bad = true;
		return 0;
	}
	return n;
}

/* An index below n. */
static uint32_t take_index(struct cursor *c, size_t n)
{
	uint64_t i = cursor_varu64(c);
	c->bad |= i >= n;
	return c->bad ? 0 : (uint32_t)i;
}

static uint32_t take_optional(struct cursor *c, size_t n)
{
	uint64_t i = cursor_varu64(c);
	c->bad |= i > n;
	return c->bad || !i ? STRTAB_NONE : (uint32_t)(i - 1);
}

static void read_names(struct cursor *c, struct samples *s)
{
	size_t n = take_count(c, FRAMES_MAX * 2 + THREADS_MAX);
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		size_t len;
		const char *bytes = cursor_vartext(c, STRING_MAX, &len);
		/* Each is there once: the indexes depend on it. */
		if (bytes && strtab_add(&s->strings, bytes, len) != i)
			c->bad = true;
	}
	n = take_count(c, FRAMES_MAX + 1);
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		struct samples_frame f = { .name = take_index(c, s->strings.n) };
		f.module = take_optional(c, s->strings.n);
		f.kind = cursor_u8(c);
		c->bad |= f.kind > FRAME_OTHER;
		vec_push(&s->frames, f);
	}
	n = take_count(c, THREADS_MAX);
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		struct samples_thread t = { .tid = (uint32_t)cursor_varu64(c) };
		t.own_tid = (uint32_t)cursor_varu64(c);
		t.name = take_optional(c, s->strings.n);
		t.cpu_ns = cursor_varu64(c) - 1;
		vec_push(&s->threads, t);
	}
}

static void read_stacks(struct cursor *c, struct samples *s)
{
	size_t n = take_count(c, STACKS_MAX);
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		uint8_t end = cursor_u8(c);
		struct samples_stack k = { .first = (uint32_t)s->stack_frames.n,
					   .next = SAMPLES_FULL,
					   .end = end & 15,
					   .guessed = end >> 4 & 1 };
		k.n = (uint32_t)take_count(c, UNWIND_FRAMES_MAX * 2);
		c->bad |= k.end >= UNWIND_ENDS || !k.n || k.n > STACK_FRAMES_MAX - s->stack_frames.n;
		for (size_t j = 0; j < k.n && cursor_ok(c); j++)
			vec_push(&s->stack_frames, take_index(c, s->frames.n));
		if (cursor_ok(c))
			vec_push(&s->stacks, k);
	}
}

static void read_samples(struct cursor *c, struct samples *s)
{
	size_t n = take_count(c, SAMPLES_MAX);
	uint32_t time = 0;
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		time += (uint32_t)cursor_varu64(c);
		struct sample x = { .time_us = time };
		x.thread = take_index(c, s->threads.n);
		x.stack = take_index(c, s->stacks.n);
		x.weight = MIN(cursor_varu64(c), (uint64_t)1 << 50);
		x.kind = (uint32_t)MIN(cursor_varu64(c), (uint64_t)255);
		if (cursor_ok(c))
			vec_push(&s->list, x);
	}
	s->dropped = cursor_varu64(c);
}

struct err *samples_read(const void *bytes, size_t len, struct samples **ret)
{
	struct cursor c = cursor_make(bytes, len);
	const uint8_t *head = cursor_take(&c, sizeof(magic));
	uint32_t version = cursor_u32(&c);
	if (!head || memcmp(head, magic, sizeof(magic)) != 0)
		return err_new(ERR_BAD_DATA, "these are no recorded samples");
	if (version != VERSION)
		return err_new(ERR_UNSUPPORTED, "the samples were recorded by another version (format %u, we read %u)",
			       version, VERSION);
	CLEANUP(samples_freep) struct samples *s = samples_new();
	read_names(&c, s);
	read_stacks(&c, s);
	read_samples(&c, s);
	if (!cursor_ok(&c))
		return err_new(ERR_BAD_DATA, "the recorded samples are damaged");
	*ret = STEAL(s);
	return NULL;
}
