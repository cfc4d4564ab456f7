#pragma once
/* The image instrument as profilers use it: a look into memory at one instant, of the living patient (a copy, taken in
 * a pause of milliseconds) or of a core file, live or replayed.
 *
 * What a look found is written down by drain() while the copy lives, and understood by take() afterwards; the bytes
 * between are a part of the recording. So a replay sees exactly what the analysis of the living process saw, and the
 * copy lives no longer than reading takes.
 *
 *	struct image_exam_part part = { .name = "threads", .version = 1, .drain = drain, .take = take, .user = state };
 *	TRY(exam_image(exam, &part));
 *	...
 *	if (exam_image_again(exam, 2000, "threads-2"))
 *		TRY(exam_image(exam, &second)); */

#include "base/cursor.h"
#include "dac/dac.h"
#include "dac/lines.h"
#include "image/image.h"
#include "exam/exam.h"
#include "report/report.h"
#include "target/threads.h"

/* ---- one look ---- */

struct image_exam_facts {
	bool core;	    /* a core file: no process was stopped */
	bool gcdump;	    /* a .gcdump file: core is set as well */
	bool events;	    /* reported by the runtime in events: only what survived a collection is known */
	bool agent;	    /* by our library in the process, which sent a copy of itself */
	bool again;	    /* by events, and the runtime collects once more when the session ends */
	uint64_t at_ns;	    /* monotonic, when it was taken; 0 of a core */
	int64_t at_unix_ns; /* of a core: when its file was last written */
	uint64_t pause_ns;  /* from the first thread's stop to the last one's start; the longest of all attempts */
	uint64_t limit_ns;  /* what was promised of it; 0 = nothing */
	uint64_t life_ns;   /* of the copy */
	uint64_t copied;    /* bytes that the process had to copy because the copy shared them */
	uint64_t missing;   /* bytes that a truncated core lacks, or that were too many to save from a living process */
	uint64_t bytes;	    /* of a core file, or that an agent sent */
	uint64_t unproven;  /* bytes of assemblies read from disk, because the core lacks them: perhaps of another build
			     */
	uint32_t attempts;  /* attempts until one succeeded */
	uint32_t dac_deaths; /* how often the runtime's library crashed */
};

struct image_exam {
	struct image *image;		 /* reads fail once the look has ended */
	struct dac *dac;		 /* what it has learnt stays; questions fail once the look has ended */
	const struct target *target;	 /* of the living process; NULL of a core */
	struct target_threads before;	 /* the threads of a living process, right before it was stopped */
	struct dac_lines *lines;	 /* to be asked for source lines before the look ends */
	const struct whose_names *whose; /* not owned; NULL = not known */
	struct buf threads; /* what a thread snapshot wrote, so that other parts of the look need not repeat it */
	struct image_exam_facts facts;
	bool ended;
};

/* A look into a living process. Everything is checked first: is there a data-access library, how long would the process be
 * stopped? *ret must be zero, or what a failed attempt left there. Call image_exam_fini also after a failure. */
struct err *image_exam_of_patient(const struct patient *p, struct image_limits *limits, struct image_exam *ret)
	MUST_USE;
/* The same by our library in the process, for when we can reach only its socket and a folder. It is refused for the reasons
 * of image_exam_by_agent_check. When this returns, the copy has been sent and is gone. */
struct err *image_exam_by_agent(const struct patient *p, const struct image_limits *limits, struct image_exam *ret)
	MUST_USE;
/* Does the process's own state (too little memory, too long a pause, a debugger) forbid that? Only reads. ret_fix: what would
 * help, or NULL. */
struct err *image_exam_by_agent_check(const struct patient *p, const struct image_limits *limits, const char **ret_fix)
	MUST_USE;
struct err *image_exam_of_core(const char *path, struct image_exam *ret) MUST_USE;
/* Which assemblies are the program's own (exam/own_code.h), when its files are still at the paths in the core; NULL = not
 * known. The caller frees. */
struct whose_names *image_exam_own_code(struct image_exam *core);
/* ERR_IO when the copy is gone, or the core file was cut short: what was read may be short. */
struct err *image_exam_whole(const struct image_exam *look) MUST_USE;
/* No more memory is needed: the copy is released now, and its cost is known. Fails as image_exam_whole() does. Once is
 * enough; exam_image does it after drain(). */
