/* Native memory: why a process is much larger than its managed heap. Where every resident byte is, and what malloc has in
 * its arenas. */

#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "exam/profiler.h"
#include "memory/native_look.h"
#include "profilers/memory_steps.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MB ((uint64_t)1 << 20)
/* One kind of memory that is worth a word: any .NET process has some 100 MB of runtime, libraries and code. */
#define LARGE_BYTES (150 * MB)
#define LARGE_SHARE 0.3 /* of what is in RAM */
/* Free memory that malloc keeps: less is ordinary between two peaks. */
#define FREE_BYTES (100 * MB)
#define FREE_SHARE 0.25
#define MAIN_SIZE_SHARE 0.5 /* of what is in use: then one size tells what it is */
#define SIZE_ROWS 20u
#define ARENA_ROWS 16u
#define GROWTH_ROWS 12u
#define LOOKS_MAX 4u /* three show a direction; the fourth, that it goes on */

struct native_looks {
	struct native_look looks[LOOKS_MAX];
	uint32_t n;
	bool young; /* the process had hardly started */
};

struct native_cause {
	const char *finding;
	enum report_health health;
	uint64_t bytes;
};
enum {
	CAUSE_HEAP,
	CAUSE_USED,
	CAUSE_TRIMMABLE,
	CAUSE_SCATTERED,
	CAUSE_STACKS,
	CAUSE_OTHER,
	CAUSE_CODE,
	CAUSE_FILES,
	CAUSES
};

/* ---- what it is ---- */

static bool reads_chunks(const struct native_look *l)
{
	return l->allocator.kind == MALLOC_GLIBC || l->allocator.kind == MALLOC_UNKNOWN;
}

/* The end of the main arena is what malloc_trim gives back, of the ends of arenas. */
static uint64_t top_of_main(const struct native_look *l)
{
	return l->arenas.n ? MIN(l->arenas.v[0].top_resident, l->kind[NATIVE_TOP]) : 0;
}

/* What has not been understood of malloc is in there somewhere, and no mapping of others. */
static uint64_t surely_other(const struct native_look *l)
{
	uint64_t unsure = l->doubtful_bytes + (l->mapped_known && !l->mapped_found ? l->mapped.bytes : 0);
	return l->kind[NATIVE_OTHER] - MIN(unsure, l->kind[NATIVE_OTHER]);
}

static void find_causes(const struct native_look *l, struct native_cause causes[CAUSES])
{
	const uint64_t *k = l->kind;
	uint64_t top = top_of_main(l);
	causes[CAUSE_HEAP] = (struct native_cause){ "managed-heap", REPORT_OK, k[NATIVE_HEAP] };
	causes[CAUSE_USED] = (struct native_cause){ "native-in-use", REPORT_INFO, k[NATIVE_USED] };
	causes[CAUSE_TRIMMABLE] = (struct native_cause){ "trimmable", REPORT_WARN, k[NATIVE_TRIMMABLE] + top };
	causes[CAUSE_SCATTERED] = (struct native_cause){ "fragmented", REPORT_WARN,
							 k[NATIVE_SCATTERED] + k[NATIVE_CACHED] + k[NATIVE_TOP] - top };
	causes[CAUSE_STACKS] = (struct native_cause){ "stacks", REPORT_INFO, k[NATIVE_STACKS] + k[NATIVE_OLD_STACKS] };
	causes[CAUSE_OTHER] =
		(struct native_cause){ reads_chunks(l) ? "mappings" : "other-allocator", REPORT_INFO, surely_other(l) };
	causes[CAUSE_CODE] = (struct native_cause){ "code-and-types", REPORT_INFO, k[NATIVE_CODE] + k[NATIVE_LOADER] };
	causes[CAUSE_FILES] = (struct native_cause){
		"files", REPORT_INFO, k[NATIVE_ASSEMBLIES] + k[NATIVE_LIBRARIES] + k[NATIVE_FILES] + k[NATIVE_SHARED]
	};
}

static bool is_large(const struct native_look *l, const struct native_cause *c)
{
	bool is_free = c->health == REPORT_WARN;
	return c->bytes >= (is_free ? FREE_BYTES : LARGE_BYTES) &&
	       ratio(c->bytes, l->rss) >= (is_free ? FREE_SHARE : LARGE_SHARE);
}

