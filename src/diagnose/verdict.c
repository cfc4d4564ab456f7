#include "diagnose/verdict.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Suspicions that an examination did not confirm are worth less than any notable finding. */
#define UNCONFIRMED_MOST (VERDICT_NOTABLE - 1)
#define DOUBTFUL_BELOW 40

/* ---- what explains what ---- */

/* "profiler." stands for all findings of that profiler. */
static const struct {
	const char *cause, *effects[16];
} explained[] = {
	{ "crash.", { "deadlocks.", "stuck-tasks.", "heap-stats." } },
	{ "deadlocks.finalizer-blocked",
	  { "memory-leaks.", "memory-growing", "native-growing", "memory-limit", "gc-pressure", "gc-stats.",
	    "zombie-threads." } },
	{ "deadlocks.",
	  { "pool-starved", "pool-large", "thread-pool.", "stuck-tasks.", "lock-contention", "lock-contention.",
	    "requests-slow", "web-queue", "not-accepted", "threads-growing", "threads-many", "zombie-threads.",
	    "off-cpu." } },
	{ "lock-contention.",
	  { "thread-pool.", "pool-starved", "pool-large", "requests-slow", "web-queue", "not-accepted",
	    "threads-growing", "threads-many", "context-switches", "off-cpu.", "stuck-tasks." } },
	{ "thread-pool.starvation",
	  { "requests-slow", "web-queue", "not-accepted", "http-out-queue", "http-out-failing", "exceptions-many",
	    "threads-growing", "threads-many", "threads-new", "zombie-threads.", "deadlocks.pool-blocked",
	    "stuck-tasks.", "off-cpu." } },
	{ "thread-pool.",
	  { "requests-slow", "web-queue", "not-accepted", "threads-growing", "threads-many", "zombie-threads.",
	    "deadlocks.pool-blocked", "off-cpu." } },
	{ "stuck-tasks.",
	  { "requests-slow", "web-queue", "http-out-unanswered", "zombie-threads.no-progress",
	    /* What never ends keeps what it holds. */
	    "memory-leaks.", "memory-growing" } },
	{ "inotify", { "threads-growing", "threads-many", "threads-new", "zombie-threads." } },
	{ "heap-stats.fragmented", { "memory-growing", "native-growing", "memory-leaks.grew-in-steps" } },
	{ "loader.",
	  { "assemblies-growing", "memory-growing", "native-growing", "memory-leaks.grows-elsewhere", "threads-new",
	    "threads-growing", "threads-many", "zombie-threads.", "cpu-hotpaths.jit-heavy" } },
	{ "exceptions.many-exceptions",
	  { "cpu-busy", "cpu-one-thread", "cpu-per-request", "cpu-hotpaths.", "requests-failing", "requests-slow",
	    "allocating" } },
	{ "http-out-failing", { "exceptions-many", "requests-failing" } },
	{ "memory-leaks.",
	  { "memory-growing", "native-growing", "memory-limit", "memory-pressure", "swapped-out", "gc-pressure",
	    "gc-long-pause", "gc-stats.", "runtime-pauses." } },
	{ "memory-limit", { "gc-pressure", "gc-full", "memory-pressure", "gc-stats." } },
	/* Who allocates so much, or so large, is why the collector has so much to do. */
	{ "allocations.",
	  { "gc-pressure", "gc-full", "gc-long-pause", "gc-stats.much-time-in-gc", "gc-stats.frequent-full-collections",
	    "gc-stats.frequent-collections", "runtime-pauses.frequent-pauses", "runtime-pauses.frequent-full-pauses",
	    "cpu-hotpaths.gc-heavy", "cpu-busy", "cpu-per-request", "heap-holes", "requests-slow" } },
	{ "jit.", { "cpu-busy", "cpu-one-thread", "cpu-per-request", "cpu-hotpaths.", "requests-slow" } },
	{ "gc-stats.",
	  { "gc-long-pause", "gc-full", "runtime-pauses.", "cpu-busy", "cpu-one-thread", "cpu-hotpaths.gc-heavy",
	    "cpu-hotpaths.gc-induced", "requests-slow", "off-cpu.gc-waits" } },
	{ "runtime-pauses.", { "gc-pressure", "requests-slow", "off-cpu.gc-waits" } },
	{ "cpu-throttled",
	  { "cpu-busy", "thread-pool.queue-latency", "pool-starved", "requests-slow", "gc-long-pause",
	    "runtime-pauses.", "web-queue", "not-accepted", "cpu-starved", "off-cpu.cpu-starved" } },
	{ "cpu-hotpaths.",
	  { "cpu-busy", "cpu-one-thread", "cpu-per-request", "cpu-throttled", "thread-pool.queue-latency",
	    "pool-starved", "requests-slow", "cpu-starved", "off-cpu.cpu-starved" } },
	{ "zombie-threads.", { "threads-many", "threads-growing", "threads-new", "group-threads", "pool-large" } },
	{ "descriptors", { "exceptions-many", "not-accepted", "http-out-failing" } },
	{ "connections-not-closed", { "descriptors" } },
	{ "dns-slow", { "http-out-failing", "requests-slow" } },
};

