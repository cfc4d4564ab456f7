/* The garbage-collected heap's outline, locks and exception objects. The objects themselves are walked by the client:
 * the library would be far too slow for that. */

#include "dachost/host.h"
#include <string.h>

#define MAX_HEAPS 1024
#define MAX_SEGMENTS 1000000
#define MAX_SYNC_BLOCKS 5000000
enum { GEN_0, GEN_1, GEN_2, GEN_LARGE, GEN_PINNED };

/* Calling the workstation's function on a server heap crashes it. */
static com_hr heap_list(struct host *h, uint64_t heaps[MAX_HEAPS], uint32_t *ret_n, bool *ret_server)
{
	struct dacp_gc_heap data = { 0 };
	uint32_t needed = 0;
	com_hr hr = COM_CALL(h->sos, GetGCHeapData, &data);
	if (hr < 0)
		return hr;
	*ret_server = data.server;
	*ret_n = 1;
	heaps[0] = 0;
	if (!data.server)
		return COM_OK;
	if (!data.heap_count || data.heap_count > MAX_HEAPS)
		return COM_E_FAIL;
	*ret_n = data.heap_count;
	/* With a larger count than there are heaps it fills nothing. */
	return COM_CALL(h->sos, GetGCHeapList, data.heap_count, heaps, &needed);
}

static void real_generations(struct host *h, uint64_t heap, bool server, struct wire_dac_heap *r)
{
	struct dacp_generation table[WIRE_DAC_MAX_GENERATIONS] = { 0 };
	uint32_t n = 0, n_fill = 0;
	com_hr hr = server ? COM_CALL(h->sos8, GetGenerationTableSvr, heap, WIRE_DAC_MAX_GENERATIONS, table, &n)
			   : COM_CALL(h->sos8, GetGenerationTable, WIRE_DAC_MAX_GENERATIONS, table, &n);
	if (hr < 0 || n > WIRE_DAC_MAX_GENERATIONS)
		return;
	r->n_generations = n;
	for (uint32_t i = 0; i < n; i++) {
		r->generations[i].start_segment = table[i].start_segment;
		r->generations[i].alloc_start = table[i].alloc_start;
		r->generations[i].alloc_ptr = table[i].alloc_context_ptr;
		r->generations[i].alloc_limit = table[i].alloc_context_limit;
	}
	uint64_t fill[WIRE_DAC_MAX_GENERATIONS] = { 0 };
	hr = server ? COM_CALL(h->sos8, GetFinalizationFillPointersSvr, heap, WIRE_DAC_MAX_GENERATIONS, fill, &n_fill)
		    : COM_CALL(h->sos8, GetFinalizationFillPointers, WIRE_DAC_MAX_GENERATIONS, fill, &n_fill);
	if (hr < 0 || n_fill > WIRE_DAC_MAX_GENERATIONS)
		return;
	r->n_fill_pointers = n_fill;
	memcpy(r->fill_pointers, fill, sizeof(fill));
}

static com_hr heap_of(struct host *h, uint64_t heap, bool server, struct wire_dac_heap *ret)
{
	struct dacp_heap_details d = { 0 };
	com_hr hr = server ? COM_CALL(h->sos, GetGCHeapDetails, heap, &d) : COM_CALL(h->sos, GetGCHeapStaticData, &d);
	if (hr < 0)
		return hr;
	*ret = (struct wire_dac_heap){
		.heap = heap,
		.alloc_allocated = d.alloc_allocated,
		.ephemeral_segment = d.ephemeral_segment,
		.low = d.low,
		.high = d.high,
		.n_generations = ARRAY_SIZE(d.generations),
		.n_fill_pointers = ARRAY_SIZE(d.fill_pointers),
	};
	for (size_t i = 0; i < ARRAY_SIZE(d.generations); i++) {
		ret->generations[i].start_segment = d.generations[i].start_segment;
		ret->generations[i].alloc_start = d.generations[i].alloc_start;
		ret->generations[i].alloc_ptr = d.generations[i].alloc_context_ptr;
		ret->generations[i].alloc_limit = d.generations[i].alloc_context_limit;
	}
	memcpy(ret->fill_pointers, d.fill_pointers, sizeof(d.fill_pointers));
	if (h->sos8)
		real_generations(h, heap, server, ret);
	return COM_OK;
}

