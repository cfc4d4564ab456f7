/* Decodes answers into lists. The helper is not trusted: every record must be complete, every text inside the answer;
 * beyond its shape the content of an answer is untrusted. */

#include "base/cursor.h"
#include "dac/internal.h"

/* The next record, false at the end or when it is cut (then the cursor is bad). */
static bool take(struct cursor *c, void *record, size_t len)
{
	if (!cursor_left(c))
		return false;
	const uint8_t *p = cursor_take(c, len);
	if (p)
		memcpy(record, p, len);
	return p;
}

static const char *take_text(struct cursor *c, struct strtab *texts, uint32_t len)
{
	const uint8_t *p = cursor_take(c, len);
	return p ? strtab_get(texts, strtab_add(texts, (const char *)p, len)) : "";
}

static struct cursor over(const struct buf *in)
{
	return cursor_make(in->data ? in->data : "", in->len);
}

bool decode_facts(const struct buf *in, struct dac_facts *ret)
{
	struct cursor c = over(in);
	struct wire_dac_runtime r;
	if (!take(&c, &r, sizeof(r)) || cursor_left(&c))
		return false;
	*ret = (struct dac_facts){
		.array_type = r.array_type,
		.string_type = r.string_type,
		.object_type = r.object_type,
		.exception_type = r.exception_type,
		.free_type = r.free_type,
		.finalizer_thread = r.finalizer_thread,
		.gc_thread = r.gc_thread,
		.global_alloc_ptr = r.global_alloc_ptr,
		.global_alloc_limit = r.global_alloc_limit,
		.server_gc = r.server_gc,
		.heap_valid = r.heap_valid,
		.n_heaps = r.n_heaps,
		.max_generation = r.max_generation,
	};
	return true;
}

bool decode_threads(const struct buf *in, struct dac_threads *ret)
{
	struct cursor c = over(in);
	struct wire_dac_thread t;
	while (take(&c, &t, sizeof(t)))
		vec_push(ret, ((struct dac_thread){
				      .address = t.address,
				      .alloc_ptr = t.alloc_ptr,
				      .alloc_limit = t.alloc_limit,
				      .exception = t.exception,
				      .managed_id = t.managed_id,
				      .os_id = t.os_id,
				      .state = t.state,
				      .cooperative = t.cooperative,
			      }));
	return cursor_ok(&c);
}

bool decode_stack(const struct buf *in, struct strtab *texts, struct dac_stack *ret)
{
	struct cursor c = over(in);
	struct wire_dac_frame f;
	while (take(&c, &f, sizeof(f))) {
		struct dac_frame frame = {
			.ip = f.ip,
			.sp = f.sp,
			.frame = f.frame,
			.method = f.method,
			.il_offset = f.il_offset,
			.native_offset = f.native_offset,
		};
		const char *kind = take_text(&c, texts, f.text_len);
		if (f.flags & WIRE_DAC_FRAME_LOST) {
			ret->lost = true;
			ret->missing = f.ip;
			continue;
		}
		if (f.frame)
			frame.kind = kind;
		ret->cut |= f.flags & WIRE_DAC_FRAME_CUT;
		vec_push(ret, frame);
	}
	return cursor_ok(&c);
}

bool decode_parts(const struct buf *in, struct parts *ret)
{
	struct cursor c = over(in);
	struct wire_dac_part head;
	while (take(&c, &head, sizeof(head))) {
		const void *bytes = head.length <= in->len ? cursor_take(&c, (size_t)head.length) : NULL;
		if (!bytes && head.length)
			return false;
		struct part_span span = { ret->bytes.len, (size_t)head.length };
		buf_add(&ret->bytes, bytes, span.len);
		vec_push(&ret->spans, span);
		*map_u64_put(&ret->index, head.value, NULL) = ret->spans.n;
	}
	return cursor_ok(&c);
}

