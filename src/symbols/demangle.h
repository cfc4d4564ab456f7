#pragma once
/* C++ names as their authors wrote them, without parameters. Other names pass through. */

#include "base/buf.h"

void demangle_add(struct buf *out, const char *symbol);
