/* Wasted collections: lists, dictionaries, sets, queues and stacks that are empty, or much larger than what is in them.
 *
 * While the copy lives, the counters of each are read and written down behind the heap: count, each { object number
 * (difference), elements, capacity, bytes of one element }. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/heap_look.h"
#include "profilers/profiler.h"
#include <stdlib.h>
#include <string.h>

#define ROWS 40
#define ARRAY_OVERHEAD 24
#define WASTE_BYTES ((uint64_t)5 << 20)
#define WASTE_SHARE 0.1

/* ---- while the copy lives ---- */

static const struct {
	const char *name, *array, *count, *unused; /* names of fields; unused: of those counted, or NULL */
} kinds[] = {
	{ "System.Collections.Generic.List`1[", "_items", "_size", NULL },
	{ "System.Collections.Generic.Dictionary`2[", "_entries", "_count", "_freeCount" },
	{ "System.Collections.Generic.HashSet`1[", "_entries", "_count", "_freeCount" },
	{ "System.Collections.Generic.Queue`1[", "_array", "_size", NULL },
	{ "System.Collections.Generic.Stack`1[", "_array", "_size", NULL },
	{ "System.Collections.Generic.PriorityQueue`2[", "_nodes", "_size", NULL },
};

/* Where a type keeps its numbers; offsets from the object, 0 = it is no collection. */
struct layout {
	bool known;
	uint32_t array, count, unused;
	uint32_t element_bytes; /* 0 = not known yet */
};

struct gathering {
	struct heap *h;
	VEC(struct layout) layouts; /* by type index */
	struct buf out;
	uint64_t n;
	uint32_t last;
};

static uint32_t field_at(struct heap *h, const struct heap_type *type, const char *name, bool reference)
{
	const struct heap_field *f = name ? heap_field(h, type, name) : NULL;
	bool fits = f && !f->is_static && (reference ? f->element == HEAP_CLASS : f->element == HEAP_I4);
	return fits ? f->offset + 8 : 0;
}

static struct layout *layout_of(struct gathering *g, const struct heap_type *type)
{
	while (g->layouts.n <= type->index)
		vec_push(&g->layouts, (struct layout){ 0 });
	struct layout *l = &g->layouts.v[type->index];
	if (l->known)
		return l;
	l->known = true;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (type->kind == HEAP_OBJECT && str_starts(type->name, kinds[i].name)) {
			l->count = field_at(g->h, type, kinds[i].count, false);
			l->unused = field_at(g->h, type, kinds[i].unused, false);
			l->array = l->count ? field_at(g->h, type, kinds[i].array, true) : 0;
		}
	return l;
}

static uint32_t number_at(struct heap_walk *walk, const struct heap_found *f, uint32_t offset)
{
	int32_t n = 0;
	const uint8_t *p = offset ? heap_walk_bytes(walk, f, offset, sizeof(n)) : NULL;
	if (p)
		memcpy(&n, p, sizeof(n));
	return n > 0 ? (uint32_t)n : 0;
}

static void on_object(void *user, struct heap_walk *walk, const struct heap_found *f, uint32_t number)
{
	struct gathering *g = user;
	struct layout *l = layout_of(g, f->type);
	const uint8_t *p = l->array ? heap_walk_bytes(walk, f, l->array, sizeof(uint64_t)) : NULL;
	uint64_t array;
	struct heap_array a = { 0 };
	if (!p)
		return;
	memcpy(&array, p, sizeof(array));
	uint32_t count = number_at(walk, f, l->count), unused = number_at(walk, f, l->unused), capacity = 0;
	if (array && !l->element_bytes && heap_array(g->h, array, &a))
		l->element_bytes = a.stride;
	if (array && !heap_read_u32(g->h, array + 8, &capacity))
		return;
	/* Caught in the middle of a change, or damaged. */
	if (unused > count || count - unused > capacity || capacity > INT32_MAX)
		return;
	buf_varu64(&g->out, number - g->last);
	buf_varu64(&g->out, count - unused);
	buf_varu64(&g->out, capacity);
	buf_varu64(&g->out, l->element_bytes);
	g->last = number;
	g->n++;
}

static void on_start(void *user, struct heap *h)
{
	((struct gathering *)user)->h = h;
}

