/* Wasted collections: empty and oversized collections, arrays that are mostly null or zero, equal values in many boxes;
 * by type and by the field that keeps them. */

#include "base/fmt.h"
#include "base/str.h"
#include "memory/retention_sites.h"
#include "exam/profiler.h"
#include "memory/collection_usage.h"
#include <stdlib.h>
#include <string.h>

/* From where on it is mentioned. */
#define WORTH_BYTES ((uint64_t)1 << 20)
#define WORTH_SHARE 0.05
#define ROW_SHARE 0.002 /* of the waste: what has less is summed up */
#define ROWS 100
#define MIN_ZEROS 64 /* bytes at an array's end */
#define MIN_NULLS 8  /* elements */

enum waste { WASTE_EMPTY, WASTE_OVERSIZED, WASTE_NULLS, WASTE_ZEROS, WASTE_BOXES, WASTES };

static const struct {
	const char *finding, *kind;
} wastes[WASTES] = {
	[WASTE_EMPTY] = { "empty-collections", "empty collections and arrays" },
	[WASTE_OVERSIZED] = { "oversized-collections", "collections that are less than half full" },
	[WASTE_NULLS] = { "sparse-arrays", "arrays that are mostly null" },
	[WASTE_ZEROS] = { "sparse-arrays", "arrays that end in zeros" },
	[WASTE_BOXES] = { "boxed-duplicates", "equal values in several boxes" },
};

struct waste_state {
	struct heap_look look;
	struct collection_usage room;
};

/* Objects of one type that waste in the same way and are kept in the same field. */
struct waste_group {
	enum waste waste;
	uint32_t type, place;
	uint64_t objects;
	uint64_t used, room; /* bytes */
	double wasted;
};
struct waste_findings {
	const struct heapgraph *g;
	const struct collection_usage *room;
	struct retention_sites *places;
	uint8_t *claimed; /* by object: belongs to a collection */
	struct map_u64 index;
	VEC(struct waste_group) groups; /* most wasted first */
	double wasted, by_waste[WASTES];
	uint64_t objects[WASTES], heap;
};

static void findings_free(struct waste_findings *f)
{
	retention_sites_free(f->places);
	mem_free(f->claimed);
	map_u64_free(&f->index);
	vec_free(&f->groups);
}

/* ---- finding it ---- */

static void add(struct waste_findings *f, enum waste waste, uint32_t object, uint64_t used, uint64_t room,
		double wasted)
{
	uint32_t type = f->g->type[object], place = retention_sites_of(f->places, object);
	bool fresh;
	uint64_t *at = map_u64_put(&f->index, ((uint64_t)type * WASTES + waste) << 32 | place, &fresh);
	if (fresh) {
		*at = f->groups.n;
		vec_push(&f->groups, ((struct waste_group){ .waste = waste, .type = type, .place = place }));
	}
	struct waste_group *group = &f->groups.v[*at];
	group->objects++;
	group->used += used;
	group->room += room;
	group->wasted += wasted;
	f->wasted += wasted;
	f->by_waste[waste] += wasted;
	f->objects[waste]++;
}

static uint64_t size_of(const struct waste_findings *f, uint32_t object)
{
	return (uint64_t)f->g->units[object] * 8;
}

/* Bytes for elements. */
static uint64_t room_of(const struct waste_findings *f, uint32_t array)
{
	uint64_t base = f->room->types[f->g->type[array]].base, size = size_of(f, array);
	return size > base ? size - base : 0;
}

/* What an array would take less if it had room for `used` bytes of elements only. */
static uint64_t spare(const struct waste_findings *f, uint32_t array, uint64_t used)
{
	uint64_t needed = (f->room->types[f->g->type[array]].base + used + 7) & ~(uint64_t)7, size = size_of(f, array);
	return size > needed ? size - needed : 0;
}

static bool is_array(const struct waste_findings *f, uint32_t object)
{
	uint32_t role = object != GRAPH_NONE ? f->room->types[f->g->type[object]].role : USAGE_NONE;
	return role == USAGE_ARRAY || role == USAGE_REFS;
}

