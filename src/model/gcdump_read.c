/* Nodes get new addresses, one behind the other: those of the file may overlap, be of another word size, or be missing,
 * and they are not needed. */

#include "base/map.h"
#include "base/str.h"
#include "model/gcdump_internal.h"
#include <string.h>

#define NAME_MAX 65536u
#define FIRST_ADDRESS 0x1000u
#define MAX_BYTES ((uint64_t)UINT32_MAX * 8 - FIRST_ADDRESS - 8)

struct gcdump_type {
	char *name, *module;
	int32_t size;
};

struct gcdump_reader {
	struct cursor in;
	struct gcdump_facts facts;
	struct arena arena;
	VEC(struct gcdump_type) types;
	uint32_t n, root;
	const uint8_t *labels; /* n of them */
	const uint8_t *blob;
	uint32_t blob_len;
	/* By node. */
	uint32_t *type, *size, *first; /* first: of its references, n + 1 */
	VEC(uint32_t) refs;
	uint8_t *group; /* a node in brackets above the objects */
	uint64_t *address;
};

static struct err *damaged(const char *what)
{
	return err_new(ERR_BAD_DATA, "the .gcdump file is damaged: %s", what);
}

/* ---- the framing ---- */

/* NULL for none, and when the cursor has gone bad. */
static char *read_string(struct gcdump_reader *r)
{
	int32_t n = cursor_i32(&r->in);
	CLEANUP(buf_free) struct buf units = { 0 };
	if (n < 0 || r->in.bad)
		return NULL;
	/* A unit takes a byte at least. */
	if ((uint32_t)n > NAME_MAX || (size_t)n > cursor_left(&r->in)) {
		r->in.bad = true;
		return NULL;
	}
	for (int32_t i = 0; i < n; i++) {
		uint32_t b = cursor_u8(&r->in), unit = b;
		if (b >= 0xE0)
			unit = (b & 0xF) << 12 | (cursor_u8(&r->in) & 0x3Fu) << 6;
		else if (b >= 0xC0)
			unit = (b & 0x1F) << 6;
		if (b >= 0xC0)
			unit |= cursor_u8(&r->in) & 0x3Fu;
		uint8_t le[2] = { (uint8_t)unit, (uint8_t)(unit >> 8) };
		buf_add(&units, le, 2);
	}
	if (r->in.bad)
		return NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	utf16_add(&text, (const uint8_t *)units.data, units.len / 2);
	return arena_strdup(&r->arena, buf_cstr(&text));
}

/* The beginning of an object up to its contents: its type's name and versions. NULL: it is none. */
static const char *read_begin(struct gcdump_reader *r, int32_t *ret_version, int32_t *ret_oldest)
{
	static const uint8_t tags[] = { GCDUMP_BEGIN, GCDUMP_BEGIN, GCDUMP_NULL };
	const void *found = cursor_take(&r->in, sizeof(tags));
	if (!found || memcmp(found, tags, sizeof(tags)) != 0)
		return NULL;
	*ret_version = cursor_i32(&r->in);
	*ret_oldest = cursor_i32(&r->in);
	const char *name = read_string(r);
	return cursor_u8(&r->in) == GCDUMP_END && !r->in.bad ? name : NULL;
}

bool gcdump_is(const void *data, size_t len)
{
	struct cursor in = cursor_make(data, len);
	const size_t n = strlen(GCDUMP_MAGIC);
	uint32_t stated = cursor_u32(&in);
	const uint8_t *magic = cursor_take(&in, n);
	/* Of the same library are others, too: the entry object's name tells. */
	const uint8_t *head = cursor_take(&in, 3 + 8 + 4);
	const uint8_t *name = cursor_take(&in, strlen(GCDUMP_ENTRY));
	return cursor_ok(&in) && stated == n && memcmp(magic, GCDUMP_MAGIC, n) == 0 && head[0] == GCDUMP_BEGIN &&
	       memcmp(name, GCDUMP_ENTRY, strlen(GCDUMP_ENTRY)) == 0;
}

/* ---- the graph ---- */

static struct err *read_types(struct gcdump_reader *r)
{
	int32_t n = cursor_i32(&r->in);
	if (n < 0 || (size_t)n > cursor_left(&r->in) / 12)
		return damaged("its types make no sense");
	for (int32_t i = 0; i < n && !r->in.bad; i++) {
		struct gcdump_type t = { .name = read_string(r) };
		t.size = cursor_i32(&r->in);
		t.module = read_string(r);
		vec_push(&r->types, t);
	}
	return r->in.bad ? damaged("its types are cut short") : NULL;
}

