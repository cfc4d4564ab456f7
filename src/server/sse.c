/* Server-sent events: who subscribes to which session, and the text that each subscriber has not received yet. */

#include "server/internal.h"
#include "base/str.h"
#include "base/vec.h"
#include <string.h>

#define LISTENERS_MAX 1000
#define LISTENER_BYTES_MAX ((size_t)256 << 10)

struct listener {
	char guid[STORE_GUID_LEN + 1]; /* "" = all */
	bool vitals, shared;
	struct stream *stream;
};

struct sse {
	pthread_mutex_t lock;
	VEC(struct listener) listeners;
};

struct sse *sse_new(void)
{
	struct sse *l = mem_zalloc(sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	return l;
}

void sse_free(struct sse *l)
{
	if (!l)
		return;
	vec_each(listener, &l->listeners) {
		stream_end(listener->stream, false);
		stream_unref(listener->stream);
	}
	vec_free(&l->listeners);
	pthread_mutex_destroy(&l->lock);
	mem_free(l);
}

void sse_event(struct buf *out, const char *event, const char *json)
{
	buf_printf(out, "event: %s\ndata: %s\n\n", event, json);
}

struct stream *sse_listen(struct sse *l, const char *guid, bool vitals, bool shared)
{
	struct stream *stream = NULL;
	pthread_mutex_lock(&l->lock);
	if (l->listeners.n < LISTENERS_MAX) {
		struct listener *n = vec_add(&l->listeners);
		stream = stream_new(LISTENER_BYTES_MAX);
		str_copy(n->guid, sizeof(n->guid), guid ? guid : "");
		n->vitals = vitals;
		n->shared = shared;
		n->stream = stream_ref(stream);
	}
	pthread_mutex_unlock(&l->lock);
	return stream;
}

static void drop(struct sse *l, size_t i)
{
	stream_unref(l->listeners.v[i].stream);
	l->listeners.v[i] = l->listeners.v[--l->listeners.n];
}

/* Slow subscribers are dropped; they reconnect and get the full state. */
static void send(struct sse *l, const char *guid, const struct buf *text, const struct buf *shared, bool ends,
		 bool vitals)
{
	pthread_mutex_lock(&l->lock);
	for (size_t i = l->listeners.n; i-- > 0;) {
		struct listener *n = &l->listeners.v[i];
		if ((guid && n->guid[0] && !str_eq(n->guid, guid)) || (vitals && !n->vitals))
			continue;
		const struct buf *own = n->shared ? shared : text;
		bool written = !own->len || stream_write(n->stream, own->data, own->len), over = ends && n->guid[0];
		if (written && !over)
			continue;
		stream_end(n->stream, !written);
		drop(l, i);
	}
	pthread_mutex_unlock(&l->lock);
}

void sse_tell(struct sse *l, const char *guid, const char *event, const char *json, const char *shared, bool ends)
{
	CLEANUP(buf_free) struct buf text = { 0 }, masked = { 0 };
	sse_event(&text, event, json);
	if (!str_empty(shared))
		sse_event(&masked, event, shared);
	send(l, guid, &text, shared ? &masked : &text, ends, false);
}

void sse_heartbeat(struct sse *l)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	buf_str(&text, ": still here\n\n");
	send(l, NULL, &text, &text, false, false);
}

size_t sse_listeners(struct sse *l)
{
	pthread_mutex_lock(&l->lock);
	size_t n = l->listeners.n;
	pthread_mutex_unlock(&l->lock);
	return n;
}

void sse_tell_vitals(struct sse *l, const char *json)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	sse_event(&text, "vitals", json);
	send(l, NULL, &text, &text, false, true);
}

bool sse_vitals_listeners(struct sse *l)
{
	bool any = false;
	pthread_mutex_lock(&l->lock);
	vec_each(listener, &l->listeners)
		any |= listener->vitals;
	pthread_mutex_unlock(&l->lock);
	return any;
}

bool sse_shared_listeners(struct sse *l)
{
	bool any = false;
	pthread_mutex_lock(&l->lock);
	vec_each(listener, &l->listeners)
		any |= listener->shared;
	pthread_mutex_unlock(&l->lock);
	return any;
}
