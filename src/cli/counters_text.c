#include "cli/counters_text.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- units ---- */

enum quantity { COUNT, BYTES, SECONDS, PERCENT, OTHER };
struct unit {
	const char *word;
	enum quantity quantity;
	double factor; /* to bytes, seconds, per cent */
};
static const struct unit units[] = {
	{ "", COUNT, 1 },	   { "1", COUNT, 1 },	    { "count", COUNT, 1 },	{ "By", BYTES, 1 },
	{ "B", BYTES, 1 },	   { "bytes", BYTES, 1 },   { "byte", BYTES, 1 },	{ "KB", BYTES, 1e3 },
	{ "kB", BYTES, 1e3 },	   { "MB", BYTES, 1e6 },    { "GB", BYTES, 1e9 },	{ "kBy", BYTES, 1e3 },
	{ "MBy", BYTES, 1e6 },	   { "KiBy", BYTES, 1024 }, { "MiBy", BYTES, 1 << 20 }, { "GiBy", BYTES, 1 << 30 },
	{ "s", SECONDS, 1 },	   { "sec", SECONDS, 1 },   { "seconds", SECONDS, 1 },	{ "ms", SECONDS, 1e-3 },
	{ "msec", SECONDS, 1e-3 }, { "us", SECONDS, 1e-6 }, { "µs", SECONDS, 1e-6 },	{ "ns", SECONDS, 1e-9 },
	{ "min", SECONDS, 60 },	   { "h", SECONDS, 3600 },  { "%", PERCENT, 1 },
};

static struct unit unit_of(const char *word)
{
	if (word[0] == '{') /* an annotation: {request} */
		return units[0];
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_eq(units[i].word, word))
			return units[i];
	return (struct unit){ .word = word, .quantity = OTHER, .factor = 1 };
}

static struct fmt_text number_text(double x)
{
	/* Counts are whole: shown to the last digit. */
	if (x == floor(x) && fabs(x) < 1e15) {
		struct fmt_text t = fmt_count((uint64_t)fabs(x)), signed_t;
		snprintf(signed_t.s, sizeof(signed_t.s), "%s%.30s", x < 0 ? "-" : "", t.s);
		return signed_t;
	}
	return fmt_number(x);
}

static struct fmt_text quantity_text(struct unit unit, double x)
{
	struct fmt_text t = { "" }, part;
	double a = fabs(x) * unit.factor;
	const char *sign = x < 0 ? "-" : "";
	switch (unit.quantity) {
	case BYTES:
		part = fmt_bytes(a < 9e18 ? (uint64_t)(a + 0.5) : UINT64_MAX);
		snprintf(t.s, sizeof(t.s), "%s%.30s", sign, part.s);
		return t;
	case SECONDS:
		if (a == 0)
			return (struct fmt_text){ "0 s" };
		part = fmt_duration_ns(a < 9e9 ? (uint64_t)(a * 1e9 + 0.5) : UINT64_MAX);
		snprintf(t.s, sizeof(t.s), "%s%.30s", sign, part.s);
		return t;
	case PERCENT:
		return fmt_percent(x / 100);
	case COUNT:
		return number_text(x);
	case OTHER:
		break;
	}
	struct buf word = { 0 };
	str_add_visible(&word, unit.word, strlen(unit.word), 8);
	part = number_text(x);
	snprintf(t.s, sizeof(t.s), "%.20s %.18s", part.s, buf_cstr(&word));
	buf_free(&word);
	return t;
}

struct fmt_text counters_value_text(const struct series *s, size_t column, double value)
{
	if (!isfinite(value))
		return (struct fmt_text){ "-" };
	struct unit unit = unit_of(s->unit);
	if (s->kind == SERIES_HISTOGRAM && column == SERIES_COUNT_PER_SECOND)
		return fmt_rate(value);
	if (s->kind != SERIES_RATE || column != SERIES_PER_SECOND)
		return quantity_text(unit, value);
	if (unit.quantity == COUNT || unit.quantity == OTHER)
		return fmt_rate(value);
	struct fmt_text t = quantity_text(unit, value), rate;
	snprintf(rate.s, sizeof(rate.s), "%.36s/s", t.s);
	return rate;
}

