/* Lock contention: threads that wait for a lock that another thread holds.
 *
 * Two streams. "counts" has the begin and end of every wait, without stacks. "stacks" has the begins with stacks and is
 * open in bursts where waits are many. They are joined by thread and time. Before .NET 9 the runtime cannot leave the
 * stacks out: there is one stream, and at very high rates its bursts are an estimate of the counts too. */

#include "profilers/lock_contention.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define LOCKS_MAX 100000
#define THREADS_MAX 100000
#define WAITS_MAX 1000000 /* kept one by one: 40 MB */
#define STARTS_MAX 500000
/* Each wait is two events; a stack costs the target some microseconds. */
#define BURST_RATE 4000.0
#define BURST_SHARE 0.05
#define OLD_BURST_RATE 20000.0
#define OLD_BURST_SHARE 0.20

/* The same begin of a wait is sent to both streams within one call, unless its thread is descheduled in between. */
#define JOIN_NS (20 * NS_PER_MS)

static struct lock *lock_of(struct locks *l, uint64_t id)
{
	uint64_t *index = map_u64_get(&l->by_id, id);
	if (!index) {
		if (l->list.n >= LOCKS_MAX)
			return NULL;
		vec_push(&l->list, ((struct lock){ .id = id, .thing = SNAPSHOT_NONE }));
		index = map_u64_put(&l->by_id, id, NULL);
		*index = l->list.n;
	}
	return &l->list.v[*index - 1];
}

static struct lock_thread *thread_of(struct locks *l, uint64_t tid)
{
	uint64_t *index = map_u64_get(&l->by_tid, tid);
	if (!index) {
		if (l->threads.n >= THREADS_MAX)
			return NULL;
		vec_push(&l->threads, ((struct lock_thread){ .tid = (uint32_t)tid, .lock = LOCK_NONE }));
		index = map_u64_put(&l->by_tid, tid, NULL);
		*index = l->threads.n;
	}
	return &l->threads.v[*index - 1];
}

static void waiters_change(struct lock *lock, uint64_t now, int by)
{
	if (lock->waiters >= 2 && now > lock->changed_ns)
		lock->queue_ns += now - lock->changed_ns;
	lock->changed_ns = now;
	lock->waiters += (uint32_t)by;
	lock->max_waiters = MAX(lock->max_waiters, lock->waiters);
}

/* The thread's wait is over, or cut by the end of the window. */
static void wait_ends(struct locks *l, struct lock_thread *t, uint64_t now, uint64_t length_ns, bool open)
{
	struct lock *lock = &l->list.v[t->lock];
	waiters_change(lock, now, -1);
	lock->waits++;
	lock->sum_ns += length_ns;
	lock->max_ns = MAX(lock->max_ns, length_ns);
	if (!open) {
		lock->hand_overs += lock->last_acquirer && lock->last_acquirer != t->tid;
		lock->last_acquirer = t->tid;
	}
	dist_add(l->lengths, length_ns);
	if (l->waits.n < WAITS_MAX)
		vec_push(&l->waits, ((struct lock_wait){ .start_ns = t->start_ns,
							 .end_ns = now,
							 .length_ns = length_ns,
							 .thread = t->tid,
							 .owner = t->owner,
							 .lock = t->lock,
							 .stack = STACKS_NONE,
							 .open = open }));
	else
		l->not_kept++;
	t->lock = LOCK_NONE;
}

static void on_start(struct locks *l, const struct nettrace_event *event)
{
	struct clr_contention c;
	struct lock_thread *t = thread_of(l, event->thread_id);
	if (!clr_decode_contention_start(event, &c) || !t)
		return;
	if (t->lock != LOCK_NONE) { /* its end was lost, or fell between two bursts */
		waiters_change(&l->list.v[t->lock], event->time, -1);
		t->lock = LOCK_NONE;
		l->unpaired++;
	}
	struct lock *lock = lock_of(l, c.lock);
	if (!lock) {
		l->not_kept++;
		return;
	}
	waiters_change(lock, event->time, 1);
	lock->object = c.object;
	t->lock = (uint32_t)(lock - l->list.v);
	t->owner = (uint32_t)c.owner;
	t->start_ns = event->time;
}