struct err *image_exam_end(struct image_exam *look) MUST_USE;
void image_exam_fini(struct image_exam *look);
/* The process that a core is of, as far as the core says: name, process id, runtime. Also: can it be read at all? */
struct err *image_exam_core_patient(const char *path, struct patient *ret) MUST_USE;

/* ---- looks of an exam ---- */

/* The parameter that every profiler of this way has. */
#define PARAM_MAX_PAUSE                                                                                                \
	{                                                                                                              \
		.key = "max_pause_ms", .name = "Longest pause",                                                        \
		.description = "Refuse when the process would stand still for longer. 0: 100 ms, of a large process "  \
			       "40 ms for each GB, at most 500.",                                                      \
		.type = PARAM_INT, .unit = "ms", .default_value = "0", .min = 0, .max = 60000                          \
	}

/* The parameter of profilers that look twice: exam_image_twice() waits for that time in between. */
#define PARAM_INTERVAL(seconds, about)                                                                                 \
	{                                                                                                              \
		.key = "interval", .name = "Time between the looks", .description = (about), .type = PARAM_INT,        \
		.unit = "s", .default_value = (seconds), .min = 1, .max = 3600                                         \
	}

struct image_exam_part {
	const char *name; /* of the part: "threads"; each look of an exam has its own */
	uint32_t version; /* of what drain() writes: a recording of another one is refused */
	bool heap;	  /* the heap must be consistent: looks again when a collection was running */
	bool beside;	  /* another instrument determines the window: this look does not change it */
	/* Only a copy will do, and it is tried once: the look waits neither for another examination of the process nor for
	 * a process that does not stop in time. */
	bool passing;
	uint64_t max_pause_ms; /* foreseen; 0 = that of the profiler's parameter, else the default */
	/* Reads what it needs and writes it down. Not called when replaying. */
	struct err *(*drain)(void *user, struct image_exam *look, struct buf *out);
	/* The same from the bytes of a .gcdump file; NULL = the file does not have what is needed. */
	struct err *(*drain_gcdump)(void *user, const void *file, size_t len, struct buf *out);
	/* The same from the runtime's heap events; NULL = they do not have what is needed. */
	struct err *(*drain_events)(void *user, struct exam *exam, struct buf *out, struct image_exam_facts *ret_facts);
	/* Reads what drain() wrote, which may be hostile. Called after the copy is gone. */
	struct err *(*take)(void *user, struct cursor *in);
	void *user;

	struct image_exam_facts facts; /* result */
};
/* For exam/shared_looks.h: writes what stands before drain()'s bytes; and takes the part once its bytes are complete. */
void image_exam_part_begin(const struct image_exam_part *part, struct buf *bytes);
struct err *image_exam_part_end(struct exam *exam, struct image_exam_part *part, const struct buf *bytes) MUST_USE;
/* Fills in the exam's window: an instant, or from the first look to the last. */
struct err *exam_image(struct exam *exam, struct image_exam_part *part) MUST_USE;
/* Waits for that time and says whether another look can be taken: not when the exam is cancelled or the target has ended
 * (then the exam is cut), and never of a core. When replaying: does the recording have the part? */
bool exam_image_again(struct exam *exam, uint64_t wait_ms, const char *part);
/* Two looks, PARAM_INTERVAL apart; *ret_n is how many succeeded. One is useful too: when there is no second, or it
 * fails, the exam is cut and continues. */
struct err *exam_image_twice(struct exam *exam, struct image_exam_part parts[2], size_t *ret_n) MUST_USE;
/* One more, PARAM_INTERVAL later; false when there is none, or it fails and the exam is cut. */
bool exam_image_next(struct exam *exam, struct image_exam_part *part);
/* Would a look be refused? Reads only. ret_fix: what would help, in words, or NULL; the caller frees. */
struct err *exam_image_check(const struct exam *exam, char **ret_fix) MUST_USE;
/* The same within a limit of its own. */
struct err *exam_image_check_within(const struct exam *exam, uint64_t max_pause_ms, char **ret_fix) MUST_USE;
/* The same for a look by our library in the process. */
struct err *exam_agent_check(const struct exam *exam, const char **ret_fix) MUST_USE;
/* "How it was measured", of all looks of the exam together. */
void image_exam_how(struct report *report, const struct image_exam_facts *looks, size_t n);
