#include "eventpipe/methods.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include <stdlib.h>
#include <string.h>

/* Input is hostile: a stream may list methods for ever. */
#define METHODS_MAX 4000000
#define NAME_BYTES_MAX ((size_t)1 << 30)

struct code_range {
	uint64_t start;
	uint32_t size, flags;
	uint32_t space, name, signature; /* in strings */
	uint32_t order;			 /* of arrival: the later wins */
	uint32_t token;
	uint64_t module;
};

/* In strings, + 1; 0 = not known. */
struct placed {
	uint32_t line, route;
};

struct methods {
	struct strtab strings;
	VEC(struct code_range) ranges;
	bool sorted;
	uint32_t arrivals;
	struct buf text;
	struct method found;
	struct clr_modules modules;
	struct map_u64 places; /* hash of a name -> place in placed + 1 */
	VEC(struct placed) placed;
};

struct methods *methods_new(void)
{
	return mem_zalloc(sizeof(struct methods));
}

void methods_free(struct methods *m)
{
	if (!m)
		return;
	strtab_free(&m->strings);
	vec_free(&m->ranges);
	buf_free(&m->text);
	clr_modules_free(&m->modules);
	map_u64_free(&m->places);
	vec_free(&m->placed);
	mem_free(m);
}

static uint32_t intern(struct methods *m, struct utf16_span span)
{
	buf_clear(&m->text);
	utf16_add(&m->text, span.units, MIN(span.n, (size_t)16384));
	return strtab_add(&m->strings, buf_cstr(&m->text), m->text.len);
}

void methods_event(struct methods *m, const struct nettrace_event *event)
{
	struct clr_method method;
	clr_modules_event(&m->modules, event);
	if (clr_event(event) != CLR_METHOD_LOAD || !clr_decode_method(event, &method) || !method.size)
		return;
	if (m->ranges.n >= METHODS_MAX || m->strings.bytes >= NAME_BYTES_MAX)
		return;
	vec_push(&m->ranges, ((struct code_range){
				     .start = method.start,
				     .size = method.size,
				     .flags = method.flags,
				     .space = intern(m, method.space),
				     .name = intern(m, method.name),
				     .signature = intern(m, method.signature),
				     .order = m->arrivals++,
				     .token = method.token,
				     .module = method.module,
			     }));
	m->sorted = false;
}

void methods_add(struct methods *m, uint64_t start, uint32_t size, const char *space, const char *name)
{
	if (!size || m->ranges.n >= METHODS_MAX || m->strings.bytes >= NAME_BYTES_MAX)
		return;
	vec_push(&m->ranges, ((struct code_range){ .start = start,
						   .size = size,
						   .space = strtab_add_cstr(&m->strings, space),
						   .name = strtab_add_cstr(&m->strings, name),
						   .signature = strtab_add_cstr(&m->strings, ""),
						   .order = m->arrivals++ }));
	m->sorted = false;
}

size_t methods_count(const struct methods *m)
{
	return m->ranges.n;
}

static int by_start_then_order(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;
	return CMP(x->start, y->start) ?: CMP(x->order, y->order);
}

/* Two methods cannot be at one place at the same time: where ranges overlap, the older code has been unloaded. */
static void sort(struct methods *m)
{
	vec_sort(&m->ranges, by_start_then_order);
	size_t n = 0;
	for (size_t i = 0; i < m->ranges.n; i++) {
		const struct code_range r = m->ranges.v[i];
		bool gone = false;
		while (n && !gone && m->ranges.v[n - 1].start + m->ranges.v[n - 1].size > r.start) {
			gone = m->ranges.v[n - 1].order > r.order;
			n -= !gone;
		}
		if (!gone)
			m->ranges.v[n++] = r;
	}
	m->ranges.n = n;
	m->sorted = true;
}

static const struct method *show_range(struct methods *m, const struct code_range *r)
{
	m->found = (struct method){
		.start = r->start,
		.size = r->size,
		.flags = r->flags,
		.order = r->order,
		.token = r->token,
		.module = r->module,
		.space = strtab_get(&m->strings, r->space),
		.name = strtab_get(&m->strings, r->name),
		.signature = strtab_get(&m->strings, r->signature),
	};
	return &m->found;
}

void methods_each(struct methods *m, void (*each)(void *user, const struct method *method), void *user)
{
	if (!m->sorted)
		sort(m);
	vec_each(r, &m->ranges)
		each(user, show_range(m, r));
}

const struct method *methods_find(struct methods *m, uint64_t address)
{
	if (!m->sorted)
		sort(m);
	size_t low = 0, high = m->ranges.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (m->ranges.v[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	const struct code_range *r = &m->ranges.v[low - 1];
	return address - r->start < r->size ? show_range(m, r) : NULL;
}

bool methods_module(const struct methods *m, uint64_t module, struct clr_module_file *ret)
{
	return clr_modules_find(&m->modules, module, ret);
}

static uint64_t name_key(const char *space, const char *name)
{
	return hash_bytes(name, strlen(name), hash_bytes(space, strlen(space), 0));
}

/* The body of an async method goes by that method. */
static uint64_t place_key(const char *space, const char *name)
{
	CLEANUP(buf_free) struct buf around = { 0 }, method = { 0 };
	bool machine = method_of_machine(space, &around, &method);
	return machine ? name_key(buf_cstr(&around), buf_cstr(&method)) : name_key(space, name);
}

void methods_set_place(struct methods *m, const char *space, const char *name, const struct method_origin *place)
{
	bool new;
	uint64_t *at = map_u64_put(&m->places, place_key(space, name), &new);
	if (new) {
		vec_push(&m->placed, ((struct placed){ 0 }));
		*at = m->placed.n;
	}
	struct placed *p = &m->placed.v[*at - 1];
	if (place->line)
		p->line = strtab_add_cstr(&m->strings, place->line) + 1;
	if (place->route)
		p->route = strtab_add_cstr(&m->strings, place->route) + 1;
}

static const char *text_at(const struct methods *m, uint32_t id)
{
	return id ? strtab_get(&m->strings, id - 1) : NULL;
}

void methods_show(const struct methods *m, const struct method *method, struct buf *out)
{
	const uint64_t *at = m->places.n ? map_u64_get(&m->places, place_key(method->space, method->name)) : NULL;
	if (!at) {
		method_show(method->space, method->name, out);
		return;
	}
	const struct placed *p = &m->placed.v[*at - 1];
	struct method_origin place = { .line = text_at(m, p->line), .route = text_at(m, p->route) };
	method_show_at(method->space, method->name, &place, out);
}
