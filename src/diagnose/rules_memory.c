/* Suspicions about memory: what the GC costs, what grows, what comes near a limit. */

#include "base/clock.h"
#include "base/fmt.h"
#include "diagnose/rules.h"
#include <math.h>

#define MB (1024.0 * 1024)

/* ---- the collector ---- */

static double paused(const struct vitals *v)
{
	return v->of[VITALS_GC_PAUSED].last;
}

static void say_paused(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "garbage collection stops everything for %s of the time", fmt_percent(measured).s);
	if (vitals_has(v, VITALS_ALLOCATED))
		buf_printf(out, ", and %s/s are allocated", fmt_bytes((uint64_t)vitals_mean(v, VITALS_ALLOCATED)).s);
}

static void share_of_time(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s of the time", fmt_percent(measured).s);
}

static const char *const gc_findings[] = { "induced-collections",  "much-time-in-gc", "frequent-full-collections",
					   "frequent-collections", "fragmented-heap", NULL };

static double longest(const struct vitals *v)
{
	return v->of[VITALS_GC_LONGEST].last / NS_PER_MS;
}

static void say_longest(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "one garbage collection stopped everything for %s",
		   fmt_duration_ns((uint64_t)v->of[VITALS_GC_LONGEST].last).s);
}

static void longest_was(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	if (v->of[VITALS_GC_LONGEST].last > 0)
		buf_printf(out, "the longest %s", fmt_duration_ns((uint64_t)v->of[VITALS_GC_LONGEST].last).s);
	else
		buf_str(out, "none");
}

static const char *const pauses[] = {
	"induced-collections",	"long-pauses", "long-young-pauses", "frequent-pauses", "slow-to-stop",
	"frequent-full-pauses", NULL
};

/* As many as the window has seconds is once a second. */
static double induced(const struct vitals *v)
{
	double seconds = (double)(v->end_ns - v->start_ns) / NS_PER_S;
	return seconds > 0 ? v->of[VITALS_GCS_INDUCED].last / seconds : 0;
}

static void say_induced(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "code asks for garbage collections (GC.Collect): %s in the window",
		   fmt_count((uint64_t)v->of[VITALS_GCS_INDUCED].last).s);
}

static void asked_for(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)v->of[VITALS_GCS_INDUCED].last).s);
}

static const char *const induced_findings[] = { "induced-collections", NULL };

/* ---- growth ---- */

/* Bytes a second, of what collections leave behind; where there were too few of them, of the heap itself. A window of
 * seconds cannot tell a leak from a cache that fills: this only asks for the looks that can. */
static double growing(const struct vitals *v)
{
	double old = v->of[VITALS_HEAP_OLD].points.n >= 3 ? vitals_slope(v, VITALS_HEAP_OLD) : NAN;
	double heap = vitals_slope(v, VITALS_HEAP), anon = vitals_slope(v, VITALS_RSS_ANON);
	/* The heap grows between two collections by itself: then the process's memory must grow as well. */
	double both = MIN(isnan(heap) ? 0 : heap, isnan(anon) ? 0 : anon);
	return MAX(isnan(old) ? both : old, 0.0);
}

static void say_growing(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "the managed heap grows by %s/s and is %s now", fmt_bytes((uint64_t)measured).s,
		   fmt_bytes((uint64_t)v->of[VITALS_HEAP].last).s);
}

static void heap_is(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s, flat", fmt_bytes((uint64_t)v->of[VITALS_HEAP].last).s);
}

static const char *const leaks[] = { "leak", "leak-without-holder", "grows-elsewhere", "finalizers-behind", NULL };

/* Memory that is neither heap nor file. */
static double native_growing(const struct vitals *v)
{
	double anon = vitals_slope(v, VITALS_RSS_ANON), committed = vitals_slope(v, VITALS_HEAP_COMMITTED);
	double heap = committed > 0 ? committed : 0;
	return anon > heap ? anon - heap : 0;
}

static void say_native_growing(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "memory outside of the managed heap grows by %s/s; %s are resident",
		   fmt_bytes((uint64_t)measured).s, fmt_bytes((uint64_t)v->of[VITALS_RSS].last).s);
}

static void resident(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s resident", fmt_bytes((uint64_t)v->of[VITALS_RSS].last).s);
}

/* ---- limits ---- */

static double near_limit(const struct vitals *v)
{
	return v->of[VITALS_MEMORY_USED].last / v->of[VITALS_MEMORY_LIMIT].last;
}

static void say_near_limit(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of its memory limit of %s are used", fmt_percent(measured).s,
		   fmt_bytes((uint64_t)v->of[VITALS_MEMORY_LIMIT].last).s);
}

