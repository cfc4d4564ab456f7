/* Blocks of a report as text: tables, trees, charts, flame graphs. */

#include "report/text.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	TABLE_ROWS = 12,
	TREE_ROWS = 24,
	TREE_CHILDREN = 5,
	ROWS_WITH_LINES = 3,
	ROW_LINES = 5,
	BRIEF_FINDINGS = 18,
	BAR_WIDE = 20,
	BAR_NARROW = 6,
	GAP = 2,
	NUMBER_MAX = 30,
	STRIP_WIDTH = 80,
};

static void heading(const struct text_out *t, const char *title)
{
	struct buf s = { 0 };
	if (str_empty(title))
		return;
	text_show(t, title, &s);
	text_fit(t, VALUE_TEXT, &s, t->columns - 2);
	text_pad(t, 2);
	text_ink(t, INK_STRONG, buf_cstr(&s));
	buf_char(t->out, '\n');
	buf_free(&s);
}

/* One line of a table or tree: a row, or "…7 more" with an empty row. */
struct line {
	const struct value *cells; /* NULL: only the prefix */
	const struct report_row *row;
	char *prefix; /* of the first cell: branches of a tree */
};

struct text_layout {
	const struct text_out *t;
	const struct report_table *table;
	VEC(struct line) lines;
	size_t widths[COLUMNS_MAX], least[COLUMNS_MAX], bar_column, bar_width, name;
	bool hidden[COLUMNS_MAX];
	double bar_whole;
};

static void line_add(struct text_layout *l, const struct report_row *row, const struct value *cells, char *prefix)
{
	vec_push(&l->lines, ((struct line){ cells, row, prefix }));
}

static char *more_words(const struct text_out *t, const char *prefix, uint64_t n)
{
	return mem_printf("%s%s%s more", prefix, t->ascii ? "... " : "…", fmt_count(n).s);
}

static void table_lines(struct text_layout *l)
{
	size_t shown = 0;
	for (const struct report_row *row = table_first(l->table); row && shown < TABLE_ROWS; row = row->next, shown++)
		line_add(l, row, row->cells, mem_strdup(""));
	uint64_t more = l->table->n_rows - shown + l->table->rows_cut;
	if (more)
		line_add(l, NULL, NULL, more_words(l->t, "", more));
	if (l->table->rest)
		line_add(l, NULL, l->table->rest, mem_strdup(""));
}

static size_t count_below(const struct report_row *row)
{
	size_t n = 1;
	for (const struct report_row *c = row->first_child; c; c = c->next)
		n += count_below(c);
	return n;
}

/* Heaviest first and depth first, so that what the room allows is the heaviest path. */
static void tree_lines(struct text_layout *l, const struct report_row *first, const char *prefix)
{
	bool ascii = l->t->ascii, top = !first->depth;
	size_t shown = 0, most = top ? TREE_ROWS : TREE_CHILDREN;
	for (const struct report_row *row = first; row; row = row->next, shown++) {
		if (l->lines.n >= TREE_ROWS || shown == most) {
			size_t more = 0;
			for (const struct report_row *c = row; c; c = c->next)
				more += count_below(c);
			if (top)
				more += (size_t)l->table->rows_cut;
			line_add(l, NULL, NULL, more_words(l->t, prefix, more));
			return;
		}
		const char *branch = top ? "" : row->next ? (ascii ? "|- " : "├ ") : (ascii ? "`- " : "└ ");
		const char *below = top ? "" : row->next ? (ascii ? "|  " : "│ ") : (ascii ? "   " : "  ");
		line_add(l, row, row->cells, mem_printf("%s%s", prefix, branch));
		CLEANUP(mem_freep) char *deeper = mem_printf("%s%s", prefix, below);
		if (row->first_child)
			tree_lines(l, row->first_child, deeper);
	}
}

/* The last row sums up: what has no sum is left out there, and not a gap in the measuring. */
static bool is_empty(const struct line *line, size_t column)
{
	return !line->row && line->cells[column].missing;
}

static size_t cell_width(const struct text_layout *l, const struct line *line, size_t column)
{
	struct buf s = { 0 };
	if (column == l->name)
		buf_str(&s, line->prefix);
	if (line->cells && !is_empty(line, column))
		text_value(l->t, &line->cells[column], &s);
	size_t width = utf8_width(buf_cstr(&s));
	buf_free(&s);
	return width;
}

