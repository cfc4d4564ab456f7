#include "server/watch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "counters/source.h"
#include "vitals/runtime_signs.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define OPEN_TIMEOUT_MS 5000
#define STOP_TIMEOUT_MS 3000
#define LINGER_NS (20 * NS_PER_S) /* of who asks again and again */
#define LIST_LINGER_NS                                                                                                 \
	(5 * NS_PER_S) /* of the list of patients, which is read every two seconds while somebody looks at it */
#define FULL_INTERVAL_MS 1000
#define BRIEF_INTERVAL_MS 2000
#define STACK_BYTES ((size_t)512 << 10)
#define OF_ONE_PROCESS_MAX 6
#define FIRST_WITH_WILDCARD 9

struct server_watch {
	unsigned refs; /* under the list's lock */
	struct target_id {
		int id;
		uint64_t start_ticks;
	} target;
	enum watch_what what;
	char *provider; /* of WATCH_PROVIDER */
	bool wildcard;	/* its runtime accepts all meters without their names */
	char *socket;
	int wake_fd;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t news;
	struct counters *counters; /* NULL before it is open and after its end */
	struct counters_group *groups;
	size_t n_groups;
	struct err *failure;
	bool ended, stop;
	uint64_t asked_ns, listed_ns;
};

struct watches {
	pthread_mutex_t lock;
	pthread_cond_t gone;
	VEC(struct server_watch *) list;
	size_t threads;
	bool stopping;
};

static void init_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

