/* The starter's side: makes the folder and the row, starts the worker, reads its messages, concludes. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define FREE_BYTES_MIN ((uint64_t)8 << 20)
#define SPEC_WRITE_MS 5000
/* Above all the descriptor numbers that a worker starts with, so that dup2 does not overwrite one. */
#define FD_FLOOR 10

struct session {
	struct store *store;
	struct store_row row;
	pid_t pid; /* 0 once waited for */
	int events_fd;
	struct buf line;
	struct err *error;
	bool given_up;
	char *aftermath;
};

void session_free(struct session *s)
{
	if (!s)
		return;
	if (s->pid) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	fd_closep(&s->events_fd);
	buf_free(&s->line);
	err_free(s->error);
	mem_free(s->aftermath);
	store_row_fini(&s->row);
	mem_free(s);
}

/* Better now than after the patient was examined. */
static struct err *probe(struct store *store)
{
	const char *dir = store_sessions_dir(store);
	struct statvfs fs;
	if (statvfs(dir, &fs) < 0)
		return err_errno(errno, "'%s'", dir);
	uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (free_bytes < FREE_BYTES_MIN)
		return err_new(ERR_IO,
			       "only %s are free in '%s'; a session needs %s (DRDOTNET_HOME chooses another place)",
			       fmt_bytes(free_bytes).s, dir, fmt_bytes(FREE_BYTES_MIN).s);
	return NULL;
}

static struct err *fill_row(const struct session_spec *spec, struct store_row *row)
{
	struct patient recorded = { 0 };
	const struct patient *patient = spec->patient;
	if (!patient) {
		CLEANUP(recording_freep) struct recording *r = NULL;
		TRY(recording_open(spec->recording, &r));
		TRY_WRAP(session_recorded_patient(r, &recorded), "recording '%s'", spec->recording);
		patient = &recorded;
	}
	store_guid_new(row->guid);
	store_set(&row->profiler, spec->profiler->id);
	store_set(&row->profiler_uuid, spec->profiler->uuid);
	row->target_id = patient->target.id;
	store_set(&row->process, patient_name(patient));
	store_set(&row->runtime, patient->info.runtime_version);
	if (!spec->patient)
		patient_fini(&recorded);
	row->created_ns = clock_real_ns();
	store_set(&row->version, DRDOTNET_VERSION);
	json_t *parameters = spec_parameters(spec->profiler, spec->params);
	char *text = json_dumps(parameters, JSON_COMPACT);
	store_set(&row->parameters, text);
	free(text);
	json_decref(parameters);
	row->owner_pid = getpid();
	row->owner_start = owner_start_ticks(getpid());
	return NULL;
}

/* The four ends a worker is started with; all close-on-exec and at least FD_FLOOR. */
struct birth {
	int spec[2], events[2], lock, log;
};

static void birth_closep(struct birth *b)
{
	int *all[] = { &b->spec[0], &b->spec[1], &b->events[0], &b->events[1], &b->lock, &b->log };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fd_closep(all[i]);
}

static struct err *lift(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	if (high < 0)
		return err_errno(errno, "duplicate a file descriptor");
	close(*fd);
	*fd = high;
	return NULL;
}

