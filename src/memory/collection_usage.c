/* In the recording: tag u32; then numbers as LEB128: types, each { its first object, role, base, component }; values of
 * boxes; objects with a role, each { number }. */

#include "memory/collection_usage.h"
#include "base/map.h"
#include "base/str.h"
#include <string.h>

#define TAG 0x4C4C4F43u /* "COLL" */
#define MAX_PARENTS 16
#define MAX_BOX 16    /* bytes of a value that are compared */
#define SCAN_FROM 128 /* bytes of an array from which on its end is looked at */
#define PORTION ((size_t)4096)
#define BOX_NONE UINT32_MAX
#define FIELDS_AT 8 /* behind the method table */

const struct collection_rule collection_rules[] = {
	{ "System.Collections.Generic.List`1", { "_size" }, { "_items" } },
	{ "System.Collections.Generic.Dictionary`2", { "_count", "-_freeCount" }, { "_entries", "_buckets" } },
	{ "System.Collections.Generic.HashSet`1", { "_count", "-_freeCount" }, { "_entries", "_buckets" } },
	{ "System.Collections.Generic.Queue`1", { "_size" }, { "_array" } },
	{ "System.Collections.Generic.Stack`1", { "_size" }, { "_array" } },
	{ "System.Collections.Generic.PriorityQueue`2", { "_size" }, { "_nodes" } },
	{ "System.Collections.Generic.SortedList`2", { "_size" }, { "keys", "values" } },
	{ "System.Collections.Generic.OrderedDictionary`2", { "_count" }, { "_entries", "_buckets" } },
	{ "System.Collections.Generic.LinkedList`1", { "count" }, { NULL } },
	{ "System.Collections.Generic.SortedSet`1", { "count" }, { NULL } },
	{ "System.Collections.Concurrent.ConcurrentDictionary`2+Tables", { "+_countPerLock" }, { "_buckets" } },
	{ "System.Collections.ArrayList", { "_size" }, { "_items" } },
	{ "System.Collections.Queue", { "_size" }, { "_array" } },
	{ "System.Collections.Stack", { "_size" }, { "_array" } },
	{ "System.Collections.SortedList", { "_size" }, { "keys", "values" } },
	{ "System.Collections.Hashtable", { "_count" }, { "_buckets" } },
	{ "System.Text.StringBuilder", { "m_ChunkLength" }, { "m_ChunkChars" } },
	{ "System.IO.MemoryStream", { "_length" }, { "_buffer" } },
};
const size_t collection_n_rules = ARRAY_SIZE(collection_rules);

/* ---- while the heap is walked ---- */

struct role {
	bool known;
	struct usage_type type;
	uint32_t first; /* object of that type */
	struct {
		uint32_t offset; /* of the field in an object; 0 = none */
		uint8_t size;
		char sign; /* '-', '+' or 0 */
	} counts[2];
};

struct usage_box {
	uint32_t copies, number;
};

struct usage_reader {
	const struct heap_look *look;
	VEC(struct role) roles; /* by the heap's types */
	VEC(uint32_t) numbers;	/* of objects with a role; of boxes the index of their value */
	VEC(uint32_t) types;	/* that have a role, in order of their first object */
	VEC(bool) is_box;	/* by number */
	struct map_u64 values;	/* of boxes: by hash of type and bytes: index + 1 */
	VEC(struct usage_box) boxes;
};

static const struct collection_rule *rule_of(struct heap *h, const struct heap_type *type)
{
	const struct heap_type *t = type;
	for (int depth = 0; t && depth < MAX_PARENTS; depth++) {
		for (size_t i = 0; i < collection_n_rules; i++) {
			size_t len = strlen(collection_rules[i].type);
			if (strncmp(t->name, collection_rules[i].type, len) == 0 &&
			    (!t->name[len] || t->name[len] == '['))
				return &collection_rules[i];
		}
		t = t->parent ? heap_type(h, t->parent) : NULL;
	}
	return NULL;
}

/* false: this runtime's collection has other fields. */
static bool find_counts(struct heap *h, const struct heap_type *type, const struct collection_rule *rule,
			struct role *role)
{
	for (size_t i = 0; i < ARRAY_SIZE(rule->counts) && rule->counts[i]; i++) {
		const char *name = rule->counts[i];
		char sign = *name == '-' || *name == '+' ? *name++ : 0;
		const struct heap_field *f = heap_field(h, type, name);
		if (!f || f->is_static || (sign == '+' ? f->element != HEAP_CLASS : f->element != HEAP_I4))
			return false;
		role->counts[i].offset = FIELDS_AT + f->offset;
		role->counts[i].size = sign == '+' ? 8 : 4;
		role->counts[i].sign = sign;
	}
	return true;
}

