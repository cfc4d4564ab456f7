/* Types and their fields, each asked once. */

#include "base/str.h"
#include "base/vec.h"
#include "heap/internal.h"
#include <stdio.h>
#include <string.h>

#define MAX_TYPES (4u << 20)
#define MAX_DEPTH 256	 /* of inheritance */
#define MAX_FIELDS 65536 /* with inherited ones */
#define MIN_OBJECT 24u	 /* header, method table, one word */
#define OBJECT_WORDS 16u /* header and method table */
#define STRING_END 2u	 /* a string's terminator, which the library's base size leaves out */
#define MAX_BASE (1u << 30)
#define MAX_COMPONENT (1u << 16)
enum { MT_ELEMENT = 48 };

/* ---- the source: a dac ---- */

static struct err *source_facts(void *user, struct dac_facts *ret)
{
	return dac_facts(user, ret);
}
static struct err *source_learn(void *user, const uint64_t *types, size_t n)
{
	return dac_learn_types(user, types, n);
}
static const struct dac_type *source_type(void *user, uint64_t type)
{
	return dac_type(user, type);
}
static struct err *source_fields(void *user, uint64_t type, struct dac_fields *ret)
{
	return dac_fields(user, type, ret);
}
static struct err *source_modules(void *user, const struct dac_modules **ret)
{
	return dac_modules(user, ret);
}
static struct err *source_module_types(void *user, uint64_t module, struct dac_addresses *ret)
{
	return dac_module_types(user, module, ret);
}
static struct err *source_loader_heaps(void *user, uint64_t loader_allocator, struct dac_ranges *ret)
{
	return dac_loader_heaps(user, loader_allocator, ret);
}
static struct err *source_objects(void *user, const uint64_t *objects, size_t n, struct dac_objects *ret)
{
	return dac_objects(user, objects, n, ret);
}
static struct err *source_statics(void *user, uint64_t thread, const uint64_t *types, size_t n,
				  struct dac_statics_list *ret)
{
	return dac_statics(user, thread, types, n, ret);
}

struct err *heap_open(const struct image *img, struct dac *d, struct heap **ret)
{
	struct heap_source source = {
		.user = d,
		.facts = source_facts,
		.learn = source_learn,
		.type = source_type,
		.fields = source_fields,
		.modules = source_modules,
		.module_types = source_module_types,
		.loader_heaps = source_loader_heaps,
		.objects = source_objects,
		.statics = source_statics,
	};
	return heap_open_source(img, &source, ret);
}

/* ---- life ---- */

struct err *heap_open_source(const struct image *img, const struct heap_source *source, struct heap **ret)
{
	CLEANUP(heap_closep) struct heap *h = mem_zalloc(sizeof(*h));
	h->image = img;
	h->source = *source;
	TRY(source->facts(source->user, &h->facts));
	*ret = STEAL(h);
	return NULL;
}

void heap_close(struct heap *h)
{
	if (!h)
		return;
	vec_free(&h->types);
	vec_free(&h->named);
	vec_free(&h->with_statics);
	map_u64_free(&h->by_address);
	strtab_free(&h->names);
	arena_free(&h->arena);
	mem_free(h);
}

const struct dac_facts *heap_facts(const struct heap *h)
{
	return &h->facts;
}

const char *heap_trouble(const struct heap *h)
{
	return h->trouble[0] ? h->trouble : NULL;
}

void heap_note(struct heap *h, struct err *err)
{
	if (err && !h->trouble[0])
		str_copy(h->trouble, sizeof(h->trouble), err_text(err));
	err_free(err);
}

bool heap_read(const struct heap *h, uint64_t addr, void *buf, size_t len)
{
	return image_read_all(h->image, addr, buf, len);
}

bool heap_read_u32(const struct heap *h, uint64_t addr, uint32_t *ret)
{
	return image_read_all(h->image, addr, ret, sizeof(*ret));
}

bool heap_read_u64(const struct heap *h, uint64_t addr, uint64_t *ret)
{
	return image_read_all(h->image, addr, ret, sizeof(*ret));
}

/* ---- types ---- */

struct type_entry *heap_entry(struct heap *h, const struct heap_type *type)
{
	return h->types.v[type->index];
}

