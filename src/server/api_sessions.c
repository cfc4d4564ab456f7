/* Sessions: list, start, watch, cancel, delete, and what is in their folders. */

#include "server/internal.h"
#include "profilers/registry.h"
#include "report/compare.h"
#include "server/api.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MAX 100000
#define REPLAY_BYTES_MAX ((size_t)128 << 10)
#define LOG_BYTES_MAX ((size_t)4 << 20)

/* 8-4-4-4-12 in any case, or 32 digits; ERR_USAGE otherwise. */
struct err *api_guid(const char *text, char ret[STORE_GUID_LEN + 1])
{
	char digits[33];
	size_t n = 0;
	for (const char *p = text; *p; p++) {
		if (*p == '-' && (n == 8 || n == 12 || n == 16 || n == 20))
			continue;
		if (!isxdigit((unsigned char)*p) || n == 32) {
			n = 0;
			break;
		}
		digits[n++] = (char)tolower((unsigned char)*p);
	}
	if (n != 32)
		return err_new(ERR_USAGE, "'%s' is no guid", text);
	snprintf(ret, STORE_GUID_LEN + 1, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12, digits + 16,
		 digits + 20);
	return NULL;
}

struct err *api_row(struct request *r, const char *guid_text, struct store_row *ret)
{
	char guid[STORE_GUID_LEN + 1];
	TRY(api_guid(guid_text, guid));
	LOCK_STORE(r->server);
	struct err *err = store_get(r->server->store, guid, ret);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_new(ERR_NOT_FOUND, "No session found with guid '%s'", guid_text);
	}
	return err;
}

static struct err *finished_row(struct request *r, struct store_row *ret)
{
	TRY(api_row(r, r->params[0], ret));
	if (store_state_finished(ret->state))
		return NULL;
	struct err *err = err_new(ERR_BUSY, "session %s is still %s", ret->guid, store_state_name(ret->state));
	store_row_fini(ret);
	return err;
}

static const char *type_of(const char *name)
{
	static const struct {
		const char *ext, *type;
	} types[] = {
		{ ".json", TYPE_JSON },
		{ ".md", "text/markdown; charset=utf-8" },
		{ ".html", "text/html; charset=utf-8" },
		{ ".txt", TYPE_TEXT },
		{ ".out", TYPE_TEXT },
		{ ".svg", "image/svg+xml" },
		{ ".csv", "text/csv; charset=utf-8" },
		{ ".gz", "application/gzip" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_ends(name, types[i].ext))
			return types[i].type;
	return "application/octet-stream";
}

/* ---- lists ---- */

static bool row_matches(const struct store_row *row, const char *text)
{
	const char *fields[] = { row->process, row->profiler, row->verdict, row->error, row->guid };
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i] && str_contains_nocase(fields[i], text))
			return true;
	return false;
}

static struct err *read_filter(const struct request *r, struct store_filter *ret)
{
	const char *profiler = request_query(r, "profiler"), *state = request_query(r, "state");
	const struct profiler *found;
	uint64_t limit, id;
	TRY(request_query_u64(r, "limit", 1, LIST_MAX, 0, &limit));
	TRY(request_query_u64(r, "processId", 1, INT32_MAX, 0, &id));
	*ret = (struct store_filter){ .process = request_query(r, "process"), .target_id = (int64_t)id };
	ret->limit = request_query(r, "q") ? 0 : limit;
	if (!str_empty(profiler)) {
		TRY(profiler_find(profiler, &found));
		ret->profiler = found->id;
	}
	enum store_state one;
	if (str_eq(state, "finished"))
		ret->states = 1u << STORE_DONE | 1u << STORE_FAILED | 1u << STORE_CANCELLED;
	else if (str_eq(state, "unfinished"))
		ret->states = 1u << STORE_QUEUED | 1u << STORE_RUNNING | 1u << STORE_ANALYSING;
	else if (!str_empty(state) && !store_state_parse(state, &one))
		return err_new(ERR_USAGE,
			       "'state' takes queued, running, analysing, done, failed, cancelled, finished "
			       "or unfinished, not '%s'",
			       state);
	else if (!str_empty(state))
		ret->states = 1u << one;
	return NULL;
}

