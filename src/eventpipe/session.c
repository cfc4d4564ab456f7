#include "eventpipe/session.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/settle.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#define CHUNK_BYTES (256 << 10)
#define CHUNKS_PER_PUMP 4

struct eventpipe_session {
	char *socket;
	struct ipc_trace trace;
	int stop_fd; /* the StopTracing connection; its reply says nothing we need */
	bool ended, whole;
	struct eventpipe_sink sink;
	struct nettrace_reader *reader;
	uint8_t *chunk;
};

static struct err *open_session(const char *socket, const struct ipc_trace_config *config,
				const struct nettrace_options *options, const struct eventpipe_sink *sink,
				struct deadline deadline, bool stop, struct eventpipe_session **ret)
{
	CLEANUP(eventpipe_freep) struct eventpipe_session *s = mem_zalloc(sizeof(*s));
	s->trace.fd = s->stop_fd = -1;
	s->sink = *sink;
	s->socket = mem_strdup(socket);
	uint64_t began_ns = clock_mono_ns();
	TRY(settle_wait(socket, config, -1));
	if (deadline.at_ns != DEADLINE_NEVER.at_ns)
		deadline.at_ns += clock_mono_ns() - began_ns; /* it is for the answer */
	TRY(ipc_trace_glance(socket, config, deadline, &s->trace, stop ? &s->stop_fd : NULL));
	int flags = fcntl(s->trace.fd, F_GETFL);
	if (flags < 0 || fcntl(s->trace.fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(errno, "event stream");
	s->reader = nettrace_reader_new(options, &s->sink.callbacks, s->sink.user);
	s->chunk = mem_alloc(CHUNK_BYTES);
	*ret = STEAL(s);
	return NULL;
}

struct err *eventpipe_open(const char *socket, const struct ipc_trace_config *config,
			   const struct nettrace_options *options, const struct eventpipe_sink *sink,
			   struct deadline deadline, struct eventpipe_session **ret)
{
	return open_session(socket, config, options, sink, deadline, false, ret);
}

struct err *eventpipe_glance(const char *socket, const struct ipc_trace_config *config,
			     const struct nettrace_options *options, const struct eventpipe_sink *sink,
			     struct deadline deadline, struct eventpipe_session **ret)
{
	return open_session(socket, config, options, sink, deadline, true, ret);
}

void eventpipe_free(struct eventpipe_session *s)
{
	if (!s)
		return;
	fd_closep(&s->trace.fd);
	fd_closep(&s->stop_fd);
	nettrace_reader_free(s->reader);
	mem_free(s->socket);
	mem_free(s->chunk);
	mem_free(s);
}

int eventpipe_fd(const struct eventpipe_session *s)
{
	return s->trace.fd;
}

/* The stream is over: deliver what waits for its order. A cut stream is not an error here, only not whole. */
static struct err *end(struct eventpipe_session *s)
{
	s->ended = true;
	struct err *err = nettrace_reader_finish(s->reader);
	s->whole = !err && nettrace_reader_stats(s->reader)->ended;
	fd_closep(&s->stop_fd);
	err_ignore(err);
	return NULL;
}

struct err *eventpipe_pump(struct eventpipe_session *s, bool *ret_ended)
{
	*ret_ended = s->ended;
	for (int i = 0; i < CHUNKS_PER_PUMP && !s->ended; i++) {
		ssize_t n = read(s->trace.fd, s->chunk, CHUNK_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n <= 0) { /* a reset is how a killed process ends its stream */
			*ret_ended = true;
			return end(s);
		}
		if (s->sink.bytes)
			s->sink.bytes(s->sink.user, s->chunk, (size_t)n);
		struct err *err = nettrace_reader_feed(s->reader, s->chunk, (size_t)n);
		if (err) {
			*ret_ended = s->ended = true;
			fd_closep(&s->stop_fd);
			return err;
		}
		if (n < CHUNK_BYTES) /* that was all there is */
			return NULL;
	}
	return NULL;
}

struct err *eventpipe_stop(struct eventpipe_session *s, struct deadline deadline)
{
	if (s->ended || s->stop_fd >= 0)
		return NULL;
	return ipc_trace_stop(s->socket, s->trace.session_id, deadline, &s->stop_fd);
}

bool eventpipe_stopping(const struct eventpipe_session *s)
{
	return s->stop_fd >= 0;
}

bool eventpipe_whole(const struct eventpipe_session *s)
{
	return s->whole;
}

const struct ipc_trace *eventpipe_trace(const struct eventpipe_session *s)
{
	return &s->trace;
}

const struct nettrace_reader *eventpipe_reader(const struct eventpipe_session *s)
{
	return s->reader;
}
