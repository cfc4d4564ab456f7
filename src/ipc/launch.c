#include "ipc/launch.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PORTS "DOTNET_DiagnosticPorts"
#define HELLO_MS 2000
#define COMMAND_MS 10000
#define IDLE_MAX 64

struct launch {
	struct reverse port;
	char *ports_before; /* what the variable was, or NULL */
	pid_t pid, runtime_pid;
	int pidfd, epoll;
	pid_t watcher;
	int watcher_pipe; /* closes with us */
	uint8_t cookie[16];
	bool called, cleaned, resumed;
	int held; /* the waiting runtime's call, or -1 */
	VEC(int) idle;
	bool ended;
	int status;
};

/* --- the watcher: a child of ours that outlives us --- */

static void let_go_on(const struct reverse *port)
{
	struct reverse_call call;
	struct err *err = reverse_accept(port, deadline_in_ms(HELLO_MS), &call);
	if (!err) {
		err = reverse_resume(call.fd, deadline_in_ms(COMMAND_MS));
		close(call.fd);
	}
	err_free(err);
}

/* Waits for our end or the program's. If we end first, it resumes the runtime that waits for us. */
static NORETURN void watch(const struct reverse *port, int pipe_fd, int pidfd)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "drdotnet-watch");
	bool we_live = true;
	for (;;) {
		struct pollfd fds[] = { { .fd = we_live ? pipe_fd : -1, .events = POLLIN },
					{ .fd = pidfd, .events = POLLIN },
					{ .fd = we_live ? -1 : port->fd, .events = POLLIN } };
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue;
		char word = 0;
		if (fds[0].revents && read(pipe_fd, &word, 1) == 1)
			_exit(0); /* we end in good order and have tidied up ourselves */
		if (fds[0].revents)
			we_live = false;
		if (fds[1].revents)
			break;
		if (fds[2].revents)
			let_go_on(port);
	}
	unlink(port->path);
	rmdir(port->folder);
	_exit(0);
}

static struct err *start_watcher(struct launch *l, int go_fd)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	l->watcher = fork();
	if (l->watcher == 0) {
		/* In a session of its own, so that Ctrl-C and a closed terminal do not reach it. */
		setsid();
		close(ends[1]);
		close(go_fd); /* or the program would never see that we are gone */
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int fd = 0; fd < 3 && null >= 0; fd++)
			dup2(null, fd);
		watch(&l->port, ends[0], l->pidfd);
	}
	int errnum = errno;
	close(ends[0]);
	l->watcher_pipe = ends[1];
	return l->watcher < 0 ? err_errno(errnum, "start the watcher") : NULL;
}

static void end_watcher(struct launch *l)
{
	if (l->watcher <= 0)
		return;
	if (write(l->watcher_pipe, "q", 1) < 0)
		kill(l->watcher, SIGKILL);
	while (waitpid(l->watcher, NULL, 0) < 0 && errno == EINTR)
		;
	l->watcher = 0;
}

/* --- the program --- */

/* Between fork and exec: system calls only. Waits for a byte from the parent: if we are killed before there is a
 * watcher, nothing was started, and what we made is removed. */
static NORETURN void become(const struct reverse *port, char *const *argv, char *const *environment, int go_fd,
			    int error_fd)
{
	sigset_t none;
	char word;
	ssize_t n;
	while ((n = read(go_fd, &word, 1)) < 0 && errno == EINTR)
		;
	if (n != 1) {
		unlink(port->path);
		rmdir(port->folder);
		_exit(127);
	}
	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(argv[0], argv, environment);
	int errnum = errno;
	if (write(error_fd, &errnum, sizeof(errnum)) < 0)
		_exit(126);
	_exit(127);
}

/* Our environment with the port in it. The caller frees the vector and its last string. */
static char **environment_with(const struct launch *l)
{
	size_t n = 0, kept = 0;
	while (environ[n])
		n++;
	char **list = mem_array(n + 2, sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		if (!str_starts(environ[i], PORTS "="))
			list[kept++] = environ[i];
	}
	list[kept] = mem_printf(PORTS "=%s%s%s,suspend,connect", l->ports_before ? l->ports_before : "",
				l->ports_before ? ";" : "", l->port.path);
	list[kept + 1] = NULL;
	return list;
}

static struct err *cannot_start(const char *name, int errnum)
{
	if (errnum == ENOENT)
		return err_new(ERR_NOT_FOUND, "cannot start '%s': there is no such program", name);
	return err_errno(errnum, "cannot start '%s'", name);
}

/* The ends of two pipes: the word to go, and why it could not. */
struct strings {
	int go[2], error[2];
};

static void strings_closep(struct strings *s)
{
	int *all[] = { &s->go[0], &s->go[1], &s->error[0], &s->error[1] };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fd_closep(all[i]);
}

