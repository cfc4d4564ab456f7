#pragma once
/* History of many counters: for each a bounded ring of points, the oldest dropped first, and what was lowest and
 * highest since the start (or the last reset).
 *
 * Knows no event, clock or output. Memory is bounded by struct series_limits whatever is put in: series beyond the
 * limit are refused and counted, rings stop growing when the bytes are used up. Pointers to a series stay valid until
 * the set is freed. One thread. */

#include "base/base.h"

enum series_kind {
	SERIES_GAUGE,	  /* the value itself */
	SERIES_RATE,	  /* per second, and the total */
	SERIES_HISTOGRAM, /* quantiles of an interval */
};

/* Columns of a point. NAN = not measured. */
enum { SERIES_VALUE = 0 };							       /* SERIES_GAUGE */
enum { SERIES_PER_SECOND = 0, SERIES_TOTAL };					       /* SERIES_RATE */
enum { SERIES_P50 = 0, SERIES_P95, SERIES_P99, SERIES_COUNT_PER_SECOND, SERIES_MEAN }; /* SERIES_HISTOGRAM */
#define SERIES_COLUMNS_MAX 5

struct series_key {
	const char *provider, *name, *tags; /* no NULL */
};

struct series { /* read only */
	struct series_key key;
	const char *display, *unit; /* no NULL */
	enum series_kind kind;
	bool meter;
	size_t columns;
	size_t n;      /* points kept */
	uint64_t seen; /* points ever */
	int64_t last_ns;
	double last[SERIES_COLUMNS_MAX], min[SERIES_COLUMNS_MAX], max[SERIES_COLUMNS_MAX];
	/* The ring. */
	size_t first, cap;
	int64_t *when_ns;
	double *values; /* cap * columns */
};

struct series_limits {
	size_t max_series, max_points, max_bytes; /* 0 = 4000, 3600, 32 MB */
};

struct series_set;
struct series_set *series_set_new(const struct series_limits *limits);
void series_set_free(struct series_set *set);
DEFINE_CLEANUP(series_set_free, struct series_set *)

struct series_info {
	const char *display, *unit; /* may be NULL */
	enum series_kind kind;
	bool meter;
};
/* The series of that key, made when it is new. NULL when it is known as another kind or there are too many. */
struct series *series_put(struct series_set *set, struct series_key key, const struct series_info *info);
const struct series *series_find(const struct series_set *set, struct series_key key);
size_t series_count(const struct series_set *set);
const struct series *series_at(const struct series_set *set, size_t i); /* in order of first appearance */
uint64_t series_refused(const struct series_set *set);
size_t series_bytes(const struct series_set *set);

/* values: as many as the kind has columns. Times must not go back; a point that does takes the last time. */
void series_add(struct series_set *set, struct series *s, int64_t when_ns, const double *values);
/* Point i, the oldest is 0. Gives its time. */
int64_t series_point(const struct series *s, size_t i, double *ret_values);
/* Forgets points, lowest and highest of every series. */
void series_set_reset(struct series_set *set);

/* The window [from, to] as n cells, in each the highest value of that column, NAN where there is none. */
void series_cells(const struct series *s, size_t column, int64_t from_ns, int64_t to_ns, double *ret, size_t n);
/* The time of the oldest point kept of any series, and of the newest. False when there is none. */
bool series_window(const struct series_set *set, int64_t *ret_from_ns, int64_t *ret_to_ns);
