#pragma once
/* NAME.deps.json: what a program was built from. Says of every assembly whether its source is part of the solution
 * (project), came as a package, or is the runtime's own.
 *
 * Knows no process: takes the text. Hostile-safe. Not for threads. */

#include "base/err.h"
#include "base/vec.h"

enum deps_origin {
	DEPS_UNKNOWN, /* a file that was referred to, or a kind that nobody has told us of */
	DEPS_PROJECT,
	DEPS_PACKAGE,
	DEPS_PLATFORM, /* of a program that carries its runtime along */
};

struct deps_entry {
	char *assembly; /* "Shop.Core": a file name without ".dll"; never a path */
	char *library;	/* the project or package that it is of */
	enum deps_origin origin;
};
VEC_TYPE(deps, struct deps_entry);

#define DEPS_BYTES_MAX ((size_t)16 << 20)
/* Each assembly once: where several claim it, the project does. At most 8,192. ERR_BAD_DATA: it is none. */
struct err *deps_parse(const char *text, size_t len, struct deps *ret) MUST_USE;
void deps_free(struct deps *deps);
