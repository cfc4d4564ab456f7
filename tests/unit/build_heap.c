#include "build_heap.h"
#include "build_core.h"
#include <stdlib.h>
#include <string.h>

#define MODULE 0x2000F000u

struct built_heap *build_heap_new(void)
{
	struct built_heap *b = mem_zalloc(sizeof(*b));
	b->next_type = BUILT_TYPES + 256;
	b->next_object = BUILT_HEAP + 8;
	vec_push(&b->modules,
		 ((struct dac_module){ .address = MODULE, .loader_allocator = 1, .path = "/app/Shop.dll" }));
	b->object_type = build_type(b, "System.Object", 0, 24, 0, NULL, 0);
	b->value_type = build_type(b, "System.ValueType", b->object_type, 24, 0, NULL, 0);
	b->string_type = build_type(b, "System.String", b->object_type, 20, 2, NULL, 0);
	b->free_type = build_type(b, "Free", 0, 24, 1, NULL, 0);
	b->facts = (struct dac_facts){
		.string_type = b->string_type,
		.object_type = b->object_type,
		.free_type = b->free_type,
		.heap_valid = true,
		.n_heaps = 1,
	};
	return b;
}

void build_heap_free(struct built_heap *b)
{
	vec_free(&b->type_list);
	vec_free(&b->field_list);
	vec_free(&b->statics_list);
	vec_free(&b->object_list);
	vec_free(&b->modules);
	mem_free(b);
}

static uint8_t *at(struct built_heap *b, uint64_t addr, size_t len)
{
	uint8_t *places[] = { b->heap, b->types, b->statics };
	uint64_t starts[] = { BUILT_HEAP, BUILT_TYPES, BUILT_STATICS };
	for (size_t i = 0; i < 3; i++)
		if (addr >= starts[i] && addr + len <= starts[i] + BUILT_ROOM)
			return places[i] + (addr - starts[i]);
	abort(); /* outside of what can be built */
}

void build_put(struct built_heap *b, uint64_t addr, const void *data, size_t len)
{
	memcpy(at(b, addr, len), data, len);
}

void build_put_u64(struct built_heap *b, uint64_t addr, uint64_t value)
{
	build_put(b, addr, &value, sizeof(value));
}

static uint64_t add_type(struct built_heap *b, struct dac_type type)
{
	uint64_t mt = b->next_type + 128; /* its reference map grows down */
	uint32_t flags = type.component_size ? 0x80000000u | type.component_size : 0;
	flags |= type.contains_pointers ? 0x01000000u : 0;
	b->next_type += 256;
	type.type = mt;
	type.module = MODULE;
	type.known = true;
	build_put(b, mt, &flags, 4);
	build_put(b, mt + 4, &type.base_size, 4);
	build_put_u64(b, mt + 16, type.parent);
	build_put_u64(b, mt + 24, MODULE);
	build_put_u64(b, mt + 40, BUILT_TYPES);
	build_put_u64(b, mt + 48, BUILT_TYPES);
	vec_push(&b->type_list, type);
	return mt;
}

uint64_t build_type(struct built_heap *b, const char *name, uint64_t parent, uint32_t base_size,
		    uint32_t component_size, const struct built_series *series, size_t n)
{
	uint64_t mt = add_type(b, (struct dac_type){ .name = name,
						     .parent = parent,
						     .base_size = base_size,
						     .component_size = component_size,
						     .contains_pointers = n > 0 });
	build_put_u64(b, mt - 8, n);
	for (size_t i = 0; i < n; i++) {
		build_put_u64(b, mt - 16 - 16 * i, series[i].start);
		build_put_u64(b, mt - 24 - 16 * i, (uint64_t)series[i].size);
	}
	return mt;
}

uint64_t build_struct_array(struct built_heap *b, const char *name, uint64_t element, uint32_t component_size,
			    uint32_t pointers, uint32_t skip)
{
	uint64_t mt = add_type(b, (struct dac_type){ .name = name,
						     .parent = b->object_type,
						     .base_size = 24,
						     .component_size = component_size,
						     .contains_pointers = pointers > 0 });
	build_put_u64(b, mt + 48, element);
	build_put_u64(b, mt - 8, (uint64_t)-1);
	build_put_u64(b, mt - 16, 16);
	build_put_u64(b, mt - 24, (uint64_t)skip << 32 | pointers);
	return mt;
}

static struct dac_type *type_at(struct built_heap *b, uint64_t mt)
{
	vec_each(t, &b->type_list)
		if (t->type == mt)
			return t;
	return NULL;
}

static struct dac_type *built_type(struct built_heap *b, uint64_t mt)
{
	struct dac_type *t = type_at(b, mt);
	if (!t)
		abort();
	return t;
}

void build_field(struct built_heap *b, uint64_t type, const char *name, uint32_t element, uint32_t offset,
		 uint64_t field_type)
{
	vec_push(&b->field_list, ((struct dac_field){ .name = name,
						      .element_type = element,
						      .offset = offset,
						      .type = field_type,
						      .token = (uint32_t)(built_type(b, type) - b->type_list.v) }));
}

void build_static(struct built_heap *b, uint64_t type, const char *name, uint32_t element, uint32_t offset, bool thread)
{
	build_field(b, type, name, element, offset, 0);
	vec_last(&b->field_list).is_static = true;
	vec_last(&b->field_list).is_thread_static = thread;
	built_type(b, type)->n_static++;
	built_type(b, type)->n_thread_static += thread;
}