struct watches *watches_new(void)
{
	struct watches *w = mem_zalloc(sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
	init_cond(&w->gone);
	return w;
}

bool watches_usual(const char *provider)
{
	for (const char *const *name = counters_usual; *name; name++)
		if (str_eq_nocase(*name, provider))
			return true;
	return false;
}

/* No message for providers that are not there, unless the user named them. */
static void want_counters(struct server_watch *watch)
{
	watch->groups = mem_array(COUNTERS_USUAL_MAX, sizeof(*watch->groups));
	if (watch->what == WATCH_PROVIDER)
		watch->groups[watch->n_groups++] = (struct counters_group){ .name = watch->provider };
	if (watch->what != WATCH_RUNTIME && watch->what != WATCH_USUAL)
		return;
	for (const char *const *name = counters_usual; *name && (watch->what == WATCH_USUAL || !watch->n_groups);
	     name++)
		watch->groups[watch->n_groups++] = (struct counters_group){ .name = *name, .optional = true };
}

static struct server_watch *watch_new(const struct patient *p, const struct watch_query *q)
{
	struct server_watch *watch = mem_zalloc(sizeof(*watch));
	pthread_mutex_init(&watch->lock, NULL);
	init_cond(&watch->news);
	watch->refs = 1;
	watch->target = (struct target_id){ p->target.id, p->target.start_ticks };
	watch->what = q->what;
	watch->provider = q->what == WATCH_PROVIDER ? mem_strdup(q->provider) : NULL;
	watch->wildcard = p->info.runtime_version && atoi(p->info.runtime_version) >= FIRST_WITH_WILDCARD;
	watch->socket = mem_strdup(p->target.socket);
	watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->listed_ns = clock_mono_ns(); /* who opens it asks at once */
	want_counters(watch);
	return watch;
}

static void watch_free(struct server_watch *watch)
{
	counters_free(watch->counters);
	err_free(watch->failure);
	fd_closep(&watch->wake_fd);
	pthread_cond_destroy(&watch->news);
	pthread_mutex_destroy(&watch->lock);
	mem_free(watch->groups);
	mem_free(watch->provider);
	mem_free(watch->socket);
	mem_free(watch);
}

/* ---- the listener ---- */

static bool nobody_looks(const struct server_watch *watch)
{
	uint64_t now = clock_mono_ns();
	return now - watch->listed_ns > LIST_LINGER_NS && (!watch->asked_ns || now - watch->asked_ns > LINGER_NS);
}

static struct err *listen_until_idle(struct server_watch *watch)
{
	bool ended = false;
	uint64_t ticks = 0;
	while (!ended) {
		struct pollfd fds[COUNTERS_MAX_FDS + 1];
		size_t n = counters_fds(watch->counters, fds);
		fds[n] = (struct pollfd){ .fd = watch->wake_fd, .events = POLLIN };
		if (poll(fds, n + 1, deadline_poll_ms(counters_due(watch->counters))) < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		pthread_mutex_lock(&watch->lock);
		struct err *err = counters_pump(watch->counters, &ended);
		if (counters_ticks(watch->counters) != ticks)
			pthread_cond_broadcast(&watch->news);
		ticks = counters_ticks(watch->counters);
		bool idle = watch->stop || nobody_looks(watch);
		pthread_mutex_unlock(&watch->lock);
		TRY(err);
		if (idle)
			return NULL;
	}
	return err_new(ERR_NOT_FOUND, "the process has ended");
}

struct start {
	struct watches *watches;
	struct server_watch *watch;
};

static void release(struct watches *w, struct server_watch *watch)
{
	pthread_mutex_lock(&w->lock);
	bool last = --watch->refs == 0;
	pthread_mutex_unlock(&w->lock);
	if (last)
		watch_free(watch);
}

/* Removed from the list; requests that hold it keep it. */
static void unlist(struct watches *w, struct server_watch *watch)
{
	pthread_mutex_lock(&w->lock);
	size_t kept = 0;
	for (size_t i = 0; i < w->list.n; i++)
		if (w->list.v[i] != watch)
			w->list.v[kept++] = w->list.v[i];
	w->list.n = kept;
	pthread_mutex_unlock(&w->lock);
}

static void *thread(void *user)
{
	struct start start = *(struct start *)user;
	struct server_watch *watch = start.watch;
	mem_free(user);
	const struct counters_want want = { .counters = watch->groups,
					    .n_counters = watch->n_groups,
					    .all_meters = watch->what == WATCH_METERS,
					    .wildcard = watch->wildcard,
					    .interval_ms = watch->what == WATCH_RUNTIME ? BRIEF_INTERVAL_MS
											: FULL_INTERVAL_MS };
	struct counters *counters = NULL;
	struct err *err = counters_open(watch->socket, &want, deadline_in_ms(OPEN_TIMEOUT_MS), &counters);
	pthread_mutex_lock(&watch->lock);
	watch->counters = counters;
	pthread_mutex_unlock(&watch->lock);
	if (!err)
		err = listen_until_idle(watch);
	bool idle = !err;
	unlist(start.watches, watch);
	pthread_mutex_lock(&watch->lock);
	watch->failure = err;
	watch->ended = true; /* from here on no other thread reads the counters */
	pthread_cond_broadcast(&watch->news);
	pthread_mutex_unlock(&watch->lock);
	if (idle)
		err_ignore(counters_stop(counters, deadline_in_ms(STOP_TIMEOUT_MS), -1));
	release(start.watches, watch);
	pthread_mutex_lock(&start.watches->lock);
	start.watches->threads--;
	pthread_cond_broadcast(&start.watches->gone);
	pthread_mutex_unlock(&start.watches->lock);
	return NULL;
}

static bool start_thread(struct watches *w, struct server_watch *watch)
{
	struct start *start = mem_alloc(sizeof(*start));
	pthread_attr_t attr;
	pthread_t id;
	*start = (struct start){ w, watch };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* Signals stay with the main thread: all others inherit its mask. */
	bool started = pthread_create(&id, &attr, thread, start) == 0;
	pthread_attr_destroy(&attr);
	if (!started)
		mem_free(start);
	return started;
}

/* ---- asking ---- */

static bool serves(const struct server_watch *watch, const struct watch_query *q)
{
	if (watch->what == WATCH_USUAL && q->what == WATCH_RUNTIME)
		return true;
	return watch->what == q->what && (!watch->provider || str_eq_nocase(watch->provider, q->provider));
}

/* *ret_others: how many listen to this process for something else. */
static struct server_watch *find(struct watches *w, const struct patient *p, const struct watch_query *q,
				 size_t *ret_others)
{
	*ret_others = 0;
	vec_each(each, &w->list) {
		struct server_watch *watch = *each;
		if (watch->target.id != p->target.id || watch->target.start_ticks != p->target.start_ticks)
			continue;
		if (serves(watch, q))
			return watch;
		*ret_others += 1;
	}
	return NULL;
}

/* The caller releases it. NULL and the reason when there is none. */
static struct server_watch *acquire(struct watches *w, const struct patient *p, const struct watch_query *q,
				    struct err **ret_err)
{
	if (!p->answered || !p->target.socket) {
		*ret_err = err_new(ERR_UNSUPPORTED, "%s (%d) has no counters to listen to: %s", patient_name(p),
				   p->target.id, p->remark ? p->remark : "its runtime does not answer");
		return NULL;
	}
	struct err *err = NULL;
	pthread_mutex_lock(&w->lock);
	size_t others;
	struct server_watch *watch = find(w, p, q, &others);
	if (!watch && others >= OF_ONE_PROCESS_MAX) {
		err = err_new(ERR_BUSY,
			      "so many different counters of %s (%d) are listened to already; ask again in a minute",
			      patient_name(p), p->target.id);
	} else if (!watch && (w->stopping || w->list.n >= WATCHES_MAX)) {
		err = err_new(ERR_BUSY, "counters of %d processes are listened to already", WATCHES_MAX);
	} else if (!watch) {
		watch = watch_new(p, q);
		if (start_thread(w, watch)) {
			w->threads++;
			vec_push(&w->list, watch);
		} else {
			watch_free(watch);
			watch = NULL;
			err = err_new(ERR_IO, "no thread for another listener");
		}
	}
	if (watch)
		watch->refs++;
	pthread_mutex_unlock(&w->lock);
	*ret_err = err;
	return watch;
}

/* A rate needs two intervals; what does not come in time does not come now. */
static void wait_for_values(struct server_watch *watch, uint64_t wait_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(wait_ms / 1000);
	until.tv_nsec += (long)(wait_ms % 1000) * NS_PER_MS;
	if (until.tv_nsec >= NS_PER_S) {
		until.tv_sec++;
		until.tv_nsec -= NS_PER_S;
	}
	while (!watch->ended && (!watch->counters || !counters_ticks(watch->counters)))
		if (pthread_cond_timedwait(&watch->news, &watch->lock, &until))
			break;
}

static const char *kind_name(enum series_kind kind)
{
	static const char *const names[] = { "gauge", "rate", "histogram" };
	return names[kind];
}

static void add_columns(struct jsonw *w, const struct series *s)
{
	static const char *const names[][SERIES_COLUMNS_MAX] = {
		[SERIES_GAUGE] = { [SERIES_VALUE] = "value" },
		[SERIES_RATE] = { [SERIES_PER_SECOND] = "perSecond", [SERIES_TOTAL] = "total" },
		[SERIES_HISTOGRAM] = { [SERIES_P50] = "p50",
				       [SERIES_P95] = "p95",
				       [SERIES_P99] = "p99",
				       [SERIES_COUNT_PER_SECOND] = "perSecond",
				       [SERIES_MEAN] = "mean" },
	};
	jsonw_array(w, "columns");
	for (size_t i = 0; i < s->columns; i++)
		jsonw_str(w, NULL, names[s->kind][i]);
	jsonw_array_end(w);
}

static void add_points(struct jsonw *w, const struct series *s, int64_t since_ms)
{
	jsonw_array(w, "points");
	size_t first = since_ms < 0 ? s->n - MIN(s->n, (size_t)1) : 0;
	for (size_t i = first; i < s->n; i++) {
		double values[SERIES_COLUMNS_MAX];
		int64_t when_ms = series_point(s, i, values) / NS_PER_MS;
		if (when_ms <= since_ms)
			continue;
		jsonw_array(w, NULL);
		jsonw_i64(w, NULL, when_ms);
		for (size_t k = 0; k < s->columns; k++)
			jsonw_num(w, NULL, values[k]);
		jsonw_array_end(w);
	}
	jsonw_array_end(w);
}

static void add_series(struct jsonw *w, const struct series *s, int64_t since_ms)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "provider", s->key.provider);
	jsonw_str(w, "name", s->key.name);
	jsonw_str(w, "displayName", *s->display ? s->display : s->key.name);
	jsonw_str(w, "unit", *s->unit ? s->unit : NULL);
	jsonw_str(w, "kind", kind_name(s->kind));
	jsonw_str(w, "tags", *s->key.tags ? s->key.tags : NULL);
	jsonw_num(w, "value", s->last[0]);
	add_columns(w, s);
	add_points(w, s, since_ms);
	jsonw_object_end(w);
}

