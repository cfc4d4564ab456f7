#include "requests/spans.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <string.h>

#define REQUESTS_MAX 20000   /* open at once */
#define ACTIVITIES_MAX 60000 /* the same, with their calls */
#define THREADS_MAX 20000
#define LABELS_MAX 4000
#define SPANS_MAX 4096	   /* of one request */
#define SPANS_TOTAL 400000 /* of all that are open: 16 MB */
#define PAUSES_MAX 4096
#define NONE UINT32_MAX

/* Begun and not ended. */
struct request_activity {
	uint64_t key, parent_key; /* of its own path, and of the one that its begin named as related (0 = none) */
	uint64_t from_ns;
	uint32_t request;
	uint32_t same, next; /* older ones: with the same key, of the same request; NONE */
	uint32_t label;
	enum span_what what;
	bool used;
};

struct open_request {
	uint64_t serial; /* no other has the same; 0 = not used */
	uint64_t from_ns;
	char *method, *path;
	VEC(struct request_span) spans;
	uint32_t calls; /* the newest of its activities; NONE */
	bool failed, truncated;
};

/* To which request a thread belongs. */
struct span_thread {
	uint64_t serial; /* 0 = none */
	uint64_t tid;
	uint32_t request;
	uint32_t span; /* its last one there, to be made longer; NONE */
	uint64_t since_ns;
	/* Where it waits for a lock, and in a wait handle: a wait for a lock may be both. */
	struct span_wait {
		uint64_t serial, since_ns; /* serial 0 = it does not */
		uint32_t request;
	} waits[2];
};

struct pause {
	uint64_t from_ns, to_ns;
};

struct request_spans {
	enum activity_form form;
	void (*seen)(void *user, const struct request_seen *request);
	void (*ran)(void *user, struct request_spans *s, uint64_t thread, uint64_t from_ns, uint64_t to_ns);
	uint32_t telling; /* the request of which it is asked; NONE */
	void *user;
	uint32_t pid; /* as the ids have it */
	bool pid_known;
	VEC(struct request_activity) activities;
	VEC(uint32_t) free_activities, free_requests;
	struct map_u64 by_key; /* -> the newest activity with that key, + 1; 0 = none */
	size_t n_activities;
	VEC(struct open_request) requests;
	size_t n_spans;
	uint64_t serial;
	VEC(struct span_thread) threads;
	struct map_u64 by_thread;
	VEC(struct pause) pauses;
	uint64_t suspended_ns;
	struct strtab labels;
	struct request_spans_counts counts;
};

struct request_spans *request_spans_new(enum activity_form form,
					void (*seen)(void *user, const struct request_seen *request), void *user)
{
	struct request_spans *s = mem_zalloc(sizeof(*s));
	s->form = form;
	s->seen = seen;
	s->user = user;
	s->telling = NONE;
	return s;
}

void request_spans_free(struct request_spans *s)
{
	if (!s)
		return;
	vec_each(r, &s->requests) {
		mem_free(r->method);
		mem_free(r->path);
		vec_free(&r->spans);
	}
	vec_free(&s->requests);
	vec_free(&s->activities);
	vec_free(&s->free_activities);
	vec_free(&s->free_requests);
	vec_free(&s->threads);
	vec_free(&s->pauses);
	map_u64_free(&s->by_key);
	map_u64_free(&s->by_thread);
	strtab_free(&s->labels);
	mem_free(s);
}

const struct request_spans_counts *request_spans_counts(const struct request_spans *s)
{
	return &s->counts;
}

static uint32_t label_of(struct request_spans *s, const char *text)
{
	size_t len = text ? strnlen(text, SPANS_TEXT_MAX) : 0;
	uint32_t known = len ? strtab_find(&s->labels, text, len) : STRTAB_NONE;
	if (known != STRTAB_NONE || !len || s->labels.n >= LABELS_MAX)
		return known;
	return strtab_add(&s->labels, text, len);
}

const char *request_spans_label(const struct request_spans *s, uint32_t label)
{
	return label == SPAN_NO_LABEL ? "" : strtab_get(&s->labels, label);
}

/* ---- ids ---- */

/* Ids of one process have one process id; the first request tells which. */
static bool path_of(const struct request_spans *s, const uint8_t *id, struct activity_path *ret)
{
	return id && (!s->pid_known || activity_path_pid(id) == s->pid) && activity_path_decode(id, s->form, ret);
}