struct err *api_sessions_list(struct request *r)
{
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	struct store_filter filter;
	uint64_t limit, n = 0;
	TRY(read_filter(r, &filter));
	TRY(request_query_u64(r, "limit", 1, LIST_MAX, LIST_MAX, &limit));
	{
		LOCK_STORE(r->server);
		TRY(store_list(r->server->store, &filter, &rows));
	}
	const char *text = request_query(r, "q");
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	vec_each(row, &rows) {
		if ((!str_empty(text) && !row_matches(row, text)) || n == limit)
			continue;
		json_session(r->server, &w, row);
		n++;
	}
	jsonw_array_end(&w);
	return NULL;
}

static struct err *add_files(struct request *r, struct jsonw *w, const struct store_row *row)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, row->guid);
	json_t *record = NULL;
	/* Not there while it runs. */
	err_ignore(store_record_json(dir, &record));
	const json_t *files = json_object_get(record, "files");
	jsonw_array(w, NULL);
	for (size_t i = 0; i < json_array_size(files); i++) {
		const json_t *f = json_array_get(files, i);
		if (json_get_bool(f, "folder", false))
			continue;
		jsonw_object(w, NULL);
		jsonw_str(w, "name", json_get_str(f, "name", ""));
		jsonw_i64(w, "bytes", json_get_int(f, "bytes", 0));
		jsonw_str(w, "mediaType", type_of(json_get_str(f, "name", "")));
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	json_decref(record);
	return NULL;
}

struct err *api_session(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	if (r->shared)
		session_mask(r->server->store, &row);
	struct jsonw w = respond_json(r, 200);
	json_session(r->server, &w, &row);
	store_row_fini(&row);
	return NULL;
}

struct err *api_session_files(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	struct jsonw w = respond_json(r, 200);
	struct err *err = add_files(r, &w, &row);
	store_row_fini(&row);
	return err;
}

/* ---- start ---- */

static const json_t *member(const json_t *object, const char *name)
{
	void *o = (void *)(uintptr_t)object; /* jansson's iterator takes no const */
	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it))
		if (str_eq_nocase(json_object_iter_key(it), name))
			return json_object_iter_value(it);
	return NULL;
}

static struct err *known_members(const json_t *object, const char *where, const char *const *known)
{
	void *o = (void *)(uintptr_t)object;
	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
		const char *const *k = known;
		while (*k && !str_eq_nocase(*k, json_object_iter_key(it)))
			k++;
		if (!*k)
			return err_new(ERR_USAGE, "%s has no field '%s'", where, json_object_iter_key(it));
	}
	return NULL;
}

static char *scalar_text(const json_t *value)
{
	if (json_is_string(value))
		return mem_strdup(json_string_value(value));
	if (json_is_boolean(value))
		return mem_strdup(json_is_true(value) ? "true" : "false");
	if (json_is_integer(value))
		return mem_printf("%lld", (long long)json_integer_value(value));
	if (json_is_real(value))
		return mem_printf("%.15g", json_real_value(value));
	return NULL;
}

/* "value" is the truth; without it the field of the parameter's own type, then any. */
static struct err *parameter_value(const json_t *p, const struct param *param, char **ret)
{
	static const char *const typed[] = {
		[PARAM_INT] = "valueInt32", [PARAM_FLOAT] = "valueFloat32", [PARAM_BOOL] = "valueBoolean"
	};
	const char *order[] = { "value", param->type < ARRAY_SIZE(typed) ? typed[param->type] : NULL, "valueInt32",
				"valueFloat32", "valueBoolean" };
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const json_t *v = order[i] ? member(p, order[i]) : NULL;
		if (!v || json_is_null(v))
			continue;
		*ret = scalar_text(v);
		return *ret ? NULL
			    : err_new(ERR_USAGE, "'%s' of parameter '%s' must be a text, a number or true or false",
				      order[i], param->key);
	}
	return err_new(ERR_USAGE, "parameter '%s' has no value", param->key);
}

