#include "trace/summary.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include "model/dist.h"
#include "trace/samples.h"
#include "version.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KINDS_MAX 20000
#define KIND_ROWS 60
#define METHOD_ROWS 25
#define TYPE_ROWS 20
#define TYPES_MAX 5000
#define PAUSES_MAX 200000
#define FLAME_NODES 20000
#define LOST_MUCH 0.01
#define STREAM_PROVIDER "Microsoft-DotNETCore-EventPipe"
#define NAME_MAX_UNITS 4096

struct trace_kind {
	uint32_t provider; /* in names */
	uint32_t id;
	char *name;
	uint64_t count, bytes, stacks;
};

struct summary {
	const struct trace_ids *ids;
	struct nettrace_header header;
	char *process; /* by its command line; NULL when the trace does not tell */
	struct trace_sampler *sampler;
	struct strtab names; /* of providers */
	VEC(struct trace_kind) kinds;
	struct map_u64 by_meta;
	struct strtab keys; /* provider, id, name -> kind */
	const struct nettrace_meta *last_meta;
	size_t last_kind;
	uint64_t counted, bytes, over_limit, first, last;

	uint64_t gcs[3], gc_induced;
	uint64_t suspend_ticks;
	bool suspended;
	struct dist *pauses;

	struct strtab types;
	VEC(uint64_t) type_counts;
	uint64_t exceptions;
	struct buf text;
};

static size_t kind_of(struct summary *s, const struct nettrace_meta *meta)
{
	bool new;
	uint64_t *at = map_u64_put(&s->by_meta, (uint64_t)(uintptr_t)meta, &new);
	if (!new)
		return (size_t)*at;
	buf_clear(&s->text);
	buf_printf(&s->text, "%s/%u/%s", meta->provider, meta->event_id, meta->name);
	uint32_t key = strtab_find(&s->keys, buf_cstr(&s->text), s->text.len);
	if (key == STRTAB_NONE && s->kinds.n >= KINDS_MAX)
		return *at = SIZE_MAX;
	if (key == STRTAB_NONE) {
		key = strtab_add(&s->keys, buf_cstr(&s->text), s->text.len);
		vec_push(&s->kinds, ((struct trace_kind){ .provider = strtab_add_cstr(&s->names, meta->provider),
							  .id = meta->event_id,
							  .name = mem_strdup(meta->name) }));
	}
	return *at = key;
}

static void count(struct summary *s, const struct nettrace_event *event)
{
	if (event->meta != s->last_meta) {
		s->last_meta = event->meta;
		s->last_kind = kind_of(s, event->meta);
	}
	s->counted++;
	s->bytes += event->payload_size;
	/* A rundown lists the past at the end; its times say nothing about the window. */
	if (!str_eq(event->meta->provider, CLR_RUNDOWN_PROVIDER)) {
		s->first = !s->first || event->time < s->first ? event->time : s->first;
		s->last = MAX(s->last, event->time);
	}
	if (s->last_kind == SIZE_MAX) {
		s->over_limit++;
		return;
	}
	struct trace_kind *kind = &s->kinds.v[s->last_kind];
	kind->count++;
	kind->bytes += event->payload_size;
	kind->stacks += event->n_frames > 0;
}

static void on_gc_start(struct summary *s, const struct nettrace_event *event)
{
	struct clr_gc_start gc;
	if (!clr_decode_gc_start(event, &gc))
		return;
	s->gcs[MIN(gc.generation, 2u)]++;
	s->gc_induced += gc.reason == 1 || gc.reason == 7 || gc.reason == 10;
}

static void on_suspend(struct summary *s, const struct nettrace_event *event)
{
	struct clr_suspend suspend;
	if (!clr_decode_suspend(event, &suspend))
		return;
	s->suspended = suspend.reason == 1 || suspend.reason == 6;
	s->suspend_ticks = event->time;
}

static void on_exception(struct summary *s, const struct nettrace_event *event)
{
	struct clr_exception e;
	if (!clr_decode_exception(event, &e))
		return;
	s->exceptions++;
	buf_clear(&s->text);
	utf16_add(&s->text, e.type.units, MIN(e.type.n, (size_t)512));
	uint32_t id = strtab_find(&s->types, buf_cstr(&s->text), s->text.len);
	if (id == STRTAB_NONE && s->types.n >= TYPES_MAX)
		return;
	if (id == STRTAB_NONE) {
		id = strtab_add(&s->types, buf_cstr(&s->text), s->text.len);
		vec_push(&s->type_counts, 0);
	}
	s->type_counts.v[id]++;
}