static size_t header_width(const struct text_layout *l, size_t column)
{
	struct buf s = { 0 };
	text_show(l->t, l->table->columns[column].name, &s);
	size_t width = utf8_width(buf_cstr(&s));
	buf_free(&s);
	return width;
}

/* With every text column as narrow as it may be. */
static size_t least_width(const struct text_layout *l)
{
	size_t sum = 2 + (l->bar_width ? GAP + l->bar_width : 0);
	for (size_t i = 0, first = 1; i < l->table->n_columns; i++) {
		if (l->hidden[i])
			continue;
		sum += l->least[i] + (first ? 0 : GAP);
		first = 0;
	}
	return sum;
}

static void measure_column(struct text_layout *l, size_t i)
{
	l->widths[i] = l->least[i] = header_width(l, i);
	vec_each(line, &l->lines) {
		l->widths[i] = MAX(l->widths[i], cell_width(l, line, i));
		if (line->cells && !is_empty(line, i))
			l->least[i] = MAX(l->least[i], text_least(l->t, &line->cells[i]));
	}
	if (!kind_is_text(l->table->columns[i].kind))
		l->least[i] = l->widths[i] = MIN(l->widths[i], (size_t)NUMBER_MAX);
	l->least[i] = MIN(l->least[i], l->widths[i]);
}

/* What is left of the line goes to the columns that could use it, evenly. */
static void share_room(struct text_layout *l)
{
	size_t room = l->t->columns - MIN(l->t->columns, least_width(l));
	size_t want[COLUMNS_MAX];
	for (size_t i = 0; i < l->table->n_columns; i++) {
		want[i] = l->hidden[i] ? 0 : l->widths[i] - l->least[i];
		l->widths[i] = l->least[i];
	}
	for (bool any = true; any && room;) {
		any = false;
		for (size_t i = 0; i < l->table->n_columns && room; i++) {
			if (!want[i])
				continue;
			want[i]--;
			room--;
			l->widths[i]++;
			any = true;
		}
	}
	if (l->bar_width)
		l->bar_width = MIN(l->bar_width + room, (size_t)BAR_WIDE);
	/* A name alone on the line and still too wide. */
	size_t others = least_width(l) - l->least[l->name];
	if (others + l->widths[l->name] > l->t->columns)
		l->widths[l->name] = l->t->columns - MIN(others, l->t->columns);
}

/* Narrow: shorter names, then no bar, then fewer columns from the right; the main one and the name stay longest. */
static void measure(struct text_layout *l)
{
	const struct report_table *t = l->table;
	l->name = table_name_column(t);
	l->bar_column = COLUMNS_MAX;
	for (size_t i = t->n_columns; i-- > 0;) {
		if (!kind_is_text(t->columns[i].kind) && t->columns[i].flags & COLUMN_BAR)
			l->bar_column = i;
	}
	for (size_t i = 0; i < t->n_columns; i++)
		measure_column(l, i);
	if (l->bar_column < COLUMNS_MAX) {
		l->bar_whole = bar_whole(t, l->bar_column);
		l->bar_width = BAR_NARROW;
	}
	if (least_width(l) > l->t->columns)
		l->bar_width = 0;
	for (int keep_main = 1; keep_main >= 0; keep_main--) {
		for (size_t i = t->n_columns; i-- > 0 && least_width(l) > l->t->columns;) {
			if (i != l->name && !(keep_main && t->columns[i].flags & COLUMN_MAIN))
				l->hidden[i] = true;
		}
	}
	share_room(l);
}

static void print_cell(const struct text_layout *l, size_t column, enum value_kind kind, struct buf *s, enum ink ink)
{
	size_t width = l->widths[column];
	text_fit(l->t, kind, s, width);
	size_t pad = width - MIN(width, utf8_width(buf_cstr(s)));
	bool right = !kind_is_text(l->table->columns[column].kind);
	if (right)
		text_pad(l->t, pad);
	text_ink(l->t, ink, buf_cstr(s));
	if (!right)
		text_pad(l->t, pad);
}

