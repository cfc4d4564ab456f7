/* The main thread's loop: starts sessions when it is their turn, reads their messages, informs subscribers. The threads
 * of requests only leave orders here. */

#include "server/internal.h"
#include "server/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#define QUEUED_MAX 100
#define NEWS_BYTES_MAX 4096
#define HEARTBEAT_MS 15000
#define STOP_GRACE_MS 10000
#define FINISH_GRACE_MS ((uint64_t)3600 * 1000)
#define TIDY_EVERY_NS (600 * NS_PER_S)

struct scheduler_entry {
	char guid[STORE_GUID_LEN + 1];
	struct scheduler *hub;
	struct scheduler_order *order;
	struct session *session; /* NULL while it waits */
	double ratio;
	char what[200];
	struct buf news; /* a line each: what is known so far */
	uint64_t lines;	 /* of its log, so far */
	bool cancel;
	VEC(struct request *) waiting; /* parked until its end */
};

struct scheduler {
	struct server *server;
	/* May be taken while the store's lock is held (sessions report while they are pumped), never the other way
	 * round. */
	pthread_mutex_t lock;
	/* In the order they came. New ones wait in `incoming`; only the main thread changes `entries` and the sessions
	 * in them, under the lock, and so reads them without. */
	VEC(struct scheduler_entry *) incoming, entries;
	size_t on_their_way; /* admitted, and not yet in `incoming` */
	int wake_fd, signal_fd;
	bool stopping;
	struct scheduler_counts counts;
	uint64_t tidied_ns, requests; /* requests: when memory was given back last */
};

void scheduler_order_free(struct scheduler_order *o)
{
	if (!o)
		return;
	params_free(o->params);
	patient_fini(&o->patient);
	mem_free(o->webhook);
	mem_free(o->core);
	mem_free(o);
}

struct scheduler *scheduler_new(struct server *server)
{
	struct scheduler *hub = mem_zalloc(sizeof(*hub));
	hub->server = server;
	pthread_mutex_init(&hub->lock, NULL);
	hub->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	hub->signal_fd = -1;
	hub->tidied_ns = clock_mono_ns();
	return hub;
}

static void entry_free(struct scheduler_entry *e)
{
	session_free(e->session);
	scheduler_order_free(e->order);
	vec_free(&e->waiting);
	buf_free(&e->news);
	mem_free(e);
}

void scheduler_free(struct scheduler *hub)
{
	if (!hub)
		return;
	vec_each(e, &hub->incoming)
		entry_free(*e);
	vec_each(e, &hub->entries)
		entry_free(*e);
	vec_free(&hub->incoming);
	vec_free(&hub->entries);
	fd_closep(&hub->wake_fd);
	fd_closep(&hub->signal_fd);
	pthread_mutex_destroy(&hub->lock);
	mem_free(hub);
}

void scheduler_wake(void *user)
{
	struct scheduler *hub = user;
	uint64_t one = 1;
	if (write(hub->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: the thread wakes up anyway */
}

/* ---- informing subscribers ---- */

/* Sends the row to all subscribers. */
static bool session_text(struct scheduler *hub, const char *guid, bool masked, struct buf *out)
{
	struct store_row row;
	struct jsonw w = jsonw_make(out, false);
	pthread_mutex_lock(&hub->server->store_lock);
	struct err *err = store_get(hub->server->store, guid, &row);
	pthread_mutex_unlock(&hub->server->store_lock);
	if (err) {
		err_free(err);
		return false;
	}
	if (masked)
		session_mask(hub->server->store, &row);
	json_session(hub->server, &w, &row);
	store_row_fini(&row);
	return true;
}

static void tell_session(struct scheduler *hub, const char *guid, const char *event, bool ends)
{
	CLEANUP(buf_free) struct buf text = { 0 }, masked = { 0 };
	/* To mask it is to read its report: only for somebody. Who comes in between reads it himself. */
	bool known = session_text(hub, guid, false, &text);
	if (known && sse_shared_listeners(hub->server->live))
		known = session_text(hub, guid, true, &masked);
	if (known)
		sse_tell(hub->server->live, guid, event, buf_cstr(&text), buf_cstr(&masked), ends);
}

static void tell_webhooks(struct scheduler *hub, const struct scheduler_entry *e)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	const char *urls[] = { e->order->webhook, hub->server->options->webhook };
	if ((!urls[0] && !urls[1]) || !session_text(hub, e->guid, false, &text))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
		if (urls[i])
			webhook_send(hub->server->webhooks, urls[i], buf_cstr(&text));
}

static void on_state(void *user, enum store_state state)
{
	struct scheduler_entry *e = user;
	/* The worker's last word comes with its end, when the row is final. */
	if (!store_state_finished(state))
		tell_session(e->hub, e->guid, "session", false);
}

static void on_progress(void *user, double ratio, const char *what)
{
	struct scheduler_entry *e = user;
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, false);
	pthread_mutex_lock(&e->hub->lock);
	e->ratio = ratio >= 0 ? MIN(ratio, 1.0) : e->ratio;
	str_copy(e->what, sizeof(e->what), what);
	pthread_mutex_unlock(&e->hub->lock);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "guid", e->guid);
	jsonw_num(&w, "progress", e->ratio);
	jsonw_str(&w, "progressText", what);
	jsonw_object_end(&w);
	sse_tell(e->hub->server->live, e->guid, "progress", buf_cstr(&text), NULL, false);
}

