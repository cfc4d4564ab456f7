#include "ipc/ask.h"
#include "base/fd.h"
#include "base/vec.h"
#include "ipc/connect.h"
#include "ipc/wire.h"
#include <errno.h>
#include <poll.h>

/* Far below the usual limit of open files. */
#define IN_FLIGHT_MAX 256

/* One question under way. Asked again on a new connection when the runtime does not know that version. */
struct call {
	struct question *q;
	struct deadline deadline;
	int fd, version;
	struct buf reply;
};
VEC_TYPE(calls, struct call);

static struct err *send_question(struct call *call)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	fd_closep(&call->fd);
	buf_clear(&call->reply);
	TRY(connect_now(call->q->socket, &call->fd));
	call->q->peer_pid = connect_peer(call->fd);
	if (call->q->expect_pid && call->q->peer_pid && call->q->peer_pid != call->q->expect_pid)
		return err_new(ERR_BAD_DATA, "another process (%d) answers on its diagnostics socket",
			       call->q->peer_pid);
	wire_begin(&request, WIRE_SET_PROCESS, wire_process_info_id(call->version));
	TRY(wire_end(&request));
	return connect_send(call->fd, &request, call->deadline);
}

/* The whole reply is here. */
static struct err *take_reply(struct call *call, bool *ret_done)
{
	const uint8_t *payload;
	size_t len;
	uint32_t hresult;
	TRY(wire_reply((const uint8_t *)call->reply.data, call->reply.len, &payload, &len, &hresult));
	if (hresult == WIRE_UNKNOWN_COMMAND && call->version > 1) {
		call->version--;
		return send_question(call);
	}
	if (hresult)
		return wire_refusal(hresult);
	TRY(wire_process_info(call->version, payload, len, &call->q->info));
	*ret_done = true;
	return NULL;
}

/* Reads what has come; never more than the one reply. */
static struct err *take_bytes(struct call *call, bool *ret_done)
{
	size_t want = WIRE_HEADER_SIZE;
	for (;;) {
		if (call->reply.len >= WIRE_HEADER_SIZE)
			TRY(wire_reply_size((const uint8_t *)call->reply.data, call->reply.len, &want));
		if (call->reply.len >= want && call->reply.len >= WIRE_HEADER_SIZE)
			return take_reply(call, ret_done);
		char *room = buf_room(&call->reply, want - call->reply.len);
		ssize_t n = read(call->fd, room, want - call->reply.len);
		if (n == 0)
			return err_new(ERR_IO, "it hung up in the middle of its answer");
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "it hung up");
		if (n > 0)
			call->reply.len += (size_t)n;
	}
}

static void begin(struct calls *calls, struct question *q, uint64_t timeout_ms, struct deadline last)
{
	/* Any user may fill a temporary folder with sockets that accept connections and never answer. */
	if (deadline_passed(last)) {
		q->err = err_new(ERR_CANCELLED, "it was not asked: too many others do not answer");
		return;
	}
	struct call call = { .q = q, .fd = -1, .version = 3, .deadline = deadline_in_ms(timeout_ms) };
	q->err = send_question(&call);
	if (!q->err) {
		vec_push(calls, call);
		return;
	}
	fd_closep(&call.fd);
	buf_free(&call.reply);
}

/* Moves one call on; true when it is over. */
static bool step(struct call *call, short events)
{
	bool done = false;
	if (events)
		call->q->err = take_bytes(call, &done);
	if (!call->q->err && !done && deadline_passed(call->deadline))
		call->q->err = err_new(ERR_TIMEOUT, "it does not answer");
	if (!call->q->err && !done)
		return false;
	fd_closep(&call->fd);
	buf_free(&call->reply);
	return true;
}

static void wait_any(struct calls *calls, struct pollfd *polls)
{
	struct deadline first = DEADLINE_NEVER;
	for (size_t i = 0; i < calls->n; i++) {
		polls[i] = (struct pollfd){ .fd = calls->v[i].fd, .events = POLLIN };
		first.at_ns = MIN(first.at_ns, calls->v[i].deadline.at_ns);
	}
	if (poll(polls, calls->n, deadline_poll_ms(first)) <= 0)
		for (size_t i = 0; i < calls->n; i++)
			polls[i].revents = 0;
}

void ask_all(struct question *questions, size_t n, uint64_t timeout_ms)
{
	struct calls calls = { 0 };
	CLEANUP(mem_freep) struct pollfd *polls = mem_array(IN_FLIGHT_MAX, sizeof(*polls));
	struct deadline last = deadline_in_ms(timeout_ms);
	for (size_t next = 0; next < n || calls.n;) {
		while (next < n && calls.n < IN_FLIGHT_MAX)
			begin(&calls, &questions[next++], timeout_ms, last);
		if (!calls.n)
			continue;
		wait_any(&calls, polls);
		size_t kept = 0;
		for (size_t i = 0; i < calls.n; i++)
			if (!step(&calls.v[i], polls[i].revents))
				calls.v[kept++] = calls.v[i];
		calls.n = kept;
	}
	vec_free(&calls);
}
