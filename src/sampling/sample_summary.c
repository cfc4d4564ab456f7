#include "sampling/sample_summary.h"
#include "eventpipe/methods.h"
#include <stdlib.h>
#include <string.h>

#define TREE_NODES_MAX 200000
#define UP_DEPTH 40 /* callers of a leaf beyond these say little */

/* Several frames may have one name (tiers, code that was named late): they are one method to a reader. */
static uint32_t *canonical_frames(const struct samples *s)
{
	uint32_t *same = mem_array(s->frames.n + 1, sizeof(*same));
	struct map_u64 index = { 0 };
	for (uint32_t i = 0; i < s->frames.n; i++) {
		bool new;
		const struct samples_frame *f = &s->frames.v[i];
		uint64_t *place = map_u64_put(&index, (uint64_t)f->name << 8 | f->kind, &new);
		if (new)
			*place = i;
		same[i] = (uint32_t)*place;
	}
	map_u64_free(&index);
	return same;
}

/* The subsystem of a stack: GC and JIT wherever they are in it, else its leaf's. */
static enum frame_kind kind_of_stack(const struct samples *s, uint32_t stack)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	for (uint32_t i = 0; i < k->n; i++) {
		uint8_t kind = s->frames.v[s->stack_frames.v[k->first + i]].kind;
		if (kind == FRAME_GC || kind == FRAME_JIT)
			return kind;
	}
	return s->frames.v[s->stack_frames.v[k->first]].kind;
}

struct summary_summing {
	struct sample_summary *hot;
	uint32_t *same;		       /* frame -> the first of its name */
	uint32_t *down, *up;	       /* frame -> calltree frame + 1 */
	uint32_t *seen;		       /* frame -> stack + 1 that last counted it */
	struct summary_method *method; /* by frame */
	uint64_t *stack_weight;	       /* by stack */
	struct map_u64 site;	       /* frame -> weight */
	struct map_u64 caller;	       /* site << 32 | caller -> weight */
	struct map_u64 below;	       /* site << 32 | leaf -> weight */
	struct map_u64 called;	       /* site << 32 | what it calls -> weight */
};

static uint32_t tree_frame(struct calltree *t, const struct samples *s, uint32_t *memo, uint32_t frame)
{
	if (!memo[frame])
		memo[frame] = calltree_frame(t, samples_frame_name(s, frame), s->frames.v[frame].kind) + 1;
	return memo[frame] - 1;
}

static bool is_package(const struct samples *s, uint32_t frame)
{
	return s->frames.v[frame].kind == FRAME_FRAMEWORK &&
	       whose_code(s->whose, samples_frame_name(s, frame)) == WHOSE_PACKAGE;
}

/* The innermost method of the user's own; without one, code that was compiled to call it, in which it may be inlined;
 * else that of a package, which may be of the user's company. */
static size_t site_of(const struct samples *s, const uint32_t *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s->frames.v[frames[i]].kind == FRAME_CODE)
			return i;
	for (size_t i = 0; i < n; i++)
		if (s->frames.v[frames[i]].kind == FRAME_FRAMEWORK &&
		    method_is_compiled(samples_frame_name(s, frames[i])))
			return i;
	for (size_t i = 0; i < n; i++)
		if (is_package(s, frames[i]))
			return i;
	return n;
}

/* "[libcoreclr.so]", "[stub]": code of which only the module is known. Its caller says more. */
static bool is_nameless(const struct samples *s, uint32_t frame)
{
	uint8_t kind = s->frames.v[frame].kind;
	return *samples_frame_name(s, frame) == '[' && kind != FRAME_GC && kind != FRAME_JIT;
}

/* The innermost of n frames that has a name; the leaf where none has. */
static uint32_t named_leaf(const struct samples *s, const uint32_t *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_nameless(s, frames[i]))
			return frames[i];
	return frames[0];
}

/* The first named frame that is called by frame i, directly or through code without a name; n where there is none. */
static size_t named_callee(const struct samples *s, const uint32_t *frames, size_t i, size_t n)
{
	while (i-- > 0)
		if (!is_nameless(s, frames[i]))
			return i;
	return n;
}

