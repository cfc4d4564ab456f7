/* heap, object, type, verify-heap, find-string, gcheap. */

#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/methods.h"
#include "inspect/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_TYPES 60
#define SHOWN_OBJECTS 50
#define SHOWN_ELEMENTS 50
#define SHOWN_TEXT 1000
#define SHOWN_STRINGS 100
#define SEARCHED_UNITS 65536
#define GO_ON_EVERY 65536

static const char *const generation_names[] = { "0", "1", "2", "large", "pinned", "frozen" };

const char *inspect_generation(enum heap_generation generation)
{
	return (size_t)generation < ARRAY_SIZE(generation_names) ? generation_names[generation] : "?";
}

/* ---- heap ---- */

struct tally {
	const struct heap_type *type;
	uint64_t n, bytes;
	bool fits;
};
VEC_TYPE(tallies, struct tally); /* by the type's index */

static struct tally *tally_of(struct tallies *all, const struct heap_type *type, const char *wanted)
{
	while (all->n <= type->index)
		vec_push(all, ((struct tally){ 0 }));
	struct tally *t = &all->v[type->index];
	if (!t->type) {
		CLEANUP(buf_free) struct buf shown = { 0 };
		t->type = type;
		type_show(type->name, &shown);
		t->fits = wanted && (inspect_type_fits(buf_cstr(&shown), wanted) || str_eq(type->name, wanted));
	}
	return t;
}

static int by_bytes(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	return CMP(y->bytes, x->bytes);
}

static void add_tallies(struct inspect *in, struct tallies *all, bool fitting, struct answer *a)
{
	uint64_t more = 0, more_bytes = 0, shown = 0;
	vec_sort(all, by_bytes);
	answer_table(a, NULL, "objects", "bytes", "method table", "type");
	vec_each(t, all) {
		CLEANUP(buf_free) struct buf name = { 0 };
		if (!t->n || (fitting && !t->fits))
			continue;
		if (shown++ >= SHOWN_TYPES) {
			more++;
			more_bytes += t->bytes;
			continue;
		}
		inspect_add_type(in, t->type, &name);
		ANSWER_ROW(a, C_COUNT(t->n), C_BYTES(t->bytes), C_ADDRESS(t->type->address),
			   C_TEXT(t->type->kind == HEAP_FREE ? "(gaps)" : buf_cstr(&name)));
	}
	if (more)
		answer_line(a, "%s more, %s", fmt_plural(more, "type", "types").s, fmt_bytes(more_bytes).s);
}

static void add_health(const struct heap_health *h, struct answer *a)
{
	answer_line(a, "%s, %s; %s of gaps", fmt_plural(h->objects, "object", "objects").s, fmt_bytes(h->bytes).s,
		    fmt_bytes(h->free_bytes).s);
	if (h->lost_bytes)
		answer_line(
			a,
			"%s could not be walked, from 0x%llx on: the heap is damaged or was caught in disorder there",
			fmt_bytes(h->lost_bytes).s, (unsigned long long)h->lost_at);
}

/* Walks all of it, or one generation; of the types that fit, addresses are kept. */
static struct err *walk_heap(struct inspect *in, const char *wanted, const char *generation, struct tallies *all,
			     struct dac_addresses *kept, struct heap_health *ret)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		if (generation && !str_eq(inspect_generation(outline->regions.v[found.region].generation), generation))
			continue;
		struct tally *t = tally_of(all, found.type, wanted);
		t->n++;
		t->bytes += found.size;
		if (t->fits && kept->n < SHOWN_OBJECTS)
			vec_push(kept, found.address);
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(in));
	}
	*ret = heap_walk_health(walk);
	return NULL;
}

static void add_kept(struct inspect *in, const struct dac_addresses *kept, uint64_t n, struct answer *a)
{
	answer_table(a, NULL, "object", "bytes", "what");
	vec_each(object, kept) {
		CLEANUP(buf_free) struct buf what = { 0 };
		inspect_add_ref(in, *object, &what);
		ANSWER_ROW(a, C_ADDRESS(*object), C_BYTES(heap_size_of(in->heap, *object)), C_TEXT(buf_cstr(&what)));
	}
	if (n > kept->n)
		answer_line(a, "%s more", fmt_count(n - kept->n).s);
}

static bool is_generation(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(generation_names); i++)
		if (str_eq(word, generation_names[i]))
			return true;
	return false;
}

