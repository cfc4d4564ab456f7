#include "base/clock.h"
#include <limits.h>
#include <time.h>

uint64_t clock_mono_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)timespec_ns(ts);
}

int64_t clock_real_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return timespec_ns(ts);
}

struct deadline deadline_in_ms(uint64_t ms)
{
	uint64_t delta, at;
	if (__builtin_mul_overflow(ms, (uint64_t)NS_PER_MS, &delta) ||
	    __builtin_add_overflow(clock_mono_ns(), delta, &at))
		return DEADLINE_NEVER;
	return (struct deadline){ at };
}

bool deadline_passed(struct deadline d)
{
	return d.at_ns != UINT64_MAX && clock_mono_ns() >= d.at_ns;
}

int deadline_poll_ms(struct deadline d)
{
	if (d.at_ns == UINT64_MAX)
		return -1;
	uint64_t now = clock_mono_ns();
	if (now >= d.at_ns)
		return 0;
	uint64_t ms = (d.at_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
