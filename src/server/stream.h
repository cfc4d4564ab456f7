#pragma once
/* A bounded queue of bytes from a producer to one HTTP response, for two threads. A reader that finds nothing is
 * suspended through a callback and resumed by the next write. */

#include "base/base.h"

struct stream;
struct stream *stream_new(size_t limit_bytes);
struct stream *stream_ref(struct stream *s);
void stream_unref(struct stream *s);
DEFINE_CLEANUP(stream_unref, struct stream *)

/* All or nothing: false when it does not fit or the reader is gone. */
bool stream_write(struct stream *s, const void *data, size_t len);
/* How much would fit now. */
size_t stream_room(struct stream *s);
/* Nothing follows; with `broken` the reader must not take what it got for the whole. */
void stream_end(struct stream *s, bool broken);
bool stream_reader_gone(struct stream *s);
/* Called whenever something was read or the reader has gone: there may be room again. From the reader's thread. */
void stream_on_room(struct stream *s, void (*room)(void *user), void *user);

/* The reader's side. */
struct stream_reader {
	void (*sleep)(void *user), (*wake)(void *user);
	void *user;
};
void stream_attach(struct stream *s, const struct stream_reader *reader);
void stream_detach(struct stream *s);
enum stream_read { STREAM_DATA, STREAM_WAIT, STREAM_END, STREAM_BROKEN };
/* STREAM_WAIT: the reader was suspended. */
enum stream_read stream_read(struct stream *s, void *data, size_t max, size_t *ret_len);