/* The largest of those that are worth a word; CAUSES = none is. */
static unsigned main_cause(const struct native_look *l, const struct native_cause causes[CAUSES])
{
	unsigned most = CAUSES;
	for (unsigned i = 0; i < CAUSES; i++)
		if (is_large(l, &causes[i]) && (most == CAUSES || causes[i].bytes > causes[most].bytes))
			most = i;
	return most;
}

/* ---- what grows ---- */

/* The managed heap grows between two collections in any program: memory-leaks looks at what is alive. Files come and go. */
static const char *const grow_findings[CAUSES] = {
	[CAUSE_USED] = "native-grows",	[CAUSE_SCATTERED] = "fragmentation-grows",
	[CAUSE_STACKS] = "stacks-grow", [CAUSE_OTHER] = "mappings-grow",
	[CAUSE_CODE] = "code-grows",
};

/* What grows most, at every look; CAUSES = nothing does. One kind may grow while another shrinks: then the process does
 * not. And at first it takes memory whatever it does. */
static unsigned growing_cause(const struct native_looks *m, int64_t *ret_grown)
{
	const struct native_look *last = &m->looks[m->n - 1];
	unsigned most = CAUSES;
	int64_t of_all = (int64_t)last->rss - (int64_t)m->looks[0].rss;
	*ret_grown = 0;
	for (unsigned c = 0; c < CAUSES && !m->young && m->looks[0].rss && last->rss; c++) {
		struct memory_steps steps = { .n = m->n };
		for (uint32_t i = 0; i < m->n; i++) {
			struct native_cause causes[CAUSES];
			find_causes(&m->looks[i], causes);
			steps.bytes[i] = causes[c].bytes;
		}
		int64_t grown = grow_findings[c] ? memory_steps_grow(&steps, last->rss) : 0;
		if (grown > *ret_grown && of_all * 2 >= grown) {
			*ret_grown = grown;
			most = c;
		}
	}
	return most;
}

static double minutes(const struct native_looks *m)
{
	uint64_t ns = m->looks[m->n - 1].facts.at_ns - m->looks[0].facts.at_ns;
	return (double)MAX(ns, (uint64_t)1) / 60e9;
}

struct native_grown {
	uint64_t size, before, now;
};
VEC_TYPE(native_grown_sizes, struct native_grown);

static void native_grown_sizes_free(struct native_grown_sizes *sizes)
{
	vec_free(sizes);
}

static int most_grown_first(const void *a, const void *b)
{
	const struct native_grown *x = a, *y = b;
	double gx = (double)x->size * ((double)x->now - (double)x->before);
	double gy = (double)y->size * ((double)y->now - (double)y->before);
	return CMP(gy, gx) ?: CMP(x->size, y->size);
}

/* Sizes of which there are more chunks at the last look than at the first: most bytes first. Nothing when either has more
 * sizes than were written down. */
static void find_grown(const struct native_looks *m, struct native_grown_sizes *ret)
{
	const struct native_look *first = &m->looks[0], *last = &m->looks[m->n - 1];
	CLEANUP(map_u64_free) struct map_u64 before = { 0 };
	if (m->n < 2 || first->n_sizes > NATIVE_SIZES_MAX || last->n_sizes > NATIVE_SIZES_MAX)
		return;
	vec_each(s, &first->sizes)
		*map_u64_put(&before, s->size, NULL) = s->chunks;
	vec_each(s, &last->sizes) {
		const uint64_t *had = map_u64_get(&before, s->size);
		if (s->chunks > (had ? *had : 0))
			vec_push(ret, ((struct native_grown){ s->size, had ? *had : 0, s->chunks }));
	}
	vec_sort(ret, most_grown_first);
}

/* ---- words ---- */

