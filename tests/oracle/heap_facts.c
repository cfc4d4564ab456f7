/* What the heap module says about a core file, one line a thing: heap_facts memory|heap|stat|graph CORE
 * [without-threads]; stat is heap without references. Compared with tests/oracle/clrmd. */

#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "heap/drain.h"
#include "heap/objects.h"
#include "heap/walk.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(struct err *err)
{
	if (!err)
		return;
	fprintf(stderr, "heap_facts: %s\n", err_text(err));
	exit(1);
}

#define X(v) ((unsigned long long)(v))

static void print_statics(struct heap *h, const struct dac_threads *threads)
{
	struct heap_statics statics;
	must(heap_statics(h, threads, &statics));
	vec_each(s, &statics)
		printf("%s %llx %s %llx %s %s\n", s->thread ? "thread-static" : "static", X(s->type->address),
		       s->field->name, X(s->object), s->type->name, heap_type_of(h, s->object)->name);
	heap_statics_free(&statics);
}

struct sums {
	uint64_t refs, sum;
};

struct type_sums {
	const struct heap_type *type;
	uint64_t n, bytes;
	struct sums s;
};

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	(void)at;
	struct sums *s = user;
	for (size_t i = 0; i < n; i++) {
		s->refs += refs[i] != 0;
		s->sum += refs[i];
	}
}

/* Regions, then per type: objects, bytes, references and the sum of their values. */
static void print_heap(struct heap *h, struct dac *d, const struct dac_threads *threads, bool references)
{
	struct dac_heaps heaps;
	struct dac_segments segments;
	struct heap_outline outline;
	struct heap_found f;
	VEC(struct type_sums) types = { 0 };
	must(dac_heaps(d, &heaps));
	must(dac_segments(d, &segments));
	must(heap_outline_make(heap_facts(h), &heaps, &segments, threads, &outline));
	printf("layout %s %s\n", outline.uses_regions ? "regions" : "segments",
	       outline.server ? "server" : "workstation");
	vec_each(r, &outline.regions)
		printf("region %llx %llx %u %d\n", X(r->start), X(r->end), r->heap, r->generation);
	struct heap_walk *w = heap_walk_new(h, &outline);
	while (heap_walk_next(w, &f)) {
		while (types.n <= f.type->index)
			memset(vec_add(&types), 0, sizeof(*types.v));
		struct type_sums *t = &types.v[f.type->index];
		t->type = f.type;
		t->n++;
		t->bytes += f.size;
		if (references)
			heap_walk_refs(w, &f, on_refs, &t->s);
	}
	must(heap_walk_check(w));
	vec_each(t, &types)
		if (t->n)
			printf("type %llx %llu %llu %llu %llx\n", X(t->type->address), X(t->n), X(t->bytes),
			       X(t->s.refs), X(t->s.sum));
	struct heap_health health = heap_walk_health(w);
	fprintf(stderr, "%llu objects %llu bytes %llu free %llu unused %llu lost in %u regions at %llx, %u left out\n",
		X(health.objects), X(health.bytes), X(health.free_bytes), X(health.unused_bytes), X(health.lost_bytes),
		health.lost_regions, X(health.lost_at), outline.left_out);
	heap_walk_free(w);
	heap_outline_free(&outline);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	vec_free(&types);
}

/* ---- the graph ---- */

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/* The different objects that roots of a kind refer to, and the sum of their addresses. Handles: of that name, or one of
 * these. */
static void print_root_kind(const struct heapgraph *g, enum graph_root kind, const char *name, const char *other,
			    const char *shown)
{
	VEC(uint32_t) objects = { 0 };
	uint64_t n = 0, sum = 0;
	vec_each(set, &g->roots)
		for (uint32_t i = 0;
		     set->kind == kind && (!name || str_eq(set->name, name) || str_eq(set->name, other)) && i < set->n;
		     i++)
			vec_push(&objects, g->root_targets[set->first + i]);
	vec_sort(&objects, by_number);
	for (size_t i = 0; i < objects.n; i++)
		if (!i || objects.v[i] != objects.v[i - 1]) {
			n++;
			sum += heapgraph_address(g, objects.v[i]);
		}
	if (n)
		printf("roots %s %llu %llx\n", shown, X(n), X(sum));
	vec_free(&objects);
}

