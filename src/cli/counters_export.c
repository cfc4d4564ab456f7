#include "cli/counters_export.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "ipc/patient.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

#define LABEL_COLUMNS 58
#define VALUE_COLUMNS 14

/* ---- lines for people ---- */

static void add_padded(struct buf *out, const char *text, size_t columns, bool right)
{
	size_t width = utf8_width(text), pad = columns - MIN(columns, width);
	buf_repeat(out, " ", right ? pad : 0);
	buf_str(out, text);
	buf_repeat(out, " ", right ? 0 : pad);
}

void counters_plain(const struct counters_view *view, bool first, struct buf *out)
{
	struct counters_rows rows = { 0 };
	counters_rows_make(view, &rows);
	buf_printf(out, "%s%s  %s\n", first ? "" : "\n", fmt_time_utc(clock_real_ns()).s, view->title);
	vec_each(row, &rows) {
		buf_repeat(out, " ", row->indent * 2);
		if (!row->s) {
			buf_printf(out, "%s\n", row->label);
			continue;
		}
		double value = counters_value_now(view, row->s, row->column);
		add_padded(out, row->label, LABEL_COLUMNS - row->indent * 2, false);
		add_padded(out, counters_value_text(row->s, row->column, value).s, VALUE_COLUMNS, true);
		double total = row->s->kind == SERIES_RATE ? counters_value_now(view, row->s, SERIES_TOTAL) : NAN;
		if (isfinite(total))
			buf_printf(out, "   total %s", counters_value_text(row->s, SERIES_TOTAL, total).s);
		buf_char(out, '\n');
	}
	if (!rows.n)
		buf_str(out, "  nothing was heard\n");
	counters_rows_free(&rows);
}

/* ---- JSON ---- */

static void add_series(struct jsonw *w, const struct series *s)
{
	static const char *const columns[][SERIES_COLUMNS_MAX] = {
		[SERIES_GAUGE] = { "value" },
		[SERIES_RATE] = { "perSecond", "total" },
		[SERIES_HISTOGRAM] = { "p50", "p95", "p99", "perSecond", "mean" },
	};
	jsonw_object(w, NULL);
	jsonw_str(w, "provider", s->key.provider);
	jsonw_str(w, "name", s->key.name);
	jsonw_str(w, "displayName", *s->display ? s->display : NULL);
	jsonw_str(w, "source", s->meter ? "meter" : "eventCounter");
	jsonw_str(w, "kind", counters_kind_name(s->kind));
	jsonw_str(w, "unit", *s->unit ? s->unit : NULL);
	jsonw_str(w, "tags", *s->key.tags ? s->key.tags : NULL);
	for (size_t c = 0; c < s->columns; c++)
		jsonw_num(w, columns[s->kind][c], s->last[c]);
	jsonw_object_end(w);
}

static void add_lines(struct jsonw *w, const char *key, const char *text)
{
	jsonw_array(w, key);
	for (const char *p = text, *end; (end = strchr(p, '\n')); p = end + 1)
		jsonw_strn(w, NULL, p, (size_t)(end - p));
	jsonw_array_end(w);
}

void counters_json(const struct counters_view *view, const struct patient *patient, struct buf *out)
{
	const struct series_set *set = counters_series(view->c);
	CLEANUP(buf_free) struct buf missing = { 0 };
	struct jsonw w = jsonw_make(out, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "time", fmt_time_iso(clock_real_ns()).s);
	jsonw_i64(&w, "id", patient->target.id);
	jsonw_str(&w, "name", patient_name(patient));
	jsonw_u64(&w, "intervalMs", counters_interval_ms(view->c));
	jsonw_u64(&w, "lostEvents", counters_lost(view->c));
	jsonw_array(&w, "notes");
	for (size_t i = 0; counters_note(view->c, i); i++)
		jsonw_str(&w, NULL, counters_note(view->c, i));
	jsonw_array_end(&w);
	if (counters_complete(view->c))
		counters_missing(view->c, &missing);
	add_lines(&w, "missing", buf_cstr(&missing));
	jsonw_array(&w, "counters");
	for (size_t i = 0; i < series_count(set); i++)
		if (counters_fresh(view->c, series_at(set, i)))
			add_series(&w, series_at(set, i));
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	buf_char(out, '\n');
}

/* ---- CSV ---- */

void counters_csv_head(struct buf *out)
{
	buf_str(out, "time,provider,counter,tags,kind,unit,value,total,p50,p95,p99,mean\n");
}

/* Quoted where it must be. A text that a spreadsheet would take for a formula gets a quote mark in front. */
static void add_field(struct buf *out, const char *text)
{
	if (*text && strchr("=+-@\t\r", *text))
		buf_char(out, '\'');
	if (!strpbrk(text, ",\"\r\n")) {
		buf_str(out, text);
		return;
	}
	buf_char(out, '"');
	for (; *text; text++) {
		if (*text == '"')
			buf_char(out, '"');
		buf_char(out, *text);
	}
	buf_char(out, '"');
}

static void add_number(struct buf *out, double x)
{
	buf_char(out, ',');
	if (isfinite(x))
		buf_printf(out, "%.15g", x);
}

static void add_csv_line(const struct series *s, const char *time, struct buf *out)
{
	const char *texts[] = { s->key.provider, s->key.name, s->key.tags, counters_kind_name(s->kind), s->unit };
	bool histogram = s->kind == SERIES_HISTOGRAM;
	buf_str(out, time);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		buf_char(out, ',');
		add_field(out, texts[i]);
	}
	add_number(out, histogram ? s->last[SERIES_COUNT_PER_SECOND] : s->last[0]);
	add_number(out, s->kind == SERIES_RATE ? s->last[SERIES_TOTAL] : NAN);
	for (size_t q = SERIES_P50; q <= SERIES_P99; q++)
		add_number(out, histogram ? s->last[q] : NAN);
	add_number(out, histogram ? s->last[SERIES_MEAN] : NAN);
	buf_char(out, '\n');
}

