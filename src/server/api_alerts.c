/* Alertmanager's webhook: an alert that names a profiler and a target starts a session. */

#include "server/api.h"
#include "base/str.h"
#include "profilers/registry.h"
#include <string.h>

#define ALERTS_MAX 20

/* A label, else an annotation. */
static const char *word_of(const json_t *alert, const char *name)
{
	const char *label = json_get_str(json_object_get(alert, "labels"), name, NULL);
	return label ? label : json_get_str(json_object_get(alert, "annotations"), name, NULL);
}

static struct err *begin(struct request *r, const json_t *alert, char ret_guid[STORE_GUID_LEN + 1])
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *order = mem_zalloc(sizeof(*order));
	const char *profiler = word_of(alert, "drdotnet_profiler"), *target = word_of(alert, "drdotnet_target"),
		   *duration = word_of(alert, "drdotnet_duration");
	if (!profiler || !target)
		return err_new(
			ERR_USAGE,
			"the alert has no drdotnet_profiler and drdotnet_target among its labels and annotations");
	TRY(profiler_find(profiler, &order->profiler));
	order->params = params_new(order->profiler);
	const char *key = profiler_param(order->profiler, "duration") ? "duration" : "duration_seconds";
	if (duration && profiler_param(order->profiler, key))
		TRY(params_set(order->params, key, duration));
	TRY(params_complete(order->params));
	TRY(patient_find(target, FIND_TIMEOUT_MS, &order->patient));
	CLEANUP(mem_freep) char *who = mem_printf("%s (%d)", patient_name(&order->patient), order->patient.target.id);
	TRY(scheduler_submit(r->server->hub, STEAL(order), ret_guid));
	log_line(r->server->log, LOG_INFO, "audit: an alert from %s starts %s on %s, session %s", r->client, profiler,
		 who, ret_guid);
	return NULL;
}

static void answer_one(struct request *r, struct jsonw *w, const json_t *alert)
{
	char guid[STORE_GUID_LEN + 1] = "";
	CLEANUP(err_freep) struct err *err = begin(r, alert, guid);
	CLEANUP(mem_freep) char *path = mem_printf("/sessions/%s", guid);
	if (err)
		log_line(r->server->log, LOG_WARN, "an alert from %s started nothing: %s", r->client, err_text(err));
	jsonw_object(w, NULL);
	jsonw_str(w, "alert", json_get_str(json_object_get(alert, "labels"), "alertname", NULL));
	jsonw_str(w, "session", err ? NULL : guid);
	jsonw_str(w, "path", err ? NULL : path);
	jsonw_str(w, "error", err ? err_text(err) : NULL);
	jsonw_object_end(w);
}

/* 200 also when one of them started nothing: Alertmanager would send them all again. */
struct err *api_alerts(struct request *r)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	TRY(request_json(r, &body));
	const json_t *alerts = json_object_get(body, "alerts");
	if (!json_is_array(alerts))
		return err_new(ERR_USAGE, "'alerts' must be an array, as Alertmanager sends it");
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	for (size_t i = 0; i < json_array_size(alerts) && i < ALERTS_MAX; i++) {
		const json_t *alert = json_array_get(alerts, i);
		if (str_eq(json_get_str(alert, "status", "firing"), "firing"))
			answer_one(r, &w, alert);
	}
	jsonw_array_end(&w);
	return NULL;
}
