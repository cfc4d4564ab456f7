#pragma once
/* Time. Monotonic nanoseconds for measuring (the same clock as the runtime's QPC on Linux), realtime for showing. */

#include "base/base.h"
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)

/* What n in so many nanoseconds are in a second; 0 in no time. */
#define per_second(n, ns) ratio((double)(n)*NS_PER_S, ns)

static inline int64_t timespec_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

uint64_t clock_mono_ns(void);
int64_t clock_real_ns(void);

/* A point on the monotonic clock; DEADLINE_NEVER waits for ever. */
struct deadline {
	uint64_t at_ns;
};
#define DEADLINE_NEVER ((struct deadline){ UINT64_MAX })
struct deadline deadline_in_ms(uint64_t ms);
bool deadline_passed(struct deadline d);
/* For poll(): -1 never, 0 passed, rounded up. */
int deadline_poll_ms(struct deadline d);
