#pragma once
/* Which examinations a diagnosis makes once it has read the vital signs: those that can prove the strongest suspicions,
 * and those for illnesses that no vital sign can rule out. Pure: it names profilers by their ids and runs nothing. */

#include "diagnose/rule.h"

/* At most so many examinations with a window of their own are made because of a suspicion (one more when the process must
 * not be stopped), and so many in all. Those that share the looks into memory take no window. */
#define PLAN_SUSPECTED_MAX 2
#define PLAN_MAX 8

struct examination {
	const char *profiler;
	const char *const *params; /* key, value, key, value ... NULL: those that differ from the profiler's defaults */
	bool stops;		   /* the process is stopped for moments, since memory is looked into */
	/* If it stops: examinations of one plan share their looks (exam/shared_looks.h). The one with the highest number
	 * takes them. */
	unsigned leads;
	bool always;		/* part of every diagnosis: vital signs cannot rule out what it finds */
	const char *covered_by; /* left out when the plan has that profiler, which finds the same; NULL = never */
	unsigned cost;		/* about how many seconds it takes */
};

struct plan_step {
	const struct examination *examination;
	const struct rule *because; /* NULL: it belongs to every diagnosis */
	unsigned score;
};

struct plan {
	struct plan_step steps[PLAN_MAX];
	size_t n;
};

struct plan_options {
	bool gentle; /* nothing that stops the process */
	bool deep;   /* also what takes longer: growth */
};

/* The steps in the order in which they are made: first those that only listen, then those that stop the process, of which
 * the one that takes the shared looks is the first. */
struct plan plan_make(const struct judgement *judged, size_t n, const struct plan_options *options);
/* NULL when there is none of that name. */
const struct examination *plan_examination(const char *profiler);
/* The process has ended and left a core file: inserts the step that asks why, at that index. */
void plan_insert_crash(struct plan *p, size_t at);
/* The examinations of a core file. */
struct plan plan_of_core(void);
