/* A report back from its JSON. The text may be damaged or hostile: a wrong shape is an error that names it; what is too
 * large is refused before memory is allocated for it. Unknown keys are ignored. */

#include "report/doc.h"
#include "base/str.h"
#include <limits.h>
#include <math.h>
#include <string.h>

#define JSON_BYTES_MAX ((size_t)256 << 20)

static struct err *bad(const char *what)
{
	return err_new(ERR_BAD_DATA, "not a report: %s", what);
}

/* NULL for null and for an absent key. */
static struct err *read_text(const json_t *obj, const char *key, const char **ret)
{
	const json_t *v = json_object_get(obj, key);
	*ret = NULL;
	if (!v || json_is_null(v))
		return NULL;
	if (!json_is_string(v) || json_string_length(v) > TEXT_MAX)
		return bad(key);
	*ret = json_string_value(v);
	return NULL;
}

/* 0 when absent. */
static struct err *read_count(const json_t *obj, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(obj, key);
	*ret = 0;
	if (!v)
		return NULL;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return bad(key);
	*ret = (uint64_t)json_integer_value(v);
	return NULL;
}

static struct err *read_bool(const json_t *obj, const char *key, bool *ret)
{
	const json_t *v = json_object_get(obj, key);
	*ret = json_is_true(v);
	return v && !json_is_boolean(v) ? bad(key) : NULL;
}

/* An absent array has no elements. */
static struct err *read_array(const json_t *obj, const char *key, size_t max, const json_t **ret, size_t *ret_n)
{
	*ret = json_object_get(obj, key);
	*ret_n = json_array_size(*ret);
	return (*ret && !json_is_array(*ret)) || *ret_n > max ? bad(key) : NULL;
}

static struct err *read_word(const json_t *v, const char *what, const char *const *words, size_t n, int *ret)
{
	const char *s = json_string_value(v);
	*ret = 0;
	for (size_t i = 0; s && i < n; i++) {
		if (str_eq(s, words[i])) {
			*ret = (int)i;
			return NULL;
		}
	}
	return bad(what);
}

static struct err *read_kind(const json_t *obj, enum value_kind *ret)
{
	int kind;
	TRY(read_word(json_object_get(obj, "kind"), "kind", value_kind_names, ARRAY_SIZE(value_kind_names), &kind));
	*ret = (enum value_kind)kind;
	return NULL;
}

static struct err *read_health(const json_t *obj, enum report_health *ret)
{
	int health;
	TRY(read_word(json_object_get(obj, "health"), "health", health_names, ARRAY_SIZE(health_names), &health));
	*ret = (enum report_health)health;
	return NULL;
}