static bool matches(const char *pattern, const char *id)
{
	return str_ends(pattern, ".") ? str_starts(id, pattern) : str_eq(pattern, id);
}

/* Would the first finding, were it there, make the second appear? By their ids. */
static bool explains(const char *cause, const char *effect)
{
	for (size_t i = 0; i < ARRAY_SIZE(explained); i++) {
		if (!matches(explained[i].cause, cause))
			continue;
		for (const char *const *e = explained[i].effects;
		     e < explained[i].effects + ARRAY_SIZE(explained[i].effects) && *e; e++)
			if (matches(*e, effect))
				return true;
	}
	return false;
}

/* ---- findings ---- */

unsigned outcome_severity(unsigned health)
{
	static const unsigned severities[] = { 0, 40, 80, 95 };
	return severities[MIN(health, 3u)];
}

const char *finding_confidence_word(enum finding_confidence c)
{
	static const char *const words[] = { "Certain", "Probable", "Doubtful" };
	return words[c];
}

static bool in_list(const char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (str_eq(*list, word))
			return true;
	return false;
}

static bool confirms(const struct outcome *o, const struct rule *rule)
{
	if (!o->finding || !str_eq(o->profiler, rule->proof))
		return false;
	return rule->proven ? in_list(rule->proven, o->finding) : o->severity >= SCORE_WARNING;
}

static const struct outcome *outcome_of(const struct outcome *outcomes, size_t n, const char *profiler)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(outcomes[i].profiler, profiler))
			return &outcomes[i];
	return NULL;
}

static struct finding *add(struct verdict *v, unsigned severity)
{
	if (v->n == FINDINGS_LISTED_MAX || severity < SCORE_INFO)
		return NULL;
	v->findings[v->n] = (struct finding){ .severity = severity, .role = FINDING_ALSO };
	return &v->findings[v->n++];
}

/* True, but of the machine: no sickness of the process. */
static bool is_of_the_machine(const struct outcome *o)
{
	return str_eq(o->finding, "starved") || str_eq(o->finding, "cpu-starved");
}

/* While others have the CPU, a stop of all threads or a wait in the queue lasts as long as that does. */
static bool may_be_of_the_machine(const struct outcome *o, const struct judgement *judged, size_t n)
{
	bool waits = str_starts(o->profiler, "runtime-pauses") || str_eq(o->finding, "much-time-in-gc") ||
		     str_eq(o->finding, "queue-latency");
	for (size_t i = 0; i < n && waits; i++)
		if (str_eq(judged[i].rule->id, "cpu-starved") && judged[i].state == RULE_SUSPECTED)
			return true;
	return false;
}

/* A confirmed suspicion lends its score to what confirms it: that hot path is as serious as the CPU is busy. What is of the
 * machine is no more serious than that. */
static unsigned weight(const struct outcome *o, const struct judgement *judged, size_t n)
{
	unsigned severity = o->severity, lent = 0;
	for (size_t i = 0; i < n; i++)
		if (o->severity && judged[i].state == RULE_SUSPECTED && confirms(o, judged[i].rule))
			lent = MAX(lent, judged[i].score);
	if (lent)
		severity = MAX(severity + (severity < SCORE_WARNING), lent);
	if (lent && is_of_the_machine(o))
		severity = MIN(severity, lent);
	return is_of_the_machine(o) || may_be_of_the_machine(o, judged, n) ? MIN(severity, (unsigned)SCORE_WARNING - 1)
									   : severity;
}