/* What a person wants to know before the report is there. */
static void on_news(void *user, const char *line)
{
	struct scheduler_entry *e = user;
	pthread_mutex_lock(&e->hub->lock);
	if (e->news.len + strlen(line) < NEWS_BYTES_MAX)
		buf_printf(&e->news, "%s%s", e->news.len ? "\n" : "", line);
	pthread_mutex_unlock(&e->hub->lock);
	tell_session(e->hub, e->guid, "session", false);
}

static void on_log(void *user, const char *line)
{
	struct scheduler_entry *e = user;
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "guid", e->guid);
	jsonw_u64(&w, "number", ++e->lines);
	jsonw_str(&w, "time", fmt_time_iso(clock_real_ns()).s);
	jsonw_str(&w, "text", line);
	jsonw_object_end(&w);
	sse_tell(e->hub->server->live, e->guid, "log", buf_cstr(&text), NULL, false);
}

/* ---- orders ---- */

static void spec_of(const struct scheduler_order *o, const char *guid, struct session_spec *ret)
{
	*ret = (struct session_spec){ .profiler = o->profiler,
				      .params = o->params,
				      .patient = &o->patient,
				      .way = o->way,
				      .keep_recording = o->keep_recording,
				      .core = o->core,
				      .guid = guid };
}

static struct err *admit(struct scheduler *hub)
{
	size_t queued = hub->incoming.n + hub->on_their_way;
	vec_each(e, &hub->entries)
		queued += !(*e)->session;
	if (hub->stopping)
		return err_new(ERR_CANCELLED, "the server is stopping");
	if (queued >= QUEUED_MAX)
		return err_new(ERR_BUSY, "%d sessions wait already; try again when some are done", QUEUED_MAX);
	return NULL;
}

struct err *scheduler_submit(struct scheduler *hub, struct scheduler_order *order, char ret_guid[STORE_GUID_LEN + 1])
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *owned = order;
	struct scheduler_entry *e = mem_zalloc(sizeof(*e));
	struct session_spec spec;
	spec_of(order, NULL, &spec);
	pthread_mutex_lock(&hub->lock);
	struct err *err = admit(hub);
	hub->on_their_way += !err;
	pthread_mutex_unlock(&hub->lock);
	if (err) {
		mem_free(e);
		return err;
	}
	pthread_mutex_lock(&hub->server->store_lock);
	err = session_enqueue(hub->server->store, &spec, e->guid);
	pthread_mutex_unlock(&hub->server->store_lock);
	pthread_mutex_lock(&hub->lock);
	hub->on_their_way--;
	if (err) {
		mem_free(e);
	} else {
		e->hub = hub;
		e->order = STEAL(owned);
		memcpy(ret_guid, e->guid, sizeof(e->guid));
		vec_push(&hub->incoming, e);
		hub->counts.started++;
	}
	pthread_mutex_unlock(&hub->lock);
	if (err)
		return err;
	tell_session(hub, ret_guid, "session", false);
	scheduler_wake(hub);
	return NULL;
}

