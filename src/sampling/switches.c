#include "sampling/switches.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include <string.h>

struct thread_state {
	bool seen;    /* it was switched in the window */
	bool waiting; /* it is off its cpu since out_ns */
	bool preempted, has_stack;
	uint32_t stack, before_stack;
	uint8_t before_kind; /* 0 = not known */
	uint64_t out_ns, sample_ns;
	uint64_t waited_ns, sampled_ns;		/* all of its waits; those with a stack; since recording began */
	uint64_t all_waited_ns, all_sampled_ns; /* the same, over the window */
	bool ever_seen;
	uint8_t still_kind;
	uint32_t still_stack;
	uint64_t still_ns, all_still_ns; /* did not run whenever we recorded */
};

struct switches {
	struct samples *samples;
	uint64_t start_ns, from_ns; /* of the window; of the current recording time */
	uint64_t heard_ns;	    /* how long that was */
	size_t first;		    /* its first sample */
	bool resting;
	VEC(struct thread_state) threads; /* by index of samples */
	VEC(uint8_t) kinds;		  /* by stack, 0 = not judged yet */
	struct switches_facts facts;
};

const char *wait_kind_words(enum wait_kind kind)
{
	static const char *const words[WAIT_KINDS] = {
		[WAIT_CPU] = "the CPU (able to run)",
		[WAIT_LOCK] = "a lock",
		[WAIT_EVENT] = "an event or signal",
		[WAIT_SLEEP] = "sleep",
		[WAIT_FILE] = "file I/O",
		[WAIT_SOCKET] = "a socket",
		[WAIT_PIPE] = "a pipe",
		[WAIT_POLL] = "epoll or poll",
		[WAIT_FAULT] = "a page fault",
		[WAIT_CHILD] = "a child process",
		[WAIT_OTHER] = "something else",
		[WAIT_GC] = "the garbage collector",
	};
	unsigned k = (unsigned)kind & (WAIT_WHOLE - 1);
	return k && k < WAIT_KINDS ? words[k] : words[WAIT_OTHER];
}

/* --- kinds --- */

/* Kernel functions by how they begin; the first hit from the leaf decides. */
static const struct {
	const char *prefix;
	enum wait_kind kind;
} kernel_functions[] = {
	{ "futex_", WAIT_EVENT },
	{ "__futex_", WAIT_EVENT },
	{ "do_futex", WAIT_EVENT },
	{ "hrtimer_nanosleep", WAIT_SLEEP },
	{ "do_nanosleep", WAIT_SLEEP },
	{ "common_nsleep", WAIT_SLEEP },
	{ "ep_poll", WAIT_POLL },
	{ "do_epoll_", WAIT_POLL },
	{ "do_sys_poll", WAIT_POLL },
	{ "do_poll", WAIT_POLL },
	{ "do_select", WAIT_POLL },
	{ "pipe_", WAIT_PIPE },
	{ "anon_pipe_", WAIT_PIPE },
	{ "fifo_", WAIT_PIPE },
	{ "wait_for_partner", WAIT_PIPE },
	{ "sock_", WAIT_SOCKET },
	{ "__sock_", WAIT_SOCKET },
	{ "sk_", WAIT_SOCKET },
	{ "inet_", WAIT_SOCKET },
	{ "tcp_", WAIT_SOCKET },
	{ "udp_", WAIT_SOCKET },
	{ "unix_", WAIT_SOCKET },
	{ "__skb_", WAIT_SOCKET },
	{ "io_schedule", WAIT_FILE },
	{ "folio_wait_", WAIT_FILE },
	{ "filemap_", WAIT_FILE },
	{ "vfs_fsync", WAIT_FILE },
	{ "ext4_", WAIT_FILE },
	{ "xfs_", WAIT_FILE },
	{ "btrfs_", WAIT_FILE },
	{ "jbd2_", WAIT_FILE },
	{ "blk_", WAIT_FILE },
	{ "nfs_", WAIT_FILE },
	{ "do_wait", WAIT_CHILD },
	{ "kernel_wait4", WAIT_CHILD },
	{ "vfs_read", WAIT_FILE },
	{ "vfs_write", WAIT_FILE },
};

static enum wait_kind kernel_kind(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernel_functions); i++) {
		if (str_starts(name, kernel_functions[i].prefix))
			return kernel_functions[i].kind;
	}
	return 0;
}

/* Numbers of x86-64. What a read waits for depends on its file: the caller knows. */
static enum wait_kind call_kind(long number)
{
	switch (number) {
	case 202:
	case 219: /* the continuation of an interrupted call, usually a futex */
		return WAIT_EVENT;
	case 35:
	case 230:
		return WAIT_SLEEP;
	case 7:
	case 23:
	case 232:
	case 270:
	case 271:
	case 281:
		return WAIT_POLL;
	case 43:
	case 45:
	case 47:
	case 288:
		return WAIT_SOCKET;
	case 61:
	case 247:
		return WAIT_CHILD;
	default:
		return WAIT_OTHER;
	}
}

