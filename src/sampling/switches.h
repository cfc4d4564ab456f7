#pragma once
/* Waits from context switches: a thread leaves its cpu (a sample says where), comes back, and the time between is a
 * wait of some kind with a stack. Gets records in order of time; bounded by the number of threads.
 *
 * When there are so many switches that only every n-th is sampled, all are still timed: the sampled waits then
 * represent all waits of their thread. When there are still more, switches are recorded only for short times, and what
 * was recorded in one represents the time until the next. */

#include "sampling/samples.h"

/* The kind of a sample; WAIT_WHOLE is added for waits that lasted for the whole window. */
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
	WAIT_GC, /* until a collection was over, see gc_frames.h */
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
/* What a thread was waiting in when recording began. */
void switches_before(struct switches *w, uint32_t thread, uint32_t stack, enum wait_kind kind);
void switches_sample(struct switches *w, uint32_t thread, uint64_t time_ns, uint32_t stack);
void switches_switch(struct switches *w, uint32_t thread, uint64_t time_ns, bool out, bool preempted);
/* It ran in the window, though no switch of it may have been recorded. */
void switches_moved(struct switches *w, uint32_t thread);
/* Recording pauses, and continues: what happens in between is not known. Threads are looked at again (switches_before)
 * just before it continues. */
void switches_rest(struct switches *w, uint64_t time_ns);
void switches_go_on(struct switches *w, uint64_t time_ns);
/* Ends waits that are still open, and scales the sampled waits to all. */
void switches_finish(struct switches *w, uint64_t end_ns);

struct switches_facts {
	uint64_t switches, waits, with_stack; /* waits: ended or cut by the window's end */
	uint64_t listened_ns;		      /* of the window */
	uint64_t unseen_ns;		      /* waited by threads of which no wait has a stack */
};
struct switches_facts switches_facts(const struct switches *w);
