/* What keeps objects alive, with the names of the source code: static fields, stacks, handles, the finalizer. */

#include "heap/internal.h"
#include "heap/drain_internal.h"
#include "base/str.h"
#include "base/vec.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_root(struct roots *r, struct heapgraph_writer *w, enum graph_root kind, const char *name,
		     const char *thread, const uint64_t *objects, size_t n)
{
	heapgraph_write_root(w, kind, name, thread, objects, n);
	for (size_t i = 0; i < n; i++)
		vec_push(&r->objects, objects[i]);
}

/* ---- threads ---- */

/* Thread.Name, else the number that the kernel gave it. */
static const char *thread_label(struct roots *r, uint64_t address)
{
	vec_each(t, &r->threads) {
		if (t->address != address)
			continue;
		if (!str_empty(t->name))
			return t->name;
		if (t->os_id && t->os_id == (uint32_t)image_pid(r->h->image))
			return "main";
		return t->finalizer ? "finalizer" : arena_printf(&r->arena, "%u", t->os_id);
	}
	return "";
}

/* One reference of a stack: its holder is a method's description, 0 = not known. */
struct root_held {
	uint64_t method, object;
};

static int by_method(const void *a, const void *b)
{
	const struct root_held *x = a, *y = b;
	return CMP(x->method, y->method) ?: CMP(x->object, y->object);
}

static uint64_t method_of(const struct dac_stack *stack, const struct dac_ref *ref)
{
	vec_each(f, stack)
		if ((f->frame && f->frame == ref->source) || (!f->frame && f->ip == ref->source))
			return f->method;
	return 0;
}

VEC_TYPE(held_list, struct root_held);

static void write_held(struct roots *r, struct heapgraph_writer *w, const struct held_list *held, const char *thread)
{
	struct addresses objects = { 0 };
	for (size_t i = 0; i < held->n; i++) {
		if (!objects.n || vec_last(&objects) != held->v[i].object)
			vec_push(&objects, held->v[i].object);
		if (i + 1 < held->n && held->v[i + 1].method == held->v[i].method)
			continue;
		const struct dac_method *m = held->v[i].method ? dac_method(r->dac, held->v[i].method) : NULL;
		put_root(r, w, GRAPH_STACK, m ? m->name : "", thread, objects.v, objects.n);
		vec_clear(&objects);
	}
	vec_free(&objects);
}

static struct err *thread_roots(struct roots *r, struct heapgraph_writer *w, const struct dac_thread *t)
{
	struct dac_refs refs = { 0 };
	struct dac_stack stack = { 0 };
	struct held_list held = { 0 };
	struct addresses methods = { 0 };
	TRY(dac_stack_refs(r->dac, t->os_id, &refs));
	/* Without its frames the names are missing, no more. */
	if (refs.n)
		err_ignore(dac_stack(r->dac, t->os_id, &stack));
	vec_each(ref, &refs)
		if (ref->object) {
			struct root_held one = { method_of(&stack, ref), ref->object };
			vec_push(&held, one);
			vec_push(&methods, one.method);
		}
	err_ignore(dac_learn_methods(r->dac, methods.v, methods.n));
	vec_sort(&held, by_method);
	write_held(r, w, &held, thread_label(r, t->address));
	dac_refs_free(&refs);
	dac_stack_free(&stack);
	vec_free(&held);
	vec_free(&methods);
	return NULL;
}

static void stack_roots(struct roots *r, struct heapgraph_writer *w)
{
	dac_learn_all_stacks(r->dac, &r->threads, true);
	vec_each(t, &r->threads) {
		struct err *err = t->os_id ? thread_roots(r, w, t) : NULL;
		r->threads_unread += err != NULL;
		heap_note(r->h, err);
	}
}

/* ---- handles ---- */

static const char *const handle_names[] = {
	[DAC_HANDLE_STRONG] = "strong handles",
	[DAC_HANDLE_PINNED] = "pinned handles",
	[DAC_HANDLE_VARIABLE] = "variable handles",
	[DAC_HANDLE_REF_COUNTED] = "reference-counted handles",
	[DAC_HANDLE_ASYNC_PINNED] = "pinned handles of overlapped I/O",
	[DAC_HANDLE_SIZED_REF] = "sized handles",
	[DAC_HANDLE_WEAK_NATIVE] = NULL,
};

/* The runtime keeps literals and interned strings (and on .NET 8 static fields, which are cut out) in arrays of its own
 * on the pinned heap. */
