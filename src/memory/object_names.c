#include "memory/object_names.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/methods.h"
#include "memory/heap_look.h"
#include <string.h>

#define STEPS_MAX 10
#define PASSES_MAX 100
#define OBJECTS_MAX 300000u /* that lead to what is asked for */
#define LINKS_MAX 2000000u

struct names_link {
	uint64_t to, from;
};

struct names_search {
	const struct object_names *in;
	struct map_u64 statics; /* object -> index in statics + 1 */
	struct map_u64 met;	/* object -> step in which it was found + 1 */
	struct map_u64 names;	/* object -> string + 1 */
	VEC(struct names_link) links;
	uint64_t step, from; /* of the walk at work; from: the object whose references are read */
	const struct heap_type *from_type;
	bool more; /* something new was found */
};

static void set_name(struct names_search *x, uint64_t object, const char *name)
{
	*map_u64_put(&x->names, object, NULL) = strtab_add_cstr(x->in->strings, name) + 1ull;
}

/* ---- names ---- */

/* A type of the application that was written by a person: names of lambdas and state machines are not known to its
 * author. */
static bool is_own(const struct names_search *x, const struct heap_type *type)
{
	size_t plain = strcspn(type->name, "`[");
	return type->kind == HEAP_OBJECT && *type->name && !memchr(type->name, '<', plain) &&
	       !method_is_framework(x->in->whose, type->name);
}

static bool name_static(struct names_search *x, uint64_t object)
{
	const uint64_t *index = map_u64_get(&x->statics, object);
	if (!index)
		return false;
	const struct heap_static *st = &x->in->statics->v[*index - 1];
	CLEANUP(buf_free) struct buf name = { 0 };
	type_show(st->type->name, &name);
	buf_char(&name, '.');
	heap_field_name(st->field->name, &name);
	set_name(x, object, buf_cstr(&name));
	return true;
}

/* "Shop.Orders._waiting": the field of an own object that refers to the other. */
static bool name_field(struct names_search *x, uint64_t from, const struct heap_type *type, uint64_t to)
{
	struct heap_fields fields = heap_fields(x->in->heap, type);
	for (size_t i = 0; i < fields.n; i++) {
		uint64_t held;
		if (fields.v[i].is_static || fields.v[i].element != HEAP_CLASS ||
		    !heap_read_u64(x->in->heap, from + 8 + fields.v[i].offset, &held) || held != to)
			continue;
		CLEANUP(buf_free) struct buf name = { 0 };
		type_show(type->name, &name);
		buf_char(&name, '.');
		heap_field_name(fields.v[i].name, &name);
		set_name(x, to, buf_cstr(&name));
		return true;
	}
	return false;
}

/* What a lambda keeps lies in an object that the compiler made: the method it was written in is all that is known. */
static bool name_lambda(const struct names_search *x, const struct heap_type *type, struct buf *out)
{
	const char *made = strstr(type->name, "+<>c__DisplayClass");
	if (!made || method_is_framework(x->in->whose, type->name))
		return false;
	CLEANUP(mem_freep) char *within = mem_strndup(type->name, (size_t)(made - type->name));
	buf_str(out, "a lambda of ");
	type_show(within, out);
	return true;
}

static bool name_itself(struct names_search *x, uint64_t object, const struct heap_type *type)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	if (!(x->in->name && x->in->name(x->in->user, object, &name)) && !name_lambda(x, type, &name))
		return false;
	set_name(x, object, buf_cstr(&name));
	return true;
}

/* ---- the search ---- */

/* Referrers that end the search give a name; others are searched in the next step. */
static void meet(struct names_search *x, uint64_t to)
{
	if (is_own(x, x->from_type) && name_field(x, x->from, x->from_type, to))
		return;
	if (x->links.n >= LINKS_MAX || x->met.n >= OBJECTS_MAX)
		return;
	bool new;
	uint64_t *step = map_u64_put(&x->met, x->from, &new);
	vec_push(&x->links, ((struct names_link){ to, x->from }));
	if (!new)
		return;
	*step = x->step + 2;
	if (!name_static(x, x->from) && !name_itself(x, x->from, x->from_type))
		x->more = true;
}

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	struct names_search *x = user;
	(void)at;
	for (size_t i = 0; i < n; i++) {
		const uint64_t *step = refs[i] ? map_u64_get(&x->met, refs[i]) : NULL;
		if (!step || *step != x->step + 1 || refs[i] == x->from || map_u64_get(&x->names, refs[i]))
			continue;
		if (!x->in->skip || !x->in->skip(x->in->user, x->from, refs[i]))
			meet(x, refs[i]);
	}
}

static void walk(struct names_search *x)
{
	struct heap_found found;
	CLEANUP(heap_walk_freep) struct heap_walk *w = heap_walk_new(x->in->heap, x->in->outline);
	while (heap_walk_next(w, &found)) {
		if (!found.type->has_refs)
			continue;
		x->from = found.address;
		x->from_type = found.type;
		heap_walk_refs(w, &found, on_refs, x);
	}
}

static void hand_down_once(struct names_search *x)
{
	for (size_t i = x->links.n; i-- > 0;) {
		const struct names_link *l = &x->links.v[i];
		const uint64_t *name = map_u64_get(&x->names, l->from);
		if (name && !map_u64_get(&x->names, l->to)) {
			uint64_t string = *name;
			*map_u64_put(&x->names, l->to, NULL) = string;
		}
	}
}
/* Names are passed down again along the links: what was found last is farthest up. Lists may refer to each other, so
 * that takes more than one round. */
static void hand_down(struct names_search *x)
{
	size_t before = x->names.n + 1;
	for (size_t pass = 0; pass < PASSES_MAX && before != x->names.n; pass++) {
		before = x->names.n;
		hand_down_once(x);
	}
}

static bool all_named(const struct names_search *x, const struct object_name *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!map_u64_get(&x->names, v[i].object))
			return false;
	return true;
}

void object_names_find(const struct object_names *in, struct object_name *v, size_t n)
{
	struct names_search x = { .in = in };
	/* Fields of the platform are not informative. */
	for (size_t i = 0; i < in->statics->n; i++)
		if (!method_is_framework(in->whose, in->statics->v[i].type->name))
			*map_u64_put(&x.statics, in->statics->v[i].object, NULL) = i + 1;
	for (size_t i = 0; i < n && x.met.n < OBJECTS_MAX; i++) {
		*map_u64_put(&x.met, v[i].object, NULL) = 1;
		x.more |= !name_static(&x, v[i].object);
	}
	for (; x.step < STEPS_MAX && x.more; x.step++) {
		x.more = false;
		walk(&x);
		hand_down(&x);
		x.more &= !all_named(&x, v, n);
	}
	struct map_u64 referred = { 0 };
	vec_each(l, &x.links)
		map_u64_put(&referred, l->to, NULL);
	for (size_t i = 0; i < n; i++) {
		const uint64_t *name = map_u64_get(&x.names, v[i].object);
		v[i].name = name ? strtab_get(in->strings, (uint32_t)(*name - 1)) : NULL;
		v[i].referred = name || map_u64_get(&referred, v[i].object);
	}
	map_u64_free(&referred);
	map_u64_free(&x.statics);
	map_u64_free(&x.met);
	map_u64_free(&x.names);
	vec_free(&x.links);
}