/* Leaf first. */
static void sum_site(struct summary_summing *g, const uint32_t *frames, size_t n, uint64_t weight)
{
	const struct samples *s = g->hot->samples;
	size_t i = site_of(s, frames, n);
	uint32_t site = i < n ? frames[i] : UINT32_MAX;
	*map_u64_put(&g->site, site, NULL) += weight;
	*map_u64_put(&g->below, (uint64_t)site << 32 | named_leaf(s, frames, MIN(i + 1, n)), NULL) += weight;
	/* Of a stack without the user's code, what of the framework it is in. */
	size_t called = i < n ? named_callee(s, frames, i, n) : n;
	if (i == n)
		for (called = 0; called < n && s->frames.v[frames[called]].kind != FRAME_FRAMEWORK;)
			called++;
	if (called < n)
		*map_u64_put(&g->called, (uint64_t)site << 32 | frames[called], NULL) += weight;
	for (i++; i < n; i++) {
		if (s->frames.v[frames[i]].kind != FRAME_CODE || frames[i] == site)
			continue;
		*map_u64_put(&g->caller, (uint64_t)site << 32 | frames[i], NULL) += weight;
		break;
	}
}

static void sum_stack(struct summary_summing *g, uint32_t stack, uint32_t *frames, uint32_t *tree)
{
	const struct samples *s = g->hot->samples;
	struct sample_summary *h = g->hot;
	uint64_t weight = g->stack_weight[stack];
	size_t n = samples_fold(s, g->same, stack, frames);
	h->by_kind[kind_of_stack(s, stack)] += weight;
	g->method[frames[0]].self += weight;
	for (size_t i = 0; i < n; i++) {
		if (g->seen[frames[i]] == stack + 1)
			continue;
		g->seen[frames[i]] = stack + 1;
		g->method[frames[i]].total += weight;
	}
	sum_site(g, frames, n, weight);
	for (size_t i = 0; i < n; i++)
		tree[n - 1 - i] = tree_frame(h->down, s, g->down, frames[i]);
	h->stack_node[stack] = calltree_add(h->down, tree, n, weight);
	for (size_t i = 0; i < n; i++)
		tree[i] = tree_frame(h->up, s, g->up, frames[i]);
	calltree_add(h->up, tree, MIN(n, (size_t)UP_DEPTH), weight);
}

static int by_self(const void *a, const void *b)
{
	const struct summary_method *x = a, *y = b;
	return CMP(y->self, x->self) ?: CMP(y->total, x->total) ?: CMP(x->frame, y->frame);
}

static int by_weight(const void *a, const void *b)
{
	const struct summary_site *x = a, *y = b;
	return CMP(y->weight, x->weight) ?: CMP(x->frame, y->frame);
}

/* Of "site << 32 | other" the heaviest other of each site. */
static void pick(struct sample_summary *h, const struct map_u64 *index, const struct map_u64 *pairs, size_t at,
		 size_t at_weight)
{
	uint64_t key, weight;
	for (size_t pos = 0; map_u64_next(pairs, &pos, &key, &weight);) {
		struct summary_site *site = &h->sites.v[*map_u64_get(index, key >> 32)];
		uint64_t *best = (uint64_t *)((char *)site + at_weight);
		uint32_t *frame = (uint32_t *)((char *)site + at);
		if (weight > *best || (weight == *best && (uint32_t)key < *frame)) {
			*best = weight;
			*frame = (uint32_t)key;
		}
	}
}