static bool starts_any(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++) {
		if (str_starts(name, *prefixes))
			return true;
	}
	return false;
}

/* A futex is a sleep, a lock, an event or, where the framework waits for its own thread that polls, a socket: its
 * methods between the futex and the user's code tell. Some locks sleep while they wait, so a lock says more. Up to
 * .NET 9 a lock statement goes from the user's method, or a library's, straight into the runtime; it has no time limit.
 * An inlined Monitor.Wait or Thread.Join goes there, too. */
static enum wait_kind managed_kind(const struct samples *s, const struct samples_stack *k)
{
	static const char *const locks[] = { "System.Threading.Monitor.Enter",
					     "System.Threading.Monitor.TryEnter",
					     "System.Threading.Monitor.ReliableEnter",
					     "System.Threading.Lock.",
					     "System.Threading.ReaderWriterLock",
					     "System.Threading.SpinLock.",
					     NULL };
	bool wrapped = false, sleeps = false, timed = false;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct samples_frame *f = &s->frames.v[s->stack_frames.v[k->first + i]];
		if (f->kind == FRAME_CODE)
			return sleeps ? WAIT_SLEEP : wrapped || timed || s->lock_frames ? WAIT_EVENT : WAIT_LOCK;
		const char *name = strtab_get(&s->strings, f->name);
		timed |= f->kind == FRAME_NATIVE && strstr(name, "cond_timedwait");
		if (f->kind != FRAME_FRAMEWORK)
			continue;
		bool straight = !wrapped && method_is_library(s->whose, name);
		if (starts_any(name, locks) || (straight && !timed && !s->lock_frames))
			return WAIT_LOCK;
		if (str_starts(name, "System.Net.Sockets.SocketAsyncContext."))
			return WAIT_SOCKET;
		wrapped = true;
		sleeps |= str_starts(name, "System.Threading.Thread.Sleep");
	}
	return sleeps ? WAIT_SLEEP : WAIT_EVENT;
}

enum wait_kind wait_kind_of(const struct samples *s, uint32_t stack, long system_call)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	enum wait_kind kind = system_call >= 0 ? call_kind(system_call) : 0;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct samples_frame *f = &s->frames.v[s->stack_frames.v[k->first + i]];
		if (f->kind != FRAME_KERNEL)
			break;
		const char *name = strtab_get(&s->strings, f->name);
		if (str_starts(name, "exc_page_fault") || str_starts(name, "asm_exc_page_fault"))
			return WAIT_FAULT;
		if (!kind)
			kind = kernel_kind(name);
	}
	return kind == WAIT_EVENT ? managed_kind(s, k) : kind ? kind : WAIT_OTHER;
}

static enum wait_kind kind_of(struct switches *w, uint32_t stack)
{
	while (w->kinds.n <= stack)
		vec_push(&w->kinds, 0);
	if (!w->kinds.v[stack])
		w->kinds.v[stack] = (uint8_t)wait_kind_of(w->samples, stack, -1);
	return w->kinds.v[stack];
}

/* --- switches --- */

struct switches *switches_new(struct samples *samples, uint64_t start_ns)
{
	struct switches *w = mem_zalloc(sizeof(*w));
	w->samples = samples;
	w->start_ns = w->from_ns = start_ns;
	return w;
}

void switches_free(struct switches *w)
{
	if (!w)
		return;
	vec_free(&w->threads);
	vec_free(&w->kinds);
	mem_free(w);
}

void switches_started(struct switches *w, uint64_t start_ns)
{
	w->start_ns = w->from_ns = start_ns;
}

static struct thread_state *state_of(struct switches *w, uint32_t thread)
{
	while (w->threads.n <= thread)
		vec_push(&w->threads, (struct thread_state){ 0 });
	return &w->threads.v[thread];
}

void switches_before(struct switches *w, uint32_t thread, uint32_t stack, enum wait_kind kind)
{
	struct thread_state *t = state_of(w, thread);
	if (stack == SAMPLES_FULL)
		return;
	t->before_stack = stack;
	t->before_kind = (uint8_t)kind;
}

void switches_sample(struct switches *w, uint32_t thread, uint64_t time_ns, uint32_t stack)
{
	struct thread_state *t = state_of(w, thread);
	t->stack = stack;
	t->sample_ns = time_ns;
	t->has_stack = stack != SAMPLES_FULL;
}

static void add_wait(struct switches *w, uint32_t thread, uint64_t from_ns, uint64_t to_ns, uint32_t stack,
		     unsigned kind)
{
	if (to_ns <= from_ns || to_ns <= w->start_ns)
		return;
	from_ns = MAX(from_ns, w->start_ns);
	w->facts.waits++;
	struct thread_state *t = &w->threads.v[thread];
	t->waited_ns += to_ns - from_ns;
	if (!kind)
		return;
	w->facts.with_stack++;
	t->sampled_ns += to_ns - from_ns;
	samples_add(w->samples, (from_ns - w->start_ns) / 1000, thread, stack, to_ns - from_ns, kind);
}