static struct request_activity *activity_by_key(const struct request_spans *s, uint64_t key)
{
	const uint64_t *index = map_u64_get(&s->by_key, key);
	return index && *index ? &s->activities.v[*index - 1] : NULL;
}

/* The innermost open activity at or above that place. */
static struct request_activity *activity_around(const struct request_spans *s, const uint8_t *id)
{
	struct activity_path path;
	if (!path_of(s, id, &path))
		return NULL;
	for (size_t n = path.n; n > 0; n--) {
		struct request_activity *a = activity_by_key(s, activity_path_key(&path, n));
		if (a)
			return a;
	}
	return NULL;
}

static uint32_t request_around(const struct request_spans *s, const uint8_t *id)
{
	const struct request_activity *a = activity_around(s, id);
	return a ? a->request : NONE;
}

/* ---- activities ---- */

/* Keys cannot be taken out of the map: it is made anew when most of them are of the past. */
static void sweep_keys(struct request_spans *s)
{
	if (s->by_key.n < 1024 || s->by_key.n < s->n_activities * 4)
		return;
	map_u64_clear(&s->by_key);
	vec_each(a, &s->activities)
		a->same = NONE;
	for (uint32_t i = 0; i < s->activities.n; i++) {
		struct request_activity *a = &s->activities.v[i];
		if (!a->used)
			continue;
		uint64_t *newest = map_u64_put(&s->by_key, a->key, NULL);
		a->same = *newest ? (uint32_t)*newest - 1 : NONE;
		*newest = i + 1;
	}
}

static struct request_activity *activity_begin(struct request_spans *s, uint64_t key)
{
	if (s->n_activities >= ACTIVITIES_MAX) {
		s->counts.not_kept++;
		return NULL;
	}
	sweep_keys(s);
	uint32_t index;
	if (s->free_activities.n) {
		index = vec_last(&s->free_activities);
		s->free_activities.n--;
	} else {
		index = (uint32_t)s->activities.n;
		vec_add(&s->activities);
	}
	uint64_t *newest = map_u64_put(&s->by_key, key, NULL);
	struct request_activity *a = &s->activities.v[index];
	*a = (struct request_activity){ .key = key,
					.same = *newest ? (uint32_t)*newest - 1 : NONE,
					.next = NONE,
					.label = SPAN_NO_LABEL,
					.used = true };
	*newest = index + 1;
	s->n_activities++;
	return a;
}

/* Takes it out of the chain of those with the same key; its request's list is the caller's. */
static void activity_end(struct request_spans *s, struct request_activity *a)
{
	uint32_t index = (uint32_t)(a - s->activities.v);
	uint64_t *newest = map_u64_get(&s->by_key, a->key);
	if (newest && *newest == index + 1) {
		*newest = a->same == NONE ? 0 : a->same + 1;
	} else if (newest && *newest) {
		struct request_activity *before = &s->activities.v[*newest - 1];
		while (before->same != NONE && before->same != index)
			before = &s->activities.v[before->same];
		before->same = a->same;
	}
	a->used = false;
	vec_push(&s->free_activities, index);
	s->n_activities--;
}

static void leave_request(struct request_spans *s, const struct request_activity *a)
{
	uint32_t index = (uint32_t)(a - s->activities.v), *link = &s->requests.v[a->request].calls;
	while (*link != NONE && *link != index)
		link = &s->activities.v[*link].next;
	if (*link == index)
		*link = a->next;
}

/* ---- spans of a request ---- */

static uint32_t add_span(struct request_spans *s, uint32_t request, struct request_span span)
{
	struct open_request *r = &s->requests.v[request];
	if (span.to_ns <= span.from_ns)
		return NONE;
	if (r->spans.n >= SPANS_MAX || s->n_spans >= SPANS_TOTAL) {
		r->truncated = true;
		return NONE;
	}
	vec_push(&r->spans, span);
	s->n_spans++;
	return (uint32_t)r->spans.n - 1;
}

static enum request_part part_of(enum span_what what)
{
	static const enum request_part parts[] = {
		[SPAN_REQUEST] = PART_UNEXPLAINED,
		[SPAN_SQL] = PART_SQL,
		[SPAN_HTTP] = PART_HTTP,
		[SPAN_BODY] = PART_HTTP_BODY,
		[SPAN_DNS] = PART_DNS,
		[SPAN_CONNECT] = PART_CONNECT,
		[SPAN_TLS] = PART_TLS,
		[SPAN_LOCK] = PART_LOCK,
		[SPAN_WAIT] = PART_WAIT,
	};
	return parts[what];
}

