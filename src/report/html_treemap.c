/* Areas of a table or tree: each row is a part of its parent's box, as large as its number. Boxes are laid out here, in
 * shares of the whole, so that the picture is there without a script; the script only enlarges one of them.
 *
 * The parts of a box stand in strips along its shorter side, each strip filled until its boxes would become narrower
 * than before ("squarified"). What of a row none of its children has is a box of its own: the row itself. The first row
 * is drawn in its parts, the others whole until somebody goes into them. */

#include "base/fmt.h"
#include "base/vec.h"
#include "report/html.h"
#include <math.h>
#include <stdlib.h>

/* The picture's size on a wide page: what is nearly square there is so about everywhere. */
#define WIDTH 816.0
#define HEIGHT 300.0
#define LEAST_AREA 0.00005 /* of the whole: nobody sees a smaller box, so those are one */
#define LABEL_WIDTH 44	   /* pixels from which on a box can have words */
#define LABEL_HEIGHT 18
#define TWO_LINES 34

struct treemap_box {
	double x, y, w, h; /* shares of the whole picture */
};
struct treemap_part {
	const struct report_row *row; /* or NULL, and then what it is in words */
	const char *words;
	double number;
	struct treemap_box box;
};
VEC_TYPE(treemap_parts, struct treemap_part);
struct treemap_map {
	const struct html *h;
	const struct report_table *t;
	size_t name, column;
	double whole;
	bool main, inner; /* what is drawn belongs to the first of all; is inside of one that is drawn whole */
};

/* ---- layout ---- */

static int largest_first(const void *a, const void *b)
{
	const struct treemap_part *x = a, *y = b;
	return CMP(y->number, x->number);
}

/* How far from a square the worst of these is when they fill a strip of that length (pixels). */
static double worst_shape(const struct treemap_part *v, size_t n, double pixels_each, double length)
{
	double sum = 0, worst = 1;
	for (size_t i = 0; i < n; i++)
		sum += v[i].number * pixels_each;
	double depth = sum / length;
	for (size_t i = 0; i < n; i++) {
		double side = v[i].number * pixels_each / depth;
		worst = MAX(worst, side > depth ? side / depth : depth / side);
	}
	return worst;
}

/* One strip of the first n along the shorter side of the box, which is left with what remains. */
static void place_strip(struct treemap_part *v, size_t n, double left, struct treemap_box *box)
{
	bool upright = box->w * WIDTH >= box->h * HEIGHT;
	double sum = 0, at = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i].number;
	double depth = (upright ? box->w : box->h) * MIN(sum / left, 1.0);
	for (size_t i = 0; i < n; i++) {
		double share = v[i].number / sum;
		v[i].box = upright ? (struct treemap_box){ box->x, box->y + at * box->h, depth, share * box->h }
				   : (struct treemap_box){ box->x + at * box->w, box->y, share * box->w, depth };
		at += share;
	}
	*(upright ? &box->x : &box->y) += depth;
	*(upright ? &box->w : &box->h) -= depth;
}

static void place(struct treemap_parts *parts, struct treemap_box box)
{
	double left = 0;
	vec_sort(parts, largest_first);
	for (size_t i = 0; i < parts->n; i++)
		left += parts->v[i].number;
	for (size_t i = 0; i < parts->n;) {
		double length = MIN(box.w * WIDTH, box.h * HEIGHT), pixels = box.w * WIDTH * box.h * HEIGHT;
		size_t n = 1;
		if (length <= 0 || left <= 0)
			break;
		double shape = worst_shape(&parts->v[i], 1, pixels / left, length);
		for (; i + n < parts->n; n++) {
			double next = worst_shape(&parts->v[i], n + 1, pixels / left, length);
			if (next > shape)
				break;
			shape = next;
		}
		double sum = 0;
		for (size_t k = 0; k < n; k++)
			sum += parts->v[i + k].number;
		place_strip(&parts->v[i], n, left, &box);
		left -= sum;
		i += n;
	}
}

static double number_of(const struct value *cells, size_t column)
{
	const struct value *v = &cells[column];
	return v->missing || kind_is_text(v->kind) || v->number <= 0 ? 0 : v->number;
}

static void add_words(const struct treemap_map *m, const char *words, double number, struct treemap_parts *ret)
{
	if (number >= LEAST_AREA * m->whole)
		vec_push(ret, ((struct treemap_part){ .words = words, .number = number }));
}

/* Children of a row and what it has beside them; of the table, its rows and the rest. */
static void parts_of(const struct treemap_map *m, const struct report_row *first, const struct report_row *parent,
		     double whole, struct treemap_parts *ret)
{
	double sum = 0, small = 0;
	for (const struct report_row *row = first; row; row = row->next) {
		double number = number_of(row->cells, m->column);
		sum += number;
		if (number >= LEAST_AREA * m->whole)
			vec_push(ret, ((struct treemap_part){ .row = row, .number = number }));
		else
			small += number;
	}
	add_words(m, "smaller ones", small, ret);
	add_words(m, parent ? "itself" : "all others", whole - sum, ret);
}

/* ---- drawing ---- */

static void box_open(const struct treemap_map *m, const struct treemap_part *p, unsigned depth, const char *class)
{
	const struct treemap_box *b = &p->box;
	buf_printf(m->h->out,
		   "<svg class=\"%s\" x=\"%.3f%%\" y=\"%.3f%%\" width=\"%.3f%%\" height=\"%.3f%%\" data-x=\"%.6f\" "
		   "data-y=\"%.6f\" data-w=\"%.6f\" data-h=\"%.6f\" data-d=\"%u\" data-n=\"",
		   class, b->x * 100, b->y * 100, b->w * 100, b->h * 100, b->x, b->y, b->w, b->h, depth);
	html_number(m->h, m->t->columns[m->column].kind, p->number);
	buf_printf(m->h->out, ", %s\"><title>", fmt_percent(p->number / m->whole).s);
}

