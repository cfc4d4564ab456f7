#pragma once
/* NAME.deps.json: what a program was built from. For every assembly: is its source part of the solution (project), did
 * it come as a package, or is it the runtime's own?
 *
 * Knows no process: takes the text. Safe for hostile input. Not for threads. */

#include "base/err.h"
#include "base/vec.h"

enum deps_origin {
	DEPS_UNKNOWN, /* a referenced file, or an unknown kind */
	DEPS_PROJECT,
	DEPS_PACKAGE,
	DEPS_PLATFORM, /* of a self-contained program */
};

struct deps_entry {
	char *assembly; /* "Shop.Core": a file name without ".dll"; never a path */
	char *library;	/* the project or package that it is of */
	enum deps_origin origin;
};
VEC_TYPE(deps, struct deps_entry);

#define DEPS_BYTES_MAX ((size_t)16 << 20)
/* Each assembly once: where several entries claim it, the project's is used. At most 8,192. ERR_BAD_DATA: not such a
 * file. */
struct err *deps_parse(const char *text, size_t len, struct deps *ret) MUST_USE;
void deps_free(struct deps *deps);
