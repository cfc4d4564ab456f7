#include "memory/retainers_internal.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define NOTHING UINT64_MAX /* of known: the reference means nothing */
#define CHAIN_STEPS 3	   /* retainers below the root that are told */
#define CHAINS_MAX 100000u

/* What a group is told apart by: texts, the nearest first, GRAPH_NONE = no more; the root's last. */
struct chain_key {
	uint32_t text[CHAIN_STEPS + 1];
};

/* ---- begin and end ---- */

static bool has_slot(const struct graph_type *t, const char *name)
{
	for (uint32_t i = 0; i < t->n_slots; i++)
		if (str_eq(t->slots[i], name))
			return true;
	return false;
}

static uint8_t *shapes_of(const struct heapgraph *g)
{
	uint8_t *shapes = mem_zalloc(g->types.n + 1);
	for (uint32_t t = 0; t < g->types.n; t++) {
		const struct graph_type *type = &g->types.v[t];
		shapes[t] = (uint8_t)((has_slot(type, "_invocationList") && has_slot(type, "_target") ? SHAPE_DELEGATE
												      : 0) |
				      (heap_type_is_closure(g, t) ? SHAPE_CLOSURE : 0) | (type->own ? SHAPE_OWN : 0));
	}
	return shapes;
}

struct retainers *retainers_new(const struct heapgraph *g, const struct heap_notes *notes)
{
	struct retainers *k = mem_zalloc(sizeof(*k));
	k->g = g;
	k->notes = notes;
	k->from = heapgraph_shortest_by_rank(g, heap_root_rank);
	k->up = mem_array((size_t)heapgraph_top(g) + 1, sizeof(uint32_t));
	memset(k->up, 0xFF, ((size_t)heapgraph_top(g) + 1) * sizeof(uint32_t));
	k->shapes = shapes_of(g);
	return k;
}

void retainers_free(struct retainers *k)
{
	if (!k)
		return;
	mem_free(k->from);
	mem_free(k->up);
	mem_free(k->shapes);
	vec_free(&k->v);
	vec_free(&k->climb);
	vec_free(&k->by_text);
	strtab_free(&k->texts);
	strtab_free(&k->chains);
	map_u64_free(&k->known);
	mem_free(k);
}

/* ---- one reference ---- */

uint32_t retainer_field(const struct heapgraph *g, uint32_t object, const char *field)
{
	const struct graph_type *t = object < g->n ? &g->types.v[g->type[object]] : NULL;
	for (uint32_t i = 0; t && i < t->n_slots; i++)
		if (str_starts(t->slots[i], field))
			return g->target[g->first[object] + i];
	return GRAPH_NONE;
}

static uint32_t text_of(struct retainers *k, const struct retainer_rule *rule, const struct retainer_edge *e)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	buf_str(&text, rule->words ? rule->words : "");
	if (rule->more)
		rule->more(k, e, &text);
	uint32_t id = strtab_add(&k->texts, text.data, text.len);
	if (id == k->by_text.n)
		vec_push(&k->by_text, ((struct retainer_text){ .rule = rule }));
	return id;
}

/* The words of a reference; GRAPH_NONE = it means nothing. Fields of one type are looked at once. */
static uint32_t learn_text(struct retainers *k, const struct retainer_edge *e)
{
	bool fresh = false;
	uint64_t key = (uint64_t)k->g->type[e->from] << 32 | e->slot;
	const uint64_t *known = e->slot == GRAPH_NONE ? NULL : map_u64_get(&k->known, key);
	if (known)
		return *known == NOTHING ? GRAPH_NONE : (uint32_t)*known;
	const struct retainer_rule *rule = retainer_rule_of(k, e);
	uint32_t text = rule ? text_of(k, rule, e) : GRAPH_NONE;
	/* The same field may hold delegates and other objects. */
	bool each = (rule && rule->more && !rule->plain) || (k->shapes[k->g->type[e->to]] & SHAPE_DELEGATE);
	if (e->slot != GRAPH_NONE && !each)
		*map_u64_put(&k->known, key, &fresh) = rule ? text : NOTHING;
	return text;
}

static void count_more(struct retainers *k, uint32_t text, const struct retainer_edge *e)
{
	struct retainer_text *t = &k->by_text.v[text];
	if (t->rule->count)
		t->most = MAX(t->most, t->rule->count(k, e));
}

/* ---- the way up ---- */

static uint32_t add_retainer(struct retainers *k, uint32_t text, uint32_t next)
{
	uint32_t root = next == GRAPH_NONE ? GRAPH_NONE : k->v.v[next].root == GRAPH_NONE ? next : k->v.v[next].root;
	vec_push(&k->v, ((struct retainer){ .text = text, .next = next, .root = root }));
	return (uint32_t)k->v.n - 1;
}

static uint32_t retainer_of_root(struct retainers *k, uint32_t root)
{
	struct retainer_edge e = { .from = root, .to = GRAPH_NONE, .slot = GRAPH_NONE, .field = "" };
	const struct retainer_rule *rule =
		k->g->roots.v[root - k->g->n].own ? &retainer_own_root_rule : &retainer_root_rule;
	return add_retainer(k, text_of(k, rule, &e), GRAPH_NONE);
}

