#pragma once
/* Waits out of context switches: a thread leaves its cpu (a sample says where), comes back, and the time between is a
 * wait of some kind with a stack. Gets records in order of time; bounded by the number of threads.
 *
 * When switches are so many that only every n-th is sampled, all are still timed: the waits that were sampled then
 * stand for all of their thread. When they are more still, it is listened only for short times, and what was heard in
 * one stands for the time until the next. */

#include "sampling/samples.h"

/* The kind of a sample; WAIT_WHOLE is added for waits that lasted as long as we looked. */
enum wait_kind {
	WAIT_CPU = 1, /* able to run, but others had the cpus */
	WAIT_LOCK,
	WAIT_EVENT,
	WAIT_SLEEP,
	WAIT_FILE,
	WAIT_SOCKET,
	WAIT_PIPE,
	WAIT_POLL,
	WAIT_FAULT,
	WAIT_CHILD,
	WAIT_OTHER,
	WAIT_GC, /* until a collection was over, see gc_marks.h */
	WAIT_KINDS,
	WAIT_WHOLE = 32,
};
const char *wait_kind_words(enum wait_kind kind); /* "a lock", "a socket" ... */
/* From the names of the frames. `system_call` is that of the thread, -1 when not known (then kernel frames tell). */
enum wait_kind wait_kind_of(const struct samples *s, uint32_t stack, long system_call);

struct switches;
struct switches *switches_new(struct samples *samples, uint64_t start_ns);
void switches_free(struct switches *w);
DEFINE_CLEANUP(switches_free, struct switches *)
void switches_started(struct switches *w, uint64_t start_ns);
/* What a thread was waiting in when we began to look. */
void switches_before(struct switches *w, uint32_t thread, uint32_t stack, enum wait_kind kind);
void switches_sample(struct switches *w, uint32_t thread, uint64_t time_ns, uint32_t stack);
void switches_switch(struct switches *w, uint32_t thread, uint64_t time_ns, bool out, bool preempted);
/* It ran in the window, though that may not have been heard. */
void switches_moved(struct switches *w, uint32_t thread);
/* Listening pauses, and goes on: what happens in between is not known. Threads are looked at again (switches_before)
 * just before it goes on. */
void switches_rest(struct switches *w, uint64_t time_ns);
void switches_go_on(struct switches *w, uint64_t time_ns);
/* Ends what still waits, and lets the sampled waits stand for all. */
void switches_finish(struct switches *w, uint64_t end_ns);

struct switches_facts {
	uint64_t switches, waits, with_stack; /* waits: ended or cut by the window's end */
	uint64_t listened_ns;		      /* of the window */
	uint64_t unseen_ns;		      /* waited by threads of which no wait has a stack */
};
struct switches_facts switches_facts(const struct switches *w);
