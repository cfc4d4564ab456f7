/* The helper process: started with exactly the descriptors it needs, asked one question at a time, ended when an answer
 * is late, broken or the last. Its end counts as an answer too. */

#include "base/fd.h"
#include "base/str.h"
#include "dac/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PROGRAM "drdotnet-dachost"
#define MAX_RESTARTS 32
#define IMPATIENT_MS 2000 /* after some answers that did not come */
#define MAX_ANSWER ((size_t)512 << 20)
#define MAX_HELLO 65536
/* Of all its life, beside the time limit of each answer. */
#define CPU_SECONDS 600
/* A killed process is gone in microseconds unless the kernel itself is stuck in a read. */
#define REAP_MS 2000

struct helper {
	struct helper_start start;
	char *program;
	int library_fd, setup_fd;
	int socket; /* -1 while there is no process */
	pid_t pid;
	uint32_t last_id;
	unsigned restarts;
};

/* ---- setup ---- */

static void add_pieces(const struct image *img, struct buf *out)
{
	size_t n;
	const struct image_piece *pieces = image_pieces(img, &n);
	for (size_t i = 0; i < n; i++) {
		struct wire_dac_piece p = { .start = pieces[i].start,
					    .end = pieces[i].end,
					    .offset = pieces[i].offset,
					    .fd = pieces[i].fd == IMAGE_FD_ZERO ? WIRE_DAC_ZERO_FD : pieces[i].fd };
		buf_add(out, &p, sizeof(p));
	}
}

static void add_threads(const struct image *img, struct buf *out)
{
	size_t n;
	const struct image_thread *threads = image_threads(img, &n);
	_Static_assert(sizeof(threads->regs) == sizeof((struct wire_dac_regs){ 0 }.regs), "27 registers");
	for (size_t i = 0; i < n; i++) {
		struct wire_dac_regs r = { .tid = (uint32_t)threads[i].tid, .has_regs = threads[i].has_regs };
		memcpy(r.regs, &threads[i].regs, sizeof(r.regs));
		if (threads[i].has_fp)
			memcpy(r.fxsave, threads[i].fp, sizeof(r.fxsave));
		buf_add(out, &r, sizeof(r));
	}
}

/* A sealed memory file: the helper maps it, and it cannot be changed after it was checked. */
static struct err *make_setup(const struct helper_start *start, int *ret_fd)
{
	size_t n_fds, n_pieces, n_threads;
	image_fds(start->image, &n_fds);
	image_pieces(start->image, &n_pieces);
	image_threads(start->image, &n_threads);
	if (n_fds > WIRE_DAC_MAX_FDS || n_pieces > WIRE_DAC_MAX_PIECES || n_threads > WIRE_DAC_MAX_THREADS)
		return err_new(ERR_UNSUPPORTED, "the image has too many pieces (%zu) or threads (%zu)", n_pieces,
			       n_threads);
	CLEANUP(buf_free) struct buf setup = { 0 };
	struct wire_dac_setup head = {
		.magic = WIRE_DAC_MAGIC,
		.version = WIRE_DAC_VERSION,
		.runtime_base = start->runtime_base,
		.n_fds = (uint32_t)n_fds,
		.n_pieces = (uint32_t)n_pieces,
		.n_threads = (uint32_t)n_threads,
		.cpu_seconds = CPU_SECONDS,
		.memory_bytes = start->memory_bytes,
	};
	buf_add(&setup, &head, sizeof(head));
	add_pieces(start->image, &setup);
	add_threads(start->image, &setup);
	CLOSE_FD int fd = memfd_create("drdotnet-dac", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno(errno, "a memory file could not be made");
	TRY(fd_write_full(fd, setup.data, setup.len, DEADLINE_NEVER));
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return err_errno(errno, "a memory file could not be sealed");
	*ret_fd = fd_steal(&fd);
	return NULL;
}

/* ---- process ---- */

static char *program_path(const char *given)
{
	const char *env = getenv("DRDOTNET_DACHOST");
	if (!str_empty(given))
		return mem_strdup(given);
	if (!str_empty(env))
		return mem_strdup(env);
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return mem_strdup(PROGRAM);
	self[n] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		slash[1] = 0;
	return mem_printf("%s" PROGRAM, self);
}

struct err *helper_check(const char *given)
{
	CLEANUP(mem_freep) char *program = program_path(given);
	if (access(program, X_OK) == 0 || errno != ENOENT)
		return NULL;
	return err_new(
		ERR_UNSUPPORTED,
		"'%s' is missing, the part of drdotnet that reads the memory of .NET: install it beside drdotnet",
		program);
}

/* Descriptors move to their places in two steps, so that none is overwritten before it was copied. */
struct moves {
	VEC(int) high; /* copies above all places; the i-th goes to WIRE_DAC_FD_SOCKET + i */
};

static void moves_fini(struct moves *m)
{
	vec_each(fd, &m->high)
		fd_closep(fd);
	vec_free(&m->high);
}

static bool moves_add(struct moves *m, int fd, int above)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, above);
	if (high < 0)
		return false;
	vec_push(&m->high, high);
	return true;
}

