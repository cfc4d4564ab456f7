/* What the samples say: cores in use, the hottest methods and paths, threads and subsystems. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "profilers/cpu_hotpaths.h"
#include "sampling/sample_summary.h"
#include "exam/profiler.h"
#include "report/flame_svg.h"
#include <stdlib.h>

#define IDLE_CORES CPU_IDLE_CORES
/* Code that is being compiled is the ordinary beginning of a process, and the ordinary life of one that does so little. */
#define WARM_UP_CORES 0.25
/* The share of a path's samples from which on the callee that has them is named as a part of the path. */
#define NEARLY_ALL 0.9
/* Of a process that uses less than that the hottest part is told without advice: there is nothing to gain. */
#define LITTLE_CORES 0.25
/* Threads that were able to run and had no cpu, on average: from here on the process is starved, not idle. */
#define STARVED_CORES 0.25
/* The share of all samples from which on the verdict is about one path (hot-path), or about one subsystem (gc-heavy,
 * jit-heavy). */
#define HOT_SHARE 0.20
#define SUBSYSTEM_SHARE 0.30
/* The share of CPU time (by the kernel's clock) without a sample from which on the samples alone say too little. */
#define UNSEEN_SHARE 0.30
#define UNSEEN_NS_LEAST (100 * NS_PER_MS)
#define BUSY_SHARE 0.80 /* of all cores */
#define LINES_SHOWN 5	/* of a method */
#define TREE_SHARE 0.01
#define TREE_DEPTH 60
#define TREE_ROWS 400

struct cpu_view {
	const struct cpu_state *cpu;
	struct sample_summary *hot;
	uint64_t window_ns;
	double cores;	    /* busy, on average */
	double started;	    /* cores that processes used which it started meanwhile */
	uint64_t unseen_ns; /* of threads that ended before they had a sample */
	size_t max_rows;
};

static double share(const struct cpu_view *v, uint64_t weight)
{
	return ratio(weight, v->hot->weight);
}

static const char *frame_name(const struct cpu_view *v, uint32_t frame)
{
	return samples_frame_name(v->cpu->samples, frame);
}

static const char *const kind_words[] = { "your code", "framework", "garbage collection", "JIT compiler", "native",
					  "kernel",    "other" };

static bool is_warm_up(const struct cpu_view *v)
{
	return v->cores < WARM_UP_CORES && share(v, v->hot->by_kind[FRAME_JIT]) >= SUBSYSTEM_SHARE;
}

/* The subsystem that the verdict is about, or FRAME_CODE. */
static enum frame_kind heavy_kind(const struct cpu_view *v)
{
	if (share(v, v->hot->by_kind[FRAME_GC]) >= SUBSYSTEM_SHARE)
		return FRAME_GC;
	bool jit = share(v, v->hot->by_kind[FRAME_JIT]) >= SUBSYSTEM_SHARE;
	return jit && !is_warm_up(v) ? FRAME_JIT : FRAME_CODE;
}

/* Where managed methods have no names it is not known whose code it is. */
static bool has_names(const struct cpu_view *v)
{
	const struct sampling_facts *f = &v->cpu->facts;
	return f->named || f->from_files || f->by_events;
}

/* Then less garbage would not help. */
static bool collects_by_hand(const struct cpu_view *v)
{
	return v->cpu->facts.induced * 2 > v->cpu->facts.collections;
}

static const char *finding_of(const struct cpu_view *v)
{
	if (cpu_budget_too_small(&v->cpu->budget) && v->cores >= IDLE_CORES)
		return "throttled";
	double wanted = ratio(v->cpu->facts.delay_ns, v->window_ns);
	if (wanted > STARVED_CORES && wanted > 3 * v->cores)
		return "starved";
	if (v->started >= IDLE_CORES && v->started > v->cores)
		return "other-processes";
	if (v->cores < IDLE_CORES || is_warm_up(v))
		return "idle";
	if (v->unseen_ns)
		return "short-lived-threads";
	enum frame_kind kind = heavy_kind(v);
	if (kind != FRAME_CODE)
		return kind == FRAME_JIT ? "jit-heavy" : collects_by_hand(v) ? "gc-induced" : "gc-heavy";
	if (!has_names(v))
		return "no-names";
	const struct summary_site *top = v->hot->sites.n ? &v->hot->sites.v[0] : NULL;
	if (top && top->frame != UINT32_MAX && share(v, top->weight) >= HOT_SHARE)
		return "hot-path";
	return top && top->frame == UINT32_MAX && share(v, top->weight) > 0.5 ? "outside-your-code" : "spread-out";
}

