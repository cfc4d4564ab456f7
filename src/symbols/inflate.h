#pragma once
/* Deflated bytes without a header of their own, as assemblies and single-file programs hold them. */

#include "base/base.h"

/* Deflate cannot do better than about 1:1032: a larger promised size is refused before memory is allocated. */
#define INFLATE_RATIO_MAX 1100
/* All of the input, which must be exactly out_len bytes when inflated. */
bool inflate_all(const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len);