static uint32_t array_in(const struct waste_findings *f, uint32_t object, const char *field)
{
	const struct heapgraph *g = f->g;
	const struct graph_type *t = &g->types.v[g->type[object]];
	for (uint32_t i = 0; i < t->n_slots; i++)
		if (str_eq(t->slots[i], field)) {
			uint32_t array = g->target[g->first[object] + i];
			return is_array(f, array) ? array : GRAPH_NONE;
		}
	return GRAPH_NONE;
}

static void look_at_collection(struct waste_findings *f, uint32_t object, const struct collection_rule *rule)
{
	uint64_t n = f->room->numbers[object], room = 0, used = 0, spared = 0;
	for (size_t i = 0; i < USAGE_ARRAYS && rule->arrays[i]; i++) {
		uint32_t array = array_in(f, object, rule->arrays[i]);
		if (array == GRAPH_NONE)
			continue;
		uint64_t bytes = n * f->room->types[f->g->type[array]].component;
		f->claimed[array] = 1;
		if (!i) {
			room = room_of(f, array);
			used = MIN(bytes, room);
		}
		spared += spare(f, array, bytes);
	}
	if (!n)
		add(f, WASTE_EMPTY, object, 0, room, (double)f->g->retained[object] * 8);
	else if (spared && used * 2 < room)
		add(f, WASTE_OVERSIZED, object, used, room, (double)spared);
}

/* Arrays of the runtime in which it keeps static fields are not the user's. */
static bool is_of_runtime(const struct heapgraph *g, uint32_t object)
{
	uint32_t d = g->dominator[object];
	return d >= g->n && (d == heapgraph_top(g) || g->roots.v[d - g->n].kind == GRAPH_HANDLE);
}

static void look_at_array(struct waste_findings *f, uint32_t array, uint32_t role)
{
	uint64_t room = room_of(f, array);
	uint64_t used, empty;
	if (is_of_runtime(f->g, array))
		return;
	if (!room) {
		add(f, WASTE_EMPTY, array, 0, 0, (double)size_of(f, array));
		return;
	}
	if (role == USAGE_REFS)
		used = MIN(8ull * (f->g->first[array + 1] - f->g->first[array]), room);
	else
		used = room - MIN((uint64_t)f->room->numbers[array], room);
	empty = room - used;
	if (empty < (role == USAGE_REFS ? 8 * MIN_NULLS : MIN_ZEROS) || used * 2 >= room)
		return;
	add(f, role == USAGE_REFS ? WASTE_NULLS : WASTE_ZEROS, array, used, room,
	    (double)(used ? spare(f, array, used) : size_of(f, array)));
}

/* One box of each value has to be: all of them carry their part. */
static void look_at_boxes(struct waste_findings *f)
{
	const struct heapgraph *g = f->g;
	uint32_t *copies = mem_zalloc(((size_t)f->room->n_boxes + 1) * sizeof(*copies));
	for (uint32_t i = 0; i < g->n; i++)
		if (f->room->types[g->type[i]].role == USAGE_BOX && heapgraph_reached(g, i))
			copies[f->room->numbers[i]]++;
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t value = f->room->numbers[i];
		if (f->room->types[g->type[i]].role != USAGE_BOX || !value || copies[value] < 2 ||
		    !heapgraph_reached(g, i))
			continue;
		add(f, WASTE_BOXES, i, 0, 0, (double)size_of(f, i) * (copies[value] - 1) / copies[value]);
	}
	mem_free(copies);
}

static int most_wasted_first(const void *a, const void *b)
{
	const struct waste_group *x = a, *y = b;
	return CMP(y->wasted, x->wasted) ?: CMP(x->place, y->place);
}

static void find(struct waste_findings *f)
{
	const struct heapgraph *g = f->g;
	f->places = retention_sites_new(g);
	f->claimed = mem_zalloc((size_t)g->n + 1);
	f->heap = g->reached_units * 8;
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t role = f->room->types[g->type[i]].role;
		if (role >= USAGE_COLLECTION && heapgraph_reached(g, i))
			look_at_collection(f, i, &collection_rules[role - USAGE_COLLECTION]);
	}
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t role = f->room->types[g->type[i]].role;
		if ((role == USAGE_ARRAY || role == USAGE_REFS) && !f->claimed[i] && heapgraph_reached(g, i))
			look_at_array(f, i, role);
	}
	look_at_boxes(f);
	vec_sort(&f->groups, most_wasted_first);
}

