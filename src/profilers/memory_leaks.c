/* Memory leaks: several looks at the living objects, and what grows from each to the next.
 *
 * Garbage is left out of every look, so what grows is held. Holders are recognised by their names: objects move, and an
 * address means the same only while nothing was moved (same_objects.h). Of each look only the sums stay in memory, and
 * of the first one the address of each object. */

#include "base/fmt.h"
#include "base/str.h"
#include "memory/heap_look.h"
#include "memory/holders.h"
#include "exam/profiler.h"
#include "memory/same_objects.h"
#include "profilers/memory_steps.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS_MAX MEMORY_STEPS_MAX
#define ROWS 25
#define TYPE_ROWS 25
#define CHART_LINES 5

/* Growth that is mentioned: caches and the runtime itself grow a little now and then. */
#define GROWTH_BYTES ((int64_t)100 << 10)
#define GROWTH_SHARE 0.01 /* of what is alive */
/* Grows still: the last step is at least this part of the average one. A cache that is full does not. */
#define STILL_GROWS 0.25
#define HOLDER_LEAST ((uint64_t)16 << 10)
/* Outside of the heap: pages come and go, so it takes more. */
#define AREA_BYTES ((int64_t)1 << 20)
#define AREA_SHARE 0.02 /* of what is in RAM */
/* Of the heap could not be read: then nobody can say that nothing grows. */
#define UNREAD_SHARE 0.01
#define GARBAGE_BYTES ((int64_t)16 << 20) /* less is ordinary between two collections */

/* ---- what stays of a look ---- */

struct sum {
	uint64_t objects, bytes;
};
/* One holder or type by name, at every look. */
struct grower {
	const char *name, *detail; /* detail: of holders */
	const char *shown;	   /* the name with the field that had most at the last look */
	const char *keeps;	   /* of holders: main type at the last look where it had one; or NULL */
	const char *kept_by; /* of holders: how that is kept at the last look, when it is more than fields; or NULL */
	struct holder_kept how;
	bool finalizers; /* the queue of what waits for them */
	struct sum at[LOOKS_MAX];
	uint64_t kept[LOOKS_MAX]; /* objects of the main type */
	struct same_count same;	  /* of types: from the first look to the last */
};
struct growers { /* a VEC */
	struct grower *v;
	size_t n, cap;
	struct strtab names;
};

struct leaks {
	struct heap_look look; /* the current one */
	struct image_exam_facts facts[LOOKS_MAX];
	struct sum alive[LOOKS_MAX];
	uint64_t garbage[LOOKS_MAX];			       /* bytes */
	uint64_t rss[LOOKS_MAX], area[GRAPH_AREAS][LOOKS_MAX]; /* 0 = not known */
	uint32_t n;
	struct growers holders, types;
	struct arena arena;
	uint64_t walked, lost, seen_bytes; /* of all looks together */
	bool young;			   /* the process had hardly started */
	uint32_t threads_unread;
	struct same_objects first;
	bool knows_same;	/* at the last look */
	const char *finalizers; /* what waits for them, at the last look */
};

static struct grower *grower_of(struct leaks *l, struct growers *list, const char *name, const char *detail)
{
	CLEANUP(mem_freep) char *key = mem_printf("%s\n%s", name, detail);
	uint32_t id = strtab_add_cstr(&list->names, key);
	if (id == list->n) {
		struct grower *g = vec_add(list);
		*g = (struct grower){ .name = arena_strdup(&l->arena, name),
				      .detail = arena_strdup(&l->arena, detail) };
		g->shown = g->name;
	}
	return &list->v[id];
}

/* The type's place among those of all looks. */
static uint32_t *type_ids(struct leaks *l, const struct heapgraph *g)
{
	uint32_t *ids = mem_zalloc((g->types.n + 1) * sizeof(*ids));
	for (uint32_t t = 0; t < g->types.n; t++) {
		CLEANUP(buf_free) struct buf name = { 0 };
		heap_type_name(g, t, &name);
		const struct grower *grower = grower_of(l, &l->types, buf_cstr(&name), "");
		ids[t] = (uint32_t)(grower - l->types.v);
	}
	return ids;
}