/* The next word of a command line as the name of a program: without its folder and ".dll". The caller frees. */
static char *program_name(const char **line)
{
	const char *word = *line + strspn(*line, " ");
	size_t n = strcspn(word, " ");
	*line = word + n;
	for (const char *c = word; c < *line; c++) {
		if (*c == '/')
			n = (size_t)(*line - (word = c + 1));
	}
	bool dll = n > 4 && !strncasecmp(word + n - 4, ".dll", 4);
	return mem_strndup(word, dll ? n - 4 : n);
}

/* What the trace says of its process: the command line comes first. "dotnet" starts any program: the name is that program's. */
static void on_process(struct summary *s, const struct nettrace_event *event)
{
	struct cursor c = cursor_make(event->payload, event->payload_size);
	struct utf16_span text = cursor_utf16z(&c);
	if (s->process || !cursor_ok(&c))
		return;
	buf_clear(&s->text);
	utf16_add(&s->text, text.units, MIN(text.n, (size_t)NAME_MAX_UNITS));
	const char *line = buf_cstr(&s->text);
	char *name = program_name(&line);
	if (str_eq(name, "dotnet") && *line && line[1] != '-') {
		mem_free(name);
		name = program_name(&line);
	}
	s->process = *name ? STEAL(name) : NULL;
	mem_free(name);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct summary *s = user;
	if (str_eq(event->meta->name, "ProcessInfo") && str_eq(event->meta->provider, STREAM_PROVIDER))
		on_process(s, event);
	trace_sampler_event(s->sampler, event);
	if (s->ids && !trace_ids_take(s->ids, event->meta->provider, event->meta->event_id))
		return;
	count(s, event);
	switch (clr_event(event)) {
	case CLR_GC_START:
		on_gc_start(s, event);
		break;
	case CLR_SUSPEND_BEGIN:
		on_suspend(s, event);
		break;
	case CLR_RESTART_END:
		if (s->suspended && event->time >= s->suspend_ticks)
			dist_add(s->pauses, trace_ns(&s->header, event->time - s->suspend_ticks));
		s->suspended = false;
		break;
	case CLR_EXCEPTION_THROWN:
		on_exception(s, event);
		break;
	default:
		break;
	}
}

static void on_header(void *user, const struct nettrace_header *header)
{
	struct summary *s = user;
	s->header = *header;
	trace_sampler_header(s->sampler, header);
}

static void on_meta(void *user, struct nettrace_meta *meta)
{
	(void)user;
	clr_describe(meta);
}

/* --- report --- */

static double lost_share(const struct nettrace_stats *stats)
{
	uint64_t all = stats->events + stats->lost;
	return ratio(stats->lost, all);
}

static void add_verdict(const struct summary *s, const struct trace_source *source, struct report *r)
{
	double lost = lost_share(&source->stats);
	bool bad = lost > LOST_MUCH;
	enum report_health health = bad ? REPORT_BAD : source->damage || lost > 0 ? REPORT_WARN : REPORT_INFO;
	const char *finding = !s->counted      ? "trace-empty"
			      : lost > 0       ? "trace-lost-events"
			      : source->damage ? "trace-cut"
					       : "trace-whole";
	struct rich *text = report_verdict(r, health, finding);
	if (!s->counted)
		rich_text(text, "The trace holds no event. ");
	else
		rich_strong(text, "%s of %s", fmt_plural(s->counted, "event", "events").s,
			    fmt_plural(s->names.n, "provider", "providers").s);
	if (s->counted)
		rich_text(text, " in %s. ", fmt_duration_ns(trace_ns(&s->header, s->last - s->first)).s);
	if (source->stats.lost)
		rich_text(text, "%s more were lost (%s of all): the runtime's buffer was full.",
			  fmt_count(source->stats.lost).s, fmt_percent(lost).s);
	else if (source->damage)
		rich_text(text, "The file has no proper end: %s.", source->damage);
	else
		rich_text(text, "None was lost.");
	if (bad)
		rich_text(report_next(r), "Collect again with fewer providers or a larger --buffer.");
}

static int most_kinds(const void *a, const void *b)
{
	const struct trace_kind *x = a, *y = b;
	return CMP(y->count, x->count) ?: CMP(x->id, y->id);
}

