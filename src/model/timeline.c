#include "model/timeline.h"
#include "base/clock.h"

#define FIRST_BIN_NS NS_PER_MS

static double join(const struct timeline *t, double a, double b)
{
	return t->highest ? MAX(a, b) : a + b;
}

static void widen(struct timeline *t)
{
	for (size_t i = 0; i < TIMELINE_BINS; i++)
		t->v[i] = i < TIMELINE_BINS / 2 ? join(t, t->v[2 * i], t->v[2 * i + 1]) : 0;
	t->bin_ns *= 2;
}

void timeline_add(struct timeline *t, uint64_t since_start_ns, double value)
{
	if (!t->bin_ns)
		t->bin_ns = FIRST_BIN_NS;
	while (since_start_ns / t->bin_ns >= TIMELINE_BINS)
		widen(t);
	double *bin = &t->v[since_start_ns / t->bin_ns];
	*bin = join(t, *bin, value);
}

size_t timeline_points(const struct timeline *t, uint64_t window_ns, uint64_t at_ns[TIMELINE_POINTS],
		       double values[TIMELINE_POINTS], uint64_t *ret_width_ns)
{
	/* As wide as the window asks for, also when the last value came long before its end. */
	struct timeline wide = *t;
	if (!wide.bin_ns)
		wide.bin_ns = FIRST_BIN_NS;
	while (window_ns / wide.bin_ns >= TIMELINE_POINTS)
		widen(&wide);
	size_t n = 0;
	for (; n < TIMELINE_POINTS && n * wide.bin_ns < window_ns; n++) {
		at_ns[n] = n * wide.bin_ns;
		values[n] = wide.v[n];
	}
	*ret_width_ns = wide.bin_ns;
	return n;
}
