#pragma once
/* One EventPipe session: opened over ipc, its bytes fed to a nettrace reader (and to a tee, for recordings), stopped
 * while it is being drained. The target's side of it ends when our socket is closed, also by our death.
 *
 * Never blocks except in open: until the runtime answers, and until a program that has just started can bear it (settle.h; a caller that
 * can be cancelled waits for that beforehand). The caller polls the fd and calls pump. One thread. */

#include "ipc/ipc.h"
#include "nettrace/nettrace.h"

struct eventpipe_sink {
	struct nettrace_callbacks callbacks;
	/* Every byte of the stream, before it is parsed; may be NULL. */
	void (*bytes)(void *user, const void *data, size_t len);
	void *user;
};

struct eventpipe_session;

struct err *eventpipe_open(const char *socket, const struct ipc_trace_config *config,
			   const struct nettrace_options *options, const struct eventpipe_sink *sink,
			   struct deadline deadline, struct eventpipe_session **ret) MUST_USE;
/* The same, stopped at once: for what the runtime lists when a session ends. Keep pumping until the end. */
struct err *eventpipe_glance(const char *socket, const struct ipc_trace_config *config,
			     const struct nettrace_options *options, const struct eventpipe_sink *sink,
			     struct deadline deadline, struct eventpipe_session **ret) MUST_USE;
/* Closes; the runtime ends the session by itself when it was not stopped. */
void eventpipe_free(struct eventpipe_session *s);
DEFINE_CLEANUP(eventpipe_free, struct eventpipe_session *)

int eventpipe_fd(const struct eventpipe_session *s); /* poll for POLLIN */
/* Reads what is there, at most about a megabyte, and delivers it. *ret_ended once nothing will come any more: then
 * eventpipe_whole() tells whether the stream had its proper end. An error is damaged data. */
struct err *eventpipe_pump(struct eventpipe_session *s, bool *ret_ended) MUST_USE;
/* Asks the runtime to stop; keep pumping until the end. */
struct err *eventpipe_stop(struct eventpipe_session *s, struct deadline deadline) MUST_USE;
bool eventpipe_stopping(const struct eventpipe_session *s);
bool eventpipe_whole(const struct eventpipe_session *s);
const struct ipc_trace *eventpipe_trace(const struct eventpipe_session *s);
const struct nettrace_reader *eventpipe_reader(const struct eventpipe_session *s);