static void add_kinds(struct summary *s, struct report *r)
{
	if (!s->kinds.n)
		return;
	vec_sort(&s->kinds, most_kinds);
	s->last_meta = NULL; /* indexes are void from here on */
	struct report_table *t = report_table(r, "Events");
	report_column(t, "Provider", VALUE_CODE, 0);
	report_column(t, "Event", VALUE_CODE, 0);
	report_column(t, "Id", VALUE_COUNT, 0);
	report_column(t, "Count", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Payload", VALUE_BYTES, 0);
	report_column(t, "With stack", VALUE_COUNT, 0);
	uint64_t rest_count = s->over_limit, rest_bytes = 0, rest = 0;
	for (size_t i = 0; i < s->kinds.n; i++) {
		const struct trace_kind *k = &s->kinds.v[i];
		if (i >= KIND_ROWS) {
			rest++;
			rest_count += k->count;
			rest_bytes += k->bytes;
			continue;
		}
		report_row(t, (struct value[]){
				      V_CODE(strtab_get(&s->names, k->provider)),
				      str_empty(k->name) ? V_NONE : V_CODE(k->name),
				      V_COUNT(k->id),
				      V_COUNT(k->count),
				      V_BYTES(k->bytes),
				      V_COUNT(k->stacks),
			      });
	}
	CLEANUP(mem_freep) char *words = mem_printf("%s further kinds", fmt_count(rest).s);
	if (rest || s->over_limit)
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_NONE, V_COUNT(rest_count),
						 V_BYTES(rest_bytes), V_NONE });
}

struct method_sum {
	uint32_t frame;
	uint64_t self, total, native; /* native: it waited, or ran native code it had called */
};

static int most_self(const void *a, const void *b)
{
	const struct method_sum *x = a, *y = b;
	return CMP(y->self, x->self) ?: CMP(y->native, x->native);
}

struct hot {
	struct method_sum *v; /* by frame */
	uint64_t running, native;
	struct calltree *tree; /* of what ran */
	size_t *seen, stamp;   /* by frame: the stack it was seen in last */
};

/* What a sample is charged to is its managed leaf. */
static void add_sum(const struct profile *p, struct hot *hot, struct profile_path *path, uint64_t weight,
		    const uint32_t *frames)
{
	bool native = path->n && profile_frame_kind(p, path->v[path->n - 1]) == FRAME_NATIVE;
	if (native) {
		hot->native += weight;
		if (path->n > 1)
			hot->v[path->v[path->n - 2]].native += weight;
		return;
	}
	hot->running += weight;
	if (path->n)
		hot->v[path->v[path->n - 1]].self += weight;
	hot->stamp++;
	for (size_t i = 0; i < path->n; i++) {
		if (hot->seen[path->v[i]] != hot->stamp) /* once, however deep it recurses */
			hot->v[path->v[i]].total += weight;
		hot->seen[path->v[i]] = hot->stamp;
	}
	for (size_t i = 0; i < path->n; i++)
		path->v[i] = frames[path->v[i]];
	calltree_add(hot->tree, path->v, path->n, weight);
}

static struct err *sum_methods(const struct profile *p, struct hot *hot)
{
	struct profile_sums sums = { 0 };
	struct profile_path path = { 0 };
	CLEANUP(mem_freep) uint32_t *frames = mem_array(profile_n_frames(p) + 1, sizeof(*frames));
	for (uint32_t i = 0; i < profile_n_frames(p); i++) {
		hot->v[i].frame = i;
		frames[i] = calltree_frame(hot->tree, profile_frame(p, i), profile_frame_kind(p, i));
	}
	struct err *err = profile_sum(p, &sums);
	for (size_t i = 0; i < sums.n && !err; i++) {
		profile_path(p, sums.v[i].node, &path);
		add_sum(p, hot, &path, sums.v[i].weight, frames);
	}
	vec_free(&sums);
	vec_free(&path);
	return err;
}

static struct value part(uint64_t part, uint64_t whole)
{
	return whole ? V_RATIO((double)part / (double)whole) : V_NONE;
}

