/* Tables and trees of a report as HTML. */

#include "report/html.h"
#include "base/fmt.h"
#include "base/str.h"

enum { INDENT_MAX = 24 };

static bool is_number(const struct report_table *t, size_t i)
{
	return !kind_is_text(t->columns[i].kind);
}

/* The one number that stays on a narrow page. */
static size_t main_column(const struct report_table *t)
{
	size_t first = t->n_columns;
	for (size_t i = t->n_columns; i-- > 0;) {
		if (t->columns[i].flags & COLUMN_MAIN)
			return i;
		if (is_number(t, i))
			first = i;
	}
	return first;
}

static const char *column_class(const struct report_table *t, size_t i)
{
	if (i == table_name_column(t))
		return is_number(t, i) ? "name num" : "name";
	if (i == main_column(t))
		return is_number(t, i) ? "num main" : "main";
	return is_number(t, i) ? "num opt" : "opt";
}

static void table_head(const struct html *h, const struct report_table *t)
{
	buf_str(h->out, "<thead><tr>");
	for (size_t i = 0; i < t->n_columns; i++) {
		bool sorted = is_number(t, i) && t->columns[i].flags & COLUMN_MAIN && i == main_column(t);
		buf_printf(h->out, "<th scope=\"col\" class=\"%s\"%s>", column_class(t, i),
			   sorted ? " aria-sort=\"descending\"" : "");
		html_text(h, t->columns[i].name);
		buf_str(h->out, "</th>");
		if (is_number(t, i) && t->columns[i].flags & COLUMN_BAR)
			buf_str(h->out, "<td class=\"c-b\"></td>");
	}
	buf_str(h->out, "</tr></thead>\n");
}

static void table_cells(const struct html *h, const struct report_table *t, const struct value *cells, bool rest)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		bool name = i == table_name_column(t);
		buf_printf(h->out, "<td class=\"%s\"", column_class(t, i));
		if (!name) {
			buf_str(h->out, " data-name=\"");
			html_text(h, t->columns[i].name);
			buf_char(h->out, '"');
		}
		html_data(h, &cells[i]);
		buf_str(h->out, name ? "><div class=\"first\"><div>" : ">");
		if (!(rest && cells[i].missing))
			html_value(h, &cells[i]);
		buf_str(h->out, name ? "</div></div></td>" : "</td>");
		if (!is_number(t, i) || !(t->columns[i].flags & COLUMN_BAR))
			continue;
		buf_str(h->out, "<td class=\"c-b\">");
		if (!rest)
			html_bar(h, bar_share(bar_whole(t, i), &cells[i]));
		buf_str(h->out, "</td>");
	}
}

static void row_lines(const struct html *h, const struct report_row *row, size_t n_cells)
{
	buf_printf(h->out, "<tr class=\"detail\"><td colspan=\"%zu\"><ol class=\"lines\">", n_cells);
	for (const struct row_line *l = row->first_line; l; l = l->next) {
		buf_str(h->out, "<li>");
		if (l->kind == VALUE_CODE) {
			html_name(h, l->text);
		} else {
			buf_str(h->out, "<span>");
			html_text(h, l->text);
			buf_str(h->out, "</span>");
		}
		if (l->right) {
			buf_str(h->out, "<span class=\"right\">");
			html_text(h, l->right);
			buf_str(h->out, "</span>");
		}
		buf_str(h->out, "</li>");
	}
	if (row->lines_cut)
		buf_printf(h->out, "<li class=\"none\">%s not kept</li>",
			   fmt_plural(row->lines_cut, "more line", "more lines").s);
	buf_str(h->out, "</ol></td></tr>");
}

static void say_cut(const struct html *h, const struct report_table *t)
{
	if (t->rows_cut)
		buf_printf(h->out, "<p class=\"foot\">%s not kept in this report.</p>\n",
			   fmt_plural(t->rows_cut, "more row was", "more rows were").s);
}

static bool nothing(const struct html *h, const struct report_table *t)
{
	html_heading(h, t->block.title);
	if (t->n_rows && t->n_columns)
		return false;
	buf_str(h->out, "<div class=\"panel\"><p class=\"empty\">None.</p></div>\n");
	return true;
}

