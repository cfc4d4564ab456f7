#pragma once
/* A file that grows as NAME.partial and gets its name when it is whole: nobody ever finds half a file under the final
 * name. What is no regular file (a pipe, /dev/null) is written to as it is, "-" is standard output. */

#include "base/err.h"

struct partfile {
	char *path;    /* NULL = standard output */
	char *partial; /* NULL when written directly */
	int fd;
};

/* Could it be written? Makes nothing. */
struct err *partfile_check(const char *path) MUST_USE;
struct err *partfile_open(const char *path, struct partfile *ret) MUST_USE;
/* On disk, under its name. */
struct err *partfile_commit(struct partfile *f) MUST_USE;
/* Closes; what was not committed is removed, or stays as NAME.partial when `keep`. */
void partfile_fini(struct partfile *f, bool keep);
/* The folder that holds it; the caller frees. */
char *partfile_folder(const char *path);