/* Objects and units that roots reach when one object is not there. */
static void reach_without(const struct heapgraph *g, uint32_t without, uint64_t *ret_objects, uint64_t *ret_units)
{
	CLEANUP(mem_freep) bool *seen = mem_zalloc(g->n);
	VEC(uint32_t) left = { 0 };
	*ret_objects = *ret_units = 0;
	seen[without] = true;
	vec_each(set, &g->roots)
		for (uint32_t i = 0; i < set->n; i++)
			vec_push(&left, g->root_targets[set->first + i]);
	while (left.n) {
		uint32_t v = left.v[--left.n];
		if (seen[v])
			continue;
		seen[v] = true;
		*ret_objects += 1;
		*ret_units += g->units[v];
		for (uint32_t i = g->first[v]; i < g->first[v + 1]; i++)
			if (g->target[i] != GRAPH_NONE)
				vec_push(&left, g->target[i]);
	}
	vec_free(&left);
}

/* Takes objects away, one at a time, and compares what goes with them with what they retain. */
static void print_removals(const struct heapgraph *g)
{
	enum { TAKEN = 40 };
	uint64_t wrong = 0, several = 0, taken = 0, lot = 88172645463325252;
	for (unsigned i = 0; i < 10000 && taken < TAKEN; i++) {
		uint64_t objects, units;
		lot ^= lot << 13;
		lot ^= lot >> 7;
		lot ^= lot << 17;
		uint32_t v = (uint32_t)(lot % g->n);
		/* Most objects have nothing below them: every other one taken has. */
		if (!heapgraph_reached(g, v) || (taken % 2 && g->retained_objects[v] < 2))
			continue;
		taken++;
		several += g->retained_objects[v] > 1;
		reach_without(g, v, &objects, &units);
		wrong += g->reached_objects - objects != g->retained_objects[v] ||
			 g->reached_units - units != g->retained[v];
	}
	printf("removed %llu %llu %llu\n", X(taken), X(several), X(wrong));
}

/* Steps from a root along the shortest ways; each vertex is gone through once. */
static void find_distance(const struct heapgraph *g, const uint32_t *shortest, uint32_t v, uint32_t *distance)
{
	VEC(uint32_t) way = { 0 };
	for (; v < g->n && !distance[v]; v = shortest[v])
		vec_push(&way, v);
	uint32_t d = v < g->n ? distance[v] : 0;
	while (way.n)
		distance[way.v[--way.n]] = ++d;
	vec_free(&way);
}

/* The way to every object: its last step is a reference that is there, and nothing that refers to it is nearer. */
static void print_paths(const struct heapgraph *g)
{
	uint32_t *shortest = heapgraph_shortest(g), *distance = mem_zalloc((g->n + 1) * sizeof(*distance));
	bool *real = mem_zalloc(g->n + 1);
	uint64_t n = 0, wrong = 0;
	for (uint32_t v = 0; v < g->n; v++)
		if (shortest[v] != GRAPH_NONE)
			find_distance(g, shortest, v, distance);
	for (uint32_t r = 0; r < g->roots.n; r++)
		for (uint32_t i = 0; i < g->roots.v[r].n; i++) {
			uint32_t to = g->root_targets[g->roots.v[r].first + i];
			real[to] |= shortest[to] == g->n + r;
			wrong += distance[to] != 1;
		}
	for (uint32_t v = 0; v < g->n; v++)
		for (uint32_t k = g->first[v]; distance[v] && k < g->first[v + 1]; k++) {
			uint32_t to = g->target[k];
			if (to == GRAPH_NONE)
				continue;
			real[to] |= shortest[to] == v;
			wrong += !distance[to] || distance[to] > distance[v] + 1;
		}
	for (uint32_t v = 0; v < g->n; v++) {
		n += distance[v] != 0;
		wrong += real[v] != (distance[v] != 0);
	}
	printf("paths %llu %llu\n", X(n), X(wrong));
	mem_free(real);
	mem_free(distance);
	mem_free(shortest);
}