/* "A → B" or "A → B → crc32_z"; when no leaf has nearly all of it, what B calls: "A → B → Regex.IsMatch", or "A → B
 * (60 % in Regex.IsMatch)". */
static void add_frames(const struct cpu_view *v, const struct summary_site *site, struct rich *text)
{
	if (site->caller != UINT32_MAX) {
		rich_code(text, frame_name(v, site->caller));
		rich_text(text, " → ");
	}
	rich_code(text, frame_name(v, site->frame));
	bool leaf = site->below != site->frame && (double)site->below_weight >= NEARLY_ALL * (double)site->weight;
	uint32_t next = leaf ? site->below : site->called;
	uint64_t weight = leaf ? site->below_weight : site->called_weight;
	if (next == UINT32_MAX || weight * 2 <= site->weight)
		return;
	bool nearly_all = (double)weight >= NEARLY_ALL * (double)site->weight;
	if (nearly_all)
		rich_text(text, " → ");
	else
		rich_text(text, " (%s in ", fmt_percent(share(v, weight)).s);
	rich_code(text, frame_name(v, next));
	rich_text(text, nearly_all ? "" : ")");
}

static void add_path(const struct cpu_view *v, const struct summary_site *site, struct rich *text)
{
	add_frames(v, site, text);
	knowledge_add_serving(&v->cpu->known, frame_name(v, site->frame), text);
}

static void add_story(const struct cpu_view *v, const char *finding, struct rich *text)
{
	const struct summary_site *top = &v->hot->sites.v[0];
	enum frame_kind kind = heavy_kind(v);
	/* Before it stands what it did not get. */
	bool wanted = str_eq(finding, "starved") || str_eq(finding, "throttled");
	const char *of = v->unseen_ns ? "of the rest" : wanted ? "of what it got" : "of that";
	if (kind != FRAME_CODE) {
		rich_strong(text, "%s", fmt_percent(share(v, v->hot->by_kind[kind])).s);
		rich_text(text, " %s is the %s.", of, kind == FRAME_GC ? "garbage collector" : "JIT compiler");
		if (kind == FRAME_GC && collects_by_hand(v))
			rich_text(text, " %s of %s asked for by code (GC.Collect).", fmt_count(v->cpu->facts.induced).s,
				  fmt_plural(v->cpu->facts.collections, "collection was", "collections were").s);
		if (top->frame == UINT32_MAX && v->hot->sites.n > 1)
			top++;
		if (top->frame == UINT32_MAX || share(v, top->weight) < HOT_SHARE)
			return;
		rich_text(text, " %s of all is below ", fmt_percent(share(v, top->weight)).s);
		add_path(v, top, text);
		rich_text(text, ".");
		return;
	}
	if (!has_names(v)) {
		const struct summary_method *most = &v->hot->methods.v[0];
		bool managed = v->cpu->samples->frames.v[most->frame].kind == FRAME_OTHER;
		rich_strong(text, "%s", fmt_percent(share(v, most->self)).s);
		rich_text(text, managed ? " %s is managed code. Its methods" : " %s is in ", of);
		if (!managed) {
			rich_code(text, frame_name(v, most->frame));
			rich_text(text, ". Managed methods");
		}
		rich_text(text, " have no names here: the runtime does not answer.");
		return;
	}
	if (top->frame == UINT32_MAX && v->hot->sites.n > 1 && !str_eq(finding, "outside-your-code"))
		top++;
	if (top->frame == UINT32_MAX) {
		rich_strong(text, "%s", fmt_percent(share(v, top->weight)).s);
		rich_text(text, " %s has none of your code on its stack; ", of);
		bool framework = top->called != UINT32_MAX && top->called_weight * 2 > top->weight;
		if (framework || top->below_weight * 2 > top->weight)
			rich_text(text, "most of it is in ");
		else
			rich_text(text, "the largest part, %s, is in ", fmt_percent(share(v, top->below_weight)).s);
		rich_code(text, frame_name(v, framework ? top->called : top->below));
		rich_text(text, ".");
		return;
	}
	bool spread = str_eq(finding, "spread-out");
	if (spread)
		rich_text(text, "No single path stands out; the largest, with ");
	rich_strong(text, "%s", fmt_percent(share(v, top->weight)).s);
	rich_text(text, spread ? ", is " : " %s is ", of);
	add_path(v, top, text);
	rich_text(text, ".");
}