static void end_call(struct request_spans *s, struct request_activity *a, uint64_t now_ns, bool failed, bool open)
{
	add_span(s, a->request,
		 (struct request_span){ .from_ns = a->from_ns,
					.to_ns = now_ns,
					.label = a->label,
					.part = (uint8_t)part_of(a->what),
					.failed = failed,
					.open = open });
	leave_request(s, a);
	activity_end(s, a);
}

/* ---- threads ---- */

static struct span_thread *thread_of(struct request_spans *s, uint64_t tid)
{
	const uint64_t *index = map_u64_get(&s->by_thread, tid);
	if (index)
		return &s->threads.v[*index];
	if (s->threads.n >= THREADS_MAX)
		return NULL;
	*map_u64_put(&s->by_thread, tid, NULL) = s->threads.n;
	vec_push(&s->threads, ((struct span_thread){ .tid = tid, .span = NONE }));
	return &vec_last(&s->threads);
}

static bool still_open(const struct request_spans *s, uint32_t request, uint64_t serial)
{
	return serial && s->requests.v[request].serial == serial;
}

/* The thread was its request's until now. */
static void thread_until(struct request_spans *s, struct span_thread *t, uint64_t now_ns)
{
	if (!still_open(s, t->request, t->serial))
		return;
	struct open_request *r = &s->requests.v[t->request];
	if (t->span != NONE)
		r->spans.v[t->span].to_ns = MAX(r->spans.v[t->span].to_ns, now_ns);
	else
		t->span = add_span(s, t->request,
				   (struct request_span){ .from_ns = t->since_ns,
							  .to_ns = now_ns,
							  .label = SPAN_NO_LABEL,
							  .part = PART_THREAD,
							  .thread = t->tid });
	t->since_ns = now_ns;
}

static void thread_leaves(struct span_thread *t)
{
	t->serial = 0;
	t->span = NONE;
}

/* An event of that request (NONE: of none) on that thread. */
static void thread_has(struct request_spans *s, struct span_thread *t, uint32_t request, uint64_t now_ns)
{
	uint64_t serial = request == NONE ? 0 : s->requests.v[request].serial;
	if (serial && serial == t->serial) {
		thread_until(s, t, now_ns);
		return;
	}
	t->serial = serial;
	t->request = request;
	t->span = NONE;
	t->since_ns = now_ns;
}

static void on_wait(struct request_spans *s, const struct span_event *e, struct span_thread *t, uint32_t request)
{
	struct span_wait *wait = &t->waits[e->what == SPAN_WAIT];
	if (e->news == SPAN_BEGIN) {
		*wait = (struct span_wait){ .serial = request == NONE ? 0 : s->requests.v[request].serial,
					    .since_ns = e->time_ns,
					    .request = request };
	} else if (still_open(s, wait->request, wait->serial)) {
		add_span(s, wait->request,
			 (struct request_span){ .from_ns = wait->since_ns,
						.to_ns = e->time_ns,
						.label = SPAN_NO_LABEL,
						.part = (uint8_t)part_of(e->what) });
		wait->serial = 0;
	}
}

/* ---- requests ---- */

static void request_begins(struct request_spans *s, const struct span_event *e)
{
	struct activity_path path;
	if (!path_of(s, e->id, &path)) {
		s->counts.without_id++;
		return;
	}
	if (!s->pid_known) {
		s->pid = activity_path_pid(e->id);
		s->pid_known = true;
	}
	if (s->requests.n - s->free_requests.n >= REQUESTS_MAX) {
		s->counts.not_kept++;
		return;
	}
	struct request_activity *a = activity_begin(s, activity_path_key(&path, path.n));
	if (!a)
		return;
	if (s->free_requests.n) {
		a->request = vec_last(&s->free_requests);
		s->free_requests.n--;
	} else {
		a->request = (uint32_t)s->requests.n;
		vec_push(&s->requests, ((struct open_request){ 0 }));
	}
	a->what = SPAN_REQUEST;
	s->requests.v[a->request] = (struct open_request){
		.serial = ++s->serial,
		.from_ns = e->time_ns,
		.method = mem_strndup(e->method ? e->method : "", SPANS_TEXT_MAX),
		.path = mem_strndup(e->label ? e->label : "", SPANS_TEXT_MAX),
		.calls = (uint32_t)(a - s->activities.v),
	};
}

