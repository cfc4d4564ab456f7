#include "base/closer.h"
#include "base/fd.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BATCH 253 /* descriptors in a message: the kernel's SCM_MAX_FD */
#define REAP_MS 20

struct closer {
	int line;
	pid_t pid;
};

union control {
	char bytes[CMSG_SPACE(BATCH * sizeof(int))];
	struct cmsghdr align;
};

/* ---- in the closer: only calls that are safe after a fork ---- */

static void close_received(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const unsigned char *at = CMSG_DATA(c);
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, at + i * sizeof(fd), sizeof(fd));
			close(fd);
		}
	}
}

static NORETURN void serve(int line)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "drdotnet-closer");
	/* A closer that kept our end of the line would never hear that we ended, and keep open all that we had open. */
	if (dup2(line, 0) < 0 || close_range(1, ~0u, 0) < 0)
		_exit(0);
	for (;;) {
		char byte;
		union control control;
		struct iovec io = { .iov_base = &byte, .iov_len = 1 };
		struct msghdr m = {
			.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
		};
		ssize_t got = recvmsg(0, &m, MSG_CMSG_CLOEXEC);
		if (got <= 0)
			_exit(0);
		close_received(&m);
	}
}

/* ---- here ---- */

struct closer *closer_new(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return NULL;
	pid_t pid = fork();
	if (pid == 0)
		serve(ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return NULL;
	}
	struct closer *c = mem_zalloc(sizeof(*c));
	*c = (struct closer){ .line = ends[0], .pid = pid };
	return c;
}

static bool send_batch(struct closer *c, const int *fds, size_t n)
{
	char byte = 0;
	union control control = { 0 };
	struct iovec io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(n * sizeof(int))
	};
	struct cmsghdr *head = &control.align;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(head), fds, n * sizeof(int));
	return sendmsg(c->line, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

void closer_take(struct closer *c, const int *fds, size_t n)
{
	for (size_t at = 0; c && at < n; at += BATCH)
		/* When it has ended or is too far behind, the descriptors are closed by the loop below. */
		(void)!send_batch(c, fds + at, MIN(n - at, (size_t)BATCH));
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Usually the closer ends within microseconds. Reaped here, it leaves no zombie to the init process. */
static void reap(pid_t pid)
{
	CLOSE_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = { .fd = fd, .events = POLLIN };
	if (fd >= 0)
		poll(&ended, 1, REAP_MS);
	waitpid(pid, NULL, WNOHANG);
}

void closer_free(struct closer *c)
{
	if (!c)
		return;
	close(c->line);
	reap(c->pid);
	mem_free(c);
}
