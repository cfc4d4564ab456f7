/* Charts, histograms and flame graphs as inline SVG. Each has a sentence for those who cannot see it, and its numbers
 * as a table. Positions are per cent of the width, so that text is never stretched. */

#include "report/html.h"
#include "base/fmt.h"
#include "base/str.h"
#include <math.h>
#include <stdlib.h>

enum { NUMBERS_MAX = 60, FLAME_BOXES_MAX = 2000, FLAME_ROW = 20, Y_STEPS = 3, SERIES = 4 };

/* The top of the scale: three even steps people can read. */
static double nice_top(enum value_kind kind, double max)
{
	static const double steps[] = { 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 };
	if (max <= 0)
		return kind == VALUE_RATIO ? 1 : Y_STEPS;
	double least = max / Y_STEPS, unit = 1;
	if (kind == VALUE_BYTES) {
		while (unit * 1024 <= least && unit < 1e18)
			unit *= 1024;
	}
	unit *= pow(10, floor(log10(least / unit)));
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i] * unit >= least * (1 - 1e-9))
			return steps[i] * unit * Y_STEPS;
	}
	return max;
}

static double clamp01(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void chart_bars(const struct html *h, const struct report_chart *c, double top)
{
	double window = (double)chart_window(c);
	for (size_t i = 0; i < c->n_bars; i++) {
		const struct chart_bar *b = &c->bars[i];
		double x = clamp01((double)b->x_ns / window) * 100, y = (1 - clamp01(b->y / top)) * 100;
		double width = MIN((double)b->length_ns / window * 100, 100 - x);
		/* Too short to be seen as an area: a line of its height. */
		if (width < 0.3)
			buf_printf(h->out, "<line class=\"b\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.2f%%\" y2=\"100%%\">",
				   x, x, y);
		else
			buf_printf(h->out,
				   "<rect class=\"b\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%.2f%%\" height=\"%.2f%%\">", x,
				   width, y, 100 - y);
		buf_str(h->out, "<title>");
		html_number(h, c->y_kind, b->y);
		buf_str(h->out, " at ");
		html_number(h, VALUE_NS, (double)b->x_ns);
		if (b->label) {
			buf_str(h->out, ": ");
			html_text(h, b->label);
		}
		buf_printf(h->out, "</title></%s>", width < 0.3 ? "line" : "rect");
	}
}

static void chart_line(const struct html *h, const struct report_chart *c, const struct chart_line *l, double top,
		       size_t series)
{
	double window = (double)chart_window(c);
	if (!l->n)
		return;
	buf_str(h->out, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" height=\"100%\">");
	for (int area = c->n_lines == 1; area >= 0; area--) {
		buf_printf(h->out, "<poly%s class=\"%s s%zu\" points=\"", area ? "gon" : "line", area ? "a" : "l",
			   series);
		double first = clamp01((double)l->x_ns[0] / window) * 1000;
		double last = clamp01((double)l->x_ns[l->n - 1] / window) * 1000;
		if (area)
			buf_printf(h->out, "%.1f,100 ", first);
		for (size_t i = 0; i < l->n; i++)
			buf_printf(h->out, "%.1f,%.2f ", clamp01((double)l->x_ns[i] / window) * 1000,
				   (1 - clamp01(l->y[i] / top)) * 100);
		if (area)
			buf_printf(h->out, "%.1f,100", last);
		buf_str(h->out, "\"/>");
	}
	buf_str(h->out, "</svg>");
}

static void chart_sentence(const struct html *h, const struct report_chart *c)
{
	html_text(h, c->block.title);
	buf_str(h->out, ": over ");
	html_number(h, VALUE_NS, (double)chart_window(c));
	buf_str(h->out, ", from zero up to ");
	html_number(h, c->y_kind, chart_max(c));
	if (c->n_bars)
		buf_printf(h->out, ", %s", fmt_plural(c->n_bars, "bar", "bars").s);
	if (c->n_lines)
		buf_printf(h->out, ", %s", fmt_plural(c->n_lines, "line", "lines").s);
}

static void chart_axes(const struct html *h, const struct report_chart *c, double top)
{
	buf_str(h->out, "<div class=\"ya\" aria-hidden=\"true\">");
	for (int i = Y_STEPS; i >= 0; i--) {
		buf_str(h->out, "<span>");
		html_number(h, i ? c->y_kind : VALUE_COUNT, top / Y_STEPS * i);
		buf_str(h->out, "</span>");
	}
	buf_str(h->out, "</div><div class=\"xa\" aria-hidden=\"true\">");
	for (int i = 0; i <= 4; i++) {
		buf_str(h->out, "<span>");
		if (i)
			html_number(h, VALUE_NS, (double)chart_window(c) / 4 * i);
		else
			buf_str(h->out, "0 s");
		buf_str(h->out, "</span>");
	}
	buf_str(h->out, "</div>");
}

static void numbers_open(const struct html *h, const char *what)
{
	buf_printf(h->out, "<details class=\"numbers\"><summary>As numbers%s</summary><table><thead>", what);
}

static int by_height(const void *pa, const void *pb)
{
	const struct chart_bar *a = pa, *b = pb;
	return CMP(b->y, a->y) ?: CMP(a->x_ns, b->x_ns);
}

static void bar_numbers(const struct html *h, const struct report_chart *c)
{
	struct chart_bar *sorted = mem_dup(c->bars, c->n_bars * sizeof(*sorted));
	qsort(sorted, c->n_bars, sizeof(*sorted), by_height);
	numbers_open(h, c->n_bars > NUMBERS_MAX ? ", the highest 60" : "");
	buf_str(h->out, "<tr><th>What</th><th class=\"num\">At</th><th class=\"num\">Value</th></tr></thead><tbody>");
	for (size_t i = 0; i < MIN(c->n_bars, (size_t)NUMBERS_MAX); i++) {
		buf_str(h->out, "<tr><td>");
		html_text(h, sorted[i].label ? sorted[i].label : "");
		buf_str(h->out, "</td><td class=\"num\">");
		html_number(h, VALUE_NS, (double)sorted[i].x_ns);
		buf_str(h->out, "</td><td class=\"num\">");
		html_number(h, c->y_kind, sorted[i].y);
		buf_str(h->out, "</td></tr>");
	}
	buf_str(h->out, "</tbody></table></details>");
	mem_free(sorted);
}

static void line_numbers(const struct html *h, const struct report_chart *c)
{
	const struct chart_line *first = c->first_line;
	size_t step = first->n > NUMBERS_MAX ? (first->n + NUMBERS_MAX - 1) / NUMBERS_MAX : 1;
	numbers_open(h, step > 1 ? ", some of them" : "");
	buf_str(h->out, "<tr><th class=\"num\">At</th>");
	for (const struct chart_line *l = first; l; l = l->next) {
		buf_str(h->out, "<th class=\"num\">");
		html_text(h, l->name ? l->name : "Value");
		buf_str(h->out, "</th>");
	}
	buf_str(h->out, "</tr></thead><tbody>");
	for (size_t i = 0; i < first->n; i += step) {
		buf_str(h->out, "<tr><td class=\"num\">");
		html_number(h, VALUE_NS, (double)first->x_ns[i]);
		buf_str(h->out, "</td>");
		for (const struct chart_line *l = first; l; l = l->next) {
			double y;
			buf_str(h->out, "<td class=\"num\">");
			if (chart_line_at(l, (double)first->x_ns[i], &y))
				html_number(h, c->y_kind, y);
			buf_str(h->out, "</td>");
		}
		buf_str(h->out, "</tr>");
	}
	buf_str(h->out, "</tbody></table></details>");
}

static void chart_legend(const struct html *h, const struct report_chart *c)
{
	size_t series = 0;
	if (c->n_lines < 2)
		return;
	buf_str(h->out, "<ul class=\"legend\">");
	for (const struct chart_line *l = c->first_line; l; l = l->next, series++) {
		buf_printf(h->out, "<li><i class=\"s%zu\"></i><span>", series % SERIES);
		html_text(h, l->name ? l->name : "");
		buf_str(h->out, "</span></li>");
	}
	buf_str(h->out, "</ul>");
}

void html_chart(const struct html *h, const struct report_chart *c)
{
	double top = nice_top(c->y_kind, chart_max(c));
	size_t series = 0;
	html_heading(h, c->block.title);
	buf_str(h->out,
		"<figure class=\"panel\"><div class=\"chart\"><div class=\"plot\"><svg role=\"img\" aria-label=\"");
	chart_sentence(h, c);
	buf_str(h->out, "\">");
	for (int i = 0; i <= Y_STEPS; i++)
		buf_printf(h->out, "<line class=\"g\" x2=\"100%%\" y1=\"%.2f%%\" y2=\"%.2f%%\"/>", 100.0 / Y_STEPS * i,
			   100.0 / Y_STEPS * i);
	chart_bars(h, c, top);
	for (const struct chart_line *l = c->first_line; l; l = l->next, series++)
		chart_line(h, c, l, top, series % SERIES);
	buf_str(h->out, "</svg>");
	chart_axes(h, c, top);
	buf_str(h->out, "</div>");
	chart_legend(h, c);
	buf_str(h->out, "</div>");
	if (c->bars_cut)
		buf_printf(h->out, "<p class=\"foot\">%s not drawn.</p>",
			   fmt_plural(c->bars_cut, "lower one is", "lower ones are").s);
	if (c->n_bars)
		bar_numbers(h, c);
	if (c->first_line && c->first_line->n)
		line_numbers(h, c);
	buf_str(h->out, "</figure>\n");
}

void html_histogram(const struct html *h, const struct report_histogram *g)
{
	uint64_t max = histogram_max(g);
	html_heading(h, g->block.title);
	buf_str(h->out,
		"<div class=\"panel\"><table class=\"hist\"><thead class=\"sr\"><tr><th scope=\"col\">Range</th>"
		"<th scope=\"col\">Count</th><td></td></tr></thead><tbody>");
	for (size_t i = 0; i < g->n; i++) {
		const struct bucket *b = &g->buckets[i];
		buf_str(h->out, "<tr><td class=\"num\">");
		html_number(h, g->x_kind, b->from);
		buf_str(h->out, " – ");
		html_number(h, g->x_kind, b->to);
		buf_printf(h->out, "</td><td class=\"num\">%s</td><td>", fmt_count(b->count).s);
		html_bar(h, ratio(b->count, max));
		buf_str(h->out, "</td></tr>");
	}
	if (!g->n)
		buf_str(h->out, "<tr><td>None.</td></tr>");
	buf_str(h->out, "</tbody></table></div>\n");
}

/* The smallest share that is drawn, so that at most FLAME_BOXES_MAX boxes are. */
static double flame_least(const struct report_flame *f)
{
	double least = 0.0003;
	for (;; least *= 1.5) {
		size_t n = 0;
		for (size_t i = 0; i < f->n_nodes; i++)
			n += flame_share(f, i) >= least;
		if (n <= FLAME_BOXES_MAX)
			return least;
	}
}

/* Type and member; the whole name is in the title. */
const char *html_short_name(const char *name)
{
	size_t type = 0, member = 0;
	for (size_t next = name_skip(name, 0); next; next = name_skip(name, next)) {
		type = member;
		member = next;
	}
	return name + type;
}

/* Of a comparison: how much more or less of the whole it is; index = level + 3. */
static const char *const change_classes[] = { "c-down3", "c-down2", "c-down1", "c-same", "c-up1", "c-up2", "c-up3" };

static void change_legend(const struct html *h)
{
	static const struct {
		const char *class, *words;
	} parts[] = { { "c-up3", "10 points more or above" },
		      { "c-up2", "3 points more" },
		      { "c-up1", "a little more" },
		      { "c-same", "as before" },
		      { "c-down1", "a little less" },
		      { "c-down2", "3 points less" },
		      { "c-down3", "10 points less or below" } };
	buf_str(h->out, "<ul class=\"legend\">");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		buf_printf(h->out, "<li><i class=\"%s\"></i>%s</li>", parts[i].class, parts[i].words);
	buf_str(h->out, "</ul>");
}

/* boxes: for each node the box it is drawn as, its own or its nearest caller's. */
static void flame_boxes(const struct html *h, const struct report_flame *f, double least, uint32_t *boxes)
{
	uint32_t drawn = 0, path[FLAME_DEPTH_MAX + 1] = { 0 };
	/* Where the next child of the node at each depth begins. */
	double at[FLAME_DEPTH_MAX + 1] = { 0 }, all = (double)MAX(f->nodes[0].total, (uint64_t)1);
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node *n = &f->nodes[i];
		double share = (double)n->total / all, x = at[n->depth];
		at[n->depth] += share;
		at[n->depth + 1] = x;
		bool draw = share >= least || !i;
		path[n->depth] = boxes[i] = draw ? drawn++ : path[n->depth - 1];
		if (!draw)
			continue;
		const struct flame_frame *frame = &f->frames[n->frame];
		buf_printf(h->out,
			   "<svg x=\"%.3f%%\" y=\"%u\" width=\"%.3f%%\" height=\"%d\" data-x=\"%.6f\" data-w=\"%.6f\" "
			   "data-d=\"%u\" data-s=\"%.6f\"",
			   x * 100, n->depth * FLAME_ROW, share * 100, FLAME_ROW, x, share, n->depth,
			   (double)n->self / all);
		if (f->compared)
			buf_printf(h->out, " data-c=\"%.6f\"", flame_change(f, i));
		buf_str(h->out, "><title>");
		html_text(h, frame->name);
		buf_str(h->out, "</title><rect class=\"");
		if (f->compared)
			buf_str(h->out, change_classes[flame_change_level(f, i) + 3]);
		else
			buf_printf(h->out, "k-%s", frame_kind_names[frame->kind]);
		buf_str(h->out, "\" width=\"100%\" height=\"100%\"/>");
		buf_str(h->out, "<text x=\"5\" y=\"14\">");
		html_text(h, html_short_name(frame->name));
		buf_str(h->out, "</text></svg>\n");
	}
}

