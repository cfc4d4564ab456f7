/* What limits found: issues by weight, the first of them is the verdict. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/limits.h"
#include <math.h>
#include <stdlib.h>

/* Of a limit. */
#define NEAR 0.9
#define FAR 0.01 /* not listed */
#define VERY_NEAR 0.97
/* It is on its way there: so much is used, and so soon it is all. */
#define GROWS_FROM 0.5
#define GROWS_LEFT_S 3600.0
/* Less of it is somebody else's memory. */
#define OWN_SHARE 0.25
/* Of the periods of a CPU limit; and for how long threads stood still at least, of the window. */
#define STOPPED_SOME 0.05
#define STOPPED_MUCH 0.25
#define STOPPED_VERY_MUCH 0.5
#define STOOD_LEAST 0.02
#define PERIODS_LEAST 10

struct limits_view {
	const struct limits *l;
	struct exam *exam;
	struct report *report;
	struct limits_list list;
	struct issues issues;
};

/* ---- over the window ---- */

/* What was added to a number of a level in the window; NAN = not known. */
static double grown(const struct limits *l, const struct group_level *like, enum group_number number)
{
	uint64_t first = GROUP_NONE, last = GROUP_NONE;
	vec_each(look, &l->looks) {
		vec_each(g, &look->groups.levels) {
			if (g->kind != like->kind || g->v2 != like->v2 || !str_eq(g->path, like->path))
				continue;
			first = first == GROUP_NONE ? g->of[number] : first;
			last = g->of[number];
		}
	}
	return first == GROUP_NONE || last == GROUP_NONE || last < first ? NAN : (double)(last - first);
}

static double window_ns(const struct limits *l)
{
	return l->looks.n < 2 ? NAN : (double)(vec_last(&l->looks).at_ns - l->looks.v[0].at_ns);
}

static double cores_used(const struct limits *l)
{
	if (l->looks.n < 2)
		return NAN;
	uint64_t first = l->looks.v[0].of[LIMITS_CPU_NS], last = vec_last(&l->looks).of[LIMITS_CPU_NS];
	return first == LIMITS_NONE || last == LIMITS_NONE || last < first ? NAN
									   : (double)(last - first) / window_ns(l);
}

struct stops {
	double cores, periods, share, stood; /* share of the periods; threads that stood still, on average */
};

static struct stops stops_of(const struct limits *l, const struct group_level *g)
{
	struct stops s = { .cores = group_cpus(g), .periods = grown(l, g, GROUP_CPU_PERIODS) };
	s.share = s.periods > 0 ? grown(l, g, GROUP_CPU_STOPPED) / s.periods : s.periods;
	s.stood = grown(l, g, GROUP_CPU_STOPPED_NS) / window_ns(l);
	return s;
}

static const struct limits_look *last_look(const struct limits *l)
{
	return l->looks.n ? &vec_last(&l->looks) : NULL;
}

/* ---- issues ---- */

static void find_kills(struct limits_view *v, const struct group_level *g)
{
	double now = grown(v->l, g, GROUP_MEMORY_KILLS);
	uint64_t all = g->of[GROUP_MEMORY_KILLS];
	bool shared = str_eq(g->path, "/"); /* the whole machine's */
	struct issue *i = NULL;
	if (now > 0 && (i = issue_new(&v->issues, shared ? REPORT_WARN : REPORT_BAD, "killed", "killed"))) {
		buf_printf(&i->strong, "%s killed for lack of memory",
			   now < 2 ? "1 process was" : fmt_plural((uint64_t)now, "process", "processes were").s);
		buf_printf(&i->text, " in %s, in the control group ", fmt_duration_ns((uint64_t)window_ns(v->l)).s);
	} else if (!shared && all != GROUP_NONE && all > 0 &&
		   (i = issue_new(&v->issues, REPORT_INFO, "killed-before", "killed"))) {
		buf_printf(&i->strong, "%s killed for lack of memory",
			   all < 2 ? "1 process was" : fmt_plural(all, "process", "processes were").s);
		buf_str(&i->text, " since its control group was made, ");
	}
	if (i)
		i->where = g->path;
}