static void find_same(struct leaks *l, const struct heapgraph *g, const uint32_t *ids)
{
	if (!l->n) {
		same_objects_keep(&l->first, g, ids);
		return;
	}
	struct same_count *same = mem_zalloc((l->types.n + 1) * sizeof(*same));
	l->knows_same = same_objects_find(&l->first, g, ids, same);
	for (size_t i = 0; i < l->types.n; i++)
		l->types.v[i].same = same[i];
	mem_free(same);
}

static void sum_types(struct leaks *l, const struct heapgraph *g)
{
	CLEANUP(mem_freep) uint32_t *ids = type_ids(l, g);
	for (uint32_t i = 0; i < g->n; i++) {
		if (!heapgraph_reached(g, i))
			continue;
		struct sum *sum = &l->types.v[ids[g->type[i]]].at[l->n];
		sum->objects++;
		sum->bytes += (uint64_t)g->units[i] * 8;
	}
	find_same(l, g, ids);
}

/* How what it has is kept: of the last look. */
static void note_kept(struct leaks *l, struct grower *grower, struct retainers *k, const struct heapgraph *g,
		      const struct holder *h)
{
	CLEANUP(buf_free) struct buf words = { 0 };
	grower->how = holder_retainers(k, g, h, &words);
	grower->kept_by = grower->how.telling ? arena_strdup(&l->arena, buf_cstr(&words)) : NULL;
}

static void sum_holders(struct leaks *l, const struct heapgraph *g)
{
	struct holders hs;
	CLEANUP(retainers_freep) struct retainers *k = retainers_new(g, &l->look.notes);
	holders_find(g, HOLDER_LEAST, &hs);
	vec_each(h, &hs.v) {
		CLEANUP(buf_free) struct buf name = { 0 }, detail = { 0 }, keeps = { 0 };
		/* How many there are of it changes: it is part of the sum, not of the name. */
		struct holder one = *h;
		one.alike = 1;
		holder_name(g, &one, &name);
		holder_detail(g, &one, &detail);
		struct grower *grower = grower_of(l, &l->holders, buf_cstr(&name), buf_cstr(&detail));
		grower->finalizers = h->vertex >= g->n && h->vertex < heapgraph_top(g) &&
				     g->roots.v[h->vertex - g->n].kind == GRAPH_FINALIZER;
		grower->at[l->n].objects += h->objects;
		grower->at[l->n].bytes += h->bytes;
		holder_field(g, h, &name);
		grower->shown = arena_strdup(&l->arena, buf_cstr(&name));
		if (h->main_type != GRAPH_NONE) {
			heap_type_short(g, h->main_type, &keeps);
			grower->keeps = arena_strdup(&l->arena, buf_cstr(&keeps));
			grower->kept[l->n] += h->main_objects;
		}
		note_kept(l, grower, k, g, h);
	}
	holders_free(&hs);
}

static struct err *take_look(struct leaks *l, struct exam *exam, const char *part)
{
	l->look = (struct heap_look){ 0 };
	TRY(heap_look(&l->look, exam, part));
	struct heapgraph *g = l->look.graph;
	heapgraph_dominate(g);
	sum_types(l, g);
	sum_holders(l, g);
	l->alive[l->n] = (struct sum){ g->reached_objects, g->reached_units * 8 };
	l->garbage[l->n] = g->facts.bytes > g->reached_units * 8 ? g->facts.bytes - g->reached_units * 8 : 0;
	l->rss[l->n] = g->facts.rss;
	for (enum graph_area a = 0; a < GRAPH_AREAS; a++)
		l->area[a][l->n] = g->facts.area[a];
	l->walked += g->facts.objects;
	l->seen_bytes += g->facts.bytes;
	l->lost += g->facts.lost_bytes;
	l->threads_unread += l->look.threads_unread;
	CLEANUP(buf_free) struct buf finalizers = { 0 };
	heap_finalizers_words(&l->look, &finalizers);
	l->finalizers = arena_strdup(&l->arena, buf_cstr(&finalizers));
	l->facts[l->n++] = l->look.facts;
	heap_look_fini(&l->look);
	return NULL;
}

