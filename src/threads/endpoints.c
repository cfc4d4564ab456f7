#include "threads/endpoints.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "heap/walk.h"
#include "memory/delegates.h"
#include <string.h>

#define ENDPOINTS_MAX 20000
#define METADATA_MAX 1000
#define VERBS_MAX 16
#define ROUTE_UNITS_MAX 500
#define VERB_UNITS_MAX 40
#define WALK_MS_MAX 1000
#define CLOCK_EVERY 65536
#define CALLERS_MAX 5000
#define CLOSURES_DEEP 5
#define FIELDS_MAX 30

struct handler {
	uint64_t method; /* its description in the runtime */
	uint32_t route;	 /* in strings */
	uint32_t space, name;
};

struct caller {
	uint64_t code, handler; /* descriptions of methods */
};

struct endpoints {
	struct image_exam *look;
	struct heap *heap;
	struct strtab strings;
	VEC(struct handler) v;
	VEC(struct caller) callers;
	struct map_u64 by_token; /* hash of module and token -> place in v + 1; SEVERAL */
	struct map_u64 by_name;	 /* hash of the name -> the same */
	struct map_u64 calls;	 /* description of compiled code -> what it calls, in strings + 1; SEVERAL */
	VEC(uint8_t) kinds;	 /* of types, by their index */
};
#define SEVERAL UINT64_MAX

struct endpoints *endpoints_new(struct image_exam *look, struct heap *heap)
{
	struct endpoints *e = mem_zalloc(sizeof(*e));
	e->look = look;
	e->heap = heap;
	return e;
}

void endpoints_free(struct endpoints *e)
{
	if (!e)
		return;
	strtab_free(&e->strings);
	vec_free(&e->v);
	map_u64_free(&e->by_token);
	map_u64_free(&e->by_name);
	vec_free(&e->callers);
	map_u64_free(&e->calls);
	vec_free(&e->kinds);
	mem_free(e);
}

#define ENDPOINT "Microsoft.AspNetCore.Routing.RouteEndpoint"
/* Of MVC: how to call an action. */
#define EXECUTOR "Microsoft.Extensions.Internal.ObjectMethodExecutor"

bool endpoints_is_type(const struct heap_type *type)
{
	return str_eq(type->name, ENDPOINT) || str_eq(type->name, EXECUTOR);
}

/* ---- code that calls a handler ---- */

/* Delegates that an object refers to, and through closures those of theirs: one of them is the compiled expression. */
static void find_callers(struct endpoints *e, struct heap_value v, uint64_t handler, unsigned depth)
{
	struct heap_fields fields = heap_fields(e->heap, v.type);
	struct heap_value inside;
	bool delegate = heap_field(e->heap, v.type, "_methodPtr") && e->callers.n < CALLERS_MAX;
	uint64_t code = delegate ? delegate_method(e->heap, e->look->dac, e->look->image, v, true) : 0;
	if (code)
		vec_push(&e->callers, ((struct caller){ .code = code, .handler = handler }));
	for (size_t i = 0; depth && i < MIN(fields.n, (size_t)FIELDS_MAX); i++) {
		const struct heap_field *f = &fields.v[i];
		if (!f->is_static && f->element == HEAP_CLASS && heap_get_object(e->heap, v, f->name, &inside) &&
		    (heap_field(e->heap, inside.type, "_methodPtr") || strstr(inside.type->name, "+<>c__")))
			find_callers(e, inside, handler, depth - 1);
	}
}

/* ---- one endpoint ---- */

struct endpoint {
	uint64_t method;
	struct buf verbs;
};

/* System.Reflection.RuntimeMethodInfo: the runtime's own description of the method is in it. */
static void take_method(struct endpoints *e, struct heap_value info, struct endpoint *ret)
{
	int64_t handle = 0;
	if (!ret->method && str_eq(info.type->name, "System.Reflection.RuntimeMethodInfo") &&
	    heap_get_int(e->heap, info, "m_handle", &handle))
		ret->method = (uint64_t)handle;
}

/* "GET", or "GET|HEAD". */
static void take_verbs(struct endpoints *e, struct heap_value metadata, struct endpoint *ret)
{
	uint64_t object;
	struct heap_array list;
	if (ret->verbs.len || !heap_get_ref(e->heap, metadata, "<HttpMethods>k__BackingField", &object) ||
	    !heap_array(e->heap, object, &list))
		return;
	for (uint32_t i = 0; i < MIN(list.n, (uint32_t)VERBS_MAX); i++) {
		if (!heap_element_ref(e->heap, &list, i, &object) || !object)
			continue;
		if (ret->verbs.len)
			buf_char(&ret->verbs, '|');
		heap_string(e->heap, object, VERB_UNITS_MAX, &ret->verbs, NULL);
	}
}