static bool is_asked(const struct series *s, const struct watch_query *q)
{
	return (!q->provider || str_eq_nocase(q->provider, s->key.provider)) &&
	       (!q->name || str_eq_nocase(q->name, s->key.name));
}

static void add_watch(struct jsonw *out, const struct server_watch *watch, const struct watch_query *q)
{
	struct counters *c = watch->counters;
	const struct series_set *set = c ? counters_series(c) : NULL;
	jsonw_i64(out, "now", clock_real_ns() / NS_PER_MS);
	jsonw_u64(out, "intervalMs", c ? counters_interval_ms(c) : FULL_INTERVAL_MS);
	jsonw_u64(out, "lostEvents", c ? counters_lost(c) : 0);
	jsonw_array(out, "notes");
	for (size_t i = 0; c && counters_note(c, i); i++)
		jsonw_str(out, NULL, counters_note(c, i));
	if (c && watch->what == WATCH_PROVIDER && !series_count(set))
		jsonw_str(out, NULL,
			  "nothing came from this provider: it may not exist in this process, or have no counters");
	jsonw_array_end(out);
	jsonw_array(out, "series");
	for (size_t i = 0; set && i < series_count(set); i++)
		if (is_asked(series_at(set, i), q))
			add_series(out, series_at(set, i), q->since_ms);
	jsonw_array_end(out);
}

