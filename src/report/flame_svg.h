#pragma once
/* A call tree as one SVG file that needs nothing else: search, zoom and tooltips by a script inside. Pure. */

#include "base/buf.h"
#include "model/calltree.h"
#include "report/report.h"

void flame_svg(const struct calltree *tree, const char *what, enum value_kind unit, struct buf *out);
