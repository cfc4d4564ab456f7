#include "attach/cpu.h"
#include "attach/notes.h"
#include "attach/session.h"
#include "attach/words.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define ANSWER_MS 5000
#define CHUNK ((size_t)64 << 10)
#define TURNS_MAX 1000 /* messages handled at a time, so that a sender that never stops does not keep us */

struct attach_cpu {
	struct attach_session s;
	struct attach_facts unused;
	struct notes notes;
	int memory_fd;
	int passed_fd; /* came with the last answer; -1 = none */
	bool silent;   /* it hung up */
};

/* ---- what comes ---- */

/* Nothing comes any more. */
static bool is_over(const struct attach_cpu *c)
{
	return c->silent || c->notes.nonsense || c->notes.left;
}

/* The last descriptor that came with it; others are not ours to keep. */
static void take_passed(struct attach_cpu *c, struct msghdr *message)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= h->cmsg_len; i++) {
			fd_closep(&c->passed_fd);
			memcpy(&c->passed_fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
		}
	}
}

static void receive(struct attach_cpu *c)
{
	for (size_t turns = 0; turns < TURNS_MAX && !is_over(c); turns++) {
		char control[CMSG_SPACE(4 * sizeof(int))];
		uint8_t bytes[CHUNK];
		struct iovec data = { bytes, sizeof(bytes) };
		struct msghdr message = {
			.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
		};
		ssize_t n = recvmsg(c->s.control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		c->silent = n <= 0;
		if (c->silent)
			return;
		take_passed(c, &message);
		notes_add(&c->notes, bytes, (size_t)n);
	}
}

static struct err *over(const struct attach_cpu *c)
{
	if (c->notes.nonsense)
		return err_new(ERR_IO, "our library in the process says what we do not understand");
	return err_new(ERR_IO,
		       c->silent ? "our library in the process fell silent" : "our library has left the process");
}

/* Until the flag is set. */
static struct err *await(struct attach_cpu *c, const bool *flag, uint64_t ms)
{
	struct deadline deadline = deadline_in_ms(ms);
	for (;;) {
		receive(c);
		if (*flag)
			return NULL;
		if (c->notes.refusal.kind)
			return words_failed(c->s.patient, &c->notes.refusal, false, 0);
		if (is_over(c))
			return over(c);
		if (deadline_passed(deadline))
			return err_new(ERR_TIMEOUT, "our library in the process did not answer in time");
		TRY_WRAP(fd_wait(c->s.control, POLLIN, deadline), "our library in the process did not answer");
	}
}

/* ---- what we say ---- */

static struct err *ask(struct attach_cpu *c, enum wire_agent_ask kind, uint32_t len, const void *more)
{
	struct wire_agent_request r = { .kind = kind, .len = len };
	CLEANUP(buf_free) struct buf out = { 0 };
	if (is_over(c))
		return over(c);
	buf_add(&out, &r, sizeof(r));
	if (more)
		buf_add(&out, more, len);
	return fd_write_full(c->s.control, out.data, out.len, deadline_in_ms(ANSWER_MS));
}

/* What came is in passed_fd or in the notes' bytes. */
static bool ask_for(struct attach_cpu *c, enum wire_agent_ask kind, uint32_t len, const void *more)
{
	c->notes.answered = false;
	buf_clear(&c->notes.bytes);
	struct err *err = ask(c, kind, len, more);
	if (!err)
		err = await(c, &c->notes.answered, ANSWER_MS);
	bool ok = !err && !c->notes.answer;
	err_free(err);
	if (!ok)
		fd_closep(&c->passed_fd);
	return ok;
}

/* A file of our own with what was sent. */
static int file_of(const struct buf *bytes)
{
	CLOSE_FD int fd = memfd_create("drdotnet-file", MFD_CLOEXEC);
	struct err *err = fd < 0 ? NULL : fd_write_full(fd, bytes->data, bytes->len, deadline_in_ms(ANSWER_MS));
	bool ok = fd >= 0 && !err && lseek(fd, 0, SEEK_SET) == 0;
	err_free(err);
	return ok ? fd_steal(&fd) : -1;
}

int attach_cpu_open(struct attach_cpu *c, const char *path)
{
	if (!ask_for(c, WIRE_AGENT_OPEN, (uint32_t)strlen(path), path))
		return -1;
	if (c->passed_fd < 0)
		c->passed_fd = file_of(&c->notes.bytes);
	buf_free(&c->notes.bytes);
	return fd_steal(&c->passed_fd);
}

bool attach_cpu_read(struct attach_cpu *c, uint64_t address, void *out, size_t len)
{
	const struct wire_agent_range range = { address, len };
	if (c->memory_fd >= 0)
		return pread(c->memory_fd, out, len, (off_t)address) == (ssize_t)len;
	if (len > WIRE_AGENT_BYTES_MAX || !ask_for(c, WIRE_AGENT_READ, sizeof(range), &range) ||
	    c->notes.bytes.len != len)
		return false;
	memcpy(out, c->notes.bytes.data, len);
	return true;
}

void attach_cpu_stack(struct attach_cpu *c, uint32_t bytes)
{
	err_ignore(ask(c, WIRE_AGENT_STACK, bytes, NULL));
}

/* ---- from start to end ---- */

struct err *attach_cpu_start(const struct patient *p, const struct attach_options *options, uint64_t period_ns,
			     uint32_t stack_bytes, struct attach_cpu **ret)
{
	struct wire_agent_config config = { .mode = WIRE_AGENT_CPU,
					    .period_us = (uint32_t)(period_ns / 1000),
					    .stack_bytes = MIN(stack_bytes, (uint32_t)WIRE_AGENT_STACK_MAX) };
	CLEANUP(attach_cpu_freep) struct attach_cpu *c = mem_zalloc(sizeof(*c));
	c->memory_fd = c->passed_fd = c->s.control = c->s.copy = c->s.lock = -1;
	c->s.place = PLACE_NONE;
	uint64_t patience_ms = options->patience_ms ? options->patience_ms : SESSION_CALL_MS;
	TRY(session_begin(&c->s, p, options, &config, &c->unused));
	TRY(session_listen(&c->s, &c->s.control, deadline_in_ms(patience_ms)));
	fault_point("control");
	place_remove(&c->s.place);
	TRY(await(c, &c->notes.started, patience_ms));
	fault_point("sampling");
	c->memory_fd = attach_cpu_open(c, "/proc/self/mem");
	*ret = STEAL(c);
	return NULL;
}

void attach_cpu_free(struct attach_cpu *c)
{
	if (!c)
		return;
	/* The library leaves as soon as it gets this message, or when our connection closes. */
	if (c->s.control >= 0) {
		err_ignore(ask(c, WIRE_AGENT_LEAVE, 0, NULL));
		err_ignore(await(c, &c->notes.left, SESSION_LEAVE_MS));
	}
	session_end(&c->s);
	fd_closep(&c->memory_fd);
	fd_closep(&c->passed_fd);
	notes_fini(&c->notes);
	mem_free(c);
}

int attach_cpu_fd(const struct attach_cpu *c)
{
	return is_over(c) ? -1 : c->s.control;
}

struct err *attach_cpu_drain(struct attach_cpu *c, uint64_t until_ns, const struct attach_cpu_sink *sink)
{
	receive(c);
	/* The receiver of a sample may ask for memory or a file, and then more messages come. */
	notes_give(&c->notes, until_ns, sink);
	return c->silent || c->notes.nonsense ? over(c) : NULL;
}

struct err *attach_cpu_stop(struct attach_cpu *c, struct attach_cpu_facts *ret)
{
	if (!c->notes.stopped) {
		TRY(ask(c, WIRE_AGENT_STOP, 0, NULL));
		TRY(await(c, &c->notes.stopped, SESSION_CALL_MS + ANSWER_MS));
	}
	const uint64_t *v = c->notes.result.values;
	*ret = (struct attach_cpu_facts){ .handler_ns = v[WIRE_AGENT_HANDLER_NS],
					  .handler_max_ns = v[WIRE_AGENT_HANDLER_MAX_NS],
					  .handled = v[WIRE_AGENT_HANDLED],
					  .dropped = v[WIRE_AGENT_DROPPED] + c->notes.overflow,
					  .cpu_ns = v[WIRE_AGENT_CPU_NS],
					  .own_cpu_ns = v[WIRE_AGENT_OWN_CPU_NS],
					  .timers = v[WIRE_AGENT_TIMERS],
					  .untimed = v[WIRE_AGENT_UNTIMED],
					  .chained = v[WIRE_AGENT_CHAINED] };
	return NULL;
}
