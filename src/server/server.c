#include "server/internal.h"
#include "base/clock.h"
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

static void server_fini(struct server *s)
{
	http_stop(s->http);
	hub_free(s->hub);
	live_free(s->live);
	patients_free(s->patients);
	store_close(s->store);
	log_free(s->log);
	pthread_mutex_destroy(&s->store_lock);
}

static void init_lock(pthread_mutex_t *lock)
{
	/* Hearing a session holds the store, and telling its listeners reads it again. */
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

struct err *server_run(const struct server_options *options)
{
	if (!options->web_ui && !options->rest_api)
		return err_new(ERR_USAGE, "nothing to serve: the web UI and the REST API are both switched off");
	/* Dozens of short-lived threads would each keep a heap of their own. */
	mallopt(M_ARENA_MAX, 2);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	CLEANUP(server_fini) struct server s = { .options = options, .start_ns = clock_mono_ns() };
	init_lock(&s.store_lock);
	s.log = log_new(!options->quiet);
	s.live = live_new();
	s.patients = patients_new();
	TRY(session_open_store(&s.store));
	s.hub = hub_new(&s);
	TRY(http_start(&s, &s.http));
	log_line(s.log, LOG_INFO, "listening on %s", http_url(s.http));
	if (options->on_ready)
		options->on_ready(options->user, http_url(s.http));
	return hub_run(s.hub);
}
