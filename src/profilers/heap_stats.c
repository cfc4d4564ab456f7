/* Heap statistics: what is on the managed heap, by type, generation and GC heap, and where the rest of the memory is.
 */

#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/gcdump.h"
#include "memory/heap_look.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define MB ((uint64_t)1 << 20)
#define TYPE_ROWS 40
#define TOP_SHARE 0.01 /* of the heap: a largest type that has less says nothing */

/* Free room inside the heap that no collection has given back, and garbage: parts of the heap from which on they are
 * worth a word. Small heaps are never worth one. */
#define FREE_SHARE 0.25
#define FREE_BYTES (50 * MB)
#define GARBAGE_SHARE 0.5
#define GARBAGE_BYTES (50 * MB)
/* The managed heap is then not what fills the memory. Any .NET process has some 100 MB of runtime, libraries and code:
 * that much elsewhere is no finding. */
#define ELSEWHERE_LARGE (150 * MB)
#define HEAP_SMALL_SHARE 0.3
/* Of the heap: then a type is worth a sentence. */
#define OWN_SHARE 0.25
#define OWN_MANY 100

struct type_sum {
	uint32_t type;
	uint64_t objects, bytes, garbage, retained;
};
VEC_TYPE(type_sums, struct type_sum);

/* ---- sums ---- */

static void sum_objects(const struct heapgraph *g, struct type_sum *sums)
{
	for (uint32_t i = 0; i < g->n; i++) {
		struct type_sum *s = &sums[g->type[i]];
		uint64_t bytes = (uint64_t)g->units[i] * 8;
		s->objects++;
		s->bytes += bytes;
		s->garbage += heapgraph_reached(g, i) ? 0 : bytes;
	}
}

/* What a type retains: what its objects do, but those that are inside of another of the same type. */
static void sum_retained(const struct heapgraph *g, struct type_sum *sums)
{
	uint32_t *open = mem_zalloc((g->types.n + 1) * sizeof(*open));
	uint32_t v = heapgraph_top(g);
	bool down = true;
	for (;;) {
		if (down && v < g->n && !open[g->type[v]]++)
			sums[g->type[v]].retained += (uint64_t)g->retained[v] * 8;
		if (down && g->child[v] != GRAPH_NONE) {
			v = g->child[v];
			continue;
		}
		if (v == heapgraph_top(g))
			break;
		if (v < g->n)
			open[g->type[v]]--;
		down = g->sibling[v] != GRAPH_NONE;
		v = down ? g->sibling[v] : g->dominator[v];
	}
	mem_free(open);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct type_sum *x = a, *y = b;
	return CMP(y->bytes, x->bytes) ?: CMP(x->type, y->type);
}

/* Types that have the same name (of several load contexts) are one row. Only those with the text in their name. */
static struct type_sums sums_of(const struct heapgraph *g, const char *text)
{
	CLEANUP(mem_freep) bool *fits = mem_array(g->types.n + 1, sizeof(*fits));
	struct type_sums sums = { 0 };
	struct type_sum *all = mem_zalloc((g->types.n + 1) * sizeof(*all));
	CLEANUP(strtab_free) struct strtab names = { 0 };
	sum_objects(g, all);
	sum_retained(g, all);
	heap_types_like(g, text, fits);
	for (uint32_t t = 0; t < g->types.n; t++) {
		if (!all[t].objects || !fits[t])
			continue;
		uint32_t id = strtab_add_cstr(&names, g->types.v[t].name);
		if (id == sums.n)
			vec_push(&sums, (struct type_sum){ .type = t });
		sums.v[id].objects += all[t].objects;
		sums.v[id].bytes += all[t].bytes;
		sums.v[id].garbage += all[t].garbage;
		sums.v[id].retained += all[t].retained;
	}
	vec_sort(&sums, most_bytes_first);
	mem_free(all);
	return sums;
}

/* ---- words ---- */

struct totals {
	uint64_t bytes, free, garbage, heap; /* heap: all that the collector has taken */
	enum graph_area largest;
};

static struct totals totals_of(const struct heapgraph *g)
{
	struct totals t = { .bytes = g->facts.bytes, .free = g->facts.free_bytes };
	t.garbage = t.bytes - MIN(t.bytes, g->reached_units * 8);
	for (enum graph_area a = 0; a < GRAPH_AREAS; a++)
		if (g->facts.area[a] > g->facts.area[t.largest])
			t.largest = a;
	t.heap = t.bytes + t.free + g->facts.unused_bytes;
	return t;
}

