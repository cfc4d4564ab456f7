#pragma once
/* Looks of several exams at the same instants: one copy of the process, of which each exam drains its part.
 *
 * One exam leads: it takes its looks as always. While each of its copies lives, the parts of the others are drained
 * too. A profiler that looks by itself declares its parts (struct profiler, looks); when it is run afterwards, it gets
 * them from exam_image() as if it had looked. A look at the end of another instrument's window (knowledge/) is put off
 * until the first copy. What was not drained, because the leader had fewer looks or failed, each exam takes itself.
 *
 *	struct shared_looks *s = shared_looks_new();
 *	... exams of other ways run, with exam->looks = s: their looks are put off ...
 *	shared_looks_want(s, &profiler_deadlocks);
 *	leader.looks = s, leader.leads = true: it runs
 *	shared_looks_end(s);
 *	... the exam of deadlocks runs, with exam->looks = s ... */

#include "exam/image_exam.h"

struct shared_looks *shared_looks_new(void);
void shared_looks_free(struct shared_looks *s);

/* Its parts are drained, one at each look of the leader's. */
void shared_looks_want(struct shared_looks *s, const struct profiler *p);
/* The exam's part is drained from the first copy, then understood as exam_image() would, then done() is called: with the
 * reason when it failed. The exam and part->user must live until then. */
void shared_looks_put_off(struct shared_looks *s, struct exam *exam, const struct image_exam_part *part,
			  void (*done)(void *user, const struct image_exam_facts *facts, struct err *failed));
/* What the exam has put off is not wanted any more: its state is gone. */
void shared_looks_forget(struct shared_looks *s, const struct exam *exam);
/* No more looks will be taken: those that were put off learn whether there was one. */
void shared_looks_end(struct shared_looks *s, const char *why_not);

/* For image_exam.c, of the leader's looks: a copy lives; what it cost once it is gone, or that it was lost. */
void shared_looks_drain(struct shared_looks *s, struct image_exam *look);
void shared_looks_taken(struct shared_looks *s, const struct image_exam_facts *facts, enum way way, bool whole);
/* A part of the profiler that was drained already, in the form in which looks are kept; NULL = it must look itself. */
const struct buf *shared_looks_part(const struct shared_looks *s, const struct profiler *p, const char *part,
				    struct image_exam_facts *ret_facts);
/* Why the profiler need not try a look of its own: the leader could take none, for a reason that is the process's or the
 * machine's. NULL = it may. */
const char *shared_looks_refused(const struct shared_looks *s, const struct profiler *p);
/* The way that the profiler's first part was got by; WAY_AUTO = it must look itself. */
enum way shared_looks_way(const struct shared_looks *s, const struct profiler *p);
