/* What events refer to: stacks (until the next sequence point) and threads with their sequence numbers.
 *
 *	StackBlock	u32 first id, u32 count, count x { u32 bytes, addresses leaf first }
 *	SPBlock		u64 time, [v6: u32 flags], u32 count, count x { thread, sequence number }
 *			thread and number are u64 and u32, varints in version 6
 *
 * Every thread numbers its events from 1, dropped ones included. A number that skips some, and a sequence point that
 * knows of later ones, tell how many were lost; both move the thread's last number, so nothing counts twice. A number
 * that goes back is a new thread with a used id. A sequence point of time 0 before the first event says where a stream
 * begins whose older blocks were left out; nothing counts as lost then. */

#include "nettrace/internal.h"

#define SP_FLUSH_THREADS 1
#define SP_FLUSH_METADATA 2

void nettrace_idtab_add(struct nettrace_idtab *t, uint32_t id, size_t index)
{
	if (!index)
		t->first = id;
	if (t->n_dense == index && id == (uint32_t)(t->first + t->n_dense))
		t->n_dense++;
	else
		*map_u64_put(&t->sparse, id, NULL) = index + 1;
}

size_t nettrace_idtab_find(const struct nettrace_idtab *t, uint32_t id)
{
	uint32_t i = id - t->first;
	if (i < t->n_dense)
		return i;
	const uint64_t *p = map_u64_get(&t->sparse, id);
	return p ? *p - 1 : SIZE_MAX;
}

static void idtab_clear(struct nettrace_idtab *t)
{
	t->n_dense = 0;
	if (t->sparse.n)
		map_u64_free(&t->sparse);
}

static void clear_tables(struct nettrace_reader *r)
{
	arena_clear(&r->tables);
	r->tables.used_bytes = 0;
	vec_clear(&r->stacks);
	vec_clear(&r->labels);
	idtab_clear(&r->stack_ids);
	idtab_clear(&r->label_ids);
}

void nettrace_tables_free(struct nettrace_reader *r)
{
	clear_tables(r);
	arena_free(&r->tables);
	vec_free(&r->stacks);
	vec_free(&r->labels);
	vec_free(&r->threads);
	map_u64_free(&r->thread_ids);
}

struct err *nettrace_tables_check(const struct nettrace_reader *r)
{
	size_t rows = r->stacks.n * sizeof(r->stacks.v[0]) + r->labels.n * sizeof(r->labels.v[0]) +
		      (r->stack_ids.sparse.cap + r->label_ids.sparse.cap) * 3 * sizeof(uint64_t);
	if (r->tables.used_bytes + rows <= r->opt.max_reorder_bytes)
		return NULL;
	return nettrace_bad(r, r->body, "expected a sequence point before %zu bytes of stacks and labels",
			    r->opt.max_reorder_bytes);
}

struct err *nettrace_stack_block(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	uint32_t id = cursor_u32(&c), count = cursor_u32(&c);
	if (r->opt.no_stacks)
		return NULL;
	if (!cursor_ok(&c) || count > cursor_left(&c) / 4)
		return nettrace_bad(r, body, "expected a stack block, found %zu bytes that say %u stacks", len, count);
	const uint8_t *copy = arena_dup(&r->tables, body, len);
	for (uint32_t i = 0; i < count; i++, id++) {
		uint32_t size = cursor_u32(&c);
		const uint8_t *frames = cursor_take(&c, size);
		if (!frames)
			return nettrace_bad(r, c.p, "expected stack %u, found one of %u bytes with %zu left", id, size,
					    cursor_left(&c));
		nettrace_idtab_add(&r->stack_ids, id, r->stacks.n);
		vec_push(&r->stacks, ((struct nettrace_stack){ .frames = copy + (frames - body),
							       .n_frames = size / r->header.pointer_size }));
	}
	return nettrace_tables_check(r);
}

