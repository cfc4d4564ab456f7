#pragma once
/* Functions of the HTML renderer. Data reaches the page only through html_text() and the like, which escape; numbers
 * for scripts are in data- attributes. For html_*.c only. */

#include "report/doc.h"

struct html {
	const struct report *r;
	struct buf *out;
};

/* Visible and escaped, fit for text and for quoted attributes; very long texts are cut and say how long they were. */
void html_text(const struct html *h, const char *s);
/* A name: namespace, member and the rest apart, with places to break. */
void html_name(const struct html *h, const char *s);
void html_value(const struct html *h, const struct value *v);
/* The number a table sorts by. */
void html_data(const struct html *h, const struct value *v);
void html_bar(const struct html *h, double share);
void html_heading(const struct html *h, const char *title);
void html_number(const struct html *h, enum value_kind kind, double number);
/* Type and member of a name, a part of it. */
const char *html_short_name(const char *name);

void html_table(const struct html *h, const struct report_table *t);
void html_tree(const struct html *h, const struct report_table *t);
/* The column that is also drawn as areas, when there is one and it has something to draw. */
void html_treemap(const struct html *h, const struct report_table *t);
void html_chart(const struct html *h, const struct report_chart *c);
void html_histogram(const struct html *h, const struct report_histogram *g);
void html_flame(const struct html *h, const struct report_flame *f);