/* A list, each of which has the next, is one retainer. */
static uint32_t retainer_above(struct retainers *k, uint32_t from, uint32_t to, uint32_t above)
{
	const struct heapgraph *g = k->g;
	struct retainer_edge e = { .from = from, .to = to, .slot = heap_slot(g, from, to), .field = "" };
	if (from < g->n && e.slot != GRAPH_NONE)
		e.field = g->types.v[g->type[from]].slots[e.slot];
	uint32_t text = GRAPH_NONE;
	if (from < g->n) {
		text = learn_text(k, &e);
	} else {
		const struct retainer_rule *rule = retainer_rule_of(k, &e);
		text = rule ? text_of(k, rule, &e) : GRAPH_NONE;
	}
	if (text == GRAPH_NONE)
		return above;
	count_more(k, text, &e);
	return k->v.v[above].text == text ? above : add_retainer(k, text, above);
}

/* The nearest retainer of an object that is reachable. */
static uint32_t retainer_of(struct retainers *k, uint32_t object)
{
	uint32_t v = object;
	vec_clear(&k->climb);
	while (v < k->g->n && k->up[v] == RETAINERS_UNKNOWN) {
		vec_push(&k->climb, v);
		v = k->from[v];
	}
	if (k->up[v] == RETAINERS_UNKNOWN)
		k->up[v] = retainer_of_root(k, v);
	for (size_t i = k->climb.n; i-- > 0;) {
		uint32_t to = k->climb.v[i];
		k->up[to] = retainer_above(k, v, to, k->up[v]);
		v = to;
	}
	return k->up[object];
}

/* ---- groups ---- */

static uint32_t chain_of(struct retainers *k, uint32_t retainer)
{
	struct chain_key key;
	uint32_t root = k->v.v[retainer].root == GRAPH_NONE ? retainer : k->v.v[retainer].root;
	memset(&key, 0xFF, sizeof(key));
	for (int i = 0; i < CHAIN_STEPS && retainer != root; i++, retainer = k->v.v[retainer].next)
		key.text[i] = k->v.v[retainer].text;
	key.text[CHAIN_STEPS] = k->v.v[root].text;
	uint32_t known = strtab_find(&k->chains, (const char *)&key, sizeof(key));
	if (known != STRTAB_NONE || k->chains.n < CHAINS_MAX)
		return strtab_add(&k->chains, (const char *)&key, sizeof(key));
	return 0;
}

static int most_objects_first(const void *a, const void *b)
{
	const struct kept_group *x = a, *y = b;
	return CMP(y->objects, x->objects) ?: CMP(x->chain, y->chain);
}

void retainers_group(struct retainers *k, const uint32_t *objects, size_t n, struct kept_groups *ret)
{
	CLEANUP(map_u64_free) struct map_u64 index = { 0 };
	vec_clear(ret);
	for (size_t i = 0; i < n; i++) {
		bool fresh;
		if (objects[i] >= k->g->n || k->from[objects[i]] == GRAPH_NONE)
			continue;
		uint32_t chain = chain_of(k, retainer_of(k, objects[i]));
		uint64_t *at = map_u64_put(&index, chain, &fresh);
		if (fresh) {
			*at = ret->n;
			vec_push(ret, ((struct kept_group){ .chain = chain, .object = objects[i] }));
		}
		ret->v[*at].objects++;
		ret->v[*at].bytes += 8ull * k->g->units[objects[i]];
	}
	vec_sort(ret, most_objects_first);
}

/* ---- words ---- */

static struct chain_key key_at(const struct retainers *k, uint32_t chain)
{
	struct chain_key key;
	memcpy(&key, strtab_get(&k->chains, chain), sizeof(key));
	return key;
}

static void text_words(const struct retainers *k, uint32_t text, struct buf *out)
{
	const struct retainer_text *t = &k->by_text.v[text];
	buf_str(out, strtab_get(&k->texts, text));
	if (t->most)
		buf_printf(out, " (%s)", fmt_plural(t->most, t->rule->one, t->rule->many).s);
}

void retainer_words(const struct retainers *k, uint32_t chain, struct buf *out)
{
	struct chain_key key = key_at(k, chain);
	const char *root = strtab_get(&k->texts, key.text[CHAIN_STEPS]), *name = strchr(root, ' ');
	size_t begin = out->len;
	for (int i = 0; i < CHAIN_STEPS && key.text[i] != GRAPH_NONE; i++) {
		buf_str(out, out->len > begin ? ", in " : "");
		text_words(k, key.text[i], out);
	}
	/* A root that is not the user's own means nothing once something else is said. */
	bool own = k->by_text.v[key.text[CHAIN_STEPS]].rule == &retainer_own_root_rule;
	bool said = name && strstr(buf_cstr(out) + begin, name + 1);
	if (out->len == begin || (own && !said))
		buf_printf(out, "%s%s", out->len > begin ? ", in " : "", root);
}

bool retainer_is_telling(const struct retainers *k, uint32_t chain)
{
	struct chain_key key = key_at(k, chain);
	for (int i = 0; i < CHAIN_STEPS && key.text[i] != GRAPH_NONE; i++)
		if (!k->by_text.v[key.text[i]].rule->plain)
			return true;
	return false;
}

const char *retainer_advice(const struct retainers *k, uint32_t chain)
{
	struct chain_key key = key_at(k, chain);
	for (int i = 0; i < CHAIN_STEPS && key.text[i] != GRAPH_NONE; i++)
		if (k->by_text.v[key.text[i]].rule->advice)
			return k->by_text.v[key.text[i]].rule->advice;
	return NULL;
}

void retainer_path(const struct retainers *k, uint32_t object, struct buf *out)
{
	heap_path_words(k->g, k->from, object, out);
}