/* ---- words ---- */

/* "empty List<Tag>", "boxed Int32". */
static void what(const struct waste_findings *f, const struct waste_group *group, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	heap_type_short(f->g, group->type, &name);
	const char *s = buf_cstr(&name);
	buf_str(out, group->waste == WASTE_EMPTY ? "empty " : group->waste == WASTE_BOXES ? "boxed " : "");
	/* Its inside is what we look at, its name is what people know. */
	if (strstr(f->g->types.v[group->type].name, "ConcurrentDictionary`2+Tables") && str_starts(s, "Tables")) {
		buf_str(out, "ConcurrentDictionary");
		s += strlen("Tables");
	}
	buf_str(out, s);
}

static void say_group(const struct waste_findings *f, const struct waste_group *group, struct rich *v)
{
	CLEANUP(buf_free) struct buf name = { 0 }, field = { 0 };
	what(f, group, &name);
	retention_site_field(f->places, group->place, &field);
	rich_text(v, "%s ", fmt_count(group->objects).s);
	rich_code(v, buf_cstr(&name));
	rich_text(v, " in ");
	rich_code(v, buf_cstr(&field));
	rich_text(v, " waste %s", fmt_bytes((uint64_t)group->wasted).s);
	if (group->waste == WASTE_BOXES)
		rich_text(v, " because equal values are boxed again and again");
	else if (!group->used && group->waste != WASTE_EMPTY)
		rich_text(v, ", being all %s", group->waste == WASTE_NULLS ? "null" : "zeros");
	else if (group->waste != WASTE_EMPTY)
		rich_text(v, ", being %s full", fmt_percent(ratio(group->used, group->room)).s);
	rich_text(v, ".");
}

static void add_verdict(const struct exam *exam, const struct waste_findings *f, struct report *report)
{
	bool worth = f->groups.n && f->wasted >= WORTH_BYTES && ratio(f->wasted, f->heap) >= WORTH_SHARE;
	const char *finding = worth ? wastes[f->groups.v[0].waste].finding : "nothing-found";
	struct rich *v = report_verdict(report, worth ? REPORT_WARN : REPORT_OK, finding);
	rich_text(v, worth ? "Room that nothing uses takes " : "No problem here: room that nothing uses takes ");
	rich_strong(v, "%s, %s of the heap", fmt_bytes((uint64_t)f->wasted).s,
		    fmt_percent(ratio(f->wasted, f->heap)).s);
	rich_text(v, ".");
	if (!worth)
		return;
	rich_text(v, " ");
	say_group(f, &f->groups.v[0], v);
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct waste_findings *f, struct report *report)
{
	report_figure(report, "Wasted", V_BYTES((uint64_t)(f->wasted + 0.5)), fmt_percent(ratio(f->wasted, f->heap)).s);
	report_figure(report, "Empty", V_COUNT(f->objects[WASTE_EMPTY]), "collections and arrays");
	report_figure(report, "Oversized", V_COUNT(f->objects[WASTE_OVERSIZED]), "collections, less than half full");
	report_figure(report, "Alive", V_BYTES(f->heap), fmt_plural(f->g->reached_objects, "object", "objects").s);
}

/* ---- tables ---- */

static void add_group(const struct waste_findings *f, const struct waste_group *group, struct report_table *t)
{
	CLEANUP(buf_free) struct buf name = { 0 }, field = { 0 }, holder = { 0 };
	what(f, group, &name);
	retention_site_field(f->places, group->place, &field);
	retention_site_holder(f->places, group->place, &holder);
	struct value full =
		group->waste == WASTE_BOXES || !group->room ? V_NONE : V_RATIO(ratio(group->used, group->room));
	struct report_row *row =
		report_row(t, (struct value[]){ V_CODE(buf_cstr(&field)), V_CODE(buf_cstr(&name)),
						V_COUNT(group->objects), full, V_BYTES((uint64_t)(group->wasted + 0.5)),
						V_RATIO(ratio(group->wasted, f->wasted)) });
	if (holder.len) {
		CLEANUP(mem_freep) char *line = mem_printf("in %s", buf_cstr(&holder));
		report_row_line(row, VALUE_CODE, line, NULL);
	}
}

