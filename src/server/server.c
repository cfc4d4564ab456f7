#include "server/internal.h"
#include "server/auth.h"
#include "server/child.h"
#include "server/watch.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LARGE_BYTES (64 << 10)

static void server_fini(struct server *s)
{
	live_vitals_free(s->vitals);
	connections_stop(s->connections);
	webhooks_free(s->webhooks);
	traces_free(s->traces);
	children_free(s->children);
	watches_free(s->watches);
	scheduler_free(s->hub);
	sse_free(s->live);
	patients_free(s->patients);
	if (s->work_dir)
		err_ignore(dir_remove(s->work_dir));
	mem_free(s->work_dir);
	fd_closep(&s->work_lock);
	store_close(s->store);
	mem_free(s->home);
	auth_free(s->auth);
	log_free(s->log);
	pthread_mutex_destroy(&s->store_lock);
}

static void init_lock(pthread_mutex_t *lock)
{
	/* Pumping a session holds the store's lock, and informing its subscribers reads the store again. */
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* <home>/serve-PID, locked for as long as we live; those of servers that were killed are removed. */
static struct err *open_work_dir(struct server *s)
{
	DIR *d = opendir(s->home);
	for (struct dirent *e; d && (e = readdir(d));) {
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", s->home, e->d_name);
		CLOSE_FD int fd = str_starts(e->d_name, "serve-") ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			err_ignore(dir_remove(path));
	}
	if (d)
		closedir(d);
	s->work_dir = mem_printf("%s/serve-%d", s->home, (int)getpid());
	TRY(dir_make(s->work_dir, 0700));
	s->work_lock = open(s->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->work_lock < 0 || flock(s->work_lock, LOCK_EX | LOCK_NB) < 0)
		return err_errno(errno, "lock '%s'", s->work_dir);
	return NULL;
}

/* A connection is a descriptor. */
static void raise_limits(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)65536);
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static struct err *open_log_file(struct server *s)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/app.log", s->home);
	return log_open_file(s->log, path);
}

/* Notifies systemd, where it asks for that. */
void server_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	if (str_empty(path) || strlen(path) >= sizeof(to.sun_path))
		return;
	str_copy(to.sun_path, sizeof(to.sun_path), path);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (fd >= 0 && sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to, len) < 0)
		return; /* there is no receiver; nothing depends on it */
}

static const char *link_base(const struct server *s)
{
	return s->options->public_url ? s->options->public_url : connections_url(s->connections);
}

char *server_link(const struct server *s)
{
	const char *url = link_base(s), *token = auth_token(s->auth);
	size_t len = strlen(url);
	while (len && url[len - 1] == '/')
		len--;
	return token ? mem_printf("%.*s/?token=%s", (int)len, url, token) : mem_strdup(url);
}

/* In a container, or for other machines: only who set it up knows the address that browsers take. */
static void explain_link(struct server *s)
{
	const char *url = connections_url(s->connections), *at = strstr(url, "://") + 3;
	bool any = str_starts(at, "0.0.0.0:") || str_starts(at, "[::]:");
	if (any && !s->options->public_url)
		log_line(
			s->log, LOG_INFO,
			"in the link, put the address and port that you reach this server by in place of %s, for a port "
			"published by 'docker run -p 127.0.0.1:8000:92' localhost:8000; with DRDOTNET_PUBLIC_URL "
			"(--public-url) the link is right as it is",
			at);
}

static void tell_ready(struct server *s)
{
	const char *url = connections_url(s->connections), *token = auth_token(s->auth);
	/* The token is for the user who started the server, not for the log; a configured one is known already. */
	CLEANUP(mem_freep) char *link = s->options->token ? mem_strdup(link_base(s)) : server_link(s);
	log_line(s->log, LOG_INFO, "listening on %s%s", url, token ? ", with a token" : "");
	explain_link(s);
	if (auth_mode(s->auth) == AUTH_OFF)
		log_line(s->log, LOG_WARN,
			 "whoever can reach %s may examine every process that this one may: no token is "
			 "asked for (--no-auth)",
			 url);
	if (s->options->on_ready)
		s->options->on_ready(s->options->user, link);
}

struct err *server_run(const struct server_options *options)
{
	if (!options->web_ui && !options->rest_api)
		return err_new(ERR_USAGE, "nothing to serve: the web UI and the REST API are both switched off");
	/* Dozens of short-lived threads would each keep a heap of their own. */
	mallopt(M_ARENA_MAX, 2);
	/* Bodies and reports are given back when they are freed; else the first large one would raise the limit for all. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
	raise_limits();
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	CLEANUP(server_fini) struct server s = { .options = options, .start_ns = clock_mono_ns(), .work_lock = -1 };
	init_lock(&s.store_lock);
	s.log = log_new(!options->quiet, options->log_json);
	s.live = sse_new();
	s.patients = patients_new();
	s.watches = watches_new();
	s.vitals = live_vitals_new(&s);
	TRY(home_path(&s.home));
	TRY(session_open_store(&s.store));
	TRY(open_work_dir(&s));
	if (options->log_file)
		TRY(open_log_file(&s));
	s.webhooks = webhooks_new(&s);
	s.traces = traces_new();
	s.hub = scheduler_new(&s);
	s.children = children_new(scheduler_wake, s.hub);
	TRY(connections_start(&s));
	tell_ready(&s);
	server_notify("READY=1\nSTATUS=listening");
	return scheduler_run(s.hub);
}