static void on_stop(struct locks *l, const struct nettrace_event *event, uint64_t window_start_ns)
{
	struct lock_thread *t = thread_of(l, event->thread_id);
	uint64_t length_ns = 0;
	if (!t)
		return;
	bool told = clr_decode_contention_stop(event, &length_ns);
	if (t->lock == LOCK_NONE) {
		l->before++;
		uint64_t heard_ns = event->time > window_start_ns ? event->time - window_start_ns : 0;
		l->before_ns += MIN(length_ns, heard_ns);
		return;
	}
	if (!told)
		length_ns = event->time - MIN(t->start_ns, event->time);
	wait_ends(l, t, event->time, length_ns, false);
}

/* What happened between bursts is not known: no wait continues from one burst to the next. */
static void new_burst(struct locks *l, uint64_t now)
{
	vec_each(t, &l->threads) {
		l->unpaired += t->lock != LOCK_NONE;
		t->lock = LOCK_NONE;
	}
	vec_each(lock, &l->list) {
		lock->waiters = lock->last_acquirer = 0;
		lock->changed_ns = now;
	}
}

static void on_count(void *user, const struct nettrace_event *event)
{
	struct exam *exam = user;
	struct locks *l = exam->state;
	uint32_t burst = counted_events_by(&l->events)->opened;
	if (l->burst != burst) {
		l->burst = burst;
		new_burst(l, event->time);
	}
	if (clr_event(event) == CLR_CONTENTION_START)
		on_start(l, event);
	else if (clr_event(event) == CLR_CONTENTION_STOP)
		on_stop(l, event, exam->start_ns);
}

static void on_stack(void *user, const struct nettrace_event *event)
{
	struct locks *l = ((struct exam *)user)->state;
	struct clr_contention c;
	if (clr_event(event) != CLR_CONTENTION_START || !clr_decode_contention_start(event, &c))
		return;
	uint32_t stack = stacks_add(l->events.stacks, event);
	const struct lock *lock = lock_of(l, c.lock);
	if (stack == STACKS_NONE || !lock || l->starts.n >= STARTS_MAX)
		return;
	vec_push(&l->starts, ((struct lock_start){ .time_ns = event->time,
						   .thread = (uint32_t)event->thread_id,
						   .stack = stack,
						   .lock = (uint32_t)(lock - l->list.v) }));
}

static void locks_free(void *state)
{
	struct locks *l = state;
	vec_free(&l->list);
	vec_free(&l->threads);
	vec_free(&l->waits);
	vec_free(&l->starts);
	map_u64_free(&l->by_id);
	map_u64_free(&l->by_tid);
	dist_free(l->lengths);
	counted_events_fini(&l->events);
	thread_names_free(&l->names);
	knowledge_fini(&l->known);
	mem_free(l);
}

/* A wait that is open when the window ends has lasted so long at least. In bursts that is not known. */
static void close_open_waits(struct locks *l, const struct exam *exam)
{
	bool bursts = counted_events_by(&l->events)->bursting;
	vec_each(t, &l->threads) {
		if (t->lock == LOCK_NONE)
			continue;
		if (bursts) {
			l->unpaired++;
			t->lock = LOCK_NONE;
		} else {
			wait_ends(l, t, exam->end_ns, exam->end_ns - MIN(t->start_ns, exam->end_ns), true);
		}
	}
}

