/* Limits: what is nearest to its end, and what of it is in the way already: CPU limits that stop threads, memory limits
 * that kill. Reads the kernel's files only. */

#include "profilers/limits.h"
#include "base/clock.h"
#include "base/str.h"
#include "exam/proc_looks.h"
#include <math.h>
#include <string.h>

#define FACT_LOOKS "limits"
#define FACT_SETTINGS "settings"
/* Less is no time for a trend, nor is a growth that is in one half of it only. */
#define TREND_LEAST_NS (8 * NS_PER_S)
#define TREND_HALF 0.25
#define TREND_BACK 0.2

/* ---- looks ---- */

static bool look(void *user, bool whole)
{
	struct limits *l = user;
	struct limits_look one;
	limits_look("/proc", &l->exam->patient->target, whole, &one);
	vec_push(&l->looks, one);
	return one.groups.levels.n || one.of[LIMITS_FDS_LIMIT] != LIMITS_NONE;
}

static void read_settings(struct limits *l)
{
	static const char *const names[] = {
		LIMITS_PROCESSOR_COUNT,
		"DOTNET_gcServer",
		"DOTNET_GCHeapCount",
		"DOTNET_GCHeapHardLimit",
		"DOTNET_GCHeapHardLimitPercent",
		"DOTNET_GCConserveMemory",
		"DOTNET_GCgen0size",
		"DOTNET_GCDynamicAdaptationMode",
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct limits_setting *s = &l->settings[l->n_settings];
		str_copy(s->name, sizeof(s->name), names[i]);
		CLEANUP(mem_freep) char *value = target_env(&l->exam->patient->target, s->name);
		if (!value)
			continue;
		str_copy(s->value, sizeof(s->value), value);
		l->n_settings++;
	}
}

/* ---- the recording ---- */

static void keep(const struct limits *l)
{
	json_t *looks = limits_looks_json(&l->looks), *settings = json_array();
	for (size_t i = 0; i < l->n_settings; i++) {
		const struct limits_setting *s = &l->settings[i];
		CLEANUP(buf_free) struct buf value = { 0 };
		utf8_add_valid(&value, s->value, strlen(s->value));
		json_array_append_new(settings, json_pack("[s, s]", s->name, buf_cstr(&value)));
	}
	recording_set_fact(l->exam->recording, FACT_LOOKS, looks);
	recording_set_fact(l->exam->recording, FACT_SETTINGS, settings);
	json_decref(looks);
	json_decref(settings);
}

static struct err *recall(struct limits *l)
{
	const json_t *settings = recording_fact(l->exam->recording, FACT_SETTINGS);
	for (size_t i = 0; i < MIN(json_array_size(settings), (size_t)LIMITS_SETTINGS_MAX); i++) {
		const json_t *pair = json_array_get(settings, i);
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));
		struct limits_setting *s = &l->settings[l->n_settings];
		if (!name || !value)
			continue;
		str_copy(s->name, sizeof(s->name), name);
		str_copy(s->value, sizeof(s->value), value);
		l->n_settings++;
	}
	return limits_looks_from_json(recording_fact(l->exam->recording, FACT_LOOKS), &l->looks);
}

static struct err *run(struct exam *exam)
{
	struct limits *l = exam->state = mem_zalloc(sizeof(*l));
	struct proc_looks looks = { .look = look, .user = l, .doing = "reading limits" };
	l->exam = exam;
	if (exam->replay)
		TRY(recall(l));
	else
		read_settings(l);
	TRY(exam_proc_looks(exam, &looks, exam_duration_ms(exam)));
	if (!exam->replay && exam->recording)
		keep(l);
	return NULL;
}

/* ---- what can be used up ---- */

double limits_trend(const uint64_t *at_ns, const double *values, size_t n)
{
	if (n < 3 || at_ns[n - 1] < at_ns[0] + TREND_LEAST_NS)
		return NAN;
	size_t middle = 1;
	uint64_t half_ns = at_ns[0] + (at_ns[n - 1] - at_ns[0]) / 2;
	while (middle + 2 < n && at_ns[middle] < half_ns)
		middle++;
	double grown = values[n - 1] - values[0], first = values[middle] - values[0], back = 0;
	for (size_t i = 1; i < n; i++)
		back += MAX(values[i - 1] - values[i], 0.0);
	if (grown <= 0 || MIN(first, grown - first) < grown * TREND_HALF || back > grown * TREND_BACK)
		return NAN;
	return grown / ((double)(at_ns[n - 1] - at_ns[0]) / 1e9);
}