/* Of a process that starts others, a few samples of its own are not worth a verdict. */
static bool is_idle(const struct cpu_view *v, const char *finding)
{
	return str_eq(finding, "idle") || (str_eq(finding, "other-processes") && v->cores < IDLE_CORES);
}

/* What of its work is none of its threads'. */
static void add_started(const struct cpu_view *v, struct rich *text)
{
	if (v->started < IDLE_CORES || v->started < HOT_SHARE * v->cores)
		return;
	rich_text(text, " Processes that it started meanwhile used ");
	rich_strong(text, "%s cores", fmt_number(v->started).s);
	rich_text(text, " beside it");
	if (*v->cpu->facts.started) {
		rich_text(text, ", most of it by ");
		rich_code(text, v->cpu->facts.started);
	}
	rich_text(text, ".");
}

static void add_verdict(const struct exam *exam, const struct cpu_view *v, struct report *report)
{
	const char *finding = finding_of(v);
	const struct cpu_budget *budget = &v->cpu->budget;
	bool idle = is_idle(v, finding), throttled = str_eq(finding, "throttled");
	bool begins = str_eq(finding, "jit-heavy") && exam_is_young(exam);
	bool warn = throttled || str_eq(finding, "starved") || (!begins && v->cores >= BUSY_SHARE * budget->cores);
	bool little = v->cores < LITTLE_CORES && (str_eq(finding, "hot-path") || str_eq(finding, "spread-out") ||
						  str_eq(finding, "outside-your-code"));
	struct rich *text = report_verdict(report, idle ? REPORT_OK : warn ? REPORT_WARN : REPORT_INFO, finding);
	if (idle) {
		rich_text(text, "Idle: ");
		rich_strong(text, "%s", v->hot->weight ? fmt_percent(v->cores).s : "nothing");
		rich_text(text, " of one core was used in %s%s. There is no hot path to show.",
			  fmt_duration_ns(v->window_ns).s, is_warm_up(v) ? ", much of it by the JIT compiler" : "");
		add_started(v, text);
		report_advice(report, exam->profiler, finding);
		return;
	}
	if (little)
		rich_text(text, "Little is used: ");
	rich_strong(text, "%s", fmt_number(v->cores).s);
	rich_text(text, " of %s busy. ", cpu_budget_words(budget).s);
	if (v->unseen_ns)
		rich_text(text, "%s of its CPU time was used by threads that ended before they had a sample. ",
			  fmt_percent((double)v->unseen_ns / (double)v->cpu->facts.cpu_ns).s);
	if (throttled) {
		rich_text(text, "That limit stopped all its threads in ");
		rich_strong(text, "%s of its periods", fmt_percent(budget->stopped).s);
		rich_text(text, ". ");
	}
	if (str_eq(finding, "starved"))
		rich_text(text, "It wanted more: its threads were able to run for %s without getting a CPU. ",
			  fmt_duration_ns(v->cpu->facts.delay_ns).s);
	if (v->hot->sites.n)
		add_story(v, finding, text);
	if (begins)
		rich_text(text,
			  " It started %s before this and still compiles its code, as every process does at first.",
			  fmt_duration_ns(exam->age_ns).s);
	add_started(v, text);
	bool later = str_eq(finding, "jit-heavy") && !begins && exam->age_ns;
	if (!little)
		report_advice(report, exam->profiler, later ? "jit-heavy-later" : finding);
}