static struct scheduler_entry *find(struct scheduler *hub, const char *guid)
{
	vec_each(e, &hub->incoming)
		if (str_eq((*e)->guid, guid))
			return *e;
	vec_each(e, &hub->entries)
		if (str_eq((*e)->guid, guid))
			return *e;
	return NULL;
}

struct err *scheduler_cancel(struct scheduler *hub, const char *guid)
{
	pthread_mutex_lock(&hub->lock);
	struct scheduler_entry *e = find(hub, guid);
	if (e)
		e->cancel = true;
	pthread_mutex_unlock(&hub->lock);
	if (e) {
		scheduler_wake(hub);
		return NULL;
	}
	LOCK_STORE(hub->server);
	return session_ask_to_stop(hub->server->store, guid);
}

bool scheduler_wait(struct scheduler *hub, const char *guid, struct request *r)
{
	pthread_mutex_lock(&hub->lock);
	struct scheduler_entry *e = find(hub, guid);
	if (e) {
		request_park(r);
		vec_push(&e->waiting, r);
	}
	pthread_mutex_unlock(&hub->lock);
	return e != NULL;
}

bool scheduler_progress(struct scheduler *hub, const char *guid, double *ret_ratio, char ret_what[200],
			struct buf *news)
{
	pthread_mutex_lock(&hub->lock);
	struct scheduler_entry *e = find(hub, guid);
	if (e) {
		*ret_ratio = e->ratio;
		str_copy(ret_what, sizeof(e->what), e->what);
		buf_add(news, e->news.data, e->news.len);
	}
	pthread_mutex_unlock(&hub->lock);
	return e != NULL;
}

struct scheduler_counts scheduler_counts(struct scheduler *hub)
{
	pthread_mutex_lock(&hub->lock);
	struct scheduler_counts counts = hub->counts;
	counts.running = 0;
	counts.queued = hub->incoming.n;
	vec_each(e, &hub->entries)
		*((*e)->session ? &counts.running : &counts.queued) += 1;
	pthread_mutex_unlock(&hub->lock);
	return counts;
}

/* ---- the main thread ---- */

/* The way it will take; where only the socket is seen there is neither an image nor a sample from outside. */
static enum way likely_way(const struct scheduler_order *o)
{
	const enum way *w = o->profiler->ways;
	if (o->way != WAY_AUTO)
		return o->way;
	while (!o->patient.target.pid && (*w == WAY_IMAGE || *w == WAY_SAMPLES))
		w++;
	return *w;
}

/* Only one session at a time copies the memory of a target; event sessions do not disturb each other. */
static bool is_intrusive(const struct scheduler_order *o)
{
	enum way way = likely_way(o);
	return !o->core && (way == WAY_IMAGE || way == WAY_AGENT);
}

static bool may_start(const struct scheduler *hub, const struct scheduler_entry *candidate, size_t running)
{
	if (running >= hub->server->options->max_running)
		return false;
	vec_each(p, &hub->entries) {
		const struct scheduler_entry *e = *p;
		if (e->session && is_intrusive(candidate->order) && is_intrusive(e->order) &&
		    e->order->patient.target.id == candidate->order->patient.target.id)
			return false;
	}
	return true;
}

static void count_end(struct scheduler *hub, enum store_state state)
{
	pthread_mutex_lock(&hub->lock);
	hub->counts.done += state == STORE_DONE;
	hub->counts.failed += state == STORE_FAILED;
	hub->counts.cancelled += state == STORE_CANCELLED;
	pthread_mutex_unlock(&hub->lock);
}

/* Removes it from the list and reports how it ended. */
static void retire(struct scheduler *hub, struct scheduler_entry *e, enum store_state state)
{
	pthread_mutex_lock(&hub->lock);
	size_t kept = 0;
	for (size_t i = 0; i < hub->entries.n; i++)
		if (hub->entries.v[i] != e)
			hub->entries.v[kept++] = hub->entries.v[i];
	hub->entries.n = kept;
	pthread_mutex_unlock(&hub->lock);
	count_end(hub, state);
	tell_session(hub, e->guid, "session", true);
	tell_webhooks(hub, e);
	vec_each(r, &e->waiting)
		request_unpark(*r);
	entry_free(e);
}