static void flame_legend(const struct html *h, const struct report_flame *f)
{
	double self[ARRAY_SIZE(frame_kind_names)] = { 0 }, all = (double)MAX(f->nodes[0].total, (uint64_t)1);
	for (size_t i = 1; i < f->n_nodes; i++)
		self[f->frames[f->nodes[i].frame].kind] += (double)f->nodes[i].self / all;
	buf_str(h->out, "<ul class=\"legend\">");
	for (size_t k = 0; k < ARRAY_SIZE(self); k++) {
		if (self[k] > 0)
			buf_printf(h->out, "<li><i class=\"k-%s\"></i>%s %s</li>", frame_kind_names[k],
				   frame_kind_words[k], fmt_percent(self[k]).s);
	}
	buf_str(h->out, "</ul>");
}

/* --- the heatmap: seconds from left to right, the second itself from top to bottom --- */

enum { HEAT_ROW = 9, HEAT_SHADES = 5 };

static void heat_rects(const struct html *h, const struct report_flame *f)
{
	uint64_t sums[HEAT_COLUMNS_MAX][HEAT_ROWS] = { 0 }, most = 1;
	for (size_t i = 0; i < f->n_cells; i++) {
		uint64_t *sum = &sums[f->cells[i].column][f->cells[i].row];
		*sum += f->cells[i].weight;
		most = MAX(most, *sum);
	}
	for (size_t c = 0; c < f->heat_columns; c++) {
		for (size_t r = 0; r < HEAT_ROWS; r++) {
			double share = (double)sums[c][r] / (double)most;
			unsigned shade = sums[c][r] ? 1 + (unsigned)(share * (HEAT_SHADES - 1) + 0.5) : 0;
			buf_printf(h->out,
				   "<rect class=\"h%u\" x=\"%.3f%%\" y=\"%zu\" width=\"%.3f%%\" height=\"%d\"><title>",
				   MIN(shade, (unsigned)HEAT_SHADES), 100.0 * (double)c / (double)f->heat_columns,
				   r * HEAT_ROW, 100.0 / (double)f->heat_columns, HEAT_ROW);
			html_number(h, f->weight_kind, (double)sums[c][r]);
			buf_printf(h->out, " at %zu.%02zu s</title></rect>", c * f->heat_seconds, r * 100 / HEAT_ROWS);
		}
	}
}

