#pragma once
/* Which ranges of an image go into a core file of which kind. Private to image. */

#include "base/vec.h"
#include "image/internal.h"

struct core_part { /* lies in one mapping */
	const struct image_mapping *mapping;
	uint64_t start, end;
};
VEC_TYPE(core_parts, struct core_part); /* in order of addresses */
void core_choose(struct image *img, const struct image_core_content *content, struct core_parts *ret);
