/* Processes, profilers, and the server itself. */

#include "server/api.h"
#include "profilers/registry.h"
#include "server/auth.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "version.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct err *api_processes(struct request *r)
{
	struct patients_view *view;
	TRY(patients_look(r->server->patients, &view));
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	vec_each(p, &view->list) {
		jsonw_object(&w, NULL);
		json_patient(&w, p);
		jsonw_object_end(&w);
	}
	jsonw_array_end(&w);
	patients_done(r->server->patients, view);
	return NULL;
}

static void add_ways(struct jsonw *w, const struct patient *p)
{
	struct way_check ways[WAY_COUNT] = { 0 };
	patient_check(p, FIND_TIMEOUT_MS, ways);
	jsonw_array(w, "ways");
	for (int way = WAY_AUTO + 1; way < WAY_COUNT; way++) {
		const struct way_check *c = &ways[way];
		jsonw_object(w, NULL);
		jsonw_str(w, "way", way_name((enum way)way));
		jsonw_bool(w, "open", c->open);
		jsonw_str(w, "how", c->how);
		jsonw_num(w, "pauseMs", c->pause_ns ? (double)c->pause_ns / NS_PER_MS : NAN);
		jsonw_str(w, "why", c->why);
		jsonw_str(w, "fix", c->fix);
		jsonw_object_end(w);
		way_check_fini(&ways[way]);
	}
	jsonw_array_end(w);
}

struct err *api_process(struct request *r)
{
	CLEANUP(patient_fini) struct patient p = { 0 };
	TRY(api_find_patient(r->params[0], &p));
	struct patients_view *view;
	TRY(patients_look(r->server->patients, &view));
	/* The CPU of the last second, which a single look does not know. */
	const struct patient *seen = patients_by_id(view, p.target.id);
	if (seen && seen->target.start_ticks == p.target.start_ticks) {
		p.target.cpu_ratio = seen->target.cpu_ratio;
		p.target.cpu_window_ns = seen->target.cpu_window_ns;
	}
	patients_done(r->server->patients, view);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	json_patient(&w, &p);
	add_ways(&w, &p);
	jsonw_object_end(&w);
	return NULL;
}

struct err *api_profilers(struct request *r)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	for (size_t i = 0; i < n; i++)
		json_profiler(&w, NULL, all[i], NULL);
	jsonw_array_end(&w);
	return NULL;
}

struct err *api_server(struct request *r)
{
	char host[256] = "";
	gethostname(host, sizeof(host) - 1);
	struct scheduler_counts counts = scheduler_counts(r->server->hub);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "version", DRDOTNET_VERSION);
	jsonw_str(&w, "host", host);
	jsonw_num(&w, "uptimeSeconds", (double)(clock_mono_ns() - r->server->start_ns) / NS_PER_S);
	jsonw_bool(&w, "root", geteuid() == 0);
	jsonw_str(&w, "scope", r->scope == SCOPE_FULL ? "full" : "read");
	static const char *const modes[] = { [AUTH_TOKEN] = "token", [AUTH_OFF] = "off" };
	jsonw_i64(&w, "cores", sysconf(_SC_NPROCESSORS_ONLN));
	jsonw_bool(&w, "exposed", connections_exposed(r->server->connections));
	jsonw_str(&w, "auth", modes[auth_mode(r->server->auth)]);
	jsonw_bool(&w, "restApi", r->server->options->rest_api);
	jsonw_str(&w, "warning",
		  auth_mode(r->server->auth) == AUTH_OFF ? "This server asks nobody for a token: whoever can reach it "
							   "may examine the processes of this machine."
							 : NULL);
	jsonw_u64(&w, "running", counts.running);
	jsonw_u64(&w, "queued", counts.queued);
	jsonw_object_end(&w);
	return NULL;
}

struct err *api_logs(struct request *r)
{
	uint64_t since;
	TRY(request_query_u64(r, "since", 0, UINT64_MAX, 0, &since));
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	log_json(r->server->log, since, &w);
	jsonw_array_end(&w);
	return NULL;
}

struct err *api_health(struct request *r)
{
	respond_text(r, 200, "ok\n");
	respond_header(r, "Cache-Control", "no-store");
	return NULL;
}

static uint64_t rss_bytes(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f && fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct err *api_metrics(struct request *r)
{
	struct server *s = r->server;
	struct scheduler_counts c = scheduler_counts(s->hub);
	const struct {
		const char *name, *type, *help;
		double value;
	} metrics[] = {
		{ "drdotnet_sessions_running", "gauge", "Sessions that run now.", (double)c.running },
		{ "drdotnet_sessions_queued", "gauge", "Sessions that wait for their turn.", (double)c.queued },
		{ "drdotnet_sessions_started_total", "counter", "Sessions asked for.", (double)c.started },
		{ "drdotnet_sessions_done_total", "counter", "Sessions that ended with a report.", (double)c.done },
		{ "drdotnet_sessions_failed_total", "counter", "Sessions that failed.", (double)c.failed },
		{ "drdotnet_sessions_cancelled_total", "counter", "Sessions that were cancelled.",
		  (double)c.cancelled },
		{ "drdotnet_http_requests_total", "counter", "Requests.",
		  (double)connections_requests(s->connections) },
		{ "drdotnet_http_connections", "gauge", "Open connections.",
		  (double)connections_count(s->connections) },
		{ "drdotnet_live_listeners", "gauge", "Clients that listen to live events.",
		  (double)sse_listeners(s->live) },
		{ "drdotnet_uptime_seconds", "gauge", "Since the server started.",
		  (double)(clock_mono_ns() - s->start_ns) / NS_PER_S },
		{ "process_resident_memory_bytes", "gauge", "Memory of the server itself.", (double)rss_bytes() },
	};
	respond(r, 200, "text/plain; version=0.0.4; charset=utf-8");
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		buf_printf(&r->response.body, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", metrics[i].name,
			   metrics[i].help, metrics[i].name, metrics[i].type, metrics[i].name, metrics[i].value);
	buf_printf(&r->response.body,
		   "# HELP drdotnet_build_info Which drdotnet this is.\n# TYPE drdotnet_build_info gauge\n"
		   "drdotnet_build_info{version=\"%s\"} 1\n",
		   DRDOTNET_VERSION);
	return NULL;
}