static void heatmap(const struct html *h, const struct report_flame *f, const uint32_t *boxes)
{
	buf_printf(h->out, "<div class=\"heat\" data-rows=\"%d\" data-seconds=\"%zu\" data-kind=\"%s\" data-cells=\"",
		   HEAT_ROWS, f->heat_seconds, value_kind_names[f->weight_kind]);
	for (size_t i = 0; i < f->n_cells; i++)
		buf_printf(h->out, "%s%u,%u,%u,%llu", i ? ";" : "", f->cells[i].column, f->cells[i].row,
			   boxes[f->cells[i].node], (unsigned long long)f->cells[i].weight);
	struct fmt_text seconds = fmt_plural(f->heat_seconds, "second", "seconds");
	buf_printf(h->out,
		   "\"><p>When: %s each from left to right, 50 ms from top to bottom. <span class=\"js\">A click "
		   "begins a range, "
		   "a second one ends it: the flame graph then shows only that.</span></p><svg role=\"group\" "
		   "aria-label=\"Heatmap of the samples by second and offset within it\" height=\"%d\">\n",
		   seconds.s, HEAT_ROWS * HEAT_ROW);
	heat_rects(h, f);
	buf_str(h->out, "</svg></div>");
}

struct frame_weight {
	uint32_t frame;
	uint64_t self;
};

