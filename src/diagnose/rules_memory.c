/* Suspicions about memory: what the GC costs, what grows, what comes near a limit. */

#include "base/clock.h"
#include "base/fmt.h"
#include "diagnose/rules.h"
#include <math.h>

#define MB (1024.0 * 1024)
#define MUCH_ALLOCATED (100 * MB) /* a second */

/* ---- the collector ---- */

static double paused(const struct vitals *v)
{
	return v->of[VITALS_GC_PAUSED].last;
}

static void say_paused(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "garbage collection stops everything for %s of the time", fmt_percent(measured).s);
	/* From there on that is a suspicion of its own. */
	if (vitals_has(v, VITALS_ALLOCATED) && vitals_mean(v, VITALS_ALLOCATED) < MUCH_ALLOCATED)
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

/* Full collections a second; 0 where code asked for most of them, which is another rule. */
static double full(const struct vitals *v)
{
	double seconds = (double)(v->end_ns - v->start_ns) / 1e9, all = v->of[VITALS_GCS_FULL].last;
	double asked = seconds > 0 && vitals_has(v, VITALS_GCS_INDUCED) ? v->of[VITALS_GCS_INDUCED].last / seconds : 0;
	return asked > all / 2 ? 0 : all;
}

static void say_full(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s full garbage collections a second", fmt_number(measured).s);
	if (vitals_has(v, VITALS_GCS))
		buf_printf(out, ", of %s in all", fmt_number(v->of[VITALS_GCS].last).s);
}

static void each_second(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s a second", fmt_number(measured).s);
}

static const char *const allocating_findings[] = { "high-allocation-rate", "large-objects", NULL };

static double allocating(const struct vitals *v)
{
	return vitals_mean(v, VITALS_ALLOCATED);
}

static void say_allocating(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s/s are allocated", fmt_bytes((uint64_t)measured).s);
}

static void allocated(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s/s", fmt_bytes((uint64_t)MAX(measured, 0.0)).s);
}

/* ---- holes ---- */

/* Bytes that stay free between what is alive, in every second; not where they are the smaller part. */
static double holes(const struct vitals *v)
{
	double share = v->of[VITALS_FRAGMENTED].min;
	return share < 0.5 ? 0 : share * v->of[VITALS_HEAP_COMMITTED].min;
}

static void say_holes(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of the managed heap are holes between what is alive, %s",
		   fmt_percent(v->of[VITALS_FRAGMENTED].min).s, fmt_bytes((uint64_t)measured).s);
}

static void holes_are(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_str(out, fmt_percent(v->of[VITALS_FRAGMENTED].min).s);
}

static const char *const hole_findings[] = { "fragmented", NULL };

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

/* A second, at the end as at the beginning: what a program loads when it starts ends. */
static double assemblies(const struct vitals *v)
{
	const struct vital *n = &v->of[VITALS_ASSEMBLIES];
	size_t half = n->points.n / 2;
	if (half < 2 || n->last - n->points.v[half].value < 2 || n->points.v[half].value - n->first < 2)
		return 0;
	return MAX(vitals_slope(v, VITALS_ASSEMBLIES), 0.0);
}

static void say_assemblies(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	const struct vital *n = &v->of[VITALS_ASSEMBLIES];
	buf_printf(out, "more and more assemblies are loaded: %s, %s more than when the look began",
		   fmt_count((uint64_t)n->last).s, fmt_count((uint64_t)(n->last - n->first)).s);
}

static void assemblies_are(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)v->of[VITALS_ASSEMBLIES].last).s);
}

static const char *const loads[] = { "assemblies-stay", "contexts-leak", "contexts-pile-up", "dynamic-code-grows",
				     NULL };

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
	      { .id = "gc-full",
		.subject = "full collections",
		.needs = { VITALS_GCS_FULL },
		.n_needs = 1,
		.info = 0.5, /* a second */
		.warning = 3,
		.most = SCORE_WARNING, /* serious only if an examination says so */
		.measure = full,
		.say = say_full,
		.ruled_out = each_second,
		.proof = "allocations",
		.proven = allocating_findings,
		.next = "Run gc-stats, and allocations: who makes large objects?" },
	      { .id = "allocating",
		.subject = "allocation",
		.needs = { VITALS_ALLOCATED },
		.n_needs = 1,
		.info = MUCH_ALLOCATED,
		.warning = 500 * MB,
		.most = SCORE_WARNING - 1, /* to allocate is no sickness by itself */
		.measure = allocating,
		.say = say_allocating,
		.ruled_out = allocated,
		.proof = "allocations",
		.proven = allocating_findings,
		.next = "Run allocations: it names who allocates what." },
	      { .id = "heap-holes",
		.subject = "holes in the heap",
		.needs = { VITALS_FRAGMENTED, VITALS_HEAP_COMMITTED },
		.n_needs = 2,
		.info = 20 * MB,
		.warning = 200 * MB,
		.measure = holes,
		.say = say_holes,
		.ruled_out = holes_are,
		.proof = "heap-stats",
		.proven = hole_findings,
		.next = "Run heap-stats, and gc-survivors: what is pinned, or large and old, between the holes?" },
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
	      { .id = "assemblies-growing",
		.subject = "loaded assemblies",
		.needs = { VITALS_ASSEMBLIES },
		.n_needs = 1,
		.info = 0.3, /* a second */
		.warning = 2,
		.most = SCORE_WARNING,
		.measure = assemblies,
		.say = say_assemblies,
		.ruled_out = assemblies_are,
		.proof = "loader",
		.proven = loads,
		.next = "Run loader: it names who loads what again and again." },
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