/* The last look at the heap that a recording has. */
static struct err *last_part(const struct recording *r, const char *whose, char *ret, size_t size)
{
	unsigned best = 0, number;
	str_copy(ret, size, "");
	for (size_t i = 0; i < recording_n_parts(r); i++) {
		struct recording_part_info info = recording_part_info(r, i);
		number = str_eq(info.name, "heap") ? 1 : 0;
		if (!info.kept || (!number && sscanf(info.name, "heap-%u", &number) != 1) || number < best)
			continue;
		best = number;
		str_copy(ret, size, info.name);
	}
	return *ret ? NULL : err_new(ERR_USAGE, "the %s session kept no look at the heap", whose);
}

/* Two sessions that were made before, of whatever profiler of the heap. */
static struct err *look_at_two(struct leaks *l, struct exam *exam)
{
	struct recording *later = exam->recording;
	char part[32];
	exam->recording = exam->before;
	struct err *err = last_part(exam->recording, "earlier", part, sizeof(part));
	if (!err)
		err = take_look(l, exam, part);
	exam->recording = later;
	TRY(err);
	TRY(last_part(exam->recording, "later", part, sizeof(part)));
	TRY(take_look(l, exam, part));
	/* They may be of different processes, even of different boots: only the calendar is the same. */
	for (uint32_t i = 0; i < l->n; i++)
		l->facts[i].at_ns = (uint64_t)MAX(l->facts[i].at_unix_ns, (int64_t)0);
	if (l->facts[0].at_ns >= l->facts[1].at_ns)
		return err_new(ERR_USAGE,
			       "the session to compare with is not the earlier one: name them the other way round");
	exam->start_unix_ns = l->facts[0].at_unix_ns;
	exam->start_ns = l->facts[0].at_ns;
	exam->end_ns = l->facts[1].at_ns;
	return NULL;
}

static struct err *run(struct exam *exam)
{
	struct leaks *l = exam->state = mem_zalloc(sizeof(*l));
	unsigned looks = (unsigned)params_int(exam->params, "looks");
	uint64_t wait_ms = exam_duration_ms(exam) / (looks - 1);
	if (exam->core)
		return err_new(ERR_USAGE,
			       "memory-leaks compares several looks, and a core file is one: use gc-survivors");
	if (exam->before)
		return look_at_two(l, exam);
	for (unsigned i = 0; i < looks; i++) {
		char part[32];
		snprintf(part, sizeof(part), "heap-%u", i + 1);
		if (i && !exam_image_again(exam, wait_ms, part))
			break;
		struct err *err = take_look(l, exam, part);
		/* What was seen before is still reported. */
		if (err && l->n >= 2 && !exam->replay) {
			exam_cut(exam, "look %u failed: %s", i + 1, err_text(err));
			err_free(err);
			break;
		}
		if (err)
			return err;
	}
	return NULL;
}

/* ---- what grows ---- */

static int64_t growth(const struct leaks *l, const struct grower *g)
{
	return (int64_t)g->at[l->n - 1].bytes - (int64_t)g->at[0].bytes;
}

static int64_t object_growth(const struct leaks *l, const struct grower *g)
{
	return (int64_t)g->at[l->n - 1].objects - (int64_t)g->at[0].objects;
}

/* More objects at every look, and at the last still about as many more as before. */
static bool grows_steadily(const struct leaks *l, const struct grower *g)
{
	int64_t last = 0;
	for (uint32_t i = 1; i < l->n; i++) {
		last = (int64_t)g->at[i].objects - (int64_t)g->at[i - 1].objects;
		if (last <= 0)
			return false;
	}
	return (double)last >= STILL_GROWS * (double)object_growth(l, g) / (double)(l->n - 1);
}