static void add_figures(const struct cpu_view *v, struct report *report)
{
	const struct cpu_state *c = v->cpu;
	CLEANUP(mem_freep) char *of = mem_printf("of %s", cpu_budget_words(&c->budget).s);
	report_figure(report, "Cores busy", V_NUMBER(v->cores), of);
	CLEANUP(mem_freep) char *in = mem_printf("in %s", fmt_duration_ns(v->window_ns).s);
	report_figure(report, "CPU time", V_NS(v->hot->weight), in);
	size_t active = 0;
	for (size_t i = 0; i < c->samples->threads.n; i++)
		active += v->hot->threads[i] > 0;
	CLEANUP(mem_freep) char *all = mem_printf("of %s", fmt_count(c->samples->threads.n).s);
	report_figure(report, "Threads that ran", V_COUNT(active), all);
	if (has_names(v))
		report_figure(report, "Your code", V_RATIO(share(v, v->hot->by_kind[FRAME_CODE])),
			      "of the CPU time, itself");
}

static void add_subsystems(const struct cpu_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "By subsystem");
	report_column(t, "Subsystem", VALUE_TEXT, 0);
	report_column(t, "CPU", VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "Time", VALUE_NS, 0);
	for (size_t k = 0; k <= FRAME_OTHER; k++) {
		uint64_t w = v->hot->by_kind[k];
		if (w)
			report_row(t, (struct value[]){ V_TEXT(kind_words[k]), V_RATIO(share(v, w)), V_NS(w) });
	}
}

/* The lines of a method that have most of its time, of the whole time. */
static void add_lines(const struct cpu_view *v, uint32_t frame, struct report_row *row)
{
	const struct samples *s = v->cpu->samples;
	size_t shown = 0;
	vec_each(x, &v->cpu->lines) {
		/* One name may be several frames: tiers. */
		if (s->frames.v[x->frame].name != s->frames.v[frame].name || shown == LINES_SHOWN)
			continue;
		CLEANUP(mem_freep) char *text = mem_printf("%s:%u", x->file, x->line);
		report_row_line(row, VALUE_CODE, text, fmt_percent(share(v, x->weight)).s);
		shown++;
	}
}

static void add_methods(const struct cpu_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Hottest methods");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "Self", VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "With callees", VALUE_RATIO, 0);
	report_column(t, "Kind", VALUE_TEXT, 0);
	size_t shown = 0;
	uint64_t rest = 0, rest_n = 0;
	vec_each(m, &v->hot->methods) {
		if (!m->self)
			continue;
		if (shown++ < v->max_rows) {
			struct report_row *row = report_row(
				t, (struct value[]){ V_CODE(frame_name(v, m->frame)), V_RATIO(share(v, m->self)),
						     V_RATIO(share(v, m->total)),
						     V_TEXT(kind_words[v->cpu->samples->frames.v[m->frame].kind]) });
			if (v->cpu->samples->frames.v[m->frame].kind == FRAME_CODE)
				knowledge_add_serving_line(&v->cpu->known, frame_name(v, m->frame), row);
			add_lines(v, m->frame, row);
		} else {
			rest += m->self, rest_n++;
		}
	}
	if (!rest_n)
		return;
	CLEANUP(mem_freep) char *words = mem_printf("%s more", fmt_plural(rest_n, "method", "methods").s);
	report_rest(t, (struct value[]){ V_TEXT(words), V_RATIO(share(v, rest)), V_NONE, V_NONE });
}

static int by_total(const void *a, const void *b)
{
	const struct summary_method *x = a, *y = b;
	return CMP(y->total, x->total) ?: CMP(x->frame, y->frame);
}

static void add_inclusive(const struct cpu_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Your methods with all they call");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "With callees", VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "Self", VALUE_RATIO, 0);
	VEC(struct summary_method) list = { 0 };
	vec_each(m, &v->hot->methods) {
		if (v->cpu->samples->frames.v[m->frame].kind == FRAME_CODE)
			vec_push(&list, *m);
	}
	vec_sort(&list, by_total);
	for (size_t i = 0; i < list.n && i < v->max_rows; i++)
		report_row(t,
			   (struct value[]){ V_CODE(frame_name(v, list.v[i].frame)), V_RATIO(share(v, list.v[i].total)),
					     V_RATIO(share(v, list.v[i].self)) });
	vec_free(&list);
}

