#include "unit.h"
#include "nettrace_seen.h"
#include "base/map.h"
#include <malloc.h>

size_t seen_heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void watch_heap(struct seen *s)
{
	s->heap_peak = MAX(s->heap_peak, seen_heap_bytes());
}

static void mix(struct seen *s, const void *data, size_t len)
{
	s->digest = hash_bytes(data, len, s->digest);
}

static void on_header(void *user, const struct nettrace_header *header)
{
	struct seen *s = user;
	s->header = *header;
	s->n_headers++;
}

static void on_meta(void *user, struct nettrace_meta *meta)
{
	struct seen *s = user;
	assert_int_equal(meta->user, 0);
	vec_push(&s->metas, meta);
	mix(s, meta->provider, strlen(meta->provider));
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct seen *s = user;
	struct nettrace_event e = *event;
	watch_heap(s);
	if (s->fed && e.payload >= s->fed && e.payload <= s->fed + s->fed_len)
		s->n_in_place++;
	const uint64_t numbers[] = { e.time, e.thread_id, e.capture_thread_id, e.cpu, e.sequence, e.n_frames };
	mix(s, numbers, sizeof(numbers));
	mix(s, e.payload, e.payload_size);
	mix(s, e.stack, e.n_frames * e.pointer_size);
	e.payload = arena_dup(&s->arena, e.payload, e.payload_size);
	e.stack = arena_dup(&s->arena, e.stack, e.n_frames * e.pointer_size);
	if (e.activity_id)
		e.activity_id = arena_dup(&s->arena, e.activity_id, 16);
	if (e.related_activity_id)
		e.related_activity_id = arena_dup(&s->arena, e.related_activity_id, 16);
	vec_push(&s->events, (struct got){ e });
}

const struct nettrace_callbacks seen_callbacks = { on_header, on_meta, on_event };

void seen_read(struct seen *s, const void *data, size_t len, size_t chunk, const struct nettrace_options *options,
	       struct nettrace_reader **ret_reader)
{
	s->heap_start = seen_heap_bytes();
	struct nettrace_reader *r = nettrace_reader_new(options, &seen_callbacks, s);
	for (size_t at = 0; at < len && !s->err; at += chunk) {
		size_t n = MIN(chunk, len - at);
		/* A copy of its own lets the sanitizer see every byte read beyond. */
		uint8_t *copy = mem_dup((const uint8_t *)data + at, n);
		s->fed = copy;
		s->fed_len = n;
		s->err = nettrace_reader_feed(r, copy, n);
		watch_heap(s);
		mem_free(copy);
	}
	if (!s->err)
		s->err = nettrace_reader_finish(r);
	if (s->err) {
		assert_err(nettrace_reader_feed(r, "", 0), err_kind(s->err));
		assert_err(nettrace_reader_finish(r), err_kind(s->err));
	}
	s->stats = *nettrace_reader_stats(r);
	assert_int_equal(s->stats.events, s->events.n);
	if (ret_reader)
		*ret_reader = r;
	else
		nettrace_reader_free(r);
}

void thread_snapshot_free(struct seen *s)
{
	vec_free(&s->events);
	vec_free(&s->metas);
	arena_free(&s->arena);
	err_free(s->err);
	*s = (struct seen){ 0 };
}

void seen_read_built(struct seen *s, const struct build_nettrace *b, const struct nettrace_options *options)
{
	seen_read(s, b->out.data, b->out.len, b->out.len, options, NULL);
}