static struct err *read_pieces(const json_t *obj, const char *key, struct rich *t)
{
	const json_t *pieces;
	size_t n;
	TRY(read_array(obj, key, PIECES_MAX, &pieces, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *p = json_array_get(pieces, i);
		const char *text;
		int kind;
		TRY(read_word(json_object_get(p, "kind"), "kind of text", piece_names, ARRAY_SIZE(piece_names), &kind));
		TRY(read_text(p, "text", &text));
		struct piece *piece = rich_piece(t, (enum piece_kind)kind, text);
		if (piece)
			piece->data = json_get_bool(p, "data", false);
	}
	return NULL;
}

static struct err *read_bare(const json_t *v, enum value_kind kind, struct value *ret)
{
	*ret = (struct value){ .kind = kind };
	if (!v || json_is_null(v))
		ret->missing = true;
	else if (kind_is_text(kind) && json_is_string(v) && json_string_length(v) <= TEXT_MAX)
		ret->text = json_string_value(v);
	else if (!kind_is_text(kind) && json_is_number(v))
		ret->number = json_number_value(v);
	else
		return bad("value");
	return NULL;
}

static struct err *read_facts(const json_t *root, struct report *r)
{
	const json_t *obj = json_object_get(root, "facts"), *when = json_object_get(obj, "whenUnixNs"),
		     *id = json_object_get(obj, "targetId");
	struct report_facts f = { 0 };
	if (!json_is_object(obj) || (when && !json_is_integer(when)) || (id && !json_is_integer(id)))
		return bad("facts");
	json_int_t target_id = json_integer_value(id);
	if (target_id < INT_MIN || target_id > INT_MAX)
		return bad("targetId");
	f.target_id = (int)target_id;
	f.when_unix_ns = json_integer_value(when);
	TRY(read_count(obj, "windowNs", &f.window_ns));
	TRY(read_text(obj, "profiler", &f.profiler));
	TRY(read_text(obj, "title", &f.title));
	TRY(read_text(obj, "process", &f.process));
	TRY(read_text(obj, "runtime", &f.runtime));
	TRY(read_text(obj, "container", &f.container));
	TRY(read_text(obj, "pod", &f.pod));
	TRY(read_text(obj, "host", &f.host));
	TRY(read_text(obj, "session", &f.session));
	TRY(read_text(obj, "version", &f.version));
	TRY(read_text(obj, "partial", &f.partial));
	report_set_facts(r, &f);
	return NULL;
}

static struct err *read_verdict(const json_t *root, struct report *r)
{
	const json_t *obj = json_object_get(root, "verdict");
	enum report_health health;
	const char *finding;
	if (!obj)
		return NULL;
	TRY(read_health(obj, &health));
	TRY(read_text(obj, "finding", &finding));
	return read_pieces(obj, "text", report_verdict(r, health, finding));
}

static struct err *read_fact_list(const json_t *root, const char *key, size_t max, struct report *r,
				  void (*add)(struct report *, const char *, struct value, const char *))
{
	const json_t *list;
	size_t n;
	TRY(read_array(root, key, max, &list, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *obj = json_array_get(list, i);
		const char *label, *context;
		enum value_kind kind;
		struct value v;
		TRY(read_text(obj, "label", &label));
		TRY(read_text(obj, "context", &context));
		TRY(read_kind(obj, &kind));
		TRY(read_bare(json_object_get(obj, "value"), kind, &v));
		add(r, label, v, context);
	}
	return NULL;
}

static struct err *read_params(const json_t *root, struct report *r)
{
	const json_t *list;
	size_t n;
	TRY(read_array(root, "parameters", PARAMS_MAX, &list, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *obj = json_array_get(list, i);
		const char *name, *value;
		bool is_default;
		TRY(read_text(obj, "name", &name));
		TRY(read_text(obj, "value", &value));
		TRY(read_bool(obj, "default", &is_default));
		report_param(r, name, value, is_default);
		if (json_get_bool(obj, "data", false))
			report_param_is_data(r);
	}
	return NULL;
}

static struct err *read_cells(const json_t *cells, const struct report_table *t, struct value *ret)
{
	if (!json_is_array(cells) || json_array_size(cells) != t->n_columns)
		return bad("cells");
	for (size_t i = 0; i < t->n_columns; i++) {
		const json_t *cell = json_array_get(cells, i);
		enum value_kind kind = t->columns[i].kind;
		if (json_is_object(cell)) {
			TRY(read_kind(cell, &kind));
			cell = json_object_get(cell, "value");
		}
		TRY(read_bare(cell, kind, &ret[i]));
	}
	return NULL;
}

static struct err *read_lines(const json_t *obj, struct report_row *row)
{
	const json_t *lines;
	size_t n;
	uint64_t cut;
	TRY(read_array(obj, "lines", LINES_MAX, &lines, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *line = json_array_get(lines, i);
		enum value_kind kind;
		const char *text, *right;
		TRY(read_kind(line, &kind));
		TRY(read_text(line, "text", &text));
		TRY(read_text(line, "right", &right));
		report_row_line(row, kind, text, right);
	}
	TRY(read_count(obj, "linesCut", &cut));
	row->lines_cut = (size_t)cut;
	return NULL;
}

static struct err *read_rows(const json_t *obj, struct report_table *t)
{
	bool tree = t->block.kind == BLOCK_TREE;
	const json_t *rows;
	size_t n;
	struct report_row *last = NULL;
	TRY(read_array(obj, "rows", tree ? TREE_ROWS_MAX : ROWS_MAX, &rows, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(rows, i);
		struct value cells[COLUMNS_MAX];
		uint64_t depth;
		TRY(read_count(row, "depth", &depth));
		if (depth && (!tree || depth >= TREE_DEPTH_MAX || !last || depth > last->depth + 1))
			return bad("depth");
		TRY(read_cells(json_object_get(row, "cells"), t, cells));
		struct report_row *parent = last;
		while (parent && parent->depth >= depth)
			parent = parent->depth ? parent->parent : NULL;
		last = row_add(parent ? parent : &t->top, cells);
		TRY(read_lines(row, last));
	}
	return NULL;
}

static struct err *read_table(const json_t *obj, struct report_table *t)
{
	const json_t *columns, *rest = json_object_get(obj, "rest");
	size_t n;
	TRY(read_array(obj, "columns", COLUMNS_MAX, &columns, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *column = json_array_get(columns, i);
		const char *name;
		enum value_kind kind;
		bool bar, is_main;
		TRY(read_text(column, "name", &name));
		TRY(read_kind(column, &kind));
		TRY(read_bool(column, "bar", &bar));
		TRY(read_bool(column, "main", &is_main));
		report_column(t, name, kind,
			      (bar ? COLUMN_BAR : 0) | (is_main ? COLUMN_MAIN : 0) |
				      (json_get_bool(column, "area", false) ? COLUMN_AREA : 0) |
				      (json_get_bool(column, "signed", false) ? COLUMN_SIGNED : 0) |
				      (json_get_bool(column, "data", false) ? COLUMN_DATA : 0));
	}
	TRY(read_rows(obj, t));
	if (rest) {
		struct value cells[COLUMNS_MAX];
		TRY(read_cells(rest, t, cells));
		report_rest(t, cells);
	}
	return read_count(obj, "rowsCut", &t->rows_cut);
}

static struct err *read_line(const json_t *obj, struct report_chart *c)
{
	const json_t *points;
	const char *name;
	size_t n;
	uint64_t merged, x_ns[POINTS_MAX];
	double y[POINTS_MAX];
	TRY(read_text(obj, "name", &name));
	TRY(read_count(obj, "merged", &merged));
	TRY(read_array(obj, "points", POINTS_MAX, &points, &n));
	for (size_t i = 0; i < n; i++) {
		const json_t *point = json_array_get(points, i), *px = json_array_get(point, 0),
			     *py = json_array_get(point, 1);
		if (!json_is_integer(px) || json_integer_value(px) < 0 || !json_is_number(py))
			return bad("points");
		x_ns[i] = (uint64_t)json_integer_value(px);
		y[i] = json_number_value(py);
	}
	report_chart_line(c, name, x_ns, y, n);
	c->last_line->merged = (size_t)merged;
	return NULL;
}

static struct err *read_chart(const json_t *obj, struct report *r, const char *title)
{
	enum value_kind kind;
	uint64_t window_ns;
	const json_t *lines, *bars;
	size_t n_lines, n_bars;
	TRY(read_kind(obj, &kind));
	TRY(read_count(obj, "windowNs", &window_ns));
	TRY(read_array(obj, "lines", CHART_LINES_MAX, &lines, &n_lines));
	TRY(read_array(obj, "bars", BARS_MAX, &bars, &n_bars));
	struct report_chart *c = report_chart(r, title, kind, window_ns);
	for (size_t i = 0; i < n_lines; i++)
		TRY(read_line(json_array_get(lines, i), c));
	for (size_t i = 0; i < n_bars; i++) {
		const json_t *bar = json_array_get(bars, i), *y = json_object_get(bar, "y");
		uint64_t x_ns, length_ns;
		const char *label;
		TRY(read_count(bar, "x", &x_ns));
		TRY(read_count(bar, "length", &length_ns));
		TRY(read_text(bar, "label", &label));
		if (!json_is_number(y))
			return bad("y");
		report_chart_bar(c, x_ns, length_ns, json_number_value(y), label);
	}
	return read_count(obj, "barsCut", &c->bars_cut);
}

static struct err *read_histogram(const json_t *obj, struct report *r, const char *title)
{
	enum value_kind kind;
	const json_t *buckets;
	size_t n;
	TRY(read_kind(obj, &kind));
	TRY(read_array(obj, "buckets", BUCKETS_MAX, &buckets, &n));
	struct report_histogram *h = report_histogram(r, title, kind);
	for (size_t i = 0; i < n; i++) {
		const json_t *b = json_array_get(buckets, i), *from = json_array_get(b, 0), *to = json_array_get(b, 1),
			     *count = json_array_get(b, 2);
		if (!json_is_number(from) || !json_is_number(to) || !json_is_integer(count) ||
		    json_integer_value(count) < 0)
			return bad("buckets");
		report_bucket(h, json_number_value(from), json_number_value(to), (uint64_t)json_integer_value(count));
	}
	return NULL;
}

static struct err *read_flame_nodes(const json_t *nodes, struct report_flame *f)
{
	for (size_t i = 0; i < f->n_nodes; i++) {
		const json_t *node = json_array_get(nodes, i);
		json_int_t v[4] = { 0 };
		for (size_t k = 0; k < (f->compared ? 4 : 3); k++) {
			if (!json_is_integer(json_array_get(node, k)))
				return bad("nodes");
			v[k] = json_integer_value(json_array_get(node, k));
		}
		json_int_t deepest = i ? (json_int_t)f->nodes[i - 1].depth + 1 : 0;
		if (v[0] < 0 || (uint64_t)v[0] >= f->n_frames || v[1] < (i ? 1 : 0) || v[1] > deepest ||
		    v[1] >= FLAME_DEPTH_MAX || v[2] < 0 || v[3] < 0)
			return bad("nodes");
		f->nodes[i] = (struct flame_node){ .frame = (uint32_t)v[0],
						   .depth = (uint32_t)v[1],
						   .self = (uint64_t)v[2],
						   .before = (uint64_t)v[3] };
	}
	return NULL;
}

static struct err *read_heat(const json_t *obj, struct report *r, struct report_flame *f)
{
	const json_t *cells;
	size_t n;
	if (!obj)
		return NULL;
	int64_t columns = json_get_int(obj, "columns", 0), seconds = json_get_int(obj, "seconds", 0);
	if (columns < 1 || columns > HEAT_COLUMNS_MAX || seconds < 1 || seconds > 1000000)
		return bad("heat");
	TRY(read_array(obj, "cells", HEAT_CELLS_MAX, &cells, &n));
	f->cells = arena_zalloc(&r->arena, MAX(n, (size_t)1) * sizeof(*f->cells));
	for (size_t i = 0; i < n; i++) {
		const json_t *cell = json_array_get(cells, i);
		json_int_t v[4];
		for (size_t k = 0; k < 4; k++) {
			if (!json_is_integer(json_array_get(cell, k)))
				return bad("cells");
			v[k] = json_integer_value(json_array_get(cell, k));
		}
		if (v[0] < 0 || v[0] >= columns || v[1] < 0 || v[1] >= HEAT_ROWS || v[2] < 0 ||
		    (uint64_t)v[2] >= f->n_nodes || v[3] < 0)
			return bad("cells");
		f->cells[i] = (struct heat_cell){ (uint16_t)v[0], (uint16_t)v[1], (uint32_t)v[2], (uint64_t)v[3] };
	}
	f->n_cells = n;
	f->heat_columns = (size_t)columns;
	f->heat_seconds = (size_t)seconds;
	return NULL;
}

static struct err *read_flame(const json_t *obj, struct report *r, const char *title)
{
	enum value_kind kind;
	const json_t *frames, *nodes;
	size_t n_frames, n_nodes;
	TRY(read_kind(obj, &kind));
	TRY(read_array(obj, "frames", FLAME_NODES_MAX, &frames, &n_frames));
	TRY(read_array(obj, "nodes", FLAME_NODES_MAX, &nodes, &n_nodes));
	if (!n_nodes)
		return bad("nodes");
	struct report_flame *f = flame_new(r, title, kind);
	f->frames = arena_zalloc(&r->arena, MAX(n_frames, (size_t)1) * sizeof(*f->frames));
	f->nodes = arena_zalloc(&r->arena, n_nodes * sizeof(*f->nodes));
	f->n_frames = n_frames;
	f->n_nodes = n_nodes;
	f->compared = json_get_bool(obj, "compared", false);
	for (size_t i = 0; i < n_frames; i++) {
		const json_t *frame = json_array_get(frames, i), *name = json_array_get(frame, 0);
		if (!json_is_string(name) || json_string_length(name) > TEXT_MAX)
			return bad("frames");
		f->frames[i].name = doc_text(r, json_string_value(name));
		TRY(read_word(json_array_get(frame, 1), "frames", frame_kind_names, ARRAY_SIZE(frame_kind_names),
			      &f->frames[i].kind));
	}
	TRY(read_flame_nodes(nodes, f));
	flame_sum(f);
	TRY(read_heat(json_object_get(obj, "heat"), r, f));
	return read_count(obj, "cut", &f->cut);
}

static struct err *read_note(const json_t *obj, struct report *r)
{
	enum report_health health;
	TRY(read_health(obj, &health));
	return read_pieces(obj, "text", report_note(r, health));
}

static struct err *read_findings(const json_t *obj, struct report *r, const char *title)
{
	const json_t *list;
	size_t n;
	TRY(read_array(obj, "findings", FINDINGS_MAX, &list, &n));
	struct report_findings *f = report_findings(r, title, json_get_bool(obj, "brief", false));
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);
		const char *finding, *confidence;
		uint64_t severity, first_seen;
		TRY(read_text(item, "finding", &finding));
		TRY(read_text(item, "confidence", &confidence));
		TRY(read_count(item, "severity", &severity));
		if (severity > SEVERITY_MAX)
			return bad("severity");
		TRY(read_count(item, "firstSeenUnixNs", &first_seen));
		TRY(read_pieces(item, "text", report_finding_add(f, finding, (unsigned)severity, confidence)));
		f->last->first_seen_unix_ns = (int64_t)MIN(first_seen, (uint64_t)INT64_MAX);
	}
	return NULL;
}

static struct err *read_section(const json_t *obj, struct report *r, const char *title)
{
	enum report_health health;
	const char *profiler, *finding;
	TRY(read_health(obj, &health));
	TRY(read_text(obj, "profiler", &profiler));
	TRY(read_text(obj, "finding", &finding));
	return read_pieces(obj, "text", report_section(r, title, profiler, health, finding));
}

static struct err *read_block(const json_t *obj, struct report *r)
{
	const char *title;
	int block;
	TRY(read_word(json_object_get(obj, "block"), "block", block_names, ARRAY_SIZE(block_names), &block));
	TRY(read_text(obj, "title", &title));
	r->details = json_get_bool(obj, "detail", false);
	r->asked = json_get_bool(obj, "asked", false);
	switch ((enum block_kind)block) {
	case BLOCK_TABLE:
		return read_table(obj, report_table(r, title));
	case BLOCK_TREE:
		return read_table(obj, report_tree(r, title));
	case BLOCK_CHART:
		return read_chart(obj, r, title);
	case BLOCK_HISTOGRAM:
		return read_histogram(obj, r, title);
	case BLOCK_FLAME:
		return read_flame(obj, r, title);
	case BLOCK_NOTE:
		return read_note(obj, r);
	case BLOCK_FINDINGS:
		return read_findings(obj, r, title);
	case BLOCK_SECTION:
		return read_section(obj, r, title);
	}
	return bad("block");
}

static struct err *read_report(const json_t *root, struct report *r)
{
	const char *next_profiler;
	if (!str_eq(json_get_str(root, "format", ""), REPORT_FORMAT))
		return bad("format");
	if (json_get_int(root, "formatVersion", 0) != REPORT_FORMAT_VERSION)
		return err_new(ERR_UNSUPPORTED, "the report was written by another version of drdotnet");
	TRY(read_facts(root, r));
	TRY(read_verdict(root, r));
	TRY(read_pieces(root, "effect", &r->effect));
	TRY(read_pieces(root, "next", &r->next));
	TRY(read_text(root, "nextProfiler", &next_profiler));
	report_set_next_profiler(r, next_profiler);
	TRY(read_fact_list(root, "figures", FIGURES_MAX, r, report_figure));
	const json_t *blocks;
	size_t n;
	TRY(read_array(root, "blocks", BLOCKS_MAX, &blocks, &n));
	for (size_t i = 0; i < n; i++)
		TRY(read_block(json_array_get(blocks, i), r));
	TRY(read_fact_list(root, "how", HOW_MAX, r, report_how));
	TRY(read_params(root, r));
	TRY(read_count(root, "cutStrings", &r->cut_strings));
	return read_count(root, "cutItems", &r->cut_items);
}

struct err *report_from_json(const char *text, size_t len, struct report **ret)
{
	CLEANUP(json_decrefp) json_t *root = NULL;
	CLEANUP(report_freep) struct report *r = report_new();
	TRY(json_parse(text, len, JSON_BYTES_MAX, &root));
	TRY(read_report(root, r));
	*ret = STEAL(r);
	return NULL;
}
