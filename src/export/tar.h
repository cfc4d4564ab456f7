#pragma once
/* A tar archive (ustar), written into an out, which packs it. Names are ours: relative, at most 99 bytes. The same
 * input gives the same bytes but for the time. */

#include "export/out.h"

/* All of in_fd, a regular file, from its start. */
struct err *tar_add_fd(struct out *out, const char *name, int in_fd, int64_t unix_time) MUST_USE;
/* The end; the caller finishes the out. */
void tar_end(struct out *out);
