#pragma once
/* What one look into memory knows about a process, for profilers whose own instrument (events, samples) does not see
 * it: which field a lock is, who holds it and what the holder does meanwhile; which task a thread blocks on and where the
 * chain behind that ends; which HTTP request a thread is in.
 *
 * One look, taken after the window of the profiler, so that it changes nothing that was measured there. It has a limit of
 * its own (PARAM_LOOK_PAUSE), PARAM_NO_LOOK leaves it out, and it is left out, never waited for, when another examination
 * has the process, when memory is short or the way is closed. It never fails: `why_not` says why there is none.
 *
 * It is a part of the recording ("knowledge"), so a replay knows the same. What is read back may be hostile.
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
/* For a profiler's `cost`. */
#define LOOK_COST "one pause of a few ms at its end (a look into memory: at most 20 ms foreseen, none with --no-look)"

/* A thread that handles an HTTP request. */
struct knowledge_request {
	uint32_t os_id;
	const char *endpoint; /* "GET /orders/{id}"; where no route is known, the path */
};

struct knowledge {
	struct thread_snapshot *threads; /* NULL = it did not look */
	struct image_exam_facts facts;
	char *why_not; /* it did not look, because; NULL = it did, or that is not known (of older recordings) */
	bool older;    /* out of a part of earlier programs: reports of it stay as they were */
	struct strtab strings;
	VEC(struct knowledge_request) requests; /* at most one a thread */
	struct map_u64 by_os_id;		/* -> thread + 1 */
	struct map_u64 endpoints;		/* thread -> request + 1 */
	struct map_u64 still;			/* threads (os id) that did not run from the beginning on */
	struct target_threads before;		/* live: as they were at the beginning */
	struct exam *exam;			/* live, from the look on */
};

/* Before the window, live: notes how often each thread has run, from outside. */
void knowledge_begin(const struct exam *exam, struct knowledge *k);
struct knowledge_wanted {
	const char *older;   /* a part of earlier programs that holds a thread snapshot alone, or NULL */
	bool requests;	     /* nothing but requests is of use: no look at a process that serves none */
	const char *nothing; /* why there is nothing to look for; NULL = there is */
};
/* After it: looks, or recalls what was recorded. Where looks are shared (exam/shared_looks.h), what it knows is there
 * when they have been taken: before the analysis. */
void knowledge_look(struct exam *exam, const struct knowledge_wanted *wanted, struct knowledge *k);
void knowledge_fini(struct knowledge *k);
/* "How it was measured": one line, whether it looked, and if not why. Nothing where that is not known. */
void knowledge_how(const struct knowledge *k, struct report *report);

/* ---- threads ---- */

/* By the id that the process itself knows it by, as events have it; SNAPSHOT_NONE = it was not there, or no look. */
uint32_t knowledge_thread(const struct knowledge *k, uint64_t os_id);
/* It did not run from knowledge_begin() on: whatever it waits for, it has waited for all the time. False as well when
 * that is not known. */
bool knowledge_stood_still(const struct knowledge *k, uint32_t thread);
/* What HTTP request it handles: "GET /orders/{id}"; NULL = none, or not known. */
const char *knowledge_endpoint(const struct knowledge *k, uint32_t thread);
/* The endpoint that more than half of these threads have; NULL = none. */
const char *knowledge_common_endpoint(const struct knowledge *k, const uint32_t *threads, size_t n);

/* The endpoint of all requests whose threads had that method on their stack; NULL = there were none, or several. One
 * instant is no proof for the window: reports say "seen serving". */
const char *knowledge_endpoint_of_method(const struct knowledge *k, const char *method);
/* ", seen serving GET /orders/{id}"; nothing where that is not known. */
void knowledge_add_serving(const struct knowledge *k, const char *method, struct rich *text);
/* The same as a line of a table's row. */
void knowledge_add_serving_line(const struct knowledge *k, const char *method, struct report_row *row);

/* ---- waits ---- */

/* What a thread does and where, as a sentence goes on: "sleeps in Shop.Stock.Refill (Stock.cs:12)". */
void knowledge_add_doing(const struct knowledge *k, uint32_t thread, struct rich *text);
/* Who holds it and what they do meanwhile: ", held by 'refill' (tid 12), which sleeps in Shop.Stock.Refill". Where a
 * holder itself waits for something that is held, the last one of that chain is told too; nothing where no holder is
 * known. */
void knowledge_add_holder(const struct knowledge *k, uint32_t thing, struct rich *text);
/* What the threads of a group do, as a sentence goes on: "block on tasks of Shop.Api.LoadAsync, which in the end await
 * Shop.Api.Reply", "wait for Shop.Stock._gate, held by 'refill' (tid 12), which sleeps in Shop.Stock.Refill". */
void knowledge_add_group(const struct knowledge *k, const struct thread_groups *gs, const struct thread_group *g,
			 struct rich *text);
/* The same of the largest group of blocked threads whose innermost method of the user's own code that is, with `before`
 * in front; nothing where there is none. */
void knowledge_add_blocked_in(const struct knowledge *k, const char *method, const char *before, struct rich *text);
/* The endpoint of most of its threads; NULL = none that more than half of them have. */
const char *knowledge_group_endpoint(const struct knowledge *k, const struct thread_groups *gs,
				     const struct thread_group *g);

/* ---- inside: how requests are found while the copy lives (in_flight.c) ---- */

/* Appends "u32 n, n x (u32 os id, text endpoint)". What cannot be read is left out. */
void in_flight_drain(struct image_exam *look, struct buf *out);
