/* The runtime's events of a heap, into a graph: { u8 event, u16 length, payload } ... */

#include "model/heapgraph.h"
#include "memory/heap_snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(told_heap_freep) struct told_heap *s = told_heap_new();
	CLEANUP(buf_free) struct buf out = { .limit = (size_t)64 << 20 };
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	struct cursor in = cursor_make(data, size);
	while (cursor_left(&in) && cursor_ok(&in)) {
		struct nettrace_meta meta = { .provider = "Microsoft-Windows-DotNETRuntime",
					      .event_id = cursor_u8(&in) };
		uint16_t len = cursor_u16(&in);
		const uint8_t *payload = cursor_take(&in, len);
		if (payload)
			told_heap_event(
				s, &(struct nettrace_event){ .meta = &meta, .payload = payload, .payload_size = len });
	}
	struct err *err = told_heap_write(s, &out);
	struct cursor graph = cursor_make(out.data, out.len);
	if (!err && !out.overflow)
		err = heapgraph_read(&graph, &g);
	if (!err && g)
		heapgraph_dominate(g);
	err_free(err);
	return 0;
}
