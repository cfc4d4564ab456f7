/* The objects of the REST API, in the words of the Dr-Dotnet contract and ours beside them. */

#include "server/internal.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "profilers/registry.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARAMETERS_BYTES_MAX 65536

static void json_value(struct jsonw *w, const char *text)
{
	double number = 0;
	bool flag = false, is_number = str_to_double(text, &number);
	jsonw_str(w, "value", text);
	jsonw_i64(w, "valueInt32", is_number && number >= INT32_MIN && number <= INT32_MAX ? (int64_t)number : 0);
	jsonw_num(w, "valueFloat32", is_number ? number : 0);
	jsonw_bool(w, "valueBoolean", str_to_bool(text, &flag) && flag);
}

static void json_param(struct jsonw *w, const struct param *p, const char *value)
{
	jsonw_object(w, NULL);
	param_json(w, p);
	jsonw_i64(w, "type", p->type);
	json_value(w, value ? value : p->default_value);
	jsonw_str(w, "defaultValue", p->default_value);
	jsonw_object_end(w);
}

void json_profiler(struct jsonw *w, const char *key, const struct profiler *p, const char *parameters)
{
	char guid[40];
	json_t *used = NULL;
	str_copy(guid, sizeof(guid), p->uuid);
	for (char *c = guid; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (parameters)
		err_ignore(json_parse(parameters, strlen(parameters), PARAMETERS_BYTES_MAX, &used));
	jsonw_object(w, key);
	jsonw_str(w, "guid", guid);
	profiler_json(w, p);
	jsonw_array(w, "parameters");
	for (size_t i = 0; i < p->n_params; i++)
		json_param(w, &p->params[i], json_get_str(used, p->params[i].key, NULL));
	jsonw_array_end(w);
	jsonw_object_end(w);
	json_decref(used);
}

/* One that this program does not know any more: what its session remembers. */
static void json_forgotten_profiler(struct jsonw *w, const char *key, const struct store_row *row)
{
	struct profiler p = { .id = row->profiler ? row->profiler : "",
			      .uuid = row->profiler_uuid ? row->profiler_uuid : "",
			      .name = row->profiler ? row->profiler : "",
			      .chapter = "Other",
			      .symptom = "",
			      .description = "",
			      .cost = "" };
	json_profiler(w, key, &p, NULL);
}

static void json_numbers(struct jsonw *w, const struct target *t)
{
	static const char *const keys[] = { "uptimeSeconds", "cpuPercent", "cpuWindowMs", "cpuSeconds", "rssBytes" };
	double values[] = { (double)t->uptime_ns / NS_PER_S, t->cpu_ratio * 100, (double)t->cpu_window_ns / NS_PER_MS,
			    (double)t->cpu_ns / NS_PER_S, (double)t->rss_bytes };
	bool known[] = { true, t->cpu_ratio >= 0, t->cpu_window_ns > 0, true, true };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (t->pid && known[i])
			jsonw_num(w, keys[i], values[i]);
		else
			jsonw_null(w, keys[i]);
	}
}

void json_patient(struct jsonw *w, const struct patient *p)
{
	const struct target *t = &p->target;
	CLEANUP(buf_free) struct buf command = { 0 };
	if (t->command_line)
		mask_secrets(&command, t->command_line);
	jsonw_i64(w, "id", t->id);
	jsonw_str(w, "managedAssemblyName", patient_name(p));
	jsonw_strn(w, "version", p->info.runtime_version ? p->info.runtime_version : "",
		   p->info.runtime_version ? strcspn(p->info.runtime_version, "+") : 0);
	if (t->pid)
		jsonw_i64(w, "pid", t->pid);
	else
		jsonw_null(w, "pid");
	jsonw_str(w, "name", patient_process(p));
	jsonw_str(w, "architecture", p->info.arch);
	jsonw_str(w, "os", p->info.os);
	jsonw_str(w, "user", t->user);
	jsonw_str(w, "container", t->container);
	jsonw_str(w, "pod", t->pod);
	json_numbers(w, t);
	jsonw_str(w, "commandLine", t->command_line ? buf_cstr(&command) : NULL);
	jsonw_bool(w, "answered", p->answered);
	jsonw_str(w, "remark", p->remark);
}

/* ---- sessions ---- */

/* As the contract writes it, in UTC: "2026-11-15T02:52:10" and "11/15/2026 02:52:10". */
static void json_timestamps(struct jsonw *w, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / NS_PER_S);
	struct tm tm;
	char text[40];
	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	jsonw_str(w, "timestampDate", text);
	strftime(text, sizeof(text), "%m/%d/%Y %H:%M:%S", &tm);
	jsonw_str(w, "timestamp", text);
}

static void json_times(struct jsonw *w, const struct store_row *row)
{
	static const char *const keys[] = { "created", "started", "finished" }, *const keys_ms[] = { "createdUnixMs",
												     "startedUnixMs",
												     "finishedUnixMs" };
	int64_t times_ns[] = { row->created_ns, row->started_ns, row->finished_ns };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		jsonw_str(w, keys[i], times_ns[i] ? fmt_time_iso(times_ns[i]).s : NULL);
		if (times_ns[i])
			jsonw_i64(w, keys_ms[i], times_ns[i] / NS_PER_MS);
		else
			jsonw_null(w, keys_ms[i]);
	}
}

static void json_life(struct server *server, struct jsonw *w, const struct store_row *row)
{
	double ratio = row->progress;
	char what[200] = "";
	CLEANUP(buf_free) struct buf news = { 0 };
	if (store_state_finished(row->state))
		ratio = 1;
	else if (scheduler_progress(server->hub, row->guid, &ratio, what, &news))
		ratio = MAX(ratio, row->progress);
	jsonw_str(w, "state", store_state_name(row->state));
	jsonw_num(w, "progress", ratio);
	jsonw_str(w, "progressText", what[0] ? what : NULL);
	jsonw_str(w, "news", news.len ? buf_cstr(&news) : NULL);
	json_times(w, row);
	jsonw_str(w, "health", row->health);
	jsonw_str(w, "finding", row->finding);
	jsonw_str(w, "verdict", row->verdict);
	jsonw_str(w, "partial", row->partial);
	jsonw_str(w, "error", row->error);
}

void json_session(struct server *server, struct jsonw *w, const struct store_row *row)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(server->store, row->guid);
	const struct profiler *profiler = NULL;
	if (row->profiler)
		err_ignore(profiler_find(row->profiler, &profiler));
	jsonw_object(w, NULL);
	jsonw_str(w, "guid", row->guid);
	jsonw_str(w, "uuid", row->guid);
	json_timestamps(w, row->created_ns);
	jsonw_str(w, "path", dir);
	jsonw_bool(w, "isCompleted", store_state_finished(row->state));
	jsonw_str(w, "processName", row->process);
	jsonw_i64(w, "processId", row->target_id);
	jsonw_str(w, "runtime", row->runtime);
	json_life(server, w, row);
	jsonw_raw(w, "parameters", row->parameters ? row->parameters : "{}");
	jsonw_u64(w, "bytes", row->bytes);
	jsonw_str(w, "drdotnetVersion", row->version);
	if (profiler)
		json_profiler(w, "profiler", profiler, row->parameters);
	else
		json_forgotten_profiler(w, "profiler", row);
	jsonw_object_end(w);
}
