/* The part, little endian, strings as u32 length and bytes:
 *
 *   u64 boxes, objects, left out, lost bytes
 *   u32 n methods: string name, u8 framework, u32 pending
 *   u32 n chains:  u8 awaits, u8 gone | taken << 1 | age << 2, string what, u64 longest ms, u64 due ms, u32 count,
 *                  u32 n steps: u32 method, i32 await, u32 times, u8 any, string line; u32 n marks: u64 each
 *   for each mark, in that order: u64 content, u64 place, u8 old; older recordings end before this */

#include "threads/async_chains.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "threads/thread_snapshot.h"
#include <string.h>

#define METHODS_MAX 100000u
#define CHAINS_MAX 20000u
#define STEPS_MAX 64u
#define MARKS_MAX 1000000u
#define TEXT_MAX 1000u
#define MS_MAX 1000000000000ull

struct async_chains *async_chains_new(void)
{
	return mem_zalloc(sizeof(struct async_chains));
}

void async_chains_free(struct async_chains *c)
{
	if (!c)
		return;
	strtab_free(&c->strings);
	vec_free(&c->methods);
	vec_free(&c->steps);
	vec_free(&c->v);
	vec_free(&c->marks);
	vec_free(&c->same);
	mem_free(c);
}

/* ---- as bytes ---- */

static void put_text(struct buf *out, const char *text)
{
	buf_text(out, text, strnlen(text, TEXT_MAX));
}

void async_chains_write(const struct async_chains *c, struct buf *out)
{
	buf_u64(out, c->boxes);
	buf_u64(out, c->objects);
	buf_u64(out, c->left_out);
	buf_u64(out, c->lost_bytes);
	buf_u32(out, (uint32_t)c->methods.n);
	vec_each(m, &c->methods) {
		put_text(out, m->name);
		buf_char(out, m->framework);
		buf_u32(out, m->pending);
	}
	buf_u32(out, (uint32_t)c->v.n);
	vec_each(chain, &c->v) {
		buf_char(out, (char)chain->awaits);
		buf_char(out, (char)(chain->gone | chain->taken << 1 | (chain->age & 3) << 2));
		put_text(out, chain->what);
		buf_u64(out, chain->longest_ms);
		buf_u64(out, chain->due_ms);
		buf_u32(out, chain->count);
		buf_u32(out, chain->n);
		for (uint32_t i = 0; i < chain->n; i++) {
			const struct async_chain_step *step = &c->steps.v[chain->first + i];
			buf_u32(out, step->method);
			buf_u32(out, (uint32_t)step->await);
			buf_u32(out, step->times);
			buf_char(out, step->any);
			put_text(out, step->line ? step->line : "");
		}
		buf_u32(out, chain->marks_n);
		for (uint32_t i = 0; i < chain->marks_n; i++)
			buf_u64(out, c->marks.v[chain->marks_first + i]);
	}
	vec_each(chain, &c->v)
		for (uint32_t i = 0; i < chain->marks_n && c->same.n == c->marks.n; i++) {
			const struct async_identity *same = &c->same.v[chain->marks_first + i];
			buf_u64(out, same->content);
			buf_u64(out, same->place);
			buf_char(out, same->old);
		}
}

static const char *get_text(struct async_chains *c, struct cursor *in)
{
	size_t len;
	const char *text = cursor_text(in, TEXT_MAX, &len);
	return text ? strtab_get(&c->strings, strtab_add(&c->strings, text, len)) : "";
}

static void get_chain(struct async_chains *c, struct cursor *in)
{
	struct async_chain chain = { .first = (uint32_t)c->steps.n, .marks_first = (uint32_t)c->marks.n };
	uint8_t awaits = cursor_u8(in);
	uint8_t flags = cursor_u8(in);
	chain.awaits = awaits;
	chain.gone = flags & 1;
	chain.taken = flags & 2;
	chain.age = flags >> 2 & 3;
	chain.what = get_text(c, in);
	chain.longest_ms = cursor_u64(in);
	chain.due_ms = cursor_u64(in);
	chain.count = cursor_u32(in);
	chain.n = cursor_u32(in);
	in->bad |= awaits >= AWAITS_KINDS || chain.n > STEPS_MAX;
	for (uint32_t i = 0; i < chain.n && cursor_ok(in); i++) {
		struct async_chain_step step = { .method = cursor_u32(in) };
		step.await = cursor_i32(in);
		step.times = cursor_u32(in);
		step.any = cursor_u8(in);
		step.line = get_text(c, in);
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

struct err *async_chains_take(void *user, struct cursor *in)
{
	CLEANUP(async_chains_freep) struct async_chains *c = async_chains_new();
	c->boxes = cursor_u64(in);
	c->objects = cursor_u64(in);
	c->left_out = cursor_u64(in);
	c->lost_bytes = cursor_u64(in);
	uint32_t n = cursor_u32(in);
	in->bad |= n > METHODS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++) {
		struct async_chain_method m = { .name = get_text(c, in) };
		m.framework = cursor_u8(in);
		m.pending = cursor_u32(in);
		vec_push(&c->methods, m);
	}
	n = cursor_u32(in);
	in->bad |= n > CHAINS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++)
		get_chain(c, in);
	for (size_t i = 0; i < c->marks.n && cursor_ok(in) && (i || cursor_left(in)); i++) {
		struct async_identity same = { .content = cursor_u64(in) };
		same.place = cursor_u64(in);
		same.old = cursor_u8(in);
		vec_push(&c->same, same);
	}
	if (!cursor_ok(in))
		return err_new(ERR_BAD_DATA, "the recording's list of async operations is damaged");
	async_chains_free(*(struct async_chains **)user);
	*(struct async_chains **)user = STEAL(c);
	return NULL;
}

