/* Threads, their stacks, what their stacks refer to, and the code they stand in. */

#include "dachost/data_target.h"
#include "dachost/host.h"
#include <string.h>

/* Against lists that a damaged image has bent into a circle. */
#define MAX_THREADS 100000
#define MAX_FRAMES 200000
#define MAX_IL 65536
#define WALK_ALL 0xFu
/* A walk's Request that gives the address of the explicit frame. */
#define WALK_FRAME_DATA 0xF0000000u

com_hr answer_runtime(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	struct dacp_globals globals = { 0 };
	struct dacp_gc_heap heap = { 0 };
	struct dacp_thread_store store = { 0 };
	com_hr hr = COM_CALL(h->sos, GetUsefulGlobals, &globals);
	if (hr >= 0)
		hr = COM_CALL(h->sos, GetThreadStoreData, &store);
	if (hr < 0)
		return hr;
	struct wire_dac_runtime r = {
		.array_type = globals.array_type,
		.string_type = globals.string_type,
		.object_type = globals.object_type,
		.exception_type = globals.exception_type,
		.free_type = globals.free_type,
		.finalizer_thread = store.finalizer,
		.gc_thread = store.gc,
		.interfaces = h->interfaces,
		.n_threads = (uint32_t)store.threads,
		.n_dead = (uint32_t)store.dead,
	};
	/* A core without its heap still has threads: no failure. */
	if (COM_CALL(h->sos, GetGCHeapData, &heap) >= 0) {
		r.server_gc = heap.server;
		r.heap_valid = heap.structures_valid;
		r.n_heaps = heap.server ? heap.heap_count : 1;
		r.max_generation = heap.max_generation;
	}
	if (h->sos9)
		COM_CALL(h->sos9, GetBreakingChangeVersion, &r.breaking_version);
	if (h->sos12 && COM_CALL(h->sos12, GetGlobalAllocationContext, &r.global_alloc_ptr, &r.global_alloc_limit) < 0)
		r.global_alloc_ptr = r.global_alloc_limit = 0;
	answer_add(a, &r, sizeof(r));
	return COM_OK;
}

com_hr answer_threads(struct host *h, const struct host_question *q, struct host_answer *a)
{
	(void)q;
	struct dacp_thread_store store = { 0 };
	com_hr hr = COM_CALL(h->sos, GetThreadStoreData, &store);
	if (hr < 0)
		return hr;
	uint64_t address = store.first;
	for (size_t i = 0; address && i < MAX_THREADS; i++) {
		struct dacp_thread_data data = { 0 };
		hr = COM_CALL(h->sos, GetThreadData, address, &data);
		if (hr < 0)
			return i ? COM_OK : hr;
		struct wire_dac_thread t = {
			.address = address,
			.alloc_ptr = data.alloc_ptr,
			.alloc_limit = data.alloc_limit,
			.frame = data.frame,
			.managed_id = data.managed_id,
			.os_id = data.os_id,
			.state = data.state,
			.cooperative = data.cooperative,
		};
		if (data.last_thrown_handle)
			t.exception = memory_u64(&h->memory, data.last_thrown_handle);
		answer_add(a, &t, sizeof(t));
		address = data.next;
	}
	return COM_OK;
}

/* ---- code ---- */

static struct xclr_method *method_at(struct host *h, uint64_t ip)
{
	uint64_t handle = 0;
	struct xclr_method *method = NULL;
	if (COM_CALL(h->process, StartEnumMethodInstancesByAddress, ip, NULL, &handle) != COM_OK)
		return NULL;
	if (COM_CALL(h->process, EnumMethodInstanceByAddress, &handle, &method) != COM_OK)
		method = NULL;
	COM_CALL(h->process, EndEnumMethodInstancesByAddress, handle);
	return method;
}