uint64_t build_object(struct built_heap *b, uint64_t type, uint32_t n)
{
	const struct dac_type *t = built_type(b, type);
	uint64_t object = b->next_object;
	uint32_t base = t->base_size + (type == b->string_type ? 2 : 0);
	b->next_object += (base + (uint64_t)n * t->component_size + 7) & ~7ull;
	build_put_u64(b, object, type);
	if (t->component_size)
		build_put(b, object + 8, &n, 4);
	vec_push(&b->object_list, ((struct dac_object){ object, type, b->next_object - object }));
	return object;
}

uint64_t build_string(struct built_heap *b, const char *ascii)
{
	uint64_t object = build_object(b, b->string_type, (uint32_t)strlen(ascii));
	for (size_t i = 0; ascii[i]; i++)
		build_put(b, object + 12 + 2 * i, &ascii[i], 1);
	return object;
}

struct heap_outline build_outline(const struct built_heap *b)
{
	struct heap_outline o = { .n_heaps = 1, .uses_regions = true };
	vec_push(&o.regions,
		 ((struct heap_region){ .start = BUILT_HEAP + 8, .end = b->next_object, .generation = HEAP_GEN2 }));
	return o;
}

struct image *build_heap_image(const struct built_heap *b)
{
	struct core_segment segments[] = {
		{ BUILT_HEAP, BUILT_ROOM, b->heap, PF_R },
		{ BUILT_TYPES, BUILT_ROOM, b->types, PF_R },
		{ BUILT_STATICS, BUILT_ROOM, b->statics, PF_R },
	};
	struct core_thread thread = { .tid = 7 };
	struct core_spec spec = { .segments = segments, .n_segments = 3, .threads = &thread, .n_threads = 1, .pid = 7 };
	struct buf core = { 0 };
	struct image *img = NULL;
	build_core(&core, &spec);
	struct err *err = image_open_core_fd(build_file(core.data, core.len), "built", NULL, NULL, &img);
	if (err)
		abort();
	buf_free(&core);
	return img;
}

/* ---- the source ---- */

static struct err *refuse(void)
{
	return err_new(ERR_IO, "the library is gone");
}

static struct err *facts(void *user, struct dac_facts *ret)
{
	*ret = ((struct built_heap *)user)->facts;
	return NULL;
}

static struct err *learn(void *user, const uint64_t *types, size_t n)
{
	(void)types;
	(void)n;
	return ((struct built_heap *)user)->fails ? refuse() : NULL;
}

static const struct dac_type *type(void *user, uint64_t mt)
{
	return type_at(user, mt);
}

static struct err *fields(void *user, uint64_t mt, struct dac_fields *ret)
{
	struct built_heap *b = user;
	memset(ret, 0, sizeof(*ret));
	if (b->fails)
		return refuse();
	vec_each(f, &b->field_list)
		if (b->type_list.v[f->token].type == mt)
			vec_push(ret, *f);
	return NULL;
}

static struct err *modules(void *user, const struct dac_modules **ret)
{
	*ret = &((struct built_heap *)user)->modules;
	return NULL;
}

static struct err *module_types(void *user, uint64_t module, struct dac_addresses *ret)
{
	struct built_heap *b = user;
	memset(ret, 0, sizeof(*ret));
	if (b->fails)
		return refuse();
	vec_each(t, &b->type_list)
		if (module == MODULE && !strchr(t->name, '['))
			vec_push(ret, t->type);
	return NULL;
}

static struct err *loader_heaps(void *user, uint64_t loader_allocator, struct dac_ranges *ret)
{
	(void)user;
	memset(ret, 0, sizeof(*ret));
	if (loader_allocator == 1)
		vec_push(ret, ((struct dac_range){ BUILT_TYPES, BUILT_ROOM }));
	return NULL;
}

/* Of what is in the heap as it was built, whatever happened to the image since. */
static struct err *objects(void *user, const uint64_t *addresses, size_t n, struct dac_objects *ret)
{
	struct built_heap *b = user;
	memset(ret, 0, sizeof(*ret));
	if (b->fails)
		return refuse();
	for (size_t i = 0; i < n; i++) {
		struct dac_object o = { .object = addresses[i] };
		vec_each(known, &b->object_list)
			if (known->object == addresses[i])
				o = *known;
		vec_push(ret, o);
	}
	return NULL;
}

static struct err *statics(void *user, uint64_t thread, const uint64_t *types, size_t n, struct dac_statics_list *ret)
{
	struct built_heap *b = user;
	memset(ret, 0, sizeof(*ret));
	if (b->fails)
		return refuse();
	for (size_t i = 0; i < n; i++) {
		struct dac_statics found = { .type = types[i] };
		vec_each(s, &b->statics_list)
			if (s->type == types[i])
				found = *s;
		if (thread && found.gc)
			found.gc += thread;
		vec_push(ret, found);
	}
	return NULL;
}

struct heap_source build_heap_source(struct built_heap *b)
{
	return (struct heap_source){
		.user = b,
		.facts = facts,
		.learn = learn,
		.type = type,
		.fields = fields,
		.modules = modules,
		.module_types = module_types,
		.loader_heaps = loader_heaps,
		.objects = objects,
		.statics = statics,
	};
}
