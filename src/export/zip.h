#pragma once
/* A zip archive, written as a stream: the file descriptor may be a pipe or a socket.
 *
 * Flat: names are [A-Za-z0-9_][A-Za-z0-9._-]{0,127}. No zip64: what would pass 4 GB or 1,000 files is refused. The same
 * input gives the same bytes. Knows nothing of sessions. */

#include "base/err.h"

struct zip;
/* The fd stays the caller's. unix_time stamps every file; 0 = the format's first day. */
struct zip *zip_new(int fd, int64_t unix_time);
struct err *zip_add(struct zip *z, const char *name, const void *data, size_t len) MUST_USE;
/* All of in_fd, from where it stands. */
struct err *zip_add_fd(struct zip *z, const char *name, int in_fd) MUST_USE;
/* Writes the directory; an archive without it is not one. */
struct err *zip_finish(struct zip *z) MUST_USE;
void zip_free(struct zip *z);
DEFINE_CLEANUP(zip_free, struct zip *)