static struct err *read_places(struct gcdump_reader *r)
{
	int32_t n = cursor_i32(&r->in);
	if (n <= 0 || (size_t)n > cursor_left(&r->in) / 4 || n >= INT32_MAX / 2)
		return damaged("its nodes make no sense");
	r->n = (uint32_t)n;
	r->labels = cursor_take(&r->in, (size_t)n * 4);
	int32_t len = cursor_i32(&r->in);
	r->blob = len > 0 ? cursor_take(&r->in, (size_t)len) : NULL;
	r->blob_len = (uint32_t)len;
	if (!r->blob)
		return damaged("its nodes are cut short");
	return r->root < r->n ? NULL : damaged("its root makes no sense");
}

/* Seven bits a byte, the highest first; the first byte brings the sign. */
static int32_t read_packed(struct cursor *in)
{
	uint8_t b = cursor_u8(in);
	uint32_t v = b & 0x40 ? (uint32_t)(int32_t)-64 | (b & 0x3Fu) : b & 0x3Fu;
	for (int i = 0; i < 4 && (b & 0x80); i++) {
		b = cursor_u8(in);
		v = v << 7 | (b & 0x7Fu);
	}
	if (b & 0x80)
		in->bad = true;
	return (int32_t)v;
}

static bool read_node(struct gcdump_reader *r, uint32_t node)
{
	uint32_t at;
	memcpy(&at, r->labels + 4 * (size_t)node, sizeof(at));
	if (at >= r->blob_len)
		return false;
	struct cursor in = cursor_make(r->blob + at, r->blob_len - at);
	uint32_t head = (uint32_t)read_packed(&in);
	uint32_t type = head >> 1;
	if (type >= r->types.n)
		return false;
	int32_t size = head & 1 ? read_packed(&in) : r->types.v[type].size;
	int32_t n = read_packed(&in);
	r->type[node] = type;
	r->size[node] = size > 0 ? (uint32_t)size : 0;
	/* Nodes that share bytes would make more of them than there are. */
	if (in.bad || n < 0 || r->refs.n + (uint32_t)n > r->blob_len)
		return false;
	for (int32_t i = 0; i < n; i++) {
		uint32_t to = node + (uint32_t)read_packed(&in);
		if (in.bad || to >= r->n)
			return false;
		vec_push(&r->refs, to);
	}
	return true;
}

static struct err *read_nodes(struct gcdump_reader *r)
{
	r->type = mem_array(r->n, sizeof(uint32_t));
	r->size = mem_array(r->n, sizeof(uint32_t));
	r->first = mem_array((size_t)r->n + 1, sizeof(uint32_t));
	for (uint32_t i = 0; i < r->n; i++) {
		r->first[i] = (uint32_t)r->refs.n;
		if (!read_node(r, i))
			return damaged("a node makes no sense");
	}
	r->first[r->n] = (uint32_t)r->refs.n;
	return NULL;
}

static struct err *read_graph(struct gcdump_reader *r, bool nodes)
{
	int32_t version = 0, oldest = 0;
	const char *name = read_begin(r, &version, &oldest);
	if (!name || !str_eq(name, GCDUMP_GRAPH))
		return damaged("it holds no graph");
	if (oldest > 0)
		return err_new(ERR_UNSUPPORTED, "the .gcdump file leaves the names of types to symbol files");
	(void)cursor_i64(&r->in);
	r->root = cursor_u32(&r->in);
	TRY(read_types(r));
	TRY(read_places(r));
	int32_t addresses = cursor_i32(&r->in);
	if (addresses < 0 || !cursor_take(&r->in, 8 * (size_t)addresses))
		return damaged("its addresses are cut short");
	if (nodes)
		TRY(read_nodes(r));
	if (cursor_left(&r->in) && *r->in.p == GCDUMP_BYTE)
		(void)cursor_u16(&r->in);
	return cursor_u8(&r->in) == GCDUMP_END ? NULL : damaged("its graph does not end");
}

