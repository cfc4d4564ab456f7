#pragma once
/* What the parts of the server share. */

#include "ipc/patient.h"
#include "exam/profiler.h"
#include "server/request.h"
#include "server/route.h"
#include "server/server.h"
#include "session/session.h"
#include <pthread.h>

struct server {
	const struct server_options *options;
	struct store *store;
	char *home;
	pthread_mutex_t store_lock; /* a store is for one thread at a time */
	struct scheduler *hub;
	struct jobs *jobs;
	struct sse *live;
	struct patients *patients;
	struct watches *watches;
	struct live_vitals *vitals;
	struct children *children;
	struct traces *traces;
	struct auth *auth;
	struct webhooks *webhooks;
	struct log *log;
	struct connections *connections;
	char *work_dir; /* for temporary files of commands: in the home, since they are large and secret */
	int work_lock;
	uint64_t start_ns;
};

static inline void server_unlock_store(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}
/* Until the end of the block. */
#define LOCK_STORE(server)                                                                                             \
	CLEANUP(server_unlock_store) pthread_mutex_t *store_lock_ = &(server)->store_lock;                             \
	pthread_mutex_lock(store_lock_)

/* server.c: notifies systemd, where it asks for that. */
void server_notify(const char *text);
/* The address of the pages, with the token where one is needed. The caller frees. */
char *server_link(const struct server *s);

/* log.c: the server's log, written to standard error and kept for the UI. Any thread. */
enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };
struct log *log_new(bool to_stderr, bool json);
/* From now on lines are also written to that file. When it has a few MB, it is renamed to PATH.1 and begun anew. */
struct err *log_open_file(struct log *log, const char *path) MUST_USE;
void log_free(struct log *log);
void log_line(struct log *log, enum log_level level, const char *fmt, ...) PRINTF(3, 4);
/* Writes the last lines as JSON objects into the array that is open. */
void log_json(struct log *log, uint64_t since, struct jsonw *w);

/* jobs.c: threads for handlers that may wait. */
struct jobs *jobs_new(void (*work)(struct request *r));
void jobs_free(struct jobs *jobs); /* waits for all of them */
/* false when there are too many already. */
bool jobs_add(struct jobs *jobs, struct request *r);

/* sse.c: server-sent events. Any thread. */
struct sse *sse_new(void);
void sse_free(struct sse *l);
/* A stream of the events of one session, or of all (NULL). NULL when there are too many subscribers. The caller owns.
 */
struct stream *sse_listen(struct sse *l, const char *guid, bool vitals, bool shared);
/* json: one line; shared: what those get who came by a share link, NULL = the same, "" = nothing. ends: subscribers of that session
 * alone get nothing more. */
void sse_tell(struct sse *l, const char *guid, const char *event, const char *json, const char *shared, bool ends);
void sse_heartbeat(struct sse *l); /* to be called now and then: a closed connection is noticed only by a write */
size_t sse_listeners(struct sse *l);
/* Only to subscribers that asked for them. */
void sse_tell_vitals(struct sse *l, const char *json);
bool sse_vitals_listeners(struct sse *l);
bool sse_shared_listeners(struct sse *l);
/* One event as it goes over the wire. */
void sse_event(struct buf *out, const char *event, const char *json);

/* patients.c: the list of processes. One pass over /proc serves all requests within a second, and targets are asked no more
 * often than that. */
struct patients_view { /* read only */
	unsigned refs;
	uint64_t when_ns;
	struct patient_list list;
};
struct patients *patients_new(void);
void patients_free(struct patients *p);
struct err *patients_look(struct patients *p, struct patients_view **ret) MUST_USE;
void patients_done(struct patients *p, struct patients_view *view);
const struct patient *patients_by_id(const struct patients_view *view, int id); /* NULL */

/* vitals.c */
struct live_vitals *live_vitals_new(struct server *server);
void live_vitals_free(struct live_vitals *v);
void live_vitals_ask(struct live_vitals *v); /* a page shows them: measure from now on */
void live_vitals_json(struct live_vitals *v, int64_t since_ms, struct jsonw *w);

/* webhook.c */
struct webhooks *webhooks_new(struct server *server);
void webhooks_free(struct webhooks *w); /* waits for requests that are being sent */
void webhook_send(struct webhooks *w, const char *url, const char *json);

/* api_traces.c */
struct traces *traces_new(void);
void traces_free(struct traces *t);

/* scheduler.c: the sessions that run or wait for their turn, and the loop of the main thread. */
struct scheduler_order { /* owned by the scheduler once submitted */
	const struct profiler *profiler;
	struct params *params;
	struct patient patient;
	enum way way;
	bool keep_recording;
	char *webhook;		  /* the address that is told of its end; NULL = none */
	char *core;		  /* a core file instead of a process: its name, then its path; NULL = none */
	const char *at_parameter; /* the key of the one that is wrong, while it is read */
};
void scheduler_order_free(struct scheduler_order *o);
DEFINE_CLEANUP(scheduler_order_free, struct scheduler_order *)
struct scheduler *scheduler_new(struct server *server);
void scheduler_free(struct scheduler *hub);
/* Makes the session and queues it. Takes the order, also when it fails. */
struct err *scheduler_submit(struct scheduler *hub, struct scheduler_order *order, char ret_guid[STORE_GUID_LEN + 1])
	MUST_USE;
/* Any session of this home that is not finished, whichever process started it. */
struct err *scheduler_cancel(struct scheduler *hub, const char *guid) MUST_USE;
/* What is known beyond the row; false when the session is not ours. what: "" when nothing is said. */
bool scheduler_progress(struct scheduler *hub, const char *guid, double *ret_ratio, char ret_what[200],
			struct buf *news);
/* Parks the request until the session has ended; false when it has already. */
bool scheduler_wait(struct scheduler *hub, const char *guid, struct request *r);
void scheduler_wake(void *hub);
struct scheduler_counts {
	size_t running, queued;
	uint64_t started, done, failed, cancelled;
};
struct scheduler_counts scheduler_counts(struct scheduler *hub);
/* Until a signal asks to stop. */
struct err *scheduler_run(struct scheduler *hub) MUST_USE;

/* connections.c */
/* Sets server->connections, also when it fails. */
struct err *connections_start(struct server *server) MUST_USE;
void connections_stop(struct connections *connections);
bool connections_exposed(const struct connections *connections);
/* Closes connections that have been waited for too long. */
void connections_dismiss_idle(struct connections *connections);
const char *connections_url(const struct connections *connections);
size_t connections_count(struct connections *connections);
uint64_t connections_requests(struct connections *connections);

/* pages.c: the UI. */
bool pages_respond(struct request *r);
/* Before the route is known. /ui/api/...: how our own pages ask, so that they work without the REST API too. Others get a
 * page there, as on every address that is none. */
void pages_enter(struct request *r);
/* /?token=...: the link that the server printed. The token goes into a cookie and out of the address. */
bool pages_take_token(struct request *r);

/* Objects of the REST API. */
void json_profiler(struct jsonw *w, const char *key, const struct profiler *p, const char *parameters);
void json_patient(struct jsonw *w, const struct patient *p);
void json_session(struct server *server, struct jsonw *w, const struct store_row *row);
/* mask.c: command lines and the like without what looks like a secret. */
void mask_secrets(struct buf *out, const char *text);
