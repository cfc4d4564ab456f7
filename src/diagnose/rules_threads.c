/* Suspicions about threads: the pool, locks, exceptions, how many there are. */

#include "base/fmt.h"
#include "diagnose/rules.h"
#include <math.h>

/* ---- the pool ---- */

/* Work that waits in every second of the window, as much as waits on average, or growth because threads block. A long
 * queue that moves is load. Growth counts where the pool's events are heard. */
static double starving(const struct vitals *v)
{
	const struct vital *queue = &v->of[VITALS_POOL_QUEUE];
	double waits = queue->min > 0 ? vitals_mean(v, VITALS_POOL_QUEUE) : 0;
	double grows = v->of[VITALS_POOL_STARVED].last;
	double seconds_behind = waits / MAX(vitals_mean(v, VITALS_POOL_DONE), 1.0);
	return MAX(MIN(seconds_behind, waits / 4), grows / 4);
}

static void say_starving(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	const struct vital *queue = &v->of[VITALS_POOL_QUEUE];
	buf_printf(out, "%s wait for one of %s pool threads",
		   fmt_plural((uint64_t)queue->last, "work item", "work items").s,
		   fmt_count((uint64_t)v->of[VITALS_POOL_THREADS].last).s);
	if (v->of[VITALS_POOL_STARVED].last > 0)
		buf_printf(out, ", and the pool grew %s because its threads are blocked",
			   fmt_plural((uint64_t)v->of[VITALS_POOL_STARVED].last, "time", "times").s);
}

static void queue_is(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "queue %s, %s threads", fmt_number(vitals_mean(v, VITALS_POOL_QUEUE)).s,
		   fmt_number(v->of[VITALS_POOL_THREADS].last).s);
}

static const char *const pool_findings[] = { "starvation", "workers-blocked", "many-blocked", "queue-latency", NULL };

/* Threads that do nothing but exist: workers far beyond the CPUs, while work is done by few. */
static double many_workers(const struct vitals *v)
{
	return v->of[VITALS_POOL_THREADS].last / MAX(vitals_mean(v, VITALS_CPU_USABLE) * 16, 32.0);
}

static void say_many_workers(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "the pool has %s threads for %s cores: many of them must be blocked",
		   fmt_count((uint64_t)v->of[VITALS_POOL_THREADS].last).s,
		   fmt_number(vitals_mean(v, VITALS_CPU_USABLE)).s);
}

static void workers(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)v->of[VITALS_POOL_THREADS].last).s);
}

/* ---- locks ---- */

static double lock_waiting(const struct vitals *v)
{
	return v->of[VITALS_LOCK_WAITING].last;
}

static void say_lock_waiting(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "on average %s threads wait for a lock, the longest for %s", fmt_number(measured).s,
		   fmt_duration_ns((uint64_t)v->of[VITALS_LOCK_LONGEST].last).s);
}

static void lock_waiters(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s threads wait for one", fmt_number(measured).s);
}

static const char *const lock_findings[] = { "convoy", "contention", "long-waits", NULL };

/* ---- exceptions ---- */

static double exceptions(const struct vitals *v)
{
	return vitals_mean(v, VITALS_EXCEPTIONS);
}

static void say_exceptions(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s exceptions a second are thrown", fmt_number(measured).s);
}

static void rate(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_str(out, fmt_rate(measured).s);
}

static const char *const exception_findings[] = { "many-exceptions", NULL };

/* ---- how many ---- */

static double threads(const struct vitals *v)
{
	return v->of[VITALS_THREADS].last;
}

static void say_threads(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "it has %s threads", fmt_count((uint64_t)measured).s);
}

static void count(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)measured).s);
}

/* Of those that came while we looked, and stayed. */
static double threads_growing(const struct vitals *v)
{
	const struct vital *n = &v->of[VITALS_THREADS];
	return n->last - n->first >= 5 && n->last >= n->max ? vitals_slope(v, VITALS_THREADS) : 0;
}

static void say_threads_growing(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	const struct vital *n = &v->of[VITALS_THREADS];
	buf_printf(out, "threads grew from %s to %s while it was looked at", fmt_count((uint64_t)n->first).s,
		   fmt_count((uint64_t)n->last).s);
}

static void threads_are(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s, steady", fmt_count((uint64_t)v->of[VITALS_THREADS].last).s);
}

static const char *const thread_findings[] = { "growing", "lost-pool-threads", "ended-threads-kept", NULL };