static const char *finding_of(const struct heapgraph *g, const struct totals *t)
{
	const struct graph_facts *f = &g->facts;
	if (f->rss >= f->area[GRAPH_AREA_HEAP] + ELSEWHERE_LARGE &&
	    ratio(f->area[GRAPH_AREA_HEAP], f->rss) < HEAP_SMALL_SHARE)
		return "memory-is-elsewhere";
	if (t->free >= FREE_BYTES && ratio(t->free, t->heap) >= FREE_SHARE)
		return "fragmented";
	if (t->garbage >= GARBAGE_BYTES && ratio(t->garbage, t->bytes) >= GARBAGE_SHARE)
		return "mostly-garbage";
	return "seen";
}

/* Bytes are mostly in arrays and strings of the platform: the type of the user's own, of which there are many, that
 * keeps most of them. */
static void say_own(const struct heapgraph *g, const struct type_sums *sums, const struct totals *t, struct rich *v)
{
	const struct type_sum *most = NULL;
	CLEANUP(buf_free) struct buf name = { 0 };
	vec_each(s, sums)
		if (s->objects >= OWN_MANY && g->types.v[s->type].own && !heap_type_is_closure(g, s->type) &&
		    (!most || s->retained > most->retained))
			most = s;
	if (!most || most == &sums->v[0] || ratio(most->retained, t->bytes) < OWN_SHARE)
		return;
	heap_type_name(g, most->type, &name);
	rich_text(v, " Of the application's own, ");
	rich_strong(v, "%s ", fmt_count(most->objects).s);
	rich_code(v, buf_cstr(&name));
	rich_text(v, " keep most: %s.", fmt_bytes(most->retained).s);
}

static void say_top(const struct heapgraph *g, const struct type_sums *sums, const struct totals *t, struct rich *v)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	const struct type_sum *top = sums->n ? &sums->v[0] : NULL;
	if (!top || ratio(top->bytes, t->bytes) < TOP_SHARE)
		return;
	heap_type_name(g, top->type, &name);
	rich_text(v, " %s of it is ", fmt_percent(ratio(top->bytes, t->bytes)).s);
	rich_code(v, buf_cstr(&name));
	rich_text(v, ".");
}

/* Of some types only. */
static void add_asked(const struct exam *exam, const struct heapgraph *g, const struct type_sums *sums,
		      const char *text, struct report *report)
{
	uint64_t objects = 0, bytes = 0;
	const char *finding = sums->n ? "asked" : "no-such-type";
	struct rich *v = report_verdict(report, REPORT_INFO, finding);
	vec_each(s, sums) {
		objects += s->objects;
		bytes += s->bytes;
	}
	if (sums->n) {
		rich_strong(v, "%s in %s", fmt_bytes(bytes).s, fmt_plural(objects, "object", "objects").s);
		rich_text(v, ", %s of the heap, are of the %s that have ", fmt_percent(ratio(bytes, g->facts.bytes)).s,
			  fmt_plural(sums->n, "type", "types").s);
	} else {
		rich_text(v, "None of the %s on the heap has ", fmt_plural(g->types.n, "type", "types").s);
	}
	rich_code(v, text);
	rich_text(v, " in %s name.", sums->n == 1 || !sums->n ? "its" : "their");
	if (sums->n)
		say_top(g, sums, &(struct totals){ .bytes = bytes }, v);
	report_advice(report, exam->profiler, finding);
}

static void add_verdict(const struct exam *exam, const struct heapgraph *g, const struct type_sums *sums,
			struct report *report)
{
	struct totals t = totals_of(g);
	const struct graph_facts *f = &g->facts;
	const char *finding = finding_of(g, &t);
	bool warn = str_eq(finding, "fragmented");
	struct rich *v = report_verdict(report, warn ? REPORT_WARN : REPORT_INFO, finding);
	if (str_eq(finding, "memory-is-elsewhere")) {
		rich_text(v, "The managed heap is not what fills the memory: it has ");
		rich_strong(v, "%s of the %s", fmt_bytes(f->area[GRAPH_AREA_HEAP]).s, fmt_bytes(f->rss).s);
		rich_text(v, " that the process has in RAM. Most is %s (%s). ", heap_area_names[t.largest],
			  fmt_bytes(f->area[t.largest]).s);
	}
	if (warn) {
		rich_text(v, "The heap is fragmented: ");
		rich_strong(v, "%s are free room", fmt_bytes(t.free).s);
		rich_text(v, " between objects that cannot be given back. ");
	}
	rich_text(v, warn ? "It holds " : "The heap holds ");
	rich_strong(v, "%s in %s", fmt_bytes(t.bytes).s, fmt_plural(f->objects, "object", "objects").s);
	rich_text(v, ".");
	/* Between the holes it is what the application keeps that matters, not what it is made of. */
	if (warn)
		say_own(g, sums, &t, v);
	say_top(g, sums, &t, v);
	if (!warn && !str_eq(finding, "memory-is-elsewhere"))
		say_own(g, sums, &t, v);
	if (str_eq(finding, "mostly-garbage"))
		rich_text(v, " %s of it is garbage that waits for a collection.",
			  fmt_percent(ratio(t.garbage, t.bytes)).s);
	report_advice(report, exam->profiler, finding);
	report_figure(report, "Objects", V_BYTES(t.bytes), fmt_count(f->objects).s);
	const struct heap_look *look = exam->state;
	bool known = !heap_look_alive_only(look);
	report_figure(report, "Garbage", known ? V_BYTES(t.garbage) : V_NONE, "that waits for a collection");
	report_figure(report, "Free room", known ? V_BYTES(t.free) : V_NONE, "between objects");
	report_figure(report, "Committed", known ? V_BYTES(f->committed) : V_NONE, "by the collector");
	report_figure(report, "In RAM", f->rss ? V_BYTES(f->rss) : V_NONE, "of the whole process");
}

