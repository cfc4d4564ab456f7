#pragma once
/* Rules: what the vital signs of a process make one suspect, and what they rule out.
 *
 * One const struct a suspicion, in tables by area (rules_*.c). A rule measures one number out of the vital signs and
 * compares it with two limits; the score says how far it is past them. Which examination would prove it is named by the
 * profiler's id only: this room owns no instrument, runs nothing and formats no report. Pure. */

#include "base/buf.h"
#include "vitals/vitals.h"

/* A score of INFO is worth knowing, of WARNING serious. */
enum { SCORE_INFO = 25, SCORE_WARNING = 75, SCORE_MOST = 100 };
/* The most of a suspicion that a healthy process can arouse too: it is never named first. */
#define SCORE_ASIDE 49

#define RULE_NEEDS_MAX 4

struct rule {
	const char *id;	     /* of the finding; frozen in docs/profilers/diagnose.md */
	const char *subject; /* a neutral noun: "CPU use" */
	enum vital_id needs[RULE_NEEDS_MAX];
	size_t n_needs;
	double info, warning; /* limits of what measure() gives; both are reached from below */
	unsigned most;	      /* it can score no higher; 0 = SCORE_MOST */
	/* NAN: it does not apply, which rules it out too. */
	double (*measure)(const struct vitals *v);
	/* "96 % of the 2 cores it may use are busy": a clause without a full stop, with the number. */
	void (*say)(const struct vitals *v, double measured, struct buf *out);
	/* The number that rules it out, in brackets behind the subject: "0.3 of 2 cores". */
	void (*ruled_out)(const struct vitals *v, double measured, struct buf *out);
	const char *proof;	   /* id of the profiler that would find the place; NULL = the vital signs are all */
	const char *const *proven; /* its findings that confirm this, ended by NULL; NULL = any that is serious */
	const char *unplaced; /* what an examination that does not exist yet would say: "who opens them"; or NULL */
	const char *next;     /* what to do when no examination could say more */
};

enum rule_state { RULE_UNKNOWN, RULE_OUT, RULE_SUSPECTED };

struct judgement {
	const struct rule *rule;
	enum rule_state state;
	unsigned score;
	double measured;
	const char *why; /* RULE_UNKNOWN: could not be looked at, because; RULE_OUT: there is none, or NULL */
};

/* All rules, in the order of lists. */
size_t rules_count(void);
const struct rule *rule_at(size_t i);
/* Before its subject in a sentence: "the ", or nothing where it has an article. */
const char *rule_article(const struct rule *rule);
const struct rule *rule_find(const char *id); /* or NULL */
/* 0 to 100 of a measured value. */
unsigned rule_score(const struct rule *rule, double measured);
struct judgement rule_judge(const struct rule *rule, const struct vitals *v);