static bool moves_make(struct moves *m, const struct helper *h, int socket)
{
	size_t n_fds;
	const int *fds = image_fds(h->start.image, &n_fds);
	int above = (int)(WIRE_DAC_FD_IMAGE + n_fds);
	bool ok = moves_add(m, socket, above) && moves_add(m, h->setup_fd, above) && moves_add(m, h->library_fd, above);
	for (size_t i = 0; ok && i < n_fds; i++)
		ok = moves_add(m, fds[i], above);
	return ok;
}

static int spawn(struct helper *h, const struct moves *moves)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	char *const argv[] = { (char *)(uintptr_t)PROGRAM, NULL };
	/* No variable of ours: the loader and the library read some. */
	char *const env[] = { NULL };
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
	for (size_t i = 0; i < moves->high.n; i++)
		posix_spawn_file_actions_adddup2(&actions, moves->high.v[i], WIRE_DAC_FD_SOCKET + (int)i);
	int failed = posix_spawn(&h->pid, h->program, &actions, &attributes, argv, env);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return failed;
}

/* Waits until it has ended, at most ms; true with its status. */
static bool reap(struct helper *h, uint64_t ms, int *ret_status)
{
	CLOSE_FD int pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	if (pidfd >= 0)
		err_ignore(fd_wait(pidfd, POLLIN, deadline_in_ms(ms)));
	return waitpid(h->pid, ret_status, pidfd >= 0 ? WNOHANG : 0) == h->pid;
}

/* Ends it and says how it ended: "crashed (signal 11)". own_end: it may be about to end by itself. */
static struct fmt_how {
	char s[80];
} helper_end(struct helper *h, bool own_end)
{
	struct fmt_how how = { "ended" };
	int status = 0;
	if (h->socket < 0)
		return how;
	fd_closep(&h->socket);
	bool reaped = own_end && reap(h, REAP_MS / 2, &status);
	if (!reaped) {
		kill(h->pid, SIGKILL);
		reaped = reap(h, REAP_MS, &status);
	}
	h->pid = 0;
	if (!reaped || !WIFSIGNALED(status))
		return how;
	switch (WTERMSIG(status)) {
	case SIGSYS:
		str_copy(how.s, sizeof(how.s), "made a system call that is forbidden to it");
		break;
	case SIGXCPU:
		str_copy(how.s, sizeof(how.s), "used up its CPU time");
		break;
	case SIGKILL:
		str_copy(how.s, sizeof(how.s), "was killed");
		break;
	default:
		snprintf(how.s, sizeof(how.s), "crashed (signal %d)", WTERMSIG(status));
	}
	return how;
}