static struct err *set_parameter(struct scheduler_order *o, const json_t *p)
{
	static const char *const known[] = { "key",	     "name",	   "description",  "type",
					     "value",	     "valueInt32", "valueFloat32", "valueBoolean",
					     "defaultValue", "unit",	   "min",	   "max",
					     "choices",	     NULL };
	if (!json_is_object(p))
		return err_new(ERR_USAGE, "'parameters' must be an array of objects with 'key' and 'value'");
	TRY(known_members(p, "a parameter", known));
	const char *key = json_string_value(member(p, "key"));
	if (!key)
		return err_new(ERR_USAGE, "a parameter needs a 'key'");
	const struct param *param = profiler_param(o->profiler, key);
	if (!param)
		return err_new(ERR_NOT_FOUND, "No parameter found with key '%s'", key);
	CLEANUP(mem_freep) char *text = NULL;
	o->at_parameter = param->key;
	TRY(parameter_value(p, param, &text));
	TRY(params_set(o->params, param->key, text));
	o->at_parameter = NULL;
	return NULL;
}

static struct err *read_core(const json_t *core, const json_t *pid, struct scheduler_order *o)
{
	if (pid && !json_is_null(pid))
		return err_new(ERR_USAGE, "give either 'processId' or 'core'");
	if (!json_is_string(core))
		return err_new(ERR_USAGE, "'core' must be the name of a kept core file (GET /api/cores)");
	o->core = mem_strdup(json_string_value(core));
	return NULL;
}

/* Everything of the body that can be judged without looking for the process. */
struct err *api_order_read(const json_t *body, struct scheduler_order *o, int *ret_pid)
{
	static const char *const known[] = { "profilerGuid", "processId",     "core",	 "parameters",
					     "way",	     "keepRecording", "webhook", NULL };
	TRY(known_members(body, "the body", known));
	const json_t *guid = member(body, "profilerGuid"), *pid = member(body, "processId"),
		     *parameters = member(body, "parameters"), *way = member(body, "way"),
		     *keep = member(body, "keepRecording"), *core = member(body, "core");
	if (!json_is_string(guid))
		return err_new(ERR_USAGE, "'profilerGuid' must be the guid of a profiler (GET /api/profilers)");
	if (core && !json_is_null(core))
		TRY(read_core(core, pid, o));
	else if (!json_is_integer(pid) || json_integer_value(pid) < 1 || json_integer_value(pid) > INT32_MAX)
		return err_new(ERR_USAGE, "'processId' must be the id of a process (GET /api/processes)");
	if (parameters && !json_is_array(parameters) && !json_is_null(parameters))
		return err_new(ERR_USAGE, "'parameters' must be an array of objects with 'key' and 'value'");
	if (keep && !json_is_boolean(keep))
		return err_new(ERR_USAGE, "'keepRecording' must be true or false");
	const json_t *webhook = member(body, "webhook");
	if (webhook && !json_is_null(webhook)) {
		if (!json_is_string(webhook))
			return err_new(ERR_USAGE, "'webhook' must be an address that is told of the session's end");
		TRY(server_check_webhook(json_string_value(webhook)));
		o->webhook = mem_strdup(json_string_value(webhook));
	}
	struct err *err = profiler_find(json_string_value(guid), &o->profiler);
	if (err) {
		err_free(err);
		return err_new(ERR_NOT_FOUND, "No profiler found with guid '%s'", json_string_value(guid));
	}
	if (o->core && o->profiler->ways[0] != WAY_IMAGE)
		return err_new(ERR_USAGE, "%s watches a living process; it cannot look into a core file",
			       o->profiler->id);
	o->params = params_new(o->profiler);
	o->keep_recording = json_is_true(keep);
	if (way && !json_is_null(way)) {
		if (!json_is_string(way))
			return err_new(ERR_USAGE, "'way' must be one of the profiler's ways");
		TRY(way_parse(json_string_value(way), &o->way));
		TRY(profiler_check_way(o->profiler, o->way));
	}
	for (size_t i = 0; i < json_array_size(parameters); i++)
		TRY(set_parameter(o, json_array_get(parameters, i)));
	o->at_parameter = o->profiler->word;
	TRY(params_complete(o->params));
	o->at_parameter = NULL;
	*ret_pid = o->core ? 0 : (int)json_integer_value(pid);
	return NULL;
}

