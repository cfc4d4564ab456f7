#include "server/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHILDREN_MAX 32
#define OUTPUT_BYTES_MAX ((size_t)1 << 20)
#define STDERR_BYTES_MAX ((size_t)64 << 10)
#define READ_BYTES 65536
#define FRAME_BYTES ((size_t)100) /* room for what stands around a piece */
#define STOP_NS (20 * NS_PER_S)

enum { FD_OUT, FD_ERR, FDS };

struct child {
	struct children *all;
	uint64_t id;
	unsigned refs; /* under all->lock, as everything that other threads see */
	struct child_order order;
	struct stream *stream;
	struct buf said; /* on standard error */
	bool announced, ended, stop_wanted;
	void (*on_end)(void *user);
	void *on_end_user;
	int stop_signal, status;
	/* The main thread's. */
	pid_t pid;
	int fds[FDS];
	bool started, client_seen_gone, sending_file;
	int final_status; /* while its file is sent */
	uint64_t stop_ns; /* when it was asked to stop */
};

struct children {
	pthread_mutex_t lock;
	VEC(struct child *) incoming, list; /* list: changed by the main thread only */
	uint64_t last_id;
	bool stopping;
	void (*wake)(void *user);
	void *user;
};

/* ---- orders ---- */

char **child_words(const char *first, ...)
{
	VEC(char *) words = { 0 };
	va_list ap;
	va_start(ap, first);
	for (const char *word = first; word; word = va_arg(ap, const char *))
		vec_push(&words, mem_strdup(word));
	va_end(ap);
	vec_push(&words, NULL);
	return words.v;
}

void child_words_free(char **words)
{
	for (char **w = words; w && *w; w++)
		mem_free(*w);
	mem_free(words);
}

static void order_fini(struct child_order *o)
{
	child_words_free(o->argv);
	child_words_free(o->then);
	child_words_free(o->environment);
	if (o->folder)
		err_ignore(dir_remove(o->folder));
	mem_free(o->folder);
}

static void child_free(struct child *c)
{
	order_fini(&c->order);
	stream_unref(c->stream);
	buf_free(&c->said);
	for (size_t i = 0; i < FDS; i++)
		fd_closep(&c->fds[i]);
	mem_free(c);
}

void child_unref(struct child *c)
{
	if (!c)
		return;
	struct children *all = c->all;
	pthread_mutex_lock(&all->lock);
	bool last = --c->refs == 0;
	pthread_mutex_unlock(&all->lock);
	if (last)
		child_free(c);
}