/* ---- messages ---- */

static struct err *send_bytes(int fd, const void *data, size_t len, struct deadline deadline)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			TRY(fd_wait(fd, POLLOUT, deadline));
			continue;
		}
		if (n < 0)
			return err_errno(errno, "the helper does not listen");
		data = (const char *)data + n;
		len -= (size_t)n;
	}
	return NULL;
}

/* Replies up to the last. *ret_failed: the helper itself says that there is no answer, in ret. */
static struct err *receive(struct helper *h, enum wire_dac_kind kind, uint32_t id, size_t max, struct deadline deadline,
			   struct buf *ret, bool *ret_failed, int32_t *ret_hr)
{
	struct wire_dac_reply head;
	do {
		TRY(fd_read_full(h->socket, &head, sizeof(head), deadline));
		if (head.kind != kind || head.id != id || head.length > WIRE_DAC_MAX_REPLY ||
		    head.length > max - ret->len)
			return err_new(ERR_BAD_DATA, "the answer is not one");
		if (head.flags & WIRE_DAC_FAILED)
			buf_clear(ret);
		char *room = buf_room(ret, head.length + 1u); /* texts are read as strings */
		if (!room)
			return err_new(ERR_BAD_DATA, "the answer is too long");
		TRY(fd_read_full(h->socket, room, head.length, deadline));
		room[head.length] = '\0';
		ret->len += head.length;
	} while (!(head.flags & WIRE_DAC_END));
	*ret_failed = head.flags & WIRE_DAC_FAILED;
	*ret_hr = head.hr;
	return NULL;
}

/* A failed exchange ends the process; the error says which of the ways it was. */
static struct err *broken(struct helper *h, struct err *err)
{
	enum err_kind kind = err_kind(err);
	struct fmt_how how = helper_end(h, kind == ERR_IO);
	if (kind == ERR_TIMEOUT) {
		uint64_t waited = h->start.answer_ms;
		h->start.answer_ms = MIN(waited, MAX(waited / 4, (uint64_t)IMPATIENT_MS)); /* more of them will come */
		err_free(err);
		return err_new(ERR_TIMEOUT, "the data-access library gave no answer within %llu ms",
			       (unsigned long long)waited);
	}
	if (kind == ERR_BAD_DATA)
		return err_wrap(err, "the data-access library");
	err_free(err);
	return err_new(ERR_IO, "the data-access library %s", how.s);
}

static struct err *stage_error(const struct wire_dac_hello *hello, const char *text)
{
	switch (hello->stage) {
	case WIRE_DAC_NO_SANDBOX:
		return err_new(ERR_UNSUPPORTED, "no sandbox for the data-access library: %s", text);
	case WIRE_DAC_NEEDS_LIBRARY:
		return err_new(ERR_NOT_FOUND, "the data-access library needs %s, which this system lacks", text);
	case WIRE_DAC_NOT_LOADABLE:
		return err_new(ERR_UNSUPPORTED, "the data-access library cannot be loaded here: %s", text);
	case WIRE_DAC_NOT_A_DAC:
		return err_new(ERR_BAD_DATA, "it is no data-access library");
	case WIRE_DAC_REFUSED:
		return err_new(ERR_UNSUPPORTED, "the data-access library does not fit the runtime (0x%08x)",
			       (unsigned)hello->hr);
	default:
		return err_new(ERR_BAD_DATA, "the helper refused its setup");
	}
}

static struct deadline answer_by(const struct helper *h)
{
	struct deadline one = deadline_in_ms(h->start.answer_ms), all = h->start.deadline;
	return all.at_ns && all.at_ns < one.at_ns ? all : one;
}