static struct err *birth_open(struct birth *b, const char *dir)
{
	CLEANUP(mem_freep) char *log = mem_printf("%s/log.txt", dir);
	TRY(owner_lock(dir, &b->lock));
	if (pipe2(b->spec, O_CLOEXEC) < 0 || pipe2(b->events, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	b->log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b->log < 0)
		return err_errno(errno, "create '%s'", log);
	TRY(lift(&b->spec[0]));
	TRY(lift(&b->events[1]));
	TRY(lift(&b->lock));
	TRY(lift(&b->log));
	if (fcntl(b->events[0], F_SETFL, O_NONBLOCK) < 0)
		return err_errno(errno, "prepare a pipe");
	return NULL;
}

/* Between fork and exec: system calls only. */
static NORETURN void become_worker(const struct birth *b, pid_t starter, const char *guid)
{
	/* Ctrl-C on the terminal reaches the starter only, which then asks the worker to stop; so does the starter's
	 * end. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != starter)
		_exit(1);
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(b->log, 2) < 0 ||
	    dup2(b->spec[0], WORKER_SPEC_FD) < 0 || dup2(b->events[1], WORKER_EVENTS_FD) < 0 ||
	    dup2(b->lock, WORKER_LOCK_FD) < 0)
		_exit(WORKER_NOT_STARTED);
	close_range(WORKER_FD_END, ~0U, 0);
	char program[] = "drdotnet", command[] = "_worker", id[STORE_GUID_LEN + 1];
	memcpy(id, guid, sizeof(id));
	char *const argv[] = { program, command, id, NULL };
	execv("/proc/self/exe", argv);
	_exit(WORKER_NOT_STARTED);
}

static struct err *start_worker(struct session *s, const struct session_spec *spec, const char *dir, const char *home)
{
	CLEANUP(birth_closep) struct birth b = { { -1, -1 }, { -1, -1 }, -1, -1 };
	TRY(birth_open(&b, dir));
	/* Blocked until the worker reads them (signalfd): a request to stop in its first moments must not kill it. */
	sigset_t held, was;
	sigemptyset(&held);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &held, &was);
	pid_t starter = getpid(), pid = fork();
	int errnum = errno;
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &held, NULL);
		become_worker(&b, starter, s->row.guid);
	}
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (pid < 0)
		return err_errno(errnum, "start the worker");
	s->pid = pid;
	s->events_fd = b.events[0];
	b.events[0] = -1;
	fd_closep(&b.spec[0]);
	struct buf text = { 0 };
	spec_write(spec, home, &text);
	struct err *err = fd_write_full(b.spec[1], buf_cstr(&text), text.len, deadline_in_ms(SPEC_WRITE_MS));
	buf_free(&text);
	return err;
}

struct err *session_enqueue(struct store *store, const struct session_spec *spec, char ret_guid[STORE_GUID_LEN + 1])
{
	struct store_row row = { 0 };
	struct err *err = probe(store);
	if (!err)
		err = fill_row(spec, &row);
	if (!err)
		err = store_put(store, &row);
	if (!err)
		memcpy(ret_guid, row.guid, sizeof(row.guid));
	store_row_fini(&row);
	return err ? err_wrap(err, "start a session") : NULL;
}

struct err *session_unqueue(struct store *store, const char *guid, enum store_state state, const char *reason)
{
	struct store_row row;
	TRY(store_get(store, guid, &row));
	struct err *err = session_conclude(store, &row, state, reason);
	store_row_fini(&row);
	return err;
}

/* The row that waits, with what has been decided about it since. */
static struct err *take_queued(struct store *store, const char *guid, struct store_row *row)
{
	struct store_row queued;
	TRY(store_get(store, guid, &queued));
	memcpy(row->guid, queued.guid, sizeof(row->guid));
	row->created_ns = queued.created_ns;
	store_row_fini(&queued);
	return NULL;
}

struct err *session_start(struct store *store, const struct session_spec *spec, struct session **ret)
{
	CLEANUP(session_freep) struct session *s = mem_zalloc(sizeof(*s));
	CLEANUP(mem_freep) char *home = NULL;
	s->store = store;
	s->events_fd = -1;
	s->line.limit = EVENT_LINE_MAX;
	TRY(probe(store));
	TRY(fill_row(spec, &s->row));
	if (spec->guid)
		TRY(take_queued(store, spec->guid, &s->row));
	home = mem_strndup(store_sessions_dir(store), strlen(store_sessions_dir(store)) - strlen("/sessions"));
	CLEANUP(mem_freep) char *dir = store_session_dir(store, s->row.guid);
	TRY(store_put(store, &s->row));
	struct err *err = dir_make(dir, 0700);
	if (!err)
		err = start_worker(s, spec, dir, home);
	if (err) {
		/* The folder is not one yet; nothing of it shall stay. */
		if (s->pid) {
			kill(s->pid, SIGKILL);
			waitpid(s->pid, NULL, 0);
			s->pid = 0;
		}
		err_ignore(dir_remove(dir));
		if (!spec->guid)
			err_ignore(store_delete(store, s->row.guid));
		return err_wrap(err, "start a session");
	}
	*ret = STEAL(s);
	return NULL;
}

int session_fd(const struct session *s)
{
	return s->events_fd;
}

const struct store_row *session_row(const struct session *s)
{
	return &s->row;
}

void session_cancel(struct session *s)
{
	if (s->pid)
		kill(s->pid, SIGTERM);
}

void session_kill(struct session *s)
{
	s->given_up = true;
	if (s->pid)
		kill(s->pid, SIGKILL);
}