/* ERR_NOT_FOUND in the contract's words. */
struct err *api_find_patient(const char *id, struct patient *ret)
{
	uint64_t number;
	if (!str_to_u64(id, &number) || !number || number > INT32_MAX)
		return err_new(ERR_USAGE, "'%s' is no id of a process", id);
	struct err *err = patient_look(id, FIND_TIMEOUT_MS, ret);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_new(ERR_NOT_FOUND, "No process found with pid '%s'", id);
	}
	return err;
}

/* Only its name is known here: the worker finds out which process it was, since cores may be hostile. */
static struct err *use_core(struct request *r, struct scheduler_order *o)
{
	CLOSE_FD int fd = -1;
	char *path = NULL;
	TRY(api_core_open(r, o->core, &path, &fd));
	o->patient = (struct patient){ .answered = true, .target = { .name = o->core, .cpu_ratio = -1 } };
	o->core = path;
	return NULL;
}

struct err *api_session_start(struct request *r)
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *order = mem_zalloc(sizeof(*order));
	CLEANUP(json_decrefp) json_t *body = NULL;
	int pid = 0;
	TRY(request_json(r, &body));
	struct err *err = api_order_read(body, order, &pid);
	r->error_parameter = order->at_parameter;
	TRY(err);
	char id[16], guid[STORE_GUID_LEN + 1];
	snprintf(id, sizeof(id), "%d", pid);
	TRY(order->core ? use_core(r, order) : api_find_patient(id, &order->patient));
	CLEANUP(mem_freep) char *who = mem_printf("%s (%d)", patient_name(&order->patient), order->patient.target.id);
	const char *profiler = order->profiler->id;
	TRY(scheduler_submit(r->server->hub, STEAL(order), guid));
	log_line(r->server->log, LOG_INFO, "audit: %s starts %s on %s, session %s", r->client, profiler, who, guid);
	struct store_row row;
	TRY(api_row(r, guid, &row));
	respond_headerf(r, "Location", "/api/sessions/%s", guid);
	struct jsonw w = respond_json(r, 200);
	json_session(r->server, &w, &row);
	store_row_fini(&row);
	return NULL;
}

/* ---- cancel, delete ---- */

struct err *api_session_cancel(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	struct err *err = store_state_finished(row.state)
				  ? err_new(ERR_BUSY, "session %s is %s already", row.guid, store_state_name(row.state))
				  : scheduler_cancel(r->server->hub, row.guid);
	if (!err) {
		log_line(r->server->log, LOG_INFO, "audit: %s cancels session %s", r->client, row.guid);
		struct jsonw w = respond_json(r, 202);
		json_session(r->server, &w, &row);
	}
	store_row_fini(&row);
	return err;
}

struct err *api_session_delete(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	pthread_mutex_lock(&r->server->store_lock);
	struct err *err = session_delete(r->server->store, &row);
	pthread_mutex_unlock(&r->server->store_lock);
	if (!err) {
		CLEANUP(buf_free) struct buf text = { 0 };
		struct jsonw w = jsonw_make(&text, false);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "guid", row.guid);
		jsonw_object_end(&w);
		sse_tell(r->server->live, row.guid, "deleted", buf_cstr(&text), NULL, true);
		log_line(r->server->log, LOG_INFO, "audit: %s deletes session %s", r->client, row.guid);
		respond(r, 204, NULL);
	}
	store_row_fini(&row);
	return err;
}

/* ---- files ---- */

/* A report brings its own policy along; sandboxed it can neither reach the API nor send forms. */
#define CSP_FILE                                                                                                       \
	"sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; style-src 'unsafe-inline'; "          \
	"script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

/* A file of the session's own folder. The name was found in the listing of that folder. */
static struct err *send_file(struct request *r, const struct store_row *row, const char *name)
{
	const char *guid = row->guid;
	CLEANUP(buf_free) struct buf masked = { 0 };
	if (r->shared)
		TRY(session_masked_file(r->server->store, row, name, &masked));
	if (masked.len) {
		respond(r, 200, type_of(name));
		respond_header(r, "Content-Security-Policy", CSP_FILE);
		buf_add(&r->response.body, masked.data, masked.len);
		return NULL;
	}
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, guid);
	CLOSE_FD int folder = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLOSE_FD int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_new(ERR_NOT_FOUND, "No file '%s' found in session '%s'", name, guid);
	respond(r, 200, type_of(name));
	respond_header(r, "Content-Security-Policy", CSP_FILE);
	r->response.fd_bytes = (uint64_t)st.st_size;
	r->response.fd = fd_steal(&fd);
	return NULL;
}