static void say_sizes(const struct native_look *l, struct rich *v)
{
	const struct malloc_size *s = l->sizes.n ? &l->sizes.v[0] : NULL;
	uint64_t used = l->state[MALLOC_USED].bytes + (l->mapped_found ? l->mapped.bytes : 0);
	rich_text(v, " It is in %s",
		  fmt_plural(l->state[MALLOC_USED].chunks + (l->mapped_found ? l->mapped.chunks : 0), "chunk", "chunks")
			  .s);
	if (s && ratio((double)s->size * (double)s->chunks, used) >= MAIN_SIZE_SHARE)
		rich_text(v, ", %s of which have %s bytes each", fmt_count(s->chunks).s, fmt_count(s->size).s);
	rich_text(v, ".");
}

static void say_arenas(const struct native_look *l, struct rich *v)
{
	rich_text(v, " malloc has %s", fmt_plural(l->n_arenas, "arena", "arenas").s);
	rich_text(v, l->arena_max ? "; MALLOC_ARENA_MAX allows %s." : "; it makes up to 8 for each core.",
		  fmt_count(l->arena_max).s);
}

static void say_more(const struct native_look *l, unsigned cause, struct rich *v)
{
	switch (cause) {
	case CAUSE_USED:
		say_sizes(l, v);
		break;
	case CAUSE_TRIMMABLE:
		rich_text(v, l->pages_known ? " malloc_trim would give it back." : " At most so much would come back.");
		say_arenas(l, v);
		break;
	case CAUSE_SCATTERED:
		rich_text(v, " It shares its pages with chunks in use and cannot be given back.");
		say_arenas(l, v);
		break;
	case CAUSE_STACKS:
		rich_text(v, " There are %s.", fmt_plural(l->threads, "thread", "threads").s);
		if (l->kind[NATIVE_OLD_STACKS] >= MB)
			rich_text(v, " %s of it are stacks of ended threads.", fmt_bytes(l->kind[NATIVE_OLD_STACKS]).s);
		break;
	case CAUSE_OTHER:
		if (!reads_chunks(l)) {
			rich_text(v, " Its allocator is ");
			rich_code(v, malloc_allocator_name(&l->allocator));
			rich_text(v, ", whose heap is not read.");
		}
		break;
	}
}

static const char *const cause_words[CAUSES] = {
	[CAUSE_HEAP] = "the managed heap",
	[CAUSE_USED] = "native memory that was taken with malloc and not given back",
	[CAUSE_TRIMMABLE] = "memory that was freed and that malloc keeps",
	[CAUSE_SCATTERED] = "free memory of malloc that is fragmented",
	[CAUSE_STACKS] = "stacks of threads",
	[CAUSE_OTHER] = "private memory outside of the managed heap, malloc and stacks",
	[CAUSE_CODE] = "code and types that were made at run time",
	[CAUSE_FILES] = "mapped files, libraries and shared memory",
};

static const char *const grow_words[CAUSES] = {
	[CAUSE_USED] = "Native memory that malloc has given out and not got back",
	[CAUSE_SCATTERED] = "Free memory of malloc that is fragmented",
	[CAUSE_STACKS] = "Memory of threads' stacks",
	[CAUSE_OTHER] = "Private memory outside of the managed heap, malloc and stacks",
	[CAUSE_CODE] = "Memory of code and types made at run time",
};

static bool add_growth_verdict(const struct exam *exam, const struct native_looks *m, struct report *report)
{
	const struct native_look *l = &m->looks[m->n - 1];
	struct native_cause now[CAUSES];
	int64_t grown;
	unsigned cause = growing_cause(m, &grown);
	CLEANUP(native_grown_sizes_free) struct native_grown_sizes sizes = { 0 };
	if (cause == CAUSES)
		return false;
	find_causes(l, now);
	struct rich *v = report_verdict(report, REPORT_WARN, grow_findings[cause]);
	rich_text(v, "%s grows by ", grow_words[cause]);
	rich_strong(v, "%s a minute", fmt_bytes((uint64_t)((double)grown / minutes(m))).s);
	rich_text(v, " and now has %s of the %s in RAM; the managed heap has %s.", fmt_bytes(now[cause].bytes).s,
		  fmt_bytes(l->rss).s, fmt_bytes(l->kind[NATIVE_HEAP]).s);
	find_grown(m, &sizes);
	if (cause == CAUSE_USED && sizes.n)
		rich_text(v, " Most of it is in chunks of %s bytes: %s in %s.", fmt_count(sizes.v[0].size).s,
			  fmt_signed((int64_t)(sizes.v[0].now - sizes.v[0].before)).s,
			  fmt_duration_ns((uint64_t)(minutes(m) * 60e9)).s);
	else if (cause != CAUSE_USED)
		say_more(l, cause, v);
	report_advice(report, exam->profiler, grow_findings[cause]);
	return true;
}

