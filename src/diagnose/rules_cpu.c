/* Suspicions about the CPU: used up, forbidden by a limit, or taken by others. */

#include "base/fmt.h"
#include "base/str.h"
#include "diagnose/rules.h"
#include <math.h>

/* ---- the process's own use ---- */

static double busy(const struct vitals *v)
{
	return vitals_mean(v, VITALS_CPU_RATIO);
}

static void say_busy(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of the %s cores it may use are busy", fmt_percent(measured).s,
		   fmt_number(vitals_mean(v, VITALS_CPU_USABLE)).s);
}

static void cores(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of %s cores", fmt_number(vitals_mean(v, VITALS_CPU)).s,
		   fmt_number(vitals_mean(v, VITALS_CPU_USABLE)).s);
}

static const char *const paths[] = { "hot-path",   "starved",	"spread-out", "throttled",	 "gc-heavy",
				     "gc-induced", "jit-heavy", "no-names",   "other-processes", NULL };

/* ---- each request ---- */

#define COMPILING 50 /* methods a second: it starts, or JIT is the finding */

/* Milliseconds. Where little is used or served, what the process does besides would count as theirs. */
static double each_request(const struct vitals *v)
{
	double cpu = vitals_mean(v, VITALS_CPU), rate = vitals_mean(v, VITALS_REQUESTS);
	bool compiles = vitals_has(v, VITALS_JITTED) && vitals_mean(v, VITALS_JITTED) > COMPILING;
	return cpu < 0.1 || rate < 2 || compiles ? 0 : cpu * 1000 / rate;
}

static void say_each_request(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "each request that it serves takes %s of CPU: %s of %s cores for %s",
		   fmt_duration_ns((uint64_t)(measured * 1e6)).s, fmt_number(vitals_mean(v, VITALS_CPU)).s,
		   fmt_number(vitals_mean(v, VITALS_CPU_USABLE)).s, fmt_rate(vitals_mean(v, VITALS_REQUESTS)).s);
}

static void each_request_is(const struct vitals *v, double measured, struct buf *out)
{
	if (measured > 0)
		buf_str(out, fmt_duration_ns((uint64_t)(measured * 1e6)).s);
	else
		cores(v, measured, out);
}

/* ---- one thread ---- */

/* The busiest but for the runtime's own that compiles what is used much; NULL = threads are not known. */
static const struct vitals_thread *busiest(const struct vitals *v)
{
	size_t i = v->n_threads && str_starts(v->threads[0].name, ".NET Tiered");
	return i < v->n_threads ? &v->threads[i] : NULL;
}

/* Only where it is most of what the process does: one of many busy threads is no suspicion of its own, nor is one of many
 * that wait for a CPU which others have. */
static double one_thread(const struct vitals *v)
{
	const struct vitals_thread *t = busiest(v);
	double thread = t ? t->wants : v->of[VITALS_CPU_THREAD].last, all = vitals_mean(v, VITALS_CPU);
	double waiting = vitals_has(v, VITALS_CPU_WAITING) ? v->of[VITALS_CPU_WAITING].last : 0;
	bool most = t ? t->cpu > all / 2 : thread > all / 2;
	return most && thread > (all + waiting) / 4 ? thread : 0;
}

static void say_one_thread(const struct vitals *v, double measured, struct buf *out)
{
	const struct vitals_thread *t = busiest(v);
	buf_printf(out, "one thread (%d) computes without rest: %s of the time it uses a CPU or waits for one",
		   t ? t->tid : 0, fmt_percent(MIN(measured, 1.0)).s);
}

static void thread_share(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "the busiest uses %s of one", fmt_percent(measured).s);
}

/* ---- the limit ---- */

/* A short burst may use up a period and delay no request: it counts by the time that threads stood still. */
static double throttled(const struct vitals *v)
{
	double periods = vitals_mean(v, VITALS_THROTTLED), stood = vitals_mean(v, VITALS_THROTTLED_TIME);
	return stood >= 0.02 ? periods : 0;
}

static void say_throttled(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "its CPU limit of %s cores is used up in %s of all periods, and every thread then stands still",
		   fmt_number(vitals_mean(v, VITALS_CPU_USABLE)).s, fmt_percent(measured).s);
}

static void never_throttled(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	if (measured > 0)
		buf_printf(out, "used up in %s of the periods", fmt_percent(measured).s);
	else
		buf_str(out, "never used up");
}

static const char *const limits[] = { "throttled", "hot-path", "spread-out", NULL };

/* ---- others ---- */