static bool is_leak(const struct leaks *l, const struct grower *g)
{
	int64_t least = MAX(GROWTH_BYTES, (int64_t)(GROWTH_SHARE * (double)l->alive[l->n - 1].bytes));
	return growth(l, g) >= least && grows_steadily(l, g);
}

static double minutes(const struct leaks *l)
{
	uint64_t ns = l->facts[l->n - 1].at_ns - l->facts[0].at_ns;
	return (double)MAX(ns, (uint64_t)1) / 60e9;
}

/* By how much memory grew, when it did so at every look and still does; else 0. */
static int64_t steady_growth(const struct leaks *l, const uint64_t *bytes)
{
	uint32_t last = l->n - 1;
	if (l->n < 3)
		return 0;
	for (uint32_t i = 1; i < l->n; i++)
		if (bytes[i] <= bytes[i - 1])
			return 0;
	int64_t grown = (int64_t)(bytes[last] - bytes[0]), step = (int64_t)(bytes[last] - bytes[last - 1]);
	bool still = (double)step >= STILL_GROWS * (double)grown / last;
	return still && grown >= AREA_BYTES && (double)grown >= AREA_SHARE * (double)l->rss[last] ? grown : 0;
}

/* Of memory outside of the managed heap the kind that grows most, from look to look; GRAPH_AREAS = none does. One kind
 * may grow while another shrinks: then the process does not. And at first it takes memory whatever it does. */
static enum graph_area growing_area(const struct leaks *l)
{
	enum graph_area most = GRAPH_AREAS;
	int64_t of_most = 0, of_all = (int64_t)l->rss[l->n - 1] - (int64_t)l->rss[0];
	for (enum graph_area a = 0; l->rss[0] && !l->young && a < GRAPH_AREAS; a++) {
		int64_t grown = a == GRAPH_AREA_HEAP ? 0 : steady_growth(l, l->area[a]);
		if (grown > of_most && of_all * 2 >= grown) {
			most = a;
			of_most = grown;
		}
	}
	return most;
}

/* qsort has no argument for it. */
static const struct leaks *sorting;

static int leaks_first(const void *a, const void *b)
{
	const struct grower *x = a, *y = b;
	bool lx = is_leak(sorting, x), ly = is_leak(sorting, y);
	int64_t gx = growth(sorting, x), gy = growth(sorting, y);
	return CMP(ly, lx) ?: CMP(gy, gx) ?: strcmp(x->name, y->name);
}

/* ---- words ---- */

static void say_grower(const struct leaks *l, const struct grower *g, struct rich *v)
{
	uint32_t last = l->n - 1;
	int64_t kept = (int64_t)g->kept[last] - (int64_t)g->kept[0];
	bool counts = g->keeps && kept > 0;
	bool leads = g->how.leads;
	rich_code(v, leads ? g->kept_by : g->shown);
	if (*g->detail && !leads) {
		rich_text(v, " (");
		rich_code(v, g->detail);
		rich_text(v, ")");
	}
	rich_text(v, leads ? " keep more and more: " : " keeps growing: ");
	rich_strong(v, "%s a minute", fmt_bytes((uint64_t)((double)growth(l, g) / minutes(l))).s);
	rich_text(v, ", %s ", fmt_signed(counts ? kept : object_growth(l, g)).s);
	if (counts)
		rich_code(v, g->keeps);
	else
		rich_text(v, "objects");
	rich_text(v, " in %s; %s %s.", fmt_duration_ns((uint64_t)(minutes(l) * 60e9)).s, leads ? "now" : "it now keeps",
		  fmt_bytes(g->at[last].bytes).s);
}

static void say_area(const struct leaks *l, enum graph_area a, struct rich *v)
{
	uint64_t grown = l->area[a][l->n - 1] - l->area[a][0];
	rich_code(v, heap_area_names[a]);
	rich_text(v, " takes ");
	rich_strong(v, "%s more a minute", fmt_bytes((uint64_t)((double)grown / minutes(l))).s);
	rich_text(v, " and now has %s of the %s in RAM.", fmt_bytes(l->area[a][l->n - 1]).s,
		  fmt_bytes(l->rss[l->n - 1]).s);
}

