/* Where static fields are. .NET 9 and later have a call for it; before, a plain type's are in its module's block and a
 * generic type's are in a table of that block, by a number that is kept behind its method table. */

#include "dachost/host.h"
#include <string.h>

#define MAX_LOADER_HEAPS 64
#define MAX_JITS 8u
#define MAX_CODE_HEAPS 4096u
#define EXPLICIT_HEAP 1 /* the kind of a loader heap in which code lies */

/* ---- before .NET 9 ---- */

enum { MT_FLAGS2 = 8, MT_VIRTUALS = 12, MT_MODULE = 24, MT_FIXED_END = 64 };
enum { BLOCK_TABLE_COUNT = 16, TABLE_ENTRY = 16, ARRAY_DATA = 16 };

static uint16_t read_u16(const struct host *h, uint64_t at)
{
	uint16_t v = 0;
	return memory_read(&h->memory, at, &v, sizeof(v)) == sizeof(v) ? v : 0;
}

/* The number of a generic type in its module's table: behind the chunks of virtual methods (8 a chunk) and those
 * optional slots, marked in the flags, for which there is no fixed place. */
static uint32_t dynamic_id(const struct host *h, uint64_t type)
{
	uint32_t id = UINT32_MAX, chunks = (read_u16(h, type + MT_VIRTUALS) + 7u) / 8;
	int slots = __builtin_popcount(read_u16(h, type + MT_FLAGS2) & 0x1Fu);
	uint64_t info = type + MT_FIXED_END + 8ull * chunks + (slots > 2 ? 8ull * (unsigned)(slots - 2) : 0);
	return memory_read(&h->memory, info + 8, &id, sizeof(id)) == sizeof(id) ? id : UINT32_MAX;
}

static void old_generic(const struct host *h, const struct dacp_local_module *block, struct wire_dac_statics *s)
{
	uint32_t id = dynamic_id(h, s->type);
	if (!block->dynamic_table || id >= memory_u64(&h->memory, block->non_gc_statics + BLOCK_TABLE_COUNT))
		return;
	uint64_t entry = memory_u64(&h->memory, block->dynamic_table + TABLE_ENTRY * (uint64_t)id);
	if (!entry)
		return;
	s->gc = memory_u64(&h->memory, entry);
	s->non_gc = entry;
}

static void old_statics(struct host *h, const struct dacp_method_table *mt, struct wire_dac_statics *s)
{
	struct dacp_local_module block = { 0 };
	if (COM_CALL(h->sos, GetDomainLocalModuleDataFromModule, mt->module, &block) < 0)
		return;
	if (mt->dynamic) {
		old_generic(h, &block, s);
		return;
	}
	s->gc = block.gc_statics;
	s->non_gc = block.non_gc_statics;
}

/* A generic type's are in an array that a handle holds. */
static void old_thread_statics(struct host *h, uint64_t thread, const struct dacp_method_table *mt,
			       struct wire_dac_statics *s)
{
	struct dacp_module_data module = { 0 };
	struct dacp_local_module block = { 0 };
	if (COM_CALL(h->sos, GetModuleData, mt->module, &module) < 0 ||
	    COM_CALL(h->sos, GetThreadLocalModuleData, thread, (uint32_t)module.module_index, &block) < 0)
		return;
	if (!mt->dynamic) {
		s->gc = block.gc_statics;
		s->non_gc = block.non_gc_statics;
		return;
	}
	uint32_t id = dynamic_id(h, s->type);
	if (!block.dynamic_table || id == UINT32_MAX)
		return;
	uint64_t entry = memory_u64(&h->memory, block.dynamic_table + TABLE_ENTRY * (uint64_t)id);
	uint64_t handle = entry ? memory_u64(&h->memory, entry) : 0;
	uint64_t array = handle ? memory_u64(&h->memory, handle) : 0;
	s->gc = array ? array + ARRAY_DATA : 0;
	s->non_gc = entry;
}

/* ---- questions ---- */

com_hr answer_statics(struct host *h, const struct host_question *q, struct host_answer *a)
{
	for (size_t i = 0; i < q->n; i++) {
		struct dacp_method_table mt = { 0 };
		struct wire_dac_statics s = { .type = q->values[i] };
		if (COM_CALL(h->sos, GetMethodTableData, s.type, &mt) >= 0) {
			if (!h->sos14)
				old_statics(h, &mt, &s);
			else if (COM_CALL(h->sos14, GetStaticBaseAddress, s.type, &s.non_gc, &s.gc) < 0)
				s.gc = s.non_gc = 0;
		}
		answer_add(a, &s, sizeof(s));
	}
	return COM_OK;
}

com_hr answer_thread_statics(struct host *h, const struct host_question *q, struct host_answer *a)
{
	for (size_t i = 1; i < q->n; i++) {
		struct dacp_method_table mt = { 0 };
		struct wire_dac_statics s = { .type = q->values[i] };
		if (COM_CALL(h->sos, GetMethodTableData, s.type, &mt) >= 0) {
			if (!h->sos14)
				old_thread_statics(h, q->values[0], &mt, &s);
			else if (COM_CALL(h->sos14, GetThreadStaticBaseAddress, s.type, q->values[0], &s.non_gc,
					  &s.gc) < 0)
				s.gc = s.non_gc = 0;
		}
		answer_add(a, &s, sizeof(s));
	}
	return COM_OK;
}