static void take_metadata(struct endpoints *e, uint64_t object, struct endpoint *ret)
{
	struct heap_value item, info;
	if (!object || !heap_object(e->heap, object, &item))
		return;
	take_method(e, item, ret);
	if (str_eq(item.type->name, "Microsoft.AspNetCore.Routing.HttpMethodMetadata"))
		take_verbs(e, item, ret);
	/* An action of MVC. */
	else if (str_ends(item.type->name, ".ControllerActionDescriptor") &&
		 heap_get_object(e->heap, item, "<MethodInfo>k__BackingField", &info))
		take_method(e, info, ret);
}

static void read_endpoint(struct endpoints *e, struct heap_value endpoint, struct endpoint *ret)
{
	struct heap_value metadata, handler;
	struct heap_array items;
	uint64_t object;
	if (!heap_get_object(e->heap, endpoint, "<Metadata>k__BackingField", &metadata) ||
	    !heap_get_ref(e->heap, metadata, "_items", &object) || !heap_array(e->heap, object, &items))
		return;
	for (uint32_t i = 0; i < MIN(items.n, (uint32_t)METADATA_MAX); i++)
		if (heap_element_ref(e->heap, &items, i, &object))
			take_metadata(e, object, ret);
	/* Without a MethodInfo the handler is what the server calls. */
	if (!ret->method && heap_get_object(e->heap, endpoint, "<RequestDelegate>k__BackingField", &handler))
		ret->method = delegate_method(e->heap, e->look->dac, e->look->image, handler, true);
}

static void add_executor(struct endpoints *e, struct heap_value executor)
{
	struct heap_value info;
	struct endpoint one = { 0 };
	if (!heap_get_object(e->heap, executor, "<MethodInfo>k__BackingField", &info))
		return;
	take_method(e, info, &one);
	if (one.method)
		find_callers(e, executor, one.method, 1);
}

static void add_endpoint(struct endpoints *e, struct heap_value endpoint)
{
	struct heap_value pattern, entry;
	struct endpoint one = { 0 };
	CLEANUP(buf_free) struct buf path = { 0 }, route = { 0 };
	if (e->v.n >= ENDPOINTS_MAX || !heap_get_object(e->heap, endpoint, "<RoutePattern>k__BackingField", &pattern) ||
	    !heap_get_string(e->heap, pattern, "<RawText>k__BackingField", ROUTE_UNITS_MAX, &path))
		return;
	read_endpoint(e, endpoint, &one);
	if (one.method) {
		if (one.verbs.len)
			buf_printf(&route, "%s ", buf_cstr(&one.verbs));
		buf_printf(&route, "%s%s", path.len && path.data[0] == '/' ? "" : "/", buf_cstr(&path));
		CLEANUP(buf_free) struct buf shown = { 0 };
		str_add_visible(&shown, buf_cstr(&route), route.len, ROUTE_UNITS_MAX);
		vec_push(&e->v, ((struct handler){ .method = one.method,
						   .route = strtab_add(&e->strings, buf_cstr(&shown), shown.len) }));
		if (heap_get_object(e->heap, endpoint, "<RequestDelegate>k__BackingField", &entry))
			find_callers(e, entry, one.method, CLOSURES_DEEP);
	}
	buf_free(&one.verbs);
}

void endpoints_add(struct endpoints *e, uint64_t object)
{
	struct heap_value v;
	if (!heap_object(e->heap, object, &v))
		return;
	if (str_eq(v.type->name, ENDPOINT))
		add_endpoint(e, v);
	else
		add_executor(e, v);
}

/* ---- by method ---- */

static uint64_t token_key(uint64_t module, uint32_t token)
{
	return hash_u64(module) ^ token;
}

static uint64_t name_key(const char *space, const char *name)
{
	return hash_bytes(name, strlen(name), hash_bytes(space, strlen(space), 0));
}

/* A method may handle several routes; two methods may have one name. */
static void index_handler(struct endpoints *e, struct map_u64 *index, uint64_t key, size_t place)
{
	bool new;
	uint64_t *at = map_u64_put(index, key, &new);
	if (new)
		*at = place;
	else if (*at != SEVERAL && e->v.v[*at - 1].route != e->v.v[place - 1].route)
		*at = SEVERAL;
}

static void settle_handler(struct endpoints *e, size_t i)
{
	struct handler *h = &e->v.v[i];
	const struct dac_method *m = dac_method(e->look->dac, h->method);
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 };
	h->space = h->name = STRTAB_NONE;
	if (!m || str_empty(m->name))
		return;
	dac_split_name(m->name, &space, &member);
	h->space = strtab_add(&e->strings, buf_cstr(&space), space.len);
	h->name = strtab_add(&e->strings, buf_cstr(&member), member.len);
	index_handler(e, &e->by_token, token_key(m->module, m->token), i + 1);
	index_handler(e, &e->by_name, name_key(buf_cstr(&space), buf_cstr(&member)), i + 1);
}