static void on_done(void *user, struct heap *h, struct buf *out)
{
	(void)h;
	struct gathering *g = user;
	buf_varu64(out, g->n);
	buf_add(out, g->out.data, g->out.len);
}

/* ---- what was written ---- */

struct collection {
	uint32_t object, count, capacity, element_bytes;
};
struct row {
	uint32_t type;
	uint64_t collections, empty, count, capacity, wasted;
	struct referrer holder;
};
struct wasted {
	struct heap_look look;
	struct gathering gathering;
	VEC(struct collection) all;
	VEC(struct row) rows; /* most wasted first */
	uint64_t waste, empty, alive;
};

static struct err *take_more(void *user, struct cursor *in)
{
	struct wasted *w = user;
	uint64_t n = cursor_varu64(in), object = 0;
	for (uint64_t i = 0; i < n && cursor_ok(in); i++) {
		object += cursor_varu64(in);
		struct collection c = { .object = (uint32_t)object };
		c.count = cursor_varu32(in);
		c.capacity = cursor_varu32(in);
		c.element_bytes = cursor_varu32(in);
		if (object >= w->look.graph->n || c.count > c.capacity || c.capacity > INT32_MAX ||
		    c.element_bytes > UINT16_MAX)
			in->bad = true;
		vec_push(&w->all, c);
	}
	return cursor_ok(in) ? NULL : err_new(ERR_BAD_DATA, "the recording of the collections is damaged");
}

static uint64_t waste_of(const struct heapgraph *g, const struct collection *c)
{
	uint64_t room = (uint64_t)(c->capacity - c->count) * c->element_bytes;
	if (c->count)
		return room;
	/* Nobody would miss it. */
	return (uint64_t)g->units[c->object] * 8 + room + (c->capacity ? ARRAY_OVERHEAD : 0);
}

static int most_wasted_first(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return x->wasted < y->wasted ? 1 : x->wasted > y->wasted ? -1 : 0;
}

static void sum_up(struct wasted *w)
{
	const struct heapgraph *g = w->look.graph;
	uint32_t *group_of = mem_zalloc(((size_t)g->n + 1) * sizeof(*group_of));
	CLEANUP(map_u64_free) struct map_u64 index = { 0 };
	vec_each(c, &w->all) {
		bool fresh;
		if (!heapgraph_reached(g, c->object))
			continue;
		uint64_t *at = map_u64_put(&index, g->type[c->object], &fresh);
		if (fresh) {
			*at = w->rows.n;
			vec_push(&w->rows, (struct row){ .type = g->type[c->object] });
		}
		struct row *r = &w->rows.v[*at];
		uint64_t waste = waste_of(g, c);
		r->collections++;
		r->empty += !c->count;
		r->count += c->count;
		r->capacity += c->capacity;
		r->wasted += waste;
		w->waste += waste;
		w->empty += !c->count;
		w->alive++;
		if (waste)
			group_of[c->object] = (uint32_t)*at + 1;
	}
	struct referrer *found = mem_array(w->rows.n + 1, sizeof(*found));
	heap_referrers(g, group_of, w->rows.n, found);
	for (size_t i = 0; i < w->rows.n; i++)
		w->rows.v[i].holder = found[i];
	mem_free(found);
	mem_free(group_of);
	vec_sort(&w->rows, most_wasted_first);
}

/* ---- words ---- */

static void add_verdict(const struct exam *exam, const struct wasted *w, struct report *report)
{
	const struct heapgraph *g = w->look.graph;
	uint64_t alive = g->reached_units * 8;
	double share = alive ? (double)w->waste / (double)alive : 0;
	bool much = w->waste >= WASTE_BYTES && share >= WASTE_SHARE;
	const char *finding = much ? "wasted" : "nothing-found";
	struct rich *v = report_verdict(report, much ? REPORT_WARN : REPORT_OK, finding);
	rich_text(v, "%s that are empty or too large waste ", much ? "Collections" : "No problem here: collections");
	rich_strong(v, "%s", fmt_bytes(w->waste).s);
	rich_text(v, ", %s of what is alive; %s of %s are empty.", fmt_percent(share).s, fmt_count(w->empty).s,
		  fmt_count(w->alive).s);
	if (much) {
		const struct row *top = &w->rows.v[0];
		CLEANUP(buf_free) struct buf name = { 0 }, holder = { 0 };
		heap_type_short(g, top->type, &name);
		heap_referrer_name(g, &top->holder, &holder);
		rich_text(v, " Most: %s ", fmt_count(top->collections).s);
		rich_code(v, buf_cstr(&name));
		if (holder.len) {
			rich_text(v, ", mostly in ");
			rich_code(v, buf_cstr(&holder));
		}
		rich_text(v, ", with room for %s elements and %s in them.", fmt_count(top->capacity).s,
			  fmt_count(top->count).s);
	}
	const char *next = profiler_next(exam->profiler, finding);
	if (next)
		rich_text(report_next(report), "%s", next);
}