struct nettrace_thread *nettrace_thread_find(const struct nettrace_reader *r, uint64_t key)
{
	const uint64_t *p = map_u64_get(&r->thread_ids, key);
	return p && *p ? &r->threads.v[*p - 1] : NULL;
}

static void threads_forget(struct nettrace_reader *r)
{
	vec_clear(&r->threads);
	map_u64_free(&r->thread_ids);
	r->n_removed = 0;
	r->forgot_threads = true;
}

/* The map cannot forget a key, so it is made anew. */
static void threads_compact(struct nettrace_reader *r)
{
	map_u64_free(&r->thread_ids);
	size_t n = 0;
	vec_each(t, &r->threads) {
		if (t->removed)
			continue;
		r->threads.v[n++] = *t;
		*map_u64_put(&r->thread_ids, t->key, NULL) = n;
	}
	r->threads.n = n;
	r->n_removed = 0;
}

struct nettrace_thread *nettrace_thread_get(struct nettrace_reader *r, uint64_t key)
{
	struct nettrace_thread *known = nettrace_thread_find(r, key);
	if (known)
		return known;
	if (r->threads.n >= NETTRACE_MAX_THREADS && r->n_removed)
		threads_compact(r);
	if (r->threads.n >= NETTRACE_MAX_THREADS) {
		if (r->header.format >= 6)
			return NULL;
		/* Thread ids are reused without notice, so it is not known which threads still live. */
		threads_forget(r);
	}
	*map_u64_put(&r->thread_ids, key, NULL) = r->threads.n + 1;
	struct nettrace_thread *t = vec_add(&r->threads);
	*t = (struct nettrace_thread){ .key = key };
	if (r->header.format < 6) {
		t->tid = key;
		t->pid = r->header.pid;
	}
	return t;
}

void nettrace_thread_remove(struct nettrace_reader *r, struct nettrace_thread *thread)
{
	thread->removed = true;
	*map_u64_put(&r->thread_ids, thread->key, NULL) = 0;
	if (++r->n_removed > 1024 && r->n_removed > r->threads.n / 2)
		threads_compact(r);
}

void nettrace_count_lost(struct nettrace_reader *r, struct nettrace_thread *thread, uint32_t missing)
{
	if (missing <= INT32_MAX && !(r->forgot_threads && !thread->last))
		r->stats.lost += missing;
}

static struct err *check_thread(struct nettrace_reader *r, struct cursor *c, bool first)
{
	bool v6 = r->header.format >= 6;
	uint64_t key = v6 ? cursor_varu64(c) : cursor_u64(c);
	uint32_t last = v6 ? cursor_varu32(c) : cursor_u32(c);
	if (!cursor_ok(c))
		return nettrace_bad(r, c->p, "expected a thread of a sequence point");
	/* An index that was never introduced would only fill the table. */
	struct nettrace_thread *thread = v6 ? nettrace_thread_find(r, key) : nettrace_thread_get(r, key);
	if (!thread || last - thread->last > INT32_MAX)
		return NULL;
	if (!first)
		nettrace_count_lost(r, thread, last - thread->last);
	thread->last = last;
	return NULL;
}

struct err *nettrace_sequence_point(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	uint64_t time = cursor_u64(&c);
	uint32_t flags = r->header.format >= 6 ? cursor_u32(&c) : 0;
	uint32_t count = cursor_u32(&c);
	if (!cursor_ok(&c))
		return nettrace_bad(r, body, "expected a sequence point, found %zu bytes", len);
	nettrace_order_flush(r);
	/* Of no time and in front of all events: the stream is the end of a longer one. */
	bool first = !time && !r->threads.n && r->header.format < 6;
	for (uint32_t i = 0; i < count; i++)
		TRY(check_thread(r, &c, first));
	clear_tables(r);
	if (flags & SP_FLUSH_THREADS)
		threads_forget(r);
	if (flags & SP_FLUSH_METADATA)
		nettrace_metas_forget(r);
	return NULL;
}