static void add_methods(const struct profile *p, const struct hot *hot, bool cpu, struct report *r)
{
	struct report_table *t = report_table(r, cpu ? "Where the threads were" : "Stacks of events");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, cpu ? "Ran itself" : "Itself", VALUE_RATIO, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "With callees", VALUE_RATIO, 0);
	report_column(t, cpu ? "Ran for" : "Count", cpu ? VALUE_NS : VALUE_COUNT, 0);
	if (cpu)
		report_column(t, "Native or waiting", VALUE_NS, 0);
	for (size_t i = 0; i < MIN(profile_n_frames(p), (size_t)METHOD_ROWS); i++) {
		const struct method_sum *m = &hot->v[i];
		if (!m->self && !m->native)
			break;
		report_row(t, (struct value[]){ V_CODE(profile_frame(p, m->frame)), part(m->self, hot->running),
						part(m->total, hot->running), cpu ? V_NS(m->self) : V_COUNT(m->self),
						V_NS(m->native) });
	}
	uint64_t n_rest = 0, rest = 0, rest_native = 0;
	for (size_t i = METHOD_ROWS; i < profile_n_frames(p); i++) {
		n_rest += hot->v[i].self || hot->v[i].native;
		rest += hot->v[i].self;
		rest_native += hot->v[i].native;
	}
	CLEANUP(mem_freep) char *words = mem_printf("%s further methods", fmt_count(n_rest).s);
	if (n_rest)
		report_rest(t, (struct value[]){ V_TEXT(words), part(rest, hot->running), V_NONE,
						 cpu ? V_NS(rest) : V_COUNT(rest), V_NS(rest_native) });
}

static void how_stacks(const struct trace_samples *samples, const struct hot *hot, struct report *r)
{
	const struct profile *p = samples->profile;
	if (samples->cpu) {
		report_how(r, "Samples", V_COUNT(profile_n_samples(p)),
			   "of every managed thread, running or waiting; managed frames only");
		report_how(r, "Running managed code", part(hot->running, hot->running + hot->native),
			   "of the time of all threads; the rest is native code or waiting");
	}
	if (samples->unnamed)
		report_how(r, "Addresses without a name", V_COUNT(samples->unnamed),
			   samples->methods ? "code that was gone when the names were listed"
					    : "the trace has no rundown: the process ended, or --no-rundown");
	if (profile_cut(p))
		report_how(r, "Stacks beyond the limit", V_COUNT(profile_cut(p)), "counted together");
}

static struct err *add_stacks(const struct trace_samples *samples, struct report *r)
{
	const struct profile *p = samples->profile;
	if (!profile_n_samples(p))
		return NULL;
	struct hot hot = { .v = mem_zalloc((profile_n_frames(p) + 1) * sizeof(*hot.v)),
			   .seen = mem_zalloc((profile_n_frames(p) + 1) * sizeof(*hot.seen)),
			   .tree = calltree_new(FLAME_NODES) };
	struct err *err = sum_methods(p, &hot);
	if (!err) {
		qsort(hot.v, profile_n_frames(p), sizeof(*hot.v), most_self);
		add_methods(p, &hot, samples->cpu, r);
		calltree_sort(hot.tree);
		if (hot.running)
			report_flame(r, samples->cpu ? "Call tree of what ran" : "Call tree", hot.tree,
				     samples->cpu ? VALUE_NS : VALUE_COUNT);
		how_stacks(samples, &hot, r);
	}
	calltree_free(hot.tree);
	mem_free(hot.v);
	mem_free(hot.seen);
	return err;
}

static void add_figures(const struct summary *s, const struct trace_source *source, struct report *r)
{
	report_figure(r, "Events", V_COUNT(s->counted), NULL);
	CLEANUP(mem_freep) char *share = mem_printf("%s of all", fmt_percent(lost_share(&source->stats)).s);
	report_figure(r, "Lost", V_COUNT(source->stats.lost), source->stats.lost ? share : NULL);
	uint64_t gcs = s->gcs[0] + s->gcs[1] + s->gcs[2];
	if (gcs) {
		CLEANUP(mem_freep)
		char *by = mem_printf("%llu gen 0, %llu gen 1, %llu gen 2", (unsigned long long)s->gcs[0],
				      (unsigned long long)s->gcs[1], (unsigned long long)s->gcs[2]);
		report_figure(r, "Collections", V_COUNT(gcs), by);
	}
	if (dist_count(s->pauses)) {
		CLEANUP(mem_freep)
		char *sum = mem_printf("%s in all", fmt_duration_ns(dist_sum(s->pauses)).s);
		report_figure(r, "Longest GC pause", V_NS(dist_max(s->pauses)), sum);
	}
	if (s->exceptions)
		report_figure(r, "Exceptions", V_COUNT(s->exceptions), NULL);
}

struct type_row {
	uint32_t type;
	uint64_t count;
};

static int most_types(const void *a, const void *b)
{
	const struct type_row *x = a, *y = b;
	return CMP(y->count, x->count) ?: CMP(x->type, y->type);
}

