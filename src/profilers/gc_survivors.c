/* GC survivors: what a collection would leave alive at this instant, and who holds it. */

#include "base/fmt.h"
#include "base/str.h"
#include "memory/heap_look.h"
#include "memory/holders.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define ROWS 25
#define DEPTH_MAX 20	  /* of the trees */
#define ONE_HOLDER 0.5	  /* of all: then the verdict is about it */
#define WORTH_A_ROW 0.005 /* of all */
#define WORTH_A_TREE 0.1
#define LITTLE ((uint64_t)2 << 20) /* too little to be a problem, or to be looked at */
#define SMALL ((uint64_t)16 << 20) /* too little to be a problem: who holds it is told all the same */

/* ---- which objects count ---- */

/* Only those that old generations hold: the others are still there, but weigh nothing. */
static void weigh_old(struct heapgraph *g)
{
	vec_each(r, &g->regions)
		for (uint32_t i = r->first; r->generation < GRAPH_GEN2 && i < r->first + r->n; i++)
			g->units[i] = 0;
}

/* The same with objects of other types. Returns how many types fit. */
static size_t weigh_types(struct heapgraph *g, const char *text)
{
	CLEANUP(mem_freep) bool *fits = mem_array(g->types.n + 1, sizeof(*fits));
	size_t n = heap_types_like(g, text, fits);
	for (uint32_t i = 0; i < g->n; i++)
		if (!fits[g->type[i]])
			g->units[i] = 0;
	return n;
}

/* ---- words ---- */

/* When the holder is a root itself, of which kind; GRAPH_ROOTS = it is an object. */
static enum graph_root root_kind(const struct heapgraph *g, const struct holder *h)
{
	return h->vertex >= g->n ? (enum graph_root)g->roots.v[h->vertex - g->n].kind : GRAPH_ROOTS;
}

/* by: what keeps it, when that says more than the holder's name; or NULL. */
static void say_holder(const struct heapgraph *g, const struct holder *h, const char *by, struct rich *v)
{
	CLEANUP(buf_free) struct buf name = { 0 }, detail = { 0 }, main = { 0 };
	holder_name(g, h, &name);
	holder_field(g, h, &name);
	holder_detail(g, h, &detail);
	rich_code(v, by ? by : buf_cstr(&name));
	if (detail.len && !by) {
		rich_text(v, " (");
		rich_code(v, buf_cstr(&detail));
		rich_text(v, ")");
	}
	rich_text(v, " %s ", by || h->alike > 1 || root_kind(g, h) == GRAPH_HANDLE ? "keep" : "keeps");
	if (h->main_type != GRAPH_NONE) {
		heap_type_short(g, h->main_type, &main);
		rich_strong(v, "%s ", fmt_count(h->main_objects).s);
		rich_code(v, buf_cstr(&main));
		rich_text(v, " alive: ");
	} else {
		rich_text(v, "%s alive: ", fmt_plural(h->objects, "object", "objects").s);
	}
	rich_strong(v, "%s", fmt_bytes(h->bytes).s);
}

/* Handles and finalizers have nothing that entries could be removed from: what to do next differs. */
static const char *finding_of(const struct heapgraph *g, const struct holder *top, double share)
{
	enum graph_root kind = root_kind(g, top);
	const char *name = kind == GRAPH_HANDLE ? g->roots.v[top->vertex - g->n].name : "";
	return share < ONE_HOLDER	  ? "several-holders"
	       : kind == GRAPH_FINALIZER  ? "finalizers-behind"
	       : strstr(name, "interned") ? "strings-interned"
	       : kind == GRAPH_HANDLE	  ? "handles-not-freed"
					  : "one-holder";
}

/* What was asked for: "live in old generations". */
static void say_scope(const struct exam *exam, struct rich *v)
{
	const char *text = params_text(exam->params, "type");
	bool old = str_eq(params_text(exam->params, "generation"), "old") && !heap_look_alive_only(exam->state);
	rich_text(v, old ? "live in old generations" : "a collection would leave");
	if (*text) {
		rich_text(v, " of types named ");
		rich_code(v, text);
	}
}

