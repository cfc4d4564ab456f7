#pragma once
/* A single-file program: its assemblies are appended to the code of the host, with a list of them at the end.
 *
 * Knows no process: takes the open file. Safe for hostile input. Not for threads. */

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct bundle_file {
	char *path; /* its path relative to the program, if it were a file: "Shop.Core.dll", "de/Shop.resources.dll" */
	uint64_t offset, size;
	uint64_t packed; /* how many bytes of the program it is, deflated: not what the process runs; 0 = it is as it is
			  */
};
VEC_TYPE(bundle, struct bundle_file);

/* ERR_NOT_FOUND: it is no single-file program. */
struct err *bundle_open(int fd, struct bundle *ret) MUST_USE;
/* The list alone, of a program that has file_size bytes. */
struct err *bundle_parse(const void *list, size_t len, uint64_t file_size, struct bundle *ret) MUST_USE;
/* NULL when there is no such file in it. */
const struct bundle_file *bundle_find(const struct bundle *b, const char *path);
/* The whole of it, inflated where it must be; at most max bytes (more is ERR_BAD_DATA). Appends to out. */
struct err *bundle_read(int fd, const struct bundle_file *file, size_t max, struct buf *out) MUST_USE;
void bundle_free(struct bundle *b);