/* A TypeHandle with bit 1 is no method table. */
static uint64_t element_of(const struct heap *h, uint64_t array_type)
{
	uint64_t element = 0;
	return heap_read_u64(h, array_type + MT_ELEMENT, &element) && !(element & 7) ? element : 0;
}

static enum heap_kind kind_of(const struct heap *h, const struct dac_type *t)
{
	if (t->type == h->facts.free_type)
		return HEAP_FREE;
	if (t->type == h->facts.string_type)
		return HEAP_STRING;
	return t->component_size ? HEAP_ARRAY : HEAP_OBJECT;
}

static bool plausible(const struct dac_type *t)
{
	return t->known && t->base_size <= MAX_BASE && t->component_size < MAX_COMPONENT;
}

/* Interfaces, generic definitions and the like have no size; no object can be of them. */
static void add_type(struct heap *h, const struct dac_type *t)
{
	struct type_entry *e = arena_zalloc(&h->arena, sizeof(*e));
	enum heap_kind kind = kind_of(h, t);
	e->type = (struct heap_type){
		.address = t->type,
		.module = t->module,
		.parent = t->parent,
		.loader = t->loader,
		.name = t->name,
		.kind = kind,
		.index = (uint32_t)h->types.n,
		.base_size = t->base_size + (kind == HEAP_STRING ? STRING_END : 0),
		.component_size = t->component_size,
		.n_static = t->n_static,
		.n_thread_static = t->n_thread_static,
		.has_refs = t->contains_pointers,
	};
	/* Of gaps some libraries say no more than that they are gaps. */
	if (kind == HEAP_FREE) {
		e->type.name = "Free";
		e->type.base_size = MIN_OBJECT;
		e->type.component_size = 1;
	}
	if (kind == HEAP_ARRAY)
		e->type.element = element_of(h, t->type);
	vec_push(&h->types, e);
}

struct err *heap_learn(struct heap *h, const uint64_t *types, size_t n)
{
	TRY(h->source.learn(h->source.user, types, n));
	for (size_t i = 0; i < n && h->by_address.n < MAX_TYPES; i++) {
		bool fresh;
		uint64_t *at = map_u64_put(&h->by_address, types[i], &fresh);
		const struct dac_type *t = fresh ? h->source.type(h->source.user, types[i]) : NULL;
		if (t && plausible(t)) {
			add_type(h, t);
			*at = h->types.n;
		}
	}
	return NULL;
}

const struct heap_type *heap_type(struct heap *h, uint64_t method_table)
{
	uint64_t *at = map_u64_get(&h->by_address, method_table);
	uint64_t head[2];
	if (!at && method_table && !(method_table & 7) && heap_read(h, method_table, head, sizeof(head))) {
		heap_note(h, heap_learn(h, &method_table, 1));
		at = map_u64_get(&h->by_address, method_table);
	}
	return at && *at ? &h->types.v[*at - 1]->type : NULL;
}

const struct heap_type *heap_type_of(struct heap *h, uint64_t object)
{
	uint64_t method_table;
	if (!object || (object & 7) || !heap_read_u64(h, object, &method_table))
		return NULL;
	/* A collection marks objects in the low bits. */
	const struct heap_type *type = heap_type(h, method_table & ~(uint64_t)7);
	return type && type->base_size >= (type->kind == HEAP_STRING ? MIN_OBJECT - 2 : MIN_OBJECT) ? type : NULL;
}

uint64_t heap_size_of(struct heap *h, uint64_t object)
{
	const struct heap_type *type = heap_type_of(h, object);
	uint32_t n = 0;
	if (!type || (type->component_size && !heap_read_u32(h, object + 8, &n)))
		return 0;
	return (type->base_size + (uint64_t)n * type->component_size + 7) & ~(uint64_t)7;
}

bool heap_is_struct(struct heap *h, const struct heap_type *type)
{
	const struct heap_type *parent = type->parent ? heap_type(h, type->parent) : NULL;
	return parent && !str_eq(type->name, "System.Enum") &&
	       (str_eq(parent->name, "System.ValueType") || str_eq(parent->name, "System.Enum"));
}

/* ---- fields ---- */

