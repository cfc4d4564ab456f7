#include "base/ranks.h"

#define WORD 64u
#define SMALLEST 7 /* two words of bits to a count */

void ranks_init(struct ranks *r, uint64_t limit, uint64_t expected)
{
	*r = (struct ranks){ .limit = MIN(limit, (uint64_t)1 << 32), .shift = SMALLEST };
	while (r->limit >> r->shift > expected + 64)
		r->shift++;
	uint64_t blocks = (r->limit >> r->shift) + 1;
	r->bits = mem_zalloc(blocks << r->shift >> 3);
	r->before = mem_array(blocks, sizeof(*r->before));
	r->before[0] = 0;
}

void ranks_free(struct ranks *r)
{
	mem_free(r->bits);
	mem_free(r->before);
	*r = (struct ranks){ 0 };
}

static void count_up_to(struct ranks *r, uint64_t block)
{
	while (r->block < block)
		r->before[++r->block] = r->n;
}

void ranks_add(struct ranks *r, uint64_t x)
{
	count_up_to(r, x >> r->shift);
	r->bits[x / WORD] |= (uint64_t)1 << x % WORD;
	r->n++;
}

void ranks_seal(struct ranks *r)
{
	count_up_to(r, r->limit >> r->shift);
}

/* The compiler's own is a call, as the oldest processors have no instruction for it. */
static inline uint32_t bits_in(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F;
	return (uint32_t)(x * 0x0101010101010101 >> 56);
}

/* How many are below x. */
static inline uint32_t below(const struct ranks *r, uint64_t x)
{
	uint64_t word = x >> r->shift << r->shift >> 6;
	uint32_t n = r->before[x >> r->shift];
	for (; word < x / WORD; word++)
		n += bits_in(r->bits[word]);
	return n + bits_in(r->bits[word] & (((uint64_t)1 << x % WORD) - 1));
}

uint32_t ranks_of(const struct ranks *r, uint64_t x)
{
	if (x >= r->limit || !(r->bits[x / WORD] >> x % WORD & 1))
		return RANKS_NONE;
	return below(r, x);
}

uint32_t ranks_up_to(const struct ranks *r, uint64_t x)
{
	/* none below leaves RANKS_NONE */
	return x >= r->limit ? r->n - 1 : below(r, x + 1) - 1;
}

uint64_t ranks_at(const struct ranks *r, uint32_t i)
{
	uint64_t lo = 0, hi = r->limit >> r->shift;
	while (lo < hi) { /* the last block with no more than i below it */
		uint64_t mid = lo + (hi - lo + 1) / 2;
		if (r->before[mid] <= i)
			lo = mid;
		else
			hi = mid - 1;
	}
	uint32_t left = i - r->before[lo];
	uint64_t word = lo << r->shift >> 6;
	for (; bits_in(r->bits[word]) <= left; word++)
		left -= bits_in(r->bits[word]);
	uint64_t bits = r->bits[word];
	while (left--)
		bits &= bits - 1;
	return word * WORD + (unsigned)__builtin_ctzll(bits);
}
