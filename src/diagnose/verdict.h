#pragma once
/* Makes one verdict out of the suspicions and of what the examinations found, and tells the cause from its effects. Pure.
 *
 * One table says which finding explains which other ones. The cause is the most serious finding that no other finding
 * explains; the findings that it explains, directly or through others, are its effects; all the rest was also seen. */

#include "diagnose/plan.h"

/* The result of an examination. */
struct outcome {
	const char *profiler, *finding; /* finding NULL: it could not be made, or was cut short before it found any */
	const char *why;		/* why it could not be made, or was cut short; NULL = it was made as planned */
	unsigned severity;		/* of the finding: outcome_severity() of its report */
};
/* 0 to 100, for the health that a report gives: enum report_health, in the order ok, info, warn, bad. */
unsigned outcome_severity(unsigned health);

enum finding_role { FINDING_CAUSE, FINDING_EFFECT, FINDING_ALSO };
enum finding_confidence { FINDING_CERTAIN, FINDING_PROBABLE, FINDING_DOUBTFUL };

#define FINDING_ID_BYTES 64
struct finding {
	char id[FINDING_ID_BYTES]; /* a rule's, or "profiler.finding" */
	enum finding_role role;
	enum finding_confidence confidence;
	unsigned severity;
	const struct judgement *judged; /* the suspicion, or NULL: then there is an outcome */
	const struct outcome *outcome;	/* what an examination found, or NULL */
};

#define FINDINGS_LISTED_MAX 64
struct verdict {
	/* The cause, its effects, the others; in each group the most serious first. */
	struct finding findings[FINDINGS_LISTED_MAX];
	size_t n;
};

/* Findings of a lower severity are not named in the verdict's sentences, only listed below them. */
#define VERDICT_NOTABLE 50

/* *ret points into judged and outcomes, which must outlive it. */
void verdict_make(const struct judgement *judged, size_t n_judged, const struct outcome *outcomes, size_t n_outcomes,
		  struct verdict *ret);
const char *finding_confidence_word(enum finding_confidence c); /* "Certain" ... */
