/* Building of the blocks that become pictures: time charts, histograms, flame graphs. */

#include "report/doc.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/calltree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct report_chart *report_chart(struct report *r, const char *title, enum value_kind y_kind, uint64_t window_ns)
{
	struct report_chart *c = block_add(r, BLOCK_CHART, title ? title : "", sizeof(*c));
	c->y_kind = y_kind;
	c->window_ns = MIN(window_ns, (uint64_t)INT64_MAX);
	return c;
}

/* Neighbours become one point, the larger of them, until the rest fits: a peak is never lost. */
static void line_points(struct chart_line *l, const uint64_t *x_ns, const double *y, size_t n)
{
	size_t known = 0, i = 0;
	for (size_t k = 0; k < n; k++)
		known += isfinite(y[k]) != 0;
	size_t group = MAX((known + POINTS_MAX - 1) / POINTS_MAX, (size_t)1), in_group = 0;
	for (size_t k = 0; k < n; k++) {
		if (!isfinite(y[k]))
			continue;
		double value = y[k] + 0.0;
		if (in_group == 0) {
			l->x_ns[i] = MIN(x_ns[k], (uint64_t)INT64_MAX);
			l->y[i++] = value;
		} else {
			l->merged++;
			if (value > l->y[i - 1]) {
				l->x_ns[i - 1] = MIN(x_ns[k], (uint64_t)INT64_MAX);
				l->y[i - 1] = value;
			}
		}
		in_group = (in_group + 1) % group;
	}
	l->n = i;
}

void report_chart_line(struct report_chart *c, const char *name, const uint64_t *x_ns, const double *y, size_t n)
{
	struct report *r = c->block.report;
	if (c->n_lines == CHART_LINES_MAX) {
		r->cut_items++;
		return;
	}
	struct chart_line *l = arena_zalloc(&r->arena, sizeof(*l));
	size_t room = MIN(MAX(n, (size_t)1), (size_t)POINTS_MAX);
	l->name = doc_text(r, name);
	l->x_ns = arena_alloc(&r->arena, room * sizeof(*l->x_ns));
	l->y = arena_alloc(&r->arena, room * sizeof(*l->y));
	line_points(l, x_ns, y, n);
	if (c->last_line)
		c->last_line->next = l;
	else
		c->first_line = l;
	c->last_line = l;
	c->n_lines++;
}

static size_t lowest_bar(const struct report_chart *c)
{
	size_t lowest = 0;
	for (size_t i = 1; i < c->n_bars; i++) {
		if (c->bars[i].y < c->bars[lowest].y)
			lowest = i;
	}
	return lowest;
}

void report_chart_bar(struct report_chart *c, uint64_t x_ns, uint64_t length_ns, double y, const char *label)
{
	struct report *r = c->block.report;
	if (!isfinite(y)) {
		r->cut_items++;
		return;
	}
	size_t place = c->n_bars;
	if (place == BARS_MAX) {
		c->bars_cut++;
		place = lowest_bar(c);
		if (y <= c->bars[place].y)
			return;
	} else {
		if (c->n_bars == c->bars_cap) {
			size_t cap = c->bars_cap ? c->bars_cap * 2 : 32;
			struct chart_bar *grown = arena_alloc(&r->arena, cap * sizeof(*grown));
			if (c->n_bars)
				memcpy(grown, c->bars, c->n_bars * sizeof(*grown));
			c->bars = grown;
			c->bars_cap = cap;
		}
		c->n_bars++;
	}
	x_ns = MIN(x_ns, (uint64_t)INT64_MAX);
	length_ns = MIN(length_ns, (uint64_t)INT64_MAX);
	c->bars[place] = (struct chart_bar){ x_ns, length_ns, y + 0.0, doc_text(r, label) };
}

double chart_max(const struct report_chart *c)
{
	double max = 0;
	for (size_t i = 0; i < c->n_bars; i++)
		max = MAX(max, c->bars[i].y);
	for (const struct chart_line *l = c->first_line; l; l = l->next) {
		for (size_t i = 0; i < l->n; i++)
			max = MAX(max, l->y[i]);
	}
	return max;
}

uint64_t chart_window(const struct report_chart *c)
{
	uint64_t end = c->window_ns;
	for (size_t i = 0; i < c->n_bars && !c->window_ns; i++)
		end = MAX(end, c->bars[i].x_ns + c->bars[i].length_ns);
	for (const struct chart_line *l = c->first_line; l && !c->window_ns; l = l->next) {
		for (size_t i = 0; i < l->n; i++)
			end = MAX(end, l->x_ns[i]);
	}
	return MAX(end, (uint64_t)1);
}

