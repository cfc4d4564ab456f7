#pragma once
/* A file mapped for reading that another process may truncate at any moment.
 *
 * Reading a page that the file no longer has raises SIGBUS, which would end the process. Here such pages, and all
 * behind them, read as zeros from then on, and filemap_shrunk() reports it: a parser of hostile bytes runs to its end
 * and asks afterwards. A mapping installs a SIGBUS handler for the process; faults elsewhere go to the handler that was
 * there before.
 *
 * Safe for threads; one struct belongs to one thread at a time. */

#include "base/err.h"

struct filemap {
	const uint8_t *bytes;
	size_t len;
	struct filemap_guard *guard;
};

/* A regular file that is not empty and has at most `max` bytes, else ERR_BAD_DATA. The descriptor stays the caller's.
 */
struct err *filemap_open(int fd, uint64_t max, struct filemap *ret) MUST_USE;
/* Was the file truncated, so that some of the bytes read so far are not those of the file? */
bool filemap_shrunk(const struct filemap *m);
/* A closed or empty one is fine. */
void filemap_close(struct filemap *m);
