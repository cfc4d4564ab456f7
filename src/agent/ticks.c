#include "agent/ticks.h"
#include "agent/sys.h"
#include <signal.h>
#include <sys/uio.h>

#if defined(__x86_64__)
#include <ucontext.h>

#define SCAN_NS ((uint64_t)50000000) /* between two looks for new threads, at least */
#define TURN_MS 20
#define SCAN_SHARE 50 /* of the time at most, one part in so many */
#define QUIET_NS ((uint64_t)10000000000)
#define FIRST_SIGNAL 62 /* the runtime uses the other end of the real-time signals */
#define LAST_SIGNAL 50
#define STATUS_BYTES 4096
#define LOOKS_MAX 255
#define FLAG_RESTORER 0x04000000
#define NONE 0xffffu
enum { CLOCK_OF_THREAD = 3, NOTIFY_THREAD = 4 };

static struct ticks *ticking; /* for the handler */

/* ---- the handler ---- */

/* Until the next sample: half a period to one and a half, so as not to march in step with what the thread does. */
static long wind(const struct ticks *t, struct ticks_thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	uint64_t ns = t->period_ns / 2 + thread->random % t->period_ns;
	if (t->plain) {
		thread->wait_ns = ns;
		return 0;
	}
	int64_t times[4] = { 0, 0, (int64_t)(ns / 1000000000), (int64_t)(ns % 1000000000) };
	return SYS(timer_settime, thread->timer, 0, times, 0);
}

/* The lowest free one, so that few pages are ever used. */
static struct ticks_slot *claim(struct ticks *t, size_t *ret)
{
	for (size_t w = 0; w < TICKS_SLOTS / 64; w++)
		for (uint64_t open; (open = ~__atomic_load_n(&t->taken[w], __ATOMIC_RELAXED));) {
			uint64_t bit = open & -open;
			if (__atomic_fetch_or(&t->taken[w], bit, __ATOMIC_ACQUIRE) & bit)
				continue;
			*ret = w * 64 + (size_t)__builtin_ctzll(bit);
			return &t->slots[*ret];
		}
	return NULL;
}

/* As far as there is memory. */
static uint32_t copy_stack(const struct ticks *t, void *to, uint64_t from, uint32_t n)
{
	struct iovec local = { to, n }, remote = { (void *)(uintptr_t)from, n };
	long got = t->by_file ? SYS(pread64, t->memory_fd, to, n, from)
			      : SYS(process_vm_readv, t->pid, &local, 1, &remote, 1, 0);
	return got > 0 ? (uint32_t)got : 0;
}