static void find_refusals(struct limits_view *v, const struct group_level *g)
{
	double now = grown(v->l, g, GROUP_PIDS_REFUSED);
	struct issue *i = now > 0 ? issue_new(&v->issues, REPORT_BAD, "refused", "refused") : NULL;
	if (!i)
		return;
	buf_printf(&i->strong, "%s to start",
		   fmt_plural((uint64_t)now, "thread or process failed", "threads or processes failed").s);
	buf_printf(&i->text, " in %s: that is the limit of the control group ",
		   fmt_duration_ns((uint64_t)window_ns(v->l)).s);
	i->where = g->path;
}

static void find_stops(struct limits_view *v, const struct group_level *g)
{
	struct stops s = stops_of(v->l, g);
	if (isinf(s.cores) || !(s.periods >= PERIODS_LEAST) || !(s.share >= STOPPED_SOME) || !(s.stood >= STOOD_LEAST))
		return;
	enum report_health health = s.share >= STOPPED_VERY_MUCH ? REPORT_BAD
				    : s.share >= STOPPED_MUCH	 ? REPORT_WARN
								 : REPORT_INFO;
	struct issue *i = issue_new(&v->issues, health, "throttled", "throttled");
	if (!i)
		return;
	buf_printf(&i->strong, "Its CPU limit of %s %s stopped it in %s of all periods", fmt_number(s.cores).s,
		   s.cores == 1 ? "core" : "cores", fmt_percent(s.share).s);
	buf_printf(
		&i->text,
		": its threads stood still for that for %s of %s, all together. It is the limit of the control group ",
		fmt_duration_ns((uint64_t)(s.stood * window_ns(v->l))).s, fmt_duration_ns((uint64_t)window_ns(v->l)).s);
	i->where = g->path;
}

static void add_amount(struct buf *out, const struct limit *l)
{
	if (l->bytes)
		buf_printf(out, "%s of %s", fmt_bytes((uint64_t)l->used).s, fmt_bytes((uint64_t)l->most).s);
	else
		buf_printf(out, "%s of %s", fmt_count((uint64_t)l->used).s, fmt_count((uint64_t)l->most).s);
}

static void say_left(struct buf *out, const struct limit *l)
{
	double left = limit_left(l);
	if (left < GROWS_LEFT_S)
		buf_printf(out, "It grows, and is used up in about %s if it goes on so.",
			   fmt_duration_ns((uint64_t)(left * 1e9)).s);
}

static bool is_of_others(const struct limit *l)
{
	return l->own_share < OWN_SHARE; /* false when not known */
}

void issue_of_limit(struct issues *issues, const struct limit *l)
{
	double used = limit_ratio(l);
	bool near = used >= NEAR, grows = used >= GROWS_FROM && limit_left(l) < GROWS_LEFT_S;
	if (!near && !grows)
		return;
	enum report_health health = l->of_machine || is_of_others(l) ? REPORT_INFO
				    : used >= VERY_NEAR		     ? REPORT_BAD
								     : REPORT_WARN;
	struct issue *i = issue_new(issues, health, near ? "near-limit" : "runs-out", l->advice);
	if (!i)
		return;
	buf_printf(&i->strong, "%s of a limit is used", fmt_percent(used).s);
	buf_printf(&i->text, ": %s, ", l->what);
	add_amount(&i->text, l);
	if (l->where)
		buf_str(&i->text, ", ");
	i->where = l->where;
	say_left(&i->more, l);
	if (is_of_others(l))
		buf_printf(&i->more, "%s%s of it is this process's.", i->more.len ? " " : "",
			   fmt_percent(l->own_share).s);
}

/* The least that its own limit and the CPUs it is allowed on leave. */
static double usable(const struct limits *l)
{
	const struct limits_look *last = last_look(l);
	const struct group_level *least = last ? groups_least(&last->groups, GROUP_CPU) : NULL;
	double cores = least ? group_cpus(least) : INFINITY;
	if (last && last->of[LIMITS_CPUS_ALLOWED] != LIMITS_NONE && last->of[LIMITS_CPUS_ALLOWED])
		cores = MIN(cores, (double)last->of[LIMITS_CPUS_ALLOWED]);
	return cores;
}

static void find_processors(struct limits_view *v)
{
	double cores = usable(v->l);
	for (size_t k = 0; k < v->l->n_settings; k++) {
		const struct limits_setting *s = &v->l->settings[k];
		uint64_t n = strtoull(s->value, NULL, 10);
		if (!str_eq(s->name, LIMITS_PROCESSOR_COUNT) || !n || n > 65536 || (double)n <= ceil(cores))
			continue;
		struct issue *i = issue_new(&v->issues, REPORT_INFO, "processors", "processors");
		if (!i)
			return;
		buf_printf(&i->strong, "Its runtime counts on %s", fmt_plural(n, "processor", "processors").s);
		buf_printf(&i->text, " because of %s, and may use %s.", s->name, fmt_number(cores).s);
	}
}