static bool is_listed(const struct request *r, const char *guid, const char *name)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, guid);
	DIR *d = opendir(dir);
	bool found = false;
	for (struct dirent *e; d && (e = readdir(d));)
		found |= e->d_name[0] != '.' && e->d_type == DT_REG && str_eq(e->d_name, name) &&
			 !str_eq(name, "session.json") && !str_ends(name, ".tmp");
	if (d)
		closedir(d);
	return found;
}

struct err *api_session_file(struct request *r)
{
	struct store_row row;
	const char *name = r->params[1];
	TRY(finished_row(r, &row));
	struct err *err = is_listed(r, row.guid, name)
				  ? send_file(r, &row, name)
				  : err_new(ERR_NOT_FOUND, "No file '%s' found in session '%s'", name, row.guid);
	store_row_fini(&row);
	bool download = false;
	if (!err)
		err = request_query_bool(r, "download", &download);
	/* Names come from our own list of artifacts: letters, digits, dots, '-' and '_'. */
	if (!err && download &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(name))
		respond_headerf(r, "Content-Disposition", "attachment; filename=\"%s\"", name);
	return err;
}

/* By extension, else by what is accepted; JSON when anything is. */
static struct err *report_format(struct request *r, const char **ret_name)
{
	static const struct {
		const char *path, *type, *file;
	} formats[] = {
		{ "report.json", "application/json", "report.json" },
		{ "report.md", "text/markdown", "report.md" },
		{ "report.html", "text/html", "report.html" },
		{ "report.txt", "text/plain", "report.txt" },
	};
	const char *last = strrchr(r->path, '/') + 1;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (str_eq_nocase(last, formats[i].path) ||
		    (str_eq_nocase(last, "report") && request_accepts(r, formats[i].type))) {
			*ret_name = formats[i].file;
			return NULL;
		}
	}
	if (request_accepts_any(r, "application/json") || request_accepts_any(r, "text/html")) {
		*ret_name = request_accepts_any(r, "application/json") ? "report.json" : "report.html";
		return NULL;
	}
	r->error_status = 406;
	return err_new(ERR_USAGE, "a report is application/json, text/markdown, text/html or text/plain");
}

struct err *api_session_report(struct request *r)
{
	struct store_row row;
	const char *name = NULL;
	TRY(report_format(r, &name));
	TRY(finished_row(r, &row));
	struct err *err = send_file(r, &row, name);
	if (err) {
		err_free(err);
		err = err_new(ERR_NOT_FOUND, "No report found for session '%s'%s%s", row.guid, row.error ? ": " : "",
			      row.error ? row.error : "");
	}
	respond_header(r, "Vary", "Accept");
	store_row_fini(&row);
	return err;
}

struct err *api_session_log(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, row.guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/log.txt", dir);
	store_row_fini(&row);
	respond(r, 200, TYPE_TEXT);
	struct err *err = file_read(path, LOG_BYTES_MAX, &r->response.body);
	/* One that waits has not said anything yet. */
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = NULL;
	}
	return err;
}

static struct err *temp_file(int *ret)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && dir[0] == '/' ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(errno, "make a temporary file");
	*ret = fd;
	return NULL;
}

struct err *api_session_download(struct request *r)
{
	struct store_row row;
	CLOSE_FD int fd = -1;
	TRY(finished_row(r, &row));
	struct err *err = temp_file(&fd);
	if (!err)
		err = session_zip(r->server->store, &row, r->shared, fd);
	if (!err) {
		respond(r, 200, "application/zip");
		respond_headerf(r, "Content-Disposition", "attachment; filename=session-%s.zip", row.guid);
		off_t size = lseek(fd, 0, SEEK_END);
		r->response.fd_bytes = (uint64_t)MAX(size, (off_t)0);
		r->response.fd = fd_steal(&fd);
	}
	store_row_fini(&row);
	return err;
}

