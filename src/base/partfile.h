#pragma once
/* A file that grows as NAME.partial and gets its name when it is whole: nobody ever finds half a file under the final
 * name. What is no regular file (a pipe, /dev/null) is written to as it is, "-" is standard output.
 *
 * The folder may be open to everybody, as /tmp is: whatever lies at NAME.partial is taken away, never followed and
 * never written into. */

#include "base/err.h"
#include <sys/types.h>

struct partfile {
	char *path;    /* NULL = standard output */
	char *partial; /* NULL when written directly */
	int fd;
};

/* Could it be written? Makes nothing. */
struct err *partfile_check(const char *path) MUST_USE;
struct err *partfile_open(const char *path, mode_t mode, struct partfile *ret) MUST_USE;
/* On disk, under its name. */
struct err *partfile_commit(struct partfile *f) MUST_USE;
/* Closes; what was not committed is removed, or stays as NAME.partial when `keep`. */
void partfile_fini(struct partfile *f, bool keep);
