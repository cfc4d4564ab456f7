/* Types that a program makes at run time (proxies, serializers). The runtime's library cannot read their names, which
 * are not in a file; but the object that made them, a RuntimeTypeBuilder, still has the name and refers to the type. */

#include "base/str.h"
#include "heap/internal.h"

#define NAME_UNITS 1024
/* What the library says instead. */
#define NAMELESS "<Unloaded Type>"

bool emitted_is_builder(const struct heap_type *type)
{
	return str_eq(type->name, "System.Reflection.Emit.RuntimeTypeBuilder");
}

void emitted_note(struct heap *h, uint64_t builder, struct emitted *list)
{
	struct heap_value v, made;
	int64_t method_table;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (!heap_object(h, builder, &v) || !heap_get_object(h, v, "m_bakedRuntimeType", &made) ||
	    !heap_get_int(h, made, "m_handle", &method_table))
		return;
	if (!heap_get_string(h, v, "m_strFullQualName", NAME_UNITS, &name)) {
		if (heap_get_string(h, v, "m_strNameSpace", NAME_UNITS, &name) && name.len)
			buf_char(&name, '.');
		heap_get_string(h, v, "m_strName", NAME_UNITS, &name);
	}
	if (name.len)
		vec_push(list,
			 ((struct emitted_type){ (uint64_t)method_table, arena_strdup(&h->arena, buf_cstr(&name)) }));
}

void emitted_name(struct heap *h, const struct emitted *list)
{
	vec_each(e, list) {
		const uint64_t *at = map_u64_get(&h->by_address, e->method_table);
		struct type_entry *entry = at && *at ? h->types.v[*at - 1] : NULL;
		if (entry && str_eq(entry->type.name, NAMELESS))
			entry->type.name = e->name;
	}
}