/* Collections stop threads, and so only a request that has one: what it awaits goes on. */
static void add_pauses(struct request_spans *s, uint32_t request)
{
	struct open_request *r = &s->requests.v[request];
	size_t n = r->spans.n;
	for (size_t i = 0; i < n; i++) {
		struct request_span thread = r->spans.v[i];
		if (thread.part != PART_THREAD)
			continue;
		for (size_t p = s->pauses.n; p > 0 && s->pauses.v[p - 1].to_ns > thread.from_ns; p--)
			add_span(s, request,
				 (struct request_span){ .from_ns = MAX(s->pauses.v[p - 1].from_ns, thread.from_ns),
							.to_ns = MIN(s->pauses.v[p - 1].to_ns, thread.to_ns),
							.label = SPAN_NO_LABEL,
							.part = PART_GC });
	}
}

void request_spans_tell(struct request_spans *s, void (*ran)(void *user, struct request_spans *s, uint64_t thread,
							     uint64_t from_ns, uint64_t to_ns))
{
	s->ran = ran;
}

void request_spans_ran(struct request_spans *s, enum request_part part, uint64_t from_ns, uint64_t to_ns)
{
	if (s->telling != NONE && (part == PART_CPU || part == PART_READY))
		add_span(s, s->telling,
			 (struct request_span){
				 .from_ns = from_ns, .to_ns = to_ns, .label = SPAN_NO_LABEL, .part = (uint8_t)part });
}

static void ask_what_ran(struct request_spans *s, uint32_t request)
{
	size_t n = s->requests.v[request].spans.n;
	s->telling = request;
	for (size_t i = 0; s->ran && i < n; i++) {
		struct request_span span = s->requests.v[request].spans.v[i];
		if (span.part == PART_THREAD)
			s->ran(s->user, s, span.thread, span.from_ns, span.to_ns);
	}
	s->telling = NONE;
}

static void request_forget(struct request_spans *s, uint32_t request)
{
	struct open_request *r = &s->requests.v[request];
	while (r->calls != NONE) {
		struct request_activity *a = &s->activities.v[r->calls];
		r->calls = a->next;
		activity_end(s, a);
	}
	s->n_spans -= r->spans.n;
	vec_free(&r->spans);
	mem_free(r->method);
	mem_free(r->path);
	*r = (struct open_request){ 0 };
	vec_push(&s->free_requests, request);
}

/* Tells of it; what of it is open is cut there. */
static void request_told(struct request_spans *s, uint32_t request, uint64_t now_ns, bool open)
{
	struct open_request *r = &s->requests.v[request];
	for (uint32_t next, i = r->calls; i != NONE; i = next) {
		struct request_activity *a = &s->activities.v[i];
		next = a->next;
		if (a->what != SPAN_REQUEST)
			end_call(s, a, now_ns, false, true);
	}
	add_pauses(s, request);
	ask_what_ran(s, request);
	struct request_seen seen = { .method = r->method,
				     .path = r->path,
				     .from_ns = r->from_ns,
				     .to_ns = MAX(now_ns, r->from_ns),
				     .spans = r->spans.v,
				     .n_spans = r->spans.n,
				     .failed = r->failed,
				     .truncated = r->truncated,
				     .open = open };
	request_split(seen.spans, seen.n_spans, seen.from_ns, seen.to_ns, seen.parts_ns);
	s->counts.requests += !open;
	s->seen(s->user, &seen);
	request_forget(s, request);
}

/* ---- events ---- */

/* The activity that such an end is of; NULL = its begin was not seen. */
static struct request_activity *ended_by(const struct request_spans *s, const struct span_event *e)
{
	struct activity_path path;
	if (!path_of(s, e->id, &path))
		return NULL;
	uint64_t key = activity_path_key(&path, path.n);
	struct request_activity *a = activity_by_key(s, key);
	while (a && a->what != e->what)
		a = a->same == NONE ? NULL : &s->activities.v[a->same];
	uint32_t request = a || e->what == SPAN_REQUEST ? NONE : request_around(s, e->id);
	if (request == NONE)
		return a;
	for (uint32_t i = s->requests.v[request].calls; i != NONE; i = s->activities.v[i].next) {
		if (s->activities.v[i].what == e->what && s->activities.v[i].parent_key == key)
			return &s->activities.v[i];
	}
	return NULL;
}

static void count_stray(struct request_spans *s, const struct span_event *e)
{
	struct activity_path path;
	if (e->what != SPAN_SQL && e->what != SPAN_HTTP)
		return;
	bool below = !e->related && path_of(s, e->id, &path) && path.n > 2;
	*(below ? &s->counts.left_behind : &s->counts.outside) += 1;
}

