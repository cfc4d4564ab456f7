#include "model/dist.h"
#include "base/map.h"
#include "base/vec.h"
#include <math.h>
#include <stdlib.h>

struct dist {
	VEC(uint64_t) kept;
	size_t max_values;
	bool sorted;
	uint64_t count, sum, min, max;
};

struct dist *dist_new(size_t max_values)
{
	struct dist *d = mem_zalloc(sizeof(*d));
	d->max_values = MAX(max_values, (size_t)1);
	return d;
}

void dist_free(struct dist *d)
{
	if (!d)
		return;
	vec_free(&d->kept);
	mem_free(d);
}

void dist_add(struct dist *d, uint64_t value)
{
	d->min = d->count ? MIN(d->min, value) : value;
	d->max = MAX(d->max, value);
	d->sum = d->sum > UINT64_MAX - value ? UINT64_MAX : d->sum + value;
	d->count++;
	if (d->kept.n < d->max_values) {
		vec_push(&d->kept, value);
		d->sorted = false;
		return;
	}
	/* Reservoir: the n-th value stays with probability max/n. The hash of n stands for chance, so that a replayed
	 * recording gives the same report. Sorting between adds does not bias it: the place replaced is uniform. */
	uint64_t place = hash_u64(d->count * 0x9e3779b97f4a7c15ULL) % d->count;
	if (place < d->kept.n) {
		d->kept.v[place] = value;
		d->sorted = false;
	}
}

uint64_t dist_count(const struct dist *d)
{
	return d->count;
}

uint64_t dist_sum(const struct dist *d)
{
	return d->sum;
}

uint64_t dist_max(const struct dist *d)
{
	return d->max;
}

uint64_t dist_min(const struct dist *d)
{
	return d->min;
}

bool dist_exact(const struct dist *d)
{
	return d->count == d->kept.n;
}

static int ascending(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
	return CMP(a, b);
}

uint64_t dist_quantile(struct dist *d, double q)
{
	if (!d->count)
		return 0;
	if (!(q > 0))
		return d->min;
	if (q >= 1)
		return d->max;
	if (!d->sorted)
		vec_sort(&d->kept, ascending);
	d->sorted = true;
	/* A hair off the product, so that 0.95 of 100 is the 95th and not the 96th. */
	double rank = ceil(q * (double)d->kept.n - 1e-9);
	size_t i = rank < 1 ? 0 : (size_t)rank - 1;
	return d->kept.v[MIN(i, d->kept.n - 1)];
}

/* 0 for [0, unit), k for [2^(k-1), 2^k) units. */
static unsigned bucket_of(uint64_t value, uint64_t unit)
{
	uint64_t x = value / unit;
	return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

static uint64_t bucket_start(unsigned k, uint64_t unit)
{
	if (!k)
		return 0;
	if (k > 64 || unit > UINT64_MAX >> (k - 1))
		return UINT64_MAX;
	return unit << (k - 1);
}

size_t dist_buckets(struct dist *d, uint64_t unit, struct dist_bucket *ret, size_t max)
{
	if (!d->count || !max)
		return 0;
	unit = MAX(unit, (uint64_t)1);
	unsigned first = bucket_of(d->min, unit), last = bucket_of(d->max, unit);
	unsigned lowest = last - first + 1 > max ? last - (unsigned)max + 1 : first;
	size_t n = last - lowest + 1;
	for (unsigned k = lowest; k <= last; k++) {
		uint64_t from = bucket_start(k == lowest ? first : k, unit);
		ret[k - lowest] = (struct dist_bucket){ from, bucket_start(k + 1, unit), 0 };
	}
	vec_each(v, &d->kept) {
		unsigned k = bucket_of(*v, unit);
		ret[k < lowest ? 0 : k - lowest].count++;
	}
	double scale = (double)d->count / (double)d->kept.n;
	for (size_t i = 0; i < n && scale > 1; i++)
		ret[i].count = (uint64_t)((double)ret[i].count * scale + 0.5);
	return n;
}