static void end_unstarted(struct scheduler *hub, struct scheduler_entry *e, enum store_state state, const char *reason)
{
	pthread_mutex_lock(&hub->server->store_lock);
	struct err *err = session_unqueue(hub->server->store, e->guid, state, reason);
	pthread_mutex_unlock(&hub->server->store_lock);
	if (err)
		log_line(hub->server->log, LOG_ERROR, "session %s could not be ended: %s", e->guid, err_text(err));
	err_free(err);
	retire(hub, e, state);
}

static void start(struct scheduler *hub, struct scheduler_entry *e)
{
	struct session_spec spec;
	struct session *session = NULL;
	spec_of(e->order, e->guid, &spec);
	pthread_mutex_lock(&hub->server->store_lock);
	struct err *err = session_start(hub->server->store, &spec, &session);
	pthread_mutex_unlock(&hub->server->store_lock);
	if (err) {
		log_line(hub->server->log, LOG_WARN, "session %s: %s", e->guid, err_text(err));
		end_unstarted(hub, e, STORE_FAILED, err_text(err));
		err_free(err);
		return;
	}
	pthread_mutex_lock(&hub->lock);
	e->session = session;
	pthread_mutex_unlock(&hub->lock);
}

static void finish(struct scheduler *hub, struct scheduler_entry *e)
{
	const struct store_row *row = session_row(e->session);
	enum store_state state = row->state;
	const char *aftermath = session_aftermath(e->session), *word = row->error ? row->error : row->verdict;
	log_line(hub->server->log, state == STORE_FAILED ? LOG_WARN : LOG_INFO, "session %s (%s on %s): %s%s%s",
		 e->guid, row->profiler, row->process, store_state_name(state), word ? ": " : "", word ? word : "");
	if (aftermath)
		log_line(hub->server->log, LOG_WARN, "session %s: %s after it was saved", e->guid, aftermath);
	retire(hub, e, state);
}

static void pump(struct scheduler *hub, struct scheduler_entry *e)
{
	struct session_events events = {
		.on_state = on_state, .on_progress = on_progress, .on_news = on_news, .on_log = on_log, .user = e
	};
	bool ended = false;
	pthread_mutex_lock(&hub->server->store_lock);
	struct err *err = session_pump(e->session, &events, &ended);
	pthread_mutex_unlock(&hub->server->store_lock);
	if (err) {
		log_line(hub->server->log, LOG_ERROR, "session %s: %s", e->guid, err_text(err));
		err_free(err);
		retire(hub, e, STORE_FAILED);
	} else if (ended) {
		finish(hub, e);
	}
}

/* Cancels what shall be cancelled and starts what may start. */
static void turn(struct scheduler *hub)
{
	pthread_mutex_lock(&hub->lock);
	vec_each(e, &hub->incoming)
		vec_push(&hub->entries, *e);
	vec_clear(&hub->incoming);
	pthread_mutex_unlock(&hub->lock);
	for (size_t i = 0, running = 0; i < hub->entries.n;) {
		pthread_mutex_lock(&hub->lock);
		struct scheduler_entry *e = hub->entries.v[i];
		bool cancel = e->cancel;
		e->cancel = false;
		size_t n = hub->entries.n;
		bool startable = !e->session && !cancel && may_start(hub, e, running);
		pthread_mutex_unlock(&hub->lock);
		if (cancel && e->session)
			session_cancel(e->session);
		else if (cancel)
			end_unstarted(hub, e, STORE_CANCELLED, "cancelled before its turn came");
		else if (startable)
			start(hub, e);
		if (hub->entries.n < n)
			continue; /* it is gone; the next one stands in its place */
		running += e->session != NULL;
		i++;
	}
}

static void tidy(struct scheduler *hub)
{
	struct session_retention limits;
	uint64_t now_ns = clock_mono_ns();
	if (now_ns - hub->tidied_ns < TIDY_EVERY_NS)
		return;
	hub->tidied_ns = now_ns;
	LOCK_STORE(hub->server);
	err_ignore(session_sweep(hub->server->store));
	struct err *err = session_retention_default(&limits);
	err_ignore(err ? err : session_prune(hub->server->store, &limits, false, NULL));
}

