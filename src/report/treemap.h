#pragma once
/* Areas of a table or tree: each row is a part of its parent's box, as large as its number. The one layout, for the HTML
 * page and, through the report's JSON, for the pages of the server. Draws nothing.
 *
 * The parts of a box stand in strips along its shorter side, each strip filled until its boxes would become narrower
 * than before ("squarified"). What of a row none of its children has is a box of its own: the row itself. */

#include "base/vec.h"
#include "report/doc.h"

/* The picture's size on a wide page: what is nearly square there is so about everywhere. */
#define TREEMAP_WIDTH 816.0
#define TREEMAP_HEIGHT 300.0

struct treemap_place {
	double x, y, w, h; /* shares of the whole picture */
};
struct treemap_box {
	const struct report_row *row;	 /* NULL: rows too small to be seen, or what no row has */
	bool smaller;			 /* then which of the two */
	const struct report_row *parent; /* NULL at the top */
	int32_t parent_box;		 /* its index, -1 at the top */
	unsigned depth;
	double number;
	struct treemap_place place;
};
struct treemap {
	size_t column; /* of the table */
	double whole;
	VEC(struct treemap_box) boxes; /* preorder, the largest first */
};

/* What of a cell is drawn: 0 where it is no number. */
double treemap_number(const struct value *cells, size_t column);
/* False when there is nothing to draw. To be released in any case. */
bool treemap_init(struct treemap *m, const struct report_table *t);
void treemap_fini(struct treemap *m);
