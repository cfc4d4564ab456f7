/* Which HTTP request a thread handles (Kestrel): found from what its stack keeps alive. The server's loop of a connection
 * is on the stack itself while the request runs on the thread that read it; after an await only the boxes of async
 * methods are, and the way leads through their continuations to that loop. No walk over the heap. */

#include "base/map.h"
#include "base/str.h"
#include "heap/objects.h"
#include "knowledge/knowledge.h"
#include <string.h>

#define CLIMB_MAX 64  /* continuations of one thread */
#define REFS_MAX 2000 /* of a stack that are looked at */
#define PARENTS_MAX 8
#define TEXT_MAX 200 /* characters of a route or path */
#define THREADS_MAX 100000u

/* How far Kestrel has come with a request: the application has it. */
enum { STATUS_APP_STARTED = 3, STATUS_HEADERS_FLUSHED = 5 };

enum { TYPE_NEW, TYPE_OTHER, TYPE_PROTOCOL, TYPE_CONTEXT, TYPE_BOX };

struct in_flight {
	struct image_exam *look;
	struct heap *heap;
	VEC(uint8_t) kinds;	  /* by index of type */
	struct map_u64 endpoints; /* protocol object -> string + 1 */
	struct strtab strings;
};

static bool is_protocol(struct in_flight *f, const struct heap_type *type)
{
	if (!str_starts(type->name, "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http"))
		return false;
	for (size_t i = 0; type && i < PARENTS_MAX; i++) {
		if (str_eq(type->name, "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol"))
			return true;
		type = type->parent ? heap_type(f->heap, type->parent) : NULL;
	}
	return false;
}

static uint8_t kind_of(struct in_flight *f, uint64_t object)
{
	const struct heap_type *type = object ? heap_type_of(f->heap, object) : NULL;
	if (!type || type->kind != HEAP_OBJECT)
		return TYPE_OTHER;
	while (f->kinds.n <= type->index)
		vec_push(&f->kinds, TYPE_NEW);
	if (f->kinds.v[type->index] != TYPE_NEW)
		return f->kinds.v[type->index];
	uint8_t kind = strstr(type->name, "StateMachineBox`1")				    ? TYPE_BOX
		       : str_eq(type->name, "Microsoft.AspNetCore.Http.DefaultHttpContext") ? TYPE_CONTEXT
		       : is_protocol(f, type)						    ? TYPE_PROTOCOL
											    : TYPE_OTHER;
	/* Asking for parents may have made the list longer. */
	f->kinds.v[type->index] = kind;
	return kind;
}

/* ---- from an object to the request ---- */

/* The protocol object that an object is, or that a context belongs to; 0 = neither. */
static uint64_t protocol_at(struct in_flight *f, uint64_t object)
{
	struct heap_value context, features;
	uint64_t collection = 0;
	uint8_t kind = kind_of(f, object);
	if (kind == TYPE_PROTOCOL)
		return object;
	if (kind != TYPE_CONTEXT || !heap_object(f->heap, object, &context) ||
	    !heap_get_struct(f->heap, context, "_features", &features) ||
	    !heap_get_ref(f->heap, features, "<Collection>k__BackingField", &collection))
		return 0;
	return kind_of(f, collection) == TYPE_PROTOCOL ? collection : 0;
}

/* A field of the state machine: its `this`, a parameter, a local variable. */
static uint64_t protocol_in_machine(struct in_flight *f, struct heap_value box)
{
	struct heap_value machine;
	if (!heap_get_struct(f->heap, box, "StateMachine", &machine) &&
	    !heap_get_object(f->heap, box, "StateMachine", &machine))
		return 0;
	struct heap_fields fields = heap_fields(f->heap, machine.type);
	for (size_t i = 0; i < fields.n; i++) {
		uint64_t held;
		if (fields.v[i].is_static || fields.v[i].element != HEAP_CLASS ||
		    !heap_read_u64(f->heap, machine.fields + fields.v[i].offset, &held))
			continue;
		uint64_t found = protocol_at(f, held);
		if (found)
			return found;
	}
	return 0;
}

/* What goes on when that is done: of several the first. 0 = nothing that is known. */
static uint64_t continues_in(struct in_flight *f, struct heap_value v)
{
	static const char *const fields[] = { "m_continuationObject", "_target", "_continuation", "m_action" };
	struct heap_value source;
	struct heap_array items;
	uint64_t next = 0;
	if (heap_field(f->heap, v.type, "_valueTaskSource") &&
	    heap_get_struct(f->heap, v, "_valueTaskSource", &source) &&
	    heap_get_ref(f->heap, source, "_continuationState", &next) && next)
		return next;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (heap_field(f->heap, v.type, fields[i]) && heap_get_ref(f->heap, v, fields[i], &next) && next)
			return next;
	bool list = str_starts(v.type->name, "System.Collections.Generic.List`1");
	return list && heap_get_ref(f->heap, v, "_items", &next) && heap_array(f->heap, next, &items) && items.n &&
			       heap_element_ref(f->heap, &items, 0, &next)
		       ? next
		       : 0;
}