struct err *inspect_heap_stat(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct tallies all = { 0 };
	struct dac_addresses kept = { 0 };
	struct heap_health health;
	bool one_type = n == 2 && str_eq(words[0], "type"), one_generation = n == 2 && str_eq(words[0], "generation");
	if (n && !one_type && !one_generation && !(n == 1 && str_eq(words[0], "stat")))
		return err_new(ERR_USAGE, "heap [stat | type NAME | generation G]");
	if (one_generation && !is_generation(words[1]))
		return err_new(ERR_USAGE, "generations are 0, 1, 2, large, pinned and frozen");
	struct err *err =
		walk_heap(in, one_type ? words[1] : NULL, one_generation ? words[1] : NULL, &all, &kept, &health);
	size_t fitting = 0;
	uint64_t objects = 0;
	vec_each(t, &all) {
		fitting += t->n && t->fits;
		objects += t->fits ? t->n : 0;
	}
	if (!err && one_type && !fitting) {
		CLEANUP(buf_free) struct buf name = { 0 };
		str_add_visible(&name, words[1], strlen(words[1]), 100);
		err = err_new(ERR_NOT_FOUND,
			      "no object on the heap is of a type '%s'; a part of a name stands between stars: *Order*",
			      buf_cstr(&name));
	}
	if (!err) {
		add_tallies(in, &all, one_type, a);
		if (one_type && fitting == 1)
			add_kept(in, &kept, objects, a);
		else if (one_type)
			answer_line(a, "%zu types have such a name: give the whole name of one to see its objects",
				    fitting);
		else if (!one_generation)
			add_health(&health, a);
	}
	vec_free(&all);
	dac_addresses_free(&kept);
	return err;
}

/* ---- object ---- */

static const char *element_name(enum heap_element e)
{
	static const char *const names[] = { [HEAP_BOOLEAN] = "bool",
					     [HEAP_CHAR] = "char",
					     [HEAP_I1] = "sbyte",
					     [HEAP_U1] = "byte",
					     [HEAP_I2] = "short",
					     [HEAP_U2] = "ushort",
					     [HEAP_I4] = "int",
					     [HEAP_U4] = "uint",
					     [HEAP_I8] = "long",
					     [HEAP_U8] = "ulong",
					     [HEAP_R4] = "float",
					     [HEAP_R8] = "double",
					     [HEAP_POINTER] = "pointer",
					     [HEAP_NATIVE_INT] = "nint",
					     [HEAP_NATIVE_UINT] = "nuint",
					     [HEAP_FUNCTION] = "function",
					     [HEAP_CLASS] = "object",
					     [HEAP_STRUCT] = "struct" };
	return (size_t)e < ARRAY_SIZE(names) && names[e] ? names[e] : "?";
}

static void add_field_type(struct inspect *in, const struct heap_field *f, struct buf *out)
{
	const struct heap_type *type = f->type ? heap_type(in->heap, f->type) : NULL;
	if (type && (f->element == HEAP_CLASS || f->element == HEAP_STRUCT))
		inspect_add_type(in, type, out);
	else
		buf_str(out, element_name(f->element));
}

static void add_fields(struct inspect *in, const struct heap_type *type, uint64_t first, struct answer *a)
{
	struct heap_fields fields = heap_fields(in->heap, type);
	answer_table(a, NULL, "offset", "field", "type", "value");
	for (size_t i = 0; i < fields.n; i++) {
		const struct heap_field *f = &fields.v[i];
		CLEANUP(buf_free) struct buf kind = { 0 }, value = { 0 };
		if (f->is_static)
			continue;
		add_field_type(in, f, &kind);
		inspect_add_value(in, f, first + f->offset, &value);
		ANSWER_ROW(a, C_COUNT(f->offset + 8), C_TEXT(f->name), C_TEXT(buf_cstr(&kind)),
			   C_TEXT(buf_cstr(&value)));
	}
}

