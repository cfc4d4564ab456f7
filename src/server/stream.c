#include "server/stream.h"
#include "base/buf.h"
#include <pthread.h>
#include <string.h>

struct stream {
	pthread_mutex_t lock;
	unsigned refs;
	struct buf data;
	size_t taken, limit; /* taken: read from the front of data */
	bool ended, broken, gone, attached, asleep;
	struct stream_reader reader;
	void (*room)(void *user);
	void *room_user;
};

#define COMPACT_BYTES 65536

struct stream *stream_new(size_t limit_bytes)
{
	struct stream *s = mem_zalloc(sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	s->refs = 1;
	s->limit = limit_bytes;
	return s;
}

struct stream *stream_ref(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	return s;
}

void stream_unref(struct stream *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	unsigned left = --s->refs;
	pthread_mutex_unlock(&s->lock);
	if (left)
		return;
	pthread_mutex_destroy(&s->lock);
	buf_free(&s->data);
	mem_free(s);
}

static void wake(struct stream *s)
{
	if (!s->asleep)
		return;
	s->asleep = false;
	s->reader.wake(s->reader.user);
}

static size_t held(const struct stream *s)
{
	return s->data.len - s->taken;
}

bool stream_write(struct stream *s, const void *data, size_t len)
{
	pthread_mutex_lock(&s->lock);
	bool fits = !s->gone && !s->ended && len <= s->limit - held(s);
	if (fits) {
		buf_add(&s->data, data, len);
		wake(s);
	}
	pthread_mutex_unlock(&s->lock);
	return fits;
}

size_t stream_room(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	size_t room = s->limit - held(s);
	pthread_mutex_unlock(&s->lock);
	return room;
}

void stream_end(struct stream *s, bool broken)
{
	pthread_mutex_lock(&s->lock);
	if (!s->ended) {
		s->ended = true;
		s->broken = broken;
		wake(s);
	}
	pthread_mutex_unlock(&s->lock);
}

bool stream_reader_gone(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	bool gone = s->gone;
	pthread_mutex_unlock(&s->lock);
	return gone;
}

void stream_on_room(struct stream *s, void (*room)(void *user), void *user)
{
	pthread_mutex_lock(&s->lock);
	s->room = room;
	s->room_user = user;
	pthread_mutex_unlock(&s->lock);
}

static void tell_room(struct stream *s)
{
	if (s->room)
		s->room(s->room_user);
}

void stream_attach(struct stream *s, const struct stream_reader *reader)
{
	pthread_mutex_lock(&s->lock);
	s->reader = *reader;
	pthread_mutex_unlock(&s->lock);
}

void stream_detach(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	s->gone = true;
	s->asleep = false;
	tell_room(s);
	pthread_mutex_unlock(&s->lock);
}

enum stream_read stream_read(struct stream *s, void *data, size_t max, size_t *ret_len)
{
	enum stream_read result = STREAM_DATA;
	pthread_mutex_lock(&s->lock);
	size_t n = MIN(max, held(s));
	if (n) {
		memcpy(data, s->data.data + s->taken, n);
		s->taken += n;
		*ret_len = n;
		if (s->taken == s->data.len) {
			buf_free(&s->data);
			s->taken = 0;
		} else if (s->taken >= COMPACT_BYTES) {
			buf_consume(&s->data, s->taken);
			s->taken = 0;
		}
		tell_room(s);
	} else if (s->ended) {
		result = s->broken ? STREAM_BROKEN : STREAM_END;
	} else {
		result = STREAM_WAIT;
		s->asleep = true;
		s->reader.sleep(s->reader.user);
	}
	pthread_mutex_unlock(&s->lock);
	return result;
}