/* What stands behind the graph; as far as it can be understood. */
static void read_facts(struct gcdump_reader *r)
{
	(void)cursor_u8(&r->in);
	r->facts.count_multiplier = (double)cursor_f32(&r->in);
	(void)cursor_f32(&r->in);
	if (cursor_u8(&r->in) != GCDUMP_NULL)
		return;
	if (cursor_left(&r->in) && *r->in.p == GCDUMP_NULL) {
		(void)cursor_u8(&r->in);
	} else {
		int32_t version, oldest;
		if (!read_begin(r, &version, &oldest))
			return;
		(void)cursor_i64(&r->in);
		if (cursor_i32(&r->in) != 0 || cursor_u8(&r->in) != GCDUMP_END)
			return;
	}
	(void)read_string(r);
	int64_t ticks = cursor_i64(&r->in);
	(void)read_string(r);
	const char *process = read_string(r);
	int32_t pid = cursor_i32(&r->in);
	if (r->in.bad)
		return;
	r->facts.process = str_empty(process) ? NULL : mem_strdup(process);
	r->facts.pid = MAX(pid, 0);
	int64_t since = ticks - GCDUMP_TICKS_1970;
	if (ticks > GCDUMP_TICKS_1970 && since < INT64_MAX / 100)
		r->facts.when_unix_ns = since * 100;
}

/* ---- roots ---- */

static const char *type_name(const struct gcdump_reader *r, uint32_t node)
{
	const char *name = r->types.v[r->type[node]].name;
	return name ? name : "";
}

/* Nodes without a size that hang on the root by nothing but such nodes. */
static void find_groups(struct gcdump_reader *r)
{
	VEC(uint32_t) open = { 0 };
	r->group = mem_zalloc(r->n);
	r->group[r->root] = 1;
	vec_push(&open, r->root);
	for (size_t i = 0; i < open.n; i++)
		for (uint32_t k = r->first[open.v[i]]; k < r->first[open.v[i] + 1]; k++) {
			uint32_t to = r->refs.v[k];
			if (r->group[to] || r->size[to] || *type_name(r, to) != '[')
				continue;
			r->group[to] = 1;
			vec_push(&open, to);
		}
	vec_free(&open);
}

/* "[static var Shop.Cache._orders]" is what others write; the name alone is ours. */
static enum graph_root root_kind(const char *name, char *out, size_t size)
{
	static const struct {
		const char *prefix;
		enum graph_root kind;
		bool cut;
	} kinds[] = {
		{ "static var ", GRAPH_STATIC, true },	 { "thread static var ", GRAPH_THREAD_STATIC, true },
		{ "local var", GRAPH_STACK, false },	 { "stack", GRAPH_STACK, false },
		{ "finalizer", GRAPH_FINALIZER, false },
	};
	str_copy(out, size, *name == '[' ? name + 1 : name);
	size_t len = strlen(out);
	if (len && out[len - 1] == ']')
		out[len - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i].prefix);
		if (!str_starts(out, kinds[i].prefix))
			continue;
		if (kinds[i].cut)
			memmove(out, out + n, strlen(out + n) + 1);
		else if (kinds[i].kind == GRAPH_STACK)
			*out = '\0';
		return kinds[i].kind;
	}
	return GRAPH_HANDLE;
}

static void write_roots(struct gcdump_reader *r, struct heapgraph_writer *w)
{
	VEC(uint64_t) objects = { 0 };
	for (uint32_t i = 0; i < r->n; i++) {
		char name[1024];
		if (!r->group[i])
			continue;
		vec_clear(&objects);
		for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++)
			if (!r->group[r->refs.v[k]])
				vec_push(&objects, r->address[r->refs.v[k]]);
		enum graph_root kind = root_kind(type_name(r, i), name, sizeof(name));
		if (objects.n)
			heapgraph_write_root(w, kind, name, "", objects.v, objects.n);
	}
	vec_free(&objects);
}

/* ---- objects ---- */

static uint8_t kind_of(const char *name)
{
	if (str_eq(name, "System.String"))
		return GRAPH_STRING;
	return str_ends(name, "]") && strstr(name, "[]") ? GRAPH_ARRAY : GRAPH_OBJECT;
}

/* dotnet-gcdump tells large objects of a type apart by words behind its name: here they are one type again. */
static void clean_types(struct gcdump_reader *r)
{
	CLEANUP(strtab_free) struct strtab names = { 0 };
	VEC(uint32_t) first = { 0 }; /* type by name */
	uint32_t *same = mem_array(r->types.n + 1, sizeof(*same));
	vec_each(t, &r->types) {
		char *more = t->name ? strstr(t->name, " (Bytes > ") : NULL;
		if (more)
			*more = '\0';
		char *slash = t->module ? strrchr(t->module, '/') : NULL;
		char *back = t->module ? strrchr(t->module, '\\') : NULL;
		slash = back > slash ? back : slash;
		if (slash)
			t->module = slash + 1;
		uint32_t name = strtab_add_cstr(&names, t->name ? t->name : "");
		if (name == first.n)
			vec_push(&first, (uint32_t)(t - r->types.v));
		same[t - r->types.v] = first.v[name];
	}
	for (uint32_t i = 0; i < r->n; i++)
		r->type[i] = same[r->type[i]];
	vec_free(&first);
	mem_free(same);
}