static void trim(struct buf *out)
{
	while (out->len && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
}

static void print_header(const struct text_layout *l)
{
	text_pad(l->t, 2);
	for (size_t i = 0, first = 1; i < l->table->n_columns; i++) {
		if (l->hidden[i])
			continue;
		struct buf s = { 0 };
		text_show(l->t, l->table->columns[i].name, &s);
		text_pad(l->t, first ? 0 : GAP);
		print_cell(l, i, VALUE_TEXT, &s, INK_DIM);
		buf_free(&s);
		first = 0;
	}
	trim(l->t->out);
	buf_char(l->t->out, '\n');
}

static void print_name(const struct text_layout *l, const struct line *line, struct buf *s)
{
	/* The branches stay whole; only the name behind them is shortened. */
	size_t prefix = utf8_width(line->prefix), width = l->widths[l->name];
	struct buf name = { 0 };
	if (line->cells) {
		text_value(l->t, &line->cells[l->name], &name);
		text_fit(l->t, line->cells[l->name].kind, &name, width - MIN(width, prefix));
	}
	buf_str(s, line->prefix);
	buf_str(s, buf_cstr(&name));
	buf_free(&name);
}

static void print_line(const struct text_layout *l, const struct line *line)
{
	enum ink ink = line->row ? INK_PLAIN : INK_DIM;
	text_pad(l->t, 2);
	for (size_t i = 0, first = 1; i < l->table->n_columns; i++) {
		if (l->hidden[i])
			continue;
		struct buf s = { 0 };
		enum value_kind kind = VALUE_TEXT;
		if (i == l->name) {
			print_name(l, line, &s);
		} else if (line->cells && !is_empty(line, i)) {
			kind = line->cells[i].kind;
			text_value(l->t, &line->cells[i], &s);
		}
		text_pad(l->t, first ? 0 : GAP);
		print_cell(l, i, kind, &s, ink);
		buf_free(&s);
		first = 0;
	}
	if (l->bar_width && line->row) {
		text_pad(l->t, GAP);
		text_bar(l->t, bar_share(l->bar_whole, &line->cells[l->bar_column]), l->bar_width);
	}
	trim(l->t->out);
	buf_char(l->t->out, '\n');
}

/* Columns for the left part of a row's lines, so that the right parts stand below each other. */
static size_t left_width(const struct text_out *t, const struct report_row *row)
{
	size_t left = 0, shown = 0, most = t->columns - MIN(t->columns / 2, (size_t)36);
	for (const struct row_line *l = row->first_line; l && shown < ROW_LINES; l = l->next, shown++) {
		struct buf s = { 0 };
		text_show(t, l->text, &s);
		size_t width = utf8_width(buf_cstr(&s));
		if (l->right)
			left = MAX(left, width);
		buf_free(&s);
	}
	return MIN(left, most);
}

static void print_row_lines(const struct text_out *t, const struct report_row *row)
{
	size_t left = left_width(t, row), shown = 0;
	for (const struct row_line *l = row->first_line; l && shown < ROW_LINES; l = l->next, shown++) {
		struct buf s = { 0 }, right = { 0 };
		text_show(t, l->text, &s);
		text_pad(t, 4);
		if (l->right) {
			text_fit(t, l->kind, &s, left);
			text_show(t, l->right, &right);
			text_fit(t, VALUE_TEXT, &right, t->columns - 4 - left - GAP);
		} else {
			text_fit(t, l->kind, &s, t->columns - 4);
		}
		text_ink(t, INK_PLAIN, buf_cstr(&s));
		if (right.len) {
			text_pad(t, left - MIN(left, utf8_width(buf_cstr(&s))) + GAP);
			text_ink(t, INK_DIM, buf_cstr(&right));
		}
		trim(t->out);
		buf_char(t->out, '\n');
		buf_free(&s);
		buf_free(&right);
	}
	uint64_t more = row->n_lines - shown + row->lines_cut;
	if (more) {
		CLEANUP(mem_freep) char *words = more_words(t, "    ", more);
		text_ink(t, INK_DIM, words);
		buf_char(t->out, '\n');
	}
}

static void say_hidden(struct text_layout *l)
{
	struct text_wrap w = text_wrap_begin(l->t, 2);
	bool any = false;
	for (size_t i = 0; i < l->table->n_columns; i++) {
		if (!l->hidden[i])
			continue;
		struct buf s = { 0 };
		buf_str(&s, any ? ", " : "No room for: ");
		text_show(l->t, l->table->columns[i].name, &s);
		text_wrap_add(&w, INK_DIM, buf_cstr(&s));
		buf_free(&s);
		any = true;
	}
	text_wrap_end(&w);
	bool missing = false;
	vec_each(line, &l->lines) {
		for (size_t i = 0; line->row && i < l->table->n_columns; i++)
			missing = missing || (!l->hidden[i] && line->cells[i].missing);
	}
	if (!missing)
		return;
	text_ink(l->t, INK_DIM,
		 l->t->ascii ? "  -  not measured, or does not apply" : "  –  not measured, or does not apply");
	buf_char(l->t->out, '\n');
}

static void table(const struct text_out *t, const struct report_table *table)
{
	struct text_layout l = { .t = t, .table = table };
	heading(t, table->block.title);
	if (!table->n_columns)
		return;
	if (!table->n_rows) {
		text_pad(t, 2);
		text_ink(t, INK_DIM, "None.");
		buf_char(t->out, '\n');
		return;
	}
	if (table->block.kind == BLOCK_TREE)
		tree_lines(&l, table_first(table), "");
	else
		table_lines(&l);
	measure(&l);
	print_header(&l);
	size_t detailed = 0;
	vec_each(line, &l.lines) {
		print_line(&l, line);
		if (line->row && line->row->first_line && detailed++ < ROWS_WITH_LINES)
			print_row_lines(t, line->row);
		mem_free(line->prefix);
	}
	say_hidden(&l);
	vec_free(&l.lines);
}

/* The highest of what lies in each column, negative where nothing does. */
static void strip_of_bars(const struct report_chart *c, double *heights, size_t n)
{
	double window = (double)chart_window(c);
	for (size_t i = 0; i < c->n_bars; i++) {
		const struct chart_bar *b = &c->bars[i];
		double from = (double)b->x_ns / window * (double)n;
		double to = (double)(b->x_ns + b->length_ns) / window * (double)n;
		for (double x = floor(from); x <= to && x < (double)n; x++)
			heights[(size_t)x] = MAX(heights[(size_t)x], b->y);
	}
}

static void strip_of_line(const struct report_chart *c, const struct chart_line *l, double *heights, size_t n)
{
	double window = (double)chart_window(c);
	for (size_t i = 0; i < l->n; i++) {
		double x = (double)l->x_ns[i] / window * (double)n;
		size_t column = x < (double)n ? (size_t)x : n - 1;
		heights[column] = MAX(heights[column], l->y[i]);
	}
	for (size_t i = 0; i < n; i++) {
		double y;
		if (heights[i] < 0 && chart_line_at(l, ((double)i + 0.5) / (double)n * window, &y))
			heights[i] = y;
	}
}

static void print_strip(const struct text_out *t, const double *heights, size_t n, double max)
{
	struct buf s = { 0 };
	for (size_t i = 0; i < n; i++)
		buf_str(&s, heights[i] <= 0 ? " " : text_spark(t, ratio(heights[i], max)));
	trim(&s);
	text_ink(t, INK_DATA, buf_cstr(&s));
	buf_char(t->out, '\n');
	buf_free(&s);
}

static void chart_title(const struct text_out *t, const struct report_chart *c)
{
	struct buf s = { 0 }, top = { 0 };
	buf_str(&s, str_empty(c->block.title) ? "Over time" : c->block.title);
	number_add(&top, c->y_kind, chart_max(c));
	buf_printf(&s, ", up to %s", buf_cstr(&top));
	heading(t, buf_cstr(&s));
	buf_free(&s);
	buf_free(&top);
}

static void chart_axis(const struct text_out *t, const struct report_chart *c, size_t indent, size_t n)
{
	struct buf end = { 0 };
	text_show(t, fmt_duration_ns(chart_window(c)).s, &end);
	size_t width = utf8_width(buf_cstr(&end));
	struct buf axis = { 0 };
	buf_repeat(&axis, " ", indent);
	buf_str(&axis, "0 s");
	buf_repeat(&axis, " ", n - MIN(n, 3 + width));
	buf_str(&axis, buf_cstr(&end));
	text_ink(t, INK_DIM, buf_cstr(&axis));
	buf_char(t->out, '\n');
	buf_free(&axis);
	buf_free(&end);
	if (c->bars_cut) {
		struct text_wrap w = text_wrap_begin(t, 2);
		struct fmt_text lower = fmt_plural(c->bars_cut, "lower one is", "lower ones are");
		text_wrap_add(&w, INK_DIM, lower.s);
		text_wrap_add(&w, INK_DIM, " not drawn.");
		text_wrap_end(&w);
	}
}

static void chart(const struct text_out *t, const struct report_chart *c)
{
	size_t label = 0;
	double max = chart_max(c), heights[STRIP_WIDTH] = { 0 };
	for (const struct chart_line *l = c->first_line; l && c->n_lines > 1; l = l->next) {
		struct buf s = { 0 };
		text_show(t, l->name ? l->name : "", &s);
		label = MAX(label, MIN(utf8_width(buf_cstr(&s)) + GAP, (size_t)20));
		buf_free(&s);
	}
	size_t n = MIN((size_t)STRIP_WIDTH, t->columns - 2 - label);
	chart_title(t, c);
	if (c->n_bars) {
		for (size_t i = 0; i < n; i++)
			heights[i] = -1;
		strip_of_bars(c, heights, n);
		text_pad(t, 2 + label);
		print_strip(t, heights, n, max);
	}
	for (const struct chart_line *l = c->first_line; l; l = l->next) {
		for (size_t i = 0; i < n; i++)
			heights[i] = -1;
		strip_of_line(c, l, heights, n);
		text_pad(t, 2);
		if (label) {
			struct buf s = { 0 };
			text_show(t, l->name ? l->name : "", &s);
			text_fit(t, VALUE_TEXT, &s, label - GAP);
			text_ink(t, INK_DIM, buf_cstr(&s));
			text_pad(t, label - utf8_width(buf_cstr(&s)));
			buf_free(&s);
		}
		print_strip(t, heights, n, max);
	}
	chart_axis(t, c, 2 + label, n);
}

static void range_words(const struct text_out *t, enum value_kind kind, double from, double to, struct buf *s)
{
	struct buf words = { 0 };
	number_add(&words, kind, from);
	buf_str(&words, " – ");
	number_add(&words, kind, to);
	text_show(t, buf_cstr(&words), s);
	buf_free(&words);
}

static void histogram(const struct text_out *t, const struct report_histogram *h)
{
	size_t label = 0, count = 0;
	heading(t, h->block.title);
	for (size_t i = 0; i < h->n; i++) {
		struct buf s = { 0 };
		range_words(t, h->x_kind, h->buckets[i].from, h->buckets[i].to, &s);
		label = MAX(label, utf8_width(buf_cstr(&s)));
		count = MAX(count, strlen(fmt_count(h->buckets[i].count).s));
		buf_free(&s);
	}
	label = MIN(label, t->columns - 2 - GAP - count);
	size_t used = 2 + label + GAP + count + GAP;
	size_t bar = used + BAR_NARROW < t->columns ? MIN(t->columns - used, (size_t)40) : 0;
	for (size_t i = 0; i < h->n; i++) {
		const struct bucket *b = &h->buckets[i];
		struct buf s = { 0 };
		range_words(t, h->x_kind, b->from, b->to, &s);
		struct fmt_text n = fmt_count(b->count);
		text_fit(t, VALUE_TEXT, &s, label);
		text_pad(t, 2 + label - MIN(label, utf8_width(buf_cstr(&s))));
		buf_str(t->out, buf_cstr(&s));
		text_pad(t, GAP + count - strlen(n.s));
		buf_str(t->out, n.s);
		text_pad(t, GAP);
		if (bar && b->count)
			text_bar(t, (double)b->count / (double)histogram_max(h), bar);
		trim(t->out);
		buf_char(t->out, '\n');
		buf_free(&s);
	}
}

/* A picture does not fit a terminal: the heaviest path is shown instead. */
static void flame(const struct text_out *t, const struct report_flame *f)
{
	enum { PATH = 14 };
	size_t path[FLAME_DEPTH_MAX], n = 0;
	for (size_t at = 0; at < f->n_nodes && n < FLAME_DEPTH_MAX;) {
		path[n++] = at;
		bool child = at + 1 < f->n_nodes && f->nodes[at + 1].depth > f->nodes[at].depth;
		if (!child || flame_share(f, at + 1) < 0.05)
			break;
		at++;
	}
	heading(t, f->block.title);
	text_pad(t, 2);
	text_ink(t, INK_DIM, "The heaviest path, callers first:");
	buf_char(t->out, '\n');
	size_t first = n > PATH + 1 ? n - PATH : 1;
	if (first > 1) {
		CLEANUP(mem_freep) char *words = more_words(t, "         ", first - 1);
		text_ink(t, INK_DIM, words);
		buf_char(t->out, '\n');
	}
	for (size_t i = first; i < n; i++) {
		struct buf s = { 0 };
		struct fmt_text share = fmt_percent(flame_share(f, path[i]));
		text_show(t, f->frames[f->nodes[path[i]].frame].name, &s);
		text_fit(t, VALUE_CODE, &s, t->columns - 11);
		text_pad(t, 9 - MIN((size_t)9, strlen(share.s)));
		buf_str(t->out, share.s);
		text_pad(t, GAP);
		buf_str(t->out, buf_cstr(&s));
		buf_char(t->out, '\n');
		buf_free(&s);
	}
}

static void note(const struct text_out *t, const struct report_note *n)
{
	struct text_wrap w = text_wrap_begin(t, 2);
	text_wrap_add(&w, n->health >= REPORT_WARN ? INK_WARN : INK_DIM, "Note:");
	text_wrap_add(&w, INK_PLAIN, " ");
	text_wrap_rich(&w, &n->text);
	text_wrap_end(&w);
}

/* "(pool-starved, severity 96)" */
static void finding_weight(struct text_wrap *w, const struct finding_item *i)
{
	CLEANUP(buf_free) struct buf weight = { 0 }, seen = { 0 };
	buf_str(&weight, " (");
	text_show(w->t, i->finding, &weight);
	buf_printf(&weight, ", severity %u%s)", i->severity, doc_first_seen(w->t->r, i, &seen));
	text_wrap_add(w, INK_DIM, buf_cstr(&weight));
}

/* A line each; brief ones after one another, the first of them, but all where the report is not much more. */
static void findings(const struct text_out *t, const struct report_findings *f)
{
	struct text_wrap w = text_wrap_begin(t, 2);
	text_wrap_add(&w, INK_STRONG, f->block.title);
	text_wrap_add(&w, INK_PLAIN, f->brief ? ": " : ":");
	size_t left = f->n, room = f->brief && !doc_is_short(t->r) ? BRIEF_FINDINGS : SIZE_MAX;
	for (const struct finding_item *i = f->first; i && room; i = i->next, left--, room--) {
		if (!f->brief) {
			text_wrap_end(&w);
			w = text_wrap_begin(t, 4);
		}
		text_wrap_rich(&w, &i->text);
		if (i->severity)
			finding_weight(&w, i);
		if (f->brief)
			text_wrap_add(&w, INK_DIM, !i->next ? "." : t->ascii ? "; " : " · ");
	}
	if (left) {
		CLEANUP(mem_freep) char *more = more_words(t, "", left);
		text_wrap_add(&w, INK_DIM, more);
		text_wrap_add(&w, INK_DIM, ".");
	}
	text_wrap_end(&w);
}

static void section(const struct text_out *t, const struct report_section *s)
{
	struct text_wrap w = text_wrap_begin(t, 2);
	text_wrap_add(&w, s->health >= REPORT_WARN ? INK_WARN : INK_STRONG, s->block.title);
	text_wrap_add(&w, INK_PLAIN, ": ");
	text_wrap_rich(&w, &s->text);
	text_wrap_end(&w);
}

void text_block(const struct text_out *t, const struct block *b)
{
	buf_char(t->out, '\n');
	switch (b->kind) {
	case BLOCK_TABLE:
	case BLOCK_TREE:
		table(t, (const struct report_table *)b);
		break;
	case BLOCK_CHART:
		chart(t, (const struct report_chart *)b);
		break;
	case BLOCK_HISTOGRAM:
		histogram(t, (const struct report_histogram *)b);
		break;
	case BLOCK_FLAME:
		flame(t, (const struct report_flame *)b);
		break;
	case BLOCK_NOTE:
		note(t, (const struct report_note *)b);
		break;
	case BLOCK_FINDINGS:
		findings(t, (const struct report_findings *)b);
		break;
	case BLOCK_SECTION:
		section(t, (const struct report_section *)b);
		break;
	}
}