static struct role make_role(struct heap *h, const struct heap_type *type)
{
	struct role role = { .known = true, .type = { .base = type->base_size, .component = type->component_size } };
	if (type->kind == HEAP_ARRAY) {
		const struct heap_type *element = heap_type(h, type->element);
		bool refs = type->has_refs && type->component_size == 8 && !(element && heap_is_struct(h, element));
		role.type.role = refs ? USAGE_REFS : USAGE_ARRAY;
	} else if (type->kind == HEAP_OBJECT) {
		const struct collection_rule *rule = rule_of(h, type);
		if (rule && find_counts(h, type, rule, &role))
			role.type.role = USAGE_COLLECTION + (uint32_t)(rule - collection_rules);
		else if (!rule && !type->has_refs && type->base_size <= 16 + MAX_BOX && heap_is_struct(h, type))
			role.type.role = USAGE_BOX;
	}
	return role;
}

static struct role *role_of(struct usage_reader *r, struct heap_walk *walk, const struct heap_found *found,
			    uint32_t number)
{
	while (r->roles.n <= found->type->index)
		vec_push(&r->roles, (struct role){ 0 });
	struct role *role = &r->roles.v[found->type->index];
	if (!role->known) {
		*role = make_role(heap_walk_heap(walk), found->type);
		role->first = number;
		if (role->type.role != USAGE_NONE)
			vec_push(&r->types, found->type->index);
	}
	return role;
}

/* Looks from the end on, so that it costs no more than there are zeros. */
static uint32_t zeros_at_end(struct heap_walk *walk, const struct heap_found *found)
{
	uint64_t first = found->type->base_size - 8, len = (uint64_t)found->n * found->type->component_size;
	uint64_t left = len;
	while (found->size >= SCAN_FROM && left) {
		size_t part = (size_t)MIN(left, (uint64_t)PORTION);
		const uint8_t *p = heap_walk_bytes(walk, found, first + left - part, part);
		size_t n = part;
		while (p && n && !p[n - 1])
			n--;
		left -= p ? part - n : 0;
		if (!p || n)
			break;
	}
	return (uint32_t)MIN(len - left, (uint64_t)UINT32_MAX);
}

static int64_t sum_array(struct heap *h, uint64_t object)
{
	struct heap_array a;
	int64_t sum = 0;
	if (!heap_array(h, object, &a) || a.stride != 4)
		return 0;
	for (uint32_t i = 0; i < MIN(a.n, 4096u); i++) {
		uint32_t n;
		sum += heap_read_u32(h, a.first + 4ull * i, &n) ? (int32_t)n : 0;
	}
	return sum;
}

static uint32_t elements(struct heap_walk *walk, const struct heap_found *found, const struct role *role)
{
	int64_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(role->counts) && role->counts[i].offset; i++) {
		const uint8_t *p = heap_walk_bytes(walk, found, role->counts[i].offset, role->counts[i].size);
		uint64_t object = 0;
		int32_t count = 0;
		if (p && role->counts[i].sign == '+')
			memcpy(&object, p, sizeof(object));
		else if (p)
			memcpy(&count, p, sizeof(count));
		n += role->counts[i].sign == '-' ? -(int64_t)count : count;
		n += object ? sum_array(heap_walk_heap(walk), object) : 0;
	}
	return (uint32_t)MAX(MIN(n, (int64_t)INT32_MAX), (int64_t)0);
}

static uint32_t box_value(struct usage_reader *r, struct heap_walk *walk, const struct heap_found *found)
{
	struct {
		uint64_t type;
		uint8_t bytes[MAX_BOX];
	} key = { .type = found->type->address };
	size_t len = MIN(found->type->base_size - 16u, (uint32_t)MAX_BOX);
	const uint8_t *p = heap_walk_bytes(walk, found, FIELDS_AT, len);
	if (!p)
		return BOX_NONE;
	memcpy(key.bytes, p, len);
	uint64_t *at = map_u64_put(&r->values, hash_bytes(&key, sizeof(key), hash_seed()), NULL);
	if (!*at) {
		vec_push(&r->boxes, (struct usage_box){ 0 });
		*at = r->boxes.n;
	}
	r->boxes.v[*at - 1].copies++;
	return (uint32_t)(*at - 1);
}