struct walk {
	const struct cpu_view *v;
	const struct calltree *tree;
	struct report_table *table;
	size_t rows;
};

static void add_node(struct walk *w, uint32_t node, struct report_row *parent, unsigned depth)
{
	for (uint32_t c = calltree_node(w->tree, node)->first_child; c; c = calltree_node(w->tree, c)->next_sibling) {
		const struct calltree_node *n = calltree_node(w->tree, c);
		if (share(w->v, n->total) < TREE_SHARE || w->rows >= TREE_ROWS || depth >= TREE_DEPTH)
			return;
		w->rows++;
		struct value cells[] = { V_CODE(calltree_frame_name(w->tree, n->frame)), V_RATIO(share(w->v, n->total)),
					 V_RATIO(share(w->v, n->self)) };
		add_node(w, c, parent ? report_child(parent, cells) : report_row(w->table, cells), depth + 1);
	}
}

static void add_tree(const struct cpu_view *v, const struct calltree *tree, const char *title, const char *what,
		     struct report *report)
{
	struct walk w = { .v = v, .tree = tree, .table = report_tree(report, title) };
	report_column(w.table, "Method", VALUE_CODE, 0);
	report_column(w.table, what, VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	/* Upwards, a node's own share would be that of roots. */
	if (tree == v->hot->down)
		report_column(w.table, "Self", VALUE_RATIO, 0);
	add_node(&w, 0, NULL, 0);
}

static void add_flame(const struct cpu_view *v, struct report *report)
{
	const struct samples *s = v->cpu->samples;
	CLEANUP(mem_freep) struct report_moment *times = mem_array(s->list.n + 1, sizeof(*times));
	for (size_t i = 0; i < s->list.n; i++) {
		const struct sample *x = &s->list.v[i];
		times[i] = (struct report_moment){ .time_ns = (uint64_t)x->time_us * 1000,
						   .weight = x->weight,
						   .node = v->hot->stack_node[x->stack] };
	}
	report_flame_timed(report, "Flame graph", v->hot->down, VALUE_NS, times, s->list.n, v->window_ns);
}

struct by_thread {
	uint32_t thread;
	uint64_t weight;
};

static int busiest_first(const void *a, const void *b)
{
	const struct by_thread *x = a, *y = b;
	return CMP(y->weight, x->weight) ?: CMP(x->thread, y->thread);
}

static void add_threads(const struct cpu_view *v, bool all, struct report *report)
{
	const struct samples *s = v->cpu->samples;
	VEC(struct by_thread) list = { 0 };
	for (uint32_t i = 0; i < s->threads.n; i++) {
		if (v->hot->threads[i] || all)
			vec_push(&list, ((struct by_thread){ i, v->hot->threads[i] }));
	}
	vec_sort(&list, busiest_first);
	struct report_table *t = report_table(report, "By thread");
	report_column(t, "Thread", VALUE_CODE, 0);
	report_column(t, "CPU", VALUE_RATIO, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "Time", VALUE_NS, 0);
	report_column(t, "By the kernel's clock", VALUE_NS, 0);
	report_column(t, "Id", VALUE_TEXT, 0);
	for (size_t i = 0; i < list.n && i < v->max_rows; i++) {
		const struct samples_thread *th = &s->threads.v[list.v[i].thread];
		char id[16];
		snprintf(id, sizeof(id), "%u", th->own_tid);
		const char *name = samples_thread_show(s, list.v[i].thread);
		report_row(t, (struct value[]){ V_CODE(*name ? name : "(no name)"), V_RATIO(share(v, list.v[i].weight)),
						V_NS(list.v[i].weight),
						th->cpu_ns == UINT64_MAX ? V_NONE : V_NS(th->cpu_ns), V_TEXT(id) });
	}
	vec_free(&list);
}

static void add_how_by_events(const struct exam *exam, const struct cpu_view *v, struct report *report)
{
	const struct sampling_facts *f = &v->cpu->facts;
	report_how(report, "Way", V_TEXT(way_name(exam->way)),
		   "the runtime's own sampling, which stops all managed threads for each sample (100 a second); the "
		   "CPU time is "
		   "that of each thread by the kernel's clock, so threads that wait weigh nothing");
	report_how(report, "Samples", V_COUNT(f->samples),
		   "with CPU time; managed frames only, and only where the runtime can stop a thread");
	report_how(report, "Lost samples", V_COUNT(f->lost), NULL);
	report_how(report, "Left behind", V_TEXT("nothing"), NULL);
}

/* What the stacks that are not whole lack; nothing when all are. */
static void add_completeness(const struct sampling_facts *f, struct report *report)
{
	if (!f->samples)
		return;
	bool grown = f->stack_bytes > SAMPLING_STACK_BYTES;
	CLEANUP(mem_freep)
	char *copy = mem_printf("longer than the copy of %s%s%s ([truncated])",
				fmt_bytes(MIN(f->stack_bytes, (uint32_t)SAMPLING_STACK_BYTES)).s,
				grown ? ", later " : "", grown ? fmt_bytes(f->stack_bytes).s : "");
	const struct {
		uint64_t n;
		const char *words;
	} parts[] = { { f->ends[UNWIND_CUT] + f->ends[UNWIND_DEEP], copy },
		      { f->ends[UNWIND_LOST], "without a rule ([incomplete])" },
		      { f->guessed, "with a guessed step" } };
	CLEANUP(buf_free) struct buf text = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].n)
			buf_printf(&text, "%s%s %s", text.len ? ", " : "",
				   fmt_percent((double)parts[i].n / (double)f->samples).s, parts[i].words);
	}
	report_how(report, "Whole stacks", V_RATIO((double)f->ends[UNWIND_ROOT] / (double)f->samples),
		   text.len ? buf_cstr(&text) : NULL);
}