/* ---- words ---- */

static void timer_words(const struct async_chain *c, struct buf *out)
{
	if (c->longest_ms == ASYNC_CHAIN_ENDLESS) {
		buf_str(out, "a delay that only its CancellationToken ends");
		return;
	}
	buf_str(out, "a timer");
	if (c->longest_ms)
		buf_printf(out, " of up to %s", fmt_duration_ns(MIN(c->longest_ms, MS_MAX) * NS_PER_MS).s);
	if (!c->due_ms)
		buf_str(out, ", due now");
	else if (c->due_ms != ASYNC_CHAIN_UNKNOWN)
		buf_printf(out, ", due in %s", fmt_duration_ns(MIN(c->due_ms, MS_MAX) * NS_PER_MS).s);
}

static void awaits_words(const struct async_chain *c, bool brief, struct buf *out)
{
	static const char *const words[AWAITS_KINDS] = {
		[AWAITS_SOURCE] = "a TaskCompletionSource",
		[AWAITS_SEMAPHORE] = "a semaphore",
		[AWAITS_CHANNEL] = "a channel",
		[AWAITS_ROOM] = "room in a full channel",
		[AWAITS_SOCKET] = "a socket",
		[AWAITS_WORK] = "a task with work to do",
		[AWAITS_OTHER] = "something else",
		[AWAITS_POOL] = "a thread to run on, or runs",
		[AWAITS_CONNECTION] = "a connection of HttpClient that has room for it",
	};
	if (c->awaits == AWAITS_TIMER) {
		timer_words(c, out);
		return;
	}
	if (c->awaits == AWAITS_OTHER && *c->what) {
		buf_printf(out, "a %s", brief ? name_brief(c->what) : c->what);
		return;
	}
	buf_str(out, words[c->awaits]);
	if (c->gone)
		buf_str(out, brief ? " that is gone" : " that is gone: nobody can complete it any more");
	else if (*c->what)
		buf_printf(out, c->awaits == AWAITS_SOURCE ? " kept by %s" : ": %s",
			   brief ? name_brief(c->what) : c->what);
}

void async_chain_awaits_words(const struct async_chain *c, struct buf *out)
{
	awaits_words(c, false, out);
}

void async_chain_awaits_brief(const struct async_chain *c, struct buf *out)
{
	awaits_words(c, true, out);
}

static bool step_is_own(const struct async_chains *all, const struct async_chain *c, uint32_t i)
{
	return !all->methods.v[all->steps.v[c->first + i].method].framework;
}

uint32_t async_chain_start(const struct async_chains *all, const struct async_chain *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (step_is_own(all, c, i))
			return i;
	return 0;
}

uint32_t async_chain_site(const struct async_chains *all, const struct async_chain *c)
{
	for (uint32_t i = c->n; i-- > 0;)
		if (step_is_own(all, c, i))
			return i;
	return c->n ? c->n - 1 : 0;
}

bool async_chain_is_own(const struct async_chains *all, const struct async_chain *c)
{
	return c->n && step_is_own(all, c, async_chain_start(all, c));
}

void async_seen_add(struct async_seen *seen, const struct async_chains *all)
{
	vec_each(mark, &all->marks)
		map_u64_put(&seen->marks, *mark, NULL);
	vec_each(same, &all->same) {
		map_u64_put(&seen->contents, same->content, NULL);
		map_u64_put(&seen->places, same->place, NULL);
	}
}

void async_seen_free(struct async_seen *seen)
{
	map_u64_free(&seen->marks);
	map_u64_free(&seen->contents);
	map_u64_free(&seen->places);
}

/* The same arguments and locals at the same await, and what it awaits is not new. In the same place it would be another
 * turn of a loop: then nothing was moved, and the mark alone decides. */
static bool was_moved_only(const struct async_identity *now, const struct async_seen *before)
{
	return now->content && now->old && map_u64_get(&before->contents, now->content) &&
	       !map_u64_get(&before->places, now->place);
}

uint32_t async_chain_unmoved(const struct async_chains *all, const struct async_chain *c,
			     const struct async_seen *before)
{
	uint32_t n = 0;
	for (uint32_t i = c->marks_first; i < c->marks_first + c->marks_n; i++)
		n += map_u64_get(&before->marks, all->marks.v[i]) ||
		     (all->same.n == all->marks.n && was_moved_only(&all->same.v[i], before));
	return n;
}