/* ---- tables ---- */

static void add_types(const struct heapgraph *g, const struct type_sums *sums, struct report *report)
{
	struct report_table *t = report_table(report, "Types");
	struct type_sum rest = { 0 };
	CLEANUP(buf_free) struct buf name = { 0 };
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Bytes", VALUE_BYTES, COLUMN_MAIN | COLUMN_AREA);
	report_column(t, "Retained", VALUE_BYTES, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < sums->n; i++) {
		const struct type_sum *s = &sums->v[i];
		if (i >= TYPE_ROWS) {
			rest.objects += s->objects;
			rest.bytes += s->bytes;
			continue;
		}
		buf_clear(&name);
		heap_type_name(g, s->type, &name);
		report_row(t, (struct value[]){ V_CODE(buf_cstr(&name)), V_COUNT(s->objects), V_BYTES(s->bytes),
						V_BYTES(s->retained), V_RATIO(ratio(s->bytes, g->facts.bytes)) });
	}
	if (rest.objects) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more types", fmt_count(sums->n - TYPE_ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_COUNT(rest.objects), V_BYTES(rest.bytes), V_NONE,
						 V_RATIO(ratio(rest.bytes, g->facts.bytes)) });
	}
}

struct heap_stats_place {
	uint64_t objects, bytes, free, committed;
};

static struct heap_stats_place place_of(const struct heapgraph *g, uint8_t generation, uint32_t heap)
{
	struct heap_stats_place p = { 0 };
	vec_each(r, &g->regions) {
		if (r->generation != generation || (heap != GRAPH_NONE && r->heap != heap))
			continue;
		p.objects += r->n;
		p.bytes += r->bytes;
		p.free += r->free_bytes;
		p.committed += r->committed > r->start ? r->committed - r->start : 0;
	}
	return p;
}