/* The framework's own methods on the way to the handler are none that were made to call it. */
static void settle_caller(struct endpoints *e, const struct caller *c)
{
	const struct dac_method *code = dac_method(e->look->dac, c->code), *m = dac_method(e->look->dac, c->handler);
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 }, shown = { 0 }, line = { 0 };
	struct pdb_line at;
	bool new;
	if (!code || !code->dynamic || !m || str_empty(m->name))
		return;
	dac_split_name(m->name, &space, &member);
	struct method_origin place = { .route = endpoints_route(e, m->module, m->token) };
	if (method_is_lambda(buf_cstr(&space), buf_cstr(&member)) && dac_line(e->look->lines, m->desc, 0, &at)) {
		dac_line_add(&line, &at);
		place.line = buf_cstr(&line);
	}
	method_show_at(buf_cstr(&space), buf_cstr(&member), &place, &shown);
	uint64_t name = strtab_add(&e->strings, buf_cstr(&shown), shown.len) + 1ull;
	uint64_t *known = map_u64_put(&e->calls, c->code, &new);
	*known = new || *known == name ? name : SEVERAL;
}

void endpoints_settle(struct endpoints *e)
{
	struct dac_addresses methods = { 0 };
	vec_each(h, &e->v)
		vec_push(&methods, h->method);
	vec_each(c, &e->callers) {
		vec_push(&methods, c->code);
		vec_push(&methods, c->handler);
	}
	err_ignore(dac_learn_methods(e->look->dac, methods.v, methods.n));
	dac_addresses_free(&methods);
	for (size_t i = 0; i < e->v.n; i++)
		settle_handler(e, i);
	vec_each(c, &e->callers)
		settle_caller(e, c);
}

static const char *route_at(const struct endpoints *e, const uint64_t *at)
{
	return at && *at != SEVERAL ? strtab_get(&e->strings, e->v.v[*at - 1].route) : NULL;
}

const char *endpoints_route(const struct endpoints *e, uint64_t module, uint32_t token)
{
	return e ? route_at(e, map_u64_get(&e->by_token, token_key(module, token))) : NULL;
}

const char *endpoints_route_named(const struct endpoints *e, const char *space, const char *name)
{
	CLEANUP(buf_free) struct buf around = { 0 }, method = { 0 };
	if (!e)
		return NULL;
	bool machine = method_of_machine(space, &around, &method);
	return route_at(e, map_u64_get(&e->by_name, machine ? name_key(buf_cstr(&around), buf_cstr(&method))
							    : name_key(space, name)));
}

const char *endpoints_calls(const struct endpoints *e, uint64_t method)
{
	const uint64_t *known = e ? map_u64_get(&e->calls, method) : NULL;
	return known && *known != SEVERAL ? strtab_get(&e->strings, (uint32_t)*known - 1) : NULL;
}

/* ---- a walk ---- */

/* A name is compared once a type. */
static bool is_endpoint(struct endpoints *e, const struct heap_type *type)
{
	enum { KIND_NEW, KIND_ENDPOINT, KIND_OTHER };
	while (e->kinds.n <= type->index)
		vec_push(&e->kinds, KIND_NEW);
	if (e->kinds.v[type->index] == KIND_NEW)
		e->kinds.v[type->index] =
			type->kind == HEAP_OBJECT && endpoints_is_type(type) ? KIND_ENDPOINT : KIND_OTHER;
	return e->kinds.v[type->index] == KIND_ENDPOINT;
}

static void walk(struct endpoints *e, const struct heap_outline *outline)
{
	CLEANUP(heap_walk_freep) struct heap_walk *w = heap_walk_new(e->heap, outline);
	struct heap_found found;
	struct deadline end = deadline_in_ms(WALK_MS_MAX);
	for (size_t i = 1; heap_walk_next(w, &found); i++) {
		if (i % CLOCK_EVERY == 0 && deadline_passed(end))
			return;
		if (is_endpoint(e, found.type))
			endpoints_add(e, found.address);
	}
}

struct endpoints *endpoints_find(struct image_exam *look)
{
	CLEANUP(heap_closep) struct heap *heap = NULL;
	CLEANUP(err_freep) struct err *err = heap_open(look->image, look->dac, &heap);
	CLEANUP(endpoints_freep) struct endpoints *e = err ? NULL : endpoints_new(look, heap);
	CLEANUP(heap_outline_free) struct heap_outline outline = { 0 };
	if (!err)
		err = heap_outline_of(heap, look->dac, &outline);
	if (err)
		return NULL;
	walk(e, &outline);
	endpoints_settle(e);
	return e->v.n || e->callers.n ? STEAL(e) : NULL;
}