static bool holds_literals(const struct roots *r, const struct heap_outline *outline, const struct dac_handle *handle)
{
	const struct heap_region *region =
		handle->type == DAC_HANDLE_STRONG ? heap_region_at(outline, handle->object) : NULL;
	const struct heap_type *type =
		region && region->generation == HEAP_PINNED ? heap_type_of(r->h, handle->object) : NULL;
	return type && str_eq(type->name, "System.Object[]");
}

static void literal_roots(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline)
{
	struct addresses objects = { 0 };
	vec_each(handle, &r->handles)
		if (handle->object && handle->strong && holds_literals(r, outline, handle))
			vec_push(&objects, handle->object);
	if (objects.n)
		put_root(r, w, GRAPH_HANDLE, "literals and interned strings", "", objects.v, objects.n);
	vec_free(&objects);
}

static void handle_roots(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline)
{
	for (uint32_t type = 0; type < ARRAY_SIZE(handle_names); type++) {
		struct addresses objects = { 0 };
		vec_each(handle, &r->handles)
			if (handle->type == type && handle->object && handle->strong &&
			    !holds_literals(r, outline, handle))
				vec_push(&objects, handle->object);
		if (objects.n && handle_names[type])
			put_root(r, w, GRAPH_HANDLE, handle_names[type], "", objects.v, objects.n);
		vec_free(&objects);
	}
}

static void dependent_links(struct roots *r, struct heapgraph_writer *w)
{
	vec_each(handle, &r->handles)
		if (handle->type == DAC_HANDLE_DEPENDENT && handle->object && handle->secondary) {
			heapgraph_write_link(w, handle->object, handle->secondary);
			vec_push(&r->links, ((struct heap_link){ handle->object, handle->secondary }));
		}
}

/* ---- the finalizer's queue ---- */

#define MAX_READY (16u << 20)

/* False: there are more than that. A range ends where the image has no memory for it, whatever it claims. */
static bool read_ready(const struct roots *r, struct dac_range range, struct addresses *objects)
{
	uint64_t refs[1024], all = range.size / 8;
	for (uint64_t at = 0; at < all; at += ARRAY_SIZE(refs)) {
		size_t n = (size_t)MIN(all - at, (uint64_t)ARRAY_SIZE(refs));
		if (at >= MAX_READY || objects->n >= MAX_READY)
			return false;
		if (!heap_read(r->h, range.start + at * 8, refs, n * 8))
			return true;
		for (size_t i = 0; i < n; i++)
			if (refs[i])
				vec_push(objects, refs[i] & ~(uint64_t)7);
	}
	return true;
}

static struct err *finalizer_roots(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline)
{
	struct addresses objects = { 0 };
	bool all = true;
	vec_each(range, &outline->ready)
		all &= read_ready(r, *range, &objects);
	if (objects.n && all)
		put_root(r, w, GRAPH_FINALIZER, "finalizer queue", "", objects.v, objects.n);
	vec_free(&objects);
	return all ? NULL
		   : err_new(ERR_UNSUPPORTED,
			     "more than %u objects wait for their finalizers: the finalizer thread is stuck, or much "
			     "too slow",
			     MAX_READY);
}

/* ---- static fields ---- */

static void static_roots(struct roots *r, struct heapgraph_writer *w)
{
	vec_each(s, &r->statics) {
		CLEANUP(mem_freep) char *name = mem_printf("%s.%s", s->type->name, s->field->name);
		put_root(r, w, s->thread ? GRAPH_THREAD_STATIC : GRAPH_STATIC, name,
			 s->thread ? thread_label(r, s->thread) : "", &s->object, 1);
	}
}

/* ---- together ---- */

struct err *roots_gather(struct roots *r, struct heap *h, struct dac *d)
{
	r->h = h;
	r->dac = d;
	TRY(dac_threads(d, &r->threads));
	/* Without names threads have their numbers. */
	err_ignore(dac_name_threads(d, &r->threads));
	TRY(dac_handles(d, &r->handles));
	return heap_statics(h, &r->threads, &r->statics);
}

struct err *roots_write(struct roots *r, struct heapgraph_writer *w, const struct heap_outline *outline)
{
	static_roots(r, w);
	stack_roots(r, w);
	handle_roots(r, w, outline);
	literal_roots(r, w, outline);
	TRY(finalizer_roots(r, w, outline));
	dependent_links(r, w);
	return NULL;
}

void roots_free(struct roots *r)
{
	dac_threads_free(&r->threads);
	dac_handles_free(&r->handles);
	heap_statics_free(&r->statics);
	vec_free(&r->objects);
	vec_free(&r->links);
	arena_free(&r->arena);
}
