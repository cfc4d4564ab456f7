#pragma once
/* A file that is written as NAME.partial and renamed when it is complete: a reader never finds a part of it under the
 * final name. What is not a regular file (a pipe, /dev/null) is written directly; "-" is standard output.
 *
 * The folder may be writable by everybody, as /tmp is: a file or link at NAME.partial is removed, never followed and
 * never written into. */

#include "base/err.h"
#include <sys/types.h>

struct partfile {
	char *path;    /* NULL = standard output */
	char *partial; /* NULL when written directly */
	int fd;
};

/* Could it be written? Creates nothing. */
struct err *partfile_check(const char *path) MUST_USE;
struct err *partfile_open(const char *path, mode_t mode, struct partfile *ret) MUST_USE;
/* Complete: written to the disk and renamed to its final name. */
struct err *partfile_commit(struct partfile *f) MUST_USE;
/* Closes; what was not committed is removed, or stays as NAME.partial when `keep`. */
void partfile_fini(struct partfile *f, bool keep);