static const char *way_words(const struct sampling_facts *f)
{
	if (f->by_agent)
		return f->shared_signal ? "timers of the threads' own CPU time, set by a library in the process; it is "
					  "never stopped; the signal they use is one that the process uses too"
					: "timers of the threads' own CPU time, set by a library in the process; it is "
					  "never stopped; time in the kernel counts for who called it";
	return f->kernel ? "the kernel's sampling (perf), with kernel frames; the process is never stopped"
			 : "the kernel's sampling (perf), user frames only: CAP_PERFMON or root would add the kernel's";
}

/* The rate as it was, and what it cost: timers fire at the kernel's ticks only, so it is never above them. */
static void add_cost(const struct cpu_view *v, struct report *report)
{
	const struct sampling_facts *f = &v->cpu->facts;
	if (!f->by_agent || !f->handled)
		return;
	CLEANUP(mem_freep)
	char *words = mem_printf("%s a sample on average, %s at most", fmt_duration_ns(f->handler_ns / f->handled).s,
				 fmt_duration_ns(f->handler_max_ns).s);
	if (f->cpu_ns != UINT64_MAX && f->cpu_ns)
		report_how(report, "Cost in the process", V_RATIO((double)f->handler_ns / (double)f->cpu_ns), words);
	if (f->untimed)
		report_how(report, "Threads not sampled", V_COUNT(f->untimed),
			   "they block the signal, or had no timer left");
}