static void add_elements(struct inspect *in, const struct heap_array *array, struct answer *a)
{
	const struct heap_type *element = array->type->element ? heap_type(in->heap, array->type->element) : NULL;
	bool refs = array->stride == 8 && array->type->has_refs && !(element && heap_is_struct(in->heap, element));
	answer_table(a, NULL, "index", "value");
	for (uint32_t i = 0; i < array->n && i < SHOWN_ELEMENTS; i++) {
		uint64_t at = array->first + (uint64_t)i * array->stride;
		CLEANUP(buf_free) struct buf value = { 0 };
		struct heap_field f = { .name = "", .type = array->type->element, .element = HEAP_STRUCT };
		uint64_t raw = 0;
		size_t got = 0;
		if (refs)
			f.element = HEAP_CLASS;
		struct heap_fields inner = { 0 };
		if (!refs && element)
			inner = heap_fields(in->heap, element);
		/* A primitive is a structure around one number of its own kind. */
		if (!refs && inner.n && !inner.v[0].is_static && str_eq(inner.v[0].name, "m_value"))
			f.element = inner.v[0].element;
		if (!refs && !element) {
			image_read(in->look.image, at, &raw, MIN(array->stride, 8u), &got);
			buf_printf(&value, "0x%llx", (unsigned long long)raw);
		} else {
			inspect_add_value(in, &f, at, &value);
		}
		ANSWER_ROW(a, C_COUNT(i), C_TEXT(buf_cstr(&value)));
	}
	if (array->n > SHOWN_ELEMENTS)
		answer_line(a, "%s more", fmt_count(array->n - SHOWN_ELEMENTS).s);
}

static void add_lock(struct inspect *in, uint64_t object, struct answer *a)
{
	struct heap_header h;
	if (!heap_header(in->heap, object, &h))
		return;
	if (h.thin_owner)
		answer_line(a, "locked by thread %u%s", h.thin_owner, h.recursion ? ", more than once" : "");
	else if (h.sync_block)
		answer_line(a, "has sync block %u; 'locks' says whether it is locked", h.sync_block);
}

/* A structure has no header: the asker must know its type. */
static struct err *show_struct(struct inspect *in, const char *const *words, struct answer *a)
{
	struct dac_addresses found = { 0 };
	struct heap *heap;
	uint64_t address;
	CLEANUP(buf_free) struct buf name = { 0 };
	TRY(inspect_address(words[0], &address));
	TRY(inspect_heap(in, &heap));
	struct err *err = inspect_find_types(in, words[1], &found);
	const struct heap_type *type = !err && found.n == 1 ? heap_type(heap, found.v[0]) : NULL;
	size_t n = found.n;
	dac_addresses_free(&found);
	if (err)
		return err;
	str_add_visible(&name, words[1], strlen(words[1]), 100);
	if (!type)
		return err_new(ERR_NOT_FOUND, "%zu loaded types are called '%s'; 'type' lists them", n,
			       buf_cstr(&name));
	if (!heap_is_struct(heap, type))
		return err_new(ERR_USAGE, "%s is no structure: give its address alone", buf_cstr(&name));
	add_fields(in, type, address, a);
	return NULL;
}

struct err *inspect_show_object(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	uint64_t object;
	uint32_t units;
	struct heap_array array;
	CLEANUP(buf_free) struct buf name = { 0 }, text = { 0 }, calls = { 0 };
	if (n > 1)
		return show_struct(in, words, a);
	TRY(inspect_object(in, words[0], &object));
	const struct heap_type *type = heap_type_of(in->heap, object);
	if (!type)
		return err_new(ERR_NOT_FOUND, "0x%llx has no type that can be read", (unsigned long long)object);
	const struct heap_region *region = heap_region_at(&in->outline, object);
	inspect_add_type(in, type, &name);
	answer_line(a, "%s at 0x%llx, %s, generation %s, method table 0x%llx", buf_cstr(&name),
		    (unsigned long long)object, fmt_bytes(heap_size_of(in->heap, object)).s,
		    region ? generation_names[region->generation] : "?", (unsigned long long)type->address);
	add_lock(in, object, a);
	if (type->kind == HEAP_STRING && heap_string(in->heap, object, SHOWN_TEXT, &text, &units)) {
		CLEANUP(buf_free) struct buf shown = { 0 };
		str_add_visible(&shown, buf_cstr(&text), text.len, 0);
		answer_line(a, "\"%s%s\"", buf_cstr(&shown), units > SHOWN_TEXT ? "…" : "");
		answer_line(a, "%s", fmt_plural(units, "character", "characters").s);
	} else if (type->kind == HEAP_ARRAY && heap_array(in->heap, object, &array)) {
		answer_line(a, "%s", fmt_plural(array.n, "element", "elements").s);
		add_elements(in, &array, a);
	} else {
		if (heap_field(in->heap, type, "_methodPtr") && heap_field(in->heap, type, "_target"))
			inspect_add_delegate(in, (struct heap_value){ type, object + 8 }, &calls);
		if (calls.len)
			answer_line(a, "calls %s", buf_cstr(&calls));
		add_fields(in, type, object + 8, a);
	}
	return NULL;
}