/* What is reached and what each root keeps alive, through the stream and back. ClrMD does not know the static fields of
 * threads, which since .NET 9 no handle holds: without_threads leaves them out. */
static void print_graph(struct heap *h, struct dac *d, bool checks, bool without_threads)
{
	struct buf out = { 0 };
	struct heap_drain drain = { 0 };
	struct heapgraph *g = NULL;
	uint64_t started = clock_mono_ns(), took[3];
	must(heap_drain(h, d, &drain, &out));
	took[0] = clock_mono_ns() - started;
	struct cursor in = cursor_make(out.data, out.len);
	must(heapgraph_read(&in, &g));
	took[1] = clock_mono_ns() - started - took[0];
	for (uint32_t r = 0; without_threads && r < g->roots.n; r++)
		if (g->roots.v[r].kind == GRAPH_THREAD_STATIC)
			g->roots.v[r].n = 0;
	heapgraph_dominate(g);
	took[2] = clock_mono_ns() - started - took[0] - took[1];
	fprintf(stderr, "%llu bytes written, %llu ms; read in %llu ms; dominators in %llu ms; %llu strays, %u unread\n",
		X(out.len), X(took[0] / 1000000), X(took[1] / 1000000), X(took[2] / 1000000), X(g->facts.strays),
		drain.threads_unread);
	printf("reached %llu %llu\n", X(g->reached_objects), X(g->reached_units * 8));
	print_root_kind(g, GRAPH_STACK, NULL, NULL, "stack");
	print_root_kind(g, GRAPH_FINALIZER, NULL, NULL, "finalizer");
	print_root_kind(g, GRAPH_HANDLE, "strong handles", "literals and interned strings", "strong");
	print_root_kind(g, GRAPH_HANDLE, "pinned handles", NULL, "pinned");
	print_root_kind(g, GRAPH_HANDLE, "reference-counted handles", NULL, "counted");
	print_root_kind(g, GRAPH_HANDLE, "pinned handles of overlapped I/O", NULL, "overlapped");
	print_root_kind(g, GRAPH_HANDLE, "sized handles", NULL, "sized");
	if (checks) {
		print_removals(g);
		print_paths(g);
	}
	for (uint32_t r = 0; r < g->roots.n; r++)
		printf("root %d %u %llu %s %s\n", g->roots.v[r].kind, g->roots.v[r].n, 8 * X(g->retained[g->n + r]),
		       g->roots.v[r].thread, g->roots.v[r].name);
	heapgraph_free(g);
	buf_free(&out);
}

int main(int argc, char **argv)
{
	struct image *img = NULL;
	struct dac *d = NULL;
	struct heap *h = NULL;
	struct dac_threads threads;
	if (argc < 3)
		return 2;
	must(image_open_core(argv[2], &(struct image_core_options){ .files_root = "" }, NULL, &img));
	must(dac_open(img, NULL, &d));
	must(heap_open(img, d, &h));
	must(dac_threads(d, &threads));
	if (!str_eq(argv[1], "graph"))
		print_heap(h, d, &threads, !str_eq(argv[1], "stat"));
	if (str_eq(argv[1], "memory"))
		print_statics(h, &threads);
	if (str_eq(argv[1], "memory") || str_eq(argv[1], "graph"))
		print_graph(h, d, str_eq(argv[1], "memory"), argc > 3);
	if (heap_trouble(h))
		fprintf(stderr, "heap_facts: %s\n", heap_trouble(h));
	dac_threads_free(&threads);
	heap_close(h);
	dac_close(d);
	image_close(img);
	return 0;
}