static enum heap_element element_kind(uint32_t element)
{
	switch (element) {
	case 0x0E: /* string */
	case 0x13: /* type parameter */
	case 0x14: /* array */
	case 0x15: /* generic instance */
	case 0x1C: /* object */
	case 0x1D: /* array of one dimension */
	case 0x1E: /* method's type parameter */
		return HEAP_CLASS;
	default:
		return element;
	}
}

size_t heap_element_size(enum heap_element element)
{
	switch (element) {
	case HEAP_BOOLEAN:
	case HEAP_I1:
	case HEAP_U1:
		return 1;
	case HEAP_CHAR:
	case HEAP_I2:
	case HEAP_U2:
		return 2;
	case HEAP_I4:
	case HEAP_U4:
	case HEAP_R4:
		return 4;
	case HEAP_STRUCT:
		return 0;
	default:
		return 8;
	}
}

VEC_TYPE(field_list, struct heap_field);

/* Adds what a type declares itself, the static ones or the others. What would lie outside of an instance is not
 * believed. */
static void add_own(struct heap *h, const struct heap_type *type, const struct dac_fields *own, bool statics,
		    struct field_list *out)
{
	vec_each(f, own) {
		enum heap_element element = element_kind(f->element_type);
		bool inside = type->base_size > OBJECT_WORDS &&
			      f->offset + heap_element_size(element) <= type->base_size - OBJECT_WORDS;
		if (f->is_static != statics || (!statics && !inside) || out->n >= MAX_FIELDS)
			continue;
		vec_push(out, ((struct heap_field){
				      .name = arena_strdup(&h->arena, f->name ? f->name : ""),
				      .declaring = type->address,
				      .type = f->type,
				      .offset = f->offset,
				      .element = element,
				      .is_static = f->is_static,
				      .is_thread_static = f->is_thread_static,
			      }));
	}
}

/* The parent's instance fields come first. */
static void add_inherited(struct heap *h, const struct heap_type *type, struct field_list *out)
{
	const struct heap_type *chain[MAX_DEPTH];
	size_t n = 0;
	const struct heap_type *parent = type->parent ? heap_type(h, type->parent) : NULL;
	while (parent && n < MAX_DEPTH && !heap_entry(h, parent)->has_fields) {
		chain[n++] = parent;
		parent = parent->parent ? heap_type(h, parent->parent) : NULL;
	}
	/* From the root down, so that each finds its parent's list made. */
	while (n)
		(void)heap_fields(h, chain[--n]);
	parent = type->parent ? heap_type(h, type->parent) : NULL;
	if (!parent || !heap_entry(h, parent)->has_fields)
		return;
	const struct type_entry *e = heap_entry(h, parent);
	for (size_t i = 0; i < e->n_fields && out->n < MAX_FIELDS; i++)
		if (!e->fields[i].is_static)
			vec_push(out, e->fields[i]);
}

struct heap_fields heap_fields(struct heap *h, const struct heap_type *type)
{
	struct type_entry *e = heap_entry(h, type);
	if (e->has_fields)
		return (struct heap_fields){ e->fields, e->n_fields };
	e->has_fields = true; /* now: a type that is its own ancestor ends here */
	struct field_list list = { 0 };
	struct dac_fields own = { 0 };
	add_inherited(h, type, &list);
	heap_note(h, h->source.fields(h->source.user, type->address, &own));
	add_own(h, type, &own, false, &list);
	add_own(h, type, &own, true, &list);
	dac_fields_free(&own);
	if (list.n)
		e->fields = arena_dup(&h->arena, list.v, list.n * sizeof(*list.v));
	e->n_fields = list.n;
	vec_free(&list);
	return (struct heap_fields){ e->fields, e->n_fields };
}

static const struct heap_field *find_field(struct heap *h, const struct heap_type *type, const char *name,
					   bool is_static)
{
	struct heap_fields fields = heap_fields(h, type);
	const struct heap_field *found = NULL;
	for (size_t i = fields.n; i-- > 0 && !found;)
		if (fields.v[i].is_static == is_static && str_eq(fields.v[i].name, name))
			found = fields.v + i;
	return found;
}

const struct heap_field *heap_field(struct heap *h, const struct heap_type *type, const char *name)
{
	const struct heap_field *f = find_field(h, type, name, false);
	return f ? f : find_field(h, type, name, true);
}
