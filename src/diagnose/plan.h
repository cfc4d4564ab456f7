#pragma once
/* Which examinations to make after the vital signs: the cheapest that decide. Pure. */

#include "diagnose/rule.h"

/* Beyond the vital signs. What looks into memory shares the same looks, which count as one. */
#define PLAN_SUSPECTED_MAX 2
#define PLAN_MAX 7

struct examination {
	const char *profiler;
	const char *const *params; /* key, value, key, value ... NULL; what is not the profiler's default */
	bool stops;		   /* it stands still for the looks */
	unsigned leads;		   /* then: the highest of a plan takes the looks that the others share */
	bool always;		   /* the vital signs cannot rule out what it finds */
	const char *covered_by;	   /* not worth a place beside that one; NULL = by none */
	unsigned cost;		   /* about how many seconds */
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

/* In their order: windows first, then looks, of which the one that leads is the first. */
struct plan plan_make(const struct judgement *judged, size_t n, const struct plan_options *options);
/* NULL when there is none of that name. */
const struct examination *plan_examination(const char *profiler);
/* The process has ended and left a core file: why? A step at that place. */
void plan_insert_crash(struct plan *p, size_t at);
/* Of a core file: all that can be seen in it. */
struct plan plan_of_core(void);