/* In the order in which instructions number them. */
static void take_registers(const ucontext_t *context, struct wire_agent_sample *s)
{
	static const uint8_t order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
					   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
	for (size_t i = 0; i < 16; i++)
		s->regs[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
	s->ip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

static void take(struct ticks *t, struct ticks_thread *thread, const ucontext_t *context, uint64_t cpu_ns)
{
	size_t index;
	uint64_t since = cpu_ns - thread->cpu_ns;
	thread->cpu_ns = cpu_ns;
	struct ticks_slot *slot = claim(t, &index);
	if (!slot) {
		__atomic_fetch_add(&t->dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	struct wire_agent_sample *s = &slot->head;
	s->tid = thread->tid;
	s->time_ns = sys_now_ns();
	s->cpu_ns = since;
	s->asked = __atomic_load_n(&t->stack_bytes, __ATOMIC_RELAXED);
	take_registers(context, s);
	s->stack_len = copy_stack(t, slot->stack, s->regs[4], s->asked);
	__atomic_fetch_or(&t->ready[index / 64], (uint64_t)1 << index % 64, __ATOMIC_RELEASE);
}

static void chain(const struct ticks_action *before, int signal, void *info, void *context)
{
	if ((uintptr_t)before->handler > 1 /* neither default nor ignored */)
		before->handler(signal, info, context);
}

static uint16_t *bucket_of(struct ticks *t, int32_t tid)
{
	return &t->buckets[(uint32_t)tid % TICKS_BUCKETS];
}

static struct ticks_thread *find(struct ticks *t, int32_t tid)
{
	/* A handler may look while our thread takes another one out, and then walk astray, but not for ever. */
	size_t steps = 0;
	for (uint16_t i = *bucket_of(t, tid); i < TICKS_THREADS && steps < TICKS_THREADS;
	     i = t->threads[i].next, steps++)
		if (t->threads[i].tid == tid)
			return &t->threads[i];
	return NULL;
}

/* The thread that a signal of ours is for; NULL when the signal is not ours. */
static struct ticks_thread *whose(struct ticks *t, const siginfo_t *info)
{
	if (t->plain) {
		struct ticks_thread *thread = info->si_code == SI_TKILL ? find(t, (int32_t)SYS(gettid)) : NULL;
		return thread && __atomic_exchange_n(&thread->asked, false, __ATOMIC_ACQ_REL) ? thread : NULL;
	}
	struct ticks_thread *thread = info->si_value.sival_ptr;
	return info->si_code == SI_TIMER && thread >= t->threads && thread < t->threads + TICKS_THREADS ? thread : NULL;
}

static void on_tick(int signal, void *information, void *context)
{
	struct ticks *t = ticking;
	__atomic_fetch_add(&t->inside, 1, __ATOMIC_ACQUIRE);
	struct ticks_thread *thread = whose(t, information);
	if (!thread) {
		chain(&t->before, signal, information, context);
	} else if (__atomic_load_n(&t->on, __ATOMIC_ACQUIRE)) {
		uint64_t begin = sys_clock_ns(CLOCK_OF_THREAD);
		take(t, thread, context, begin);
		wind(t, thread);
		uint64_t took = sys_clock_ns(CLOCK_OF_THREAD) - begin;
		__atomic_fetch_add(&t->handler_ns, took, __ATOMIC_RELAXED);
		__atomic_fetch_add(&t->handled, 1, __ATOMIC_RELAXED);
		if (took > __atomic_load_n(&t->handler_max_ns, __ATOMIC_RELAXED))
			__atomic_store_n(&t->handler_max_ns, took, __ATOMIC_RELAXED);
	}
	__atomic_fetch_sub(&t->inside, 1, __ATOMIC_RELEASE);
}

/* Debuggers know a signal frame by exactly these instructions. */
__attribute__((naked)) static void restorer(void)
{
	__asm__("movq $15, %rax\n\tsyscall");
}

/* ---- what /proc says of a thread ---- */

struct standing {
	char state;
	uint64_t blocked; /* signals */
};

static bool standing_of(int32_t tid, struct standing *ret)
{
	char path[64], text[STATUS_BYTES];
	proc_task_path(path, SYS(getpid), tid, "/status");
	long n = sys_read_file(path, text, sizeof(text));
	const char *end = text + (n > 0 ? n : 0);
	const char *state = proc_after(text, end, "State:\t"), *blocked = proc_after(text, end, "SigBlk:\t");
	if (!state || !blocked || end - blocked < 16)
		return false;
	ret->state = *state;
	ret->blocked = 0;
	for (size_t i = 0; i < 16; i++) {
		char d = blocked[i];
		ret->blocked = ret->blocked << 4 | (uint64_t)(d <= '9' ? d - '0' : d - 'a' + 10);
	}
	return true;
}

static bool blocks(const struct ticks *t, const struct standing *s)
{
	return s->blocked >> (t->signal - 1) & 1;
}

/* ---- timers ---- */

static uint64_t clock_of(int32_t tid)
{
	return sys_clock_ns((int)(~(uint32_t)tid << 3 | 6));
}

static long make_timer(const struct ticks *t, struct ticks_thread *thread)
{
	struct {
		void *value;
		int32_t signal, notify, tid, unused[11];
	} event = { .value = thread, .signal = t->signal, .notify = NOTIFY_THREAD, .tid = thread->tid };
	int32_t id;
	long err = SYS(timer_create, (int)(~(uint32_t)thread->tid << 3 | 6), &event, &id);
	if (err < 0)
		return err;
	thread->timer = id;
	err = wind(t, thread);
	if (err < 0)
		SYS(timer_delete, id);
	return err;
}

/* ---- the table of threads ---- */

static struct ticks_thread *add(struct ticks *t, int32_t tid)
{
	uint16_t i = t->free;
	if (i != NONE)
		t->free = t->threads[i].next;
	else if (t->n_threads < TICKS_THREADS)
		i = t->n_threads++;
	else
		return NULL;
	uint16_t *bucket = bucket_of(t, tid);
	t->threads[i] = (struct ticks_thread){
		.tid = tid, .next = *bucket, .seen = true, .random = (uint64_t)tid * 2654435761u
	};
	*bucket = i;
	return &t->threads[i];
}

/* It has ended: no handler of it runs. */
static void drop(struct ticks *t, uint16_t index)
{
	struct ticks_thread *thread = &t->threads[index];
	uint16_t *at = bucket_of(t, thread->tid);
	while (*at != index)
		at = &t->threads[*at].next;
	*at = thread->next;
	if (thread->timed && !t->plain)
		SYS(timer_delete, thread->timer);
	*thread = (struct ticks_thread){ .next = t->free };
	t->free = index;
}

/* A thread that blocks the signal would only collect it. Every new one does for a moment, so it is looked at again:
 * after one scan, two, four ... */
static void try_timer(struct ticks *t, struct ticks_thread *thread, const struct standing *standing)
{
	long err = blocks(t, standing) ? -EPERM : t->plain ? wind(t, thread) : make_timer(t, thread);
	thread->timed = err == 0;
	t->timers += thread->timed;
	t->why_not = err ? err : t->why_not;
}

static void look_again(struct ticks *t, struct ticks_thread *thread)
{
	struct standing standing;
	thread->seen = true;
	if (thread->timed || thread->looks == LOOKS_MAX)
		return;
	thread->looks++;
	if (!(thread->looks & (thread->looks - 1)) && standing_of(thread->tid, &standing))
		try_timer(t, thread, &standing);
}

static void on_task(void *user, int tid)
{
	struct ticks *t = user;
	struct ticks_thread *thread = find(t, tid);
	struct standing standing;
	if (thread)
		look_again(t, thread);
	if (thread || tid == t->self || !standing_of(tid, &standing))
		return;
	/* One that began since has used all of its time since. */
	uint64_t cpu_ns = t->first ? clock_of(tid) : 0;
	thread = add(t, tid);
	if (!thread) {
		t->untimed++;
		return;
	}
	t->on_thread(t->user, tid, cpu_ns);
	thread->cpu_ns = cpu_ns;
	try_timer(t, thread, &standing);
}

static void scan(struct ticks *t)
{
	uint64_t begin = sys_now_ns();
	for (uint16_t i = 0; i < t->n_threads; i++)
		t->threads[i].seen = false;
	bool all = proc_each_number(PROC_TASKS, on_task, t);
	for (uint16_t i = 0; i < t->n_threads; i++)
		if (all && t->threads[i].tid && !t->threads[i].seen)
			drop(t, i);
	uint64_t now = sys_now_ns(), gap = (now - begin) * SCAN_SHARE;
	t->scan_at_ns = now + (gap > SCAN_NS ? gap : SCAN_NS);
	t->first = false;
}

/* ---- the signal ---- */

static long action(int signal, const struct ticks_action *new, struct ticks_action *old)
{
	return SYS(rt_sigaction, signal, new, old, sizeof(uint64_t));
}

/* An unused signal; when all are used, one is shared: its handler still gets what is not ours. */
static long take_signal(struct ticks *t)
{
	struct ticks_action ours = { .handler = on_tick,
				     .flags = SA_SIGINFO | SA_RESTART | FLAG_RESTORER,
				     .restorer = restorer,
				     .mask = ~(uint64_t)0 };
	for (t->signal = FIRST_SIGNAL; t->signal > LAST_SIGNAL; t->signal--) {
		long err = action(t->signal, NULL, &t->before);
		if (!err && !t->before.handler)
			break;
	}
	if (t->signal == LAST_SIGNAL) {
		t->signal = FIRST_SIGNAL;
		t->chained = true;
	}
	return action(t->signal, &ours, &t->before);
}

/* Is a thread in our handler, or in its very last instructions? While it is, its signals are blocked; nothing there
 * sleeps unless it is counted as inside. */
static bool in_handler(const struct ticks *t, const struct ticks_thread *thread)
{
	struct standing s;
	if (!thread->tid || !thread->timed || !standing_of(thread->tid, &s) || !blocks(t, &s))
		return false;
	return s.state != 'S' || __atomic_load_n(&t->inside, __ATOMIC_ACQUIRE);
}

static bool is_quiet(const struct ticks *t)
{
	for (uint16_t i = 0; i < t->n_threads; i++)
		if (in_handler(t, &t->threads[i]))
			return false;
	return !__atomic_load_n(&t->inside, __ATOMIC_ACQUIRE);
}

/* A handler that runs is waited for without end: our code must not go before it has. A thread that merely runs with all
 * signals blocked is not one for so long. */
static void await_quiet(const struct ticks *t)
{
	uint64_t end_ns = sys_now_ns() + QUIET_NS;
	while (!is_quiet(t) && (sys_now_ns() < end_ns || __atomic_load_n(&t->inside, __ATOMIC_ACQUIRE)))
		sys_poll(NULL, 0, 1);
}

/* ---- from start to stop ---- */

static void close_files(struct ticks *t)
{
	if (t->memory_fd >= 0)
		SYS(close, t->memory_fd);
}

/* Tries on our own thread how stacks can be copied. */
static long choose_copy(struct ticks *t)
{
	uint64_t there = 1, here = 0;
	t->by_file = t->plain;
	if (copy_stack(t, &here, (uint64_t)(uintptr_t)&there, sizeof(there)) == sizeof(there))
		return 0;
	t->by_file = true;
	return copy_stack(t, &here, (uint64_t)(uintptr_t)&there, sizeof(there)) == sizeof(there) ? 0 : -EPERM;
}

long ticks_start(struct ticks *t)
{
	memset(t->buckets, 0xff, sizeof(t->buckets));
	t->free = NONE;
	t->first = t->on = true;
	t->pid = (int32_t)SYS(getpid);
	t->self = (int32_t)SYS(gettid);
	t->memory_fd = sys_open("/proc/self/mem", 0);
	ticking = t;
	long err = choose_copy(t);
	if (!err)
		err = take_signal(t);
	if (err) {
		close_files(t);
		return err;
	}
	scan(t);
	if (t->timers)
		return 0;
	ticks_stop(t);
	return t->why_not ? t->why_not : -ESRCH;
}

/* One that waits is never sent a signal: that would end its wait, and show where nothing was used. */
static void ask(struct ticks *t, struct ticks_thread *thread)
{
	struct standing standing;
	if (clock_of(thread->tid) - thread->cpu_ns < thread->wait_ns || !standing_of(thread->tid, &standing) ||
	    standing.state != 'R' || __atomic_exchange_n(&thread->asked, true, __ATOMIC_ACQ_REL))
		return;
	if (SYS(tgkill, t->pid, thread->tid, t->signal) < 0)
		__atomic_store_n(&thread->asked, false, __ATOMIC_RELEASE);
}

static void ask_all(struct ticks *t)
{
	uint64_t begin = sys_now_ns();
	for (uint16_t i = 0; i < t->n_threads; i++)
		if (t->threads[i].tid && t->threads[i].timed && !t->threads[i].asked)
			ask(t, &t->threads[i]);
	uint64_t now = sys_now_ns(), gap = (now - begin) * SCAN_SHARE, least = t->period_ns / 2;
	t->ask_at_ns = now + (gap > least ? gap : least);
}

void ticks_turn(struct ticks *t)
{
	if (sys_now_ns() >= t->scan_at_ns)
		scan(t);
	if (t->plain && sys_now_ns() >= t->ask_at_ns)
		ask_all(t);
}

uint64_t ticks_wait_ms(const struct ticks *t)
{
	uint64_t now = sys_now_ns();
	if (!t->plain)
		return TURN_MS;
	return t->ask_at_ns > now ? (t->ask_at_ns - now) / 1000000 + 1 : 0;
}

bool ticks_drain(struct ticks *t, bool (*send)(void *user, const struct ticks_slot *slot), void *user)
{
	bool ok = true;
	for (size_t w = 0; w < TICKS_SLOTS / 64; w++) {
		uint64_t ready = __atomic_load_n(&t->ready[w], __ATOMIC_ACQUIRE);
		for (uint64_t left = ready; left && ok; left &= left - 1)
			ok = send(user, &t->slots[w * 64 + (size_t)__builtin_ctzll(left)]);
		__atomic_fetch_and(&t->ready[w], ~ready, __ATOMIC_RELAXED);
		__atomic_fetch_and(&t->taken[w], ~ready, __ATOMIC_RELEASE);
	}
	return ok;
}

void ticks_stop(struct ticks *t)
{
	struct ticks_action now = { 0 },
			    ignore = { .handler = (void (*)(int, void *, void *))1, .flags = FLAG_RESTORER };
	__atomic_store_n(&t->on, false, __ATOMIC_RELEASE);
	for (uint16_t i = 0; i < t->n_threads; i++) {
		if (t->threads[i].tid && !t->threads[i].timed)
			t->untimed++;
		else if (t->threads[i].tid && !t->plain)
			SYS(timer_delete, t->threads[i].timer);
	}
	/* This discards signals that were sent and not yet delivered; their default action would end the process. */
	bool ours = action(t->signal, NULL, &now) == 0 && now.handler == on_tick;
	if (ours && !t->chained)
		action(t->signal, &ignore, NULL);
	await_quiet(t);
	if (ours)
		action(t->signal, &t->before, NULL);
	close_files(t);
}
#else
long ticks_start(struct ticks *t)
{
	(void)t;
	return -ENOSYS;
}

void ticks_turn(struct ticks *t)
{
	(void)t;
}

uint64_t ticks_wait_ms(const struct ticks *t)
{
	(void)t;
	return 0;
}

bool ticks_drain(struct ticks *t, bool (*send)(void *user, const struct ticks_slot *slot), void *user)
{
	(void)t;
	(void)send;
	(void)user;
	return false;
}

void ticks_stop(struct ticks *t)
{
	(void)t;
}
#endif