/* ---- live ---- */

static struct err *listen_to(struct request *r, const char *guid, bool vitals)
{
	r->response.stream = sse_listen(r->server->live, guid, vitals, r->shared);
	if (!r->response.stream) {
		r->error_status = 503;
		return err_new(ERR_BUSY, "too many listen already");
	}
	respond(r, 200, TYPE_EVENTS);
	respond_header(r, "Cache-Control", "no-store");
	respond_header(r, "X-Accel-Buffering", "no");
	return NULL;
}

static void greet(struct request *r, const struct store_row *row)
{
	CLEANUP(buf_free) struct buf json = { 0 }, text = { 0 };
	struct jsonw w = jsonw_make(&json, false);
	json_session(r->server, &w, row);
	sse_event(&text, "session", buf_cstr(&json));
	stream_write(r->response.stream, text.data, text.len);
}

/* The log so far. Lines have the numbers with which they were sent. */
static void replay_log(struct request *r, const char *guid)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(r->server->store, guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/log.txt", dir);
	CLEANUP(buf_free) struct buf log = { 0 };
	struct err *err = file_read(path, REPLAY_BYTES_MAX, &log);
	uint64_t number = 0;
	for (char *line = log.data, *end; !err && line && (end = strchr(line, '\n')); line = end + 1) {
		CLEANUP(buf_free) struct buf json = { 0 }, text = { 0 };
		size_t time = strcspn(line, " \n");
		struct jsonw w = jsonw_make(&json, false);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "guid", guid);
		jsonw_u64(&w, "number", ++number);
		jsonw_strn(&w, "time", line, time);
		jsonw_strn(&w, "text", line + time + (line[time] == ' '),
			   (size_t)(end - line) - time - (line[time] == ' '));
		jsonw_object_end(&w);
		sse_event(&text, "log", buf_cstr(&json));
		stream_write(r->response.stream, text.data, text.len);
	}
	err_free(err);
}

/* Subscribes first, then reads: what happens in between is sent twice rather than never. */
struct err *api_session_events(struct request *r)
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	struct err *err = listen_to(r, row.guid, false);
	store_row_fini(&row);
	TRY(err);
	TRY(api_row(r, r->params[0], &row));
	if (r->shared)
		session_mask(r->server->store, &row);
	greet(r, &row);
	replay_log(r, row.guid);
	if (store_state_finished(row.state))
		stream_end(r->response.stream, false);
	store_row_fini(&row);
	return NULL;
}

struct err *api_events(struct request *r)
{
	bool vitals = false;
	TRY(request_query_bool(r, "vitals", &vitals));
	TRY(listen_to(r, NULL, vitals));
	if (vitals)
		live_vitals_ask(r->server->vitals);
	static const char hello[] = ": hello\n\n";
	stream_write(r->response.stream, hello, sizeof(hello) - 1);
	return NULL;
}

/* ---- compare ---- */

static struct err *compare(struct request *r, const struct store_row *before, const struct store_row *after)
{
	CLEANUP(report_freep) struct report *was = NULL, *is = NULL, *changes = NULL;
	CLEANUP(buf_free) struct buf document = { 0 };
	TRY(session_report_of(r->server->store, before, &was));
	TRY(session_report_of(r->server->store, after, &is));
	TRY(report_compare(was, is, &changes));
	report_render_json(changes, &document);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "before", before->guid);
	jsonw_str(&w, "after", after->guid);
	jsonw_str(&w, "profiler", after->profiler);
	jsonw_str(&w, "verdictBefore", before->verdict);
	jsonw_str(&w, "verdictAfter", after->verdict);
	TRY(report_compare_json(was, is, &w));
	jsonw_raw(&w, "report", buf_cstr(&document));
	jsonw_object_end(&w);
	return NULL;
}

struct err *api_session_compare(struct request *r)
{
	struct store_row before, after;
	TRY(api_row(r, r->params[0], &before));
	struct err *err = api_row(r, r->params[1], &after);
	if (!err) {
		err = compare(r, &before, &after);
		store_row_fini(&after);
	}
	store_row_fini(&before);
	return err;
}