bool chart_line_at(const struct chart_line *l, double x_ns, double *ret)
{
	for (size_t i = 0; i < l->n; i++) {
		double x = (double)l->x_ns[i];
		if (x < x_ns)
			continue;
		if (x > x_ns && !i)
			return false;
		double before = i ? (double)l->x_ns[i - 1] : x;
		double part = x > before ? (x_ns - before) / (x - before) : 1;
		*ret = i ? l->y[i - 1] + (l->y[i] - l->y[i - 1]) * part : l->y[i];
		return true;
	}
	return false;
}

struct report_histogram *report_histogram(struct report *r, const char *title, enum value_kind x_kind)
{
	struct report_histogram *h = block_add(r, BLOCK_HISTOGRAM, title ? title : "", sizeof(*h));
	h->x_kind = x_kind;
	return h;
}

void report_bucket(struct report_histogram *h, double from, double to, uint64_t count)
{
	if (h->n == BUCKETS_MAX || !isfinite(from) || !isfinite(to)) {
		h->block.report->cut_items++;
		return;
	}
	count = MIN(count, (uint64_t)INT64_MAX);
	h->buckets[h->n++] = (struct bucket){ from + 0.0, to + 0.0, count };
}

uint64_t histogram_max(const struct report_histogram *h)
{
	uint64_t max = 0;
	for (size_t i = 0; i < h->n; i++)
		max = MAX(max, h->buckets[i].count);
	return max;
}

struct report_flame *flame_new(struct report *r, const char *title, enum value_kind kind)
{
	struct report_flame *f = block_add(r, BLOCK_FLAME, title ? title : "", sizeof(*f));
	f->weight_kind = kind;
	return f;
}

struct flame_copy {
	const struct calltree *tree;
	struct report *report;
	struct report_flame *flame;
	struct map_u64 frames; /* of the tree -> ours + 1 */
	VEC(struct flame_frame) kept_frames;
	VEC(struct flame_node) nodes;
	uint32_t *places; /* of the tree's nodes among ours; of those left out their caller's */
	uint64_t least;	  /* lighter subtrees are left out */
};

static uint32_t copy_frame(struct flame_copy *c, uint32_t frame)
{
	uint64_t *known = map_u64_put(&c->frames, frame, NULL);
	if (!*known) {
		struct flame_frame f = { doc_text(c->report, calltree_frame_name(c->tree, frame)),
					 (int)calltree_frame_kind(c->tree, frame) };
		vec_push(&c->kept_frames, f);
		*known = c->kept_frames.n;
	}
	return (uint32_t)(*known - 1);
}

struct heavy {
	uint32_t node;
	uint64_t total;
	const char *name;
};

static int lightest_first(const void *pa, const void *pb)
{
	const struct heavy *a = pa, *b = pb;
	return CMP(a->total, b->total) ?: strcmp(b->name, a->name);
}

/* Preorder with a stack of our own: trees may be deeper than ours. */
static void copy_nodes(struct flame_copy *c)
{
	struct todo {
		uint32_t node, depth;
	};
	VEC(struct todo) todo = { 0 };
	VEC(struct heavy) children = { 0 };
	vec_push(&todo, ((struct todo){ 0, 0 }));
	while (todo.n) {
		struct todo at = todo.v[--todo.n];
		const struct calltree_node *n = calltree_node(c->tree, at.node);
		uint64_t below = 0;
		vec_clear(&children);
		for (uint32_t i = n->first_child; i; i = calltree_node(c->tree, i)->next_sibling) {
			const struct calltree_node *child = calltree_node(c->tree, i);
			bool room = at.depth + 1 < FLAME_DEPTH_MAX && child->total >= c->least &&
				    c->nodes.n + todo.n + children.n + 1 < FLAME_NODES_MAX;
			if (!room)
				continue;
			below += child->total;
			vec_push(&children,
				 ((struct heavy){ i, child->total, calltree_frame_name(c->tree, child->frame) }));
		}
		vec_sort(&children, lightest_first);
		vec_each(h, &children)
			vec_push(&todo, ((struct todo){ h->node, at.depth + 1 }));
		struct flame_node kept = { .frame = copy_frame(c, n->frame), .depth = at.depth };
		below = MIN(below, n->total);
		kept.self = MIN(n->total - below, (uint64_t)INT64_MAX);
		c->flame->cut += kept.self - MIN(n->self, kept.self);
		c->places[at.node] = (uint32_t)c->nodes.n;
		vec_push(&c->nodes, kept);
	}
	vec_free(&todo);
	vec_free(&children);
}

/* Nodes that were left out stand where their caller does. */
static void place_all(struct flame_copy *c)
{
	for (uint32_t i = 1; i < calltree_n_nodes(c->tree); i++) {
		/* A parent is older than its children. */
		if (c->places[i] == UINT32_MAX)
			c->places[i] = c->places[calltree_node(c->tree, i)->parent];
	}
}

