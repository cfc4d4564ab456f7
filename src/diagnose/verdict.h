#pragma once
/* One verdict out of suspicions and what examinations found: cause before effect. Pure.
 *
 * Findings are linked by one explicit table of what explains what. The cause is the most serious finding that no other
 * one explains; what it explains, directly or through others, are its effects; all others were also seen. */

#include "diagnose/plan.h"

/* What an examination came to. */
struct outcome {
	const char *profiler, *finding; /* finding NULL: it could not be made, or was cut short */
	const char *why;		/* then: because; or why what it found is of a window that was cut short */
	unsigned severity;		/* by the health that its report gives itself */
};
/* Of the four healths of a report, in their order: ok, info, warn, bad. */
unsigned outcome_severity(unsigned health);

enum finding_role { FINDING_CAUSE, FINDING_EFFECT, FINDING_ALSO };
enum finding_confidence { FINDING_CERTAIN, FINDING_PROBABLE, FINDING_DOUBTFUL };

#define FINDING_ID_BYTES 64
struct finding {
	char id[FINDING_ID_BYTES]; /* a rule's, or "profiler.finding" */
	enum finding_role role;
	enum finding_confidence confidence;
	unsigned severity;
	const struct judgement *judged; /* one of the two */
	const struct outcome *outcome;
};

#define FINDINGS_LISTED_MAX 64
struct verdict {
	struct finding findings[FINDINGS_LISTED_MAX]; /* cause, effects, others; each the most serious first */
	size_t n;
};

/* Below it a finding is not named in the verdict, only beside it. */
#define VERDICT_NOTABLE 50

/* The results refer to judged and outcomes. */
void verdict_make(const struct judgement *judged, size_t n_judged, const struct outcome *outcomes, size_t n_outcomes,
		  struct verdict *ret);
const char *finding_confidence_word(enum finding_confidence c); /* "Certain" ... */