/* From an async method outwards to the one that has the request. */
static uint64_t climb(struct in_flight *f, uint64_t object)
{
	for (size_t i = 0; i < CLIMB_MAX && object; i++) {
		struct heap_value v;
		uint64_t found = protocol_at(f, object);
		if (found)
			return found;
		if (!heap_object(f->heap, object, &v))
			return 0;
		found = kind_of(f, object) == TYPE_BOX ? protocol_in_machine(f, v) : 0;
		if (found)
			return found;
		object = continues_in(f, v);
	}
	return 0;
}

/* ---- its endpoint ---- */

static void add_route(struct in_flight *f, struct heap_value protocol, struct buf *out)
{
	CLEANUP(buf_free) struct buf route = { 0 };
	struct heap_value endpoint, pattern;
	bool has = heap_get_object(f->heap, protocol, "_endpoint", &endpoint);
	if (has && heap_field(f->heap, endpoint.type, "<RoutePattern>k__BackingField") &&
	    heap_get_object(f->heap, endpoint, "<RoutePattern>k__BackingField", &pattern))
		(void)heap_get_string(f->heap, pattern, "<RawText>k__BackingField", TEXT_MAX, &route);
	if (!route.len)
		(void)heap_get_string(f->heap, protocol, "<Path>k__BackingField", TEXT_MAX, &route);
	if (!route.len)
		return;
	if (out->len)
		buf_char(out, ' ');
	if (route.data[0] != '/')
		buf_char(out, '/');
	buf_add(out, route.data, route.len);
}

/* "GET /orders/{id}"; NULL: it is between two requests. */
static const char *endpoint_of(struct in_flight *f, uint64_t protocol)
{
	struct heap_value v;
	int64_t status = 0;
	bool new;
	uint64_t *place = map_u64_put(&f->endpoints, protocol, &new);
	if (new &&heap_object(f->heap, protocol, &v) && heap_get_int(f->heap, v, "_requestProcessingStatus", &status) &&
	    status >= STATUS_APP_STARTED && status <= STATUS_HEADERS_FLUSHED) {
		CLEANUP(buf_free) struct buf text = { 0 };
		(void)heap_get_string(f->heap, v, "_methodText", TEXT_MAX, &text);
		add_route(f, v, &text);
		*place = text.len ? strtab_add(&f->strings, text.data, text.len) + 1ull : 0;
	}
	return *place ? strtab_get(&f->strings, (uint32_t)(*place - 1)) : NULL;
}

/* ---- of all threads ---- */

static const char *of_thread(struct in_flight *f, uint32_t os_id)
{
	struct dac_refs refs = { 0 };
	const char *endpoint = NULL;
	err_ignore(dac_stack_refs(f->look->dac, os_id, &refs));
	for (size_t i = 0; i < MIN(refs.n, (size_t)REFS_MAX) && !endpoint; i++) {
		const struct dac_ref *r = &refs.v[i];
		if (r->flags & DAC_REF_INTERIOR || kind_of(f, r->object) == TYPE_OTHER)
			continue;
		uint64_t protocol = climb(f, r->object);
		endpoint = protocol ? endpoint_of(f, protocol) : NULL;
	}
	dac_refs_free(&refs);
	return endpoint;
}

static bool has_server(struct in_flight *f)
{
	const struct heap_type *type = NULL;
	err_ignore(heap_find_type(f->heap, NULL, "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http.HttpProtocol",
				  &type));
	return type != NULL;
}

static uint32_t find_all(struct in_flight *f, struct buf *out)
{
	struct dac_threads threads = { 0 };
	uint32_t n = 0;
	err_ignore(dac_threads(f->look->dac, &threads));
	dac_learn_all_stacks(f->look->dac, &threads, true);
	vec_each(t, &threads) {
		const char *endpoint = t->os_id && n < THREADS_MAX ? of_thread(f, t->os_id) : NULL;
		if (!endpoint)
			continue;
		buf_u32(out, t->os_id);
		buf_text(out, endpoint, strlen(endpoint));
		n++;
	}
	dac_threads_free(&threads);
	return n;
}

void in_flight_drain(struct image_exam *look, struct buf *out)
{
	struct in_flight f = { .look = look };
	CLEANUP(buf_free) struct buf list = { 0 };
	err_ignore(heap_open(look->image, look->dac, &f.heap));
	uint32_t n = f.heap && has_server(&f) ? find_all(&f, &list) : 0;
	buf_u32(out, n);
	buf_add(out, list.data, list.len);
	heap_close(f.heap);
	vec_free(&f.kinds);
	map_u64_free(&f.endpoints);
	strtab_free(&f.strings);
}