static void make_sites(struct summary_summing *g)
{
	struct sample_summary *h = g->hot;
	struct map_u64 index = { 0 };
	uint64_t key, weight;
	for (size_t pos = 0; map_u64_next(&g->site, &pos, &key, &weight);) {
		*map_u64_put(&index, key, NULL) = h->sites.n;
		vec_push(&h->sites, ((struct summary_site){ .frame = (uint32_t)key,
							    .caller = UINT32_MAX,
							    .below = UINT32_MAX,
							    .called = UINT32_MAX,
							    .weight = weight }));
	}
#define PICK(what)                                                                                                     \
	pick(h, &index, &g->what, offsetof(struct summary_site, what), offsetof(struct summary_site, what##_weight))
	PICK(caller);
	PICK(below);
	PICK(called);
#undef PICK
	map_u64_free(&index);
	vec_sort(&h->sites, by_weight);
}

struct sample_summary *sample_summary_new(const struct samples *samples, uint64_t kinds)
{
	struct sample_summary *h = mem_zalloc(sizeof(*h));
	size_t n_frames = samples->frames.n + 1, n_stacks = samples->stacks.n + 1, deepest = 1;
	h->samples = samples;
	h->down = calltree_new(TREE_NODES_MAX);
	h->up = calltree_new(TREE_NODES_MAX);
	h->threads = mem_zalloc((samples->threads.n + 1) * sizeof(*h->threads));
	h->stack_node = mem_zalloc(n_stacks * sizeof(*h->stack_node));
	struct summary_summing g = { .hot = h,
				     .same = canonical_frames(samples),
				     .down = mem_zalloc(n_frames * sizeof(uint32_t)),
				     .up = mem_zalloc(n_frames * sizeof(uint32_t)),
				     .seen = mem_zalloc(n_frames * sizeof(uint32_t)),
				     .method = mem_zalloc(n_frames * sizeof(struct summary_method)),
				     .stack_weight = mem_zalloc(n_stacks * sizeof(uint64_t)) };
	vec_each(x, &samples->list) {
		if (x->kind >= 64 || !(kinds >> x->kind & 1))
			continue;
		h->weight += x->weight;
		h->count++;
		h->threads[x->thread] += x->weight;
		g.stack_weight[x->stack] += x->weight;
	}
	vec_each(k, &samples->stacks)
		deepest = MAX(deepest, (size_t)k->n);
	CLEANUP(mem_freep) uint32_t *frames = mem_array(deepest, sizeof(*frames));
	CLEANUP(mem_freep) uint32_t *tree = mem_array(deepest, sizeof(*tree));
	for (uint32_t i = 0; i < samples->stacks.n; i++) {
		if (g.stack_weight[i])
			sum_stack(&g, i, frames, tree);
	}
	for (uint32_t i = 0; i < samples->frames.n; i++) {
		g.method[i].frame = i;
		if (g.method[i].total)
			vec_push(&h->methods, g.method[i]);
	}
	vec_sort(&h->methods, by_self);
	make_sites(&g);
	calltree_sort(h->down);
	calltree_sort(h->up);
	mem_free(g.same);
	mem_free(g.down);
	mem_free(g.up);
	mem_free(g.seen);
	mem_free(g.method);
	mem_free(g.stack_weight);
	map_u64_free(&g.site);
	map_u64_free(&g.caller);
	map_u64_free(&g.below);
	map_u64_free(&g.called);
	return h;
}

void sample_summary_free(struct sample_summary *h)
{
	if (!h)
		return;
	vec_free(&h->methods);
	vec_free(&h->sites);
	mem_free(h->threads);
	mem_free(h->stack_node);
	calltree_free(h->down);
	calltree_free(h->up);
	mem_free(h);
}

/* A separator inside a name would end its frame early. */
static void add_plain(struct buf *out, const char *name)
{
	for (const char *c = name; *c; c++)
		buf_char(out, *c == ';' || *c == '\n' || *c == '\r' ? '_' : *c);
}

static void add_path(const struct calltree *t, uint32_t node, struct buf *out)
{
	uint32_t path[UNWIND_FRAMES_MAX * 2];
	size_t n = 0;
	for (; node && n < ARRAY_SIZE(path); node = calltree_node(t, node)->parent)
		path[n++] = node;
	for (size_t i = n; i > 0; i--) {
		add_plain(out, calltree_frame_name(t, calltree_node(t, path[i - 1])->frame));
		if (i > 1)
			buf_char(out, ';');
	}
}

void sample_summary_folded(const struct sample_summary *h, uint64_t unit, struct buf *out)
{
	for (uint32_t i = 1; i < calltree_n_nodes(h->down); i++) {
		const struct calltree_node *node = calltree_node(h->down, i);
		if (!node->self)
			continue;
		add_path(h->down, i, out);
		buf_printf(out, " %llu\n", (unsigned long long)MAX(node->self / unit, (uint64_t)1));
	}
}
