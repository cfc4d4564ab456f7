/* The part: u32 dead, u8 cut, u32 n holders: u32 length, name, u32 threads each */

#include "threads/kept_threads.h"
#include "base/map.h"
#include "eventpipe/methods.h"
#include "heap/objects.h"
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 4
#define OBJECTS_MAX 300000
#define HOLDERS_MAX 100
#define NAME_MAX_BYTES 1000

void kept_threads_free(struct kept_threads *k)
{
	vec_each(h, &k->holders)
		mem_free(h->name);
	vec_free(&k->holders);
}

struct kept_search {
	const struct whose_names *whose;
	struct heap *heap;
	const struct heap_type *thread;
	struct map_u64 living; /* managed ids */
	struct map_u64 met;    /* objects */
	VEC(uint64_t) now, later;
	uint32_t found;
	bool cut;
};

static void meet(struct kept_search *x, uint64_t object)
{
	struct heap_value value;
	int64_t id;
	bool new;
	if (!object || (x->met.n >= OBJECTS_MAX && (x->cut = true)))
		return;
	map_u64_put(&x->met, object, &new);
	if (!new || !heap_object(x->heap, object, &value))
		return;
	if (value.type == x->thread) {
		x->found += heap_get_int(x->heap, value, "_managedThreadId", &id) && id > 0 &&
			    !map_u64_get(&x->living, (uint64_t)id);
		return;
	}
	vec_push(&x->later, object);
}

static void meet_fields(struct kept_search *x, struct heap_value value)
{
	struct heap_fields fields = heap_fields(x->heap, value.type);
	for (size_t i = 0; i < fields.n; i++) {
		uint64_t object;
		if (!fields.v[i].is_static && fields.v[i].element == HEAP_CLASS &&
		    heap_read_u64(x->heap, value.fields + fields.v[i].offset, &object))
			meet(x, object);
	}
}

static void meet_elements(struct kept_search *x, const struct heap_array *array)
{
	for (uint32_t i = 0; i < array->n && !x->cut; i++) {
		uint64_t object;
		struct heap_value value;
		if (heap_element_ref(x->heap, array, i, &object))
			meet(x, object);
		else if (heap_element_struct(x->heap, array, i, &value))
			meet_fields(x, value);
		else
			return;
	}
}

/* Dead threads that can be reached from an object in a few steps and that no field before it has reached. */
static uint32_t count_from(struct kept_search *x, uint64_t object)
{
	x->found = 0;
	vec_clear(&x->later);
	meet(x, object);
	for (size_t step = 0; step < STEPS_MAX && x->later.n; step++) {
		vec_clear(&x->now);
		vec_each(o, &x->later)
			vec_push(&x->now, *o);
		vec_clear(&x->later);
		vec_each(o, &x->now) {
			struct heap_array array;
			struct heap_value value;
			const struct heap_type *type = heap_type_of(x->heap, *o);
			if (!type || !type->has_refs)
				continue;
			if (heap_array(x->heap, *o, &array))
				meet_elements(x, &array);
			else if (heap_object(x->heap, *o, &value))
				meet_fields(x, value);
		}
	}
	return x->found;
}

static int most_first(const void *a, const void *b)
{
	const struct kept_holder *x = a, *y = b;
	return CMP(y->n, x->n);
}

static void find_holders(struct kept_search *x, struct kept_threads *ret)
{
	struct heap_statics statics = { 0 };
	struct err *err = heap_statics(x->heap, NULL, &statics);
	vec_each(st, &statics) {
		/* Those of the platform know all threads anyway. */
		if (method_is_framework(x->whose, st->type->name))
			continue;
		uint32_t n = count_from(x, st->object);
		if (!n)
			continue;
		CLEANUP(buf_free) struct buf name = { 0 };
		type_show(st->type->name, &name);
		buf_printf(&name, ".%s", st->field->name);
		vec_push(&ret->holders, ((struct kept_holder){ mem_strndup(buf_cstr(&name), NAME_MAX_BYTES), n }));
	}
	err_free(err);
	heap_statics_free(&statics);
	vec_sort(&ret->holders, most_first);
}

static void write_kept(const struct kept_threads *k, struct buf *out)
{
	uint32_t n = (uint32_t)MIN(k->holders.n, (size_t)HOLDERS_MAX);
	buf_u32(out, k->dead);
	buf_char(out, k->cut);
	buf_u32(out, n);
	for (uint32_t i = 0; i < n; i++) {
		buf_text(out, k->holders.v[i].name, strlen(k->holders.v[i].name));
		buf_u32(out, k->holders.v[i].n);
	}
}

void kept_threads_drain(struct image_exam *look, struct buf *out)
{
	struct kept_threads kept = { 0 };
	struct dac_threads threads = { 0 };
	struct kept_search x = { .whose = look->whose };
	struct err *err = dac_threads(look->dac, &threads);
	vec_each(t, &threads) {
		if (!t->os_id && !(t->state & DAC_THREAD_UNSTARTED))
			kept.dead++;
		else if (t->managed_id)
			map_u64_put(&x.living, t->managed_id, NULL);
	}
	if (!err && kept.dead)
		err = heap_open(look->image, look->dac, &x.heap);
	if (!err && x.heap)
		err = heap_find_type(x.heap, "System.Private.CoreLib.dll", "System.Threading.Thread", &x.thread);
	if (!err && x.thread)
		find_holders(&x, &kept);
	kept.cut = x.cut;
	write_kept(&kept, out);
	err_free(err);
	kept_threads_free(&kept);
	dac_threads_free(&threads);
	heap_close(x.heap);
	map_u64_free(&x.living);
	map_u64_free(&x.met);
	vec_free(&x.now);
	vec_free(&x.later);
}

struct err *kept_threads_take(struct kept_threads *ret, struct cursor *in)
{
	struct kept_threads k = { .dead = cursor_u32(in) };
	k.cut = cursor_u8(in);
	uint32_t n = cursor_u32(in);
	in->bad |= n > HOLDERS_MAX;
	for (uint32_t i = 0; i < n && cursor_ok(in); i++) {
		size_t len;
		const char *name = cursor_text(in, NAME_MAX_BYTES, &len);
		if (name)
			vec_push(&k.holders, ((struct kept_holder){ mem_strndup(name, len), cursor_u32(in) }));
	}
	if (!cursor_ok(in)) {
		kept_threads_free(&k);
		return err_new(ERR_BAD_DATA, "the recording's list of ended threads is damaged");
	}
	*ret = k;
	return NULL;
}