bool parts_find(const struct parts *parts, uint64_t value, struct buf *ret_view)
{
	const uint64_t *index = map_u64_get(&parts->index, value);
	if (!index)
		return false;
	const struct part_span *span = &parts->spans.v[*index - 1];
	*ret_view = (struct buf){ .data = parts->bytes.data + span->at, .len = span->len };
	return true;
}

void parts_free(struct parts *parts)
{
	buf_free(&parts->bytes);
	map_u64_free(&parts->index);
	vec_free(&parts->spans);
}

bool decode_methods(const struct buf *in, struct strtab *texts, struct method_list *ret)
{
	struct cursor c = over(in);
	struct wire_dac_method m;
	while (take(&c, &m, sizeof(m))) {
		struct dac_method method = {
			.desc = m.desc, .type = m.type, .module = m.module, .token = m.token, .dynamic = m.dynamic
		};
		method.name = take_text(&c, texts, m.text_len);
		vec_push(ret, method);
	}
	return cursor_ok(&c);
}

bool decode_types(const struct buf *in, struct strtab *texts, struct type_list *ret)
{
	struct cursor c = over(in);
	struct wire_dac_type t;
	while (take(&c, &t, sizeof(t))) {
		struct dac_type type = {
			.type = t.type,
			.module = t.module,
			.parent = t.parent,
			.base_size = t.base_size,
			.component_size = t.component_size,
			.token = t.token,
			.n_instance = t.n_instance,
			.n_static = t.n_static,
			.n_thread_static = t.n_thread_static,
			.loader = t.loader,
			.contains_pointers = t.contains_pointers,
			.known = t.known,
		};
		type.name = take_text(&c, texts, t.text_len);
		vec_push(ret, type);
	}
	return cursor_ok(&c);
}

bool decode_fields(const struct buf *in, struct strtab *texts, struct dac_fields *ret)
{
	struct cursor c = over(in);
	struct wire_dac_field f;
	while (take(&c, &f, sizeof(f))) {
		struct dac_field field = {
			.type = f.type,
			.element_type = f.element_type,
			.token = f.token,
			.offset = f.offset,
			.is_static = f.is_static,
			.is_thread_static = f.is_thread_static,
		};
		field.name = take_text(&c, texts, f.text_len);
		vec_push(ret, field);
	}
	return cursor_ok(&c);
}

bool decode_modules(const struct buf *in, struct strtab *texts, struct dac_modules *ret)
{
	struct cursor c = over(in);
	struct wire_dac_module m;
	while (take(&c, &m, sizeof(m))) {
		struct dac_module module = {
			.address = m.address,
			.assembly = m.assembly,
			.il_base = m.il_base,
			.metadata = m.metadata,
			.metadata_size = m.metadata_size,
			.loader_allocator = m.loader_allocator,
			.module_index = m.module_index,
			.reflection = m.is_reflection,
		};
		module.path = take_text(&c, texts, m.text_len);
		vec_push(ret, module);
	}
	return cursor_ok(&c);
}

bool decode_addresses(const struct buf *in, struct dac_addresses *ret)
{
	struct cursor c = over(in);
	uint64_t address;
	while (take(&c, &address, sizeof(address)))
		vec_push(ret, address);
	return cursor_ok(&c);
}

bool decode_heaps(const struct buf *in, struct dac_heaps *ret)
{
	struct cursor c = over(in);
	struct wire_dac_heap w;
	while (take(&c, &w, sizeof(w))) {
		if (w.n_generations > DAC_MAX_GENERATIONS || w.n_fill_pointers > DAC_MAX_GENERATIONS)
			return false;
		struct dac_heap heap = {
			.heap = w.heap,
			.alloc_allocated = w.alloc_allocated,
			.ephemeral_segment = w.ephemeral_segment,
			.low = w.low,
			.high = w.high,
			.n_generations = w.n_generations,
			.n_fill_pointers = w.n_fill_pointers,
		};
		_Static_assert(sizeof(heap.generations) == sizeof(w.generations), "the same four words");
		memcpy(heap.generations, w.generations, sizeof(heap.generations));
		memcpy(heap.fill_pointers, w.fill_pointers, sizeof(heap.fill_pointers));
		vec_push(ret, heap);
	}
	return cursor_ok(&c);
}