double counters_value_now(const struct counters_view *view, const struct series *s, size_t column)
{
	double v[SERIES_COLUMNS_MAX];
	if (!view->until_ns)
		return counters_fresh(view->c, s) ? s->last[column] : NAN;
	for (size_t i = s->n; i-- > 0;)
		if (series_point(s, i, v) <= view->until_ns)
			return v[column];
	return NAN;
}

const char *counters_kind_name(enum series_kind kind)
{
	static const char *const names[] = {
		[SERIES_GAUGE] = "gauge", [SERIES_RATE] = "rate", [SERIES_HISTOGRAM] = "histogram"
	};
	return names[kind];
}

/* ---- rows ---- */

struct sorting {
	const struct series *s;
	double value;
	enum counters_sort sort;
};

static int compare(const void *pa, const void *pb)
{
	const struct sorting *a = pa, *b = pb;
	int by = strcmp(a->s->key.provider, b->s->key.provider);
	if (!by && a->sort == COUNTERS_BY_VALUE && a->value != b->value)
		return isnan(b->value) || a->value > b->value ? -1 : 1;
	by = by ? by : strcmp(a->s->key.name, b->s->key.name);
	return by ? by : strcmp(a->s->key.tags, b->s->key.tags);
}

static bool matches(const struct series *s, const char *filter)
{
	return str_empty(filter) || str_contains_nocase(s->key.name, filter) ||
	       str_contains_nocase(s->key.provider, filter) || str_contains_nocase(s->key.tags, filter) ||
	       str_contains_nocase(s->display, filter);
}

static void add_row(struct counters_rows *rows, const struct series *s, size_t column, unsigned indent,
		    const char *label)
{
	struct buf safe = { 0 };
	str_add_visible(&safe, label, strlen(label), 200);
	vec_push(rows,
		 ((struct counters_row){ .s = s, .column = column, .indent = indent, .label = buf_steal(&safe) }));
}

static void add_series(struct counters_rows *rows, const struct series *s, bool name_above)
{
	static const char *const quantiles[] = { [SERIES_P50] = "p50", [SERIES_P95] = "p95", [SERIES_P99] = "p99" };
	bool tags = *s->key.tags;
	if (tags && !name_above)
		add_row(rows, NULL, 0, 1, s->key.name);
	bool histogram = s->kind == SERIES_HISTOGRAM;
	add_row(rows, s, histogram ? SERIES_COUNT_PER_SECOND : 0, tags ? 2 : 1, tags ? s->key.tags : s->key.name);
	for (size_t q = 0; histogram && q < ARRAY_SIZE(quantiles); q++)
		add_row(rows, s, q, tags ? 3 : 2, quantiles[q]);
}

void counters_rows_make(const struct counters_view *view, struct counters_rows *ret)
{
	const struct series_set *set = counters_series(view->c);
	VEC(struct sorting) all = { 0 };
	for (size_t i = 0; i < series_count(set); i++) {
		const struct series *s = series_at(set, i);
		size_t column = s->kind == SERIES_HISTOGRAM ? SERIES_COUNT_PER_SECOND : 0;
		if (matches(s, view->filter))
			vec_push(&all, ((struct sorting){ s, counters_value_now(view, s, column), view->sort }));
	}
	vec_sort(&all, compare);
	const struct series *last = NULL;
	vec_each(it, &all) {
		const struct series *s = it->s;
		bool same = last && str_eq(last->key.provider, s->key.provider);
		if (!same)
			add_row(ret, NULL, 0, 0, s->key.provider);
		add_series(ret, s, same && *last->key.tags && str_eq(last->key.name, s->key.name));
		last = s;
	}
	vec_free(&all);
}

void counters_rows_free(struct counters_rows *rows)
{
	vec_each(row, rows)
		mem_free(row->label);
	vec_free(rows);
}

void counters_sparkline(const double *cells, size_t n, bool ascii, struct buf *out)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const letters[] = { "_", ".", "-", "=", "+", "*", "%", "#" };
	double top = 0;
	for (size_t i = 0; i < n; i++)
		top = fmax(top, cells[i]);
	for (size_t i = 0; i < n; i++) {
		double part = top > 0 && cells[i] > 0 ? cells[i] / top : 0;
		size_t level = (size_t)(part * 7 + 0.5);
		buf_str(out, isnan(cells[i]) ? " " : ascii ? letters[level] : blocks[level]);
	}
}
