/* where, memory, registers, referrers: from an address to what it means. */

#include "base/fmt.h"
#include "base/str.h"
#include "inspect/internal.h"
#include "memory/heap_look.h"
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 256u
#define MOST_BYTES 65536u
#define SHOWN_REFERRERS 50
#define GO_ON_EVERY 65536
#define STACK_BYTES ((uint64_t)16 << 20) /* how far above its stack pointer a thread's stack may reach */

/* ---- where ---- */

static bool is_object(struct inspect *in, uint64_t address, struct answer *a)
{
	const struct heap_outline *outline = NULL;
	struct heap_found found;
	struct heap *heap;
	struct err *err = inspect_heap(in, &heap);
	if (!err)
		err = inspect_outline(in, &outline);
	const struct heap_region *region = err ? NULL : heap_region_at(outline, address);
	err_free(err);
	if (!region)
		return false;
	answer_line(a, "generation %s of heap %u, region 0x%llx to 0x%llx", inspect_generation(region->generation),
		    region->heap, (unsigned long long)region->start, (unsigned long long)region->end);
	if (!inspect_object_around(in, region, address, &found)) {
		answer_line(a, "no object is there: that part of the heap is not in use, or damaged");
		return true;
	}
	CLEANUP(buf_free) struct buf type = { 0 };
	inspect_add_type(in, found.type, &type);
	answer_line(a, "%s at 0x%llx, %s; %s", found.type->kind == HEAP_FREE ? "a gap" : buf_cstr(&type),
		    (unsigned long long)found.address, fmt_bytes(found.size).s,
		    found.address == address ? "this is where it begins"
					     : fmt_plural(address - found.address, "byte in", "bytes in").s);
	return true;
}

static bool is_code(struct inspect *in, uint64_t address, struct answer *a)
{
	struct dac_code code = { 0 };
	const struct image_mapping *m = image_mapping_at(in->look.image, address);
	/* The library takes any address: on a stack it finds what may look like the start of a method. */
	if (m && !(m->prot & IMAGE_EXEC))
		return false;
	CLEANUP(err_freep) struct err *err = dac_code(in->look.dac, address, &code);
	bool found = !err && code.method && code.start && code.start <= address;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (found) {
		err = dac_learn_methods(in->look.dac, &code.method, 1);
		inspect_add_method(in, code.method, &name);
		answer_line(a, "code of %s, %llu bytes in", name.len ? buf_cstr(&name) : "a method without a name",
			    (unsigned long long)(address - code.start));
	}
	dac_code_free(&code);
	return found;
}

/* The thread whose stack pointer is nearest below, in the same mapping. */
static bool is_stack(struct inspect *in, uint64_t address, struct answer *a)
{
	size_t n;
	const struct image_thread *threads = image_threads(in->look.image, &n), *best = NULL;
	const struct image_mapping *m = image_mapping_at(in->look.image, address);
	for (size_t i = 0; i < n && m; i++) {
		uint64_t sp = threads[i].has_regs ? threads[i].regs.rsp : 0;
		if (sp >= m->start && sp <= address && address - sp < STACK_BYTES && (!best || sp > best->regs.rsp))
			best = &threads[i];
	}
	if (best)
		answer_line(a, "stack of the thread with tid %d, 0x%llx bytes above its stack pointer", (int)best->tid,
			    (unsigned long long)(address - best->regs.rsp));
	return best != NULL;
}

struct err *inspect_where(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	uint64_t address;
	char byte;
	(void)n;
	TRY(inspect_address(words[0], &address));
	const struct image_mapping *m = image_mapping_at(in->look.image, address);
	const struct heap_type *type = NULL;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (!is_object(in, address, a) && !is_code(in, address, a) && !is_stack(in, address, a)) {
		type = in->heap ? heap_type(in->heap, address) : NULL;
		if (type) {
			inspect_add_type(in, type, &name);
			answer_line(a, "method table of %s", buf_cstr(&name));
		}
	}
	if (!m && !image_read_all(in->look.image, address, &byte, 1))
		return err_new(ERR_NOT_FOUND, "there is no memory at 0x%llx", (unsigned long long)address);
	if (m) {
		CLEANUP(buf_free) struct buf path = { 0 };
		str_add_visible(&path, m->path, strlen(m->path), 160);
		answer_line(a, "mapping 0x%llx to 0x%llx, %s%s%s%s, %s", (unsigned long long)m->start,
			    (unsigned long long)m->end, m->prot & IMAGE_READ ? "r" : "-",
			    m->prot & IMAGE_WRITE ? "w" : "-", m->prot & IMAGE_EXEC ? "x" : "-", m->shared ? "s" : "p",
			    path.len ? buf_cstr(&path) : "no file");
	}
	if (!image_read_all(in->look.image, address, &byte, 1))
		answer_line(a, "its bytes are not in this image");
	return NULL;
}

/* ---- memory ---- */

