#pragma once
/* The name by which the application knows an object: the static field, or the field of one of its own objects, that
 * leads to it in a few steps, through collections of the platform.
 *
 * Searched upwards for many objects at once; each step reads the references of the whole heap. Bounded: what is not
 * found within these bounds has no name. All input may be hostile. */

#include "base/map.h"
#include "eventpipe/whose.h"
#include "heap/walk.h"

struct object_name {
	uint64_t object;
	const char *name; /* found: "Shop.Orders.Confirmations"; NULL = none. In the caller's strings */
	bool referred;	  /* found: an object that was not skipped refers to it */
};
struct object_names {
	const struct whose_names *whose; /* NULL = not known */
	struct heap *heap;
	const struct heap_outline *outline;
	const struct heap_statics *statics;
	struct strtab *strings;
	/* A reference that does not count: of an object that only waits for it. NULL = all count. */
	bool (*skip)(void *user, uint64_t from, uint64_t to);
	/* An object that has a name by itself, appended; NULL = none has. */
	bool (*name)(void *user, uint64_t object, struct buf *out);
	void *user;
};
void object_names_find(const struct object_names *in, struct object_name *v, size_t n);
