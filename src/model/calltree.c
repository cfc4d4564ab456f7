#include "model/calltree.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>

const char *const frame_kind_ids[] = { "your-code", "framework", "gc", "jit", "native", "kernel", "other" };

enum { FRAME_ROOT = 0, FRAME_MORE = 1 };

struct calltree {
	VEC(struct calltree_node) nodes;
	struct map_u64 children; /* parent << 32 | frame -> node */
	struct strtab names;	 /* one character of kind, then the name: both make a frame */
	size_t max_nodes, n_more;
	uint64_t truncated;
};

struct calltree *calltree_new(size_t max_nodes)
{
	struct calltree *t = mem_zalloc(sizeof(*t));
	t->max_nodes = MIN(MAX(max_nodes, (size_t)1), (size_t)UINT32_MAX / 4);
	calltree_frame(t, "all", FRAME_OTHER);
	calltree_frame(t, "[more]", FRAME_OTHER);
	vec_push(&t->nodes, ((struct calltree_node){ .frame = FRAME_ROOT }));
	return t;
}

void calltree_free(struct calltree *t)
{
	if (!t)
		return;
	vec_free(&t->nodes);
	map_u64_free(&t->children);
	strtab_free(&t->names);
	mem_free(t);
}

uint32_t calltree_frame(struct calltree *t, const char *name, enum frame_kind kind)
{
	char small[256];
	size_t len = strlen(name) + 1;
	CLEANUP(mem_freep) char *large = len > sizeof(small) ? mem_alloc(len) : NULL;
	char *key = large ? large : small;
	key[0] = (char)('0' + (int)kind);
	memcpy(key + 1, name, len - 1);
	return strtab_add(&t->names, key, len);
}

static uint32_t child_of(struct calltree *t, uint32_t parent, uint32_t frame)
{
	/* Each node may have one "[more]" beyond the bound, so that no weight is ever booked on the wrong frame. */
	bool full = t->nodes.n - t->n_more >= t->max_nodes;
	uint64_t key = (uint64_t)parent << 32 | frame;
	uint64_t *known = map_u64_get(&t->children, key);
	if (known)
		return (uint32_t)*known;
	if (full && frame != FRAME_MORE)
		return 0;
	uint32_t node = (uint32_t)t->nodes.n;
	t->n_more += frame == FRAME_MORE;
	struct calltree_node n = { .frame = frame, .parent = parent, .next_sibling = t->nodes.v[parent].first_child };
	vec_push(&t->nodes, n);
	t->nodes.v[parent].first_child = node;
	*map_u64_put(&t->children, key, NULL) = node;
	return node;
}

uint32_t calltree_add(struct calltree *t, const uint32_t *frames, size_t n, uint64_t weight)
{
	uint32_t at = 0;
	t->nodes.v[0].total += weight;
	for (size_t i = 0; i < n; i++) {
		uint32_t next = child_of(t, at, frames[i]);
		bool room = next != 0;
		at = room ? next : child_of(t, at, FRAME_MORE);
		t->nodes.v[at].total += weight;
		if (!room) {
			t->truncated++;
			break;
		}
	}
	t->nodes.v[at].self += weight;
	return at;
}

uint64_t calltree_truncated(const struct calltree *t)
{
	return t->truncated;
}

struct by_weight {
	uint32_t node;
	uint64_t total;
	const char *name;
};

static int heaviest_first(const void *pa, const void *pb)
{
	const struct by_weight *a = pa, *b = pb;
	/* Equal ones by name, so that the same stacks give the same report. */
	return CMP(b->total, a->total) ?: strcmp(a->name, b->name);
}

void calltree_sort(struct calltree *t)
{
	VEC(struct by_weight) children = { 0 };
	for (size_t i = 0; i < t->nodes.n; i++) {
		vec_clear(&children);
		for (uint32_t c = t->nodes.v[i].first_child; c; c = t->nodes.v[c].next_sibling) {
			const char *name = strtab_get(&t->names, t->nodes.v[c].frame);
			vec_push(&children, ((struct by_weight){ c, t->nodes.v[c].total, name }));
		}
		vec_sort(&children, heaviest_first);
		uint32_t *link = &t->nodes.v[i].first_child;
		vec_each(c, &children) {
			*link = c->node;
			link = &t->nodes.v[c->node].next_sibling;
		}
		*link = 0;
	}
	vec_free(&children);
}

const struct calltree_node *calltree_node(const struct calltree *t, uint32_t i)
{
	return &t->nodes.v[i];
}

size_t calltree_n_nodes(const struct calltree *t)
{
	return t->nodes.n;
}

const char *calltree_frame_name(const struct calltree *t, uint32_t frame)
{
	return strtab_get(&t->names, frame) + 1;
}

enum frame_kind calltree_frame_kind(const struct calltree *t, uint32_t frame)
{
	return (enum frame_kind)(strtab_get(&t->names, frame)[0] - '0');
}
