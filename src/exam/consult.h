#pragma once
/* Runs another profiler's examination inside of an exam: in the same worker, on the same patient, into a folder of the
 * same recording (recording_inside), in a window of its own. Its report can become a section of the outer report.
 *
 *	TRY(consult_run(exam, &wanted, &c));	during run()
 *	consult_analyse(&c);			during analyse()
 *	... c.report, or c.failed ...
 *	consult_fini(&c);
 *
 * When it fails, the outer exam loses that section only: c.failed says why. The outer exam learns that it was cancelled and
 * that the process became another program. */

#include "exam/exam.h"

struct consult_wanted {
	const struct profiler *profiler;
	const char *const *params;  /* key, value ... NULL; NULL = defaults */
	const char *core;	    /* a core file that the process left; NULL = what the outer exam examines */
	uint64_t max_pause_ms;	    /* 0 = the profiler's default */
	bool gentle;		    /* never stop the process */
	struct shared_looks *looks; /* shared with other consultations; or NULL */
	bool leads;		    /* if they are shared: this exam takes them */
	double from, to;	    /* the part of the outer exam's progress that it fills, of 0 to 1 */
	const char *what;	    /* stands before the inner exam's own words in progress */
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