static void add_groups(const struct waste_findings *f, struct report *report)
{
	struct report_table *t = report_table(report, "Where it is");
	struct waste_group rest = { 0 };
	uint64_t n_rest = 0;
	report_column(t, "Field", VALUE_CODE, 0);
	report_column(t, "What", VALUE_CODE, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Full", VALUE_RATIO, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < f->groups.n; i++) {
		const struct waste_group *group = &f->groups.v[i];
		if (i < ROWS && group->wasted >= ROW_SHARE * f->wasted) {
			add_group(f, group, t);
			continue;
		}
		n_rest++;
		rest.objects += group->objects;
		rest.wasted += group->wasted;
	}
	if (n_rest) {
		CLEANUP(mem_freep) char *words = mem_strdup(fmt_plural(n_rest, "smaller one", "smaller ones").s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT(rest.objects), V_NONE,
						 V_BYTES((uint64_t)(rest.wasted + 0.5)),
						 V_RATIO(ratio(rest.wasted, f->wasted)) });
	}
}

static void add_kinds(const struct waste_findings *f, struct report *report)
{
	struct report_table *t = report_table(report, "Kinds");
	report_column(t, "What", VALUE_TEXT, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (enum waste w = 0; w < WASTES; w++)
		if (f->objects[w])
			report_row(t, (struct value[]){ V_TEXT(wastes[w].kind), V_COUNT(f->objects[w]),
							V_BYTES((uint64_t)(f->by_waste[w] + 0.5)),
							V_RATIO(ratio(f->by_waste[w], f->wasted)) });
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct waste_state *s = exam->state = mem_zalloc(sizeof(*s));
	collection_usage_watch(&s->room, &s->look);
	return heap_look(&s->look, exam, "heap");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct waste_state *s = exam->state;
	CLEANUP(findings_free) struct waste_findings f = { .g = s->look.graph, .room = &s->room };
	heapgraph_dominate(s->look.graph);
	find(&f);
	add_verdict(exam, &f, report);
	add_figures(&f, report);
	if (f.groups.n) {
		add_groups(&f, report);
		report_details(report);
		add_kinds(&f, report);
	}
	image_exam_how(report, &s->look.facts, 1);
	heap_look_how(report, &s->look);
	return NULL;
}

static void free_state(void *state)
{
	struct waste_state *s = state;
	heap_look_fini(&s->look);
	collection_usage_fini(&s->room);
	mem_free(s);
}

const struct profiler profiler_wasted_collections = {
	.id = "wasted-collections",
	.uuid = "4434f35f-1ab2-4962-962d-f9993ea6b334",
	.name = "Wasted collections",
	.chapter = CHAPTER_MEMORY,
	.label = "Memory is high and nothing leaks",
	.symptom = "memory is high and nothing leaks: how much of it is room that nothing uses?",
	.description =
		"Looks into every List, Dictionary, HashSet, Queue, Stack, ConcurrentDictionary, StringBuilder, "
		"MemoryStream and array on the managed heap: those that are empty, those that are less than half "
		"full, arrays that are mostly null or end in zeros, and equal values that are boxed many times. "
		"What is wasted is shown by type and by the field that keeps it.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.params =
		(const struct param[]){
			PARAM_MAX_PAUSE,
		},
	.n_params = 1,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "empty-collections", "Create these when the first element comes; until then null or a shared "
					       "empty one ([], Array.Empty) does." },
			{ "oversized-collections", "Give the constructor the number of elements to come, or call "
						   "TrimExcess once they are filled." },
			{ "sparse-arrays", "Size these arrays by what they hold, rent them from an ArrayPool, or use a "
					   "Dictionary if only some of the indexes are in use." },
			{ "boxed-duplicates",
			  "Store the values themselves: generic collections instead of object, a typed "
			  "field; or keep one box for each value that is common." },
		},
	.n_advice = 4,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