bool decode_segments(const struct buf *in, struct dac_segments *ret)
{
	struct cursor c = over(in);
	struct wire_dac_segment s;
	while (take(&c, &s, sizeof(s)))
		vec_push(ret, ((struct dac_segment){
				      .address = s.address,
				      .heap = s.heap,
				      .mem = s.mem,
				      .allocated = s.allocated,
				      .committed = s.committed,
				      .reserved = s.reserved,
				      .used = s.used,
				      .flags = s.flags,
				      .generation = s.generation,
				      .heap_index = s.heap_index,
			      }));
	return cursor_ok(&c);
}

bool decode_handles(const struct buf *in, struct dac_handles *ret)
{
	struct cursor c = over(in);
	struct wire_dac_handle h;
	while (take(&c, &h, sizeof(h)))
		vec_push(ret, ((struct dac_handle){
				      .handle = h.handle,
				      .object = h.object,
				      .secondary = h.secondary,
				      .type = h.type,
				      .ref_count = h.ref_count,
				      .strong = h.strong,
			      }));
	return cursor_ok(&c);
}

bool decode_refs(const struct buf *in, struct dac_refs *ret)
{
	struct cursor c = over(in);
	struct wire_dac_ref r;
	while (take(&c, &r, sizeof(r)))
		vec_push(ret, ((struct dac_ref){
				      .slot = r.slot,
				      .object = r.object,
				      .source = r.source,
				      .stack_pointer = r.stack_pointer,
				      .flags = r.flags,
			      }));
	return cursor_ok(&c);
}

bool decode_code(const struct buf *in, struct dac_code *ret)
{
	struct cursor c = over(in);
	struct wire_dac_code code;
	struct wire_dac_il il;
	if (!take(&c, &code, sizeof(code)))
		return false;
	ret->start = code.start;
	ret->method = code.method;
	ret->size = code.size;
	ret->precompiled = code.jit_type == 2;
	while (take(&c, &il, sizeof(il)))
		vec_push(ret, ((struct dac_il){ .start = il.start, .end = il.end, .il_offset = il.il_offset }));
	return cursor_ok(&c);
}

bool decode_code_list(const struct buf *in, struct dac_code_list *ret)
{
	struct cursor c = over(in);
	struct wire_dac_code code;
	while (take(&c, &code, sizeof(code)))
		vec_push(ret, ((struct dac_listed_code){ code.start, code.method, code.size }));
	return cursor_ok(&c);
}

bool decode_il_places(const struct buf *in, struct dac_il_places *ret)
{
	struct cursor c = over(in);
	struct wire_dac_il_at at;
	while (take(&c, &at, sizeof(at)))
		vec_push(ret, ((struct dac_il_place){ at.address, at.module, at.token, at.il_offset }));
	return cursor_ok(&c);
}

bool decode_statics(const struct buf *in, struct dac_statics_list *ret)
{
	struct cursor c = over(in);
	struct wire_dac_statics s;
	while (take(&c, &s, sizeof(s)))
		vec_push(ret, ((struct dac_statics){ .type = s.type, .gc = s.gc, .non_gc = s.non_gc }));
	return cursor_ok(&c);
}

bool decode_objects(const struct buf *in, struct dac_objects *ret)
{
	struct cursor c = over(in);
	struct wire_dac_object o;
	while (take(&c, &o, sizeof(o)))
		vec_push(ret, ((struct dac_object){ .object = o.object, .type = o.type, .size = o.size }));
	return cursor_ok(&c);
}

bool decode_ranges(const struct buf *in, struct dac_ranges *ret)
{
	struct cursor c = over(in);
	struct wire_dac_range r;
	while (take(&c, &r, sizeof(r)))
		vec_push(ret, ((struct dac_range){ .start = r.start, .size = r.size }));
	return cursor_ok(&c);
}

