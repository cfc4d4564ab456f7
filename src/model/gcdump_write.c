/* Writes a heap graph as a .gcdump file; gcdump_internal.h draws the format. */

#include "base/str.h"
#include "model/gcdump_internal.h"
#include <string.h>

enum { UNDEFINED_TYPE, ROOT_TYPE, FIRST_KIND_TYPE };
static const char *const kind_names[GRAPH_ROOTS] = {
	[GRAPH_STATIC] = "[static vars]",  [GRAPH_THREAD_STATIC] = "[thread static vars]",
	[GRAPH_STACK] = "[local vars]",	   [GRAPH_HANDLE] = "[handles]",
	[GRAPH_FINALIZER] = "[finalizer]",
};
enum { FIRST_SET_TYPE = FIRST_KIND_TYPE + GRAPH_ROOTS };

struct gcdump_writer {
	const struct heapgraph *g;
	struct buf *out;
	struct buf blob;
	VEC(uint32_t) labels;
	uint32_t *node; /* by object: number of its node; GRAPH_NONE = not reached */
	uint32_t first_set, n_objects;
	uint64_t bytes;
};

/* ---- values ---- */

static void put_string(struct buf *out, const char *s)
{
	CLEANUP(buf_free) struct buf valid = { 0 }, units = { 0 };
	if (!s) {
		buf_i32(out, -1);
		return;
	}
	utf8_add_valid(&valid, s, strlen(s));
	utf16_from_utf8(&units, buf_cstr(&valid));
	buf_i32(out, (int32_t)(units.len / 2));
	for (size_t i = 0; i + 1 < units.len; i += 2) {
		uint32_t c = (uint8_t)units.data[i] | (uint32_t)(uint8_t)units.data[i + 1] << 8;
		if (c < 0x80) {
			buf_u8(out, (uint8_t)c);
		} else if (c < 0x800) {
			buf_u8(out, (uint8_t)(0xC0 | c >> 6));
			buf_u8(out, (uint8_t)(0x80 | (c & 0x3F)));
		} else {
			buf_u8(out, (uint8_t)(0xE0 | c >> 12));
			buf_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3F)));
			buf_u8(out, (uint8_t)(0x80 | (c & 0x3F)));
		}
	}
}

static void put_begin(struct buf *out, const char *type, int32_t version, int32_t oldest)
{
	buf_u8(out, GCDUMP_BEGIN);
	buf_u8(out, GCDUMP_BEGIN);
	buf_u8(out, GCDUMP_NULL);
	buf_i32(out, version);
	buf_i32(out, oldest);
	put_string(out, type);
	buf_u8(out, GCDUMP_END);
}

static void put_packed(struct buf *out, int32_t v)
{
	int more = 0;
	while (more < 4 && (v >> (7 * more + 6)) != 0 && (v >> (7 * more + 6)) != -1)
		more++;
	for (; more > 0; more--)
		buf_u8(out, (uint8_t)((v >> (7 * more)) | 0x80));
	buf_u8(out, (uint8_t)(v & 0x7F));
}

/* ---- nodes ---- */

static void begin_node(struct gcdump_writer *w, uint32_t type, uint32_t n_refs)
{
	vec_push(&w->labels, (uint32_t)w->blob.len);
	put_packed(&w->blob, (int32_t)(type << 1));
	put_packed(&w->blob, (int32_t)n_refs);
}

static void put_ref(struct gcdump_writer *w, uint32_t to)
{
	put_packed(&w->blob, (int32_t)(to - (uint32_t)(w->labels.n - 1)));
}

/* The root, below it one for each kind, below these the sets. */
static void add_roots(struct gcdump_writer *w)
{
	const struct heapgraph *g = w->g;
	begin_node(w, ROOT_TYPE, GRAPH_ROOTS);
	for (uint32_t k = 0; k < GRAPH_ROOTS; k++)
		put_ref(w, 1 + k);
	for (uint32_t k = 0; k < GRAPH_ROOTS; k++) {
		uint32_t n = 0;
		vec_each(set, &g->roots)
			n += set->kind == k;
		begin_node(w, FIRST_KIND_TYPE + k, n);
		for (uint32_t i = 0; i < g->roots.n; i++)
			if (g->roots.v[i].kind == k)
				put_ref(w, w->first_set + i);
	}
	for (uint32_t i = 0; i < g->roots.n; i++) {
		const struct graph_root_set *set = &g->roots.v[i];
		begin_node(w, FIRST_SET_TYPE + i, set->n);
		for (uint32_t k = 0; k < set->n; k++)
			put_ref(w, w->node[g->root_targets[set->first + k]]);
	}
}

static void add_object(struct gcdump_writer *w, uint32_t object)
{
	const struct heapgraph *g = w->g;
	uint32_t type = FIRST_SET_TYPE + (uint32_t)g->roots.n + g->type[object], n = 0;
	uint64_t size = (uint64_t)g->units[object] * 8;
	for (uint32_t i = g->first[object]; i < g->first[object + 1]; i++)
		n += g->target[i] != GRAPH_NONE;
	vec_push(&w->labels, (uint32_t)w->blob.len);
	put_packed(&w->blob, (int32_t)(type << 1 | 1));
	put_packed(&w->blob, (int32_t)MIN(size, (uint64_t)INT32_MAX));
	put_packed(&w->blob, (int32_t)n);
	for (uint32_t i = g->first[object]; i < g->first[object + 1]; i++)
		if (g->target[i] != GRAPH_NONE)
			put_ref(w, w->node[g->target[i]]);
	w->bytes += size;
}

