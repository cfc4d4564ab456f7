#pragma once
/* Two reports of one profiler: what changed, the largest change first. Knows reports only as JSON. */

#include "base/json.h"

/* An object: figures and tables. ERR_USAGE when they are of different profilers or no reports. */
struct err *compare_reports(const json_t *before, const json_t *after, struct jsonw *w) MUST_USE;
