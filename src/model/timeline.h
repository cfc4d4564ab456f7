#pragma once
/* Values over a time whose length nobody knows beforehand: a fixed number of bins that double their width whenever the
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
/* At most TIMELINE_POINTS of them over the window, each *ret_width_ns wide and evenly spaced; returns how many. */
size_t timeline_points(const struct timeline *t, uint64_t window_ns, uint64_t at_ns[TIMELINE_POINTS],
		       double values[TIMELINE_POINTS], uint64_t *ret_width_ns);