static void add_nodes(struct gcdump_writer *w)
{
	const struct heapgraph *g = w->g;
	uint32_t next = w->first_set + (uint32_t)g->roots.n;
	for (uint32_t i = 0; i < g->n; i++)
		w->node[i] = heapgraph_reached(g, i) ? next++ : GRAPH_NONE;
	/* What a node that was never filled in points to. */
	put_packed(&w->blob, UNDEFINED_TYPE);
	put_packed(&w->blob, 0);
	add_roots(w);
	for (uint32_t i = 0; i < g->n; i++)
		if (w->node[i] != GRAPH_NONE)
			add_object(w, i);
}

/* ---- the graph ---- */

static void put_type(struct buf *out, const char *name, uint64_t size, const char *module)
{
	put_string(out, name);
	buf_i32(out, (int32_t)MIN(size, (uint64_t)INT32_MAX));
	put_string(out, module);
}

static void root_name(const struct graph_root_set *set, struct buf *out)
{
	static const char *const prefixes[GRAPH_ROOTS] = {
		[GRAPH_STATIC] = "static var ",	 [GRAPH_THREAD_STATIC] = "thread static var ",
		[GRAPH_STACK] = "local var of ", [GRAPH_HANDLE] = "",
		[GRAPH_FINALIZER] = "",
	};
	buf_printf(out, "[%s%s", prefixes[set->kind], set->name);
	if (*set->thread)
		buf_printf(out, " (thread %s)", set->thread);
	buf_char(out, ']');
}

static void put_types(struct gcdump_writer *w)
{
	const struct heapgraph *g = w->g;
	buf_i32(w->out, (int32_t)(FIRST_SET_TYPE + g->roots.n + g->types.n));
	put_type(w->out, "UNDEFINED", 0, NULL);
	put_type(w->out, "[.NET Roots]", 0, NULL);
	for (uint32_t k = 0; k < GRAPH_ROOTS; k++)
		put_type(w->out, kind_names[k], 0, NULL);
	vec_each(set, &g->roots) {
		CLEANUP(buf_free) struct buf name = { 0 };
		root_name(set, &name);
		put_type(w->out, buf_cstr(&name), 0, NULL);
	}
	vec_each(t, &g->types)
		put_type(w->out, t->name, t->variable ? 0 : (uint64_t)t->units * 8, *t->module ? t->module : NULL);
}

static void put_graph(struct gcdump_writer *w)
{
	const struct heapgraph *g = w->g;
	uint32_t first_object = w->first_set + (uint32_t)g->roots.n;
	put_begin(w->out, GCDUMP_GRAPH, 1, 0);
	buf_i64(w->out, (int64_t)w->bytes);
	buf_i32(w->out, 0);
	put_types(w);
	buf_i32(w->out, (int32_t)w->labels.n);
	buf_add(w->out, w->labels.v, w->labels.n * sizeof(*w->labels.v));
	buf_i32(w->out, (int32_t)w->blob.len);
	buf_add(w->out, w->blob.data, w->blob.len);
	buf_i32(w->out, (int32_t)w->labels.n);
	for (uint32_t i = 0; i < first_object; i++)
		buf_i64(w->out, 0);
	for (uint32_t i = 0; i < g->n; i++)
		if (w->node[i] != GRAPH_NONE)
			buf_i64(w->out, (int64_t)heapgraph_address(g, i));
	buf_u8(w->out, GCDUMP_BYTE);
	buf_u8(w->out, 1);
	buf_u8(w->out, GCDUMP_END);
}

/* ---- the file ---- */

static void put_facts(struct gcdump_writer *w, const struct gcdump_facts *f, size_t start, uint32_t *ret_behind_region)
{
	struct buf *out = w->out;
	buf_u8(out, 1);
	buf_f32(out, 1);
	buf_f32(out, 1);
	buf_u8(out, GCDUMP_NULL);
	buf_u8(out, GCDUMP_NULL);
	put_string(out, NULL);
	buf_i64(out, f->when_unix_ns / 100 + GCDUMP_TICKS_1970);
	put_string(out, NULL);
	put_string(out, f->process);
	buf_i32(out, f->pid);
	buf_i64(out, (int64_t)w->g->facts.committed);
	buf_i64(out, (int64_t)w->g->facts.rss);
	buf_i32(out, 0);
	buf_u8(out, GCDUMP_REGION);
	buf_i32(out, 0); /* the first forward reference: where it ends */
	buf_u8(out, GCDUMP_NULL);
	*ret_behind_region = (uint32_t)(out->len - start);
	buf_u8(out, GCDUMP_STRING);
	put_string(out, "drdotnet");
}

void gcdump_write(const struct heapgraph *g, const struct gcdump_facts *facts, struct buf *out)
{
	struct gcdump_writer w = { .g = g, .out = out, .blob = { .limit = INT32_MAX }, .first_set = 1 + GRAPH_ROOTS };
	size_t start = out->len;
	uint32_t behind_region;
	w.node = mem_array((size_t)g->n + 1, sizeof(*w.node));
	add_nodes(&w);
	put_string(out, GCDUMP_MAGIC);
	put_begin(out, GCDUMP_ENTRY, GCDUMP_VERSION, GCDUMP_OLDEST_READER);
	put_graph(&w);
	put_facts(&w, facts, start, &behind_region);
	buf_u8(out, GCDUMP_END);
	buf_u8(out, GCDUMP_END); /* of all objects */
	uint32_t table = (uint32_t)(out->len - start);
	buf_i32(out, 1);
	buf_i32(out, (int32_t)behind_region);
	uint32_t trailer = (uint32_t)(out->len - start);
	buf_i32(out, (int32_t)table);
	buf_i32(out, (int32_t)trailer);
	out->overflow |= w.blob.overflow || out->len - start > INT32_MAX;
	buf_free(&w.blob);
	vec_free(&w.labels);
	mem_free(w.node);
}