static struct err *run(struct exam *exam)
{
	static const struct ipc_provider contention = { .name = CLR_PROVIDER, .keywords = CLR_CONTENTION, .level = 4 };
	struct locks *l = exam->state = mem_zalloc(sizeof(*l));
	l->lengths = dist_new(WAITS_MAX / 10);
	counted_events_init(&l->events, exam);
	thread_names_look(&l->names, exam);
	knowledge_begin(exam, &l->known);
	bool old = l->events.old;
	TRY(counted_events_run(&l->events, exam,
			       &(struct counted_wanted){ .provider = &contention,
							 .burst_rate = old ? OLD_BURST_RATE : BURST_RATE,
							 .burst_share = old ? OLD_BURST_SHARE : BURST_SHARE,
							 .count = on_count,
							 .stack = on_stack,
							 .user = exam }));
	if (!exam->replay)
		thread_names_look(&l->names, exam);
	thread_names_save(&l->names, exam);
	close_open_waits(l, exam);
	knowledge_look(exam, &(struct knowledge_wanted){ 0 }, &l->known);
	return counted_events_names(&l->events, exam);
}

static int wait_by_thread_and_time(const void *a, const void *b)
{
	const struct lock_wait *x = a, *y = b;
	return CMP(x->thread, y->thread) ?: CMP(x->start_ns, y->start_ns);
}

static int start_by_thread_and_time(const void *a, const void *b)
{
	const struct lock_start *x = a, *y = b;
	return CMP(x->thread, y->thread) ?: CMP(x->time_ns, y->time_ns);
}

static bool is_over(const struct lock_wait *w, const struct lock_start *s)
{
	return w->thread < s->thread || (w->thread == s->thread && w->end_ns < s->time_ns);
}

void locks_join(struct locks *l)
{
	vec_sort(&l->waits, wait_by_thread_and_time);
	vec_sort(&l->starts, start_by_thread_and_time);
	size_t w = 0;
	vec_each(s, &l->starts) {
		while (w < l->waits.n && is_over(&l->waits.v[w], s))
			w++;
		struct lock_wait *wait = w < l->waits.n ? &l->waits.v[w] : NULL;
		if (wait && wait->thread == s->thread && wait->lock == s->lock && wait->start_ns < s->time_ns + JOIN_NS)
			wait->stack = s->stack;
	}
}

const struct profiler profiler_lock_contention = {
	.id = "lock-contention",
	.uuid = "7E5A8046-D8C3-44AB-A91E-CA3648928E92",
	.name = "Lock contention",
	.chapter = CHAPTER_CPU,
	.label = "Slow under load",
	.symptom = "slow under load though the CPU is not busy; threads wait for each other",
	.description =
		"Measures every wait for a lock (lock, Monitor, System.Threading.Lock) that another thread has: by "
		"lock and by the method that waits, for how long, behind whom, and whether threads queue up. One look "
		"into memory at the end names the locks and what their holders do, and sees threads that waited all "
		"the time.",
	.cost = LOOK_COST "; two small events a wait, stacks only in bursts when waits are many",
	.params =
		(const struct param[]){
			PARAM_DURATION("10"),
			PARAM_NO_LOOK,
			PARAM_LOOK_PAUSE,
		},
	.n_params = 3,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "convoy",
			  "Hold that lock for less time: move the slow work (I/O, logging, Sleep, allocation of large "
			  "buffers) out of it, or split what it guards so that threads meet less often." },
			{ "contention", "Look at what the owner does while it has the lock, and do less of it there; "
					"read-mostly data "
					"wants an immutable copy or a ConcurrentDictionary instead." },
			{ "long-waits",
			  "Look at what the owner does while it has the lock: single waits this long come from I/O, a "
			  "blocking call or a pause of the process inside it." },
			{ "lock-held", "Look at what the holder does: nobody goes on before it gives the lock back. "
				       "deadlocks says whether it ever will." },
		},
	.n_advice = 4,
	.runs = (const struct advice_run[]){ { "lock-held", "deadlocks" }, { 0 } },
	.run = run,
	.analyse = locks_analyse,
	.free_state = locks_free,
};
