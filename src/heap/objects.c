/* Reads the content of objects: fields, strings, arrays, headers. */

#include "base/str.h"
#include "heap/internal.h"
#include <string.h>

enum { OBJECT_FIELDS = 8, OBJECT_COUNT = 8, STRING_UNITS = 12 };

bool heap_object(struct heap *h, uint64_t object, struct heap_value *ret)
{
	const struct heap_type *type = heap_type_of(h, object);
	if (!type || type->kind == HEAP_FREE)
		return false;
	*ret = (struct heap_value){ type, object + OBJECT_FIELDS };
	return true;
}

static const struct heap_field *instance_field(struct heap *h, struct heap_value v, const char *name)
{
	const struct heap_field *f = v.type ? heap_field(h, v.type, name) : NULL;
	return f && !f->is_static ? f : NULL;
}

bool heap_get_ref(struct heap *h, struct heap_value v, const char *field, uint64_t *ret)
{
	const struct heap_field *f = instance_field(h, v, field);
	return f && f->element == HEAP_CLASS && heap_read_u64(h, v.fields + f->offset, ret);
}

bool heap_get_object(struct heap *h, struct heap_value v, const char *field, struct heap_value *ret)
{
	uint64_t object;
	return heap_get_ref(h, v, field, &object) && heap_object(h, object, ret);
}

bool heap_read_int(const struct heap *h, uint64_t addr, enum heap_element element, int64_t *ret)
{
	uint64_t raw = 0;
	size_t size = heap_element_size(element);
	if (!size || element == HEAP_CLASS || element == HEAP_R4 || element == HEAP_R8 ||
	    !heap_read(h, addr, &raw, size))
		return false;
	unsigned spare = 64 - 8 * (unsigned)size;
	bool is_signed = element == HEAP_I1 || element == HEAP_I2 || element == HEAP_I4;
	*ret = is_signed ? (int64_t)(raw << spare) >> spare : (int64_t)raw;
	return true;
}

bool heap_get_int(struct heap *h, struct heap_value v, const char *field, int64_t *ret)
{
	const struct heap_field *f = instance_field(h, v, field);
	return f && heap_read_int(h, v.fields + f->offset, f->element, ret);
}

bool heap_get_struct(struct heap *h, struct heap_value v, const char *field, struct heap_value *ret)
{
	const struct heap_field *f = instance_field(h, v, field);
	const struct heap_type *type = f && f->element == HEAP_STRUCT ? heap_type(h, f->type) : NULL;
	if (!type)
		return false;
	*ret = (struct heap_value){ type, v.fields + f->offset };
	return true;
}

bool heap_get_string(struct heap *h, struct heap_value v, const char *field, size_t max_units, struct buf *out)
{
	uint64_t object;
	return heap_get_ref(h, v, field, &object) && heap_string(h, object, max_units, out, NULL);
}

bool heap_string(struct heap *h, uint64_t object, size_t max_units, struct buf *out, uint32_t *ret_units)
{
	const struct heap_type *type = heap_type_of(h, object);
	uint32_t n;
	if (!type || type->kind != HEAP_STRING || !heap_read_u32(h, object + OBJECT_COUNT, &n) || n > INT32_MAX)
		return false;
	uint64_t at = object + STRING_UNITS;
	uint64_t end = at + 2 * MIN((uint64_t)n, (uint64_t)max_units);
	size_t before = out->len;
	/* A portion at a time, so that a length costs nothing before its text was seen. Surrogates stay together. */
	while (at < end) {
		uint8_t units[4096];
		size_t len = MIN(sizeof(units), (size_t)(end - at));
		if (!heap_read(h, at, units, len)) {
			out->len = before;
			return false;
		}
		bool torn = at + len < end && (units[len - 1] & 0xFC) == 0xD8;
		len -= torn ? 2 : 0;
		utf16_add(out, units, len / 2);
		at += len;
	}
	if (ret_units)
		*ret_units = n;
	return true;
}

bool heap_array(struct heap *h, uint64_t object, struct heap_array *ret)
{
	const struct heap_type *type = heap_type_of(h, object);
	uint32_t n;
	if (!type || type->kind != HEAP_ARRAY || !heap_read_u32(h, object + OBJECT_COUNT, &n) || n > INT32_MAX)
		return false;
	*ret = (struct heap_array){
		.type = type,
		.object = object,
		.first = object + type->base_size - 8, /* behind lengths and bounds of the dimensions */
		.n = n,
		.stride = type->component_size,
	};
	return true;
}

bool heap_element_ref(struct heap *h, const struct heap_array *a, uint32_t i, uint64_t *ret)
{
	const struct heap_type *element = heap_type(h, a->type->element);
	return i < a->n && a->type->has_refs && a->stride == 8 && !(element && heap_is_struct(h, element)) &&
	       heap_read_u64(h, a->first + 8ull * i, ret);
}

bool heap_element_struct(struct heap *h, const struct heap_array *a, uint32_t i, struct heap_value *ret)
{
	const struct heap_type *element = i < a->n ? heap_type(h, a->type->element) : NULL;
	if (!element || !heap_is_struct(h, element))
		return false;
	*ret = (struct heap_value){ element, a->first + (uint64_t)a->stride * i };
	return true;
}

bool heap_header(struct heap *h, uint64_t object, struct heap_header *ret)
{
	enum { IS_INDEX_OR_HASH = 0x08000000, IS_HASH = 0x04000000, SPIN = 0x10000000, LOW_26 = 0x03FFFFFF };
	uint32_t word;
	if (!heap_type_of(h, object) || !heap_read_u32(h, object - 4, &word))
		return false;
	*ret = (struct heap_header){ 0 };
	if (word & IS_INDEX_OR_HASH) {
		if (word & IS_HASH)
			ret->hash = word & LOW_26;
		else
			ret->sync_block = word & LOW_26;
	} else if (!(word & SPIN) && (word & 0xFFFF)) {
		ret->thin_owner = word & 0xFFFF;
		ret->recursion = (word >> 16) & 0x3F;
	}
	return true;
}
