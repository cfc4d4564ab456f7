/* Names of types, fields and roots as their author knows them. */

#include "base/str.h"
#include "eventpipe/methods.h"
#include "memory/heap_look.h"
#include <string.h>

#define PATH_STEPS 12 /* of a path that is written out */

bool heap_type_is_closure(const struct heapgraph *g, uint32_t type)
{
	return strstr(g->types.v[type].name, "+<>c__DisplayClass") != NULL;
}

/* What the compiler made of an async method goes by what the author wrote. */
void heap_type_name(const struct heapgraph *g, uint32_t type, struct buf *out)
{
	const char *name = g->types.v[type].name;
	CLEANUP(buf_free) struct buf shown = { 0 };
	if (!*name) {
		buf_str(out, "(type without a name)");
		return;
	}
	if (type_async_method(name, &shown)) {
		buf_printf(out, "async %s", buf_cstr(&shown));
		return;
	}
	type_show(name, out);
}

/* Every name loses what stands before its last dot: "System.Func<Shop.Order, System.Int32>" is "Func<Order, Int32>"; of
 * an async method its class stays. */
void heap_type_short(const struct heapgraph *g, uint32_t type, struct buf *out)
{
	CLEANUP(buf_free) struct buf full = { 0 };
	heap_type_name(g, type, &full);
	const char *s = buf_cstr(&full);
	bool method = str_starts(s, "async ");
	while (*s) {
		size_t len = strcspn(s, "<>,[]() ");
		size_t from = len, dots = out->len && method ? 2 : 1;
		while (from && (s[from - 1] != '.' || --dots))
			from--;
		buf_add(out, s + from, len - from);
		s += len;
		len = strspn(s, "<>,[]() ");
		buf_add(out, s, len);
		s += len;
	}
}

void heap_field_name(const char *field, struct buf *out)
{
	const char *end = *field == '<' ? strstr(field, ">k__BackingField") : NULL;
	if (end)
		buf_add(out, field + 1, (size_t)(end - field - 1));
	else
		buf_str(out, field);
}

/* "Shop.Cache`1[[...]].Items" in two; names of types may hold dots, those of fields hold none but in "<A.B>k__...". */
static size_t static_split(const char *name)
{
	size_t at = 0, depth = 0;
	for (size_t i = 0; name[i]; i++) {
		if (name[i] == '[' || name[i] == '<')
			depth++;
		else if ((name[i] == ']' || name[i] == '>') && depth)
			depth--;
		else if (name[i] == '.' && !depth)
			at = i;
	}
	return at;
}

static void static_name(const char *name, struct buf *out)
{
	size_t at = static_split(name);
	if (!at) { /* its class is not known */
		heap_field_name(name, out);
		return;
	}
	CLEANUP(mem_freep) char *type = mem_strndup(name, at);
	type_show(type, out);
	buf_char(out, '.');
	heap_field_name(name + at + 1, out);
}

static void method_name(const char *name, struct buf *out)
{
	CLEANUP(buf_free) struct buf space = { 0 }, member = { 0 };
	dac_split_name(name, &space, &member);
	method_show(buf_cstr(&space), buf_cstr(&member), out);
}

void heap_root_name(const struct heapgraph *g, uint32_t root, bool with_kind, struct buf *out)
{
	const struct graph_root_set *set = &g->roots.v[root];
	switch (set->kind) {
	case GRAPH_STATIC:
		buf_str(out, with_kind ? "static " : static_split(set->name) ? "" : "field ");
		static_name(set->name, out);
		break;
	case GRAPH_THREAD_STATIC:
		buf_str(out, with_kind ? "thread-static " : "");
		static_name(set->name, out);
		if (with_kind && *set->thread)
			buf_printf(out, " of thread '%s'", set->thread);
		break;
	case GRAPH_STACK:
		if (*set->thread)
			buf_printf(out, "stack of thread '%s'", set->thread);
		else
			buf_str(out, "stacks of threads");
		if (*set->name) {
			buf_str(out, " in ");
			method_name(set->name, out);
		}
		break;
	default:
		buf_str(out, set->name);
	}
}

unsigned heap_root_rank(const struct graph_root_set *set)
{
	return heapgraph_is_late(set)	      ? 4
	       : set->kind == GRAPH_FINALIZER ? 3
	       : set->kind == GRAPH_HANDLE    ? 2
	       : set->own		      ? 0
					      : 1;
}