struct err *session_error(const struct session *s)
{
	if (s->row.state == STORE_DONE || s->row.state == STORE_CANCELLED)
		return NULL;
	if (s->error)
		return err_new(err_kind(s->error), "%s", err_text(s->error));
	return err_new(ERR_IO, "%s", s->row.error ? s->row.error : "it failed without a word");
}

static enum err_kind kind_of(const char *name)
{
	for (int kind = ERR_USAGE; kind <= ERR_CANCELLED; kind++)
		if (str_eq(err_kind_name((enum err_kind)kind), name))
			return (enum err_kind)kind;
	return ERR_IO;
}

static void take_event(struct session *s, const json_t *j, const struct session_events *ev)
{
	const char *state = json_get_str(j, "state", NULL), *log = json_get_str(j, "log", NULL);
	const char *error = json_get_str(j, "error", NULL), *what = json_get_str(j, "what", NULL);
	if (state && store_state_parse(state, &s->row.state) && ev->on_state)
		ev->on_state(ev->user, s->row.state);
	if (what) {
		double ratio = json_get_num(j, "progress", -1);
		s->row.progress = ratio >= 0 ? ratio : s->row.progress;
		if (ev->on_progress)
			ev->on_progress(ev->user, ratio, what);
	}
	if (json_get_bool(j, "listening", false) && ev->on_listening)
		ev->on_listening(ev->user);
	if (json_get_str(j, "news", NULL) && ev->on_news)
		ev->on_news(ev->user, json_get_str(j, "news", ""));
	if (log && ev->on_log)
		ev->on_log(ev->user, log);
	if (error && !s->error)
		s->error = err_new(kind_of(json_get_str(j, "kind", "")), "%s", error);
}

static void take_lines(struct session *s, const struct session_events *ev)
{
	char *end;
	while (s->line.len && (end = memchr(s->line.data, '\n', s->line.len))) {
		size_t len = (size_t)(end - s->line.data);
		json_t *j = NULL;
		/* Messages of our own program; a line that is not JSON is part of a crash message. */
		err_ignore(json_parse(s->line.data, len, EVENT_LINE_MAX, &j));
		if (j)
			take_event(s, j, ev);
		json_decref(j);
		buf_consume(&s->line, len + 1);
	}
}

const char *session_aftermath(const struct session *s)
{
	return s->aftermath;
}

static char *reason_of(int status)
{
	if (WIFSIGNALED(status))
		return mem_printf("its worker was ended by signal %d (%s)", WTERMSIG(status),
				  strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == WORKER_NOT_STARTED)
		return mem_strdup("its worker could not be started");
	if (WEXITSTATUS(status) == WORKER_NO_MEMORY)
		return mem_strdup("its worker is out of memory");
	return mem_printf("its worker ended with status %d", WEXITSTATUS(status));
}

/* The index's last word on it, or ours when the worker had none. */
static struct err *settle(struct session *s, int status)
{
	struct store_row row;
	TRY(store_get(s->store, s->row.guid, &row));
	store_row_fini(&s->row);
	s->row = row;
	if (store_state_finished(s->row.state)) {
		s->aftermath = status ? reason_of(status) : NULL;
		return NULL;
	}
	CLEANUP(mem_freep)
	char *reason = s->given_up ? mem_strdup("given up before its analysis was done") : reason_of(status);
	return session_conclude(s->store, &s->row, s->given_up ? STORE_CANCELLED : STORE_FAILED, reason);
}

static struct err *finish(struct session *s)
{
	int status = 0;
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
	struct err *err = settle(s, status);
	if (!err || !s->error)
		return err;
	/* It could not be kept, for example because the disk is full; then what the worker reported matters more. */
	err_free(err);
	s->row.state = STORE_FAILED;
	store_set(&s->row.error, err_text(s->error));
	return NULL;
}

struct err *session_pump(struct session *s, const struct session_events *events, bool *ret_ended)
{
	static const struct session_events none = { 0 };
	*ret_ended = !s->pid;
	while (s->pid) {
		char *room = buf_room(&s->line, 4096);
		if (!room) {
			buf_clear(&s->line); /* no line of ours is that long */
			continue;
		}
		ssize_t n = read(s->events_fd, room, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return NULL;
		if (n <= 0) {
			TRY(finish(s));
			*ret_ended = true;
			return NULL;
		}
		s->line.len += (size_t)n;
		take_lines(s, events ? events : &none);
	}
	return NULL;
}
