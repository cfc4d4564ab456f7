#include "attach/cpu.h"
#include "attach/session.h"
#include "attach/words.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "image/fault.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MS 5000
#define CHUNK ((size_t)64 << 10)
#define TURNS_MAX 1000 /* at a time: whoever never stops sending does not keep us */
#define COMPACT_AT 4096
/* Beyond this we are too slow, and what comes is thrown away. */
#define QUEUE_BYTES_MAX ((size_t)256 << 20)

/* One note with what came behind it. */
struct item {
	uint64_t time_ns; /* 0: at once */
	uint32_t kind;
	size_t len;
	uint8_t *bytes;
};

struct attach_cpu {
	struct session s;
	struct attach_facts unused;
	struct buf in; /* not yet a whole note */
	VEC(struct item) queue;
	size_t at; /* in the queue */
	size_t queued_bytes;
	uint64_t overflow;
	int memory_fd;
	int passed_fd; /* came with the last answer; -1 = none */
	bool started, stopped, answered;
	int32_t answer; /* errno */
	struct wire_agent_note result;
	char *dead; /* why nothing comes any more */
};

/* ---- what comes ---- */

static bool is_payload(uint32_t kind)
{
	return kind == WIRE_AGENT_SAMPLE || kind == WIRE_AGENT_THREAD;
}

static bool is_sound(const struct wire_agent_note *n)
{
	size_t len = (size_t)n->code;
	if (n->kind == WIRE_AGENT_THREAD)
		return len == sizeof(struct wire_agent_thread);
	return n->kind != WIRE_AGENT_SAMPLE || (len >= sizeof(struct wire_agent_sample) &&
						len <= sizeof(struct wire_agent_sample) + WIRE_AGENT_STACK_MAX);
}

static void queue(struct attach_cpu *c, const struct wire_agent_note *n, const uint8_t *bytes)
{
	struct wire_agent_sample s;
	size_t len = (size_t)n->code;
	if (c->queued_bytes + len > QUEUE_BYTES_MAX) {
		c->overflow++;
		return;
	}
	struct item i = { .kind = n->kind, .len = len, .bytes = mem_alloc(len) };
	memcpy(i.bytes, bytes, len);
	if (n->kind == WIRE_AGENT_SAMPLE) {
		memcpy(&s, bytes, sizeof(s));
		i.time_ns = s.time_ns;
	}
	c->queued_bytes += len;
	vec_push(&c->queue, i);
}

static void take_note(struct attach_cpu *c, const struct wire_agent_note *n, const uint8_t *bytes)
{
	switch (n->kind) {
	case WIRE_AGENT_SAMPLE:
	case WIRE_AGENT_THREAD:
		queue(c, n, bytes);
		break;
	case WIRE_AGENT_REFUSED:
		c->s.refusal = *n;
		break;
	case WIRE_AGENT_STARTED:
		c->started = true;
		break;
	case WIRE_AGENT_SAMPLED:
		c->stopped = true;
		c->result = *n;
		break;
	case WIRE_AGENT_ANSWER:
		c->answered = true;
		c->answer = n->code;
		break;
	default: /* WIRE_AGENT_LEAVING */
		c->s.left = true;
	}
}

static void die(struct attach_cpu *c, const char *why)
{
	if (!c->dead)
		c->dead = mem_strdup(why);
}

/* All whole notes. */
static void take_notes(struct attach_cpu *c)
{
	size_t at = 0;
	struct wire_agent_note n;
	while (!c->dead && c->in.len - at >= sizeof(n)) {
		const uint8_t *p = (const uint8_t *)c->in.data + at;
		memcpy(&n, p, sizeof(n));
		size_t more = is_payload(n.kind) ? (size_t)n.code : 0;
		if (n.kind > WIRE_AGENT_ANSWER || !n.kind || !is_sound(&n))
			die(c, "our library in the process says what we do not understand");
		else if (c->in.len - at - sizeof(n) < more)
			break;
		else
			take_note(c, &n, p + sizeof(n));
		at += sizeof(n) + more;
	}
	buf_consume(&c->in, MIN(at, c->in.len));
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
	for (size_t turns = 0; turns < TURNS_MAX && !c->dead && !c->s.left; turns++) {
		char control[CMSG_SPACE(4 * sizeof(int))];
		uint8_t bytes[CHUNK];
		struct iovec data = { bytes, sizeof(bytes) };
		struct msghdr message = {
			.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
		};
		ssize_t n = recvmsg(c->s.control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			die(c, "our library in the process fell silent");
			return;
		}
		take_passed(c, &message);
		buf_add(&c->in, bytes, (size_t)n);
		take_notes(c);
	}
}

static struct err *dead(const struct attach_cpu *c)
{
	return err_new(ERR_IO, "%s", c->dead ? c->dead : "our library has left the process");
}

/* Until the flag is set. */
static struct err *await(struct attach_cpu *c, const bool *flag, uint64_t ms)
{
	struct deadline deadline = deadline_in_ms(ms);
	for (;;) {
		receive(c);
		if (*flag)
			return NULL;
		if (c->s.refusal.kind)
			return words_failed(c->s.patient, &c->s.refusal, false, 0);
		if (c->dead || c->s.left)
			return dead(c);
		if (deadline_passed(deadline))
			return err_new(ERR_TIMEOUT, "our library in the process did not answer in time");
		TRY_WRAP(fd_wait(c->s.control, POLLIN, deadline), "our library in the process did not answer");
	}
}