static void went_out(struct switches *w, struct thread_state *t, uint64_t time_ns, bool preempted)
{
	(void)w;
	t->waiting = true;
	t->out_ns = time_ns;
	t->preempted = preempted;
	/* A sample that belongs to this switch was taken just before it. */
	t->has_stack = t->has_stack && time_ns - MIN(time_ns, t->sample_ns) < NS_PER_MS;
}

static void came_in(struct switches *w, uint32_t thread, uint64_t time_ns)
{
	struct thread_state *t = &w->threads.v[thread];
	/* It may have left its cpu while the events were opened, before recording began: only the time since then is
	 * scaled. */
	if (t->waiting)
		add_wait(w, thread, MAX(t->out_ns, w->from_ns), time_ns, t->stack,
			 !t->has_stack	? 0
			 : t->preempted ? (unsigned)WAIT_CPU
					: (unsigned)kind_of(w, t->stack));
	else if (!t->seen && t->before_kind)
		add_wait(w, thread, w->from_ns, time_ns, t->before_stack, t->before_kind);
	t->waiting = t->has_stack = false;
}

void switches_switch(struct switches *w, uint32_t thread, uint64_t time_ns, bool out, bool preempted)
{
	struct thread_state *t = state_of(w, thread);
	w->facts.switches += out;
	if (out)
		went_out(w, t, time_ns, preempted);
	else
		came_in(w, thread, time_ns);
	t->seen = t->ever_seen = true;
}

void switches_moved(struct switches *w, uint32_t thread)
{
	state_of(w, thread)->ever_seen = true;
}

static void note_still(struct thread_state *t, uint64_t ns)
{
	t->still_ns += ns;
	t->still_kind = t->before_kind;
	t->still_stack = t->before_stack;
}

void switches_rest(struct switches *w, uint64_t time_ns)
{
	for (uint32_t i = 0; i < w->threads.n; i++) {
		struct thread_state *t = &w->threads.v[i];
		if (t->waiting)
			came_in(w, i, time_ns);
		else if (!t->seen && t->before_kind)
			note_still(t, time_ns - MIN(time_ns, w->from_ns));
		t->before_kind = 0;
		t->seen = false;
	}
	w->heard_ns = time_ns - MIN(time_ns, w->from_ns);
	w->facts.listened_ns += w->heard_ns;
	w->resting = true;
}

/* Scales what was recorded to all the time until recording continues. */
static void stand_until(struct switches *w, uint64_t time_ns)
{
	uint64_t whole = time_ns - MIN(time_ns, w->from_ns);
	double times = w->heard_ns ? MAX((double)whole / (double)w->heard_ns, 1.0) : 1;
	for (; w->first < w->samples->list.n; w->first++) {
		struct sample *x = &w->samples->list.v[w->first];
		x->weight = (uint64_t)((double)x->weight * times);
	}
	vec_each(t, &w->threads) {
		t->all_waited_ns += (uint64_t)((double)t->waited_ns * times);
		t->all_sampled_ns += (uint64_t)((double)t->sampled_ns * times);
		t->all_still_ns += (uint64_t)((double)t->still_ns * times);
		t->waited_ns = t->sampled_ns = t->still_ns = 0;
	}
}

void switches_go_on(struct switches *w, uint64_t time_ns)
{
	stand_until(w, time_ns);
	w->from_ns = time_ns;
	w->resting = false;
}

/* Each thread's sampled waits get the weight of all its waits. */
static void scale(struct switches *w)
{
	vec_each(x, &w->samples->list) {
		const struct thread_state *t = x->thread < w->threads.n ? &w->threads.v[x->thread] : NULL;
		if (t && t->all_sampled_ns && t->all_waited_ns > t->all_sampled_ns)
			x->weight =
				(uint64_t)((double)x->weight * ((double)t->all_waited_ns / (double)t->all_sampled_ns));
	}
	vec_each(t, &w->threads)
		w->facts.unseen_ns += t->all_sampled_ns ? 0 : t->all_waited_ns;
}

void switches_finish(struct switches *w, uint64_t end_ns)
{
	if (!w->resting)
		switches_rest(w, end_ns);
	stand_until(w, end_ns);
	for (uint32_t i = 0; i < w->threads.n; i++) {
		struct thread_state *t = &w->threads.v[i];
		/* Whenever we recorded, it did not run. */
		if (t->all_still_ns)
			add_wait(w, i, w->start_ns, w->start_ns + t->all_still_ns, t->still_stack,
				 t->still_kind | (t->ever_seen ? 0 : (unsigned)WAIT_WHOLE));
	}
	w->from_ns = end_ns; /* these are whole already */
	stand_until(w, end_ns);
	scale(w);
}

struct switches_facts switches_facts(const struct switches *w)
{
	return w->facts;
}