/* A number of the level of that kind and path in a look. */
static const struct group_level *level_in(const struct limits_look *look, const struct group_level *like)
{
	vec_each(g, &look->groups.levels) {
		if (g->kind == like->kind && g->v2 == like->v2 && str_eq(g->path, like->path))
			return g;
	}
	return NULL;
}

static double used_of_level(const struct group_level *g)
{
	uint64_t n = !g ? GROUP_NONE : g->kind == GROUP_MEMORY ? group_memory(g) : g->of[GROUP_PIDS_USED];
	return n == GROUP_NONE ? NAN : (double)n;
}

/* of a level, or with NULL a number of the process. */
static double trend_of(const struct limits *l, const struct group_level *level, enum limits_number number)
{
	uint64_t at_ns[LIMITS_LOOKS_MAX];
	double values[LIMITS_LOOKS_MAX];
	size_t n = 0;
	vec_each(look, &l->looks) {
		double v = level			     ? used_of_level(level_in(look, level))
			   : look->of[number] == LIMITS_NONE ? NAN
							     : (double)look->of[number];
		if (isnan(v))
			continue;
		at_ns[n] = look->at_ns;
		values[n++] = v;
	}
	return exam_is_young(l->exam) ? NAN : limits_trend(at_ns, values, n);
}

static void add_levels(const struct limits *l, const struct limits_look *last, struct limits_list *ret)
{
	vec_each(g, &last->groups.levels) {
		bool memory = g->kind == GROUP_MEMORY;
		uint64_t most = g->of[memory ? GROUP_MEMORY_LIMIT : GROUP_PIDS_LIMIT], rss = last->of[LIMITS_RSS];
		double used = used_of_level(g);
		if (g->kind == GROUP_CPU || most == GROUP_NONE || !most || isnan(used))
			continue;
		if (memory && g->of[GROUP_MEMORY_HIGH] < most)
			most = MAX(g->of[GROUP_MEMORY_HIGH], (uint64_t)1);
		vec_push(ret, ((struct limit){
				      .what = memory ? "memory of its control group"
						     : "threads and processes of its control group",
				      .where = g->path,
				      .bytes = memory,
				      .used = used,
				      .most = (double)most,
				      .own_share = memory && rss != LIMITS_NONE && used > 0 ? (double)rss / used : NAN,
				      .slope = trend_of(l, g, 0),
				      .advice = memory ? "near-memory" : "near-threads" }));
	}
}

/* The last look that has both: some are taken three times only. */
static const struct limits_look *last_with(const struct limits *l, enum limits_number used, enum limits_number most)
{
	for (size_t i = l->looks.n; i; i--) {
		const struct limits_look *look = &l->looks.v[i - 1];
		if (look->of[used] != LIMITS_NONE && look->of[most] != LIMITS_NONE && look->of[most])
			return look;
	}
	return NULL;
}

static int nearest_first(const void *a, const void *b)
{
	double x = limit_ratio(a), y = limit_ratio(b);
	return CMP(y, x);
}