static int by_time(const void *pa, const void *pb)
{
	const struct heat_cell *a = pa, *b = pb;
	return CMP(a->column, b->column) ?: CMP(a->row, b->row) ?: CMP(a->node, b->node);
}

static void add_heat(struct flame_copy *c, const struct report_moment *samples, size_t n, uint64_t window_ns)
{
	enum { ROW_NS = NS_PER_S / HEAT_ROWS };
	struct report_flame *f = c->flame;
	/* A window is a little longer than was asked for: no column for a tenth of a second. */
	uint64_t seconds = MAX((window_ns + 900 * NS_PER_MS) / NS_PER_S, (uint64_t)1);
	VEC(struct heat_cell) cells = { 0 };
	f->heat_seconds = MAX((seconds + HEAT_COLUMNS_MAX - 1) / HEAT_COLUMNS_MAX, (uint64_t)1);
	f->heat_columns = (seconds + f->heat_seconds - 1) / f->heat_seconds;
	for (size_t i = 0; i < n; i++) {
		uint64_t time_ns = MIN(samples[i].time_ns, seconds * NS_PER_S - 1), second = time_ns / NS_PER_S;
		if (samples[i].node < calltree_n_nodes(c->tree))
			vec_push(&cells,
				 ((struct heat_cell){ .column = (uint16_t)(second / f->heat_seconds),
						      .row = (uint16_t)(time_ns % NS_PER_S / ROW_NS),
						      .node = c->places[samples[i].node],
						      .weight = MIN(samples[i].weight, (uint64_t)INT64_MAX / 4096) }));
	}
	vec_sort(&cells, by_time);
	size_t kept = 0;
	vec_each(cell, &cells) {
		if (kept && !by_time(&cells.v[kept - 1], cell))
			cells.v[kept - 1].weight += cell->weight;
		else
			cells.v[kept++] = *cell;
	}
	/* A picture that would be wrong is none. */
	if (kept <= HEAT_CELLS_MAX) {
		f->cells = arena_dup(&c->report->arena, cells.v, kept * sizeof(*cells.v));
		f->n_cells = kept;
	} else {
		c->report->cut_items++;
	}
	vec_free(&cells);
}

void report_flame(struct report *r, const char *title, const struct calltree *tree, enum value_kind weight_kind)
{
	report_flame_timed(r, title, tree, weight_kind, NULL, 0, 0);
}

void report_flame_timed(struct report *r, const char *title, const struct calltree *tree, enum value_kind weight_kind,
			const struct report_moment *samples, size_t n, uint64_t window_ns)
{
	struct report_flame *f = flame_new(r, title, weight_kind);
	struct flame_copy c = { .tree = tree, .report = r, .flame = f };
	c.places = mem_array(calltree_n_nodes(tree), sizeof(*c.places));
	memset(c.places, 0xff, calltree_n_nodes(tree) * sizeof(*c.places));
	/* Half a pixel of a wide window; nothing thinner could be seen. */
	c.least = MIN(calltree_node(tree, 0)->total, (uint64_t)INT64_MAX) / 4000;
	copy_nodes(&c);
	f->nodes = arena_dup(&r->arena, c.nodes.v, c.nodes.n * sizeof(*c.nodes.v));
	f->n_nodes = c.nodes.n;
	f->frames = arena_dup(&r->arena, c.kept_frames.v, c.kept_frames.n * sizeof(*c.kept_frames.v));
	f->n_frames = c.kept_frames.n;
	flame_sum(f);
	place_all(&c);
	if (n)
		add_heat(&c, samples, n, window_ns);
	mem_free(c.places);
	vec_free(&c.nodes);
	vec_free(&c.kept_frames);
	map_u64_free(&c.frames);
}

void flame_sum(struct report_flame *f)
{
	for (size_t i = f->n_nodes; i-- > 0;) {
		struct flame_node *n = &f->nodes[i];
		uint32_t child = (uint32_t)i + 1;
		n->total = n->self;
		for (; child < f->n_nodes && f->nodes[child].depth > n->depth; child = f->nodes[child].end)
			n->total += MIN(f->nodes[child].total, UINT64_MAX - n->total);
		n->end = child;
	}
}

double flame_change(const struct report_flame *f, size_t i)
{
	double all = (double)f->nodes[0].before;
	return f->compared ? flame_share(f, i) - ratio(f->nodes[i].before, all) : 0;
}

int flame_change_level(const struct report_flame *f, size_t i)
{
	double points = flame_change(f, i), x = fabs(points);
	int level = x < 0.005 ? 0 : x < 0.03 ? 1 : x < 0.10 ? 2 : 3;
	return points < 0 ? -level : level;
}

double flame_share(const struct report_flame *f, size_t i)
{
	return ratio(f->nodes[i].total, f->nodes[0].total);
}
