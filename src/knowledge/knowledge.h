#pragma once
/* What one look into memory knows about a process, for profilers whose own instrument (events, samples) does not see
 * it: which field a lock is, who holds it and what the holder does meanwhile; which task a thread blocks on and where the
 * chain behind that ends; which HTTP request a thread is in.
 *
 * The one look is taken after the profiler's window, so that it changes nothing that was measured there. It has its own
 * limit of the pause (PARAM_LOOK_PAUSE), and the user can switch it off (PARAM_NO_LOOK). It is left out, never waited
 * for, when another examination holds the process, when memory is short, or when the process cannot be copied. It never
 * fails: `why_not` says why there was no look.
 *
 * What it found is a part of the recording ("knowledge"), so that a replay knows the same. A recording may be hostile.
 *
 *	struct knowledge k = { 0 };
 *	knowledge_begin(exam, &k);
 *	... the window ...
 *	knowledge_look(exam, &(struct knowledge_wanted){ 0 }, &k);
 *	...
 *	uint32_t t = knowledge_thread(&k, tid);
 *	if (t != SNAPSHOT_NONE && knowledge_endpoint(&k, t)) ...
 *	knowledge_how(&k, report);
 *	knowledge_fini(&k); */

#include "exam/image_exam.h"
#include "target/threads.h"
#include "threads/thread_groups.h"
#include "threads/thread_snapshot.h"

#define PARAM_NO_LOOK                                                                                                  \
	{                                                                                                              \
		.key = "no_look", .name = "No look into memory",                                                       \
		.description = "Never pause it for the one look into its memory that names locks, tasks and requests", \
		.type = PARAM_BOOL, .default_value = "false"                                                           \
	}
#define PARAM_LOOK_PAUSE                                                                                               \
	{                                                                                                              \
		.key = "look_pause_ms", .name = "Longest pause of that look",                                          \
		.description = "Leave the look out when the process would stand still for longer", .type = PARAM_INT,  \
		.unit = "ms", .default_value = "20", .min = 1, .max = 60000                                            \
	}
/* The words for it in a profiler's `cost`. */
#define LOOK_COST "one pause of a few ms at its end (a look into memory: at most 20 ms foreseen, none with --no-look)"

/* A thread that handles an HTTP request. */
struct knowledge_request {
	uint32_t os_id;
	const char *endpoint; /* "GET /orders/{id}"; where no route is known, the path */
};

struct knowledge {
	struct thread_snapshot *threads; /* NULL = it did not look */
	struct image_exam_facts facts;
	char *why_not; /* why it did not look; NULL = it did, or an older recording does not say */
	bool older;    /* read from the recording of an earlier version: its report stays as it was then */
	struct strtab strings;
	VEC(struct knowledge_request) requests; /* at most one a thread */
	struct map_u64 by_os_id;		/* -> thread + 1 */
	struct map_u64 endpoints;		/* thread -> request + 1 */
	struct map_u64 still;			/* threads (os id) that did not run during the window */
	struct target_threads before;		/* live: all threads at the beginning of the window */
	struct exam *exam;			/* live, from the look on */
};

/* To be called before the window of a living process: notes how often the kernel has let each thread run so far. */
void knowledge_begin(const struct exam *exam, struct knowledge *k);
struct knowledge_wanted {
	const char *older;   /* name of the part in which earlier versions kept a thread snapshot alone, or NULL */
	bool requests;	     /* only requests are of use: a process that serves none is not looked at */
	const char *nothing; /* why there is nothing to look for; NULL = there is */
};
/* To be called after the window: takes the look, or reads what was recorded. Where looks are shared
 * (exam/shared_looks.h) the look is taken later, with those; its results are there before the analysis. */
void knowledge_look(struct exam *exam, const struct knowledge_wanted *wanted, struct knowledge *k);
void knowledge_fini(struct knowledge *k);
/* Adds one line to "How it was measured": whether it looked, and if not why. Adds nothing where that is not known. */
void knowledge_how(const struct knowledge *k, struct report *report);

/* ---- threads ---- */

/* The thread with that id, in the process's own numbering as events have it; SNAPSHOT_NONE = there was none, or no look. */
uint32_t knowledge_thread(const struct knowledge *k, uint64_t os_id);
/* True when the thread did not run between knowledge_begin() and the look: it has waited for the same thing all the time.
 * False as well when that is not known. */
bool knowledge_stood_still(const struct knowledge *k, uint32_t thread);
/* The HTTP request that the thread handles: "GET /orders/{id}"; NULL = none, or not known. */
const char *knowledge_endpoint(const struct knowledge *k, uint32_t thread);
/* The endpoint that more than half of these threads have; NULL = none. */
const char *knowledge_common_endpoint(const struct knowledge *k, const uint32_t *threads, size_t n);

/* The endpoint of all requests whose threads had that method on their stack; NULL = there were none, or several
 * different ones. It was so at one instant, which proves nothing for the whole window: reports say "seen serving". */
const char *knowledge_endpoint_of_method(const struct knowledge *k, const char *method);
/* ", seen serving GET /orders/{id}"; nothing where that is not known. */
void knowledge_add_serving(const struct knowledge *k, const char *method, struct rich *text);
/* The same as a line of a table's row. */
void knowledge_add_serving_line(const struct knowledge *k, const char *method, struct report_row *row);

/* ---- waits ---- */

/* Appends what a thread does and where, as the continuation of a sentence: "sleeps in Shop.Stock.Refill (Stock.cs:12)". */
void knowledge_add_doing(const struct knowledge *k, uint32_t thread, struct rich *text);
/* Appends who holds a wait object and what the holder does: ", held by 'refill' (tid 12), which sleeps in
 * Shop.Stock.Refill". Where the holder itself waits for something that is held, the last holder of that chain is named
 * too. Appends nothing where no holder is known. */
void knowledge_add_holder(const struct knowledge *k, uint32_t thing, struct rich *text);
/* Appends what the threads of a group do, as the continuation of a sentence: "block on tasks of Shop.Api.LoadAsync, which in the end await
 * Shop.Api.Reply", "wait for Shop.Stock._gate, held by 'refill' (tid 12), which sleeps in Shop.Stock.Refill". */
void knowledge_add_group(const struct knowledge *k, const struct thread_groups *gs, const struct thread_group *g,
			 struct rich *text);
/* The same for the largest group of blocked threads whose innermost method of the user's own code is `method`, with the
 * text `before` in front. Appends nothing where there is no such group. */
void knowledge_add_blocked_in(const struct knowledge *k, const char *method, const char *before, struct rich *text);
/* The endpoint that more than half of the group's threads have; NULL = none. */
const char *knowledge_group_endpoint(const struct knowledge *k, const struct thread_groups *gs,
				     const struct thread_group *g);

/* ---- private to this module: how requests are found while the copy lives (in_flight.c) ---- */

/* Appends "u32 n, n x (u32 os id, text endpoint)". What cannot be read is left out. */
void in_flight_drain(struct image_exam *look, struct buf *out);
