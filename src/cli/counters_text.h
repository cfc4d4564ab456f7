#pragma once
/* Counters as rows: which there are, in which order, and their values as people read them. Knows no terminal. */

#include "base/buf.h"
#include "base/fmt.h"
#include "base/vec.h"
#include "counters/source.h"

enum counters_sort { COUNTERS_BY_NAME, COUNTERS_BY_VALUE };

struct counters_view {
	struct counters *c;
	char *title;	    /* "Shop.Api (1234)  .NET 10.0.1": safe to show */
	const char *filter; /* part of a name or tag; "" = all */
	enum counters_sort sort;
	int64_t until_ns; /* shows the past up to here; 0 = all */
};

struct counters_row {
	const struct series *s; /* NULL for headings */
	size_t column;
	unsigned indent;
	char *label; /* safe to show */
};
VEC_TYPE(counters_rows, struct counters_row);

/* A heading per provider, a row per series; those with tags stand below their name, quantiles below their histogram. */
void counters_rows_make(const struct counters_view *view, struct counters_rows *ret);
void counters_rows_free(struct counters_rows *rows);

/* The value in its unit: "310 MB", "12 MB/s", "6.2 ms", "-" when it was not measured. */
struct fmt_text counters_value_text(const struct series *s, size_t column, double value);
/* The newest value the view shows, NAN when there is none or it is an old one. */
double counters_value_now(const struct counters_view *view, const struct series *s, size_t column);
/* The kind in a word, for machines: "gauge", "rate", "histogram". */
const char *counters_kind_name(enum series_kind kind);

/* One cell per value, from zero to the highest. */
void counters_sparkline(const double *cells, size_t n, bool ascii, struct buf *out);