struct children *children_new(void (*wake)(void *user), void *user)
{
	struct children *c = mem_zalloc(sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->wake = wake;
	c->user = user;
	return c;
}

static void on_room(void *user)
{
	struct children *all = user;
	all->wake(all->user);
}

struct err *child_start(struct children *all, struct child_order *order, struct child **ret)
{
	struct child *c = mem_zalloc(sizeof(*c));
	c->all = all;
	c->order = *order;
	c->refs = 2;
	c->fds[FD_OUT] = c->fds[FD_ERR] = -1;
	c->said.limit = STDERR_BYTES_MAX;
	c->stream = stream_new(OUTPUT_BYTES_MAX);
	stream_on_room(c->stream, on_room, all);
	pthread_mutex_lock(&all->lock);
	bool full = all->list.n + all->incoming.n >= CHILDREN_MAX, stopping = all->stopping;
	if (!full && !stopping) {
		c->id = ++all->last_id;
		*ret = c;
		vec_push(&all->incoming, c);
	}
	pthread_mutex_unlock(&all->lock);
	if (stopping) {
		child_free(c);
		return err_new(ERR_CANCELLED, "the server is stopping");
	}
	if (full) {
		child_free(c);
		return err_new(ERR_BUSY, "%d commands run already; try again in a moment", CHILDREN_MAX);
	}
	all->wake(all->user);
	return NULL;
}

void child_stop(struct child *c, int signal)
{
	pthread_mutex_lock(&c->all->lock);
	c->stop_wanted = true;
	c->stop_signal = signal;
	pthread_mutex_unlock(&c->all->lock);
	c->all->wake(c->all->user);
}

uint64_t child_id(const struct child *c)
{
	return c->id;
}

struct err *child_find(struct children *all, uint64_t id, struct child **ret)
{
	struct child *found = NULL;
	pthread_mutex_lock(&all->lock);
	vec_each(each, &all->list)
		if ((*each)->id == id)
			found = *each;
	if (found)
		found->refs++;
	pthread_mutex_unlock(&all->lock);
	*ret = found;
	return found ? NULL : err_new(ERR_NOT_FOUND, "No command runs with id '%llu'", (unsigned long long)id);
}

bool child_ended(struct child *c)
{
	pthread_mutex_lock(&c->all->lock);
	bool ended = c->ended;
	pthread_mutex_unlock(&c->all->lock);
	return ended;
}

void child_on_end(struct child *c, void (*fn)(void *user), void *user)
{
	pthread_mutex_lock(&c->all->lock);
	bool ended = c->ended;
	if (!ended) {
		c->on_end = fn;
		c->on_end_user = user;
	}
	pthread_mutex_unlock(&c->all->lock);
	if (ended)
		fn(user);
}

bool child_said(struct child *c, const char *text)
{
	pthread_mutex_lock(&c->all->lock);
	bool said = strstr(buf_cstr(&c->said), text) != NULL;
	pthread_mutex_unlock(&c->all->lock);
	return said;
}

struct stream *child_output(struct child *c)
{
	return stream_ref(c->stream);
}

const char *child_folder(const struct child *c)
{
	return c->order.folder;
}

size_t children_count(struct children *all)
{
	pthread_mutex_lock(&all->lock);
	size_t n = all->list.n + all->incoming.n;
	pthread_mutex_unlock(&all->lock);
	return n;
}

/* ---- its end ---- */

static enum err_kind kind_of_exit(int code)
{
	switch (code) {
	case 2:
		return ERR_USAGE;
	case 3:
		return ERR_NOT_FOUND;
	case 4:
		return ERR_DENIED;
	case 5:
		return ERR_BUSY;
	case 130:
		return ERR_CANCELLED;
	default:
		return ERR_IO;
	}
}

struct err *child_error(struct child *c)
{
	pthread_mutex_lock(&c->all->lock);
	int status = c->status;
	CLEANUP(mem_freep) char *said = mem_strdup(buf_cstr(&c->said));
	pthread_mutex_unlock(&c->all->lock);
	if (!status)
		return NULL;
	if (WIFSIGNALED(status))
		return err_new(ERR_IO, "the command was ended by signal %d (%s)", WTERMSIG(status),
			       strsignal(WTERMSIG(status)));
	/* "drdotnet: no such ..." on its last lines. */
	char *text = said, *last = NULL;
	for (char *p = said; (p = strstr(p, "drdotnet: ")); p++)
		if (p == said || p[-1] == '\n')
			last = p;
	text = last ? last + strlen("drdotnet: ") : text;
	for (size_t len = strlen(text); len && text[len - 1] == '\n'; len--)
		text[len - 1] = '\0';
	return err_new(kind_of_exit(WEXITSTATUS(status)), "%s", *text ? text : "the command failed without a word");
}

/* ---- the main thread ---- */

static NORETURN void become(char *const *argv, int out, int err, pid_t starter, char *const *environment,
			    const char *folder)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != starter)
		_exit(1);
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || (folder && chdir(folder) < 0))
		_exit(127);
	close_range(3, ~0U, 0);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve("/proc/self/exe", argv, environment);
	_exit(127);
}

/* Ours, and the order's own in front. Made before the fork. */
static char **make_environment(const struct child_order *o)
{
	VEC(char *) all = { 0 };
	for (char **e = o->environment; e && *e; e++)
		vec_push(&all, *e);
	for (char **e = environ; *e; e++) {
		bool replaced = false;
		for (char **own = o->environment; own && *own; own++)
			replaced |= !strncmp(*own, *e, strcspn(*own, "=") + 1);
		if (!replaced)
			vec_push(&all, *e);
	}
	vec_push(&all, NULL);
	return all.v;
}

