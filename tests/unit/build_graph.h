#pragma once
/* Writes small heap graphs for tests: objects of four units at known addresses, with the references that are asked for.
 */

#include "model/heapgraph.h"

#define BUILT_OBJECTS 0x100000u
#define BUILT_SIZE 32u

struct built_edge {
	uint32_t from, to; /* from UINT32_MAX - r: root r */
};
#define BUILT_ROOT(r) (UINT32_MAX - (r))
/* n objects, n_roots roots, any edges. Even objects are of a fixed type with three slots (the first three edges), odd
 * ones arrays. */
void build_graph(struct buf *out, uint32_t n, uint32_t n_roots, const struct built_edge *edges, size_t n_edges);
