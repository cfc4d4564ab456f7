#pragma once
/* Several exams look at the same copies of a process, so that it is stopped once instead of once for each exam.
 *
 * One exam leads: it takes its looks as it would alone. While a copy of its lives, the parts of the other exams are
 * drained from that copy too. A profiler that looks by itself declares its parts (struct profiler, looks); when it is run
 * afterwards, exam_image() gives it those bytes as if it had looked. A look at the end of another instrument's window
 * (knowledge/) is put off until the leader's first copy. What was not drained, because the leader took fewer looks or
 * failed, an exam takes by a look of its own.
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

/* The profiler's parts are to be drained, one at each look of the leader. */
void shared_looks_want(struct shared_looks *s, const struct profiler *p);
/* The exam's part is to be drained from the first copy and read back as exam_image() does; then done() is called, with
 * `failed` when there was no look or it failed. The exam and part->user must live until then. */
void shared_looks_put_off(struct shared_looks *s, struct exam *exam, const struct image_exam_part *part,
			  void (*done)(void *user, const struct image_exam_facts *facts, struct err *failed));
/* Drops what the exam has put off, because the exam's state is about to be freed. */
void shared_looks_forget(struct shared_looks *s, const struct exam *exam);
/* No more looks will be taken: done() is called for every part that was put off and not drained, with this reason. */
void shared_looks_end(struct shared_looks *s, const char *why_not);

/* For image_exam.c, when the leader looks. The first is called while the copy lives, the second when it is gone: with what
 * it cost the process, or with whole = false when it was lost. */
void shared_looks_drain(struct shared_looks *s, struct image_exam *look);
void shared_looks_taken(struct shared_looks *s, const struct image_exam_facts *facts, enum way way, bool whole);
/* A part of the profiler that was drained already, in the form in which recordings keep it; NULL = it must look itself. */
const struct buf *shared_looks_part(const struct shared_looks *s, const struct profiler *p, const char *part,
				    struct image_exam_facts *ret_facts);
/* Why the profiler should not try a look of its own: the leader could take none, and the reason lies in the process or
 * the machine, not in the leader. NULL = it may try. */
const char *shared_looks_refused(const struct shared_looks *s, const struct profiler *p);
/* The way by which the profiler's first part was got; WAY_AUTO = it must look itself. */
enum way shared_looks_way(const struct shared_looks *s, const struct profiler *p);
