#pragma once
/* Buffered output to a file descriptor, with gzip where asked for.
 *
 * A writer appends to buf and calls out_turn() now and then; the first failure is kept and returned by out_finish(), so
 * that nothing in between needs a check (long writers may ask out_failed()). The descriptor stays the caller's. */

#include "base/buf.h"
#include "base/err.h"

struct out {
	struct buf buf;
	int fd;
	uint64_t bytes; /* written to fd */
	struct out_gzip *gzip;
	struct err *err;
};

void out_init(struct out *o, int fd, bool gzip);
/* Passes the buffer on when it has grown enough. */
void out_turn(struct out *o);
bool out_failed(const struct out *o);
/* Everything is written, or why not. */
struct err *out_finish(struct out *o) MUST_USE;
void out_fini(struct out *o);
