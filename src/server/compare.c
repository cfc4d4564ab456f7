#include "server/compare.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <stdlib.h>

#define ROWS_MAX 200

static double number(const json_t *v)
{
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static void add_number(struct jsonw *w, const char *key, double x)
{
	if (isfinite(x))
		jsonw_num(w, key, x);
	else
		jsonw_null(w, key);
}

/* Absent on one side is "new" or "gone"; then the change is the whole value. */
static double change_of(double before, double after)
{
	if (!isfinite(before) && !isfinite(after))
		return NAN;
	return (isfinite(after) ? after : 0) - (isfinite(before) ? before : 0);
}

static void add_values(struct jsonw *w, double before, double after)
{
	add_number(w, "before", before);
	add_number(w, "after", after);
	add_number(w, "change", change_of(before, after));
	if (isfinite(before) && isfinite(after) && before > 0)
		jsonw_num(w, "ratio", after / before);
	else
		jsonw_null(w, "ratio");
}

static const json_t *by_text(const json_t *array, const char *member, const char *text)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (str_eq(json_get_str(json_array_get(array, i), member, NULL), text))
			return json_array_get(array, i);
	return NULL;
}

/* ---- figures ---- */

static void add_figure(struct jsonw *w, const json_t *before, const json_t *after)
{
	const json_t *either = after ? after : before;
	double b = number(json_object_get(before, "value")), a = number(json_object_get(after, "value"));
	if (!isfinite(a) && !isfinite(b))
		return; /* a text says nothing about more or less */
	jsonw_object(w, NULL);
	jsonw_str(w, "label", json_get_str(either, "label", ""));
	jsonw_str(w, "kind", json_get_str(either, "kind", "number"));
	add_values(w, b, a);
	jsonw_object_end(w);
}

static void add_figures(struct jsonw *w, const json_t *before, const json_t *after)
{
	jsonw_array(w, "figures");
	for (size_t i = 0; i < json_array_size(after); i++) {
		const json_t *f = json_array_get(after, i);
		add_figure(w, by_text(before, "label", json_get_str(f, "label", "")), f);
	}
	for (size_t i = 0; i < json_array_size(before); i++) {
		const json_t *f = json_array_get(before, i);
		if (!by_text(after, "label", json_get_str(f, "label", "")))
			add_figure(w, f, NULL);
	}
	jsonw_array_end(w);
}

/* ---- tables ---- */

struct compare_entry {
	const json_t *row; /* of either side, for its names */
	double before, after;
	size_t order; /* as they came, where nothing else decides */
};

struct compare_table {
	const json_t *columns;
	size_t main; /* the column that counts */
	struct strtab keys;
	VEC(struct compare_entry) rows; /* by key */
};

/* The column the report draws its order from; else the first number. */
static bool find_main(const json_t *columns, size_t *ret)
{
	size_t n = json_array_size(columns);
	for (size_t i = 0; i < n; i++) {
		*ret = i;
		if (json_get_bool(json_array_get(columns, i), "main", false))
			return true;
	}
	for (size_t i = 0; i < n; i++) {
		const char *kind = json_get_str(json_array_get(columns, i), "kind", "text");
		*ret = i;
		if (!str_eq(kind, "text") && !str_eq(kind, "code"))
			return true;
	}
	return false;
}

static bool is_name(const struct compare_table *t, size_t column)
{
	const char *kind = json_get_str(json_array_get(t->columns, column), "kind", "text");
	return str_eq(kind, "code") || (str_eq(kind, "text") && column == 0);
}

/* What a row is about: its names, without ids and numbers that differ from run to run. */
static void row_key(const struct compare_table *t, const json_t *row, struct buf *out)
{
	const json_t *cells = json_object_get(row, "cells");
	for (size_t i = 0; i < json_array_size(cells); i++) {
		const char *text = json_string_value(json_array_get(cells, i));
		if (text && is_name(t, i))
			buf_printf(out, "%s\x1f", text);
	}
}

static void take_rows(struct compare_table *t, const json_t *block, bool after)
{
	const json_t *rows = json_object_get(block, "rows");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		double value = number(json_array_get(json_object_get(row, "cells"), t->main));
		CLEANUP(buf_free) struct buf key = { 0 };
		row_key(t, row, &key);
		if (!isfinite(value) || !key.len)
			continue;
		uint32_t id = strtab_add(&t->keys, key.data, key.len);
		if (id == t->rows.n)
			vec_push(&t->rows, ((struct compare_entry){ row, NAN, NAN, t->rows.n }));
		struct compare_entry *e = &t->rows.v[id];
		double *side = after ? &e->after : &e->before;
		*side = isfinite(*side) ? *side + value : value;
	}
}

static int by_change(const void *pa, const void *pb)
{
	const struct compare_entry *a = pa, *b = pb;
	double ca = fabs(change_of(a->before, a->after)), cb = fabs(change_of(b->before, b->after));
	return ca != cb ? (ca < cb) - (ca > cb) : (a->order > b->order) - (a->order < b->order);
}

static void add_rows(struct jsonw *w, const struct compare_table *t)
{
	jsonw_array(w, "rows");
	for (size_t i = 0; i < t->rows.n && i < ROWS_MAX; i++) {
		const struct compare_entry *e = &t->rows.v[i];
		const json_t *cells = json_object_get(e->row, "cells");
		jsonw_object(w, NULL);
		jsonw_array(w, "names");
		for (size_t c = 0; c < json_array_size(cells); c++)
			if (is_name(t, c))
				jsonw_str(w, NULL, json_string_value(json_array_get(cells, c)));
		jsonw_array_end(w);
		add_values(w, e->before, e->after);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_u64(w, "rowsCut", t->rows.n > ROWS_MAX ? t->rows.n - ROWS_MAX : 0);
}

static void add_table(struct jsonw *w, const json_t *before, const json_t *after)
{
	struct compare_table t = { .columns = json_object_get(after, "columns") };
	if (!find_main(t.columns, &t.main))
		return;
	take_rows(&t, before, false);
	take_rows(&t, after, true);
	vec_sort(&t.rows, by_change);
	const json_t *column = json_array_get(t.columns, t.main);
	jsonw_object(w, NULL);
	jsonw_str(w, "title", json_get_str(after, "title", ""));
	jsonw_array(w, "columns");
	for (size_t c = 0; c < json_array_size(t.columns); c++)
		if (is_name(&t, c))
			jsonw_str(w, NULL, json_get_str(json_array_get(t.columns, c), "name", ""));
	jsonw_array_end(w);
	jsonw_str(w, "value", json_get_str(column, "name", ""));
	jsonw_str(w, "kind", json_get_str(column, "kind", "number"));
	add_rows(w, &t);
	jsonw_object_end(w);
	strtab_free(&t.keys);
	vec_free(&t.rows);
}

struct err *compare_reports(const json_t *before, const json_t *after, struct jsonw *w)
{
	const json_t *old_blocks = json_object_get(before, "blocks"), *new_blocks = json_object_get(after, "blocks");
	if (!json_is_array(old_blocks) || !json_is_array(new_blocks))
		return err_new(ERR_USAGE, "both must have a report");
	add_figures(w, json_object_get(before, "figures"), json_object_get(after, "figures"));
	jsonw_array(w, "tables");
	for (size_t i = 0; i < json_array_size(new_blocks); i++) {
		const json_t *block = json_array_get(new_blocks, i);
		const json_t *other = by_text(old_blocks, "title", json_get_str(block, "title", ""));
		if (str_eq(json_get_str(block, "block", ""), "table") && other)
			add_table(w, other, block);
	}
	jsonw_array_end(w);
	return NULL;
}