bool decode_versions(const struct buf *in, struct dac_versions *ret)
{
	struct cursor c = over(in);
	struct wire_dac_version v;
	while (take(&c, &v, sizeof(v)))
		vec_push(ret, ((struct dac_version){ .code = v.code,
						     .tier = v.tier <= DAC_TIER_1_COUNTS ? (enum dac_tier)v.tier
											 : DAC_TIER_UNKNOWN }));
	return cursor_ok(&c);
}

bool decode_clauses(const struct buf *in, struct strtab *texts, struct dac_clauses *ret)
{
	struct cursor c = over(in);
	struct wire_dac_clause e;
	while (take(&c, &e, sizeof(e))) {
		struct dac_clause clause = { .try_start = e.try_start,
					     .try_end = e.try_end,
					     .start = e.start,
					     .end = e.end,
					     .kind = (enum dac_clause_kind)MIN(e.kind, (uint32_t)DAC_CLAUSE_CATCH),
					     .any = e.any };
		clause.catches = take_text(&c, texts, e.text_len);
		vec_push(ret, clause);
	}
	return cursor_ok(&c);
}

bool decode_token_names(const struct buf *in, struct strtab *texts, struct dac_token_names *ret)
{
	struct cursor c = over(in);
	struct wire_dac_token t;
	while (take(&c, &t, sizeof(t))) {
		struct dac_token_name name = { .token = t.token };
		name.name = take_text(&c, texts, t.text_len);
		vec_push(ret, name);
	}
	return cursor_ok(&c);
}

bool decode_named_heaps(const struct buf *in, struct strtab *texts, struct dac_named_heaps *ret)
{
	struct cursor c = over(in);
	struct wire_dac_named_heap h;
	while (take(&c, &h, sizeof(h))) {
		struct dac_named_heap heap = { .bytes = h.bytes, .blocks = h.blocks };
		heap.name = take_text(&c, texts, h.text_len);
		vec_push(ret, heap);
	}
	return cursor_ok(&c);
}

bool decode_syncs(const struct buf *in, struct dac_syncs *ret)
{
	struct cursor c = over(in);
	struct wire_dac_sync s;
	while (take(&c, &s, sizeof(s)))
		vec_push(ret, ((struct dac_sync){
				      .object = s.object,
				      .holding_thread = s.holding_thread,
				      .index = s.index,
				      .recursion = s.recursion,
				      .waiting = s.waiting,
				      .held = s.held,
			      }));
	return cursor_ok(&c);
}

bool decode_exception(const struct buf *in, struct dac_exception *ret, uint64_t *ret_message)
{
	struct cursor c = over(in);
	struct wire_dac_exception e;
	if (!take(&c, &e, sizeof(e)) || cursor_left(&c))
		return false;
	*ret = (struct dac_exception){
		.type = e.type, .inner = e.inner, .stack_trace = e.stack_trace, .hresult = e.hresult
	};
	*ret_message = e.message;
	return true;
}

bool decode_variables(const struct buf *in, struct strtab *texts, struct dac_variables *ret)
{
	struct cursor c = over(in);
	struct wire_dac_variable v;
	while (take(&c, &v, sizeof(v)))
		vec_push(ret, ((struct dac_variable){
				      .sp = v.sp,
				      .value = v.value,
				      .address = v.address,
				      .size = v.size,
				      .flags = v.flags,
				      .index = v.index,
				      .is_local = v.is_local,
				      .known = v.known,
				      .name = take_text(&c, texts, v.text_len),
			      }));
	return cursor_ok(&c);
}

bool decode_type_methods(const struct buf *in, struct strtab *texts, struct dac_type_methods *ret)
{
	struct cursor c = over(in);
	struct wire_dac_type_method m;
	while (take(&c, &m, sizeof(m)))
		vec_push(ret, ((struct dac_type_method){ .desc = m.desc,
							 .code = m.code,
							 .token = m.token,
							 .name = take_text(&c, texts, m.text_len) }));
	return cursor_ok(&c);
}
