/* By what an operation is known again when the collector has moved it: the arguments and locals of its methods. */

#include "base/str.h"
#include "threads/async_chains_find.h"
#include <string.h>

#define TEXT_UNITS 64
#define DEPTH_MAX 2 /* structures in structures: a Guid, a key */

bool async_chains_machine(struct finder *f, struct heap_value box, struct heap_value *ret, uint64_t *ret_object)
{
	*ret_object = 0;
	/* A structure; in debug builds and of iterators an object. */
	return heap_get_struct(f->heap, box, "StateMachine", ret) ||
	       (heap_get_object(f->heap, box, "StateMachine", ret) &&
		heap_get_ref(f->heap, box, "StateMachine", ret_object));
}

/* The compiler's own: the state is in the chain's mark, builder and awaiters hold references. */
static bool is_machinery(const char *field)
{
	return str_eq(field, "<>1__state") || str_eq(field, "<>t__builder") || strstr(field, ">u__");
}

struct machine_content {
	uint64_t hash;
	bool says; /* there is a text, or a number that is not 0 */
};

static void add_bytes(struct machine_content *c, const struct heap_field *field, const void *bytes, size_t len)
{
	c->hash = hash_bytes(bytes, len, hash_u64(c->hash + field->offset));
}

static void add_fields(struct finder *f, struct heap_value value, unsigned depth, struct machine_content *c)
{
	struct heap_fields fields = heap_fields(f->heap, value.type);
	for (size_t i = 0; i < fields.n; i++) {
		const struct heap_field *field = &fields.v[i];
		struct heap_value inner;
		CLEANUP(buf_free) struct buf text = { 0 };
		int64_t number;
		if (field->is_static || is_machinery(field->name))
			continue;
		if (field->element == HEAP_STRUCT) {
			if (depth < DEPTH_MAX && heap_get_struct(f->heap, value, field->name, &inner))
				add_fields(f, inner, depth + 1, c);
		} else if (field->element == HEAP_CLASS) {
			const struct heap_field *own = heap_field(f->heap, value.type, field->name);
			const struct heap_type *type = own && own->type ? heap_type(f->heap, own->type) : NULL;
			if (!type || type->kind != HEAP_STRING ||
			    !heap_get_string(f->heap, value, field->name, TEXT_UNITS, &text))
				continue;
			add_bytes(c, field, text.data, text.len);
			c->says |= text.len > 0;
		} else if (heap_get_int(f->heap, value, field->name, &number)) {
			add_bytes(c, field, &number, sizeof(number));
			c->says |= number && field->element != HEAP_BOOLEAN;
		}
	}
}

bool async_chains_content(struct finder *f, const struct box *box, uint64_t *hash)
{
	struct heap_value value, machine;
	uint64_t object;
	struct machine_content c = { .hash = *hash };
	if (!heap_object(f->heap, box->address, &value) || !async_chains_machine(f, value, &machine, &object))
		return false;
	add_fields(f, machine, 0, &c);
	*hash = c.hash;
	return c.says;
}
