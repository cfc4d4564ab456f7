#pragma once
/* Lock contention: the collector (lock_contention.c), the report (lock_contention_report.c), and what one look into memory
 * adds to it (lock_contention_known.c). */

#include "base/map.h"
#include "base/vec.h"
#include "model/dist.h"
#include "exam/counted_events.h"
#include "exam/thread_names.h"
#include "knowledge/knowledge.h"
#include "report/report.h"

#define LOCK_NONE UINT32_MAX

/* One wait that ended, or that was open at the end of the window. */
struct lock_wait {
	uint64_t start_ns, end_ns; /* by the events */
	uint64_t length_ns;	   /* by the runtime, where it says so */
	uint32_t thread, owner;	   /* owner: who had the lock when the wait began; 0 = unknown */
	uint32_t lock, stack;	   /* stack: STACKS_NONE where it was not seen */
	bool open;
};

/* A lock that was waited for. Its sums are exact, also of waits that are not kept one by one. */
struct lock {
	uint64_t id;
	uint64_t object; /* that it belongs to: its address when the runtime last told of it, or 0 */
	uint32_t thing;	 /* the same in the look; SNAPSHOT_NONE = not found there */
	uint64_t waits, sum_ns, max_ns;
	/* The queue behind it, while the collector runs. */
	uint32_t waiters, max_waiters;
	uint64_t changed_ns;	/* when waiters last changed */
	uint64_t queue_ns;	/* how long two or more waited at once */
	uint64_t hand_overs;	/* a wait ended for another thread than the last one */
	uint32_t last_acquirer; /* 0 = none yet */
};

/* A thread that waits, or waited. */
struct lock_thread {
	uint64_t start_ns;
	uint32_t tid, owner, lock; /* lock: LOCK_NONE when it does not wait */
};

/* A wait's beginning in the stream with stacks. */
struct lock_start {
	uint64_t time_ns;
	uint32_t thread, stack, lock;
};

struct locks {
	VEC(struct lock) list;
	struct map_u64 by_id; /* -> index + 1 */
	VEC(struct lock_thread) threads;
	struct map_u64 by_tid; /* -> index + 1 */
	VEC(struct lock_wait) waits;
	VEC(struct lock_start) starts;
	struct dist *lengths;
	uint64_t before, before_ns;  /* waits that ended in the window but began before it, or between two bursts */
	uint64_t not_kept, unpaired; /* beyond our limits; begun twice without an end */
	struct thread_names names;
	struct counted_events events;
	uint32_t burst; /* of the stream that counts: the one that events now come from */
	struct knowledge known;
};

/* Threads that waited all the time for the same lock in the same place. */
struct lock_held {
	uint32_t thing, site; /* SNAPSHOT_NONE = not known */
	uint32_t thread, n;   /* thread: one of them */
};
VEC_TYPE(lock_held_list, struct lock_held);

/* Puts the stacks to their waits. Waits of one thread are one after the other, and the runtime tells both streams of a start
 * before the wait ends: a start belongs to the first wait that had not ended yet. */
void locks_join(struct locks *l);
/* The method of the user's own code that a stack is in. */
const char *locks_method(struct locks *l, uint32_t stack);

/* Out of the look: what each lock is. */
void locks_find_things(struct locks *l);
/* The name of the field that holds it; false = not known. */
bool locks_add_name(const struct locks *l, uint32_t lock, struct rich *text);
/* A sentence on who had it and what that thread did; nothing when that is not known. */
void locks_add_holder(const struct locks *l, uint32_t lock, struct rich *text);
void locks_add_known_line(const struct locks *l, uint32_t lock, struct report_row *row);
/* Threads that waited for a lock since before the window and still do; most first. Returns how many. */
uint32_t locks_find_held(const struct locks *l, struct lock_held_list *ret);
void locks_say_held(const struct locks *l, const struct lock_held_list *held, uint32_t n, struct rich *text);
void locks_add_held(const struct locks *l, const struct lock_held_list *held, struct report *report);
struct err *locks_analyse(struct exam *exam, struct report *report) MUST_USE;
