#include "report/flame_svg.h"
#include "base/fmt.h"
#include "base/str.h"
#include "report/doc.h"
#include "report_assets.h"
#include <string.h>

#define ROW 17
#define WIDTH 1200
#define LEFT 10.0
#define INNER 1180.0
#define TOP 46
/* Narrower boxes cannot be seen; together they would make the file huge. */
#define SHARE_LEAST 0.0002
#define DEPTH_MAX 400

static const char *const colours[] = { "#7fb069", "#8fbcd4", "#e6aa68", "#c98bb9", "#e8c468", "#d98880", "#c7c7c7" };

struct drawing {
	const struct calltree *tree;
	enum value_kind unit;
	struct buf *out;
	double whole;
	unsigned deepest;
};

static void measure(struct drawing *d, uint32_t node, unsigned depth)
{
	d->deepest = MAX(d->deepest, depth);
	if (depth == DEPTH_MAX)
		return;
	for (uint32_t c = calltree_node(d->tree, node)->first_child; c; c = calltree_node(d->tree, c)->next_sibling) {
		if ((double)calltree_node(d->tree, c)->total / d->whole >= SHARE_LEAST)
			measure(d, c, depth + 1);
	}
}

static void escaped(struct buf *out, const char *name)
{
	CLEANUP(buf_free) struct buf shown = { 0 };
	doc_show(name, 400, &shown);
	markup_escape(out, buf_cstr(&shown));
}

static void box(struct drawing *d, uint32_t node, unsigned depth, double x)
{
	const struct calltree_node *n = calltree_node(d->tree, node);
	const char *name = calltree_frame_name(d->tree, n->frame);
	double w = (double)n->total / d->whole;
	unsigned y = TOP + (d->deepest - depth) * ROW;
	struct buf *out = d->out;
	buf_printf(out, "<g class=\"f\" tabindex=\"0\" data-x=\"%.6f\" data-w=\"%.6f\" data-d=\"%u\" data-n=\"", x, w,
		   depth);
	escaped(out, name);
	buf_str(out, "\"><title>");
	escaped(out, name);
	buf_str(out, " (");
	number_add(out, d->unit, (double)n->total);
	buf_printf(out, ", %s", fmt_percent(w).s);
	if (n->self)
		buf_printf(out, "; itself %s", fmt_percent((double)n->self / d->whole).s);
	buf_printf(out,
		   ")</title><rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" rx=\"1\" fill=\"%s\"/>"
		   "<text x=\"%.1f\" y=\"%u\">",
		   LEFT + x * INNER, y, MAX(0.3, w * INNER - 0.4), ROW - 1,
		   colours[calltree_frame_kind(d->tree, n->frame)], LEFT + x * INNER + 3, y + 12);
	/* Without the script the widest names are there all the same. */
	if (w * INNER > 6.4 * (double)strlen(name))
		escaped(out, name);
	buf_str(out, "</text></g>\n");
}

static void boxes(struct drawing *d, uint32_t node, unsigned depth, double x)
{
	box(d, node, depth, x);
	if (depth == DEPTH_MAX)
		return;
	for (uint32_t c = calltree_node(d->tree, node)->first_child; c; c = calltree_node(d->tree, c)->next_sibling) {
		double w = (double)calltree_node(d->tree, c)->total / d->whole;
		if (w >= SHARE_LEAST)
			boxes(d, c, depth + 1, x);
		x += w;
	}
}

static void legend(struct drawing *d, unsigned height)
{
	double x = LEFT;
	for (size_t i = 0; i < ARRAY_SIZE(colours); i++) {
		buf_printf(d->out,
			   "<rect x=\"%.0f\" y=\"%u\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.0f\" "
			   "y=\"%u\">%s</text>",
			   x, height - 20, colours[i], x + 14, height - 11, frame_kind_words[i]);
		x += 30 + 7.0 * (double)strlen(frame_kind_words[i]);
	}
}

void flame_svg(const struct calltree *tree, const char *what, enum value_kind unit, struct buf *out)
{
	uint64_t whole = MAX(calltree_node(tree, 0)->total, 1ull);
	struct drawing d = { .tree = tree, .unit = unit, .out = out, .whole = (double)whole };
	measure(&d, 0, 0);
	unsigned height = TOP + (d.deepest + 1) * ROW + 34;
	buf_printf(out,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		   "height=\"%u\" viewBox=\"0 0 %d %u\">\n",
		   WIDTH, height, WIDTH, height);
	buf_str(out,
		"<style>text{font:11px monospace;fill:#1c1c1c;pointer-events:none}.f{cursor:pointer}"
		".f:hover rect,.f:focus rect{stroke:#222;stroke-width:.8}.hit rect{fill:#b455d6}.above "
		"rect{opacity:.55}"
		"#search{cursor:pointer;text-decoration:underline;pointer-events:all}h1,.t{font-size:15px}</style>\n");
	buf_printf(out, "<rect width=\"%d\" height=\"%u\" fill=\"#fff\"/><text class=\"t\" x=\"%.0f\" y=\"18\">", WIDTH,
		   height, LEFT);
	escaped(out, what);
	buf_str(out, ": ");
	number_add(out, unit, (double)calltree_node(tree, 0)->total);
	buf_str(out, "</text><text id=\"search\" x=\"1140\" y=\"18\">search</text>");
	buf_printf(out, "<text id=\"status\" x=\"%.0f\" y=\"36\"></text>\n", LEFT);
	boxes(&d, 0, 0, 0);
	legend(&d, height);
	buf_printf(out, "\n<script><![CDATA[\n%s\n]]></script>\n</svg>\n", flame_svg_js);
}