void counters_csv(const struct counters_view *view, struct buf *out)
{
	const struct series_set *set = counters_series(view->c);
	struct fmt_text time = fmt_time_iso(clock_real_ns());
	for (size_t i = 0; i < series_count(set); i++)
		if (counters_fresh(view->c, series_at(set, i)))
			add_csv_line(series_at(set, i), time.s, out);
}

/* ---- Prometheus ---- */

static void add_name(struct buf *out, const char *text)
{
	if (isdigit((unsigned char)*text))
		buf_char(out, '_');
	for (; *text; text++)
		buf_char(out, isalnum((unsigned char)*text) ? *text : '_');
}

/* By its conventions: base name, unit, and "_total" for what only grows. */
static char *metric_name(const struct series *s)
{
	static const struct {
		const char *unit, *word;
	} words[] = { { "By", "bytes" },     { "B", "bytes" },	 { "s", "seconds" },  { "ms", "milliseconds" },
		      { "MB", "megabytes" }, { "%", "percent" }, { "Cel", "celsius" } };
	struct buf name = { 0 };
	if (!s->meter) { /* names such as "cpu-usage" would mean nothing alone */
		add_name(&name, s->key.provider);
		buf_char(&name, '_');
	}
	add_name(&name, s->key.name);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_eq(words[i].unit, s->unit) && !str_ends(buf_cstr(&name), words[i].word))
			buf_printf(&name, "_%s", words[i].word);
	if (s->kind == SERIES_RATE)
		buf_str(&name, s->meter ? "_total" : "_per_second");
	return buf_steal(&name);
}

static void add_label_value(struct buf *out, const char *text, size_t len)
{
	CLEANUP(buf_free) struct buf safe = { 0 };
	str_add_visible(&safe, text, len, 0);
	for (const char *p = buf_cstr(&safe); *p; p++) {
		if (*p == '\\' || *p == '"')
			buf_char(out, '\\');
		buf_char(out, *p);
	}
}

/* "a=1,b=2": the runtime does not quote, so a part without '=' belongs to the value before it. */
static void add_tags(struct buf *out, const char *tags)
{
	while (*tags) {
		size_t key = strcspn(tags, "=");
		const char *value = tags + key + (tags[key] ? 1 : 0), *end = value + strcspn(value, ",");
		while (*end) {
			size_t part = strcspn(end + 1, ",=");
			if (end[1 + part] == '=')
				break;
			end += 1 + part;
		}
		CLEANUP(mem_freep) char *name = mem_strndup(tags, key);
		buf_str(out, ",");
		if (!*name || str_eq(name, "meter") || str_eq(name, "provider") || str_eq(name, "quantile"))
			buf_str(out, "tag_"); /* those labels are taken */
		add_name(out, name);
		buf_str(out, "=\"");
		add_label_value(out, value, (size_t)(end - value));
		buf_char(out, '"');
		tags = *end ? end + 1 : end;
	}
}

static void add_sample(struct buf *out, const char *name, const struct series *s, const char *quantile, double value)
{
	if (!isfinite(value))
		return;
	buf_printf(out, "%s{%s=\"", name, s->meter ? "meter" : "provider");
	add_label_value(out, s->key.provider, strlen(s->key.provider));
	buf_char(out, '"');
	add_tags(out, s->key.tags);
	if (quantile)
		buf_printf(out, ",quantile=\"%s\"", quantile);
	buf_printf(out, "} %.15g\n", value);
}

struct metric {
	char *name;
	const struct series *s;
};

static int by_name(const void *pa, const void *pb)
{
	const struct metric *a = pa, *b = pb;
	int by = strcmp(a->name, b->name);
	return by ?: CMP(a->s->kind, b->s->kind);
}

static void add_metric(struct buf *out, const struct metric *m, bool first)
{
	const struct series *s = m->s;
	const char *type = s->kind == SERIES_HISTOGRAM		? "summary"
			   : s->kind == SERIES_RATE && s->meter ? "counter"
								: "gauge";
	if (first)
		buf_printf(out, "# TYPE %s %s\n", m->name, type);
	if (s->kind == SERIES_HISTOGRAM) {
		add_sample(out, m->name, s, "0.5", s->last[SERIES_P50]);
		add_sample(out, m->name, s, "0.95", s->last[SERIES_P95]);
		add_sample(out, m->name, s, "0.99", s->last[SERIES_P99]);
	} else {
		add_sample(out, m->name, s, NULL, s->last[s->kind == SERIES_RATE && s->meter ? SERIES_TOTAL : 0]);
	}
}

void counters_prometheus(const struct counters_view *view, struct buf *out)
{
	const struct series_set *set = counters_series(view->c);
	VEC(struct metric) all = { 0 };
	for (size_t i = 0; i < series_count(set); i++)
		if (counters_fresh(view->c, series_at(set, i)))
			vec_push(&all, ((struct metric){ metric_name(series_at(set, i)), series_at(set, i) }));
	vec_sort(&all, by_name);
	for (size_t i = 0; i < all.n; i++) {
		bool first = !i || !str_eq(all.v[i - 1].name, all.v[i].name);
		/* The same name for two kinds cannot be written: the second is left out. */
		if (first || all.v[i - 1].s->kind == all.v[i].s->kind)
			add_metric(out, &all.v[i], first);
	}
	vec_each(m, &all)
		mem_free(m->name);
	vec_free(&all);
}
