/* Traces that are started now and stopped later; the answer to "stop" is the trace. */

#include "server/api.h"
#include "server/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACES_MAX 16
#define SECONDS_MAX 86400

struct api_trace {
	char id[STORE_GUID_LEN + 1];
	int process_id;
	char *process, *what;
	int64_t started_ns;
	struct child *child;
	bool stopping; /* a request waits for it */
};

struct traces {
	pthread_mutex_t lock;
	VEC(struct api_trace *) list;
};

struct traces *traces_new(void)
{
	struct traces *t = mem_zalloc(sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

static void trace_free(struct api_trace *t)
{
	child_unref(t->child);
	mem_free(t->process);
	mem_free(t->what);
	mem_free(t);
}

void traces_free(struct traces *t)
{
	if (!t)
		return;
	vec_each(each, &t->list)
		trace_free(*each);
	vec_free(&t->list);
	pthread_mutex_destroy(&t->lock);
	mem_free(t);
}

static void json_trace(struct jsonw *w, const struct api_trace *t)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "id", t->id);
	jsonw_i64(w, "processId", t->process_id);
	jsonw_str(w, "processName", t->process);
	jsonw_str(w, "what", t->what);
	jsonw_str(w, "started", fmt_time_iso(t->started_ns).s);
	jsonw_num(w, "seconds", (double)(clock_real_ns() - t->started_ns) / NS_PER_S);
	jsonw_bool(w, "running", !child_ended(t->child));
	jsonw_object_end(w);
}

static struct api_trace *find(struct traces *t, const char *id)
{
	vec_each(each, &t->list)
		if (str_eq((*each)->id, id))
			return *each;
	return NULL;
}

static void take_off(struct traces *t, const struct api_trace *trace)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->list.n; i++)
		if (t->list.v[i] != trace)
			t->list.v[kept++] = t->list.v[i];
	t->list.n = kept;
}

/* ---- start ---- */

static void on_ready(void *user)
{
	request_unpark(user);
}

struct trace_body {
	int pid;
	const char *profile, *providers;
	int64_t seconds;
};

static struct err *read_body(const json_t *body, struct trace_body *ret)
{
	json_t *pid = json_object_get(body, "processId"), *seconds = json_object_get(body, "maxSeconds");
	*ret = (struct trace_body){ .pid = (int)json_get_int(body, "processId", 0),
				    .profile = json_get_str(body, "profile", NULL),
				    .providers = json_get_str(body, "providers", NULL),
				    .seconds = json_get_int(body, "maxSeconds", 600) };
	if (!json_is_integer(pid) || json_integer_value(pid) < 1 || json_integer_value(pid) > INT32_MAX)
		return err_new(ERR_USAGE, "'processId' must be the id of a process (GET /api/processes)");
	if (seconds && (!json_is_integer(seconds) || ret->seconds < 1 || ret->seconds > SECONDS_MAX))
		return err_new(ERR_USAGE, "'maxSeconds' takes a whole number from 1 to %d", SECONDS_MAX);
	if (ret->profile && ret->providers)
		return err_new(ERR_USAGE, "give either 'profile' or 'providers'");
	if (!ret->profile && !ret->providers)
		ret->profile = "cpu";
	return NULL;
}

static struct err *begin(struct request *r)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	CLEANUP(patient_fini) struct patient p = { 0 };
	struct trace_body b;
	char id[16], seconds[24];
	TRY(request_body(r, &body));
	TRY(read_body(body, &b));
	snprintf(id, sizeof(id), "%d", b.pid);
	snprintf(seconds, sizeof(seconds), "%llds", (long long)b.seconds);
	TRY(api_find_patient(id, &p));
	struct child_order order = { .framed = true, .client_fd = -1, .ready = on_ready, .user = r };
	TRY(api_make_folder(r, &order.folder));
	CLEANUP(mem_freep) char *path = mem_printf("%s/trace.nettrace", order.folder);
	const char *what = b.profile ? b.profile : b.providers;
	order.argv = child_words("trace", "collect", id, "-o", path, "--duration", seconds,
				 b.profile ? "--profile" : "--providers", what, NULL);
	/* For the second round. */
	r->params[0] = arena_strdup(&r->arena, id);
	r->params[1] = arena_strdup(&r->arena, patient_name(&p));
	r->params[2] = arena_strdup(&r->arena, what);
	return api_start_child(r, &order);
}