/* The callback has no argument of ours. */
static struct host_answer *heap_answer;

static void on_block(uint64_t block, uint64_t size, uint32_t current)
{
	(void)current;
	struct wire_dac_range r = { .start = block, .size = size };
	if (size)
		answer_add(heap_answer, &r, sizeof(r));
}

/* Method tables lie in the heaps of two names. */
static bool holds_types(const char *name)
{
	return name && (!strcmp(name, "LowFrequencyHeap") || !strcmp(name, "HighFrequencyHeap"));
}

/* What a loader allocator keeps things in. */
struct loader_heaps {
	uint64_t heaps[MAX_LOADER_HEAPS];
	uint32_t kinds[MAX_LOADER_HEAPS];
	char *names[MAX_LOADER_HEAPS];
	int32_t n;
};

static com_hr find_heaps(struct host *h, uint64_t allocator, struct loader_heaps *ret)
{
	int32_t n_names = 0;
	memset(ret, 0, sizeof(*ret));
	if (!h->sos13)
		return COM_E_NOTIMPL;
	com_hr hr = COM_CALL(h->sos13, GetLoaderAllocatorHeaps, allocator, MAX_LOADER_HEAPS, ret->heaps, ret->kinds,
			     &ret->n);
	if (hr >= 0)
		hr = COM_CALL(h->sos13, GetLoaderAllocatorHeapNames, MAX_LOADER_HEAPS, ret->names, &n_names);
	ret->n = MIN(ret->n, n_names);
	ret->n = MIN(ret->n, MAX_LOADER_HEAPS);
	return hr;
}

com_hr answer_loader_heaps(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct loader_heaps l;
	dacp_heap_block_fn callback = on_block;
	com_hr hr = find_heaps(h, q->values[0], &l);
	heap_answer = a;
	for (int32_t i = 0; hr >= 0 && i < l.n; i++)
		if (holds_types(l.names[i]))
			(void)COM_CALL(h->sos13, TraverseLoaderHeap, l.heaps[i], l.kinds[i], (void *)callback);
	return hr < 0 ? hr : COM_OK;
}

/* ---- all of its heaps by name ---- */

static struct wire_dac_named_heap counted;

static void count_block(uint64_t block, uint64_t size, uint32_t current)
{
	(void)block, (void)current;
	counted.bytes += size;
	counted.blocks++;
}

static void add_named(struct host_answer *a, const char *name)
{
	counted.text_len = (uint32_t)strnlen(name, HOST_NAME_MAX);
	answer_add(a, &counted, sizeof(counted));
	answer_text(a, name, counted.text_len);
}

/* For a loader heap with code the library reports blocks as well; for others, where code begins and ends. */
static com_hr each_code_block(struct host *h, dacp_heap_block_fn block)
{
	struct dacp_jit_manager managers[MAX_JITS];
	static struct dacp_code_heap heaps[MAX_CODE_HEAPS];
	uint32_t n = 0;
	/* How many there are it tells only when nothing else is asked for. */
	com_hr hr = COM_CALL(h->sos, GetJitManagerList, 0, NULL, &n);
	if (hr >= 0)
		hr = COM_CALL(h->sos, GetJitManagerList, n = MIN(n, MAX_JITS), managers, NULL);
	for (uint32_t i = 0; hr >= 0 && i < n; i++) {
		uint32_t n_heaps = 0;
		memset(heaps, 0, sizeof(heaps));
		if (COM_CALL(h->sos, GetCodeHeapList, managers[i].address, 0, NULL, &n_heaps) < 0 ||
		    COM_CALL(h->sos, GetCodeHeapList, managers[i].address, MIN(n_heaps, MAX_CODE_HEAPS), heaps, NULL) <
			    0)
			continue;
		for (uint32_t k = 0; k < n_heaps && k < MAX_CODE_HEAPS; k++) {
			if (heaps[k].type == 1)
				block(heaps[k].start, heaps[k].end - heaps[k].start, 0);
			else if (h->sos13)
				(void)COM_CALL(h->sos13, TraverseLoaderHeap, heaps[k].start, EXPLICIT_HEAP,
					       (void *)block);
		}
	}
	return hr;
}

static com_hr code_heaps(struct host *h, struct host_answer *a)
{
	memset(&counted, 0, sizeof(counted));
	com_hr hr = each_code_block(h, count_block);
	if (hr >= 0 && counted.blocks)
		add_named(a, "code");
	return hr < 0 ? hr : COM_OK;
}

com_hr answer_code_ranges(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	heap_answer = a;
	com_hr hr = each_code_block(h, on_block);
	return hr < 0 ? hr : COM_OK;
}

com_hr answer_named_heaps(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct loader_heaps l;
	dacp_heap_block_fn callback = count_block;
	if (!q->values[0])
		return code_heaps(h, a);
	com_hr hr = find_heaps(h, q->values[0], &l);
	for (int32_t i = 0; hr >= 0 && i < l.n; i++) {
		memset(&counted, 0, sizeof(counted));
		if (l.heaps[i])
			(void)COM_CALL(h->sos13, TraverseLoaderHeap, l.heaps[i], l.kinds[i], (void *)callback);
		if (counted.blocks && l.names[i])
			add_named(a, l.names[i]);
	}
	return hr < 0 ? hr : COM_OK;
}