com_hr answer_heaps(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	static uint64_t heaps[MAX_HEAPS];
	uint32_t n = 0;
	bool server = false;
	com_hr hr = heap_list(h, heaps, &n, &server);
	for (uint32_t i = 0; hr >= 0 && i < n; i++) {
		struct wire_dac_heap r;
		hr = heap_of(h, heaps[i], server, &r);
		if (hr >= 0)
			answer_add(a, &r, sizeof(r));
	}
	return hr;
}

static void add_chain(struct host *h, const struct wire_dac_heap *heap, uint32_t heap_index, uint32_t generation,
		      size_t *left, struct host_answer *a)
{
	uint64_t address = heap->generations[generation].start_segment;
	while (address && *left) {
		struct dacp_segment s = { 0 };
		if (COM_CALL(h->sos, GetHeapSegmentData, address, &s) < 0)
			return;
		struct wire_dac_segment r = {
			.address = s.address,
			.heap = heap->heap,
			.mem = s.mem,
			.allocated = s.allocated,
			.committed = s.committed,
			.reserved = s.reserved,
			.used = s.used,
			.flags = s.flags,
			.generation = generation,
			.heap_index = heap_index,
		};
		answer_add(a, &r, sizeof(r));
		(*left)--;
		address = s.next;
	}
}

com_hr answer_segments(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	static uint64_t heaps[MAX_HEAPS];
	uint32_t n = 0;
	bool server = false;
	size_t left = MAX_SEGMENTS;
	com_hr hr = heap_list(h, heaps, &n, &server);
	for (uint32_t i = 0; hr >= 0 && i < n; i++) {
		struct wire_dac_heap heap;
		hr = heap_of(h, heaps[i], server, &heap);
		if (hr < 0)
			break;
		/* With regions each generation has a chain; without, the young ones share the last segment of 2's. */
		bool regions = heap.generations[GEN_0].start_segment != heap.generations[GEN_1].start_segment;
		for (uint32_t g = regions ? GEN_0 : GEN_2; g < heap.n_generations && g <= GEN_PINNED; g++)
			add_chain(h, &heap, i, g, &left, a);
	}
	return hr;
}

com_hr answer_objects(struct host *h, const struct host_question *q, struct host_answer *a)
{
	for (size_t i = 0; i < q->n; i++) {
		struct dacp_object data = { 0 };
		struct wire_dac_object r = { .object = q->values[i] };
		if (COM_CALL(h->sos, GetObjectData, q->values[i], &data) >= 0) {
			r.type = data.type;
			r.size = data.size;
		}
		answer_add(a, &r, sizeof(r));
	}
	return COM_OK;
}

com_hr answer_sync_blocks(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	struct dacp_sync_block s = { 0 };
	com_hr hr = COM_CALL(h->sos, GetSyncBlockData, 1, &s);
	if (hr < 0)
		return hr;
	uint32_t n = s.total_count;
	for (uint32_t i = 1; i <= n && i < MAX_SYNC_BLOCKS; i++) {
		if (COM_CALL(h->sos, GetSyncBlockData, i, &s) < 0 || s.is_free)
			continue;
		struct wire_dac_sync r = {
			.object = s.object,
			.sync_block = s.sync_block,
			.holding_thread = s.holding_thread,
			.index = i,
			.held = s.monitor_held & 1,
			.recursion = s.recursion,
			.waiting = s.monitor_held / 2,
		};
		answer_add(a, &r, sizeof(r));
	}
	return COM_OK;
}

com_hr answer_exception(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_exception e = { 0 };
	com_hr hr = h->sos2 ? COM_CALL(h->sos2, GetObjectExceptionData, q->values[0], &e) : COM_E_NOTIMPL;
	if (hr < 0)
		return hr;
	struct wire_dac_exception r = {
		.type = memory_u64(&h->memory, q->values[0]) & ~(uint64_t)7,
		.message = e.message,
		.inner = e.inner,
		.stack_trace = e.stack_trace,
		.hresult = e.hresult,
	};
	answer_add(a, &r, sizeof(r));
	return COM_OK;
}
