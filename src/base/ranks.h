#pragma once
/* A set of ascending numbers that finds the rank of a number in constant time: a bit for each number that could be in
 * the set, and a count for each block of bits. Used for the positions of objects in a heap.
 *
 * Memory for bits is touched only near numbers that were added, so few numbers far apart need little. Not for threads.
 */

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
/* The number must be above all that were added, and below the limit. */
void ranks_add(struct ranks *r, uint64_t x);
/* To be called after the last number and before the first question. */
void ranks_seal(struct ranks *r);
/* The rank of the number, from 0; RANKS_NONE = it is not in the set. */
uint32_t ranks_of(const struct ranks *r, uint64_t x);
/* The rank of the last number that is not above it; RANKS_NONE = all are above. */
uint32_t ranks_up_to(const struct ranks *r, uint64_t x);
/* The number that is the i-th, i < n. */
uint64_t ranks_at(const struct ranks *r, uint32_t i);