static void add_how(const struct exam *exam, const struct cpu_view *v, struct report *report)
{
	const struct sampling_facts *f = &v->cpu->facts;
	report_how(report, "Way", V_TEXT(way_name(exam->way)), way_words(f));
	CLEANUP(mem_freep)
	char *real = f->by_agent && f->samples
			     ? mem_printf(" (asked: %s; the kernel looks at such timers at its ticks only)",
					  fmt_duration_ns(f->period).s)
			     : NULL;
	uint64_t each_ns = real ? v->hot->weight / f->samples : f->period;
	CLEANUP(mem_freep)
	char *each = mem_printf("one each %s of CPU time of a thread%s", fmt_duration_ns(each_ns).s, real ? real : "");
	report_how(report, "Samples", V_COUNT(f->samples), each);
	report_how(report, "Lost samples", V_COUNT(f->lost),
		   f->throttled ? "and the kernel slowed the sampling down" : NULL);
	add_completeness(f, report);
	add_cost(v, report);
	if (f->cpu_ns != UINT64_MAX)
		report_how(report, "CPU time by the kernel's clock", V_NS(f->cpu_ns), NULL);
	if (!f->named)
		report_how(report, "Managed names", V_TEXT(f->from_files ? "from the runtime's perf map" : "none"),
			   "the diagnostics socket is closed, or its runtime did not answer");
	if (f->kernel && !f->kernel_names)
		report_how(report, "Kernel names", V_TEXT("hidden"), "kernel.kptr_restrict hides them from us");
	if (f->per_cpu && f->short_lived)
		report_how(report, "Short-lived threads", V_TEXT("whole cpus were sampled"),
			   "many of its threads end before a sample of their own would be due");
	else if (f->per_cpu)
		report_how(report, "Too many threads", V_TEXT("whole cpus were sampled"),
			   "an event for each thread and cpu would take more descriptors than are permitted");
	if (v->cpu->samples->dropped)
		report_how(report, "Samples not kept", V_COUNT(v->cpu->samples->dropped),
			   "beyond what we hold in memory");
	report_how(report, "Left behind", V_TEXT("nothing"), NULL);
}

static void add_artifacts(struct exam *exam, const struct cpu_view *v)
{
	CLEANUP(buf_free) struct buf folded = { 0 }, svg = { 0 };
	sample_summary_folded(v->hot, MAX(v->cpu->facts.period, (uint64_t)1), &folded);
	exam_artifact(exam, "folded_stacks.out", folded.data, folded.len);
	flame_svg(v->hot->down, "CPU time", VALUE_NS, &svg);
	exam_artifact(exam, "flamegraph.svg", svg.data, svg.len);
}

/* What the process used and its living threads did not, and no sample shows. */
static uint64_t unseen_ns(const struct cpu_state *c, const struct sample_summary *hot)
{
	const struct sampling_facts *f = &c->facts;
	if (f->cpu_ns == UINT64_MAX || f->by_events || f->by_agent || f->per_cpu || f->lost || c->samples->dropped)
		return 0;
	uint64_t known = 0;
	for (size_t i = 0; i < c->samples->threads.n; i++) {
		uint64_t ns = c->samples->threads.v[i].cpu_ns;
		known += ns == UINT64_MAX ? hot->threads[i] : ns;
	}
	uint64_t missing = f->cpu_ns - MIN(f->cpu_ns, known);
	return missing >= UNSEEN_NS_LEAST && (double)missing >= UNSEEN_SHARE * (double)f->cpu_ns ? missing : 0;
}

struct err *cpu_report(struct exam *exam, struct report *report)
{
	const struct cpu_state *c = exam->state;
	CLEANUP(sample_summary_freep) struct sample_summary *hot = sample_summary_new(c->samples, 1);
	struct cpu_view v = { .cpu = c,
			      .hot = hot,
			      .window_ns = exam->end_ns - exam->start_ns,
			      .max_rows = (size_t)params_int(exam->params, "max_stacks") };
	v.unseen_ns = unseen_ns(c, hot);
	v.cores = ratio(hot->weight + v.unseen_ns, v.window_ns);
	v.started = ratio(c->facts.started_ns, v.window_ns);
	add_verdict(exam, &v, report);
	if (hot->weight && !is_idle(&v, report_finding(report))) {
		bool callers_first = params_bool(exam->params, "caller_to_callee");
		add_figures(&v, report);
		add_methods(&v, report);
		add_flame(&v, report);
		add_threads(&v, !params_bool(exam->params, "filter_suspended_threads"), report);
		report_details(report);
		add_inclusive(&v, report);
		add_tree(&v, callers_first ? hot->down : hot->up, callers_first ? "Call tree" : "Who calls the hottest",
			 callers_first ? "With callees" : "CPU", report);
		add_tree(&v, callers_first ? hot->up : hot->down, callers_first ? "Who calls the hottest" : "Call tree",
			 callers_first ? "CPU" : "With callees", report);
		add_subsystems(&v, report);
	}
	add_artifacts(exam, &v);
	if (c->facts.by_events)
		add_how_by_events(exam, &v, report);
	else
		add_how(exam, &v, report);
	knowledge_how(&c->known, report);
	return NULL;
}