static void find_issues(struct limits_view *v)
{
	const struct limits_look *last = last_look(v->l);
	if (!last)
		return;
	vec_each(g, &last->groups.levels) {
		if (g->kind == GROUP_MEMORY)
			find_kills(v, g);
		else if (g->kind == GROUP_PIDS)
			find_refusals(v, g);
		else
			find_stops(v, g);
	}
	vec_each(l, &v->list)
		issue_of_limit(&v->issues, l);
	find_processors(v);
}

/* ---- words ---- */

static void say_all_clear(struct limits_view *v)
{
	struct rich *text = report_verdict(v->report, REPORT_OK, "nothing-found");
	if (!v->list.n) {
		rich_text(text, "No problem here: no limit that can be read is set.");
		return;
	}
	const struct limit *l = &v->list.v[0];
	CLEANUP(buf_free) struct buf amount = { 0 };
	add_amount(&amount, l);
	rich_text(text, "No problem here: the nearest limit is %s, %s of which is used (%s).", l->what,
		  fmt_percent(limit_ratio(l)).s, buf_cstr(&amount));
}

/* ---- numbers ---- */

static struct value known(double n, bool bytes)
{
	return isnan(n) || isinf(n) ? V_NONE : bytes ? V_BYTES(n) : V_COUNT(n);
}

static void add_figures(struct limits_view *v)
{
	double cores = cores_used(v->l), may = usable(v->l);
	if (v->list.n)
		report_figure(v->report, "Nearest limit", V_RATIO(limit_ratio(&v->list.v[0])), v->list.v[0].what);
	CLEANUP(mem_freep)
	char *of = isinf(may) ? NULL : mem_printf("of %s that it may use", fmt_number(may).s);
	report_figure(v->report, "CPU used", isnan(cores) ? V_NONE : V_NUMBER(cores), of);
	const struct limits_look *last = last_look(v->l);
	if (last && last->of[LIMITS_RSS] != LIMITS_NONE)
		report_figure(v->report, "Resident memory", V_BYTES(last->of[LIMITS_RSS]), NULL);
	if (last && last->of[LIMITS_TIME_WAIT] != LIMITS_NONE)
		report_figure(v->report, "Closed connections", V_COUNT(last->of[LIMITS_TIME_WAIT]),
			      "of its network, which still hold a port");
}

static void add_limits(struct limits_view *v)
{
	struct report_table *t = report_table(v->report, "Nearest to their limits");
	report_column(t, "What", VALUE_TEXT, 0);
	report_column(t, "Where", VALUE_CODE, 0);
	report_column(t, "Used", VALUE_COUNT, 0);
	report_column(t, "Of", VALUE_COUNT, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Used up in", VALUE_NS, 0);
	size_t far = 0;
	vec_each(l, &v->list) {
		double left = limit_left(l);
		if (l->of_machine && l > v->list.v && limit_ratio(l) < FAR) {
			far++;
			continue;
		}
		report_row(t,
			   (struct value[]){ V_TEXT(l->what), l->where ? V_CODE(l->where) : V_NONE,
					     known(l->used, l->bytes), known(l->most, l->bytes),
					     V_RATIO(limit_ratio(l)), left < 30 * 86400 ? V_NS(left * 1e9) : V_NONE });
	}
	CLEANUP(mem_freep) char *words = mem_printf("%zu more, below %s each", far, fmt_percent(FAR).s);
	if (far)
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_NONE, V_NONE, V_NONE, V_NONE });
}

