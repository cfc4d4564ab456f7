/* Types by name, and the static fields of all of them.
 *
 * The runtime lists the types that a module defines, but not the instances of generic types. These are found in the
 * memory from which method tables are allocated: the library is asked about everything that has the shape of a method
 * table and refers to a known module, and tells which are real. */

#include "base/str.h"
#include "heap/internal.h"
#include <stdlib.h>
#include <string.h>

#define MAX_SCAN ((uint64_t)1 << 30) /* of loader heaps, in all */
#define SCAN_STEP ((size_t)1 << 20)
enum { MT_BASE_SIZE = 4, MT_PARENT = 16, MT_MODULE = 24, MT_CLASS = 40, MT_ARGUMENTS = 48, MT_SCANNED = 56 };
enum { GENERIC_MASK = 0x30, GENERIC_DEFINITION = 0x30 };
#define HAS_COMPONENTS 0x80000000u

/* ---- generic types ---- */

struct scan {
	struct map_u64 modules;
	struct dac_addresses found;
	uint64_t left;
};

static bool is_pointer(const uint8_t *p, size_t offset, unsigned tag_bits, uint64_t *ret)
{
	memcpy(ret, p + offset, sizeof(*ret));
	return *ret >= 65536 && !(*ret & 7 & ~(uint64_t)tag_bits);
}

/* Other data in these heaps refers to modules too, and the upper half of an address can look like a size: what would
 * have to be a pointer must be one, and the parent must be a type of a known module itself. The library is not asked
 * about the rest: some questions crash it. */
static bool shape_of_type(const struct heap *h, const struct scan *s, const uint8_t *p)
{
	uint32_t flags, base_size;
	uint64_t module, parent, other;
	memcpy(&flags, p, sizeof(flags));
	memcpy(&base_size, p + MT_BASE_SIZE, sizeof(base_size));
	memcpy(&module, p + MT_MODULE, sizeof(module));
	return base_size >= 16 && !(base_size & 7) && base_size < 1u << 24 && !(flags & HAS_COMPONENTS) &&
	       (flags & GENERIC_MASK) && (flags & GENERIC_MASK) != GENERIC_DEFINITION &&
	       map_u64_get(&s->modules, module) && is_pointer(p, MT_CLASS, 1, &other) &&
	       is_pointer(p, MT_ARGUMENTS, 0, &other) && is_pointer(p, MT_PARENT, 0, &parent) &&
	       heap_read_u64(h, parent + MT_MODULE, &other) && map_u64_get(&s->modules, other);
}

static void scan_range(struct heap *h, struct scan *s, const struct dac_range *range)
{
	uint64_t size = MIN(range->size, s->left);
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(SCAN_STEP + MT_SCANNED);
	s->left -= size;
	for (uint64_t done = 0; done < size; done += SCAN_STEP) {
		size_t got, want = (size_t)MIN(size - done, (uint64_t)SCAN_STEP + MT_SCANNED);
		image_read(h->image, range->start + done, bytes, want, &got);
		for (size_t i = 0; i + MT_SCANNED <= got && i < SCAN_STEP; i += 8)
			if (shape_of_type(h, s, bytes + i))
				vec_push(&s->found, range->start + done + i);
	}
}

static void scan_allocator(struct heap *h, struct scan *s, uint64_t allocator)
{
	struct dac_ranges ranges = { 0 };
	heap_note(h, h->source.loader_heaps(h->source.user, allocator, &ranges));
	vec_each(r, &ranges)
		scan_range(h, s, r);
	dac_ranges_free(&ranges);
}

/* ---- the list of types ---- */

static void name_type(struct heap *h, const struct heap_type *type)
{
	uint32_t id = strtab_add_cstr(&h->names, type->name);
	if (id == h->named.n)
		vec_push(&h->named, type->index);
}

/* Those of definitions and of shared code have no place. */
static bool is_closed(const struct heap *h, const struct heap_type *type)
{
	uint32_t flags;
	return heap_read_u32(h, type->address, &flags) &&
	       ((flags & HAS_COMPONENTS) || (flags & GENERIC_MASK) != GENERIC_DEFINITION) &&
	       !strstr(type->name, "System.__Canon");
}

