/* Sampling on demand: ticks.c takes the samples; this file sends them, and opens files of the process for drdotnet,
 * which may not see them. It continues until drdotnet asks to stop, closes the connection, or time is up. */
#include "agent/agent.h"
#include "agent/sys.h"
#include "agent/ticks.h"
#include <sys/mman.h>
#include <sys/socket.h>

#define IDLE_MS 20
#define FILE_MAX_BYTES ((uint64_t)256 << 20)
#define PATH_BYTES 1024
#define PIECE_BYTES 16384 /* on a stack of ours */
#define MEMORY "/proc/self/mem"
#define LEAST_PERIOD_US 1000
#define CLOCK_OF_PROCESS 2
#define CLOCK_OF_THREAD 3

struct agent_cpu {
	struct agent *agent;
	struct ticks *ticks;
	uint64_t start_cpu_ns, own_cpu_ns;
	bool sampling, gone;
};

static bool send_note(struct agent_cpu *c, const struct wire_agent_note *note)
{
	c->gone |= !line_send(c->agent->control, note, sizeof(*note));
	return !c->gone;
}

/* ---- what is told of threads ---- */

/* "ns on a cpu, ns able to run without one, times": the second. */
static uint64_t delay_of(int32_t tid)
{
	char path[64], text[128];
	uint64_t value = 0;
	proc_task_path(path, SYS(getpid), tid, "/schedstat");
	long n = sys_read_file(path, text, sizeof(text)), i = 0;
	while (i < n && text[i] != ' ')
		i++;
	for (i++; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	return value;
}

static void tell_thread(struct agent_cpu *c, int32_t tid, uint64_t cpu_ns, bool last)
{
	struct {
		struct wire_agent_note note;
		struct wire_agent_thread thread;
	} said = { .note = { .kind = WIRE_AGENT_THREAD, .code = sizeof(said.thread) },
		   .thread = { .tid = tid, .last = last, .cpu_ns = cpu_ns, .delay_ns = delay_of(tid) } };
	proc_task_name((int32_t)SYS(getpid), tid, said.thread.name);
	c->gone = c->gone || !line_send(c->agent->control, &said, sizeof(said));
}

static void on_thread(void *user, int32_t tid, uint64_t cpu_ns)
{
	tell_thread(user, tid, cpu_ns, false);
}

static void on_last(void *user, int tid)
{
	const struct agent_cpu *c = user;
	if (tid != (int)SYS(gettid) && !c->gone)
		tell_thread(user, tid, sys_clock_ns((int)(~(uint32_t)tid << 3 | 6)), true);
}

/* ---- samples ---- */

static bool send_sample(void *user, const struct ticks_slot *slot)
{
	struct agent_cpu *c = user;
	struct wire_agent_note note = { .kind = WIRE_AGENT_SAMPLE,
					.code = (int32_t)(sizeof(slot->head) + slot->head.stack_len) };
	return send_note(c, &note) && !(c->gone = !line_send(c->agent->control, slot, (size_t)note.code));
}

static void start(struct agent_cpu *c)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_STARTED };
	struct ticks *t = c->ticks;
	t->period_ns = (uint64_t)c->agent->config.period_us * 1000;
	t->stack_bytes = c->agent->config.stack_bytes;
	t->plain = c->agent->plain;
	t->on_thread = on_thread;
	t->user = c;
	c->start_cpu_ns = sys_clock_ns(CLOCK_OF_PROCESS);
	c->own_cpu_ns = sys_clock_ns(CLOCK_OF_THREAD);
	long err = ticks_start(t);
	c->sampling = err == 0;
	if (err)
		note = (struct wire_agent_note){ .kind = WIRE_AGENT_REFUSED,
						 .why = WIRE_AGENT_NO_TIMER,
						 .code = (int32_t)-err };
	send_note(c, &note);
}

static void stop(struct agent_cpu *c)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_SAMPLED };
	struct ticks *t = c->ticks;
	if (!c->sampling)
		return;
	c->sampling = false;
	uint64_t cpu_ns = sys_clock_ns(CLOCK_OF_PROCESS) - c->start_cpu_ns;
	ticks_stop(t);
	if (c->gone || !ticks_drain(t, send_sample, c))
		return;
	proc_each_number(PROC_TASKS, on_last, c);
	note.values[WIRE_AGENT_HANDLER_NS] = t->handler_ns;
	note.values[WIRE_AGENT_HANDLER_MAX_NS] = t->handler_max_ns;
	note.values[WIRE_AGENT_HANDLED] = t->handled;
	note.values[WIRE_AGENT_DROPPED] = t->dropped;
	note.values[WIRE_AGENT_CPU_NS] = cpu_ns;
	note.values[WIRE_AGENT_OWN_CPU_NS] = sys_clock_ns(CLOCK_OF_THREAD) - c->own_cpu_ns;
	note.values[WIRE_AGENT_TIMERS] = t->timers;
	note.values[WIRE_AGENT_UNTIMED] = t->untimed;
	note.values[WIRE_AGENT_CHAINED] = t->chained;
	send_note(c, &note);
}

/* ---- requests ---- */

