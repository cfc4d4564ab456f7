/* Open files: descriptors, files, connections and watchers by kind, and what of them grows. Reads names in /proc only. */

#include "profilers/open_files.h"

#define FACT_LOOKS "open-files"
#define FACT_LIMITS "limits"
#define WHOLE_LOOKS_MAX 3

static bool look(void *user, bool whole)
{
	struct open_files *o = user;
	const struct target *t = &o->limits.exam->patient->target;
	struct limits_look limits;
	struct open_look open;
	limits_look("/proc", t, whole, &limits);
	vec_push(&o->limits.looks, limits);
	if (!whole)
		return true;
	bool seen = open_look("/proc", t->pid, &open);
	vec_push(&o->looks, open);
	return seen;
}

static void keep(const struct open_files *o)
{
	struct recording *r = o->limits.exam->recording;
	json_t *limits = limits_looks_json(&o->limits.looks), *looks = json_array();
	vec_each(l, &o->looks)
		json_array_append_new(looks, open_look_json(l));
	recording_set_fact(r, FACT_LIMITS, limits);
	recording_set_fact(r, FACT_LOOKS, looks);
	json_decref(limits);
	json_decref(looks);
}

static struct err *recall(struct open_files *o)
{
	const struct recording *r = o->limits.exam->recording;
	const json_t *looks = recording_fact(r, FACT_LOOKS);
	if (!json_is_array(looks))
		return err_new(ERR_BAD_DATA, "the recording has no list of open files");
	for (size_t i = 0; i < MIN(json_array_size(looks), (size_t)WHOLE_LOOKS_MAX); i++) {
		struct open_look one = { 0 };
		TRY(open_look_from_json(json_array_get(looks, i), &one));
		vec_push(&o->looks, one);
	}
	return limits_looks_from_json(recording_fact(r, FACT_LIMITS), &o->limits.looks);
}

static struct err *run(struct exam *exam)
{
	struct open_files *o = exam->state = mem_zalloc(sizeof(*o));
	struct proc_looks looks = { .look = look, .user = o, .doing = "reading what is open" };
	o->limits.exam = exam;
	if (exam->replay)
		TRY(recall(o));
	TRY(exam_proc_looks(exam, &looks, exam_duration_ms(exam)));
	if (!exam->replay && exam->recording)
		keep(o);
	return NULL;
}

static void free_state(void *state)
{
	struct open_files *o = state;
	limits_looks_free(&o->limits.looks);
	vec_each(l, &o->looks)
		open_look_fini(l);
	vec_free(&o->looks);
	mem_free(o);
}

const struct profiler profiler_open_files = {
	.id = "open-files",
	.uuid = "C0A4D5B7-1F62-4E83-8B0D-95D3A6F27E18",
	.name = "Open files",
	.chapter = CHAPTER_LIMITS,
	.label = "Too many open files",
	.symptom = "too many open files; sockets run out, connections pile up, the inotify limit is reached",
	.description =
		"Lists what the process has open: descriptors by kind against their limit, files by folder, connections "
		"by state and peer in its own network, watchers of files. Says what of it grows over the window, which "
		"connections the other side has closed and the process has not, which wait to be accepted, and how many "
		"ports are left towards one address.",
	.cost = "no stop; reads names in /proc three times",
	.params = (const struct param[]){ PARAM_DURATION("10") },
	.n_params = 1,
	.ways = { WAY_PROC },
	.advice =
		(const struct advice[]){
			{ "near-descriptors", "Find what is opened and not disposed; until then raise the limit "
					      "(LimitNOFILE, ulimit -n, --ulimit nofile)." },
			{ "near-watchers", "Load settings without reloadOnChange where nothing changes, or raise "
					   "fs.inotify.max_user_instances." },
			{ "near-ports", "Share one HttpClient, or take it from IHttpClientFactory: each new connection "
					"keeps its port for a minute after its end." },
			{ "not-closed", "Dispose responses and connections on every path, also after an exception." },
			{ "not-accepted",
			  "Find what keeps the process from accepting: thread-pool says whether its pool is "
			  "blocked, off-cpu what its threads wait for." },
			{ "files-grow", "Dispose what opens these files (using): heap-stats counts FileStream and "
					"SafeFileHandle, memory-leaks says who holds them." },
			{ "connections-grow",
			  "Share one client (HttpClient, a pool) instead of making one for each request, "
			  "and dispose connections." },
			{ "watchers-grow", "Dispose watchers, and load settings once: each FileSystemWatcher and each "
					   "reloadOnChange takes an inotify instance." },
			{ "descriptors-grow",
			  "Find what is opened and not disposed: heap-stats counts handles by type." },
			{ "many-files", "Are they meant to be open all together? memory-leaks says who holds them." },
			{ "connections-made-anew",
			  "Share one client (HttpClient, a pool) instead of connecting for each "
			  "request." },
		},
	.n_advice = 11,
	.runs = (const struct advice_run[]){ { "not-accepted", "thread-pool" },
					     { "files-grow", "memory-leaks" },
					     { "descriptors-grow", "heap-stats" },
					     { "many-files", "memory-leaks" },
					     { 0 } },
	.run = run,
	.analyse = open_files_report,
	.free_state = free_state,
};
