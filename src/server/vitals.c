/* The few numbers of every process that the list of patients draws as lines: measured every two seconds while a page
 * shows them, and no longer. What was measured is kept, so that a page that is opened again has its lines, with a gap. */

#include "server/condition.h"
#include "server/internal.h"
#include "server/watch.h"
#include "base/clock.h"
#include "base/vec.h"
#include <math.h>
#include <time.h>

#define EVERY_S 2
#define POINTS 300		  /* ten minutes */
#define LINGER_NS (10 * NS_PER_S) /* pages ask every two seconds, on a busy machine later */
#define PATIENTS_MAX 200
#define STACK_BYTES ((size_t)512 << 10)

enum { CPU, RSS, HEAP, EXCEPTIONS, GC, VALUES };
static const char *const names[VALUES] = { "cpuPercent", "rssBytes", "gcHeapBytes", "exceptionsPerSecond",
					   "gcPercent" };

struct live_vitals_point {
	int64_t when_ms;
	double values[VALUES];
};

struct history {
	int id;
	uint64_t start_ticks;
	struct condition *condition;
	size_t n, first; /* a ring */
	struct live_vitals_point points[POINTS];
};

struct live_vitals {
	struct server *server;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	VEC(struct history *) list;
	pthread_t thread;
	bool running, started, stopping;
	uint64_t asked_ns;
};

struct live_vitals *live_vitals_new(struct server *server)
{
	struct live_vitals *v = mem_zalloc(sizeof(*v));
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->wake, &attr);
	pthread_condattr_destroy(&attr);
	v->server = server;
	return v;
}

static void history_free(struct history *h)
{
	condition_free(h->condition);
	mem_free(h);
}

void live_vitals_free(struct live_vitals *v)
{
	if (!v)
		return;
	pthread_mutex_lock(&v->lock);
	v->stopping = true;
	pthread_cond_broadcast(&v->wake);
	bool started = v->started;
	pthread_mutex_unlock(&v->lock);
	if (started)
		pthread_join(v->thread, NULL);
	vec_each(h, &v->list)
		history_free(*h);
	vec_free(&v->list);
	pthread_cond_destroy(&v->wake);
	pthread_mutex_destroy(&v->lock);
	mem_free(v);
}

static struct history *history_of(struct live_vitals *v, const struct patient *p)
{
	vec_each(each, &v->list)
		if ((*each)->id == p->target.id && (*each)->start_ticks == p->target.start_ticks)
			return *each;
	if (v->list.n == PATIENTS_MAX)
		return NULL;
	struct history *h = mem_zalloc(sizeof(*h));
	h->id = p->target.id;
	h->start_ticks = p->target.start_ticks;
	h->condition = condition_new(&p->target);
	vec_push(&v->list, h);
	return h;
}

static void add_point(struct history *h, const struct live_vitals_point *p)
{
	h->points[(h->first + h->n) % POINTS] = *p;
	if (h->n < POINTS)
		h->n++;
	else
		h->first = (h->first + 1) % POINTS;
}

static void forget_ended(struct live_vitals *v, const struct patients_view *view)
{
	size_t kept = 0;
	for (size_t i = 0; i < v->list.n; i++) {
		if (patients_by_id(view, v->list.v[i]->id))
			v->list.v[kept++] = v->list.v[i];
		else
			history_free(v->list.v[i]);
	}
	v->list.n = kept;
}

static void take_one(struct live_vitals *v, const struct patient *p, struct history *h, struct live_vitals_point *point)
{
	const struct target *t = &p->target;
	double signs[VITALS_N];
	watches_signs(v->server->watches, p, signs);
	condition_read(h->condition, signs);
	double values[VALUES] = { [CPU] = t->pid && t->cpu_ratio >= 0 && t->cpu_window_ns ? t->cpu_ratio * 100 : NAN,
				  [RSS] = t->pid ? (double)t->rss_bytes : NAN,
				  [HEAP] = signs[VITALS_HEAP],
				  [EXCEPTIONS] = signs[VITALS_EXCEPTIONS],
				  [GC] = signs[VITALS_GC_COUNTER] * 100 };
	for (size_t i = 0; i < VALUES; i++)
		point->values[i] = values[i];
}