/* ---- what we say ---- */

static struct err *ask(struct attach_cpu *c, enum wire_agent_ask kind, uint32_t len, const char *more)
{
	struct wire_agent_request r = { .kind = kind, .len = len };
	CLEANUP(buf_free) struct buf out = { 0 };
	if (c->dead || c->s.left)
		return dead(c);
	buf_add(&out, &r, sizeof(r));
	if (more)
		buf_add(&out, more, len);
	return fd_write_full(c->s.control, out.data, out.len, deadline_in_ms(ANSWER_MS));
}

int attach_cpu_open(struct attach_cpu *c, const char *path)
{
	c->answered = false;
	struct err *err = ask(c, WIRE_AGENT_OPEN, (uint32_t)strlen(path), path);
	if (!err)
		err = await(c, &c->answered, ANSWER_MS);
	bool ok = !err && !c->answer;
	err_free(err);
	if (!ok)
		fd_closep(&c->passed_fd);
	return fd_steal(&c->passed_fd);
}

bool attach_cpu_read(struct attach_cpu *c, uint64_t address, void *out, size_t len)
{
	return c->memory_fd >= 0 && pread(c->memory_fd, out, len, (off_t)address) == (ssize_t)len;
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
	TRY(await(c, &c->started, patience_ms));
	fault_point("sampling");
	c->memory_fd = attach_cpu_open(c, "/proc/self/mem");
	*ret = STEAL(c);
	return NULL;
}

void attach_cpu_free(struct attach_cpu *c)
{
	if (!c)
		return;
	/* It leaves as soon as it hears this, or that we have hung up. */
	if (c->s.control >= 0) {
		err_ignore(ask(c, WIRE_AGENT_LEAVE, 0, NULL));
		err_ignore(await(c, &c->s.left, SESSION_LEAVE_MS));
	}
	session_end(&c->s);
	fd_closep(&c->memory_fd);
	fd_closep(&c->passed_fd);
	vec_each(i, &c->queue)
		mem_free(i->bytes);
	vec_free(&c->queue);
	buf_free(&c->in);
	mem_free(c->dead);
	mem_free(c);
}

int attach_cpu_fd(const struct attach_cpu *c)
{
	return c->dead || c->s.left ? -1 : c->s.control;
}

static void give_sample(const struct item *i, const struct attach_cpu_sink *sink)
{
	struct wire_agent_sample s;
	memcpy(&s, i->bytes, sizeof(s));
	struct attach_sample given = { .tid = (uint32_t)s.tid,
				       .time_ns = s.time_ns,
				       .cpu_ns = s.cpu_ns,
				       .ip = s.ip,
				       .stack = i->bytes + sizeof(s),
				       .stack_len = i->len - sizeof(s) };
	given.full = given.stack_len >= s.asked;
	memcpy(given.regs, s.regs, sizeof(given.regs));
	sink->sample(sink->user, &given);
}

static void give_thread(const struct item *i, const struct attach_cpu_sink *sink)
{
	struct wire_agent_thread t;
	memcpy(&t, i->bytes, sizeof(t));
	struct attach_thread given = {
		.tid = (uint32_t)t.tid, .last = t.last, .cpu_ns = t.cpu_ns, .delay_ns = t.delay_ns
	};
	memcpy(given.name, t.name, sizeof(t.name));
	sink->thread(sink->user, &given);
}

struct err *attach_cpu_drain(struct attach_cpu *c, uint64_t until_ns, const struct attach_cpu_sink *sink)
{
	receive(c);
	/* Whoever is given a sample may ask for memory or a file, and then the queue grows. */
	for (; c->at < c->queue.n && c->queue.v[c->at].time_ns < until_ns; c->at++) {
		struct item i = c->queue.v[c->at];
		c->queue.v[c->at].bytes = NULL;
		if (i.kind == WIRE_AGENT_SAMPLE)
			give_sample(&i, sink);
		else
			give_thread(&i, sink);
		c->queued_bytes -= i.len;
		mem_free(i.bytes);
	}
	if (c->at == c->queue.n || c->at >= COMPACT_AT) {
		c->queue.n -= c->at;
		if (c->queue.n)
			memmove(c->queue.v, c->queue.v + c->at, c->queue.n * sizeof(*c->queue.v));
		c->at = 0;
	}
	return c->dead ? dead(c) : NULL;
}

struct err *attach_cpu_stop(struct attach_cpu *c, struct attach_cpu_facts *ret)
{
	if (!c->stopped) {
		TRY(ask(c, WIRE_AGENT_STOP, 0, NULL));
		TRY(await(c, &c->stopped, SESSION_CALL_MS + ANSWER_MS));
	}
	const uint64_t *v = c->result.values;
	*ret = (struct attach_cpu_facts){ .handler_ns = v[WIRE_AGENT_HANDLER_NS],
					  .handler_max_ns = v[WIRE_AGENT_HANDLER_MAX_NS],
					  .handled = v[WIRE_AGENT_HANDLED],
					  .dropped = v[WIRE_AGENT_DROPPED] + c->overflow,
					  .cpu_ns = v[WIRE_AGENT_CPU_NS],
					  .own_cpu_ns = v[WIRE_AGENT_OWN_CPU_NS],
					  .timers = v[WIRE_AGENT_TIMERS],
					  .untimed = v[WIRE_AGENT_UNTIMED],
					  .chained = v[WIRE_AGENT_CHAINED] };
	return NULL;
}
