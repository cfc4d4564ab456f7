/* The four functions that a compiler calls by itself. Our own, so that none is imported; hidden, so that they replace
 * no others. */
#include "agent/agent.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
#if defined(__x86_64__)
	void *ret = to;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
	return ret;
#else
	uint8_t *t = to;
	const uint8_t *f = from;
	for (; n >= 8 && !(((uintptr_t)t | (uintptr_t)f) & 7); n -= 8, t += 8, f += 8)
		*(uint64_t *)(void *)t = *(const uint64_t *)(const void *)f;
	while (n--)
		*t++ = *f++;
	return to;
#endif
}

void *memmove(void *to, const void *from, size_t n)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--)
		t[n] = f[n];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	uint8_t *t = to;
	while (n--)
		*t++ = (uint8_t)byte;
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;
	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}