void limits_list_of(const struct limits *l, struct limits_list *ret)
{
	static const struct {
		enum limits_number used, most;
		struct limit limit;
	} own[] = {
		{ LIMITS_FDS, LIMITS_FDS_LIMIT, { .what = "descriptors it may open", .advice = "near-descriptors" } },
		{ LIMITS_USER_THREADS,
		  LIMITS_USER_THREADS_LIMIT,
		  { .what = "threads of its user", .advice = "near-threads" } },
		{ LIMITS_MAPS, LIMITS_MAPS_LIMIT, { .what = "memory mappings", .advice = "near-mappings" } },
		{ LIMITS_INOTIFY,
		  LIMITS_INOTIFY_LIMIT,
		  { .what = "inotify watchers of its user", .advice = "near-watchers" } },
		{ LIMITS_PORTS, LIMITS_PORTS_LIMIT, { .what = "ports towards one address", .advice = "near-ports" } },
		{ LIMITS_FILES, LIMITS_FILES_LIMIT, { .what = "open files of the machine", .of_machine = true } },
		{ LIMITS_THREADS, LIMITS_THREADS_LIMIT, { .what = "threads of the machine", .of_machine = true } },
		{ LIMITS_RAM,
		  LIMITS_RAM_LIMIT,
		  { .what = "memory of the machine", .bytes = true, .of_machine = true } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		const struct limits_look *look = last_with(l, own[i].used, own[i].most);
		struct limit limit = own[i].limit;
		if (!look)
			continue;
		limit.used = (double)look->of[own[i].used];
		limit.most = (double)look->of[own[i].most];
		limit.own_share = NAN;
		limit.slope = trend_of(l, NULL, own[i].used);
		if (own[i].used == LIMITS_PORTS && *look->ports_to)
			limit.where = look->ports_to;
		vec_push(ret, limit);
	}
	if (l->looks.n)
		add_levels(l, &vec_last(&l->looks), ret);
	vec_sort(ret, nearest_first);
}

double limit_ratio(const struct limit *l)
{
	return l->used / l->most;
}

double limit_left(const struct limit *l)
{
	return isnan(l->slope) ? INFINITY : MAX(l->most - l->used, 0.0) / l->slope;
}

static void free_state(void *state)
{
	struct limits *l = state;
	limits_looks_free(&l->looks);
	mem_free(l);
}

const struct profiler profiler_limits = {
	.id = "limits",
	.uuid = "6E3B7C52-8D14-4F0A-9C61-2A57E0B4D913",
	.name = "Limits",
	.chapter = CHAPTER_LIMITS,
	.label = "It is killed or throttled",
	.symptom = "it was OOM-killed, it is throttled, or something runs out",
	.description =
		"Reads every limit that the kernel keeps for the process, at every level of its control groups (v1 and "
		"v2): memory, CPU, threads, descriptors, file watchers, ports, mappings. Says which is the nearest to "
		"its end and, where its use grows steadily, when it gets there; how often the CPU limit stopped all "
		"threads; who was killed for lack of memory.",
	.cost = "no stop; reads the kernel's files once a second",
	.params = (const struct param[]){ PARAM_DURATION("10") },
	.n_params = 1,
	.ways = { WAY_PROC },
	.advice =
		(const struct advice[]){
			{ "killed",
			  "Give the group more memory, or find what holds it: heap-stats says what the memory is, "
			  "memory-leaks what grows." },
			{ "refused", "Raise the limit of threads (pids.max, --pids-limit), or find who makes them: "
				     "merged-call-stacks shows what all threads do." },
			{ "near-memory",
			  "Give the group more memory, or find what holds it: heap-stats says what the memory "
			  "is, memory-leaks what grows." },
			{ "near-descriptors", "Find what is opened and not disposed; until then raise the limit "
					      "(LimitNOFILE, ulimit -n, --ulimit nofile)." },
			{ "near-threads",
			  "Find who makes threads: merged-call-stacks shows what all of them do; or raise the "
			  "limit (pids.max, --pids-limit, ulimit -u)." },
			{ "near-mappings",
			  "Raise vm.max_map_count, or find what maps so much: heap-stats shows the memory by "
			  "kind." },
			{ "near-watchers", "Load settings without reloadOnChange where nothing changes, or raise "
					   "fs.inotify.max_user_instances." },
			{ "near-ports",
			  "Share one HttpClient, or take it from IHttpClientFactory: each new connection keeps "
			  "its port for a minute after its end." },
			{ "throttled",
			  "Raise the CPU limit or take it away, or do less work: cpu-hotpaths shows on what the CPU "
			  "goes." },
			{ "processors",
			  "Set DOTNET_PROCESSOR_COUNT to what the CPU limit allows, or take the variable away." },
		},
	.n_advice = 10,
	.runs = (const struct advice_run[]){ { "killed", "heap-stats" },
					     { "refused", "merged-call-stacks" },
					     { "near-memory", "heap-stats" },
					     { "near-threads", "merged-call-stacks" },
					     { "throttled", "cpu-hotpaths" },
					     { 0 } },
	.run = run,
	.analyse = limits_report,
	.free_state = free_state,
};
