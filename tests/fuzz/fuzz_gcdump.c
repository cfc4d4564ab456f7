/* .gcdump files: whatever is understood must be a heap that can be written again and is then the same. */

#include "model/gcdump.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct heapgraph *graph_of(const void *data, size_t size)
{
	struct gcdump_facts facts = { 0 };
	struct buf b = { 0 };
	struct heapgraph *g = NULL;
	struct err *err = gcdump_read(data, size, &facts, &b);
	if (!err) {
		struct cursor in = cursor_make(b.data, b.len);
		err = heapgraph_read(&in, &g);
		if (err)
			abort();
		heapgraph_dominate(g);
	}
	err_free(err);
	gcdump_facts_fini(&facts);
	buf_free(&b);
	return g;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heapgraph *g = graph_of(data, size);
	struct gcdump_facts facts = { 0 };
	struct buf again = { 0 };
	(void)gcdump_is(data, size);
	if (!g)
		return 0;
	gcdump_write(g, &facts, &again);
	struct heapgraph *back = graph_of(again.data, again.len);
	/* A heap that nobody holds is no heap in such a file. */
	if (g->reached_objects
		    ? !back || back->reached_objects != g->reached_objects || back->reached_units != g->reached_units
		    : back != NULL)
		abort();
	heapgraph_free(back);
	heapgraph_free(g);
	buf_free(&again);
	return 0;
}