/* Of what does not grow at each look. */
static void say_no_growth(const struct native_looks *m, unsigned cause, struct rich *v)
{
	struct native_cause first[CAUSES], last[CAUSES];
	struct fmt_text time = fmt_duration_ns((uint64_t)(minutes(m) * 60e9));
	find_causes(&m->looks[0], first);
	find_causes(&m->looks[m->n - 1], last);
	if (m->n < 3 || m->young)
		rich_text(v, " Whether it grows is not known.");
	else if (last[cause].bytes >= first[cause].bytes + MB)
		rich_text(v, " It grew by %s in %s, but not steadily.",
			  fmt_bytes(last[cause].bytes - first[cause].bytes).s, time.s);
	else
		rich_text(v, " It did not grow in %s.", time.s);
}

static void add_verdict(const struct exam *exam, const struct native_looks *m, struct report *report)
{
	const struct native_look *l = &m->looks[m->n - 1];
	struct native_cause causes[CAUSES];
	find_causes(l, causes);
	unsigned cause = main_cause(l, causes);
	const struct native_cause *c = cause < CAUSES ? &causes[cause] : NULL;
	const char *finding = c ? c->finding : "nothing-found";
	struct rich *v = report_verdict(report, c ? c->health : REPORT_OK, finding);
	if (c && cause != CAUSE_HEAP) {
		rich_strong(v, "%s of the %s", fmt_bytes(c->bytes).s, fmt_bytes(l->rss).s);
		rich_text(v, " that the process has in RAM are %s; the managed heap has %s.",
			  cause == CAUSE_OTHER && !reads_chunks(l)
				  ? "private memory outside of the managed heap and stacks"
				  : cause_words[cause],
			  fmt_bytes(l->kind[NATIVE_HEAP]).s);
	} else {
		rich_text(v, "No problem here: of the ");
		rich_strong(v, "%s", fmt_bytes(l->rss).s);
		rich_text(v, " that the process has in RAM the managed heap has %s, malloc %s in use and %s free.",
			  fmt_bytes(l->kind[NATIVE_HEAP]).s, fmt_bytes(l->kind[NATIVE_USED]).s,
			  fmt_bytes(causes[CAUSE_TRIMMABLE].bytes + causes[CAUSE_SCATTERED].bytes).s);
	}
	say_more(l, cause, v);
	if (c && c->health == REPORT_INFO)
		say_no_growth(m, cause, v);
	report_advice(report, exam->profiler, finding);
}

/* Of a core nobody knows what was resident. */
static void add_verdict_of_core(const struct exam *exam, const struct native_look *l, struct report *report)
{
	bool reads = l->understood && l->n_arenas > l->doubtful;
	const char *finding = reads ? "seen" : "not-understood";
	struct rich *v = report_verdict(report, REPORT_INFO, finding);
	uint64_t used = l->state[MALLOC_USED].bytes + (l->mapped_known ? l->mapped.bytes : 0);
	if (reads) {
		rich_text(v, "malloc has ");
		rich_strong(v, "%s in use", fmt_bytes(used).s);
		rich_text(v, " and %s free. What of the memory was in RAM is not known here.",
			  fmt_bytes(l->state[MALLOC_FREE].bytes + l->state[MALLOC_CACHED].bytes).s);
	} else {
		rich_text(v, "The native heap is not understood, and what of the memory was in RAM is not known here.");
	}
	report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct native_look *l, struct report *report)
{
	bool known = l->rss != 0, reads = known && l->understood;
	report_figure(report, "In RAM", known ? V_BYTES(l->rss) : V_NONE, "of the whole process");
	report_figure(report, "Managed heap", known ? V_BYTES(l->kind[NATIVE_HEAP]) : V_NONE, "in RAM");
	report_figure(report, "malloc in use", reads ? V_BYTES(l->kind[NATIVE_USED]) : V_NONE, "in RAM");
	report_figure(report, "Could be trimmed", reads ? V_BYTES(l->kind[NATIVE_TRIMMABLE] + top_of_main(l)) : V_NONE,
		      l->pages_known ? "by malloc_trim" : "at most");
	report_figure(report, "Named", known ? V_RATIO(1 - ratio(l->kind[NATIVE_OTHER], l->rss)) : V_NONE,
		      "of what is in RAM");
}