/* ---- type ---- */

struct err *inspect_find_types(struct inspect *in, const char *wanted, struct dac_addresses *ret)
{
	const struct dac_modules *modules;
	const struct heap_type *exact = NULL;
	if (strchr(wanted, '!')) {
		uint64_t type;
		TRY(inspect_token(in, wanted, INSPECT_TYPE, &type));
		vec_push(ret, type);
		return NULL;
	}
	TRY(dac_modules(in->look.dac, &modules));
	vec_each(m, modules) {
		struct dac_addresses types = { 0 };
		CLEANUP(err_freep) struct err *err = dac_module_types(in->look.dac, m->address, &types);
		if (!err)
			err = dac_learn_types(in->look.dac, types.v, types.n);
		vec_each(address, &types) {
			const struct dac_type *t = err ? NULL : dac_type(in->look.dac, *address);
			CLEANUP(buf_free) struct buf shown = { 0 };
			if (!t || !t->known)
				continue;
			type_show(t->name, &shown);
			if (inspect_type_fits(buf_cstr(&shown), wanted) || str_eq(t->name, wanted))
				vec_push(ret, *address);
		}
		dac_addresses_free(&types);
		TRY(inspect_go_on(in));
	}
	if (!ret->n)
		TRY(heap_find_type(in->heap, NULL, wanted, &exact));
	if (exact)
		vec_push(ret, exact->address);
	return NULL;
}

static void add_statics(struct inspect *in, const struct heap_type *type, struct answer *a)
{
	struct heap_fields fields = heap_fields(in->heap, type);
	answer_table(a, "Static fields", "field", "type", "value");
	for (size_t i = 0; i < fields.n; i++) {
		const struct heap_field *f = &fields.v[i];
		CLEANUP(buf_free) struct buf kind = { 0 }, value = { 0 };
		uint64_t slot;
		if (!f->is_static)
			continue;
		add_field_type(in, f, &kind);
		if (f->is_thread_static)
			buf_str(&value, "(one for each thread)");
		else if (!heap_static_slot(in->heap, 0, type, f->name, &slot, NULL))
			buf_str(&value, "(not made yet)");
		else
			inspect_add_value(in, f, slot, &value);
		ANSWER_ROW(a, C_TEXT(f->name), C_TEXT(buf_cstr(&kind)), C_TEXT(buf_cstr(&value)));
	}
}

static void describe_type(struct inspect *in, const struct heap_type *type, struct answer *a)
{
	CLEANUP(buf_free) struct buf name = { 0 }, base = { 0 };
	const struct heap_type *parent = type->parent ? heap_type(in->heap, type->parent) : NULL;
	inspect_add_type(in, type, &name);
	if (parent)
		inspect_add_type(in, parent, &base);
	answer_line(a, "%s of %s, method table 0x%llx", buf_cstr(&name), heap_module_file(in->heap, type),
		    (unsigned long long)type->address);
	if (base.len)
		answer_line(a, "derived from %s; an instance takes %s%s", buf_cstr(&base), fmt_bytes(type->base_size).s,
			    type->component_size ? " and what its elements take" : "");
	struct heap_fields fields = heap_fields(in->heap, type);
	bool statics = false;
	answer_table(a, "Fields", "offset", "field", "type");
	for (size_t i = 0; i < fields.n; i++) {
		CLEANUP(buf_free) struct buf kind = { 0 };
		statics |= fields.v[i].is_static;
		if (fields.v[i].is_static)
			continue;
		add_field_type(in, &fields.v[i], &kind);
		ANSWER_ROW(a, C_COUNT(fields.v[i].offset + 8), C_TEXT(fields.v[i].name), C_TEXT(buf_cstr(&kind)));
	}
	if (statics)
		add_statics(in, type, a);
}