/* *ret_over: it ended for want of questions just now; a new one must be asked. */
static struct err *read_watch(struct server_watch *watch, const struct watch_query *q, struct jsonw *out,
			      bool *ret_over)
{
	watch->asked_ns = clock_mono_ns();
	wait_for_values(watch, q->wait_ms);
	*ret_over = watch->ended && !watch->failure;
	if (watch->failure)
		return err_new(err_kind(watch->failure), "%s", err_text(watch->failure));
	if (!watch->ended)
		add_watch(out, watch, q);
	return NULL;
}

struct err *watches_json(struct watches *w, const struct patient *p, const struct watch_query *q, struct jsonw *out)
{
	for (bool over = true; over;) {
		struct err *err = NULL;
		struct server_watch *watch = acquire(w, p, q, &err);
		if (!watch)
			return err;
		pthread_mutex_lock(&watch->lock);
		err = read_watch(watch, q, out, &over);
		pthread_mutex_unlock(&watch->lock);
		release(w, watch);
		TRY(err);
	}
	return NULL;
}

void watches_signs(struct watches *w, const struct patient *p, double *ret)
{
	struct err *err = NULL;
	for (size_t i = 0; i < VITALS_N; i++)
		ret[i] = NAN;
	if (!p->target.socket || !counters_unasked_bearable(p->target.socket))
		return;
	struct server_watch *watch = acquire(w, p, &(struct watch_query){ .what = WATCH_RUNTIME }, &err);
	if (!watch) {
		err_free(err);
		return;
	}
	pthread_mutex_lock(&watch->lock);
	watch->listed_ns = clock_mono_ns();
	for (size_t i = 0; watch->counters && !watch->ended && i < VITALS_N; i++)
		ret[i] = runtime_signs_newest(counters_series(watch->counters), (enum vital_id)i);
	pthread_mutex_unlock(&watch->lock);
	release(w, watch);
}

void watches_free(struct watches *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	vec_each(each, &w->list) {
		uint64_t one = 1;
		pthread_mutex_lock(&(*each)->lock);
		(*each)->stop = true;
		pthread_mutex_unlock(&(*each)->lock);
		if (write((*each)->wake_fd, &one, sizeof(one)) < 0)
			continue;
	}
	while (w->threads)
		pthread_cond_wait(&w->gone, &w->lock);
	pthread_mutex_unlock(&w->lock);
	vec_free(&w->list);
	pthread_cond_destroy(&w->gone);
	pthread_mutex_destroy(&w->lock);
	mem_free(w);
}