static struct err *spawn(struct child *c, char **words)
{
	CLOSE_FD int out_write = -1;
	CLOSE_FD int err_write = -1;
	int out[2], err[2];
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	c->fds[FD_OUT] = out[0];
	out_write = out[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	c->fds[FD_ERR] = err[0];
	err_write = err[1];
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	char program[] = "drdotnet";
	VEC(char *) argv = { 0 };
	vec_push(&argv, program);
	for (char **w = words; *w; w++)
		vec_push(&argv, *w);
	vec_push(&argv, NULL);
	char **environment = make_environment(&c->order);
	pid_t starter = getpid();
	c->pid = fork();
	int errnum = errno;
	if (c->pid == 0)
		become(argv.v, out_write, err_write, starter, environment, c->order.folder);
	vec_free(&argv);
	mem_free(environment);
	if (c->pid < 0) {
		c->pid = 0;
		return err_errno(errnum, "start a command");
	}
	return NULL;
}

static void announce(struct child *c)
{
	if (c->announced)
		return;
	c->announced = true;
	if (c->order.ready)
		c->order.ready(c->order.user);
}

static void end(struct child *c, int status)
{
	pthread_mutex_lock(&c->all->lock);
	c->status = status;
	c->ended = true;
	void (*on_end)(void *user) = c->on_end;
	void *user = c->on_end_user;
	pthread_mutex_unlock(&c->all->lock);
	if (c->order.framed) {
		char text[40];
		int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		stream_write(c->stream, text, (size_t)snprintf(text, sizeof(text), "exit %d\n", code));
		stream_end(c->stream, false);
	} else {
		stream_end(c->stream, status != 0);
	}
	announce(c);
	if (on_end)
		on_end(user);
}

static void fail(struct child *c, struct err *err)
{
	pthread_mutex_lock(&c->all->lock);
	buf_printf(&c->said, "drdotnet: %s\n", err_text(err));
	pthread_mutex_unlock(&c->all->lock);
	err_free(err);
	end(c, 1 << 8);
}

static void forward(struct child *c, size_t which, const char *data, size_t len)
{
	if (which == FD_ERR) {
		pthread_mutex_lock(&c->all->lock);
		/* The last line counts. */
		if (c->said.len + len > STDERR_BYTES_MAX)
			buf_clear(&c->said);
		buf_add(&c->said, data, len);
		pthread_mutex_unlock(&c->all->lock);
	}
	if (c->order.framed) {
		char head[40];
		const char *word = c->sending_file ? "file" : which == FD_OUT ? "out" : "err";
		stream_write(c->stream, head, (size_t)snprintf(head, sizeof(head), "%s %zu\n", word, len));
		stream_write(c->stream, data, len);
	} else if (which == FD_OUT) {
		stream_write(c->stream, data, len);
	}
	if (which == FD_OUT || c->order.framed)
		announce(c);
}

/* At most what the stream takes. */
static void read_some(struct child *c, size_t which)
{
	static char data[READ_BYTES]; /* the main thread's */
	size_t room = stream_room(c->stream);
	size_t want = room > FRAME_BYTES ? MIN(room - FRAME_BYTES, sizeof(data)) : 0;
	if (stream_reader_gone(c->stream))
		want = sizeof(data); /* not needed, but the child must not block in a write */
	if (!want)
		return;
	ssize_t n = read(c->fds[which], data, want);
	if (n > 0)
		forward(c, which, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		fd_closep(&c->fds[which]);
}

/* What it left in its folder goes the way of its output. */
static bool open_file(struct child *c)
{
	DIR *d = c->order.folder ? opendir(c->order.folder) : NULL;
	int fd = -1;
	for (struct dirent *e; d && fd < 0 && (e = readdir(d));)
		if (e->d_type == DT_REG)
			fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (d)
		closedir(d);
	c->fds[FD_OUT] = fd;
	c->sending_file = fd >= 0;
	return fd >= 0;
}

static void reap(struct child *c)
{
	int status = 0;
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
	if (c->order.send_file && open_file(c)) {
		c->final_status = status;
		return;
	}
	if (!status && c->order.then && !c->stop_wanted) {
		struct err *err = spawn(c, c->order.then);
		child_words_free(c->order.then);
		c->order.then = NULL;
		if (err)
			fail(c, err);
		return;
	}
	end(c, status);
}

static void stop_if_wanted(struct child *c)
{
	pthread_mutex_lock(&c->all->lock);
	bool wanted = c->stop_wanted || c->client_seen_gone || stream_reader_gone(c->stream);
	int signal = c->stop_signal ? c->stop_signal : SIGTERM;
	pthread_mutex_unlock(&c->all->lock);
	if (!wanted || !c->pid)
		return;
	uint64_t now_ns = clock_mono_ns();
	if (!c->stop_ns) {
		c->stop_ns = now_ns;
		kill(c->pid, signal);
	} else if (now_ns - c->stop_ns > STOP_NS) {
		kill(c->pid, SIGKILL);
	}
}

static void remove_ended(struct children *all)
{
	for (size_t i = all->list.n; i-- > 0;) {
		struct child *c = all->list.v[i];
		if (!c->ended)
			continue;
		pthread_mutex_lock(&all->lock);
		memmove(&all->list.v[i], &all->list.v[i + 1], (all->list.n - i - 1) * sizeof(*all->list.v));
		all->list.n--;
		pthread_mutex_unlock(&all->lock);
		stream_on_room(c->stream, NULL, NULL);
		child_unref(c);
	}
}

void children_poll(struct children *all, struct pollfds *fds)
{
	pthread_mutex_lock(&all->lock);
	vec_each(c, &all->incoming)
		vec_push(&all->list, *c);
	vec_clear(&all->incoming);
	pthread_mutex_unlock(&all->lock);
	vec_each(each, &all->list) {
		struct child *c = *each;
		if (!c->started) {
			c->started = true;
			struct err *err = spawn(c, c->order.argv);
			if (err)
				fail(c, err);
		}
		bool room = stream_room(c->stream) > FRAME_BYTES || stream_reader_gone(c->stream);
		vec_push(fds, ((struct pollfd){ .fd = room ? c->fds[FD_OUT] : -1, .events = POLLIN }));
		vec_push(fds, ((struct pollfd){ .fd = room ? c->fds[FD_ERR] : -1, .events = POLLIN }));
		vec_push(fds,
			 ((struct pollfd){ .fd = c->client_seen_gone ? -1 : c->order.client_fd, .events = POLLRDHUP }));
	}
	remove_ended(all);
}

void children_turn(struct children *all, const struct pollfds *fds, size_t first)
{
	for (size_t i = 0; i < all->list.n; i++) {
		struct child *c = all->list.v[i];
		const struct pollfd *own = NULL;
		/* By descriptor: the list may have lost some since. */
		for (size_t f = first; f + 2 < fds->n; f += 3)
			if ((c->fds[FD_OUT] >= 0 && fds->v[f].fd == c->fds[FD_OUT]) ||
			    (c->fds[FD_ERR] >= 0 && fds->v[f + 1].fd == c->fds[FD_ERR]))
				own = &fds->v[f];
		if (own && own[0].revents && c->fds[FD_OUT] >= 0)
			read_some(c, FD_OUT);
		if (own && own[1].revents && c->fds[FD_ERR] >= 0)
			read_some(c, FD_ERR);
		if (own && own[2].revents)
			c->client_seen_gone = true;
		stop_if_wanted(c);
		if (c->fds[FD_OUT] >= 0 || c->fds[FD_ERR] >= 0)
			continue;
		if (c->pid)
			reap(c);
		else if (c->sending_file && !c->ended)
			end(c, c->final_status);
	}
	remove_ended(all);
}

void children_stop(struct children *all, bool now)
{
	pthread_mutex_lock(&all->lock);
	all->stopping = true;
	vec_each(each, &all->incoming)
		(*each)->stop_wanted = true;
	pthread_mutex_unlock(&all->lock);
	vec_each(each, &all->list)
		if ((*each)->pid)
			kill((*each)->pid, now ? SIGKILL : SIGTERM);
}

void children_free(struct children *all)
{
	if (!all)
		return;
	vec_each(c, &all->incoming)
		vec_push(&all->list, *c);
	vec_each(each, &all->list) {
		struct child *c = *each;
		if (c->pid) {
			kill(c->pid, SIGKILL);
			waitpid(c->pid, NULL, 0);
		}
		if (!c->ended)
			end(c, SIGKILL);
		child_unref(c);
	}
	vec_free(&all->incoming);
	vec_free(&all->list);
	pthread_mutex_destroy(&all->lock);
	mem_free(all);
}
