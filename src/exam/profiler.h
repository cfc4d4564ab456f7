#pragma once
/* A profiler answers one symptom. One const struct each, one file each, one list: help, REST, forms and docs all read
 * it. A new one: write src/profilers/<id>.c, add its name to the list in profilers/meson.build. */

#include "base/err.h"
#include "base/json.h"
#include "exam/exam.h"
#include "report/report.h"

struct image_exam_part;

/* Numbers of the REST contract. */
enum param_type { PARAM_STRING = 1, PARAM_INT = 2, PARAM_FLOAT = 3, PARAM_BOOL = 4 };

struct param {
	const char *key, *name, *description;
	enum param_type type;
	const char *unit;	    /* "s", "ms", "bytes"; NULL without */
	const char *default_value;  /* as text, always valid */
	double min, max;	    /* of numbers, inclusive */
	const char *const *choices; /* of strings, NULL-terminated; NULL = any text up to 256 bytes */
	bool data;		    /* a value in the target's memory: others see its shape only */
};

/* How long to listen, in whole seconds: the parameter that nearly every profiler has. */
#define PARAM_DURATION(seconds)                                                                                        \
	{                                                                                                              \
		.key = "duration", .name = "Duration", .description = "How long to listen.", .type = PARAM_INT,        \
		.unit = "s", .default_value = (seconds), .min = 1, .max = 86400                                        \
	}

/* What to do next for a finding the profiler can make. Also the guide's table. */
struct advice {
	const char *finding, *next;
};
/* The profiler that such a step is to run, by its id. */
struct advice_run {
	const char *finding, *profiler;
};

/* Headings of long lists. */
#define CHAPTER_ALL "When you do not know what"
#define CHAPTER_CPU "CPU and waiting"
#define CHAPTER_THREADS "Threads and tasks"
#define CHAPTER_MEMORY "Memory"
#define CHAPTER_RUNTIME "Runtime"
#define CHAPTER_LIMITS "Limits and connections"

struct profiler {
	const char *id;		 /* "runtime-pauses": command, file name, URL */
	const char *uuid;	 /* of the Dr-Dotnet contract, or our own */
	const char *name;	 /* "Runtime pauses" */
	const char *chapter;	 /* what it is about: CHAPTER_... */
	const char *label;	 /* the symptom in a few words, for a button; no other profiler's */
	const char *symptom;	 /* in the user's words: "p95 or p99 latency spikes" */
	const char *description; /* Markdown, a few sentences: what it shows and what it costs */
	const char *cost;	 /* for the target, whether it stops first: "no stop; well under 1 % of its CPU" */
	/* Names under which clients of the Dr-Dotnet contract look for the report, beside our own, ended by NULL; the ending
	 * says in which format: "summary.md". NULL = none. */
	const char *const *contract_files;
	const struct param *params;
	size_t n_params;
	const char *word; /* key of the one parameter that may stand as a word before TARGET; NULL = none */
	enum way ways[5]; /* in order of preference, ended by WAY_AUTO (0) */
	bool experimental;
	bool for_core;	     /* asks a core file; of a living process it can only say that it lives */
	bool remembers;	     /* its report says what changed since the last one of the same process */
	bool two_recordings; /* can compare one with an earlier one: exam->before */
	/* Its looks by image, in turn, ended by name NULL: name, version, heap and a drain() that needs no user, so
	 * that another exam's copy serves as well (exam/shared_looks.h). NULL = it takes its own. */
	const struct image_exam_part *looks;
	const struct advice *advice;
	size_t n_advice;
	const struct advice_run *runs; /* ended by finding NULL; NULL = none */
	/* Collects until the window ends, the target ends or the exam is cancelled. Cut short is no error: it marks the
	 * exam partial. */
	struct err *(*run)(struct exam *exam);
	/* From what run kept in exam->state, also when it was cut short. */
	struct err *(*analyse)(struct exam *exam, struct report *report);
	void (*free_state)(void *state);
};

/* Members of an open object: a parameter, without its type and default, which each list has in a form of its own. */
void param_json(struct jsonw *w, const struct param *p);
/* ERR_USAGE names the ways it has; any takes WAY_AUTO. */
struct err *profiler_check_way(const struct profiler *p, enum way way) MUST_USE;
const char *profiler_next(const struct profiler *p, const char *finding); /* NULL without advice */
/* The report's next step: the profiler's advice for the finding; none without. Where that is to run another profiler,
 * its id is in the report too. */
void report_advice(struct report *report, const struct profiler *p, const char *finding);
const struct param *profiler_param(const struct profiler *p, const char *key);
/* The parameter that says for how many seconds it listens; NULL = it looks once. */
const struct param *profiler_duration(const struct profiler *p);

/* Checked values, one for each parameter of the profiler. Texts are valid by construction. */
struct params;
struct params *params_new(const struct profiler *profiler); /* all defaults */
void params_free(struct params *p);
DEFINE_CLEANUP(params_free, struct params *)
/* ERR_USAGE says what is wrong and what is accepted. */
struct err *params_set(struct params *p, const char *key, const char *value) MUST_USE;
/* The same of a known key; errors call it as its user does: "--looks". */
struct err *params_set_as(struct params *p, const char *key, const char *called, const char *value) MUST_USE;
/* ERR_USAGE when the parameter that may stand as a word is empty: without it there is nothing to examine. */
struct err *params_complete(const struct params *p) MUST_USE;
bool params_is_default(const struct params *p, const char *key);
const char *params_text(const struct params *p, const char *key);
int64_t params_int(const struct params *p, const char *key);
bool params_bool(const struct params *p, const char *key);