/* What each kind of memory had at the first look and has at the last. */
static void add_areas(const struct leaks *l, struct report *report)
{
	uint32_t last = l->n - 1;
	if (!l->rss[0] || !l->rss[last])
		return;
	struct report_table *t = report_table(report, "Where the memory is");
	report_column(t, "Memory", VALUE_TEXT, 0);
	report_column(t, "First look", VALUE_BYTES, 0);
	report_column(t, "Last look", VALUE_BYTES, COLUMN_MAIN);
	for (enum graph_area a = 0; a < GRAPH_AREAS; a++)
		if (l->area[a][last])
			report_row(t, (struct value[]){ V_TEXT(heap_area_names[a]), V_BYTES(l->area[a][0]),
							V_BYTES(l->area[a][last]) });
}

/* All that is alive, as one item. */
static bool all_grows(const struct leaks *l)
{
	struct grower all = { 0 };
	memcpy(all.at, l->alive, sizeof(l->alive));
	return l->n > 2 && is_leak(l, &all);
}

/* Holders are recognised by name; what has another holder at each look has none, but still grows. */
static void say_all(const struct leaks *l, struct rich *v)
{
	int64_t grown = (int64_t)l->alive[l->n - 1].bytes - (int64_t)l->alive[0].bytes;
	rich_text(v, "What is alive grows by ");
	rich_strong(v, "%s a minute", fmt_bytes((uint64_t)((double)grown / minutes(l))).s);
	rich_text(v, ", from %s to %s, though no single holder does.", fmt_bytes(l->alive[0].bytes).s,
		  fmt_bytes(l->alive[l->n - 1].bytes).s);
	if (l->types.n && growth(l, &l->types.v[0]) > 0) {
		rich_text(v, " Most of it is ");
		rich_code(v, l->types.v[0].name);
		rich_text(v, ": %s objects.", fmt_signed(object_growth(l, &l->types.v[0])).s);
	}
}

/* Of what is alive, when no holder grows at every look. */
static struct memory_steps steps_of(const struct leaks *l)
{
	struct memory_steps steps = { .n = l->n };
	for (uint32_t i = 0; i < l->n; i++)
		steps.bytes[i] = l->alive[i].bytes;
	return steps;
}

static void say_changes(const struct leaks *l, struct rich *v)
{
	struct memory_steps steps = steps_of(l);
	const struct grower *top = l->holders.n ? &l->holders.v[0] : NULL;
	memory_steps_say(&steps, v);
	if (memory_steps_fall(&steps) || !top || growth(l, top) * 2 < (int64_t)memory_steps_range(&steps))
		return;
	rich_text(v, " Most of it is kept by ");
	rich_code(v, top->shown);
	rich_text(v, ".");
}

static void say_left_out(const struct leaks *l, struct rich *v)
{
	rich_text(v, "Nothing grows in what could be read of the heap, but ");
	rich_strong(v, "%s", fmt_bytes(l->lost / l->n).s);
	rich_text(v, " of it could not be read at each look: what is in it may grow.");
}

/* Garbage is not leaked, but it takes memory until it is collected. */
static void say_garbage(const struct leaks *l, struct rich *v)
{
	if (steady_growth(l, l->garbage) >= GARBAGE_BYTES)
		rich_text(v, " Garbage has grown from %s to %s: no collection has taken it yet.",
			  fmt_bytes(l->garbage[0]).s, fmt_bytes(l->garbage[l->n - 1]).s);
}