static void of_limit(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of %s", fmt_percent(measured).s, fmt_bytes((uint64_t)v->of[VITALS_MEMORY_LIMIT].last).s);
}

static double pressure(const struct vitals *v)
{
	return vitals_mean(v, VITALS_MEMORY_PRESSURE);
}

static void say_pressure(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "somebody in its group waited for memory for %s of the time", fmt_percent(measured).s);
}

static double swapped(const struct vitals *v)
{
	return v->of[VITALS_SWAP].last / MAX(v->of[VITALS_RSS].last, 1.0);
}

static void say_swapped(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of its memory are swapped out", fmt_bytes((uint64_t)v->of[VITALS_SWAP].last).s);
}

static void swap_is(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	if (v->of[VITALS_SWAP].last > 0)
		buf_str(out, fmt_bytes((uint64_t)v->of[VITALS_SWAP].last).s);
	else
		buf_str(out, "none");
}

const struct rule_table rules_memory =
	RULES({ .id = "gc-pressure",
		.subject = "time in GC",
		.needs = { VITALS_GC_PAUSED },
		.n_needs = 1,
		.info = 0.05,
		.warning = 0.10,
		.measure = paused,
		.say = say_paused,
		.ruled_out = share_of_time,
		.proof = "gc-stats",
		.proven = gc_findings,
		.next = "Run gc-stats and allocations." },
	      { .id = "gc-long-pause",
		.subject = "GC pauses",
		.needs = { VITALS_GC_LONGEST },
		.n_needs = 1,
		.info = 100, /* ms */
		.warning = 500,
		.measure = longest,
		.say = say_longest,
		.ruled_out = longest_was,
		.proof = "runtime-pauses",
		.proven = pauses,
		.next = "Run runtime-pauses." },
	      { .id = "gc-induced",
		.subject = "collections asked for by code",
		.needs = { VITALS_GCS_INDUCED },
		.n_needs = 1,
		.info = 0.2,
		.warning = 1,
		.most = SCORE_WARNING, /* serious only if an examination says so */
		.measure = induced,
		.say = say_induced,
		.ruled_out = asked_for,
		.proof = "gc-stats",
		.proven = induced_findings,
		.next = "Run gc-stats: it names who asks." },
	      { .id = "memory-growing",
		.subject = "managed memory",
		.needs = { VITALS_HEAP, VITALS_RSS_ANON },
		.n_needs = 2,
		.info = 0.1 * MB, /* a second */
		.warning = 20 * MB,
		.most = SCORE_WARNING - 1, /* a window of seconds proves no leak */
		.measure = growing,
		.say = say_growing,
		.ruled_out = heap_is,
		.proof = "memory-leaks",
		.proven = leaks,
		.next = "Run memory-leaks: it looks several times and names what grows." },
	      { .id = "native-growing",
		.subject = "memory outside of the managed heap",
		.needs = { VITALS_RSS_ANON, VITALS_HEAP_COMMITTED },
		.n_needs = 2,
		.info = 1 * MB,
		.warning = 20 * MB,
		.most = SCORE_ASIDE,
		.measure = native_growing,
		.say = say_native_growing,
		.ruled_out = resident,
		.proof = "memory-leaks",
		.proven = leaks,
		.next = "Run memory-leaks for longer." },
	      { .id = "memory-limit",
		.subject = "memory limit",
		.needs = { VITALS_MEMORY_LIMIT, VITALS_MEMORY_USED },
		.n_needs = 2,
		.info = 0.8,
		.warning = 0.95,
		.measure = near_limit,
		.say = say_near_limit,
		.ruled_out = of_limit,
		.proof = "memory-leaks",
		.proven = leaks,
		.next = "Raise the limit before the kernel kills it, and run heap-stats for what the memory is." },
	      { .id = "memory-pressure",
		.subject = "waiting for memory",
		.needs = { VITALS_MEMORY_PRESSURE },
		.n_needs = 1,
		.info = 0.05,
		.warning = 0.2,
		.measure = pressure,
		.say = say_pressure,
		.ruled_out = share_of_time,
		.next = "Give its group more memory, or use less." },
	      { .id = "swapped-out",
		.subject = "swap",
		.needs = { VITALS_SWAP, VITALS_RSS },
		.n_needs = 2,
		.info = 0.2,
		.warning = 1,
		.most = SCORE_ASIDE,
		.measure = swapped,
		.say = say_swapped,
		.ruled_out = swap_is,
		.next = "Give the machine more memory, or switch swap off for it." });