size_t heap_types_like(const struct heapgraph *g, const char *text, bool *ret)
{
	size_t n = 0;
	for (uint32_t t = 0; t < g->types.n; t++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		heap_type_name(g, t, &name);
		ret[t] = g->types.v[t].kind != GRAPH_FREE && str_contains_nocase(buf_cstr(&name), text);
		n += ret[t];
	}
	return n;
}

/* A nested type may come without the namespace of the type around it: then its file decides. */
static bool is_framework(const struct whose_names *whose, const struct graph_type *t)
{
	bool placed = memchr(t->name, '.', strcspn(t->name, "[")) != NULL;
	return method_is_framework(whose, t->name) ||
	       (!placed && (str_starts(t->module, "System.") || str_starts(t->module, "Microsoft.")));
}

static bool type_is_own(const struct whose_names *whose, const struct graph_type *t)
{
	CLEANUP(buf_free) struct buf method = { 0 };
	if (t->kind != GRAPH_OBJECT || !*t->name)
		return false;
	return !is_framework(whose, t) ||
	       (type_async_method(t->name, &method) && !method_is_framework(whose, buf_cstr(&method)));
}

/* Made for something of the user's own: "List`1[[Shop.Order, Shop]]", "Dictionary`2[System.Int32,Shop.Order]"? */
static bool is_made_for_own(const struct whose_names *whose, const struct graph_type *t)
{
	const char *s = t->name + strcspn(t->name, "[");
	while (*s) {
		s += strspn(s, "[],");
		/* Behind a blank stands the file. */
		if (*s && *s != ' ' && !method_is_framework(whose, s))
			return true;
		s += strcspn(s, "[],");
	}
	return false;
}

/* The types of the graph are marked already. */
static bool root_is_own(const struct whose_names *whose, const struct heapgraph *g, const struct graph_root_set *set)
{
	if (set->kind != GRAPH_STATIC && set->kind != GRAPH_THREAD_STATIC)
		return false;
	if (static_split(set->name))
		return !method_is_framework(whose, set->name);
	/* The class of the field is not known; its content decides as well. */
	uint32_t type = set->n ? g->type[g->root_targets[set->first]] : GRAPH_NONE;
	return type != GRAPH_NONE && (g->types.v[type].own || is_made_for_own(whose, &g->types.v[type]));
}

/* What ThreadLocal<T> keeps for each thread is also in the ThreadLocal itself, and that one is whose it is: a ConcurrentBag
 * has its parts in one. */
static bool is_slots_of_thread(const struct graph_root_set *set)
{
	return set->kind == GRAPH_THREAD_STATIC && str_starts(set->name, "System.Threading.ThreadLocal`1") &&
	       str_ends(set->name, ".ts_slotArray");
}

void heap_mark_own(struct heapgraph *g, const struct whose_names *whose)
{
	vec_each(t, &g->types)
		t->own = type_is_own(whose, t);
	vec_each(set, &g->roots) {
		set->own = root_is_own(whose, g, set);
		set->late = is_slots_of_thread(set);
	}
}

/* ---- paths ---- */

uint32_t heap_slot(const struct heapgraph *g, uint32_t from, uint32_t to)
{
	const struct graph_type *t = from < g->n ? &g->types.v[g->type[from]] : NULL;
	for (uint32_t i = 0; t && i < t->n_slots; i++)
		if (g->target[g->first[from] + i] == to)
			return i;
	return GRAPH_NONE;
}

void heap_slot_name(const struct heapgraph *g, uint32_t type, uint32_t slot, struct buf *out)
{
	const char *field = slot != GRAPH_NONE ? g->types.v[type].slots[slot] : "";
	if (!*field)
		return;
	buf_char(out, '.');
	heap_field_name(field, out);
}

void heap_path_words(const struct heapgraph *g, const uint32_t *from, uint32_t object, struct buf *out)
{
	struct graph_path path = { 0 };
	heapgraph_path(g, from, object, &path);
	for (size_t i = 0; i + 1 < path.n; i++) {
		uint32_t v = path.v[i];
		if (path.n > PATH_STEPS && i == PATH_STEPS / 2) {
			buf_printf(out, " → … %zu more", path.n - PATH_STEPS);
			i = path.n - PATH_STEPS / 2 - 1;
			continue;
		}
		if (v >= g->n) {
			heap_root_name(g, v - g->n, true, out);
			continue;
		}
		buf_str(out, " → ");
		heap_type_short(g, g->type[v], out);
		heap_slot_name(g, g->type[v], heap_slot(g, v, path.v[i + 1]), out);
	}
	vec_free(&path);
}