static const char *finding_of(const struct leaks *l, size_t n_leaks)
{
	if (l->n < 2)
		return "one-look";
	if (n_leaks && l->n > 2 && l->holders.v[0].finalizers)
		return "finalizers-behind";
	if (n_leaks)
		/* Two looks are a difference, three a direction. */
		return l->n > 2 ? "leak" : "grew";
	if (all_grows(l))
		return "leak-without-holder";
	if (growing_area(l) != GRAPH_AREAS)
		return "grows-elsewhere";
	struct memory_steps steps = steps_of(l);
	if (memory_steps_much(&steps))
		return memory_steps_fall(&steps) ? "comes-and-goes" : "grew-in-steps";
	bool unread = l->lost && ratio(l->lost, l->seen_bytes + l->lost) >= UNREAD_SHARE;
	return unread ? "not-all-read" : "nothing-found";
}

static enum report_health health_of(const char *finding)
{
	return str_starts(finding, "leak") || str_eq(finding, "finalizers-behind") ? REPORT_BAD
	       : str_eq(finding, "grew") || str_eq(finding, "grows-elsewhere")	   ? REPORT_WARN
	       : str_eq(finding, "nothing-found")				   ? REPORT_OK
										   : REPORT_INFO;
}

static void add_verdict(const struct exam *exam, const struct leaks *l, struct report *report)
{
	const struct grower *top = l->holders.n ? &l->holders.v[0] : NULL;
	size_t n_leaks = 0;
	vec_each(g, &l->holders)
		n_leaks += l->n > 1 && is_leak(l, g);
	uint64_t first = l->n ? l->alive[0].bytes : 0, last = l->n ? l->alive[l->n - 1].bytes : 0;
	const char *finding = finding_of(l, n_leaks);
	enum graph_area elsewhere = growing_area(l);
	struct rich *v = report_verdict(report, health_of(finding), finding);
	if (l->n < 2) {
		rich_text(v, "There was only one look, so nothing can be said about growth. %s are alive.",
			  fmt_bytes(last).s);
		return;
	}
	if (str_eq(finding, "leak-without-holder")) {
		say_all(l, v);
	} else if (!n_leaks && elsewhere != GRAPH_AREAS) {
		rich_text(v, "The managed heap does not grow, but the process does: ");
		say_area(l, elsewhere, v);
	} else if (str_eq(finding, "comes-and-goes") || str_eq(finding, "grew-in-steps")) {
		say_changes(l, v);
	} else if (str_eq(finding, "not-all-read")) {
		say_left_out(l, v);
	} else if (!n_leaks) {
		rich_text(v,
			  "No problem here: nothing grows steadily. %s were alive at the first look, %s at the last.",
			  fmt_bytes(first).s, fmt_bytes(last).s);
		say_garbage(l, v);
	} else {
		say_grower(l, top, v);
		if (top->kept_by && !top->how.leads)
			holder_kept_say(&top->how, top->kept_by, v);
		if (n_leaks > 1)
			rich_text(v, " %s with it.",
				  fmt_plural(n_leaks - 1, "other holder grows", "other holders grow").s);
		if (elsewhere != GRAPH_AREAS) {
			rich_text(v, " Outside of the managed heap, ");
			say_area(l, elsewhere, v);
		}
	}
	if (*l->finalizers)
		rich_text(v, " %s.", l->finalizers);
	if (top && top->kept_by && top->how.advice && (str_eq(finding, "leak") || str_eq(finding, "grew")))
		rich_text(report_next(report), "%s", top->how.advice);
	else
		report_advice(report, exam->profiler, finding);
}

