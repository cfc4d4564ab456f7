#pragma once
/* C++ names as their authors wrote them, without parameters. Other names pass through, and what follows an @ (a
 * version, a stub). */

#include "base/buf.h"

void demangle_add(struct buf *out, const char *symbol);