static void add_memory(struct limits_view *v, const struct limits_look *last)
{
	static const struct {
		const char *name;
		enum group_number number;
	} columns[] = {
		{ "Used", GROUP_MEMORY_USED },	  { "Limit", GROUP_MEMORY_LIMIT },    { "Killed", GROUP_MEMORY_KILLS },
		{ "Peak", GROUP_MEMORY_PEAK },	  { "Anonymous", GROUP_MEMORY_ANON }, { "Files", GROUP_MEMORY_FILE },
		{ "Shared", GROUP_MEMORY_SHMEM }, { "Kernel", GROUP_MEMORY_KERNEL },  { "Swap", GROUP_MEMORY_SWAP },
	};
	struct report_table *t = NULL;
	vec_each(g, &last->groups.levels) {
		struct value cells[ARRAY_SIZE(columns) + 1] = { V_CODE(g->path) };
		if (g->kind != GROUP_MEMORY || g->of[GROUP_MEMORY_USED] == GROUP_NONE)
			continue;
		if (!t) {
			t = report_table(v->report, "Memory of its control groups, its own first");
			report_column(t, "Group", VALUE_CODE, 0);
			for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
				report_column(t, columns[i].name,
					      columns[i].number == GROUP_MEMORY_KILLS ? VALUE_COUNT : VALUE_BYTES, 0);
		}
		for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
			uint64_t n = g->of[columns[i].number];
			bool count = columns[i].number == GROUP_MEMORY_KILLS;
			cells[i + 1] = n == GROUP_NONE ? V_NONE : count ? V_COUNT(n) : V_BYTES(n);
		}
		report_row(t, cells);
	}
}

static void add_cpu(struct limits_view *v, const struct limits_look *last)
{
	struct report_table *t = NULL;
	vec_each(g, &last->groups.levels) {
		if (g->kind != GROUP_CPU || isinf(group_cpus(g)))
			continue;
		if (!t) {
			t = report_table(v->report, "CPU limits of its control groups, its own first");
			report_column(t, "Group", VALUE_CODE, 0);
			report_column(t, "Cores", VALUE_NUMBER, 0);
			report_column(t, "Periods", VALUE_COUNT, 0);
			report_column(t, "Stopped in", VALUE_RATIO, COLUMN_BAR);
			report_column(t, "Threads that stood still", VALUE_NUMBER, 0);
		}
		struct stops s = stops_of(v->l, g);
		report_row(t, (struct value[]){ V_CODE(g->path), V_NUMBER(s.cores), known(s.periods, false),
						isnan(s.share) ? V_NONE : V_RATIO(s.share),
						isnan(s.stood) ? V_NONE : V_NUMBER(s.stood) });
	}
}

static void add_settings(struct limits_view *v)
{
	if (!v->l->n_settings)
		return;
	struct report_table *t = report_table(v->report, "Settings of its environment");
	report_column(t, "Variable", VALUE_CODE, 0);
	report_column(t, "Value", VALUE_CODE, 0);
	for (size_t i = 0; i < v->l->n_settings; i++)
		report_row(t, (struct value[]){ V_CODE(v->l->settings[i].name), V_CODE(v->l->settings[i].value) });
}

static void add_how(struct limits_view *v)
{
	const struct limits_look *last = last_look(v->l);
	report_how(v->report, "Way", V_TEXT("proc"), "files of /proc and of its control groups were read");
	report_how(v->report, "Pause imposed", V_TEXT("none"), NULL);
	report_how(v->report, "Looks", V_COUNT(v->l->looks.n), "what costs more was read in up to three of them");
	if (!last)
		return;
	if (last->groups.hidden)
		report_how(v->report, "Hidden", V_TEXT("control groups"),
			   "some of its levels cannot be seen from here");
	if (last->of[LIMITS_FDS] == LIMITS_NONE)
		report_how(v->report, "Hidden", V_TEXT("descriptors"), "this user may not see them");
	if (last->of[LIMITS_PORTS_LIMIT] == LIMITS_NONE)
		report_how(v->report, "Not known", V_TEXT("ports"), "it is in another network than drdotnet");
	if (exam_is_young(v->exam))
		report_how(v->report, "No forecast", V_TEXT("it has just been started"),
			   "what grows now need not do so later");
}

struct err *limits_report(struct exam *exam, struct report *report)
{
	struct limits_view v = { .l = exam->state, .exam = exam, .report = report };
	const struct limits_look *last = last_look(v.l);
	limits_list_of(v.l, &v.list);
	find_issues(&v);
	if (!issues_say(&v.issues, exam->profiler, report))
		say_all_clear(&v);
	add_figures(&v);
	add_limits(&v);
	if (last) {
		add_cpu(&v, last);
		add_memory(&v, last);
	}
	report_details(report);
	add_settings(&v);
	add_how(&v);
	issues_fini(&v.issues);
	vec_free(&v.list);
	return NULL;
}