static void add_values(struct jsonw *w, const struct live_vitals_point *p)
{
	jsonw_array(w, NULL);
	jsonw_i64(w, NULL, p->when_ms);
	for (size_t i = 0; i < VALUES; i++)
		jsonw_num(w, NULL, p->values[i]);
	jsonw_array_end(w);
}

static void take_all(struct live_vitals *v)
{
	struct patients_view *view;
	struct err *err = patients_look(v->server->patients, &view);
	if (err) {
		err_free(err);
		return;
	}
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, false);
	struct live_vitals_point point = { .when_ms = clock_real_ns() / NS_PER_MS };
	jsonw_array(&w, NULL);
	pthread_mutex_lock(&v->lock);
	forget_ended(v, view);
	vec_each(p, &view->list) {
		struct history *h = history_of(v, p);
		if (!h)
			break;
		take_one(v, p, h, &point);
		add_point(h, &point);
		jsonw_object(&w, NULL);
		jsonw_i64(&w, "id", h->id);
		jsonw_array(&w, "points");
		add_values(&w, &point);
		jsonw_array_end(&w);
		condition_json(h->condition, &w);
		jsonw_object_end(&w);
	}
	pthread_mutex_unlock(&v->lock);
	jsonw_array_end(&w);
	patients_done(v->server->patients, view);
	sse_tell_vitals(v->server->live, buf_cstr(&text));
}

static void *thread(void *user)
{
	struct live_vitals *v = user;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	pthread_mutex_lock(&v->lock);
	while (!v->stopping && clock_mono_ns() - v->asked_ns < LINGER_NS) {
		pthread_mutex_unlock(&v->lock);
		take_all(v);
		next.tv_sec += EVERY_S;
		pthread_mutex_lock(&v->lock);
		if (sse_vitals_listeners(v->server->live))
			v->asked_ns = clock_mono_ns();
		while (!v->stopping && !pthread_cond_timedwait(&v->wake, &v->lock, &next))
			;
	}
	v->running = false;
	/* What a condition has begun to measure would last until a page is opened again. */
	vec_each(h, &v->list)
		condition_forget((*h)->condition);
	pthread_mutex_unlock(&v->lock);
	return NULL;
}

void live_vitals_ask(struct live_vitals *v)
{
	pthread_mutex_lock(&v->lock);
	v->asked_ns = clock_mono_ns();
	if (!v->running && !v->stopping) {
		pthread_attr_t attr;
		if (v->started)
			pthread_join(v->thread, NULL);
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		v->running = v->started = pthread_create(&v->thread, &attr, thread, v) == 0;
		pthread_attr_destroy(&attr);
	}
	pthread_mutex_unlock(&v->lock);
}

void live_vitals_json(struct live_vitals *v, int64_t since_ms, struct jsonw *w)
{
	jsonw_i64(w, "now", clock_real_ns() / NS_PER_MS);
	jsonw_i64(w, "intervalMs", EVERY_S * 1000);
	jsonw_array(w, "columns");
	for (size_t i = 0; i < VALUES; i++)
		jsonw_str(w, NULL, names[i]);
	jsonw_array_end(w);
	jsonw_array(w, "processes");
	pthread_mutex_lock(&v->lock);
	vec_each(each, &v->list) {
		const struct history *h = *each;
		jsonw_object(w, NULL);
		jsonw_i64(w, "id", h->id);
		jsonw_array(w, "points");
		for (size_t i = 0; i < h->n; i++) {
			const struct live_vitals_point *p = &h->points[(h->first + i) % POINTS];
			if (p->when_ms > since_ms)
				add_values(w, p);
		}
		jsonw_array_end(w);
		condition_json(h->condition, w);
		jsonw_object_end(w);
	}
	pthread_mutex_unlock(&v->lock);
	jsonw_array_end(w);
}