static void add_table(const struct wasted *w, struct report *report)
{
	const struct heapgraph *g = w->look.graph;
	uint64_t rest = 0;
	struct report_table *t = report_table(report, "By type");
	report_column(t, "Collection", VALUE_CODE, 0);
	report_column(t, "Mostly in", VALUE_CODE, 0);
	report_column(t, "Collections", VALUE_COUNT, 0);
	report_column(t, "Empty", VALUE_COUNT, 0);
	report_column(t, "Elements", VALUE_COUNT, 0);
	report_column(t, "Room for", VALUE_COUNT, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	for (size_t i = 0; i < w->rows.n; i++) {
		const struct row *r = &w->rows.v[i];
		CLEANUP(buf_free) struct buf name = { 0 }, holder = { 0 };
		if (i >= ROWS) {
			rest += r->wasted;
			continue;
		}
		heap_type_short(g, r->type, &name);
		heap_referrer_name(g, &r->holder, &holder);
		report_row(t,
			   (struct value[]){ V_CODE(buf_cstr(&name)), holder.len ? V_CODE(buf_cstr(&holder)) : V_NONE,
					     V_COUNT(r->collections), V_COUNT(r->empty), V_COUNT(r->count),
					     V_COUNT(r->capacity), V_BYTES(r->wasted) });
	}
	if (rest)
		report_rest(t, (struct value[]){ V_TEXT("other types"), V_NONE, V_NONE, V_NONE, V_NONE, V_NONE,
						 V_BYTES(rest) });
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct wasted *w = exam->state = mem_zalloc(sizeof(*w));
	w->look = (struct heap_look){ .on_start = on_start,
				      .on_object = on_object,
				      .on_done = on_done,
				      .user = &w->gathering,
				      .take_more = take_more,
				      .take_user = w };
	return heap_look(&w->look, exam, "collections");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct wasted *w = exam->state;
	heapgraph_dominate(w->look.graph);
	sum_up(w);
	add_verdict(exam, w, report);
	report_figure(report, "Wasted", V_BYTES(w->waste), "by room that nothing is in");
	report_figure(report, "Collections", V_COUNT(w->alive), "that are alive");
	report_figure(report, "Empty", V_COUNT(w->empty), NULL);
	if (w->rows.n)
		add_table(w, report);
	look_how(report, &w->look.facts, 1);
	heap_look_how(report, &w->look);
	return NULL;
}

static void free_state(void *state)
{
	struct wasted *w = state;
	heap_look_fini(&w->look);
	vec_free(&w->gathering.layouts);
	buf_free(&w->gathering.out);
	vec_free(&w->all);
	vec_free(&w->rows);
	mem_free(w);
}

const struct profiler profiler_wasted_collections = {
	.id = "wasted-collections",
	.uuid = "d3f18770-995a-4661-8821-246fd73adedc",
	.name = "Wasted collections",
	.symptom = "memory is high and full of lists and dictionaries: is anything in them?",
	.description = "Looks into every list, dictionary, set, queue and stack that is alive and adds up the room "
		       "that nothing is "
		       "in: empty ones, and ones that are much larger than their content; by type, with the field that "
		       "mostly holds "
		       "them.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.params =
		(const struct param[]){
			PARAM_MAX_PAUSE,
		},
	.n_params = 1,
	.ways = { WAY_IMAGE },
	.advice =
		(const struct advice[]){
			{ "wasted",
			  "Create them when the first element comes, with the capacity that they need, or call "
			  "TrimExcess when they are filled." },
		},
	.n_advice = 1,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
