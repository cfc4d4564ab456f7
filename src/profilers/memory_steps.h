#pragma once
/* How an amount of memory changed from look to look, when it did not grow at each of them. */

#include "report/report.h"

#define MEMORY_STEPS_MAX 20
/* Grows still: the last step is at least this part of the average one. A cache that is full does not. */
#define STILL_GROWS 0.25

struct memory_steps {
	uint64_t bytes[MEMORY_STEPS_MAX];
	uint32_t n;
};
uint64_t memory_steps_range(const struct memory_steps *s); /* from the least to the most */
/* So much that nobody would call it steady. */
bool memory_steps_much(const struct memory_steps *s);
/* By how much it grew, when it did so at each of three looks or more and still does, by a part of all that is in RAM that
 * is worth a word; else 0. */
int64_t memory_steps_grow(const struct memory_steps *s, uint64_t rss);
/* Did it fall between two looks, by a good part of that? Then it comes and goes. */
bool memory_steps_fall(const struct memory_steps *s);
/* "What is alive grew from 40 MB to 120 MB, but not at every look (40 MB → 40 MB → 120 MB)." */
void memory_steps_say(const struct memory_steps *s, struct rich *v);