static void add_no_type(const struct exam *exam, const struct heapgraph *g, struct report *report)
{
	struct rich *v = report_verdict(report, REPORT_INFO, "no-such-type");
	rich_text(v, "None of the %s on the heap has ", fmt_plural(g->types.n, "type", "types").s);
	rich_code(v, params_text(exam->params, "type"));
	rich_text(v, " in its name.");
	report_advice(report, exam->profiler, "no-such-type");
}

/* Nothing of what was asked for is alive. */
static void say_garbage(const struct exam *exam, const struct heapgraph *g, struct rich *v)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < g->n; i++)
		n += g->units[i] != 0;
	rich_text(v, "No object of types named ");
	rich_code(v, params_text(exam->params, "type"));
	rich_text(v, " is kept: %s on the heap that %s for a collection.", fmt_plural(n, "is", "are").s,
		  n == 1 ? "waits" : "wait");
}

/* The objects that count and are reachable. */
static void gather_alive(const struct heapgraph *g, struct holder_vertices *ret)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->units[i] && heapgraph_reached(g, i))
			vec_push(ret, i);
}

/* Of a question by type: how most of these objects are kept. */
static struct holder_kept asked_kept(const struct heapgraph *g, struct retainers *k, struct buf *out)
{
	struct holder_vertices objects = { 0 };
	gather_alive(g, &objects);
	struct holder_kept kept = holder_kept_of(k, objects.v, objects.n, out);
	vec_free(&objects);
	return kept;
}

static void add_verdict(const struct exam *exam, const struct heapgraph *g, const struct holders *hs,
			struct retainers *k, struct report *report)
{
	const struct holder *top = hs->v.n ? &hs->v.v[0] : NULL;
	CLEANUP(buf_free) struct buf words = { 0 }, finalizers = { 0 };
	struct holder_kept kept = { 0 };
	bool asked = *params_text(exam->params, "type");
	bool little = !top || (hs->bytes < LITTLE && !asked);
	bool small = hs->bytes < SMALL && !asked;
	const char *finding = little ? "nothing-held" : finding_of(g, top, ratio(top->bytes, hs->bytes));
	struct rich *v = report_verdict(report, little ? REPORT_OK : REPORT_INFO, finding);
	if (little && asked) {
		say_garbage(exam, g, v);
		return;
	}
	if (little) {
		rich_text(v, "No problem here: only %s in %s would survive a collection.", fmt_bytes(hs->bytes).s,
			  fmt_plural(hs->objects, "object", "objects").s);
		return;
	}
	if (small)
		rich_text(v, "No problem here, it is little: ");
	kept = asked ? asked_kept(g, k, &words) : holder_retainers(k, g, top, &words);
	say_holder(g, top, kept.leads ? buf_cstr(&words) : NULL, v);
	rich_text(v, " of the %s that ", fmt_bytes(hs->bytes).s);
	say_scope(exam, v);
	rich_text(v, ".");
	if (kept.all && !kept.leads && (kept.telling || asked))
		holder_kept_say(&kept, buf_cstr(&words), v);
	if (hs->v.n > 1 && hs->v.v[1].bytes * 2 < top->bytes) {
		rich_text(v, " It is by far the largest holder.");
	} else if (hs->v.n > 1) {
		rich_text(v, " Second, ");
		CLEANUP(buf_free) struct buf second = { 0 };
		bool leads = holder_retainers(k, g, &hs->v.v[1], &second).leads;
		say_holder(g, &hs->v.v[1], leads ? buf_cstr(&second) : NULL, v);
		rich_text(v, ".");
	}
	heap_finalizers_words(exam->state, &finalizers);
	if (finalizers.len)
		rich_text(v, " %s.", buf_cstr(&finalizers));
	if (kept.telling && kept.advice)
		rich_text(report_next(report), "%s", kept.advice);
	else if (!small)
		report_advice(report, exam->profiler, finding);
}

