#pragma once
/* Values over a time whose length is not known beforehand: a fixed number of bins that double their width whenever the
 * time outgrows them. Embedded by its owner; needs no free. */

#include "base/base.h"

#define TIMELINE_BINS 256
#define TIMELINE_POINTS (TIMELINE_BINS / 2)

struct timeline {
	uint64_t bin_ns; /* 0 at first */
	bool highest;	 /* a bin keeps its highest value instead of their sum */
	double v[TIMELINE_BINS];
};
void timeline_add(struct timeline *t, uint64_t since_start_ns, double value);
/* Adds the nanoseconds of that time, to each bin as many as lie in it. */
void timeline_add_span(struct timeline *t, uint64_t from_ns, uint64_t to_ns);
/* The window in evenly spaced points, at most `max` of them, which is at most TIMELINE_POINTS; returns how many. */
size_t timeline_points(const struct timeline *t, uint64_t window_ns, size_t max, uint64_t at_ns[TIMELINE_POINTS],
		       double values[TIMELINE_POINTS]);
/* The same as rates: what was added in a second. */
size_t timeline_rates(const struct timeline *t, uint64_t window_ns, size_t max, uint64_t at_ns[TIMELINE_POINTS],
		      double values[TIMELINE_POINTS]);
/* The rate of the busiest second of the window. */
double timeline_peak(const struct timeline *t, uint64_t window_ns);
