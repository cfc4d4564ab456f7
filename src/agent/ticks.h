#pragma once
/* Ticks: a timer for each thread on its own CPU clock, and a signal handler that records where the thread is. Where
 * only calls that the runtime makes are allowed, there are no timers: our thread reads the clocks of all threads, and
 * sends the signal to those that have used their time and run.
 *
 * The handler copies registers and a piece of the stack, and nothing else: they are interpreted elsewhere. It takes no
 * lock, allocates nothing, and reads the stack through the kernel, so that it cannot fault. It runs on the thread's own
 * stack: the alternate one may hold the context of a fault that the runtime is just handling. All other functions are
 * for the library's own thread. */

#include "agent/agent.h"

#define TICKS_SLOTS 256	   /* samples that wait to be sent */
#define TICKS_THREADS 8192 /* timers */
#define TICKS_BUCKETS 4096

/* As rt_sigaction takes it. */
struct ticks_action {
	void (*handler)(int signal, void *info, void *context);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* One thread and its timer; the handler finds it by the timer's value. */
struct ticks_thread {
	int32_t tid; /* 0 = free */
	int32_t timer;
	uint16_t next; /* in its bucket */
	bool timed, seen;
	uint8_t looks;	  /* at one that had no timer */
	bool asked;	  /* without timers: the signal was sent and not yet handled */
	uint64_t cpu_ns;  /* its CPU clock at its last sample */
	uint64_t wait_ns; /* without timers: of CPU time until the next */
	uint64_t random;  /* never 0 */
};

struct ticks_slot {
	struct wire_agent_sample head;
	uint8_t stack[WIRE_AGENT_STACK_MAX];
};

struct ticks {
	/* For the handlers, too. */
	uint64_t taken[TICKS_SLOTS / 64], ready[TICKS_SLOTS / 64]; /* slots; those that are complete */
	struct ticks_slot *slots;
	struct ticks_thread *threads;
	uint32_t inside; /* handlers that run */
	uint32_t stack_bytes;
	uint64_t handler_ns, handler_max_ns, handled, dropped;
	int32_t pid;
	int memory_fd;
	bool on, plain; /* plain: no timers */
	bool by_file;	/* process_vm_readv is forbidden */
	struct ticks_action before;
	/* For our thread. */
	uint16_t buckets[TICKS_BUCKETS], n_threads, free;
	int32_t self;
	int signal;
	uint64_t period_ns, scan_at_ns, ask_at_ns, timers, untimed;
	bool first, chained;
	long why_not; /* the error of the last timer that could not be made */
	/* Called for each thread when it is first seen, with its CPU clock then. */
	void (*on_thread)(void *user, int32_t tid, uint64_t cpu_ns);
	void *user;
};

/* On zeroed memory, with period_ns, stack_bytes, plain, on_thread and user filled in. 0, or a negative errno: then
 * nothing was left behind. */
long ticks_start(struct ticks *t);
/* Looks for new threads when it is time, and without timers at all clocks. */
void ticks_turn(struct ticks *t);
/* Until the next turn, at most. */
uint64_t ticks_wait_ms(const struct ticks *t);
/* Sends each complete sample, until send() returns false. */
bool ticks_drain(struct ticks *t, bool (*send)(void *user, const struct ticks_slot *slot), void *user);
/* When it returns, no timer is left, no handler runs, and the signal is what it was before. */
void ticks_stop(struct ticks *t);
