#pragma once
/* Rules: what the vital signs of a process make one suspect, and what they rule out.
 *
 * Each suspicion is one const struct; the tables are sorted by area (rules_*.c). A rule computes one number from the vital
 * signs and compares it with two limits; the score says how far the number is past them. The examination that would
 * prove the suspicion is named by its profiler's id only: this module owns no instrument, runs nothing and formats no
 * report. Pure. */

#include "base/buf.h"
#include "vitals/vitals.h"

/* From SCORE_INFO on a suspicion is worth knowing, from SCORE_WARNING on it is serious. */
enum { SCORE_INFO = 25, SCORE_WARNING = 75, SCORE_MOST = 100 };
/* The highest score of a suspicion that healthy processes arouse too: it is never named first. */
#define SCORE_ASIDE 49

#define RULE_NEEDS_MAX 4

struct rule {
	const char *id;	     /* of the finding; frozen in docs/profilers/diagnose.md */
	const char *subject; /* a neutral noun: "CPU use" */
	enum vital_id needs[RULE_NEEDS_MAX];
	size_t n_needs;
	double info, warning; /* the limits, where the number scores SCORE_INFO and SCORE_WARNING */
	unsigned most;	      /* the highest score it can get; 0 = SCORE_MOST */
	/* The number; NAN = the rule does not apply to this process, which rules the suspicion out too. */
	double (*measure)(const struct vitals *v);
	/* "96 % of the 2 cores it may use are busy": a clause without a full stop, with the number. */
	void (*say)(const struct vitals *v, double measured, struct buf *out);
	/* Below both limits: the number, which is shown in brackets behind the subject: "0.3 of 2 cores". */
	void (*ruled_out)(const struct vitals *v, double measured, struct buf *out);
	const char *proof; /* id of the profiler that would find the cause in the code; NULL = there is none */
	/* Those of its findings that confirm this rule, ended by NULL; NULL = any serious one. */
	const char *const *proven;
	const char *unplaced; /* what no profiler can tell of it yet, for the report: "who opens them"; or NULL */
	const char *next;     /* what to do when no examination can say more */
};

enum rule_state { RULE_UNKNOWN, RULE_OUT, RULE_SUSPECTED };

struct judgement {
	const struct rule *rule;
	enum rule_state state;
	unsigned score;
	double measured;
	const char *why; /* RULE_UNKNOWN: why a signal is missing; RULE_OUT: why the rule does not apply, or NULL */
};

/* All rules, in the order in which reports list them. */
size_t rules_count(void);
const struct rule *rule_at(size_t i);
/* What stands before the rule's subject in a sentence: "the ", or "" when the subject has an article already. */
const char *rule_article(const struct rule *rule);
const struct rule *rule_find(const char *id); /* or NULL */
/* The score of a measured number: 0 to 100. */
unsigned rule_score(const struct rule *rule, double measured);
struct judgement rule_judge(const struct rule *rule, const struct vitals *v);
