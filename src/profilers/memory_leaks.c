/* Memory leaks: several looks at the living objects, and what grows from each to the next.
 *
 * Garbage is left out of every look, so what grows is held. Holders are recognised by their names: objects move, and an
 * address means the same only while nothing was moved (same_objects.h). Of each look only the sums stay in memory, and
 * of the first one the address of each object. */

#include "profilers/memory_leaks.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDER_LEAST ((uint64_t)16 << 10)

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
		/* Of several with one name the largest comes first. */
		if (grower->at[l->n].bytes == h->bytes)
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
	.contract_files = (const char *const[]){ "summary.md", NULL },
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
			  "Run native-memory: it says what it is, by size of chunk where it is malloc's. Look for what is "
			  "taken by Marshal.Alloc and never given back, for things that are not disposed, and for "
			  "threads." },
		},
	.n_advice = 7,
	.runs = (const struct advice_run[]){ { "not-all-read", "gc-survivors" },
					     { "finalizers-behind", "merged-call-stacks" },
					     { "leak-without-holder", "gc-survivors" },
					     { "grows-elsewhere", "native-memory" },
					     { 0 } },
	.two_recordings = true,
	.run = run,
	.analyse = leaks_analyse,
	.free_state = free_state,
};
