#pragma once
/* One examination as a profiler sees it: the patient, the window, and the instruments. A profiler cannot tell whether
 * the events come from the living process or from a recording. */

#include "base/err.h"
#include "ipc/patient.h"
#include "nettrace/nettrace.h"
#include "recording/recording.h"

struct params;
struct profiler;
struct report;
struct shared_looks;
struct whose_names;

struct exam {
	const struct profiler *profiler;
	const struct params *params;
	const struct patient *patient; /* facts only when replaying */
	enum way way;		       /* chosen; never WAY_AUTO */
	bool way_named;		       /* named by the user: no other may be taken */
	char *way_reason;	       /* why not the first choice, or NULL */
	char *way_failed[WAY_COUNT];   /* tried, and why that failed; NULL = not */
	const char *core;	       /* a core file instead of a living process; its patient is facts only */
	struct recording *recording;   /* written to when live, read from when replaying */
	bool replay;
	struct recording *before;   /* an earlier one to compare with, when replaying; or NULL */
	struct whose_names *whose;  /* of its program (exam/own_code.h); NULL = not known */
	const char *session;	    /* guid, or NULL */
	int cancel_fd;		    /* readable once cancelled; -1 without */
	bool gentle;		    /* no look that would stop the process, not even beside another way */
	struct shared_looks *looks; /* shared with other exams (exam/shared_looks.h); or NULL */
	bool leads;		    /* if they are shared: this exam takes the copies */
	bool launched; /* the program was started for this exam and waits at its start until on_listening is called */

	/* Called during the exam; ratio of the whole 0..1, negative = not known. */
	void (*on_progress)(void *user, double ratio, const char *what);
	void (*on_log)(void *user, const char *line);
	/* What a person wants to read before the report is there; may be NULL. */
	void (*on_news)(void *user, const char *line);
	/* The instruments are ready: a program that was started for this exam and waits may be resumed. May be NULL,
	 * may be called more than once. */
	void (*on_listening)(void *user);
	/* A file beside the report, for other tools: "flamegraph.svg". NULL = they are not kept. */
	void (*on_artifact)(void *user, const char *name, const void *data, size_t len);
	void *user;
	double share; /* the part of the whole progress that its own window fills; 0 = all of it */

	uint64_t age_ns; /* of the process when the exam began; 0 = not known */
	/* Results, filled by the instruments. */
	int64_t start_unix_ns;	   /* wall clock at the window's start */
	uint64_t start_ns, end_ns; /* the window on the monotonic clock, as really observed */
	char *partial;		   /* why the window was cut short, or NULL */
	char *proof;		   /* what shows that the instruments worked, or NULL */
	char *unproven;		   /* why nothing does, or NULL; see exam/proof.h */
	int blind;		   /* verdicts up to this health (enum report_health) would rest on nothing */
	bool cancelled;
	const char *code_unasked; /* why its runtime is not asked to list compiled code (exam/code_list.h), or NULL */
	char *code_unread;	  /* if it is not asked: why the code could not be read from memory instead, or NULL */
	bool other_program;	  /* the process became another program (exec): it cannot be asked any more */
	void *state;
};

/* How long to wait for another examination of the same process. */
#define EXAM_TURN_MS 60000

void exam_progress(struct exam *exam, double ratio, const char *fmt, ...) PRINTF(3, 4);
void exam_log(struct exam *exam, const char *fmt, ...) PRINTF(2, 3);
void exam_news(struct exam *exam, const char *fmt, ...) PRINTF(2, 3);
/* The window was cut short; the first reason stays. */
void exam_cut(struct exam *exam, const char *fmt, ...) PRINTF(2, 3);

/* Has someone asked to stop? Once so, always so. */
bool exam_cancelled(const struct exam *exam);
/* Waits for that time, or until someone asks to stop: then it returns true. */
bool exam_wait_ms(const struct exam *exam, uint64_t ms);

/* The window as the recording keeps it; for instruments. */
void exam_keep_window(struct exam *exam);
struct err *exam_recall_window(struct exam *exam) MUST_USE;

/* Did the window see hardly more than the first minute of the process? Code is compiled then, memory is taken for the
 * first time, connections are opened: what grows or is slow in it need not do so later. False when its age is not known. */
bool exam_is_young(const struct exam *exam);
/* The parameter that says how long to listen; the profiler has one. */
uint64_t exam_duration_ms(const struct exam *exam);
/* 8, 9, 10 ...; 0 when the runtime does not say. */
unsigned exam_runtime_major(const struct exam *exam);
/* Adds a file to the session, during analyse. The name is one of ours, never made from input. */
void exam_artifact(struct exam *exam, const char *name, const void *data, size_t len);

/* Picks the way: `wanted`, or the first of the profiler's that is open. ERR_DENIED or ERR_UNSUPPORTED says why none is
 * and what would open one. */
struct err *exam_choose_way(struct exam *exam, enum way wanted) MUST_USE;
/* The chosen way failed before anything was seen. If a seccomp filter may be the reason, which shows only then, the
 * next way is chosen, unless the user named one. Takes failed over; returns it when there is no other. */
struct err *exam_next_way(struct exam *exam, struct err *failed) MUST_USE;
/* The two halves of a session: collect (state "running"), then conclude (state "analysing"). The second also fills in
 * the report's facts, how it was measured and parameters. */
struct err *exam_run(struct exam *exam) MUST_USE;
struct err *exam_analyse(struct exam *exam, struct report *report) MUST_USE;
void exam_fini(struct exam *exam);