static void add_generations(const struct heapgraph *g, struct report *report)
{
	struct report_table *t = report_tree(report, "Generations");
	report_column(t, "Where", VALUE_TEXT, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Bytes", VALUE_BYTES, 0);
	report_column(t, "Free room", VALUE_BYTES, 0);
	report_column(t, "Committed", VALUE_BYTES, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (unsigned generation = 0; generation < GRAPH_GENERATIONS; generation++) {
		struct heap_stats_place p = place_of(g, (uint8_t)generation, GRAPH_NONE);
		if (generation == GRAPH_ANYWHERE)
			continue;
		/* Without regions the young share a segment with the old: what it takes is counted there. */
		struct value committed = p.committed ? V_BYTES(p.committed) : V_NONE;
		struct report_row *row =
			report_row(t, (struct value[]){ V_TEXT(heap_generation_names[generation]), V_COUNT(p.objects),
							V_BYTES(p.bytes), V_BYTES(p.free), committed,
							V_RATIO(ratio(p.bytes, g->facts.bytes)) });
		for (uint32_t heap = 0; g->facts.n_heaps > 1 && heap < g->facts.n_heaps; heap++) {
			struct heap_stats_place one = place_of(g, (uint8_t)generation, heap);
			CLEANUP(mem_freep) char *name = mem_printf("heap %u", heap);
			if (!one.objects && !one.free)
				continue;
			report_child(row, (struct value[]){ V_TEXT(name), V_COUNT(one.objects), V_BYTES(one.bytes),
							    V_BYTES(one.free), V_BYTES(one.committed),
							    V_RATIO(ratio(one.bytes, g->facts.bytes)) });
		}
	}
}

static void add_areas(const struct heapgraph *g, struct report *report)
{
	const struct graph_facts *f = &g->facts;
	if (!f->rss)
		return;
	struct report_table *t = report_table(report, "Where the memory is");
	report_column(t, "Memory", VALUE_TEXT, 0);
	report_column(t, "In RAM", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (enum graph_area a = 0; a < GRAPH_AREAS; a++)
		if (f->area[a])
			report_row(t, (struct value[]){ V_TEXT(heap_area_names[a]), V_BYTES(f->area[a]),
							V_RATIO(ratio(f->area[a], f->rss)) });
}

/* ---- for other tools ---- */

static void add_gcdump(struct exam *exam, const struct heapgraph *g, struct report *report)
{
	CLEANUP(buf_free) struct buf file = { .limit = INT32_MAX };
	struct gcdump_facts facts = { .process = exam->patient->info.entry_assembly,
				      .pid = exam->patient->target.id,
				      .when_unix_ns = exam->start_unix_ns };
	if (!params_bool(exam->params, "gcdump"))
		return;
	gcdump_write(g, &facts, &file);
	if (file.overflow)
		rich_text(report_note(report, REPORT_WARN), "The heap is too large for a .gcdump file.");
	else
		exam_artifact(exam, "heap.gcdump", file.data, file.len);
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct heap_look *look = exam->state = mem_zalloc(sizeof(*look));
	return heap_look(look, exam, "heap");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct heap_look *look = exam->state;
	struct heapgraph *g = look->graph;
	heapgraph_dominate(g);
	const char *text = params_text(exam->params, "type");
	struct type_sums sums = sums_of(g, text);
	if (*text)
		add_asked(exam, g, &sums, text, report);
	else
		add_verdict(exam, g, &sums, report);
	bool elsewhere = str_eq(report_finding(report), "memory-is-elsewhere");
	if (elsewhere)
		add_areas(g, report);
	if (sums.n)
		add_types(g, &sums, report);
	if (!heap_look_alive_only(look))
		add_generations(g, report);
	report_details(report);
	if (!elsewhere)
		add_areas(g, report);
	add_gcdump(exam, g, report);
	image_exam_how(report, &look->facts, 1);
	heap_look_how(report, look);
	vec_free(&sums);
	return NULL;
}

static void free_state(void *state)
{
	heap_look_fini(state);
	mem_free(state);
}

const struct profiler profiler_heap_stats = {
	.id = "heap-stats",
	.uuid = "ae9f229f-19d4-4e8e-a79b-f13abf957b1e",
	.name = "Heap statistics",
	.chapter = CHAPTER_MEMORY,
	.label = "Memory is high",
	.symptom = "memory is high: what is on the heap, and is it the heap at all?",
	.description = "Counts every object of the managed heap by type, with what each type keeps alive, by "
		       "generation and GC "
		       "heap; tells live objects from garbage and from free room; and says what the rest of the "
		       "process's memory "
		       "is used for: native heap, code, files, stacks.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.params =
		(const struct param[]){
			{ .key = "type",
			  .name = "Types",
			  .description = "Only types that have this in their name.",
			  .type = PARAM_STRING,
			  .default_value = "" },
			{ .key = "gcdump",
			  .name = "Write a .gcdump file",
			  .description = "Beside the report, of what is alive; PerfView and Visual Studio open it.",
			  .type = PARAM_BOOL,
			  .default_value = "false" },
			PARAM_MAX_PAUSE,
		},
	.n_params = 3,
	.ways = { WAY_IMAGE, WAY_AGENT, WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "memory-is-elsewhere",
			  "Run native-memory: it says what the rest is, and what of it malloc keeps. memory-leaks "
			  "tells whether it grows." },
			{ "fragmented", "Run gc-stats: pinned objects and large objects of varying sizes do that. "
					"DOTNET_GCConserveMemory=5 makes the collector compact." },
			{ "mostly-garbage",
			  "Nothing leaks. Run gc-stats and allocations; DOTNET_GCConserveMemory or a heap limit makes "
			  "the collector start earlier." },
			{ "seen", "Run gc-survivors to see who holds these objects." },
			{ "asked", "Run gc-survivors with the same --type to see who holds them." },
			{ "no-such-type", "Upper and lower case are one; a part of the name is enough." },
		},
	.n_advice = 6,
	.runs = (const struct advice_run[]){ { "memory-is-elsewhere", "native-memory" },
					     { "fragmented", "gc-stats" },
					     { "mostly-garbage", "gc-stats" },
					     { "seen", "gc-survivors" },
					     { "asked", "gc-survivors" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