/* Each for a piece of work. Those that the pool adds are another sickness's. */
static double threads_new(const struct vitals *v)
{
	const struct vital *pool = &v->of[VITALS_POOL_THREADS];
	double seconds = (double)(v->end_ns - v->start_ns) / 1e9, pools = pool->n ? pool->last - pool->first : 0;
	return seconds > 0 ? (v->of[VITALS_THREADS_NEW].last - MAX(pools, 0.0)) / seconds : 0;
}

static void say_threads_new(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of its %s threads began while it was looked at",
		   fmt_count((uint64_t)v->of[VITALS_THREADS_NEW].last).s,
		   fmt_count((uint64_t)v->of[VITALS_THREADS].last).s);
}

static void new_ones(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)v->of[VITALS_THREADS_NEW].last).s);
}

static const char *const starters[] = { "threads-come-and-go", NULL };

static double on_disk(const struct vitals *v)
{
	return v->of[VITALS_THREADS_DISK].min;
}

static void say_on_disk(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s wait in the kernel for a device, without pause",
		   fmt_plural((uint64_t)measured, "thread", "threads").s);
}

const struct rule_table rules_threads = RULES({ .id = "pool-starved",
						.subject = "thread pool",
						.needs = { VITALS_POOL_QUEUE, VITALS_POOL_THREADS, VITALS_POOL_DONE },
						.n_needs = 3,
						.info = 0.25,
						.warning = 1,
						.measure = starving,
						.say = say_starving,
						.ruled_out = queue_is,
						.proof = "thread-pool",
						.proven = pool_findings,
						.next = "Run thread-pool: it names what blocks the threads." },
					      { .id = "pool-large",
						.subject = "pool threads",
						.needs = { VITALS_POOL_THREADS, VITALS_CPU_USABLE },
						.n_needs = 2,
						.info = 1,
						.warning = 4,
						.most = SCORE_ASIDE,
						.measure = many_workers,
						.say = say_many_workers,
						.ruled_out = workers,
						.proof = "thread-pool",
						.proven = pool_findings,
						.next = "Run thread-pool: it names what blocks the threads." },
					      { .id = "lock-contention",
						.subject = "locks",
						.needs = { VITALS_LOCK_WAITING, VITALS_LOCK_LONGEST },
						.n_needs = 2,
						.info = 0.5,
						.warning = 2,
						.measure = lock_waiting,
						.say = say_lock_waiting,
						.ruled_out = lock_waiters,
						.proof = "lock-contention",
						.proven = lock_findings,
						.next = "Run lock-contention: it names the lock and its holder." },
					      { .id = "exceptions-many",
						.subject = "exceptions",
						.needs = { VITALS_EXCEPTIONS },
						.n_needs = 1,
						.info = 1,
						.warning = 100,
						.measure = exceptions,
						.say = say_exceptions,
						.ruled_out = rate,
						.proof = "exceptions",
						.proven = exception_findings,
						.next = "Run exceptions: it names who throws what." },
					      { .id = "threads-many",
						.subject = "threads",
						.needs = { VITALS_THREADS },
						.n_needs = 1,
						.info = 500,
						.warning = 2000,
						.measure = threads,
						.say = say_threads,
						.ruled_out = count,
						.proof = "zombie-threads",
						.proven = thread_findings,
						.next = "Run zombie-threads." },
					      { .id = "threads-growing",
						.subject = "growth of threads",
						.needs = { VITALS_THREADS },
						.n_needs = 1,
						.info = 0.5,
						.warning = 5,
						.most = SCORE_ASIDE,
						.measure = threads_growing,
						.say = say_threads_growing,
						.ruled_out = threads_are,
						.proof = "zombie-threads",
						.proven = thread_findings,
						.next = "Run zombie-threads." },
					      { .id = "threads-new",
						.subject = "new threads",
						.needs = { VITALS_THREADS_NEW },
						.n_needs = 1,
						.info = 2, /* a second */
						.warning = 10,
						.most = SCORE_WARNING,
						.measure = threads_new,
						.say = say_threads_new,
						.ruled_out = new_ones,
						.proof = "loader",
						.proven = starters,
						.next = "Run loader: it names who starts threads." },
					      { .id = "threads-on-disk",
						.subject = "disk and file systems",
						.needs = { VITALS_THREADS_DISK },
						.n_needs = 1,
						.info = 1,
						.warning = 4,
						.measure = on_disk,
						.say = say_on_disk,
						.ruled_out = count,
						.proof = "off-cpu",
						.next = "Run off-cpu: it names the files." });
