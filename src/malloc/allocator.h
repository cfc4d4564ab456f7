#pragma once
/* Which allocator a library calls: where its reference to `malloc` was bound to, as its relocations in an image say.
 *
 * A file that is loaded says little: a process may have two allocators loaded and call one. Names of files come from the
 * image and are hostile; they are copied, and nothing is opened. */

#include "image/image.h"

enum malloc_kind {
	MALLOC_UNKNOWN, /* the library is not there, calls no malloc, or its call is not bound yet */
	MALLOC_GLIBC,
	MALLOC_JEMALLOC,
	MALLOC_MIMALLOC,
	MALLOC_TCMALLOC,
	MALLOC_MUSL,
	MALLOC_OTHER, /* a file that we do not know: see its name */
};
#define MALLOC_NAME_MAX 64
struct malloc_allocator {
	enum malloc_kind kind;
	char file[MALLOC_NAME_MAX]; /* "libjemalloc.so.2"; "" when not known */
};
/* Of the first of these libraries (file names, ended by NULL) that is bound. */
struct malloc_allocator malloc_allocator_of(const struct image *img, const char *const *libraries);
/* "jemalloc"; of others the file's name. Valid as long as a. */
const char *malloc_allocator_name(const struct malloc_allocator *a);
