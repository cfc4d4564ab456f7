/* The part, little endian, strings as u32 length and bytes:
 *
 *   u64 boxes, objects, left out, lost bytes
 *   u32 n methods: string name, u8 framework, u32 pending
 *   u32 n chains:  u8 awaits, string what, u64 longest ms, u32 count, u32 n steps: u32 method, i32 await, u32 times,
 *                  u32 n marks: u64 each */

#include "profilers/chains.h"
#include "base/fmt.h"
#include "base/str.h"
#include <string.h>

#define METHODS_MAX 100000u
#define CHAINS_MAX 20000u
#define STEPS_MAX 64u
#define MARKS_MAX 1000000u
#define TEXT_MAX 1000u

struct chains *chains_new(void)
{
	return mem_zalloc(sizeof(struct chains));
}

void chains_free(struct chains *c)
{
	if (!c)
		return;
	strtab_free(&c->strings);
	vec_free(&c->methods);
	vec_free(&c->steps);
	vec_free(&c->v);
	vec_free(&c->marks);
	mem_free(c);
}

/* ---- as bytes ---- */

static void put_u32(struct buf *out, uint32_t v)
{
	buf_add(out, &v, sizeof(v));
}

static void put_u64(struct buf *out, uint64_t v)
{
	buf_add(out, &v, sizeof(v));
}

static void put_text(struct buf *out, const char *text)
{
	size_t len = strnlen(text, TEXT_MAX);
	put_u32(out, (uint32_t)len);
	buf_add(out, text, len);
}

void chains_write(const struct chains *c, struct buf *out)
{
	put_u64(out, c->boxes);
	put_u64(out, c->objects);
	put_u64(out, c->left_out);
	put_u64(out, c->lost_bytes);
	put_u32(out, (uint32_t)c->methods.n);
	vec_each(m, &c->methods) {
		put_text(out, m->name);
		buf_char(out, m->framework);
		put_u32(out, m->pending);
	}
	put_u32(out, (uint32_t)c->v.n);
	vec_each(chain, &c->v) {
		buf_char(out, (char)chain->awaits);
		put_text(out, chain->what);
		put_u64(out, chain->longest_ms);
		put_u32(out, chain->count);
		put_u32(out, chain->n);
		for (uint32_t i = 0; i < chain->n; i++) {
			const struct chain_step *step = &c->steps.v[chain->first + i];
			put_u32(out, step->method);
			put_u32(out, (uint32_t)step->await);
			put_u32(out, step->times);
		}
		put_u32(out, chain->marks_n);
		for (uint32_t i = 0; i < chain->marks_n; i++)
			put_u64(out, c->marks.v[chain->marks_first + i]);
	}
}

static const char *get_text(struct chains *c, struct cursor *in)
{
	uint32_t len = cursor_u32(in);
	const uint8_t *text = len <= TEXT_MAX ? cursor_take(in, len) : NULL;
	in->bad |= !text;
	return text ? strtab_get(&c->strings, strtab_add(&c->strings, (const char *)text, len)) : "";
}

static void get_chain(struct chains *c, struct cursor *in)
{
	struct chain chain = { .first = (uint32_t)c->steps.n, .marks_first = (uint32_t)c->marks.n };
	uint8_t awaits = cursor_u8(in);
	chain.awaits = awaits;
	chain.what = get_text(c, in);
	chain.longest_ms = cursor_u64(in);
	chain.count = cursor_u32(in);
	chain.n = cursor_u32(in);
	in->bad |= awaits >= AWAITS_KINDS || chain.n > STEPS_MAX;
	for (uint32_t i = 0; i < chain.n && cursor_ok(in); i++) {
		struct chain_step step = { .method = cursor_u32(in) };
		step.await = cursor_i32(in);
		step.times = cursor_u32(in);
		in->bad |= step.method >= c->methods.n;
		vec_push(&c->steps, step);
	}
	chain.marks_n = cursor_u32(in);
	in->bad |= chain.marks_n > MARKS_MAX || chain.marks_n > chain.count;
	for (uint32_t i = 0; i < chain.marks_n && cursor_ok(in); i++)
		vec_push(&c->marks, cursor_u64(in));
	if (cursor_ok(in))
		vec_push(&c->v, chain);
}

struct err *chains_take(void *user, struct cursor *in)
{
	CLEANUP(chains_freep) struct chains *c = chains_new();
	c->boxes = cursor_u64(in);
	c->objects = cursor_u64(in);
	c->left_out = cursor_u64(in);
	c->lost_bytes = cursor_u64(in);
	uint32_t n = cursor_u32(in);
	in->bad |= n > METHODS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++) {
		struct chain_method m = { .name = get_text(c, in) };
		m.framework = cursor_u8(in);
		m.pending = cursor_u32(in);
		vec_push(&c->methods, m);
	}
	n = cursor_u32(in);
	in->bad |= n > CHAINS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_chain(c, in);
	if (!cursor_ok(in))
		return err_new(ERR_BAD_DATA, "the recording's list of async operations is damaged");
	chains_free(*(struct chains **)user);
	*(struct chains **)user = STEAL(c);
	return NULL;
}

/* ---- words ---- */

void chain_awaits_words(const struct chain *c, struct buf *out)
{
	static const char *const words[AWAITS_KINDS] = {
		[AWAITS_SOURCE] = "a TaskCompletionSource",
		[AWAITS_TIMER] = "a timer",
		[AWAITS_SEMAPHORE] = "a semaphore",
		[AWAITS_CHANNEL] = "a channel",
		[AWAITS_SOCKET] = "a socket",
		[AWAITS_WORK] = "a task with work to do",
		[AWAITS_OTHER] = "something else",
		[AWAITS_POOL] = "a thread to run on, or runs",
	};
	if (c->awaits == AWAITS_OTHER && *c->what)
		buf_printf(out, "a %s", c->what);
	else
		buf_str(out, words[c->awaits]);
	if (c->awaits == AWAITS_TIMER && c->longest_ms)
		buf_printf(out, " of up to %s", fmt_duration_ns(MIN(c->longest_ms, 1000000000000ull) * 1000000).s);
	else if (c->awaits != AWAITS_OTHER && *c->what)
		buf_printf(out, ": %s", c->what);
}

bool chain_is_own(const struct chains *all, const struct chain *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (!all->methods.v[all->steps.v[c->first + i].method].framework)
			return true;
	return false;
}

uint32_t chain_unmoved(const struct chains *all, const struct chain *c, const struct map_u64 *before)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < c->marks_n; i++)
		n += map_u64_get(before, all->marks.v[c->marks_first + i]) != NULL;
	return n;
}
