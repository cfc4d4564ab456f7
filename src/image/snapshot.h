#pragma once
/* The copy of a living process, seen from the image that owns it. Private to image. */

#include "image/image.h"

struct snapshot;
/* Kills and buries the copy, ends the tracer. NULL is fine. */
void snapshot_free(struct snapshot *s);
