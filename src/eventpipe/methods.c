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
};

struct methods {
	struct strtab strings;
	VEC(struct code_range) ranges;
	bool sorted;
	uint32_t arrivals;
	struct buf text;
	struct method found;
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