static int heaviest_first(const void *pa, const void *pb)
{
	const struct frame_weight *a = pa, *b = pb;
	return CMP(b->self, a->self) ?: CMP(a->frame, b->frame);
}

static void flame_numbers(const struct html *h, const struct report_flame *f)
{
	struct frame_weight *w = mem_array(MAX(f->n_frames, (size_t)1), sizeof(*w));
	for (size_t i = 0; i < f->n_frames; i++)
		w[i] = (struct frame_weight){ (uint32_t)i, 0 };
	for (size_t i = 0; i < f->n_nodes; i++)
		w[f->nodes[i].frame].self += MIN(f->nodes[i].self, UINT64_MAX - w[f->nodes[i].frame].self);
	qsort(w, f->n_frames, sizeof(*w), heaviest_first);
	numbers_open(h, ", the heaviest methods themselves");
	buf_str(h->out,
		"<tr><th>Method</th><th class=\"num\">Itself</th><th class=\"num\">Share</th></tr></thead><tbody>");
	for (size_t i = 0; i < MIN(f->n_frames, (size_t)NUMBERS_MAX) && w[i].self; i++) {
		buf_str(h->out, "<tr><td>");
		html_name(h, f->frames[w[i].frame].name);
		buf_str(h->out, "</td><td class=\"num\">");
		html_number(h, f->weight_kind, (double)w[i].self);
		buf_str(h->out, "</td><td class=\"num\">");
		html_number(h, VALUE_RATIO, (double)w[i].self / (double)MAX(f->nodes[0].total, (uint64_t)1));
		buf_str(h->out, "</td></tr>");
	}
	buf_str(h->out, "</tbody></table></details>");
	mem_free(w);
}