/* Entries of the map, at most max; 0 when there is none. */
static uint32_t il_map(struct host *h, uint64_t ip, struct dacp_il_map *map, uint32_t max)
{
	struct xclr_method *method = method_at(h, ip);
	uint32_t n = 0;
	if (!method)
		return 0;
	memset(map, 0, max * sizeof(*map));
	if (COM_CALL(method, GetILAddressMap, max, &n, map) < 0)
		n = 0;
	COM_RELEASE(method);
	return n < max ? n : max;
}

static int32_t il_offset(const struct dacp_il_map *map, uint32_t n, uint64_t ip)
{
	int32_t found = WIRE_DAC_NO_IL;
	uint64_t best = 0;
	for (uint32_t i = 0; i < n; i++) {
		if ((int32_t)map[i].il_offset < 0 || map[i].start > ip || map[i].start < best)
			continue;
		best = map[i].start;
		found = (int32_t)map[i].il_offset;
	}
	return found;
}

static struct dacp_il_map il_buffer[MAX_IL];

com_hr answer_il_map(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct dacp_code_header header = { 0 };
	com_hr hr = COM_CALL(h->sos, GetCodeHeaderData, q->values[0], &header);
	if (hr < 0)
		return hr;
	struct wire_dac_code code = {
		.start = header.start, .method = header.desc, .size = header.size, .jit_type = header.jit_type
	};
	answer_add(a, &code, sizeof(code));
	uint32_t n = il_map(h, q->values[0], il_buffer, MAX_IL);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_dac_il il = { .start = il_buffer[i].start,
					  .end = il_buffer[i].end,
					  .il_offset = (int32_t)il_buffer[i].il_offset,
					  .type = il_buffer[i].type };
		answer_add(a, &il, sizeof(il));
	}
	return COM_OK;
}

/* The map of a method is that of its first code; asked about an address the library takes the code which is there. */
static int32_t il_at(struct host *h, uint64_t ip)
{
	struct xclr_method *method = method_at(h, ip);
	uint32_t n = 0, offset = 0;
	if (!method)
		return WIRE_DAC_NO_IL;
	com_hr hr = COM_CALL(method, GetILOffsetsByAddress, ip, 1, &n, &offset);
	COM_RELEASE(method);
	return hr >= 0 && n && (int32_t)offset >= 0 ? (int32_t)offset : WIRE_DAC_NO_IL;
}

com_hr answer_il_at(struct host *h, const struct host_question *q, struct host_answer *a)
{
	for (size_t i = 0; i < q->n; i++) {
		struct dacp_code_header header = { 0 };
		struct dacp_method_desc data = { 0 };
		uint32_t needed = 0;
		struct wire_dac_il_at at = { .address = q->values[i], .il_offset = WIRE_DAC_NO_IL };
		if (COM_CALL(h->sos, GetCodeHeaderData, at.address, &header) >= 0 &&
		    COM_CALL(h->sos, GetMethodDescData, header.desc, 0, &data, 0, NULL, &needed) >= 0 &&
		    !data.dynamic) {
			at.module = data.module;
			at.token = data.token;
			at.il_offset = il_at(h, at.address);
		}
		answer_add(a, &at, sizeof(at));
	}
	return COM_OK;
}

/* What is known of a code address; threads of a pool and recursion have the same addresses again and again. */
struct thread_place {
	uint64_t ip;
	bool is_caller;
	uint64_t start;
	int32_t il_offset;
};

static const struct thread_place *place_of(struct host *h, uint64_t ip, bool is_caller)
{
	static struct thread_place cache[1024];
	struct thread_place *p = &cache[(ip ^ ip >> 10) % 1024];
	if (p->ip == ip && p->is_caller == is_caller)
		return p;
	struct dacp_code_header header = { 0 };
	*p = (struct thread_place){ .ip = ip, .is_caller = is_caller, .il_offset = WIRE_DAC_NO_IL };
	if (COM_CALL(h->sos, GetCodeHeaderData, ip, &header) >= 0)
		p->start = header.start;
	/* A caller's address is that behind its call, which may belong to the next statement. */
	uint64_t at = is_caller && ip > p->start ? ip - 1 : ip;
	p->il_offset = il_offset(il_buffer, il_map(h, ip, il_buffer, MAX_IL), at);
	return p;
}