static void add_row(const uint8_t *bytes, size_t n, uint64_t address, struct answer *a)
{
	char text[17] = "";
	CLEANUP(buf_free) struct buf hex = { 0 };
	for (size_t i = 0; i < n; i++) {
		buf_printf(&hex, "%s%02x", i == 8 ? "  " : i ? " " : "", bytes[i]);
		text[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '.';
	}
	ANSWER_ROW(a, C_ADDRESS(address), C_TEXT(buf_cstr(&hex)), C_TEXT(text));
}

struct err *inspect_memory(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	uint64_t address, count = SHOWN_BYTES;
	TRY(inspect_address(words[0], &address));
	if (n > 1 && (!str_to_u64(words[1], &count) || !count || count > MOST_BYTES))
		return err_new(ERR_USAGE, "memory shows 1 to %u bytes, not '%s'", MOST_BYTES, words[1]);
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(count);
	size_t got;
	image_read(in->look.image, address, bytes, count, &got);
	if (!got)
		return err_new(ERR_NOT_FOUND,
			       image_mapping_at(in->look.image, address) ? "the memory at 0x%llx is not in this image"
									 : "there is no memory at 0x%llx",
			       (unsigned long long)address);
	answer_table(a, NULL, "address", "bytes", "text");
	for (size_t i = 0; i < got; i += 16)
		add_row(bytes + i, MIN(got - i, (size_t)16), address + i, a);
	uint64_t end = address + got;
	if (got < count)
		answer_line(a, "the image has no more from 0x%llx on", (unsigned long long)end);
	return NULL;
}

/* ---- registers ---- */

struct err *inspect_registers(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	static const char *const names[] = { "r15", "r14",	"r13", "r12", "rbp",	"rbx", "r11",
					     "r10", "r9",	"r8",  "rax", "rcx",	"rdx", "rsi",
					     "rdi", "orig_rax", "rip", "cs",  "eflags", "rsp" };
	const struct dac_thread *t;
	size_t n_os;
	(void)n;
	TRY(inspect_thread(in, words[0], &t));
	const struct image_thread *all = image_threads(in->look.image, &n_os), *one = NULL;
	for (size_t i = 0; i < n_os; i++)
		if ((uint32_t)all[i].tid == t->os_id)
			one = &all[i];
	if (!one || !one->has_regs)
		return err_new(ERR_NOT_FOUND, "the registers of thread %u are not in this image", t->managed_id);
	uint64_t values[ARRAY_SIZE(names)];
	memcpy(values, &one->regs, sizeof(values));
	answer_table(a, NULL, "register", "value");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ANSWER_ROW(a, C_TEXT(names[i]), C_ADDRESS(values[i]));
	return NULL;
}

/* ---- referrers ---- */

struct referrers {
	struct inspect *in;
	uint64_t wanted, n;
	const struct heap_found *from;
	struct answer *a;
};

static void add_place(struct inspect *in, const struct heap_found *from, uint64_t at, struct buf *out)
{
	struct heap_fields fields = heap_fields(in->heap, from->type);
	uint64_t offset = at - from->address;
	if (from->type->kind == HEAP_ARRAY) {
		struct heap_array array;
		if (heap_array(in->heap, from->address, &array) && array.stride && at >= array.first)
			buf_printf(out, "[%llu]", (unsigned long long)((at - array.first) / array.stride));
		return;
	}
	/* A structure among the fields begins before what it holds. */
	const struct heap_field *best = NULL;
	for (size_t i = 0; i < fields.n; i++)
		if (!fields.v[i].is_static && fields.v[i].offset + 8ull <= offset &&
		    (!best || fields.v[i].offset > best->offset))
			best = &fields.v[i];
	if (best)
		heap_field_name(best->name, out);
}

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	struct referrers *r = user;
	for (size_t i = 0; i < n; i++) {
		if (refs[i] != r->wanted || r->n++ >= SHOWN_REFERRERS)
			continue;
		CLEANUP(buf_free) struct buf place = { 0 }, type = { 0 };
		add_place(r->in, r->from, at + 8 * i, &place);
		inspect_add_type(r->in, r->from->type, &type);
		ANSWER_ROW(r->a, C_ADDRESS(r->from->address), C_TEXT(buf_cstr(&place)), C_TEXT(buf_cstr(&type)));
	}
}

struct err *inspect_referrers(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap_found found;
	struct referrers r = { .in = in, .from = &found, .a = a };
	(void)n;
	TRY(inspect_object(in, words[0], &r.wanted));
	TRY(inspect_outline(in, &outline));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(in->heap, outline);
	answer_table(a, NULL, "object", "in", "what");
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(in));
		if (found.type->has_refs)
			heap_walk_refs(walk, &found, on_refs, &r);
	}
	if (!r.n)
		answer_line(a, "no object refers to it; 'roots' says whether something else does");
	if (r.n > SHOWN_REFERRERS)
		answer_line(a, "%s more", fmt_count(r.n - SHOWN_REFERRERS).s);
	return NULL;
}
