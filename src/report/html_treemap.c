/* The areas of a table or tree (treemap.h) as SVG, so that the picture is there without a script; the script only
 * enlarges one of them. The first row is drawn in its parts, the others whole until somebody goes into them. */

#include "base/fmt.h"
#include "report/html.h"
#include "report/treemap.h"

#define LABEL_WIDTH 44 /* pixels from which on a box can have words */
#define LABEL_HEIGHT 18
#define TWO_LINES 34

struct treemap_page {
	const struct html *h;
	const struct report_table *t;
	size_t name;
	struct treemap map;
};

static void box_open(const struct treemap_page *m, const struct treemap_box *p, const char *class)
{
	const struct treemap_place *b = &p->place;
	buf_printf(m->h->out,
		   "<svg class=\"%s\" x=\"%.3f%%\" y=\"%.3f%%\" width=\"%.3f%%\" height=\"%.3f%%\" data-x=\"%.6f\" "
		   "data-y=\"%.6f\" data-w=\"%.6f\" data-h=\"%.6f\" data-d=\"%u\" data-n=\"",
		   class, b->x * 100, b->y * 100, b->w * 100, b->h * 100, b->x, b->y, b->w, b->h, p->depth);
	html_number(m->h, m->t->columns[m->map.column].kind, p->number);
	buf_printf(m->h->out, ", %s\"><title>", fmt_percent(p->number / m->map.whole).s);
}

static void box_name(const struct treemap_page *m, const struct treemap_box *p, bool brief)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	const struct report_row *row = p->row ? p->row : p->parent;
	const char *words = p->smaller ? "smaller ones" : p->parent ? "itself" : "all others";
	if (row)
		value_add(&name, m->h->r, &row->cells[m->name]);
	else if (m->t->rest && !m->t->rest[m->name].missing)
		value_add(&name, m->h->r, &m->t->rest[m->name]);
	else
		buf_str(&name, words);
	html_text(m->h, brief ? html_short_name(buf_cstr(&name)) : buf_cstr(&name));
	if (!p->row && p->parent)
		buf_printf(m->h->out, "%s %s", brief ? "" : ",", words);
}

/* What is inside of one that is drawn whole is hidden until somebody goes into it. */
static void tile(const struct treemap_page *m, const struct treemap_box *p, bool main)
{
	double w = p->place.w * TREEMAP_WIDTH, h = p->place.h * TREEMAP_HEIGHT;
	bool rest = !p->row && !p->parent, whole = p->row && p->row->first_child;
	box_open(m, p,
		 main	    ? "tm-main"
		 : rest	    ? "tm-rest"
		 : whole    ? "tm-more tm-whole"
		 : p->depth ? "tm-more off"
			    : "tm-more");
	box_name(m, p, false);
	buf_str(m->h->out, "</title><rect width=\"100%\" height=\"100%\"/>");
	buf_printf(m->h->out, "<text x=\"6\" y=\"14\"%s>", w < LABEL_WIDTH || h < LABEL_HEIGHT ? " class=\"no\"" : "");
	box_name(m, p, true);
	buf_printf(m->h->out, "</text><text x=\"6\" y=\"28\" class=\"v%s\">",
		   w < LABEL_WIDTH || h < TWO_LINES ? " no" : "");
	html_number(m->h, m->t->columns[m->map.column].kind, p->number);
	buf_str(m->h->out, "</text></svg>\n");
}

static void draw(const struct treemap_page *m)
{
	bool main = false; /* the box belongs to the first row of all */
	vec_each(b, &m->map.boxes) {
		bool branch = b->row && b->row->first_child;
		if (!b->depth)
			main = b->row && b->row == table_first(m->t);
		if (!branch || (!b->depth && !main)) {
			tile(m, b, main);
		} else {
			box_open(m, b, "tm-in");
			box_name(m, b, false);
			buf_str(m->h->out, "</title></svg>\n");
		}
	}
}

static void sentence(const struct treemap_page *m)
{
	const struct report_row *first = table_first(m->t);
	html_text(m->h, m->t->block.title);
	buf_str(m->h->out, " as areas: ");
	html_number(m->h, m->t->columns[m->map.column].kind, m->map.whole);
	buf_str(m->h->out, " in all");
	if (first) {
		CLEANUP(buf_free) struct buf name = { 0 };
		value_add(&name, m->h->r, &first->cells[m->name]);
		buf_str(m->h->out, "; the first is ");
		html_text(m->h, buf_cstr(&name));
	}
}

static void legend(const struct treemap_page *m)
{
	const struct report_row *first = table_first(m->t);
	CLEANUP(buf_free) struct buf name = { 0 };
	double number = treemap_number(first->cells, m->map.column);
	value_add(&name, m->h->r, &first->cells[m->name]);
	buf_str(m->h->out, "<ul class=\"legend\"><li><i class=\"tm-main\"></i><span>");
	html_text(m->h, buf_cstr(&name));
	buf_str(m->h->out, ", ");
	html_number(m->h, m->t->columns[m->map.column].kind, number);
	buf_str(m->h->out, "</span></li><li><i class=\"tm-more\"></i>everything else, ");
	html_number(m->h, m->t->columns[m->map.column].kind, m->map.whole - number);
	buf_str(m->h->out, "</li></ul>");
}

void html_treemap(const struct html *h, const struct report_table *t)
{
	struct treemap_page m = { .h = h, .t = t, .name = table_name_column(t) };
	if (treemap_init(&m.map, t)) {
		buf_str(h->out, "<figure class=\"panel map\"><p class=\"fl-now\">The same as areas: ");
		html_number(h, t->columns[m.map.column].kind, m.map.whole);
		buf_str(h->out, " in all.</p><div class=\"tm\"><svg role=\"group\" aria-label=\"");
		sentence(&m);
		buf_printf(h->out, "\" height=\"%d\">\n", (int)TREEMAP_HEIGHT);
		draw(&m);
		buf_str(h->out, "</svg>");
		legend(&m);
		buf_str(h->out, "</div></figure>\n");
	}
	treemap_fini(&m.map);
}