static uint64_t place_objects(struct gcdump_reader *r)
{
	uint64_t at = FIRST_ADDRESS;
	r->address = mem_array(r->n, sizeof(uint64_t));
	for (uint32_t i = 0; i < r->n; i++) {
		r->address[i] = r->group[i] ? 0 : at;
		at += r->group[i] ? 0 : MAX(((uint64_t)r->size[i] + 7) & ~(uint64_t)7, (uint64_t)8);
	}
	return at;
}

static void write_types(struct gcdump_reader *r, struct heapgraph_writer *w)
{
	size_t n;
	const uint32_t *order = heapgraph_type_order(w, &n);
	for (size_t i = 0; i < n; i++) {
		const struct gcdump_type *t = &r->types.v[order[i]];
		const char *name = t->name ? t->name : "";
		heapgraph_write_type(w, &(struct graph_type){ .name = name,
							      .module = t->module ? t->module : "",
							      .kind = kind_of(name),
							      .variable = true });
	}
}

static struct err *write_graph(struct gcdump_reader *r, struct buf *out)
{
	CLEANUP(heapgraph_writer_freep) struct heapgraph_writer *w = NULL;
	struct graph_facts facts = { .n_heaps = 1 };
	uint64_t end = place_objects(r);
	if (end > MAX_BYTES)
		return err_new(ERR_UNSUPPORTED, "the .gcdump file is of a heap above 32 GB");
	if (end == FIRST_ADDRESS)
		return damaged("there is no object in it");
	w = heapgraph_writer_new(out);
	heapgraph_write_region(
		w, &(struct graph_region){
			   .start = FIRST_ADDRESS, .end = end, .committed = end, .generation = GRAPH_ANYWHERE });
	write_roots(r, w);
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->group[i])
			continue;
		uint64_t size = MAX(((uint64_t)r->size[i] + 7) & ~(uint64_t)7, (uint64_t)8);
		heapgraph_write_object(w, r->address[i], size, r->type[i],
				       &(struct graph_type){ .kind = kind_of(type_name(r, i)), .variable = true });
		for (uint32_t k = r->first[i]; k < r->first[i + 1]; k++)
			heapgraph_write_refs(w, &r->address[r->refs.v[k]], 1);
		facts.objects++;
		facts.bytes += size;
	}
	heapgraph_end_objects(w);
	write_types(r, w);
	heapgraph_write_facts(w, &facts);
	return NULL;
}

/* ---- together ---- */

static struct err *read_all(struct gcdump_reader *r, struct buf *out)
{
	int32_t version = 0, oldest = 0;
	char *magic = read_string(r);
	const char *entry = str_eq(magic, GCDUMP_MAGIC) ? read_begin(r, &version, &oldest) : NULL;
	if (!entry || !str_eq(entry, GCDUMP_ENTRY))
		return err_new(ERR_BAD_DATA, "it is not a .gcdump file");
	if (version <= GCDUMP_OLDEST_READER || oldest > GCDUMP_VERSION)
		return err_new(ERR_UNSUPPORTED, "the .gcdump file has format %d; %d and %d can be read", version,
			       GCDUMP_OLDEST_READER + 1, GCDUMP_VERSION);
	TRY(read_graph(r, out != NULL));
	read_facts(r);
	if (!out)
		return NULL;
	clean_types(r);
	find_groups(r);
	return write_graph(r, out);
}

struct err *gcdump_read(const void *data, size_t len, struct gcdump_facts *facts, struct buf *out)
{
	struct gcdump_reader r = { .in = cursor_make(data, len) };
	size_t before = out ? out->len : 0;
	struct err *err = read_all(&r, out);
	if (!err && facts)
		*facts = r.facts;
	else
		gcdump_facts_fini(&r.facts);
	if (err && out)
		out->len = before;
	vec_free(&r.types);
	vec_free(&r.refs);
	mem_free(r.type);
	mem_free(r.size);
	mem_free(r.first);
	mem_free(r.group);
	mem_free(r.address);
	arena_free(&r.arena);
	return err;
}

void gcdump_facts_fini(struct gcdump_facts *facts)
{
	mem_free(facts->process);
	facts->process = NULL;
}