static void add_outcomes(struct verdict *v, const struct judgement *judged, size_t n_judged,
			 const struct outcome *outcomes, size_t n)
{
	for (const struct outcome *o = outcomes; o < outcomes + n; o++) {
		unsigned severity = weight(o, judged, n_judged);
		/* What a profiler gives for information, and no rule suspected, stays in its section. */
		bool said = o->severity >= SCORE_WARNING || severity > o->severity;
		struct finding *f = o->finding && said ? add(v, severity) : NULL;
		if (!f)
			continue;
		f->outcome = o;
		snprintf(f->id, sizeof(f->id), "%s.%s", o->profiler, o->finding);
		f->confidence = f->severity >= DOUBTFUL_BELOW && !o->why ? FINDING_CERTAIN : FINDING_PROBABLE;
	}
}

static void add_suspicions(struct verdict *v, const struct judgement *judged, size_t n, const struct outcome *outcomes,
			   size_t n_outcomes)
{
	for (const struct judgement *j = judged; j < judged + n; j++) {
		const struct rule *rule = j->rule;
		const struct outcome *proof = rule->proof ? outcome_of(outcomes, n_outcomes, rule->proof) : NULL;
		bool looked = proof && proof->finding, confirmed = looked && confirms(proof, rule);
		unsigned severity = looked && !confirmed ? MIN(j->score, (unsigned)UNCONFIRMED_MOST) : j->score;
		struct finding *f = j->state == RULE_SUSPECTED ? add(v, severity) : NULL;
		if (!f)
			continue;
		f->judged = j;
		str_copy(f->id, sizeof(f->id), rule->id);
		f->confidence = confirmed || !rule->proof	      ? FINDING_CERTAIN
				: looked || severity < DOUBTFUL_BELOW ? FINDING_DOUBTFUL
								      : FINDING_PROBABLE;
	}
}

/* ---- cause and effects ---- */

/* What confirms a suspicion explains it, whatever the table says. */
static bool links(const struct finding *cause, const struct finding *effect)
{
	if (cause == effect)
		return false;
	if (cause->outcome && effect->judged && confirms(cause->outcome, effect->judged->rule))
		return true;
	return explains(cause->id, effect->id);
}

static bool is_explained(const struct verdict *v, const struct finding *f)
{
	for (size_t i = 0; i < v->n; i++)
		/* Two that explain each other: the more serious one is the cause. */
		if (v->findings[i].severity >= VERDICT_NOTABLE && links(&v->findings[i], f) &&
		    !(links(f, &v->findings[i]) && f->severity >= v->findings[i].severity))
			return true;
	return false;
}

static struct finding *find_cause(struct verdict *v)
{
	struct finding *best = NULL;
	for (struct finding *f = v->findings; f < v->findings + v->n; f++) {
		if (f->severity < VERDICT_NOTABLE || is_explained(v, f))
			continue;
		/* What an examination has proven and placed comes before what only numbers say. */
		bool better = !best || (f->severity >= SCORE_WARNING) > (best->severity >= SCORE_WARNING) ||
			      ((f->severity >= SCORE_WARNING) == (best->severity >= SCORE_WARNING) &&
			       (!!f->outcome != !!best->outcome ? !!f->outcome : f->severity > best->severity));
		if (better)
			best = f;
	}
	return best;
}

/* Directly or through others. */
static void mark_effects(struct verdict *v)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < v->n; i++)
			for (size_t k = 0; k < v->n; k++)
				if (v->findings[i].role != FINDING_ALSO && v->findings[k].role == FINDING_ALSO &&
				    links(&v->findings[i], &v->findings[k])) {
					v->findings[k].role = FINDING_EFFECT;
					more = true;
				}
	}
}

static int by_role_then_severity(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	if (x->role != y->role)
		return CMP(x->role, y->role);
	return x->severity != y->severity ? CMP(y->severity, x->severity) : strcmp(x->id, y->id);
}

void verdict_make(const struct judgement *judged, size_t n_judged, const struct outcome *outcomes, size_t n_outcomes,
		  struct verdict *ret)
{
	*ret = (struct verdict){ 0 };
	add_outcomes(ret, judged, n_judged, outcomes, n_outcomes);
	add_suspicions(ret, judged, n_judged, outcomes, n_outcomes);
	struct finding *cause = find_cause(ret);
	if (cause) {
		cause->role = FINDING_CAUSE;
		mark_effects(ret);
	}
	qsort(ret->findings, ret->n, sizeof(ret->findings[0]), by_role_then_severity);
}