static void list_type(struct heap *h, uint64_t address, struct map_u64 *seen)
{
	const struct heap_type *type = heap_type(h, address);
	bool fresh;
	map_u64_put(seen, address, &fresh);
	if (!type || !fresh)
		return;
	name_type(h, type);
	if (type->n_static + type->n_thread_static && is_closed(h, type))
		vec_push(&h->with_statics, type->index);
}

static struct err *list_all(struct heap *h, struct scan *s, struct map_u64 *seen)
{
	const struct dac_modules *modules;
	CLEANUP(map_u64_free) struct map_u64 allocators = { 0 };
	/* cppcheck-suppress returnDanglingLifetime ; an error holds nothing of its arguments */
	TRY(h->source.modules(h->source.user, &modules));
	vec_each(m, modules) {
		struct dac_addresses types = { 0 };
		map_u64_put(&s->modules, m->address, NULL);
		struct err *err = h->source.module_types(h->source.user, m->address, &types);
		if (!err)
			err = heap_learn(h, types.v, types.n);
		h->modules_unread += err != NULL;
		heap_note(h, err);
		vec_each(t, &types)
			list_type(h, *t, seen);
		dac_addresses_free(&types);
	}
	vec_each(m, modules) {
		bool fresh;
		map_u64_put(&allocators, m->loader_allocator, &fresh);
		if (fresh && m->loader_allocator)
			scan_allocator(h, s, m->loader_allocator);
	}
	TRY(heap_learn(h, s->found.v, s->found.n));
	vec_each(t, &s->found)
		list_type(h, *t, seen);
	return NULL;
}

/* Fills names and with_statics. */
static struct err *list_types(struct heap *h)
{
	if (h->has_names)
		return NULL;
	struct scan s = { .left = MAX_SCAN };
	CLEANUP(map_u64_free) struct map_u64 seen = { 0 };
	struct err *err = list_all(h, &s, &seen);
	map_u64_free(&s.modules);
	dac_addresses_free(&s.found);
	h->has_names = !err;
	return err;
}

const char *heap_module_file(struct heap *h, const struct heap_type *type)
{
	const struct dac_modules *modules;
	struct err *err = h->source.modules(h->source.user, &modules);
	if (err) {
		heap_note(h, err);
		return "";
	}
	vec_each(m, modules)
		if (m->address == type->module) {
			const char *slash = strrchr(m->path, '/');
			return slash ? slash + 1 : m->path;
		}
	return "";
}

struct err *heap_find_type(struct heap *h, const char *module, const char *name, const struct heap_type **ret)
{
	TRY(list_types(h));
	uint32_t id = strtab_find(&h->names, name, strlen(name));
	*ret = id == STRTAB_NONE ? NULL : &h->types.v[h->named.v[id]]->type;
	if (!*ret || !module || str_eq(heap_module_file(h, *ret), module))
		return NULL;
	/* The same name in several modules is rare enough for a search. */
	*ret = NULL;
	vec_each(e, &h->types)
		if (str_eq((*e)->type.name, name) && str_eq(heap_module_file(h, &(*e)->type), module))
			*ret = &(*e)->type;
	return NULL;
}

/* ---- one static field ---- */

static bool bases_of(struct heap *h, uint64_t thread, const struct heap_type *type, struct dac_statics *ret)
{
	struct type_entry *e = heap_entry(h, type);
	if (!thread && e->has_statics) {
		*ret = e->statics;
		return true;
	}
	struct dac_statics_list list = { 0 };
	struct err *err = h->source.statics(h->source.user, thread, &type->address, 1, &list);
	if (err || !list.n) {
		heap_note(h, err);
		return false;
	}
	*ret = list.v[0];
	dac_statics_free(&list);
	if (!thread) {
		e->statics = *ret;
		e->has_statics = true;
	}
	return true;
}

static uint64_t slot_of(const struct dac_statics *bases, const struct heap_field *f)
{
	uint64_t base = f->element == HEAP_CLASS || f->element == HEAP_STRUCT ? bases->gc : bases->non_gc;
	return base ? base + f->offset : 0;
}

static const struct heap_field *static_field(struct heap *h, const struct heap_type *type, const char *name)
{
	struct heap_fields fields = heap_fields(h, type);
	const struct heap_field *found = NULL;
	for (size_t i = fields.n; i-- > 0 && !found;)
		if (fields.v[i].is_static && str_eq(fields.v[i].name, name))
			found = fields.v + i;
	return found;
}