/* all: no object was left out, so that what is not alive is garbage. */
static void add_figures(const struct heap_look *look, const struct holders *hs, bool all, struct report *report)
{
	const struct heapgraph *g = look->graph;
	uint64_t dead = g->facts.bytes - MIN(g->facts.bytes, g->reached_units * 8);
	report_figure(report, all ? "Alive" : "Alive of these", V_BYTES(hs->bytes),
		      fmt_plural(hs->objects, "object", "objects").s);
	if (all)
		report_figure(report, "Garbage", heap_look_alive_only(look) ? V_NONE : V_BYTES(dead),
			      "that waits for a collection");
	report_figure(report, "Heap", V_BYTES(g->facts.bytes), fmt_plural(g->facts.objects, "object", "objects").s);
}

static struct value main_value(const struct heapgraph *g, const struct holder *h, struct buf *out)
{
	if (h->main_type == GRAPH_NONE)
		return V_NONE;
	buf_printf(out, "%s ", fmt_count(h->main_objects).s);
	heap_type_short(g, h->main_type, out);
	return V_CODE(buf_cstr(out));
}

static int most_objects_first(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	return CMP(y->objects, x->objects);
}

static const char *rest_words(const struct holders *hs)
{
	return hs->v.n > ROWS ? "smaller holders, and shared" : "all others together";
}

static void add_table(const struct heapgraph *g, struct holders *hs, struct retainers *k, bool by_size,
		      struct report *report)
{
	struct report_table *t = report_table(report, "Holders");
	uint64_t rest_bytes = hs->rest_bytes, rest_objects = hs->rest_objects;
	report_column(t, "Holder", VALUE_CODE, 0);
	report_column(t, "Keeps", VALUE_CODE, 0);
	report_column(t, "Objects", VALUE_COUNT, by_size ? 0 : COLUMN_MAIN);
	report_column(t, "Retained", VALUE_BYTES, by_size ? COLUMN_MAIN : 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	if (!by_size)
		vec_sort(&hs->v, most_objects_first);
	for (size_t i = 0; i < hs->v.n; i++) {
		const struct holder *h = &hs->v.v[i];
		if (i >= ROWS) {
			rest_bytes += h->bytes;
			rest_objects += h->objects;
			continue;
		}
		CLEANUP(buf_free) struct buf name = { 0 }, detail = { 0 }, keeps = { 0 };
		holder_name(g, h, &name);
		holder_field(g, h, &name);
		holder_detail(g, h, &detail);
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(buf_cstr(&name)), main_value(g, h, &keeps), V_COUNT(h->objects),
					     V_BYTES(h->bytes), V_RATIO(ratio(h->bytes, hs->bytes)) });
		if (detail.len)
			report_row_line(row, VALUE_CODE, buf_cstr(&detail), NULL);
		CLEANUP(buf_free) struct buf words = { 0 };
		if (holder_retainers(k, g, h, &words).telling)
			holder_kept_line(row, buf_cstr(&words));
	}
	if (rest_bytes)
		report_rest(t, (struct value[]){ V_TEXT(rest_words(hs)), V_NONE, V_COUNT(rest_objects),
						 V_BYTES(rest_bytes), V_RATIO(ratio(rest_bytes, hs->bytes)) });
}

static void add_tree(const struct heapgraph *g, const struct holders *hs, unsigned depth, struct report *report)
{
	struct report_table *t = holders_tree(g, hs, ROWS, depth, report);
	uint64_t rest_bytes = hs->rest_bytes, rest_objects = hs->rest_objects;
	for (size_t i = ROWS; i < hs->v.n; i++) {
		rest_bytes += hs->v.v[i].bytes;
		rest_objects += hs->v.v[i].objects;
	}
	if (rest_bytes)
		report_rest(t, (struct value[]){ V_TEXT(rest_words(hs)), V_COUNT(rest_objects), V_BYTES(rest_bytes),
						 V_RATIO(ratio(rest_bytes, hs->bytes)) });
}

