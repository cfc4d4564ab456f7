#pragma once
/* What every form of a report promises, whatever stands in it: checked by readers that know exactly what our pages are
 * made of and refuse all else. */

#include "base/buf.h"
#include "report/report.h"

enum form { TEXT, MARKDOWN, HTML, JSON, FORMS };
extern const char *const form_names[FORMS];

void render(const struct report *r, enum form form, struct buf *out);
void assert_contains(const struct buf *b, const char *part);
void assert_lacks(const struct buf *b, const char *part);
void assert_same(const struct buf *a, const struct buf *b);
/* JSON and back is the same report in every form. */
void check_round_trip(const struct report *r);
/* All forms, and JSON and back. */
void check_all(const struct report *r);
