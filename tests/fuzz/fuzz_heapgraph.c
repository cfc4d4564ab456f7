/* A heap's recording, and what is computed over it. */

#include "model/heapgraph.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor in = cursor_make(data, size);
	struct heapgraph *g = NULL;
	struct err *err = heapgraph_read(&in, &g);
	if (err) {
		err_free(err);
		return 0;
	}
	heapgraph_dominate(g);
	uint32_t *from = heapgraph_shortest(g);
	struct graph_path path = { 0 };
	for (uint32_t v = 0; v < g->n; v++) {
		heapgraph_path(g, from, v, &path);
		if (heapgraph_at(g, heapgraph_address(g, v)) != v || heapgraph_reached(g, v) != (from[v] != GRAPH_NONE))
			abort();
		for (size_t i = 0; i + 1 < path.n; i++)
			(void)heapgraph_step(g, path.v[i], path.v[i + 1]);
	}
	vec_free(&path);
	mem_free(from);
	heapgraph_free(g);
	return 0;
}
