/* The report as JSON. Written flat (trees and flame graphs as preorder with depths), because readers bound
 * nesting.
 *
 *   { "format": "drdotnet-report", "formatVersion": 1, "facts": {..}, "verdict": {..}, "effect": [pieces],
 *     "next": [pieces],
 *     "nextProfiler": id, "figures": [..], "blocks": [..], "how": [..], "parameters": [..], "cutStrings": n, "cutItems": n }
 *
 * A cell is null (not measured), a plain number or string of its column's kind, or {"kind", "value"} of another. */

#include "report/doc.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "report/treemap.h"
#include <math.h>
#include <string.h>

static void write_pieces(struct jsonw *w, const char *key, const struct rich *t)
{
	jsonw_array(w, key);
	for (const struct piece *p = t->first; p; p = p->next) {
		jsonw_object(w, NULL);
		jsonw_str(w, "kind", piece_names[p->kind]);
		jsonw_str(w, "text", p->text);
		if (p->data)
			jsonw_bool(w, "data", true);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

static void write_bare(struct jsonw *w, const char *key, const struct value *v)
{
	if (v->missing)
		jsonw_null(w, key);
	else if (kind_is_text(v->kind))
		jsonw_str(w, key, v->text);
	else
		jsonw_num(w, key, v->number);
}

static void write_facts(struct jsonw *w, const struct report *r)
{
	const struct report_facts *f = &r->facts;
	CLEANUP(buf_free) struct buf partial = { 0 };
	jsonw_object(w, "facts");
	jsonw_str(w, "profiler", f->profiler);
	jsonw_str(w, "title", f->title);
	jsonw_str(w, "process", f->process);
	jsonw_i64(w, "targetId", f->target_id);
	jsonw_str(w, "runtime", f->runtime);
	jsonw_str(w, "container", f->container);
	jsonw_str(w, "pod", f->pod);
	jsonw_str(w, "host", f->host);
	jsonw_str(w, "when", f->when_unix_ns ? fmt_time_iso(f->when_unix_ns).s : NULL);
	jsonw_i64(w, "whenUnixNs", f->when_unix_ns);
	jsonw_u64(w, "windowNs", f->window_ns);
	jsonw_str(w, "session", f->session);
	jsonw_str(w, "version", f->version);
	jsonw_str(w, "partial", f->partial);
	if (doc_partial(r, &partial))
		jsonw_str(w, "partialText", buf_cstr(&partial)); /* the whole sentence, as people read it */
	jsonw_object_end(w);
}

static void write_fact_list(struct jsonw *w, const char *key, const struct fact_list *list)
{
	jsonw_array(w, key);
	for (const struct fact *f = list->first; f; f = f->next) {
		jsonw_object(w, NULL);
		jsonw_str(w, "label", f->label);
		jsonw_str(w, "kind", value_kind_names[f->value.kind]);
		write_bare(w, "value", &f->value);
		jsonw_str(w, "context", f->context);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

static void write_cells(struct jsonw *w, const char *key, const struct report_table *t, const struct value *cells)
{
	jsonw_array(w, key);
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct value *v = &cells[i];
		if (v->missing || v->kind == t->columns[i].kind) {
			write_bare(w, NULL, v);
			continue;
		}
		jsonw_object(w, NULL);
		jsonw_str(w, "kind", value_kind_names[v->kind]);
		write_bare(w, "value", v);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

static void write_lines(struct jsonw *w, const struct report_row *row)
{
	if (!row->first_line)
		return;
	jsonw_array(w, "lines");
	for (const struct row_line *l = row->first_line; l; l = l->next) {
		jsonw_object(w, NULL);
		jsonw_str(w, "kind", value_kind_names[l->kind]);
		jsonw_str(w, "text", l->text);
		if (l->right)
			jsonw_str(w, "right", l->right);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_u64(w, "linesCut", row->lines_cut);
}

static double rounded(double share)
{
	return round(share * 1e6) / 1e6;
}

static void write_boxes(struct jsonw *w, const struct report_table *t, const struct treemap *m)
{
	struct map_u64 rows = { 0 };
	uint64_t n = 0;
	for (const struct report_row *row = table_first(t); row; row = row_next(row))
		*map_u64_put(&rows, (uintptr_t)row, NULL) = n++;
	jsonw_array(w, "boxes"); /* [row, parent's box or -1, number, x, y, width, height] */
	vec_each(b, &m->boxes) {
		const double shares[] = { b->place.x, b->place.y, b->place.w, b->place.h };
		jsonw_array(w, NULL);
		/* -1 smaller ones together, -2 what no row has */
		jsonw_i64(w, NULL, b->row ? (int64_t)*map_u64_get(&rows, (uintptr_t)b->row) : b->smaller ? -1 : -2);
		jsonw_i64(w, NULL, b->parent_box);
		jsonw_num(w, NULL, b->number);
		for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
			jsonw_num(w, NULL, rounded(shares[i]));
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
	map_u64_free(&rows);
}

/* Where the rows stand when they are drawn as areas: pages have no layout of their own. Not read back. */
static void write_areas(struct jsonw *w, const struct report_table *t)
{
	struct treemap m;
	if (treemap_init(&m, t)) {
		jsonw_object(w, "areas");
		jsonw_u64(w, "column", m.column);
		jsonw_num(w, "whole", m.whole);
		write_boxes(w, t, &m);
		jsonw_object_end(w);
	}
	treemap_fini(&m);
}

static void write_table(struct jsonw *w, const struct report_table *t)
{
	jsonw_array(w, "columns");
	for (size_t i = 0; i < t->n_columns; i++) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", t->columns[i].name);
		jsonw_str(w, "kind", value_kind_names[t->columns[i].kind]);
		jsonw_bool(w, "bar", t->columns[i].flags & COLUMN_BAR);
		jsonw_bool(w, "main", t->columns[i].flags & COLUMN_MAIN);
		if (t->columns[i].flags & COLUMN_AREA)
			jsonw_bool(w, "area", true);
		if (t->columns[i].flags & COLUMN_SIGNED)
			jsonw_bool(w, "signed", true);
		if (t->columns[i].flags & COLUMN_DATA)
			jsonw_bool(w, "data", true);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_array(w, "rows");
	for (const struct report_row *row = table_first(t); row; row = row_next(row)) {
		jsonw_object(w, NULL);
		if (t->block.kind == BLOCK_TREE)
			jsonw_u64(w, "depth", row->depth);
		write_cells(w, "cells", t, row->cells);
		write_lines(w, row);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	if (t->rest)
		write_cells(w, "rest", t, t->rest);
	jsonw_u64(w, "rowsCut", t->rows_cut);
	write_areas(w, t);
}

static void write_chart(struct jsonw *w, const struct report_chart *c)
{
	jsonw_str(w, "kind", value_kind_names[c->y_kind]);
	jsonw_u64(w, "windowNs", c->window_ns);
	jsonw_array(w, "lines");
	for (const struct chart_line *l = c->first_line; l; l = l->next) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", l->name);
		jsonw_u64(w, "merged", l->merged);
		jsonw_array(w, "points");
		for (size_t i = 0; i < l->n; i++) {
			jsonw_array(w, NULL);
			jsonw_u64(w, NULL, l->x_ns[i]);
			jsonw_num(w, NULL, l->y[i]);
			jsonw_array_end(w);
		}
		jsonw_array_end(w);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_array(w, "bars");
	for (size_t i = 0; i < c->n_bars; i++) {
		jsonw_object(w, NULL);
		jsonw_u64(w, "x", c->bars[i].x_ns);
		jsonw_u64(w, "length", c->bars[i].length_ns);
		jsonw_num(w, "y", c->bars[i].y);
		if (c->bars[i].label)
			jsonw_str(w, "label", c->bars[i].label);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_u64(w, "barsCut", c->bars_cut);
}

static void write_histogram(struct jsonw *w, const struct report_histogram *h)
{
	jsonw_str(w, "kind", value_kind_names[h->x_kind]);
	jsonw_array(w, "buckets");
	for (size_t i = 0; i < h->n; i++) {
		jsonw_array(w, NULL);
		jsonw_num(w, NULL, h->buckets[i].from);
		jsonw_num(w, NULL, h->buckets[i].to);
		jsonw_u64(w, NULL, h->buckets[i].count);
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
}

static void write_flame(struct jsonw *w, const struct report_flame *f)
{
	jsonw_str(w, "kind", value_kind_names[f->weight_kind]);
	jsonw_array(w, "frames");
	for (size_t i = 0; i < f->n_frames; i++) {
		jsonw_array(w, NULL);
		jsonw_str(w, NULL, f->frames[i].name);
		jsonw_str(w, NULL, frame_kind_names[f->frames[i].kind]);
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
	if (f->compared)
		jsonw_bool(w, "compared", true);
	jsonw_array(
		w, "nodes"); /* [frame, depth, self]; of a comparison also what it was with callees before, and -3..3 */
	for (size_t i = 0; i < f->n_nodes; i++) {
		jsonw_array(w, NULL);
		jsonw_u64(w, NULL, f->nodes[i].frame);
		jsonw_u64(w, NULL, f->nodes[i].depth);
		jsonw_u64(w, NULL, f->nodes[i].self);
		if (f->compared) {
			jsonw_u64(w, NULL, f->nodes[i].before);
			jsonw_i64(w, NULL, flame_change_level(f, i));
		}
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
	jsonw_u64(w, "cut", MIN(f->cut, (uint64_t)INT64_MAX));
	if (!f->n_cells)
		return;
	jsonw_object(w, "heat");
	jsonw_u64(w, "columns", f->heat_columns);
	jsonw_u64(w, "seconds", f->heat_seconds);
	jsonw_array(w, "cells"); /* [column, row, node, weight] */
	for (size_t i = 0; i < f->n_cells; i++) {
		jsonw_array(w, NULL);
		jsonw_u64(w, NULL, f->cells[i].column);
		jsonw_u64(w, NULL, f->cells[i].row);
		jsonw_u64(w, NULL, f->cells[i].node);
		jsonw_u64(w, NULL, f->cells[i].weight);
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
	jsonw_object_end(w);
}

static void write_findings(struct jsonw *w, const struct report_findings *f)
{
	jsonw_bool(w, "brief", f->brief);
	jsonw_array(w, "findings");
	for (const struct finding_item *i = f->first; i; i = i->next) {
		CLEANUP(buf_free) struct buf plain = { 0 };
		rich_plain(&i->text, &plain);
		jsonw_object(w, NULL);
		jsonw_str(w, "finding", i->finding);
		jsonw_u64(w, "severity", i->severity);
		jsonw_str(w, "confidence", i->confidence);
		if (i->first_seen_unix_ns)
			jsonw_i64(w, "firstSeenUnixNs", i->first_seen_unix_ns);
		jsonw_str(w, "plain", buf_cstr(&plain));
		write_pieces(w, "text", &i->text);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

static void write_section(struct jsonw *w, const struct report_section *s)
{
	jsonw_str(w, "profiler", s->profiler);
	jsonw_str(w, "finding", s->finding);
	jsonw_str(w, "health", health_names[s->health]);
	write_pieces(w, "text", &s->text);
}

static void write_block(struct jsonw *w, const struct block *b)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "block", block_names[b->kind]);
	if (b->kind != BLOCK_NOTE)
		jsonw_str(w, "title", b->title);
	if (b->detail)
		jsonw_bool(w, "detail", true);
	if (b->asked)
		jsonw_bool(w, "asked", true);
	switch (b->kind) {
	case BLOCK_TABLE:
	case BLOCK_TREE:
		write_table(w, (const struct report_table *)b);
		break;
	case BLOCK_CHART:
		write_chart(w, (const struct report_chart *)b);
		break;
	case BLOCK_HISTOGRAM:
		write_histogram(w, (const struct report_histogram *)b);
		break;
	case BLOCK_FLAME:
		write_flame(w, (const struct report_flame *)b);
		break;
	case BLOCK_NOTE:
		jsonw_str(w, "health", health_names[((const struct report_note *)b)->health]);
		write_pieces(w, "text", &((const struct report_note *)b)->text);
		break;
	case BLOCK_FINDINGS:
		write_findings(w, (const struct report_findings *)b);
		break;
	case BLOCK_SECTION:
		write_section(w, (const struct report_section *)b);
		break;
	}
	jsonw_object_end(w);
}

void report_render_json(const struct report *r, struct buf *out)
{
	struct jsonw writer = jsonw_make(out, false), *w = &writer;
	jsonw_object(w, NULL);
	jsonw_str(w, "format", REPORT_FORMAT);
	jsonw_u64(w, "formatVersion", REPORT_FORMAT_VERSION);
	write_facts(w, r);
	if (r->finding) {
		struct buf plain = { 0 };
		rich_plain(&r->verdict, &plain);
		jsonw_object(w, "verdict");
		jsonw_str(w, "health", health_names[r->health]);
		jsonw_str(w, "finding", r->finding);
		jsonw_str(w, "plain", buf_cstr(&plain)); /* for programs that only want the sentence */
		write_pieces(w, "text", &r->verdict);
		jsonw_object_end(w);
		buf_free(&plain);
	}
	if (r->effect.first)
		write_pieces(w, "effect", &r->effect);
	write_pieces(w, "next", &r->next);
	if (r->next_profiler)
		jsonw_str(w, "nextProfiler", r->next_profiler);
	write_fact_list(w, "figures", &r->figures);
	jsonw_array(w, "blocks");
	for (const struct block *b = r->first_block; b; b = b->next)
		write_block(w, b);
	jsonw_array_end(w);
	write_fact_list(w, "how", &r->how);
	jsonw_array(w, "parameters");
	for (const struct report_param *p = r->first_param; p; p = p->next) {
		jsonw_object(w, NULL);
		jsonw_str(w, "name", p->name);
		jsonw_str(w, "value", p->value);
		jsonw_bool(w, "default", p->is_default);
		if (p->data)
			jsonw_bool(w, "data", true);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_u64(w, "cutStrings", r->cut_strings);
	jsonw_u64(w, "cutItems", r->cut_items);
	jsonw_object_end(w);
	buf_char(out, '\n');
}