/* ---- tables ---- */

static void add_kinds(const struct native_looks *m, struct report *report)
{
	const struct native_look *first = &m->looks[0], *l = &m->looks[m->n - 1];
	if (!l->rss)
		return;
	struct report_table *t = report_table(report, "Where the memory is");
	report_column(t, "Memory", VALUE_TEXT, 0);
	report_column(t, "In RAM", VALUE_BYTES, COLUMN_MAIN | COLUMN_AREA);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	if (m->n > 1)
		report_column(t, "Since the first look", VALUE_BYTES, COLUMN_SIGNED);
	for (enum native_kind k = 0; k < NATIVE_KINDS; k++)
		if (l->kind[k])
			report_row(t, (struct value[]){ V_TEXT(native_kind_names[k]), V_BYTES(l->kind[k]),
							V_RATIO(ratio(l->kind[k], l->rss)),
							V_BYTES((double)l->kind[k] - (double)first->kind[k]) });
}

static void add_sizes(const struct native_look *l, struct report *report)
{
	uint64_t used = l->state[MALLOC_USED].bytes + (l->mapped_found ? l->mapped.bytes : 0), chunks = 0;
	double shown = 0;
	if (!l->sizes.n)
		return;
	struct report_table *t = report_table(report, "Chunks in use, by size");
	report_column(t, "Size", VALUE_TEXT, 0);
	report_column(t, "Chunks", VALUE_COUNT, 0);
	report_column(t, "Bytes", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < l->sizes.n && i < SIZE_ROWS; i++) {
		const struct malloc_size *s = &l->sizes.v[i];
		double bytes = (double)s->size * (double)s->chunks;
		CLEANUP(mem_freep) char *size = mem_printf("%s bytes", fmt_count(s->size).s);
		report_row(t, (struct value[]){ V_TEXT(size), V_COUNT(s->chunks), V_BYTES(bytes),
						V_RATIO(ratio(bytes, used)) });
		shown += bytes;
		chunks += s->chunks;
	}
	uint64_t all = l->state[MALLOC_USED].chunks + (l->mapped_found ? l->mapped.chunks : 0);
	if ((double)used > shown && all > chunks)
		report_rest(t, (struct value[]){ V_TEXT("other sizes"), V_COUNT(all - chunks),
						 V_BYTES((double)used - shown),
						 V_RATIO(ratio((double)used - shown, used)) });
}

static void add_growth(const struct native_looks *m, struct report *report)
{
	CLEANUP(native_grown_sizes_free) struct native_grown_sizes sizes = { 0 };
	find_grown(m, &sizes);
	if (!sizes.n)
		return;
	struct report_table *t = report_table(report, "Chunks that became more, by size");
	report_column(t, "Size", VALUE_TEXT, 0);
	report_column(t, "First look", VALUE_COUNT, 0);
	report_column(t, "Last look", VALUE_COUNT, 0);
	report_column(t, "More", VALUE_BYTES, COLUMN_MAIN | COLUMN_SIGNED);
	for (size_t i = 0; i < sizes.n && i < GROWTH_ROWS; i++) {
		const struct native_grown *g = &sizes.v[i];
		CLEANUP(mem_freep) char *size = mem_printf("%s bytes", fmt_count(g->size).s);
		report_row(t, (struct value[]){ V_TEXT(size), V_COUNT(g->before), V_COUNT(g->now),
						V_BYTES((double)g->size * (double)(g->now - g->before)) });
	}
}