/* What many requests at a time took lies between what is still used: the library gives it back only when it is told to. */
static void give_memory_back(struct scheduler *hub)
{
	uint64_t requests = connections_requests(hub->server->connections);
	if (requests != hub->requests)
		malloc_trim(0);
	hub->requests = requests;
}

static void wait_for_news(struct scheduler *hub, struct pollfds *fds, size_t *ret_children, int timeout_ms)
{
	vec_clear(fds);
	vec_push(fds, ((struct pollfd){ .fd = hub->wake_fd, .events = POLLIN }));
	vec_push(fds, ((struct pollfd){ .fd = hub->signal_fd, .events = POLLIN }));
	vec_each(e, &hub->entries)
		if ((*e)->session)
			vec_push(fds, ((struct pollfd){ .fd = session_fd((*e)->session), .events = POLLIN }));
	*ret_children = fds->n;
	children_poll(hub->server->children, fds);
	if (poll(fds->v, fds->n, timeout_ms) < 0)
		vec_each(fd, fds)
			fd->revents = 0;
	uint64_t count;
	if (fds->v[0].revents && read(hub->wake_fd, &count, sizeof(count)) < 0)
		return;
}

static void pump_ready(struct scheduler *hub, const struct pollfds *fds, size_t children)
{
	for (size_t f = 2; f < children; f++) {
		if (!fds->v[f].revents)
			continue;
		struct scheduler_entry *ready = NULL;
		vec_each(e, &hub->entries)
			if ((*e)->session && session_fd((*e)->session) == fds->v[f].fd)
				ready = *e;
		if (ready)
			pump(hub, ready);
	}
	children_turn(hub->server->children, fds, children);
}

static int taken_signal(struct scheduler *hub)
{
	struct signalfd_siginfo info;
	return read(hub->signal_fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

/* Everything is asked to stop, or may finish where that was chosen; what does not is given up. A second signal is
 * impatience. */
static void stop_all(struct scheduler *hub)
{
	bool finish_them = hub->server->options->finish;
	struct deadline end = deadline_in_ms(finish_them ? FINISH_GRACE_MS : STOP_GRACE_MS);
	struct pollfds fds = { 0 };
	size_t children;
	pthread_mutex_lock(&hub->lock);
	hub->stopping = true;
	vec_each(e, &hub->incoming)
		(*e)->cancel = true;
	vec_each(e, &hub->entries)
		(*e)->cancel = !finish_them || !(*e)->session;
	pthread_mutex_unlock(&hub->lock);
	turn(hub);
	children_stop(hub->server->children, false);
	while (hub->entries.n || children_count(hub->server->children)) {
		wait_for_news(hub, &fds, &children, deadline_poll_ms(end));
		pump_ready(hub, &fds, children);
		if (deadline_passed(end) || taken_signal(hub)) {
			end = DEADLINE_NEVER;
			children_stop(hub->server->children, true);
			vec_each(e, &hub->entries)
				if ((*e)->session)
					session_kill((*e)->session);
		}
	}
	vec_free(&fds);
}

struct err *scheduler_run(struct scheduler *hub)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	hub->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (hub->signal_fd < 0 || hub->wake_fd < 0)
		return err_errno(errno, "listen for signals");
	struct pollfds fds = { 0 };
	size_t children;
	uint64_t beat_ns = clock_mono_ns();
	int signal = 0;
	while (!signal) {
		wait_for_news(hub, &fds, &children, HEARTBEAT_MS);
		pump_ready(hub, &fds, children);
		turn(hub);
		if (clock_mono_ns() - beat_ns >= (uint64_t)HEARTBEAT_MS * NS_PER_MS) {
			beat_ns = clock_mono_ns();
			sse_heartbeat(hub->server->live);
			connections_dismiss_idle(hub->server->connections);
			give_memory_back(hub);
			tidy(hub);
		}
		signal = taken_signal(hub);
	}
	vec_free(&fds);
	log_line(hub->server->log, LOG_INFO, "stopping (%s)", strsignal(signal));
	server_notify("STOPPING=1");
	stop_all(hub);
	return NULL;
}
