#pragma once
/* Where a call comes from, as a number that is the same in every run: the nearest return addresses on the stack that lie in
 * drdotnet's own code, found without unwinding. The words of the stack are read upwards; one counts when it points into the code
 * right behind a call instruction. A stale word may stand among them: then one place has two numbers and is tried twice. */
#include <stddef.h>
#include <stdint.h>

#define SITE_FRAMES 5
#define SITE_WORDS 256

struct site_code {
	const uint8_t *text; /* the code from low to high */
	uint64_t low, high;
	uint64_t offset; /* of low in the file */
};

struct site {
	uint64_t hash;
	uint32_t n, at[SITE_FRAMES]; /* as addr2line takes them */
};

static inline int site_is_return(const struct site_code *code, uint64_t word)
{
	if (word < code->low + 8 || word >= code->high)
		return 0;
	const uint8_t *p = code->text + (word - code->low);
	return p[-5] == 0xe8 || (p[-6] == 0xff && p[-5] == 0x15) || (p[-2] == 0xff && (p[-1] & 0xf8) == 0xd0) ||
	       (p[-3] == 0xff && (p[-2] & 0xf8) == 0x50) || (p[-6] == 0xff && (p[-5] & 0xf8) == 0x90);
}

static inline struct site site_of(const struct site_code *code, uint64_t what, const uint64_t *words, size_t n)
{
	struct site site = { .hash = 14695981039346656037u ^ what };
	for (size_t i = 0; i < n && site.n < SITE_FRAMES; i++)
		if (site_is_return(code, words[i])) {
			site.at[site.n] = (uint32_t)(words[i] - code->low + code->offset);
			site.hash = (site.hash ^ site.at[site.n++]) * 1099511628211u;
		}
	site.hash *= 1099511628211u;
	return site;
}
