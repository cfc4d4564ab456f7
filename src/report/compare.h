#pragma once
/* Two reports of the same profiler as a third: what changed, the largest change first. Pure; works on documents, so on
 * any profiler's.
 *
 * Figures are compared by their label, tables and the first level of trees by title and row name, in their main column
 * (else the first of bytes or time, else the first with numbers), flame graphs by path. A row that only one side shows
 * is 0 on the other when that side shows all rows, and not known otherwise. Nothing is scaled: where the windows differ
 * in length a note says so. */

#include "report/report.h"

/* ERR_USAGE when they are of different profilers. The caller frees *ret. */
struct err *report_compare(const struct report *before, const struct report *after, struct report **ret) MUST_USE;