static struct err *spawn(struct launch *l, char *const *argv, struct strings *s)
{
	if (pipe2(s->go, O_CLOEXEC) < 0 || pipe2(s->error, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	char **environment = environment_with(l), **last = environment;
	l->pid = fork();
	if (l->pid == 0) {
		close(s->go[1]);
		become(&l->port, argv, environment, s->go[0], s->error[1]);
	}
	int errnum = errno;
	while (last[1])
		last++;
	mem_free(*last);
	mem_free(environment);
	fd_closep(&s->go[0]);
	fd_closep(&s->error[1]);
	if (l->pid > 0)
		return NULL;
	l->pid = 0;
	return err_errno(errnum, "start '%s'", argv[0]);
}

/* Everybody is in place. */
static struct err *go(struct launch *l, char *const *argv, struct strings *s)
{
	int errnum = 0;
	if (write(s->go[1], "g", 1) != 1)
		return err_errno(errno, "start '%s'", argv[0]);
	if (read(s->error[0], &errnum, sizeof(errnum)) != (ssize_t)sizeof(errnum))
		return NULL;
	waitpid(l->pid, NULL, 0);
	l->pid = 0;
	return cannot_start(argv[0], errnum);
}

static struct err *listen_to(struct launch *l, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? err_errno(errno, "epoll") : NULL;
}

static struct err *begin(struct launch *l, char *const *argv)
{
	CLEANUP(strings_closep) struct strings strings = { { -1, -1 }, { -1, -1 } };
	TRY(reverse_choose(&l->port));
	TRY(spawn(l, argv, &strings));
	TRY(reverse_listen(&l->port));
	l->pidfd = (int)syscall(SYS_pidfd_open, l->pid, 0);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->pidfd < 0 || l->epoll < 0)
		return err_errno(errno, "watch '%s'", argv[0]);
	TRY(start_watcher(l, strings.go[1]));
	TRY(listen_to(l, l->port.fd));
	TRY(listen_to(l, l->pidfd));
	return go(l, argv, &strings);
}

struct err *launch_start(char *const *argv, struct launch **ret)
{
	CLEANUP(launch_freep) struct launch *l = mem_zalloc(sizeof(*l));
	const char *before = getenv(PORTS);
	l->held = l->pidfd = l->epoll = l->watcher_pipe = l->port.fd = -1;
	l->ports_before = str_empty(before) ? NULL : mem_strdup(before);
	TRY(begin(l, argv));
	*ret = STEAL(l);
	return NULL;
}

void launch_free(struct launch *l)
{
	if (!l)
		return;
	if (l->held >= 0)
		err_ignore(launch_resume(l));
	fd_closep(&l->held);
	vec_each(fd, &l->idle)
		fd_closep(fd);
	vec_free(&l->idle);
	end_watcher(l);
	fd_closep(&l->watcher_pipe);
	fd_closep(&l->pidfd);
	fd_closep(&l->epoll);
	reverse_close(&l->port);
	mem_free(l->ports_before);
	mem_free(l);
}

int launch_fd(const struct launch *l)
{
	return l->epoll;
}

/* An idle call keeps a runtime from calling again and again. */
static void keep_idle(struct launch *l, int fd)
{
	if (l->idle.n >= IDLE_MAX) {
		close(l->idle.v[0]);
		memmove(l->idle.v, l->idle.v + 1, --l->idle.n * sizeof(*l->idle.v));
	}
	vec_push(&l->idle, fd);
}

static struct err *take_call(struct launch *l)
{
	struct reverse_call call;
	TRY(reverse_accept(&l->port, deadline_in_ms(HELLO_MS), &call));
	bool ours = l->called && !memcmp(call.cookie, l->cookie, sizeof(l->cookie));
	if (!l->called) {
		memcpy(l->cookie, call.cookie, sizeof(l->cookie));
		l->runtime_pid = call.pid;
		l->called = ours = true;
	}
	if (ours && !l->cleaned) {
		/* So that the programs it starts later neither wait for us nor call a port that is gone. */
		l->cleaned = true;
		struct err *err = reverse_set_env(call.fd, PORTS, l->ports_before, deadline_in_ms(COMMAND_MS));
		close(call.fd);
		err_ignore(err);
		return NULL;
	}
	if (ours && !l->resumed && l->held < 0) {
		l->held = call.fd;
		return NULL;
	}
	/* Other runtimes are resumed at once; one that was resumed already only keeps its connection. */
	struct err *err = ours ? NULL : reverse_resume(call.fd, deadline_in_ms(COMMAND_MS));
	if (ours)
		keep_idle(l, call.fd);
	else
		close(call.fd);
	return err;
}

static void reap(struct launch *l)
{
	pid_t pid;
	while ((pid = waitpid(l->pid, &l->status, WNOHANG)) < 0 && errno == EINTR)
		;
	if (pid != l->pid)
		return;
	l->ended = true;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->pidfd, NULL);
}

struct err *launch_turn(struct launch *l)
{
	struct pollfd fds[] = { { .fd = l->port.fd, .events = POLLIN },
				{ .fd = l->ended ? -1 : l->pidfd, .events = POLLIN } };
	if (poll(fds, ARRAY_SIZE(fds), 0) <= 0)
		return NULL;
	/* A client that sends nonsense or closes the connection costs only that connection. */
	if (fds[0].revents)
		err_ignore(take_call(l));
	if (fds[1].revents)
		reap(l);
	return NULL;
}

pid_t launch_runtime(const struct launch *l)
{
	return l->held >= 0 || l->resumed ? l->runtime_pid : 0;
}

struct err *launch_resume(struct launch *l)
{
	if (l->held < 0)
		return NULL;
	struct err *err = reverse_resume(l->held, deadline_in_ms(COMMAND_MS));
	fd_closep(&l->held);
	l->resumed = true;
	return err ? err_wrap(err, "let the program go on") : NULL;
}

void launch_signal(struct launch *l, int signal)
{
	if (!l->ended)
		kill(l->pid, signal);
}

bool launch_ended(const struct launch *l, int *ret_code)
{
	if (l->ended)
		*ret_code = WIFSIGNALED(l->status) ? 128 + WTERMSIG(l->status) : WEXITSTATUS(l->status);
	return l->ended;
}