bool heap_static_slot(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
		      uint64_t *ret_slot, const struct heap_field **ret_field)
{
	struct dac_statics bases;
	const struct heap_field *f = type ? static_field(h, type, field) : NULL;
	if (!f || f->is_thread_static != (thread != 0) || !bases_of(h, thread, type, &bases) || !slot_of(&bases, f))
		return false;
	*ret_slot = slot_of(&bases, f);
	if (ret_field)
		*ret_field = f;
	return true;
}

bool heap_static_ref(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field, uint64_t *ret)
{
	uint64_t slot;
	const struct heap_field *f;
	return heap_static_slot(h, thread, type, field, &slot, &f) && f->element == HEAP_CLASS &&
	       heap_read_u64(h, slot, ret);
}

bool heap_static_object(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
			struct heap_value *ret)
{
	uint64_t object;
	return heap_static_ref(h, thread, type, field, &object) && heap_object(h, object, ret);
}

bool heap_static_int(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field, int64_t *ret)
{
	uint64_t slot;
	const struct heap_field *f;
	return heap_static_slot(h, thread, type, field, &slot, &f) && heap_read_int(h, slot, f->element, ret);
}

bool heap_static_struct(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
			struct heap_value *ret)
{
	uint64_t slot, box;
	const struct heap_field *f;
	return heap_static_slot(h, thread, type, field, &slot, &f) && f->element == HEAP_STRUCT &&
	       heap_read_u64(h, slot, &box) && heap_object(h, box, ret);
}

/* ---- all of them ---- */

static void add_statics(struct heap *h, uint64_t thread, const struct dac_statics *bases, struct heap_statics *out)
{
	const struct heap_type *type = bases->gc ? heap_type(h, bases->type) : NULL;
	if (!type)
		return;
	struct heap_fields fields = heap_fields(h, type);
	for (size_t i = 0; i < fields.n; i++) {
		const struct heap_field *f = &fields.v[i];
		uint64_t slot = bases->gc + f->offset, object;
		bool holds = f->element == HEAP_CLASS || f->element == HEAP_STRUCT;
		if (!f->is_static || !holds || f->is_thread_static != (thread != 0))
			continue;
		if (heap_read_u64(h, slot, &object) && heap_type_of(h, object))
			vec_push(out, ((struct heap_static){ type, f, slot, thread, object }));
	}
}

static struct err *statics_of(struct heap *h, uint64_t thread, const struct dac_addresses *types,
			      struct heap_statics *out)
{
	struct dac_statics_list list = { 0 };
	/* cppcheck-suppress returnDanglingLifetime ; an error holds nothing of its arguments */
	TRY(h->source.statics(h->source.user, thread, types->v, types->n, &list));
	vec_each(bases, &list)
		add_statics(h, thread, bases, out);
	dac_statics_free(&list);
	return NULL;
}

static int by_slot(const void *a, const void *b)
{
	const struct heap_static *x = a, *y = b;
	return CMP(x->slot, y->slot);
}

struct err *heap_statics(struct heap *h, const struct dac_threads *threads, struct heap_statics *ret)
{
	struct dac_addresses plain = { 0 }, threaded = { 0 };
	memset(ret, 0, sizeof(*ret));
	TRY(list_types(h));
	vec_each(index, &h->with_statics) {
		const struct heap_type *type = &h->types.v[*index]->type;
		if (type->n_static > type->n_thread_static)
			vec_push(&plain, type->address);
		if (type->n_thread_static)
			vec_push(&threaded, type->address);
	}
	struct err *err = statics_of(h, 0, &plain, ret);
	/* A thread that is just starting or ending may not be able to answer: its statics are then not known. */
	for (size_t i = 0; !err && threads && i < threads->n; i++)
		if (threads->v[i].os_id && !(threads->v[i].state & (DAC_THREAD_UNSTARTED | DAC_THREAD_DEAD)))
			heap_note(h, statics_of(h, threads->v[i].address, &threaded, ret));
	dac_addresses_free(&plain);
	dac_addresses_free(&threaded);
	if (err)
		heap_statics_free(ret);
	else
		vec_sort(ret, by_slot);
	return err;
}

void heap_statics_free(struct heap_statics *statics)
{
	vec_free(statics);
}