/* ---- stacks ---- */

static void explicit_frame(struct host *h, struct wire_dac_frame *f, struct buf *name)
{
	com_char text[256] = { 0 };
	uint32_t needed = 0;
	uint64_t identity = memory_u64(&h->memory, f->frame);
	if (identity && COM_CALL(h->sos, GetFrameName, identity, ARRAY_SIZE(text), text, &needed) >= 0)
		host_utf8(text, ARRAY_SIZE(text), name);
	if (COM_CALL(h->sos, GetMethodDescPtrFromFrame, f->frame, &f->method) < 0)
		f->method = 0;
}

static void managed_frame(struct host *h, struct wire_dac_frame *f, bool is_caller)
{
	if (COM_CALL(h->sos, GetMethodDescPtrFromIP, f->ip, &f->method) < 0 || !f->method) {
		f->method = 0;
		return;
	}
	const struct thread_place *place = place_of(h, f->ip, is_caller);
	f->code_start = place->start;
	f->il_offset = place->il_offset;
	if (place->start && f->ip >= place->start && f->ip - place->start <= UINT32_MAX)
		f->native_offset = (uint32_t)(f->ip - place->start);
}

com_hr walk_open(struct host *h, uint64_t tid, struct stack_walk *ret)
{
	*ret = (struct stack_walk){ 0 };
	com_hr hr = COM_CALL(h->process, GetTaskByOSThreadID, (uint32_t)tid, &ret->task);
	if (hr >= 0 && ret->task)
		hr = COM_CALL(ret->task, CreateStackWalk, WALK_ALL, &ret->walk);
	return hr >= 0 && ret->walk ? COM_OK : hr < 0 ? hr : COM_E_FAIL;
}

void walk_close(struct stack_walk *w)
{
	COM_RELEASE(w->walk);
	COM_RELEASE(w->task);
}

bool walk_context(struct xclr_walk *walk, struct dacp_context *ret)
{
	uint32_t size = 0;
	*ret = (struct dacp_context){ 0 };
	return COM_CALL(walk, GetContext, DACP_CONTEXT_ALL, sizeof(*ret), &size, (uint8_t *)ret) == COM_OK;
}

uint64_t walk_explicit(struct xclr_walk *walk)
{
	uint64_t frame = 0;
	return COM_CALL(walk, Request, WALK_FRAME_DATA, 0, NULL, sizeof(frame), (uint8_t *)&frame) < 0 ? 0 : frame;
}

/* Writes one frame; false when the walk cannot say where it is. */
static bool walk_frame(struct host *h, struct xclr_walk *walk, size_t index, struct host_answer *a, struct buf *name)
{
	struct dacp_context context;
	if (!walk_context(walk, &context))
		return false;
	struct wire_dac_frame f = { .ip = context.rip, .sp = context.rsp, .il_offset = WIRE_DAC_NO_IL };
	buf_clear(name);
	f.frame = walk_explicit(walk);
	if (f.frame) {
		/* The registers are those of the code above it. */
		f.sp = f.frame;
		explicit_frame(h, &f, name);
	}
	if (!f.frame)
		managed_frame(h, &f, index > 0);
	f.flags = index + 1 == MAX_FRAMES ? WIRE_DAC_FRAME_CUT : 0;
	f.text_len = (uint32_t)name->len;
	answer_add(a, &f, sizeof(f));
	answer_text(a, name->data, name->len);
	return true;
}