/* ---- how objects of a type are kept ---- */

static void add_kept(const struct heapgraph *g, struct retainers *k, struct report *report)
{
	struct holder_vertices objects = { 0 };
	struct kept_groups groups = { 0 };
	uint64_t rest_objects = 0, rest_bytes = 0;
	gather_alive(g, &objects);
	retainers_group(k, objects.v, objects.n, &groups);
	struct report_table *t = report_table(report, "How they are kept");
	report_column(t, "Kept by", VALUE_CODE, 0);
	report_column(t, "Objects", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Bytes", VALUE_BYTES, 0);
	for (size_t i = 0; i < groups.n; i++) {
		const struct kept_group *group = &groups.v[i];
		CLEANUP(buf_free) struct buf words = { 0 }, path = { 0 };
		if (i >= ROWS) {
			rest_objects += group->objects;
			rest_bytes += group->bytes;
			continue;
		}
		retainer_words(k, group->chain, &words);
		retainer_path(k, group->object, &path);
		struct report_row *row =
			report_row(t, (struct value[]){ V_CODE(buf_cstr(&words)), V_COUNT(group->objects),
							V_BYTES(group->bytes) });
		report_row_line(row, VALUE_CODE, buf_cstr(&path), NULL);
	}
	if (rest_objects)
		report_rest(t, (struct value[]){ V_TEXT("in other ways"), V_COUNT(rest_objects), V_BYTES(rest_bytes) });
	vec_free(&objects);
	vec_free(&groups);
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct heap_look *look = exam->state = mem_zalloc(sizeof(*look));
	return heap_look(look, exam, "heap");
}

static uint64_t threshold(const struct exam *exam, const struct heapgraph *g)
{
	uint64_t asked = (uint64_t)params_int(exam->params, "retained_bytes_threshold");
	uint64_t all = (uint64_t)g->retained[heapgraph_top(g)] * 8;
	/* A question about a type is answered, however few they are. */
	if (*params_text(exam->params, "type") && params_is_default(exam->params, "retained_bytes_threshold"))
		return 1;
	return params_is_default(exam->params, "retained_bytes_threshold")
		       ? MAX(asked, (uint64_t)(WORTH_A_ROW * (double)all))
		       : MAX(asked, (uint64_t)1);
}

static void drop_few(struct holders *hs, uint64_t min_objects)
{
	size_t n = 0;
	vec_each(h, &hs->v) {
		if (h->objects >= min_objects || ratio(h->bytes, hs->bytes) >= WORTH_A_TREE) {
			hs->v.v[n++] = *h;
			continue;
		}
		hs->rest_bytes += h->bytes;
		hs->rest_objects += h->objects;
	}
	hs->v.n = n;
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct heap_look *look = exam->state;
	struct heapgraph *g = look->graph;
	struct holders hs;
	bool asked_old = str_eq(params_text(exam->params, "generation"), "old");
	bool old = asked_old && !heap_look_alive_only(look);
	const char *text = params_text(exam->params, "type");
	unsigned depth = (unsigned)MIN(params_int(exam->params, "max_depth"), (int64_t)DEPTH_MAX);
	size_t n_types = *text ? weigh_types(g, text) : 1;
	if (old)
		weigh_old(g);
	heapgraph_dominate(g);
	holders_find(g, threshold(exam, g), &hs);
	if (!*text || !params_is_default(exam->params, "retained_references_threshold"))
		drop_few(&hs, (uint64_t)params_int(exam->params, "retained_references_threshold"));
	CLEANUP(retainers_freep) struct retainers *k = retainers_new(g, &look->notes);
	if (n_types)
		add_verdict(exam, g, &hs, k, report);
	else
		add_no_type(exam, g, report);
	if (n_types)
		add_figures(look, &hs, !old && !*text, report);
	if (asked_old && !old)
		rich_text(report_note(report, REPORT_WARN),
			  "Generations are not known by this way: objects of all of them are counted.");
	if (*text || asked_old)
		report_asked(report);
	if (hs.v.n && *text)
		add_kept(g, k, report);
	if (hs.v.n) {
		add_table(g, &hs, k, params_bool(exam->params, "sort_by_size"), report);
		add_tree(g, &hs, depth, report);
	}
	image_exam_how(report, &look->facts, 1);
	heap_look_how(report, look);
	holders_free(&hs);
	return NULL;
}

static void free_state(void *state)
{
	heap_look_fini(state);
	mem_free(state);
}

static const char *const generations[] = { "all", "old", NULL };

const struct profiler profiler_gc_survivors = {
	.id = "gc-survivors",
	.uuid = "805A307B-061C-47F3-9B30-F795C3186E86",
	.name = "GC survivors",
	.chapter = CHAPTER_MEMORY,
	.label = "Memory is high and does not come back",
	.symptom = "memory is high and does not come back: who holds it?",
	.description = "Finds every object that a collection would leave alive and groups them by who alone keeps "
		       "them: a static "
		       "field by name, a thread's stack, a handle, an object of your own code. What the framework puts "
		       "between is "
		       "folded away, and each object is counted once.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.contract_files = (const char *const[]){ "summary.html", NULL },
	.params =
		(const struct param[]){
			{ .key = "generation",
			  .name = "Generations",
			  .description =
				  "all = whatever a collection would leave; old = what lives in generation 2 and "
				  "among large objects.",
			  .type = PARAM_STRING,
			  .default_value = "all",
			  .choices = generations },
			{ .key = "type",
			  .name = "Types",
			  .description = "Only objects of types that have this in their name; who holds them?",
			  .type = PARAM_STRING,
			  .default_value = "" },
			{ .key = "sort_by_size",
			  .name = "Sort by size",
			  .description = "Holders of most bytes first; no = of most objects.",
			  .type = PARAM_BOOL,
			  .default_value = "true" },
			{ .key = "retained_references_threshold",
			  .name = "Fewest objects",
			  .description = "Holders of fewer are summed up, unless they are large.",
			  .type = PARAM_INT,
			  .default_value = "100",
			  .min = 0,
			  .max = 1e9 },
			{ .key = "retained_bytes_threshold",
			  .name = "Fewest bytes",
			  .description =
				  "Holders of less are summed up; unless it is set, also those of less than 0.5 %.",
			  .type = PARAM_INT,
			  .unit = "bytes",
			  .default_value = "10000",
			  .min = 0,
			  .max = 1e12 },
			{ .key = "max_depth",
			  .name = "Depth of the trees",
			  .description = "Levels below a holder; more than 20 are not shown.",
			  .type = PARAM_INT,
			  .default_value = "4",
			  .min = 1,
			  .max = 1000 },
			PARAM_MAX_PAUSE,
		},
	.n_params = 7,
	.ways = { WAY_IMAGE, WAY_AGENT, WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "one-holder",
			  "Does anything ever remove entries from it? Run memory-leaks to see whether it grows." },
			{ "finalizers-behind",
			  "They wait for their finalizers, which run one after another on one thread: run "
			  "merged-call-stacks to see what the finalizer thread is busy with or stuck in." },
			{ "handles-not-freed",
			  "Handles come from GCHandle.Alloc, or from native code that called back: what is never freed "
			  "keeps its object for good." },
			{ "strings-interned",
			  "Interned strings are never freed: who calls String.Intern, and with what?" },
			{ "several-holders", "Run memory-leaks to see which of them grows." },
			{ "no-such-type", "Run heap-stats to see which types there are." },
		},
	.n_advice = 6,
	.runs = (const struct advice_run[]){ { "one-holder", "memory-leaks" },
					     { "finalizers-behind", "merged-call-stacks" },
					     { "several-holders", "memory-leaks" },
					     { "no-such-type", "heap-stats" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
