/* Numbers of living processes: their counters, and the few of the list of patients. */

#include "server/api.h"
#include "server/watch.h"
#include "base/str.h"
#include <ctype.h>
#include <string.h>

#define WAIT_MS 4000
#define PROVIDER_BYTES_MAX 200

/* From the list that everybody shares: a page that asks every second must not ask the runtime as often. */
static struct err *known_patient(struct request *r, struct patients_view **ret_view, const struct patient **ret)
{
	uint64_t id;
	if (!str_to_u64(r->params[0], &id) || !id || id > INT32_MAX)
		return err_new(ERR_USAGE, "'%s' is no id of a process", r->params[0]);
	TRY(patients_look(r->server->patients, ret_view));
	*ret = patients_by_id(*ret_view, (int)id);
	if (*ret)
		return NULL;
	patients_done(r->server->patients, *ret_view);
	return err_new(ERR_NOT_FOUND, "No process found with pid '%s'", r->params[0]);
}

static struct err *answer(struct request *r, struct watch_query *q)
{
	struct patients_view *view = NULL;
	const struct patient *p = NULL;
	uint64_t since = 0;
	const char *word = request_query(r, "since");
	TRY(request_query_u64(r, "since", 0, INT64_MAX, 0, &since));
	q->since_ms = word ? (int64_t)since : -1;
	q->wait_ms = WAIT_MS;
	TRY(known_patient(r, &view, &p));
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	struct err *err = watches_json(r->server->watches, p, q, &w);
	jsonw_object_end(&w);
	patients_done(r->server->patients, view);
	return err;
}

/* They travel in a list of key=value;... that knows no quoting. */
static bool is_provider(const char *name)
{
	for (const char *p = name; *p; p++)
		if (strchr(",;=\\\"[]", *p) || iscntrl((unsigned char)*p))
			return false;
	return *name && strlen(name) < PROVIDER_BYTES_MAX;
}

struct err *api_counters(struct request *r)
{
	struct watch_query q = { .what = WATCH_USUAL,
				 .provider = r->n_params > 1 ? r->params[1] : request_query(r, "provider"),
				 .name = r->n_params > 2 ? r->params[2] : request_query(r, "name") };
	if (q.provider && !watches_usual(q.provider)) {
		if (!is_provider(q.provider))
			return err_new(ERR_USAGE, "'%s' is no name of an event source", q.provider);
		q.what = WATCH_PROVIDER;
	}
	return answer(r, &q);
}

struct err *api_meters(struct request *r)
{
	struct watch_query q = { .what = WATCH_METERS,
				 .provider = r->n_params > 1 ? r->params[1] : NULL,
				 .name = r->n_params > 2 ? r->params[2] : NULL };
	return answer(r, &q);
}

struct err *api_vitals(struct request *r)
{
	uint64_t since;
	TRY(request_query_u64(r, "since", 0, INT64_MAX, 0, &since));
	live_vitals_ask(r->server->vitals);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	live_vitals_json(r->server->vitals, (int64_t)since, &w);
	jsonw_object_end(&w);
	return NULL;
}