static void box_name(const struct treemap_map *m, const struct treemap_part *p, const struct report_row *parent,
		     bool brief)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	const struct report_row *row = p->row ? p->row : parent;
	if (row)
		value_add(&name, m->h->r, &row->cells[m->name]);
	else if (m->t->rest && !m->t->rest[m->name].missing)
		value_add(&name, m->h->r, &m->t->rest[m->name]);
	else
		buf_str(&name, p->words);
	html_text(m->h, brief ? html_short_name(buf_cstr(&name)) : buf_cstr(&name));
	if (!p->row && parent)
		buf_printf(m->h->out, "%s %s", brief ? "" : ",", p->words);
}

static void tile(const struct treemap_map *m, const struct treemap_part *p, const struct report_row *parent,
		 unsigned depth)
{
	double w = p->box.w * WIDTH, h = p->box.h * HEIGHT;
	bool rest = !p->row && !parent, whole = p->row && p->row->first_child;
	box_open(m, p, depth,
		 m->main    ? "tm-main"
		 : rest	    ? "tm-rest"
		 : whole    ? "tm-more tm-whole"
		 : m->inner ? "tm-more off"
			    : "tm-more");
	box_name(m, p, parent, false);
	buf_str(m->h->out, "</title><rect width=\"100%\" height=\"100%\"/>");
	buf_printf(m->h->out, "<text x=\"6\" y=\"14\"%s>", w < LABEL_WIDTH || h < LABEL_HEIGHT ? " class=\"no\"" : "");
	box_name(m, p, parent, true);
	buf_printf(m->h->out, "</text><text x=\"6\" y=\"28\" class=\"v%s\">",
		   w < LABEL_WIDTH || h < TWO_LINES ? " no" : "");
	html_number(m->h, m->t->columns[m->column].kind, p->number);
	buf_str(m->h->out, "</text></svg>\n");
}

static void draw(struct treemap_map *m, const struct report_row *first, const struct report_row *parent, double whole,
		 struct treemap_box box, unsigned depth)
{
	struct treemap_parts parts = { 0 };
	parts_of(m, first, parent, whole, &parts);
	place(&parts, box);
	for (size_t i = 0; i < parts.n; i++) {
		const struct treemap_part *p = &parts.v[i];
		bool branch = p->row && p->row->first_child;
		if (!depth)
			m->main = p->row && p->row == table_first(m->t);
		bool closed = branch && !depth && !m->main;
		if (!branch || closed)
			tile(m, p, parent, depth);
		if (!branch)
			continue;
		if (!closed) {
			box_open(m, p, depth, "tm-in");
			box_name(m, p, NULL, false);
			buf_str(m->h->out, "</title></svg>\n");
		}
		m->inner |= closed;
		draw(m, p->row->first_child, p->row, p->number, p->box, depth + 1);
		m->inner &= !closed;
	}
	vec_free(&parts);
}

static void sentence(const struct treemap_map *m)
{
	const struct report_row *first = table_first(m->t);
	html_text(m->h, m->t->block.title);
	buf_str(m->h->out, " as areas: ");
	html_number(m->h, m->t->columns[m->column].kind, m->whole);
	buf_str(m->h->out, " in all");
	if (first) {
		CLEANUP(buf_free) struct buf name = { 0 };
		value_add(&name, m->h->r, &first->cells[m->name]);
		buf_str(m->h->out, "; the first is ");
		html_text(m->h, buf_cstr(&name));
	}
}

static void legend(const struct treemap_map *m)
{
	const struct report_row *first = table_first(m->t);
	CLEANUP(buf_free) struct buf name = { 0 };
	double number = number_of(first->cells, m->column);
	value_add(&name, m->h->r, &first->cells[m->name]);
	buf_str(m->h->out, "<ul class=\"legend\"><li><i class=\"tm-main\"></i><span>");
	html_text(m->h, buf_cstr(&name));
	buf_str(m->h->out, ", ");
	html_number(m->h, m->t->columns[m->column].kind, number);
	buf_str(m->h->out, "</span></li><li><i class=\"tm-more\"></i>everything else, ");
	html_number(m->h, m->t->columns[m->column].kind, m->whole - number);
	buf_str(m->h->out, "</li></ul>");
}

void html_treemap(const struct html *h, const struct report_table *t)
{
	struct treemap_map m = { .h = h, .t = t, .name = table_name_column(t), .column = t->n_columns };
	for (size_t i = t->n_columns; i-- > 0;)
		if (t->columns[i].flags & COLUMN_AREA && !kind_is_text(t->columns[i].kind))
			m.column = i;
	if (m.column == t->n_columns)
		return;
	for (const struct report_row *row = table_first(t); row; row = row->next)
		m.whole += number_of(row->cells, m.column);
	if (t->rest)
		m.whole += number_of(t->rest, m.column);
	if (m.whole <= 0 || !isfinite(m.whole) || !table_first(t))
		return;
	buf_str(h->out, "<figure class=\"panel map\"><p class=\"fl-now\">The same as areas: ");
	html_number(h, t->columns[m.column].kind, m.whole);
	buf_str(h->out, " in all.</p><div class=\"tm\"><svg role=\"group\" aria-label=\"");
	sentence(&m);
	buf_printf(h->out, "\" height=\"%d\">\n", (int)HEIGHT);
	draw(&m, table_first(t), NULL, m.whole, (struct treemap_box){ 0, 0, 1, 1 }, 0);
	buf_str(h->out, "</svg>");
	legend(&m);
	buf_str(h->out, "</div></figure>\n");
}
