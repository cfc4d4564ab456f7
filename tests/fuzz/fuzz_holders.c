/* A heap's recording, and who holds what of it, in words. */

#include "model/heapgraph.h"
#include "memory/holders.h"
#include "report/report.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor in = cursor_make(data, size);
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	CLEANUP(buf_free) struct buf words = { .limit = 1 << 20 };
	struct holders hs;
	struct err *err = heapgraph_read(&in, &g);
	if (err) {
		err_free(err);
		return 0;
	}
	heap_mark_own(g, NULL);
	heapgraph_dominate(g);
	holders_find(g, 8, &hs);
	struct report *report = report_new();
	uint64_t bytes = hs.rest_bytes, objects = hs.rest_objects;
	for (size_t i = 0; i < hs.v.n; i++) {
		bytes += hs.v.v[i].bytes;
		objects += hs.v.v[i].objects;
		if (hs.v.v[i].main_type != GRAPH_NONE && hs.v.v[i].main_bytes > hs.v.v[i].bytes)
			abort();
		holder_name(g, &hs.v.v[i], &words);
		holder_field(g, &hs.v.v[i], &words);
		holder_detail(g, &hs.v.v[i], &words);
	}
	holders_tree(g, &hs, 3, 4, report);
	/* Each object is counted once. */
	if (bytes != hs.bytes || objects != hs.objects)
		abort();
	report_free(report);
	holders_free(&hs);
	return 0;
}
