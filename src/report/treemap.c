#include "report/treemap.h"
#include <math.h>
#include <stdlib.h>

#define LEAST_AREA 0.00005 /* of the whole: smaller boxes would not be visible, so those are drawn as one */

struct treemap_parts { /* a VEC */
	struct treemap_box *v;
	size_t n, cap;
};

static int largest_first(const void *a, const void *b)
{
	const struct treemap_box *x = a, *y = b;
	return x->number < y->number ? 1 : x->number > y->number ? -1 : 0;
}

/* How far from a square the worst of these is when they fill a strip of that length (pixels). */
static double worst_shape(const struct treemap_box *v, size_t n, double pixels_each, double length)
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
static void place_strip(struct treemap_box *v, size_t n, double left, struct treemap_place *box)
{
	bool upright = box->w * TREEMAP_WIDTH >= box->h * TREEMAP_HEIGHT;
	double sum = 0, at = 0;
	for (size_t i = 0; i < n; i++)
		sum += v[i].number;
	double depth = (upright ? box->w : box->h) * MIN(sum / left, 1.0);
	for (size_t i = 0; i < n; i++) {
		double share = v[i].number / sum;
		v[i].place = upright ? (struct treemap_place){ box->x, box->y + at * box->h, depth, share * box->h }
				     : (struct treemap_place){ box->x + at * box->w, box->y, share * box->w, depth };
		at += share;
	}
	*(upright ? &box->x : &box->y) += depth;
	*(upright ? &box->w : &box->h) -= depth;
}

static void place(struct treemap_parts *parts, struct treemap_place box)
{
	double left = 0;
	vec_sort(parts, largest_first);
	for (size_t i = 0; i < parts->n; i++)
		left += parts->v[i].number;
	for (size_t i = 0; i < parts->n;) {
		double length = MIN(box.w * TREEMAP_WIDTH, box.h * TREEMAP_HEIGHT),
		       pixels = box.w * TREEMAP_WIDTH * box.h * TREEMAP_HEIGHT;
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

double treemap_number(const struct value *cells, size_t column)
{
	const struct value *v = &cells[column];
	return v->missing || kind_is_text(v->kind) || v->number <= 0 ? 0 : v->number;
}

static void add_other(const struct treemap *m, bool smaller, double number, struct treemap_parts *ret)
{
	if (number >= LEAST_AREA * m->whole)
		vec_push(ret, ((struct treemap_box){ .smaller = smaller, .number = number }));
}

/* Children of a row and what it has beside them; of the table, its rows and the rest. */
static void parts_of(const struct treemap *m, const struct report_row *first, double whole, struct treemap_parts *ret)
{
	double sum = 0, small = 0;
	for (const struct report_row *row = first; row; row = row->next) {
		double number = treemap_number(row->cells, m->column);
		sum += number;
		if (number >= LEAST_AREA * m->whole)
			vec_push(ret, ((struct treemap_box){ .row = row, .number = number }));
		else
			small += number;
	}
	add_other(m, true, small, ret);
	add_other(m, false, whole - sum, ret);
}

/* above: the box whose parts these are. */
static void lay_out(struct treemap *m, const struct report_row *first, const struct treemap_box *above, int32_t at)
{
	struct treemap_parts parts = { 0 };
	parts_of(m, first, above->number, &parts);
	place(&parts, above->place);
	for (size_t i = 0; i < parts.n; i++) {
		struct treemap_box *p = &parts.v[i];
		p->parent = above->row;
		p->parent_box = at;
		p->depth = at < 0 ? 0 : above->depth + 1;
		vec_push(&m->boxes, *p);
		if (p->row && p->row->first_child)
			lay_out(m, p->row->first_child, p, (int32_t)m->boxes.n - 1);
	}
	vec_free(&parts);
}

bool treemap_init(struct treemap *m, const struct report_table *t)
{
	*m = (struct treemap){ .column = t->n_columns };
	for (size_t i = t->n_columns; i-- > 0;)
		if (t->columns[i].flags & COLUMN_AREA && !kind_is_text(t->columns[i].kind))
			m->column = i;
	if (m->column == t->n_columns)
		return false;
	for (const struct report_row *row = table_first(t); row; row = row->next)
		m->whole += treemap_number(row->cells, m->column);
	if (t->rest)
		m->whole += treemap_number(t->rest, m->column);
	if (m->whole <= 0 || !isfinite(m->whole) || !table_first(t))
		return false;
	lay_out(m, table_first(t), &(struct treemap_box){ .number = m->whole, .place = { 0, 0, 1, 1 } }, -1);
	return true;
}

void treemap_fini(struct treemap *m)
{
	vec_free(&m->boxes);
}