static void add_arena(const struct malloc_arena *a, uint32_t number, struct report_table *t)
{
	CLEANUP(mem_freep)
	char *name = a->main ? mem_strdup("main") : mem_printf("%u%s", number, a->doubt ? ", not understood" : "");
#define KNOWN(value) (a->doubt ? V_NONE : V_BYTES(value))
	report_row(t, (struct value[]){ V_TEXT(name), V_BYTES(a->system), KNOWN(a->state[MALLOC_USED].bytes),
					KNOWN(a->state[MALLOC_CACHED].bytes), KNOWN(a->state[MALLOC_FREE].bytes),
					KNOWN(a->trimmable), KNOWN(a->state[MALLOC_TOP].bytes) });
#undef KNOWN
}

static void add_arenas(const struct native_look *l, struct report *report)
{
	if (!l->arenas.n)
		return;
	struct report_table *t = report_table(report, "Arenas of malloc");
	report_column(t, "Arena", VALUE_TEXT, 0);
	report_column(t, "From the system", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "In use", VALUE_BYTES, 0);
	report_column(t, "Cached", VALUE_BYTES, 0);
	report_column(t, "Free", VALUE_BYTES, 0);
	report_column(t, "Trimmable", VALUE_BYTES, 0);
	report_column(t, "End", VALUE_BYTES, 0);
	for (uint32_t i = 0; i < l->arenas.n && i < ARENA_ROWS; i++)
		add_arena(&l->arenas.v[i], i, t);
}

static void add_how(const struct native_looks *m, struct report *report)
{
	const struct native_look *l = &m->looks[m->n - 1];
	struct image_exam_facts facts[LOOKS_MAX];
	CLEANUP(mem_freep) char *doubt = mem_printf("of %s that did not add up", fmt_count(l->doubtful).s);
	for (uint32_t i = 0; i < m->n; i++)
		facts[i] = m->looks[i].facts;
	image_exam_how(report, facts, m->n);
	if (l->allocator.kind != MALLOC_UNKNOWN)
		report_how(report, "Allocator", V_CODE(malloc_allocator_name(&l->allocator)),
			   reads_chunks(l) ? "where the runtime's calls of malloc lead" : "its heap is not read");
	if (reads_chunks(l) && !l->understood)
		report_how(report, "Arenas", V_NONE, "not found: no chunk is known");
	else if (l->understood)
		report_how(report, "Arenas", V_COUNT(l->n_arenas), "what they count themselves agrees, but where said");
	if (l->doubtful)
		report_how(report, "Arenas not understood", V_BYTES(l->doubtful_bytes), doubt);
	if (l->mapped_known && !l->mapped_found)
		report_how(report, "Mapped chunks not found", V_BYTES(l->mapped.bytes),
			   "by malloc's own count; they are in other private memory");
	if (l->page_tables)
		report_how(report, "Page tables", V_BYTES(l->page_tables), "of the kernel, beside what is in RAM");
	if (l->huge)
		report_how(report, "Huge pages", V_BYTES(l->huge), "of what is in RAM");
	if (l->swap)
		report_how(report, "Swapped out", V_BYTES(l->swap), NULL);
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct native_looks *m = exam->state = mem_zalloc(sizeof(*m));
	uint64_t duration_ms = exam_duration_ms(exam);
	/* A recording has as many as were taken. */
	unsigned looks = exam->replay || (duration_ms && !exam->core) ? LOOKS_MAX : 1;
	for (unsigned i = 0; i < looks; i++) {
		char part[32];
		snprintf(part, sizeof(part), "native-%u", i + 1);
		if (i && !exam_image_again(exam, duration_ms / (looks - 1), part))
			break;
		struct err *err = native_look(&m->looks[i], exam, part);
		/* What was seen before is still reported. */
		if (err && i && !exam->replay) {
			exam_cut(exam, "look %u failed: %s", i + 1, err_text(err));
			err_free(err);
			break;
		}
		if (err)
			return err;
		m->n = i + 1;
	}
	return NULL;
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct native_looks *m = exam->state;
	const struct native_look *l = &m->looks[m->n - 1];
	m->young = exam_is_young(exam);
	if (!l->rss)
		add_verdict_of_core(exam, l, report);
	else if (!add_growth_verdict(exam, m, report))
		add_verdict(exam, m, report);
	add_figures(l, report);
	add_kinds(m, report);
	add_growth(m, report);
	add_sizes(l, report);
	report_details(report);
	add_arenas(l, report);
	add_how(m, report);
	return NULL;
}