static void add_exceptions(struct summary *s, struct report *r)
{
	if (!s->exceptions)
		return;
	VEC(struct type_row) rows = { 0 };
	for (uint32_t i = 0; i < s->types.n; i++)
		vec_push(&rows, ((struct type_row){ i, s->type_counts.v[i] }));
	vec_sort(&rows, most_types);
	struct report_table *t = report_table(r, "Exceptions");
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "Count", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	uint64_t shown = 0;
	for (size_t i = 0; i < MIN(rows.n, (size_t)TYPE_ROWS); i++) {
		buf_clear(&s->text);
		type_show(strtab_get(&s->types, rows.v[i].type), &s->text);
		report_row(t, (struct value[]){ V_CODE(buf_cstr(&s->text)), V_COUNT(rows.v[i].count) });
		shown += rows.v[i].count;
	}
	if (shown < s->exceptions)
		report_rest(t, (struct value[]){ V_TEXT("further types"), V_COUNT(s->exceptions - shown) });
	vec_free(&rows);
}

static void add_how(const struct summary *s, const struct trace_source *source, struct report *r)
{
	CLEANUP(mem_freep)
	char *format = mem_printf("nettrace version %d, %u-bit process%s", source->header.format,
				  source->header.pointer_size * 8, source->file_bytes ? "" : ", from standard input");
	report_how(r, "File", V_BYTES(source->stats.bytes), format);
	if (source->damage)
		report_how(r, "Not read to its end", V_TEXT(source->damage), NULL);
	report_how(r, "Lost events", V_COUNT(source->stats.lost),
		   "from gaps in the runtime's numbering; a lower bound");
	if (source->stats.orphans)
		report_how(r, "Events without description", V_COUNT(source->stats.orphans), "left out");
	if (s->over_limit)
		report_how(r, "Kinds beyond the limit", V_COUNT(s->over_limit), "events of them, counted together");
}

static void add_facts(const struct summary *s, const char *path, const struct trace_source *source, struct report *r)
{
	const char *slash = strrchr(path, '/');
	uint32_t pid = MIN(source->header.pid, (uint32_t)INT32_MAX);
	CLEANUP(mem_freep)
	char *title = str_eq(path, "-") ? mem_strdup("Trace") : mem_printf("Trace %s", slash ? slash + 1 : path);
	report_set_facts(r,
			 &(struct report_facts){
				 .profiler = "trace",
				 .title = title,
				 .process = s->process,
				 .target_id = (int)pid,
				 .when_unix_ns = s->first ? trace_unix_ns(&s->header, s->first) : source->header.utc_ns,
				 .window_ns = trace_ns(&s->header, s->last - s->first),
				 .version = DRDOTNET_VERSION,
				 .partial = source->damage,
			 });
}

static struct err *build(struct summary *s, const char *path, const struct trace_source *source, struct report *r)
{
	struct trace_samples samples = { 0 };
	TRY(trace_sampler_finish(s->sampler, &samples));
	add_verdict(s, source, r);
	add_figures(s, source, r);
	add_kinds(s, r);
	struct err *err = add_stacks(&samples, r);
	add_exceptions(s, r);
	add_how(s, source, r);
	add_facts(s, path, source, r);
	profile_free(samples.profile);
	return err;
}

static void summary_fini(struct summary *s)
{
	trace_sampler_free(s->sampler);
	vec_each(k, &s->kinds)
		mem_free(k->name);
	vec_free(&s->kinds);
	strtab_free(&s->names);
	strtab_free(&s->keys);
	map_u64_free(&s->by_meta);
	strtab_free(&s->types);
	vec_free(&s->type_counts);
	dist_free(s->pauses);
	mem_free(s->process);
	buf_free(&s->text);
}

struct err *trace_summary(const char *path, const struct trace_ids *ids, const char *spool_dir, struct report **ret)
{
	static const struct nettrace_callbacks callbacks = { .header = on_header, .meta = on_meta, .event = on_event };
	static const struct nettrace_options ordered = { 0 };
	struct trace_samples_options options = { .ids = ids, .spool_dir = spool_dir };
	struct summary s = { .ids = ids, .sampler = trace_sampler_new(&options), .pauses = dist_new(PAUSES_MAX) };
	struct trace_source source;
	struct err *err = trace_read(path, &ordered, &callbacks, &s, &source);
	if (!err) {
		CLEANUP(report_freep) struct report *r = report_new();
		err = build(&s, path, &source, r);
		if (!err)
			*ret = STEAL(r);
	}
	trace_source_fini(&source);
	summary_fini(&s);
	return err;
}
