#pragma once
/* Which ranges of an image go into a core file of which kind. Private to image. */

#include "image/internal.h"

struct core_part { /* lies in one mapping */
	const struct image_mapping *mapping;
	uint64_t start, end;
};
struct core_parts { /* a VEC, in order of addresses */
	struct core_part *v;
	size_t n, cap;
};
void core_choose(struct image *img, const struct image_core_content *content, struct core_parts *ret);