static void free_state(void *state)
{
	struct native_looks *m = state;
	for (unsigned i = 0; i < LOOKS_MAX; i++)
		native_look_fini(&m->looks[i]);
	mem_free(m);
}

const struct profiler profiler_native_memory = {
	.id = "native-memory",
	.uuid = "3B8C1D52-0E7A-4C64-9C1F-5A7D90E2F6B1",
	.name = "Native memory",
	.chapter = CHAPTER_MEMORY,
	.label = "The process is much larger than its heap",
	.symptom = "the process is much larger than its heap: where is the rest?",
	.description =
		"Says where every resident byte of the process is: managed heap, malloc, stacks, code, files. Of "
		"glibc's malloc it reads the arenas: what is in use, by size of chunk, what is free and would "
		"come back by malloc_trim, and what is free and fragmented. Other allocators are named.",
	.cost = "a pause of about 20 ms for each GB at each look; everything is read from copies",
	.params =
		(const struct param[]){
			{ .key = "duration",
			  .name = "Duration",
			  .description = "0: one look. Else four looks in that time: they show what grows.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "0",
			  .min = 0,
			  .max = 86400 },
			PARAM_MAX_PAUSE,
		},
	.n_params = 2,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "managed-heap", "Run heap-stats: it says what is on the managed heap." },
			{ "native-in-use",
			  "Find what takes chunks of these sizes: native libraries, Marshal.AllocHGlobal, and objects "
			  "that are not disposed. With --duration 60 it says whether it grows, and chunks of which "
			  "size." },
			{ "native-grows",
			  "Find what takes chunks of these sizes and does not give them back: native libraries, "
			  "Marshal.AllocHGlobal without FreeHGlobal, objects that are not disposed." },
			{ "fragmentation-grows",
			  "Look again for longer (--duration 600). Another allocator (jemalloc by LD_PRELOAD) wastes "
			  "less where chunks of short and of long life lie side by side." },
			{ "stacks-grow", "Run merged-call-stacks: it says what the threads do that become more." },
			{ "mappings-grow", "Look for native libraries that map memory themselves, for another "
					   "allocator, and for buffers that are not disposed." },
			{ "code-grows", "Run loader: it says what is loaded and made at run time again and again." },
			{ "trimmable",
			  "From the next start: MALLOC_MMAP_THRESHOLD_=65536 keeps blocks above 64 KB out of arenas, so "
			  "that they go back when they are freed; MALLOC_ARENA_MAX=2 lets fewer arenas keep memory. A "
			  "call of malloc_trim(0) after a peak gives it back at once." },
			{ "fragmented",
			  "Chunks of short and of long life lie side by side. An allocator that keeps chunks of one "
			  "size together (jemalloc by LD_PRELOAD) wastes less; where many arenas have their part in "
			  "it, MALLOC_ARENA_MAX=2 does too." },
			{ "stacks", "Run merged-call-stacks: it says what the threads do, and how many are alike." },
			{ "mappings", "Look for native libraries that map memory themselves, and for buffers that are "
				      "not disposed. With --duration 60 it says whether it grows." },
			{ "other-allocator",
			  "Ask the allocator for its own statistics (MALLOC_CONF=stats_print:true for jemalloc). "
			  "With --duration 60 it says whether it grows." },
			{ "code-and-types", "Run loader: it says what is loaded, and what is made at run time." },
			{ "files", "Most of it can be taken back by the kernel at any time. Look at what is mapped in "
				   "/proc/PID/smaps." },
			{ "seen", "Look at the living process to see what of it is in RAM." },
			{ "not-understood", "Look at the living process: then at least its mappings are known." },
		},
	.n_advice = 16,
	.runs = (const struct advice_run[]){ { "managed-heap", "heap-stats" },
					     { "stacks", "merged-call-stacks" },
					     { "stacks-grow", "merged-call-stacks" },
					     { "code-grows", "loader" },
					     { "code-and-types", "loader" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