/* Threads that could run and had no CPU, against those that had one; not while a limit of its own does it. */
static double starved(const struct vitals *v)
{
	double waiting = v->of[VITALS_CPU_WAITING].last, ran = vitals_mean(v, VITALS_CPU);
	bool own = vitals_mean(v, VITALS_THROTTLED) > 0.05 || vitals_mean(v, VITALS_CPU_RATIO) > 0.9;
	return own || waiting < 0.2 ? 0 : waiting / (waiting + ran);
}

static void say_starved(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "other processes take the CPU: on average %s of its threads could run and had none",
		   fmt_number(v->of[VITALS_CPU_WAITING].last).s);
}

static void waiting(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s threads waited for one", fmt_number(v->of[VITALS_CPU_WAITING].last).s);
}

static double switches(const struct vitals *v)
{
	return v->of[VITALS_CPU_SWITCHES].last;
}

static void say_switches(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "its threads change places %s times a second", fmt_count((uint64_t)measured).s);
}

static void per_second(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_str(out, fmt_rate(measured).s);
}

/* ---- compilation ---- */

/* In every second: a program that starts, or changes to faster code, compiles in bursts. */
static double compiling(const struct vitals *v)
{
	return v->of[VITALS_JITTED].n < 2 ? 0 : v->of[VITALS_JITTED].min;
}

static void say_compiling(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s methods are compiled in a second, and some in each",
		   fmt_count((uint64_t)vitals_mean(v, VITALS_JITTED)).s);
}

static const char *const made_again[] = { "code-made-again", "generics-made-again", NULL };

const struct rule_table rules_cpu =
	RULES({ .id = "cpu-throttled",
		.subject = "CPU limit",
		.needs = { VITALS_THROTTLED, VITALS_THROTTLED_TIME },
		.n_needs = 2,
		.info = 0.05,
		.warning = 0.25,
		.measure = throttled,
		.say = say_throttled,
		.ruled_out = never_throttled,
		.proof = "cpu-hotpaths",
		.proven = limits,
		.next = "Raise the container's CPU limit or take it away, or do less work." },
	      { .id = "cpu-busy",
		.subject = "CPU use",
		.needs = { VITALS_CPU_RATIO },
		.n_needs = 1,
		.info = 0.5,
		.warning = 0.8,
		.most = SCORE_WARNING - 1, /* to compute is no sickness by itself */
		.measure = busy,
		.say = say_busy,
		.ruled_out = cores,
		.proof = "cpu-hotpaths",
		.proven = paths,
		.next = "Run cpu-hotpaths: it names the code." },
	      { .id = "cpu-per-request",
		.subject = "CPU of a request",
		.needs = { VITALS_CPU, VITALS_REQUESTS },
		.n_needs = 2,
		.info = 5, /* ms */
		.warning = 25,
		.most = SCORE_WARNING - 1, /* to compute is no sickness by itself */
		.measure = each_request,
		.say = say_each_request,
		.ruled_out = each_request_is,
		.proof = "cpu-hotpaths",
		.proven = paths,
		.next = "Run cpu-hotpaths: it names the code." },
	      { .id = "jit-storm",
		.subject = "compilation of methods",
		.needs = { VITALS_JITTED },
		.n_needs = 1,
		.info = 50, /* a second */
		.warning = 300,
		.most = SCORE_WARNING - 1, /* a program that starts compiles too */
		.measure = compiling,
		.say = say_compiling,
		.ruled_out = per_second,
		.proof = "jit",
		.proven = made_again,
		.next = "Run jit: it names what is compiled again and again." },
	      { .id = "cpu-one-thread",
		.subject = "a thread that never rests",
		.needs = { VITALS_CPU_THREAD, VITALS_CPU },
		.n_needs = 2,
		.info = 0.7,
		.warning = 0.95,
		.most = SCORE_WARNING - 1, /* to compute is no sickness by itself */
		.measure = one_thread,
		.say = say_one_thread,
		.ruled_out = thread_share,
		.proof = "cpu-hotpaths",
		.proven = paths,
		.next = "Run cpu-hotpaths: it names the code." },
	      { .id = "cpu-starved",
		.subject = "CPU taken by others",
		.needs = { VITALS_CPU_WAITING, VITALS_CPU_RATIO, VITALS_THROTTLED },
		.n_needs = 3,
		.info = 0.5,
		.warning = 1,
		.most = SCORE_ASIDE, /* of the machine, not of the process */
		.measure = starved,
		.say = say_starved,
		.ruled_out = waiting,
		.next = "Look at the machine: which processes take its CPUs?" },
	      { .id = "context-switches",
		.subject = "context switches",
		.needs = { VITALS_CPU_SWITCHES },
		.n_needs = 1,
		.info = 50000,
		.warning = 200000,
		.most = SCORE_ASIDE,
		.measure = switches,
		.say = say_switches,
		.ruled_out = per_second,
		.proof = "off-cpu",
		.next = "Run off-cpu: it names what threads wait for." });