struct err *api_trace_start(struct request *r)
{
	struct traces *all = r->server->traces;
	if (!r->round)
		return begin(r);
	if (!child_ended(r->child) && !child_said(r->child, "Collecting from")) {
		/* It printed an error first; it will end. */
		request_park(r);
		child_on_end(r->child, on_ready, r);
		return NULL;
	}
	if (child_ended(r->child)) {
		struct err *err = child_error(r->child);
		return err ? err : err_new(ERR_IO, "the trace was over at once");
	}
	struct api_trace *t = mem_zalloc(sizeof(*t));
	store_guid_new(t->id);
	t->process_id = atoi(r->params[0]);
	t->process = mem_strdup(r->params[1]);
	t->what = mem_strdup(r->params[2]);
	t->started_ns = clock_real_ns();
	t->child = STEAL(r->child);
	pthread_mutex_lock(&all->lock);
	bool full = all->list.n >= TRACES_MAX;
	if (!full) {
		vec_push(&all->list, t);
		respond_headerf(r, "Location", "/api/traces/%s", t->id);
		struct jsonw w = respond_json(r, 201);
		json_trace(&w, t);
		log_line(r->server->log, LOG_INFO, "audit: %s starts a trace (%s) of %s (%d)", r->client, t->what,
			 t->process, t->process_id);
	}
	pthread_mutex_unlock(&all->lock);
	if (!full)
		return NULL;
	child_stop(t->child, SIGTERM);
	trace_free(t);
	return err_new(ERR_BUSY, "%d traces are kept already: stop one of them first", TRACES_MAX);
}

struct err *api_traces_list(struct request *r)
{
	struct traces *all = r->server->traces;
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	pthread_mutex_lock(&all->lock);
	vec_each(each, &all->list)
		json_trace(&w, *each);
	pthread_mutex_unlock(&all->lock);
	jsonw_array_end(&w);
	return NULL;
}

/* ---- stop ---- */

/* Only the request that stops it gets it. */
static struct api_trace *claim(struct request *r, struct err **ret_err)
{
	struct traces *all = r->server->traces;
	char id[STORE_GUID_LEN + 1];
	struct err *err = api_guid(r->params[0], id);
	if (err) {
		*ret_err = err;
		return NULL;
	}
	pthread_mutex_lock(&all->lock);
	struct api_trace *t = find(all, id);
	if (!t)
		err = err_new(ERR_NOT_FOUND, "No trace found with id '%s'", r->params[0]);
	else if (t->stopping)
		err = err_new(ERR_BUSY, "trace %s is being stopped already", id);
	else
		t->stopping = true;
	pthread_mutex_unlock(&all->lock);
	*ret_err = err;
	return err ? NULL : t;
}

static void drop(struct request *r, struct api_trace *t)
{
	pthread_mutex_lock(&r->server->traces->lock);
	take_off(r->server->traces, t);
	pthread_mutex_unlock(&r->server->traces->lock);
	r->child = STEAL(t->child); /* its file lives as long as the request */
	trace_free(t);
}

struct err *api_trace_stop(struct request *r)
{
	if (r->round)
		return api_answer_file(r, r->child, "trace.nettrace", "application/octet-stream");
	struct err *err;
	struct api_trace *t = claim(r, &err);
	if (!t)
		return err;
	drop(r, t);
	request_park(r);
	child_on_end(r->child, on_ready, r);
	child_stop(r->child, SIGINT);
	return NULL;
}

struct err *api_trace_delete(struct request *r)
{
	struct err *err;
	struct api_trace *t = claim(r, &err);
	if (!t)
		return err;
	child_stop(t->child, SIGTERM);
	drop(r, t);
	respond(r, 204, NULL);
	return NULL;
}