struct err *inspect_type(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct dac_addresses found = { 0 };
	struct heap *heap;
	(void)n;
	TRY(inspect_heap(in, &heap));
	struct err *err = inspect_find_types(in, words[0], &found);
	if (!err && !found.n) {
		CLEANUP(buf_free) struct buf name = { 0 };
		str_add_visible(&name, words[0], strlen(words[0]), 100);
		err = err_new(ERR_NOT_FOUND,
			      "no loaded type is called '%s'; a part of a name stands between stars: *Order*",
			      buf_cstr(&name));
	}
	const struct heap_type *one = !err && found.n == 1 ? heap_type(heap, found.v[0]) : NULL;
	if (one) {
		describe_type(in, one, a);
	} else if (!err) {
		answer_table(a, NULL, "method table", "type");
		for (size_t i = 0; i < found.n && i < SHOWN_TYPES; i++) {
			CLEANUP(buf_free) struct buf name = { 0 };
			const struct heap_type *type = heap_type(heap, found.v[i]);
			if (type)
				inspect_add_type(in, type, &name);
			ANSWER_ROW(a, C_ADDRESS(found.v[i]), C_TEXT(buf_cstr(&name)));
		}
		answer_line(a, "%zu types have such a name: give the whole name of one", found.n);
	}
	dac_addresses_free(&found);
	return err;
}

/* ---- verify-heap ---- */

struct err *inspect_verify_heap(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	(void)words, (void)n;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++)
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(in));
	struct heap_health health = heap_walk_health(walk);
	add_health(&health, a);
	CLEANUP(err_freep) struct err *doubt = heap_walk_check(walk);
	if (doubt)
		answer_line(a, "the runtime's own library sees other objects: %s", err_text(doubt));
	if (!heap_facts(heap)->heap_valid)
		answer_line(a, "a collection was at work when this was taken");
	if (!doubt && !health.lost_bytes)
		answer_line(a, "the heap is whole: every object has a type and ends where the next begins");
	return NULL;
}

/* ---- find-string ---- */

struct err *inspect_find_string(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	uint64_t hits = 0;
	(void)n;
	if (!*words[0])
		return err_new(ERR_USAGE, "find-string needs a text");
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	CLEANUP(buf_free) struct buf text = { 0 };
	answer_table(a, NULL, "object", "characters", "text");
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		if (i % 4096 == 0)
			TRY(inspect_go_on(in));
		if (found.type->kind != HEAP_STRING)
			continue;
		buf_clear(&text);
		const uint8_t *units =
			heap_walk_bytes(walk, &found, 12, MIN((size_t)found.n * 2, (size_t)SEARCHED_UNITS));
		if (!units)
			continue;
		utf16_add(&text, units, MIN(found.n, SEARCHED_UNITS / 2u));
		if (!strstr(buf_cstr(&text), words[0]) || hits++ >= SHOWN_STRINGS)
			continue;
		ANSWER_ROW(a, C_ADDRESS(found.address), C_COUNT(found.n), C_TEXT(buf_cstr(&text)));
	}
	if (!hits)
		answer_line(a, "no string contains it");
	if (hits > SHOWN_STRINGS)
		answer_line(a, "%s more", fmt_count(hits - SHOWN_STRINGS).s);
	return NULL;
}

/* ---- gcheap ---- */

struct err *inspect_gcheap(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *o;
	(void)words, (void)n;
	TRY(inspect_outline(in, &o));
	answer_line(a, "%s collector, %s, %s", o->server ? "server" : "workstation",
		    fmt_plural(o->n_heaps, "heap", "heaps").s, o->uses_regions ? "regions" : "segments");
	answer_table(a, NULL, "heap", "generation", "regions", "bytes");
	for (uint32_t heap = 0; heap < MAX(o->n_heaps, 1u) && heap < 1024; heap++)
		for (unsigned g = 0; g < HEAP_GENERATIONS; g++) {
			uint64_t regions = 0, bytes = 0;
			for (size_t i = 0; i < o->regions.n; i++) {
				const struct heap_region *r = &o->regions.v[i];
				if (r->heap != heap || r->generation != g)
					continue;
				regions++;
				bytes += r->end - r->start;
			}
			if (regions)
				ANSWER_ROW(a, C_COUNT(heap), C_TEXT(generation_names[g]), C_COUNT(regions),
					   C_BYTES(bytes));
		}
	if (o->left_out)
		answer_line(a, "%s made no sense and were left out", fmt_plural(o->left_out, "region", "regions").s);
	return NULL;
}
