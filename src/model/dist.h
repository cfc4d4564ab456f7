#pragma once
/* A distribution of measured values: exact quantiles of all values kept, up to max_values, then a uniform sample of
 * them (count, sum, min and max stay exact). */

#include "base/base.h"

struct dist;
struct dist *dist_new(size_t max_values);
void dist_free(struct dist *d);
DEFINE_CLEANUP(dist_free, struct dist *)
void dist_add(struct dist *d, uint64_t value);
uint64_t dist_count(const struct dist *d);
uint64_t dist_sum(const struct dist *d);
uint64_t dist_max(const struct dist *d);
uint64_t dist_min(const struct dist *d);
/* q in 0..1, nearest rank: the smallest value with at least q of all values at or below it. 0 when empty. */
uint64_t dist_quantile(struct dist *d, double q);
bool dist_exact(const struct dist *d);

/* Buckets that double ([0,1), [1,2), [2,4) ...) scaled by `unit`, from the first to the last that holds a value; more
 * than max: the lowest are merged. Counts are estimated from the sample once it is not exact. */
struct dist_bucket {
	uint64_t from, to, count;
};
size_t dist_buckets(struct dist *d, uint64_t unit, struct dist_bucket *ret, size_t max);