static void add_holders(const struct leaks *l, struct report *report)
{
	uint32_t last = l->n - 1;
	size_t shown = 0;
	struct report_table *t = report_table(report, "Holders that grew");
	report_column(t, "Holder", VALUE_CODE, 0);
	report_column(t, "Keeps", VALUE_CODE, 0);
	report_column(t, "Steady", VALUE_TEXT, 0);
	report_column(t, "More objects", VALUE_COUNT, 0);
	report_column(t, "Grew by", VALUE_BYTES, 0);
	report_column(t, "A minute", VALUE_BYTES, 0);
	report_column(t, "Now", VALUE_BYTES, 0);
	vec_each(g, &l->holders) {
		if (growth(l, g) <= 0 || object_growth(l, g) <= 0 || shown++ >= ROWS)
			continue;
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(g->shown), g->keeps ? V_CODE(g->keeps) : V_NONE,
					     V_TEXT(is_leak(l, g) ? "yes" : "no"), V_COUNT(object_growth(l, g)),
					     V_BYTES(growth(l, g)), V_BYTES((double)growth(l, g) / minutes(l)),
					     V_BYTES(g->at[last].bytes) });
		CLEANUP(buf_free) struct buf steps = { 0 };
		for (uint32_t i = 0; i < l->n; i++)
			buf_printf(&steps, "%s%s", i ? " → " : "objects: ", fmt_count(g->at[i].objects).s);
		if (*g->detail)
			report_row_line(row, VALUE_CODE, g->detail, NULL);
		if (g->kept_by)
			holder_kept_line(row, g->kept_by);
		report_row_line(row, VALUE_TEXT, buf_cstr(&steps), NULL);
	}
}

static void add_types(struct leaks *l, struct report *report)
{
	struct report_table *t = report_table(report, "Types that grew");
	size_t shown = 0;
	uint32_t last = l->n - 1;
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "New", VALUE_COUNT, 0);
	report_column(t, "Gone", VALUE_COUNT, 0);
	report_column(t, "Stayed", VALUE_COUNT, 0);
	report_column(t, "Grew by", VALUE_BYTES, 0);
	report_column(t, "Now", VALUE_BYTES, 0);
	vec_each(g, &l->types) {
		uint64_t stayed = g->same.stayed;
		if (growth(l, g) <= 0 || shown++ >= TYPE_ROWS)
			continue;
		report_row(t, (struct value[]){ V_CODE(g->name),
						l->knows_same ? V_COUNT(g->at[last].objects - stayed) : V_NONE,
						l->knows_same ? V_COUNT(g->at[0].objects - stayed) : V_NONE,
						l->knows_same ? V_COUNT(stayed) : V_NONE, V_BYTES(growth(l, g)),
						V_BYTES(g->at[last].bytes) });
	}
}

static void how_same(const struct leaks *l, struct report *report)
{
	uint64_t stayed = 0, unsure = 0;
	vec_each(g, &l->types) {
		stayed += g->same.stayed;
		unsure += g->same.unsure;
	}
	CLEANUP(mem_freep)
	char *words = unsure ? mem_printf("by address and type; %s may have moved instead, and count as gone and new",
					  fmt_plural(unsure, "young one", "young ones").s)
			     : mem_strdup("by address and type");
	if (l->knows_same)
		report_how(report, "Known again", V_COUNT(stayed), words);
	else
		report_how(report, "Known again", V_NONE,
			   "a collection has moved objects in between: which ones are new cannot be told");
}

