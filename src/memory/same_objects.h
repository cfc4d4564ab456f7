#pragma once
/* Which objects of one look exist again at a later one: new, gone and stayed.
 *
 * An object is recognised by its address and type. That holds while nothing moves: old objects hardly ever do, and the
 * targets of static fields show whether they did. Young ones move when they are promoted; those that were young and are
 * not where they were are counted apart, because they may be gone or have moved. */

#include "memory/heap_look.h"

struct same_objects {
	uint64_t *address; /* ascending, of what was held at the first look */
	uint32_t *type;	   /* the caller's numbers */
	uint8_t *young;
	size_t n;
	struct strtab statics;
	VEC(uint64_t) static_address; /* by static field */
};
/* type_ids: the caller's number of each type of the graph, the same at all looks. */
void same_objects_keep(struct same_objects *s, const struct heapgraph *g, const uint32_t *type_ids);
void same_objects_free(struct same_objects *s);

struct same_count {
	uint64_t stayed, unsure; /* unsure: were young, and are not at their address any more */
};
/* Into by_type (of the caller's numbers, zeroed); false: so many have moved that nothing can be said. */
bool same_objects_find(const struct same_objects *s, const struct heapgraph *g, const uint32_t *type_ids,
		       struct same_count *by_type);
