#pragma once
/* Two reports of the same profiler: what changed, the largest change first. The one comparison, for the command line,
 * REST and the pages. Pure; works on documents, so on any profiler's.
 *
 * Figures are compared by their label, tables and the first level of trees by title and the names of a row, in their
 * main column (else the first of bytes or time, else the first with numbers), flame graphs by path and by frame. Less
 * than 2 points of a share or a tenth of anything else is noise, no change. A row that only one side shows is 0 on the
 * other when that side shows all rows, and not known otherwise. Nothing is scaled: where the windows differ in length a
 * note says so. */

#include "report/report.h"

/* A document of its own. ERR_USAGE when they are of different profilers. The caller frees *ret. */
struct err *report_compare(const struct report *before, const struct report *after, struct report **ret) MUST_USE;
/* A note of one sentence at its head, what changed since an earlier report of the same process: "Since the diagnosis of
 * 03:12: new: thread-pool.starvation; gone: exceptions-many; CPU 1.9 (was 0.2)." A finding that both have gets the time
 * when it was first seen, which the earlier report may have from one before it. For reports that list findings. */
void report_since(struct report *r, const struct report *before);
/* The same for programs, as members of an open object: "figures" and "tables", with what did not change. */
struct err *report_compare_json(const struct report *before, const struct report *after, struct jsonw *w) MUST_USE;
