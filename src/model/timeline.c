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

/* Makes room for that moment. */
static void reach(struct timeline *t, uint64_t since_start_ns)
{
	if (!t->bin_ns)
		t->bin_ns = FIRST_BIN_NS;
	while (since_start_ns / t->bin_ns >= TIMELINE_BINS)
		widen(t);
}

void timeline_add(struct timeline *t, uint64_t since_start_ns, double value)
{
	reach(t, since_start_ns);
	double *bin = &t->v[since_start_ns / t->bin_ns];
	*bin = join(t, *bin, value);
}

void timeline_add_span(struct timeline *t, uint64_t from_ns, uint64_t to_ns)
{
	reach(t, to_ns);
	for (uint64_t at = from_ns, part; at < to_ns; at += part) {
		part = MIN(t->bin_ns - at % t->bin_ns, to_ns - at);
		t->v[at / t->bin_ns] += (double)part;
	}
}

/* As wide as the window asks for, also when the last value came long before its end. */
static struct timeline fit(const struct timeline *t, uint64_t window_ns, size_t max)
{
	struct timeline wide = *t;
	reach(&wide, 0);
	while (window_ns / wide.bin_ns >= MIN(MAX(max, (size_t)1), (size_t)TIMELINE_POINTS))
		widen(&wide);
	return wide;
}

static size_t points(const struct timeline *t, uint64_t window_ns, uint64_t *at_ns, double *values)
{
	size_t n = 0;
	for (; n < TIMELINE_POINTS && n * t->bin_ns < window_ns; n++) {
		at_ns[n] = n * t->bin_ns;
		values[n] = t->v[n];
	}
	return n;
}

size_t timeline_points(const struct timeline *t, uint64_t window_ns, size_t max, uint64_t at_ns[TIMELINE_POINTS],
		       double values[TIMELINE_POINTS])
{
	struct timeline wide = fit(t, window_ns, max);
	return points(&wide, window_ns, at_ns, values);
}

size_t timeline_rates(const struct timeline *t, uint64_t window_ns, size_t max, uint64_t at_ns[TIMELINE_POINTS],
		      double values[TIMELINE_POINTS])
{
	struct timeline wide = fit(t, window_ns, max);
	size_t n = points(&wide, window_ns, at_ns, values);
	for (size_t i = 0; i < n; i++) /* the window may end within the last one */
		values[i] = per_second(values[i], MIN(wide.bin_ns, window_ns - at_ns[i]));
	return n;
}

double timeline_peak(const struct timeline *t, uint64_t window_ns)
{
	if (!t->bin_ns)
		return 0;
	size_t width = MAX((size_t)1, (size_t)(NS_PER_S / t->bin_ns));
	size_t bins = (size_t)MIN((uint64_t)TIMELINE_BINS, window_ns / t->bin_ns);
	double sum = 0, peak = 0;
	for (size_t i = 0; i < bins; i++) {
		sum += t->v[i] - (i >= width ? t->v[i - width] : 0);
		peak = MAX(peak, sum);
	}
	return per_second(peak, width * t->bin_ns);
}