void html_flame(const struct html *h, const struct report_flame *f)
{
	double least = flame_least(f);
	unsigned deepest = 0;
	for (size_t i = 0; i < f->n_nodes; i++) {
		if (flame_share(f, i) >= least)
			deepest = MAX(deepest, f->nodes[i].depth);
	}
	html_heading(h, f->block.title);
	buf_str(h->out, "<figure class=\"panel\"><p class=\"fl-now\">Callers above, widths by ");
	buf_str(h->out, f->weight_kind == VALUE_NS ? "time" : f->weight_kind == VALUE_BYTES ? "bytes" : "samples");
	buf_str(h->out, f->compared ? " after, colours by what changed" : "");
	buf_printf(h->out, ".%s</p><div class=\"flame\"><svg role=\"group\" aria-label=\"",
		   f->n_nodes > 1 ? "" : " Nothing was recorded.");
	html_text(h, f->block.title);
	buf_printf(h->out, ": %s in all; the heaviest path is ", fmt_count(f->nodes[0].total).s);
	for (size_t i = 1; i < f->n_nodes && i < 6 && f->nodes[i].depth == i; i++) {
		buf_str(h->out, i > 1 ? ", then " : "");
		html_text(h, f->frames[f->nodes[i].frame].name);
	}
	buf_printf(h->out, "\" height=\"%u\">\n", (deepest + 1) * FLAME_ROW);
	CLEANUP(mem_freep) uint32_t *boxes = mem_array(MAX(f->n_nodes, (size_t)1), sizeof(*boxes));
	flame_boxes(h, f, least, boxes);
	buf_str(h->out, "</svg>");
	if (f->compared)
		change_legend(h);
	else
		flame_legend(h, f);
	buf_str(h->out, "</div>");
	if (f->n_cells)
		heatmap(h, f, boxes);
	flame_numbers(h, f);
	buf_str(h->out, "</figure>\n");
}
