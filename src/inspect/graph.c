/* roots, retained: over the graph of all objects. */

#include "base/fmt.h"
#include "base/str.h"
#include "inspect/internal.h"
#include "memory/heap_look.h"
#include <string.h>

#define SHOWN_HELD 20

static struct err *vertex(const struct heapgraph *g, uint64_t object, uint32_t *ret)
{
	*ret = heapgraph_at(g, object);
	if (*ret == GRAPH_NONE)
		return err_new(ERR_NOT_FOUND, "the object at 0x%llx is not among those that were walked",
			       (unsigned long long)object);
	return NULL;
}

static void name_vertex(const struct heapgraph *g, uint32_t v, struct buf *out)
{
	if (v >= heapgraph_top(g))
		buf_str(out, "(several roots)");
	else if (v >= g->n)
		heap_root_name(g, v - g->n, true, out);
	else
		heap_type_name(g, g->type[v], out);
}

struct err *inspect_roots(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	uint64_t address;
	uint32_t object;
	struct graph_path path = { 0 };
	(void)n;
	TRY(inspect_object(in, words[0], &address));
	TRY(inspect_way(in, address, &g));
	TRY(vertex(g, address, &object));
	CLEANUP(mem_freep) uint32_t *shortest = heapgraph_shortest(g);
	if (shortest[object] == GRAPH_NONE) {
		answer_line(a, "nothing keeps it alive: the next collection of its generation takes it");
		return NULL;
	}
	heapgraph_path(g, shortest, object, &path);
	answer_table(a, "The shortest way to it", "through", "what", "address");
	for (size_t i = 0; i < path.n; i++) {
		CLEANUP(buf_free) struct buf name = { 0 }, step = { 0 };
		name_vertex(g, path.v[i], &name);
		if (i)
			heap_field_name(heapgraph_step(g, path.v[i - 1], path.v[i]), &step);
		ANSWER_ROW(a, C_TEXT(i ? buf_cstr(&step) : "root"), C_TEXT(buf_cstr(&name)),
			   path.v[i] < g->n ? C_ADDRESS(heapgraph_address(g, path.v[i])) : C_NONE);
	}
	mem_free(path.v);
	return NULL;
}

struct graph_held {
	uint32_t vertex, units;
};

/* The largest of what it alone keeps alive. */
static void add_held(const struct heapgraph *g, uint32_t object, struct answer *a)
{
	struct graph_held top[SHOWN_HELD] = { 0 };
	size_t n = 0, more = 0;
	for (uint32_t c = g->child[object]; c != GRAPH_NONE; c = g->sibling[c]) {
		size_t at = n;
		while (at && top[at - 1].units < g->retained[c])
			at--;
		if (at == SHOWN_HELD) {
			more++;
			continue;
		}
		more += n == SHOWN_HELD;
		n = MIN(n + 1, (size_t)SHOWN_HELD);
		memmove(top + at + 1, top + at, (n - at - 1) * sizeof(*top));
		top[at] = (struct graph_held){ c, g->retained[c] };
	}
	answer_table(a, "What hangs on it alone", "retained", "object", "what");
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		name_vertex(g, top[i].vertex, &name);
		ANSWER_ROW(a, C_BYTES((uint64_t)top[i].units * 8), C_ADDRESS(heapgraph_address(g, top[i].vertex)),
			   C_TEXT(buf_cstr(&name)));
	}
	if (more)
		answer_line(a, "%s more", fmt_count(more).s);
}

struct err *inspect_retained(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct heapgraph *g;
	uint64_t address;
	uint32_t object;
	(void)n;
	TRY(inspect_object(in, words[0], &address));
	TRY(inspect_graph(in, &g));
	TRY(vertex(g, address, &object));
	if (!heapgraph_reached(g, object)) {
		answer_line(a, "nothing keeps it alive: the next collection of its generation takes it");
		return NULL;
	}
	CLEANUP(buf_free) struct buf name = { 0 }, holder = { 0 };
	heap_type_name(g, g->type[object], &name);
	answer_line(a, "%s in %s would go with this %s", fmt_bytes((uint64_t)g->retained[object] * 8).s,
		    fmt_plural(g->retained_objects[object], "object", "objects").s, buf_cstr(&name));
	uint32_t by = g->dominator[object];
	name_vertex(g, by, &holder);
	if (by < g->n)
		answer_line(a, "it hangs on %s at 0x%llx alone", buf_cstr(&holder),
			    (unsigned long long)heapgraph_address(g, by));
	else if (by < heapgraph_top(g))
		answer_line(a, "it hangs on %s alone", buf_cstr(&holder));
	else
		answer_line(a, "several roots hold it");
	add_held(g, object, a);
	return NULL;
}