static struct err *read_hello(struct helper *h, enum wire_dac_stage *ret_stage)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	struct wire_dac_hello hello;
	bool failed = false;
	int32_t hr = 0;
	struct err *err = receive(h, WIRE_DAC_HELLO, 0, MAX_HELLO, answer_by(h), &in, &failed, &hr);
	if (err)
		return broken(h, err);
	if (failed || in.len < sizeof(hello))
		return broken(h, err_new(ERR_BAD_DATA, "the answer is not one"));
	memcpy(&hello, in.data, sizeof(hello));
	if (hello.version != WIRE_DAC_VERSION) {
		helper_end(h, false);
		return err_new(ERR_UNSUPPORTED, "'%s' is of another version of drdotnet", h->program);
	}
	if (hello.stage == WIRE_DAC_READY)
		return NULL;
	*ret_stage = hello.stage;
	helper_end(h, false);
	return stage_error(&hello, in.data + sizeof(hello));
}

static struct err *helper_begin(struct helper *h, enum wire_dac_stage *ret_stage)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_errno(errno, "a socket pair could not be made");
	CLOSE_FD int theirs = pair[1];
	CLEANUP(moves_fini) struct moves moves = { 0 };
	h->socket = pair[0];
	int failed = moves_make(&moves, h, theirs) ? spawn(h, &moves) : errno;
	if (failed) {
		fd_closep(&h->socket);
		return err_errno(failed, "'%s' could not be started", h->program);
	}
	/* Our copies of the helper's end must be closed, or its end would not be noticed. */
	fd_closep(&theirs);
	moves_fini(&moves);
	return read_hello(h, ret_stage);
}

/* ---- the interface ---- */

struct err *helper_new(const struct helper_start *start, struct helper **ret, enum wire_dac_stage *ret_stage)
{
	CLEANUP(helper_freep) struct helper *h = mem_zalloc(sizeof(*h));
	*h = (struct helper){ .start = *start, .library_fd = -1, .setup_fd = -1, .socket = -1 };
	*ret_stage = WIRE_DAC_READY;
	h->program = program_path(start->program);
	h->library_fd = fcntl(start->library_fd, F_DUPFD_CLOEXEC, 3);
	if (h->library_fd < 0)
		return err_errno(errno, "a descriptor could not be copied");
	TRY(make_setup(start, &h->setup_fd));
	TRY(helper_begin(h, ret_stage));
	*ret = STEAL(h);
	return NULL;
}

void helper_free(struct helper *h)
{
	if (!h)
		return;
	helper_end(h, false);
	fd_closep(&h->library_fd);
	fd_closep(&h->setup_fd);
	mem_free(h->program);
	mem_free(h);
}

unsigned helper_restarts(const struct helper *h)
{
	return h->restarts;
}

static struct err *restart(struct helper *h)
{
	enum wire_dac_stage stage;
	if (h->restarts >= MAX_RESTARTS)
		return err_new(ERR_IO, "the data-access library ended %u times; it is not asked again", h->restarts);
	h->restarts++;
	return helper_begin(h, &stage);
}

struct err *helper_ask(struct helper *h, enum wire_dac_kind kind, const uint64_t *values, size_t n, struct buf *ret)
{
	if (h->start.deadline.at_ns && deadline_passed(h->start.deadline))
		return err_new(ERR_TIMEOUT, "there is no time left to ask the data-access library");
	if (h->socket < 0)
		TRY(restart(h));
	struct deadline deadline = answer_by(h);
	struct wire_dac_request head = { .length = (uint32_t)(n * sizeof(*values)), .kind = kind, .id = ++h->last_id };
	bool failed = false;
	int32_t hr = 0;
	struct err *err = send_bytes(h->socket, &head, sizeof(head), deadline);
	if (!err)
		err = send_bytes(h->socket, values, head.length, deadline);
	if (!err)
		err = receive(h, kind, head.id, MAX_ANSWER, deadline, ret, &failed, &hr);
	if (err)
		return broken(h, err);
	return failed ? err_new(ERR_BAD_DATA, "%s (0x%08x)", buf_cstr(ret), (unsigned)hr) : NULL;
}