static uint32_t call_begins(struct request_spans *s, const struct span_event *e)
{
	struct activity_path path, related;
	uint32_t request = request_around(s, e->related);
	if (request == NONE)
		request = request_around(s, e->id);
	if (request == NONE || !path_of(s, e->id, &path)) {
		count_stray(s, e);
		return request;
	}
	struct request_activity *a = activity_begin(s, activity_path_key(&path, path.n));
	if (!a)
		return request;
	a->what = e->what;
	a->from_ns = e->time_ns;
	a->request = request;
	a->label = label_of(s, e->label);
	a->parent_key = path_of(s, e->related, &related) ? activity_path_key(&related, related.n) : 0;
	a->next = s->requests.v[request].calls;
	s->requests.v[request].calls = (uint32_t)(a - s->activities.v);
	return request;
}

static uint32_t call_ends(struct request_spans *s, const struct span_event *e)
{
	struct request_activity *a = ended_by(s, e);
	uint32_t request = a ? a->request : request_around(s, e->id);
	if (a)
		end_call(s, a, e->time_ns, e->failed, false);
	else if (request != NONE)
		s->counts.unpaired++;
	return request;
}

static void on_request(struct request_spans *s, const struct span_event *e, struct span_thread *t)
{
	if (e->news == SPAN_BEGIN) {
		request_begins(s, e);
		if (t)
			thread_has(s, t, request_around(s, e->id), e->time_ns);
		return;
	}
	const struct request_activity *a = ended_by(s, e);
	uint32_t request = a ? a->request : NONE;
	if (t)
		thread_has(s, t, request, e->time_ns);
	if (t)
		thread_leaves(t);
	if (request != NONE)
		request_told(s, request, e->time_ns, false);
	else
		s->counts.ended_only++;
}

static void on_pause(struct request_spans *s, const struct span_event *e)
{
	if (e->news == SPAN_SUSPENDED) {
		s->suspended_ns = e->time_ns;
		return;
	}
	if (!s->suspended_ns || e->time_ns <= s->suspended_ns)
		return;
	if (s->pauses.n >= PAUSES_MAX) { /* the older half */
		s->pauses.n /= 2;
		memmove(s->pauses.v, s->pauses.v + PAUSES_MAX - s->pauses.n, s->pauses.n * sizeof(*s->pauses.v));
	}
	vec_push(&s->pauses, ((struct pause){ s->suspended_ns, e->time_ns }));
	s->suspended_ns = 0;
}

void request_spans_add(struct request_spans *s, const struct span_event *e)
{
	if (e->news == SPAN_SUSPENDED || e->news == SPAN_RESUMED) {
		on_pause(s, e);
		return;
	}
	struct span_thread *t = thread_of(s, e->thread);
	if (e->news == SPAN_IDLE) {
		if (t) {
			thread_until(s, t, e->time_ns);
			thread_leaves(t);
		}
		return;
	}
	bool pair = e->news == SPAN_BEGIN || e->news == SPAN_END;
	if (pair && e->what == SPAN_REQUEST) {
		on_request(s, e, t);
		return;
	}
	bool waits = e->what == SPAN_LOCK || e->what == SPAN_WAIT;
	uint32_t request = !pair || waits	   ? request_around(s, e->id)
			   : e->news == SPAN_BEGIN ? call_begins(s, e)
						   : call_ends(s, e);
	if (t)
		thread_has(s, t, request, e->time_ns);
	if (t && pair && waits)
		on_wait(s, e, t, request);
	if (request == NONE)
		return;
	if (e->news == SPAN_REQUEST_FAILED)
		s->requests.v[request].failed = true;
	if (e->news == SPAN_LEFT_QUEUE)
		add_span(s, request,
			 (struct request_span){ .from_ns = e->time_ns - MIN(e->queued_ns, e->time_ns),
						.to_ns = e->time_ns,
						.label = SPAN_NO_LABEL,
						.part = PART_HTTP_QUEUE });
}

void request_spans_pause(struct request_spans *s)
{
	for (uint32_t i = 0; i < s->requests.n; i++) {
		s->counts.cut += s->requests.v[i].serial != 0;
		if (s->requests.v[i].serial)
			request_forget(s, i);
	}
	vec_clear(&s->threads);
	map_u64_clear(&s->by_thread);
	s->suspended_ns = 0;
}

void request_spans_end(struct request_spans *s, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->requests.n; i++) {
		if (s->requests.v[i].serial)
			request_told(s, i, now_ns, true);
	}
}