com_hr answer_stack(struct host *h, const struct host_question *q, struct host_answer *a)
{
	CLEANUP(walk_close) struct stack_walk w;
	CLEANUP(buf_free) struct buf name = { 0 };
	com_hr hr = walk_open(h, q->values[0], &w);
	if (hr < 0)
		return hr;
	for (size_t i = 0; hr == COM_OK && i < MAX_FRAMES && walk_frame(h, w.walk, i, a, &name); i++)
		hr = COM_CALL(w.walk, Next);
	if (hr < 0) {
		struct wire_dac_frame lost = { .ip = data_target_hole(), .flags = WIRE_DAC_FRAME_LOST };
		answer_add(a, &lost, sizeof(lost));
	}
	return COM_OK;
}

com_hr answer_stack_refs(struct host *h, const struct host_question *q, struct host_answer *a)
{
	struct sos_ref_enum *refs = NULL;
	com_hr hr = COM_CALL(h->sos, GetStackReferences, (uint32_t)q->values[0], &refs);
	if (hr < 0 || !refs)
		return hr < 0 ? hr : COM_E_FAIL;
	struct dacp_stack_ref batch[256];
	uint32_t got;
	do {
		got = 0;
		hr = COM_CALL(refs, Next, ARRAY_SIZE(batch), batch, &got);
		for (uint32_t i = 0; hr >= 0 && i < got && i < ARRAY_SIZE(batch); i++) {
			struct wire_dac_ref r = {
				.slot = batch[i].slot,
				.object = batch[i].object,
				.source = batch[i].source,
				.stack_pointer = batch[i].stack_pointer,
				.flags = batch[i].flags,
				.source_type = batch[i].source_type,
				.has_register = batch[i].has_register,
				.reg = batch[i].reg,
				.offset = batch[i].offset,
			};
			answer_add(a, &r, sizeof(r));
		}
	} while (hr >= 0 && got == ARRAY_SIZE(batch));
	COM_RELEASE(refs);
	return hr < 0 ? hr : COM_OK;
}

/* ---- many at once ---- */

static com_hr answer_each(struct host *h, const struct host_question *q, struct host_answer *a, answer_fn one)
{
	struct host_answer part = { .part = true };
	for (size_t i = 0; i < q->n; i++) {
		struct host_question single = { .values = &q->values[i], .n = 1 };
		buf_clear(&part.out);
		if (one(h, &single, &part) < 0)
			continue;
		struct wire_dac_part head = { .value = q->values[i], .length = part.out.len };
		answer_add(a, &head, sizeof(head));
		answer_text(a, part.out.data, part.out.len);
	}
	buf_free(&part.out);
	return COM_OK;
}

com_hr answer_stacks(struct host *h, const struct host_question *q, struct host_answer *a)
{
	return answer_each(h, q, a, answer_stack);
}

com_hr answer_stacks_refs(struct host *h, const struct host_question *q, struct host_answer *a)
{
	return answer_each(h, q, a, answer_stack_refs);
}

/* ---- methods ---- */

com_hr answer_methods(struct host *h, const struct host_question *q, struct host_answer *a)
{
	static com_char text[HOST_NAME_MAX];
	CLEANUP(buf_free) struct buf name = { 0 };
	for (size_t i = 0; i < q->n; i++) {
		struct wire_dac_method m = { .desc = q->values[i] };
		struct dacp_method_desc data = { 0 };
		uint32_t needed = 0;
		buf_clear(&name);
		if (COM_CALL(h->sos, GetMethodDescData, m.desc, 0, &data, 0, NULL, &needed) >= 0) {
			m.known = 1;
			m.type = data.type;
			m.module = data.module;
			m.token = data.token;
			m.dynamic = data.dynamic;
		}
		memset(text, 0, sizeof(text));
		if (COM_CALL(h->sos, GetMethodDescName, m.desc, HOST_NAME_MAX, text, &needed) >= 0)
			host_utf8(text, HOST_NAME_MAX, &name);
		m.text_len = (uint32_t)name.len;
		answer_add(a, &m, sizeof(m));
		answer_text(a, name.data, name.len);
	}
	return COM_OK;
}
