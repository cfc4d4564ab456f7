#pragma once
/* One examination that runs another profiler's parts inside of itself: the same worker, the same patient, the same
 * recording (recording_inside), a window of its own. Its report can be taken over as a section.
 *
 *	TRY(consult_run(exam, &wanted, &c));	during run()
 *	consult_analyse(&c);			during analyse()
 *	... c.report, or c.failed ...
 *	consult_fini(&c);
 *
 * What goes wrong in it costs its section only: c.failed. Only a cancelled exam is an error of its own. */

#include "exam/exam.h"

struct consult_wanted {
	const struct profiler *profiler;
	const char *const *params;  /* key, value ... NULL; NULL = defaults */
	const char *core;	    /* a core file that the process left; NULL = as the exam that consults */
	uint64_t max_pause_ms;	    /* 0 = the profiler's default */
	bool gentle;		    /* never stop the process */
	struct shared_looks *looks; /* with other consultations; or NULL */
	bool leads;		    /* then: it takes them */
	double from, to;	    /* which part of the whole progress it is */
	const char *what;	    /* before its own words in progress */
};

struct consult {
	const struct profiler *profiler;
	struct params *params;
	struct exam *outer;
	struct recording *recording;
	struct exam exam;
	struct report *report; /* after consult_analyse() */
	struct err *failed;
	struct consult_wanted wanted;
};

struct err *consult_run(struct exam *exam, const struct consult_wanted *wanted, struct consult *ret) MUST_USE;
void consult_analyse(struct consult *c);
void consult_fini(struct consult *c);
