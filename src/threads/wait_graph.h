#pragma once
/* The wait graph: threads, the objects they wait for, and circles among them. */

#include "threads/thread_snapshot.h"

/* A thread of a circle: it waits for `thing`, which the next thread holds. The last waits for the first. */
struct circle_step {
	uint32_t thread, thing;
};
struct circle {
	uint32_t first, n; /* in steps */
	bool guessed;	   /* the holder of at least one of its wait objects is a guess */
	uint32_t behind;   /* threads that wait for one of its threads, directly or not, and are not part of it */
};
struct circles {
	VEC(struct circle) v;
	VEC(struct circle_step) steps;
};
/* Each thread is part of at most one. Certain ones first, then the longest queue behind. */
void circles_find(const struct thread_snapshot *s, struct circles *ret);
void circles_free(struct circles *c);
/* Is there a circle of the same threads in another look at the same process? */
bool circles_have(const struct thread_snapshot *s, const struct circles *in, const struct thread_snapshot *of,
		  const struct circles *from, const struct circle *circle);

/* How many threads wait for the thing. */
uint32_t thing_waiting(const struct thread_snapshot *s, uint32_t thing);