static void on_object(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number)
{
	struct usage_reader *r = ((struct collection_usage *)user)->reader;
	const struct role *role = role_of(r, walk, found, number);
	uint32_t n = 0;
	switch (role->type.role) {
	case USAGE_NONE:
		return;
	case USAGE_ARRAY:
		n = zeros_at_end(walk, found);
		break;
	case USAGE_REFS:
		break;
	case USAGE_BOX:
		n = box_value(r, walk, found);
		break;
	default:
		n = elements(walk, found, role);
	}
	vec_push(&r->numbers, n);
	vec_push(&r->is_box, role->type.role == USAGE_BOX);
}

/* ---- writing it down ---- */

static void on_done(void *user, struct heap *h, struct buf *out)
{
	struct usage_reader *r = ((struct collection_usage *)user)->reader;
	uint32_t n_boxes = 0;
	(void)h;
	buf_u32(out, TAG);
	buf_varu64(out, r->types.n);
	vec_each(t, &r->types) {
		const struct role *role = &r->roles.v[*t];
		buf_varu64(out, role->first);
		buf_varu64(out, role->type.role);
		buf_varu64(out, role->type.base);
		buf_varu64(out, role->type.component);
	}
	vec_each(b, &r->boxes)
		b->number = b->copies > 1 ? ++n_boxes : 0;
	buf_varu64(out, n_boxes);
	buf_varu64(out, r->numbers.n);
	for (size_t i = 0; i < r->numbers.n; i++) {
		uint32_t n = r->numbers.v[i];
		if (r->is_box.v[i])
			n = n == BOX_NONE ? 0 : r->boxes.v[n].number;
		buf_varu64(out, n);
	}
}

/* ---- reading it back ---- */

static bool take_types(struct collection_usage *room, const struct heapgraph *g, struct cursor *in)
{
	uint64_t n = cursor_varu64(in);
	if (!cursor_ok(in) || n > g->types.n)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t first = cursor_varu64(in), role = cursor_varu64(in), base = cursor_varu64(in),
			 component = cursor_varu64(in);
		if (!cursor_ok(in) || first >= g->n || role >= USAGE_COLLECTION + collection_n_rules ||
		    base > UINT32_MAX || component > UINT16_MAX)
			return false;
		bool array = role == USAGE_ARRAY || role == USAGE_REFS;
		if (array && (!component || g->types.v[g->type[first]].kind != GRAPH_ARRAY))
			return false;
		room->types[g->type[first]] = (struct usage_type){ .role = (uint32_t)role,
								   .base = (uint32_t)base,
								   .component = (uint32_t)component };
	}
	return true;
}

static bool take_numbers(struct collection_usage *room, const struct heapgraph *g, struct cursor *in)
{
	uint64_t boxes = cursor_varu64(in), n = cursor_varu64(in), k = 0;
	if (!cursor_ok(in) || n > cursor_left(in) || boxes > n)
		return false;
	room->n_boxes = (uint32_t)boxes;
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t role = room->types[g->type[i]].role;
		if (role == USAGE_NONE)
			continue;
		uint64_t number = cursor_varu64(in);
		if (k++ >= n || number > UINT32_MAX || (role == USAGE_BOX && number > boxes))
			return false;
		room->numbers[i] = (uint32_t)number;
	}
	return k == n && cursor_ok(in);
}

static struct err *take_more(void *user, struct cursor *in)
{
	struct collection_usage *room = user;
	const struct heapgraph *g = room->reader->look->graph;
	if (cursor_u32(in) != TAG)
		return err_new(ERR_UNSUPPORTED, "the recording does not say how full collections are: it was made by a "
						"profiler that does not look");
	room->types = mem_zalloc((g->types.n + 1) * sizeof(*room->types));
	room->numbers = mem_zalloc(((size_t)g->n + 1) * sizeof(*room->numbers));
	if (!take_types(room, g, in) || !take_numbers(room, g, in))
		return err_new(ERR_BAD_DATA, "the recording's collections are damaged");
	return NULL;
}

/* ---- together ---- */

void collection_usage_watch(struct collection_usage *room, struct heap_look *look)
{
	room->reader = mem_zalloc(sizeof(*room->reader));
	room->reader->look = look;
	look->on_object = on_object;
	look->on_done = on_done;
	look->take_more = take_more;
	look->user = room;
}

void collection_usage_fini(struct collection_usage *room)
{
	if (room->reader) {
		vec_free(&room->reader->roles);
		vec_free(&room->reader->numbers);
		vec_free(&room->reader->types);
		vec_free(&room->reader->is_box);
		vec_free(&room->reader->boxes);
		map_u64_free(&room->reader->values);
		mem_free(room->reader);
	}
	mem_free(room->types);
	mem_free(room->numbers);
}