/* With a descriptor, when there is one: drdotnet then reads what only the process itself could open. */
static bool answer(struct agent_cpu *c, int fd)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_ANSWER, .code = fd < 0 ? -fd : 0 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} passed = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec data = { &note, sizeof(note) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	if (fd < 0)
		return send_note(c, &note);
	memcpy(CMSG_DATA(&passed.head), &fd, sizeof(fd));
	message.msg_control = &passed;
	message.msg_controllen = sizeof(passed.bytes);
	long sent = SYS(sendmsg, c->agent->control, &message, MSG_NOSIGNAL);
	SYS(close, fd);
	c->gone |= sent != sizeof(note);
	return !c->gone;
}

static bool receive(const struct agent_cpu *c, void *to, size_t n)
{
	return SYS(recvfrom, c->agent->control, to, n, MSG_WAITALL) == (long)n;
}

/* How much was there, or a negative errno; false in gone. */
static long send_piece(struct agent_cpu *c, int fd, uint64_t at, uint64_t len)
{
	struct {
		struct wire_agent_note note;
		uint8_t bytes[PIECE_BYTES];
	} piece = { .note = { .kind = WIRE_AGENT_BYTES } };
	long got = SYS(pread64, fd, piece.bytes, len < sizeof(piece.bytes) ? len : sizeof(piece.bytes), at);
	piece.note.code = (int32_t)got;
	c->gone |= got > 0 && !line_send(c->agent->control, &piece, sizeof(piece.note) + (size_t)got);
	return got;
}

/* To pass a descriptor is not among the calls that the runtime makes: all of its bytes, then. */
static bool answer_bytes(struct agent_cpu *c, int fd)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_ANSWER, .code = fd < 0 ? -fd : 0 };
	uint64_t at = 0;
	for (long got = 1; fd >= 0 && got > 0 && at < FILE_MAX_BYTES && !c->gone; at += got > 0 ? (uint64_t)got : 0)
		got = send_piece(c, fd, at, PIECE_BYTES);
	if (fd >= 0)
		SYS(close, fd);
	return send_note(c, &note);
}

static bool open_for(struct agent_cpu *c, size_t len)
{
	char path[PATH_BYTES];
	if (len >= sizeof(path) || !receive(c, path, len))
		return false;
	path[len] = '\0';
	bool memory = len == sizeof(MEMORY) - 1 && !memcmp(path, MEMORY, len);
	if (c->agent->plain)
		return answer_bytes(c, memory ? -EPERM : sys_open(path, 04000 /* O_NONBLOCK */));
	return answer(c, sys_open(path, 04000 /* O_NONBLOCK */));
}

static bool read_for(struct agent_cpu *c, size_t len)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_ANSWER };
	struct wire_agent_range range;
	if (len != sizeof(range) || !receive(c, &range, len))
		return false;
	int fd = sys_open(MEMORY, 0);
	long got = fd < 0 ? fd : 1;
	for (uint64_t at = 0; at < range.len && range.len <= WIRE_AGENT_BYTES_MAX && got > 0; at += (uint64_t)got)
		got = send_piece(c, fd, range.addr + at, range.len - at);
	if (fd >= 0)
		SYS(close, fd);
	note.code = got < 0 ? (int32_t)-got : got ? 0 : EIO;
	return send_note(c, &note);
}

/* False: it is time to leave. */
static bool serve(struct agent_cpu *c)
{
	struct wire_agent_request r;
	if (!receive(c, &r, sizeof(r)))
		return false;
	switch (r.kind) {
	case WIRE_AGENT_OPEN:
		return open_for(c, r.len);
	case WIRE_AGENT_READ:
		return read_for(c, r.len);
	case WIRE_AGENT_STACK:
		__atomic_store_n(&c->ticks->stack_bytes, r.len < WIRE_AGENT_STACK_MAX ? r.len : WIRE_AGENT_STACK_MAX,
				 __ATOMIC_RELAXED);
		return true;
	case WIRE_AGENT_STOP:
		stop(c);
		return !c->gone;
	default:
		return false;
	}
}

/* ---- its life ---- */

static void loop(struct agent_cpu *c)
{
	while (!c->gone && sys_now_ns() < c->agent->end_ns) {
		if (line_gone(c->agent->control, c->sampling ? ticks_wait_ms(c->ticks) : IDLE_MS) && !serve(c))
			return;
		if (!c->sampling)
			continue;
		ticks_turn(c->ticks);
		ticks_drain(c->ticks, send_sample, c);
	}
}

static void *map(size_t bytes)
{
	long at = SYS(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at < 0 && at > -4096 ? NULL : (void *)at;
}

void cpu_run(struct agent *a)
{
	const size_t slots = TICKS_SLOTS * sizeof(struct ticks_slot),
		     threads = TICKS_THREADS * sizeof(struct ticks_thread),
		     all = slots + threads + sizeof(struct ticks);
	struct wire_agent_note refused = { .kind = WIRE_AGENT_REFUSED, .why = WIRE_AGENT_NO_MEMORY };
	struct agent_cpu c = { .agent = a };
	uint8_t *room = map(all);
	if (!room || a->config.period_us < LEAST_PERIOD_US || a->config.stack_bytes > WIRE_AGENT_STACK_MAX) {
		send_note(&c, &refused);
	} else {
		c.ticks = (void *)(room + slots + threads);
		c.ticks->slots = (void *)room;
		c.ticks->threads = (void *)(room + slots);
		start(&c);
		if (c.sampling)
			loop(&c);
		stop(&c);
	}
	if (room)
		SYS(munmap, room, all);
}
