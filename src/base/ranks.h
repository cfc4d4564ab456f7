#pragma once
/* A set of ascending numbers that says at once which one of them a number is: a bit for each number that could be in
 * it, and a count for each block of them. Places of objects in a heap are such numbers.
 *
 * Bits that nothing was added near are never touched, so few numbers far apart need little. Not for threads. */

#include "base/base.h"

#define RANKS_NONE UINT32_MAX

struct ranks {
	uint64_t *bits;
	uint32_t *before; /* by block: how many are below it */
	uint64_t limit;
	uint64_t block; /* the last one that has its count */
	unsigned shift; /* numbers of a block, as a power of two */
	uint32_t n;
};
/* Numbers below limit, which is at most 2^32; about `expected` of them, which decides how large blocks are. */
void ranks_init(struct ranks *r, uint64_t limit, uint64_t expected);
void ranks_free(struct ranks *r);
/* Above all that were added, and below the limit. */
void ranks_add(struct ranks *r, uint64_t x);
/* Nothing is added from here on; questions come after it. */
void ranks_seal(struct ranks *r);
/* Which one it is, from 0; RANKS_NONE = none of them. */
uint32_t ranks_of(const struct ranks *r, uint64_t x);
/* The last one that is not above it; RANKS_NONE = all are. */
uint32_t ranks_up_to(const struct ranks *r, uint64_t x);
/* The number that is the i-th, i < n. */
uint64_t ranks_at(const struct ranks *r, uint32_t i);