static void add_chart(const struct leaks *l, struct report *report)
{
	uint64_t at[LOOKS_MAX], window = l->facts[l->n - 1].at_ns - l->facts[0].at_ns;
	double y[LOOKS_MAX];
	for (uint32_t i = 0; i < l->n; i++) {
		at[i] = l->facts[i].at_ns - l->facts[0].at_ns;
		y[i] = (double)l->alive[i].bytes;
	}
	struct report_chart *chart = report_chart(report, "Alive at each look", VALUE_BYTES, window);
	report_chart_line(chart, "all objects", at, y, l->n);
	for (size_t k = 0; k < l->holders.n && k < CHART_LINES; k++) {
		const struct grower *g = &l->holders.v[k];
		if (!is_leak(l, g))
			break;
		for (uint32_t i = 0; i < l->n; i++)
			y[i] = (double)g->at[i].bytes;
		report_chart_line(chart, g->shown, at, y, l->n);
	}
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct leaks *l = exam->state;
	sorting = l;
	l->young = exam_is_young(exam);
	if (l->n > 1) {
		vec_sort(&l->holders, leaks_first);
		vec_sort(&l->types, leaks_first);
	}
	add_verdict(exam, l, report);
	if (l->n > 1) {
		int64_t grown = (int64_t)l->alive[l->n - 1].bytes - (int64_t)l->alive[0].bytes;
		report_figure(report, "Alive", V_BYTES(l->alive[l->n - 1].bytes), "at the last look");
		report_figure(report, grown < 0 ? "Shrank by" : "Grew by", V_BYTES(llabs(grown)),
			      "since the first look");
		report_figure(report, "Looks", V_COUNT(l->n), fmt_duration_ns((uint64_t)(minutes(l) * 60e9)).s);
		add_chart(l, report);
		add_holders(l, report);
		report_details(report);
		add_types(l, report);
		add_areas(l, report);
	}
	image_exam_how(report, l->facts, l->n);
	if (l->n > 1)
		how_same(l, report);
	report_how(report, "Objects walked", V_COUNT(l->walked),
		   l->lost ? "a part of the heap makes no sense and was left out" : "none skipped");
	if (l->threads_unread)
		report_how(report, "Stacks not read", V_COUNT(l->threads_unread),
			   "what they alone hold is not counted");
	return NULL;
}

static void free_growers(struct growers *list)
{
	strtab_free(&list->names);
	vec_free(list);
}

static void free_state(void *state)
{
	struct leaks *l = state;
	heap_look_fini(&l->look);
	free_growers(&l->holders);
	free_growers(&l->types);
	same_objects_free(&l->first);
	arena_free(&l->arena);
	mem_free(l);
}

const struct profiler profiler_memory_leaks = {
	.id = "memory-leaks",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E83",
	.name = "Memory leaks",
	.chapter = CHAPTER_MEMORY,
	.label = "Memory grows and grows",
	.symptom = "memory grows and grows: what, and who holds it?",
	.description = "Looks at all living objects several times and tells what grows from each look to the next, "
		       "with the holder that grows, how fast, and what it keeps. A cache that fills and then stops is "
		       "no leak, and garbage is not counted at all.",
	.cost = "a pause of about 20 ms for each GB at every look; everything is read from copies",
	.params =
		(const struct param[]){
			{ .key = "duration",
			  .name = "Duration",
			  .description = "From the first look to the last. A slow leak needs a long one.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "30",
			  .min = 1,
			  .max = 86400 },
			{ .key = "looks",
			  .name = "Looks",
			  .description = "Two show a difference; three and more tell a leak from a cache that fills.",
			  .type = PARAM_INT,
			  .default_value = "4",
			  .min = 2,
			  .max = LOOKS_MAX },
			PARAM_MAX_PAUSE,
		},
	.n_params = 3,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "leak", "Find where it is added to, and why nothing is taken out again: a missing Remove, "
				  "unsubscribe, expiry or limit." },
			{ "grew", "Look again with --looks 4: two looks cannot tell a leak from a cache that fills." },
			{ "grew-in-steps",
			  "Look again for longer (--duration 300): a leak goes on, a cache that is full or work that is "
			  "done does not." },
			{ "not-all-read", "Make a core (drdotnet dump collect) and run gc-survivors on it." },
			{ "finalizers-behind",
			  "They are garbage that waits for its finalizers, which run one after another on one thread: "
			  "run merged-call-stacks to see what the finalizer thread is busy with or stuck in." },
			{ "leak-without-holder",
			  "Run gc-survivors with --type to see who holds objects of that type." },
			{ "grows-elsewhere",
			  "Look for what is taken from native libraries or by Marshal.Alloc and never given back, for "
			  "things that are not disposed, for threads, and for code and types made at run time "
			  "(loader)." },
		},
	.n_advice = 7,
	.runs = (const struct advice_run[]){ { "not-all-read", "gc-survivors" },
					     { "finalizers-behind", "merged-call-stacks" },
					     { "leak-without-holder", "gc-survivors" },
					     { "grows-elsewhere", "loader" },
					     { 0 } },
	.two_recordings = true,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