void html_table(const struct html *h, const struct report_table *t)
{
	if (nothing(h, t))
		return;
	size_t n_cells = t->n_columns;
	for (size_t i = 0; i < t->n_columns; i++)
		n_cells += is_number(t, i) && t->columns[i].flags & COLUMN_BAR;
	bool deep = false;
	for (const struct report_row *row = table_first(t); row; row = row->next)
		deep = deep || row->first_line;
	buf_printf(h->out, "<div class=\"panel\"><table class=\"rows%s\">", deep ? " deep" : "");
	table_head(h, t);
	for (const struct report_row *row = table_first(t); row; row = row->next) {
		buf_str(h->out, row->first_line ? "<tbody><tr class=\"has\">" : "<tbody><tr>");
		table_cells(h, t, row->cells, false);
		buf_str(h->out, "</tr>");
		if (row->first_line)
			row_lines(h, row, n_cells);
		buf_str(h->out, "</tbody>\n");
	}
	if (t->rest) {
		buf_str(h->out, "<tbody class=\"last\"><tr class=\"rest\">");
		table_cells(h, t, t->rest, true);
		buf_str(h->out, "</tr></tbody>\n");
	}
	buf_str(h->out, "</table>");
	say_cut(h, t);
	buf_str(h->out, "</div>\n");
	html_treemap(h, t);
}

static void tree_cells(const struct html *h, const struct report_table *t, const struct value *cells)
{
	buf_str(h->out, "<span class=\"nmc\"><span class=\"tw\" aria-hidden=\"true\"></span><span>");
	html_value(h, &cells[0]);
	buf_str(h->out, "</span></span>");
	for (size_t i = 1; i < t->n_columns; i++) {
		buf_printf(h->out, "<span class=\"%s\">", column_class(t, i));
		html_value(h, &cells[i]);
		buf_str(h->out, "</span>");
		if (!is_number(t, i) || !(t->columns[i].flags & COLUMN_BAR))
			continue;
		buf_str(h->out, "<span class=\"c-b\">");
		html_bar(h, bar_share(bar_whole(t, i), &cells[i]));
		buf_str(h->out, "</span>");
	}
}

static void tree_head(const struct html *h, const struct report_table *t)
{
	buf_str(h->out, "<div class=\"trow th\"><span class=\"nmc\">");
	html_text(h, t->columns[0].name);
	buf_str(h->out, "</span>");
	for (size_t i = 1; i < t->n_columns; i++) {
		buf_printf(h->out, "<span class=\"%s\">", column_class(t, i));
		html_text(h, t->columns[i].name);
		buf_str(h->out, "</span>");
		if (is_number(t, i) && t->columns[i].flags & COLUMN_BAR)
			buf_str(h->out, "<span class=\"c-b\"></span>");
	}
	buf_str(h->out, "</div>\n");
}

/* Open along the heaviest path: each first child of an open row. */
static void tree_rows(const struct html *h, const struct report_row *first, bool open)
{
	for (const struct report_row *row = first; row; row = row->next) {
		unsigned indent = MIN(row->depth, (unsigned)INDENT_MAX);
		bool branch = row->first_child;
		if (branch)
			buf_printf(h->out, "<details%s><summary class=\"trow d%u\">",
				   open && row == first ? " open" : "", indent);
		else
			buf_printf(h->out, "<div class=\"trow d%u\">", indent);
		tree_cells(h, row->table, row->cells);
		buf_str(h->out, branch ? "</summary>\n" : "</div>\n");
		if (branch) {
			tree_rows(h, row->first_child, open && row == first);
			buf_str(h->out, "</details>\n");
		}
	}
}

void html_tree(const struct html *h, const struct report_table *t)
{
	if (nothing(h, t))
		return;
	buf_str(h->out, "<div class=\"panel\">");
	tree_head(h, t);
	buf_str(h->out, "<div class=\"tree\">");
	tree_rows(h, table_first(t), true);
	if (t->rest) {
		buf_str(h->out, "<div class=\"trow d0\">");
		tree_cells(h, t, t->rest);
		buf_str(h->out, "</div>\n");
	}
	buf_str(h->out, "</div>");
	say_cut(h, t);
	buf_str(h->out, "</div>\n");
	html_treemap(h, t);
}
