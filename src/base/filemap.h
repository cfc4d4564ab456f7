#pragma once
/* A file mapped for reading that somebody else may cut short at any moment.
 *
 * Reading a page that the file no longer has is SIGBUS, which would end the process. Here such pages, and what follows
 * them, read as zeros from then on, and filemap_shrunk() says so: whoever parses hostile bytes gets through, and asks
 * afterwards. A mapping sets the process's handler of SIGBUS; faults elsewhere go where they went before.
 *
 * Safe for threads; one struct belongs to one of them at a time. */

#include "base/err.h"

struct filemap {
	const uint8_t *bytes;
	size_t len;
	struct filemap_guard *guard;
};

/* A regular file that is not empty and has at most `max` bytes, else ERR_BAD_DATA. The descriptor stays the caller's.
 */
struct err *filemap_open(int fd, uint64_t max, struct filemap *ret) MUST_USE;
/* Some of what was read so far were no bytes of the file. */
bool filemap_shrunk(const struct filemap *m);
/* A closed or empty one is fine. */
void filemap_close(struct filemap *m);
