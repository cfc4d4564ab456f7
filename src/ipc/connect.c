#include "ipc/connect.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct err *connect_error(int errnum)
{
	switch (errnum) {
	case ECONNREFUSED:
	case ENOENT:
		return err_new(ERR_NOT_FOUND, "nobody listens on its diagnostics socket");
	case EACCES:
	case EPERM:
		return err_new(ERR_DENIED, "its diagnostics socket is open only to its own user and to root");
	case EAGAIN:
		return err_new(ERR_BUSY, "it no longer takes calls: its queue of callers is full");
	default:
		return err_errno(errnum, "connect to the diagnostics socket");
	}
}

/* A unix address holds 108 bytes. A longer path is reached through its folder, held open in *ret_folder. */
static struct err *make_address(const char *path, struct sockaddr_un *ret, int *ret_folder)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) < sizeof(ret->sun_path)) {
		memcpy(ret->sun_path, path, strlen(path) + 1);
		return NULL;
	}
	const char *slash = strrchr(path, '/');
	CLEANUP(mem_freep) char *folder = slash ? mem_strndup(path, (size_t)(slash - path)) : mem_strdup(".");
	*ret_folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_folder < 0)
		return connect_error(errno);
	int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", *ret_folder,
			 slash ? slash + 1 : path);
	if (n < 0 || (size_t)n >= sizeof(ret->sun_path))
		return err_new(ERR_USAGE, "the name of the diagnostics socket is too long: '%s'", path);
	return NULL;
}

static struct err *connect_to(const char *path, int flags, struct deadline deadline, int *ret_fd)
{
	struct sockaddr_un address;
	CLOSE_FD int folder = -1;
	TRY(make_address(path, &address, &folder));
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return err_errno(errno, "socket");
	/* The only way to wait for a place in the queue of a unix socket is to block in connect. */
	int ms = deadline_poll_ms(deadline);
	struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms > 0 ? ms % 1000 * 1000 : 1 };
	if (!(flags & SOCK_NONBLOCK) && ms >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return connect_error(errno);
	*ret_fd = fd_steal(&fd);
	return NULL;
}

struct err *connect_now(const char *socket, int *ret_fd)
{
	return connect_to(socket, SOCK_NONBLOCK, DEADLINE_NEVER, ret_fd);
}

struct err *connect_wait(const char *socket, struct deadline deadline, int *ret_fd)
{
	return connect_to(socket, 0, deadline, ret_fd);
}

/* A datagram socket cannot be connected to a listening stream socket, but the kernel checks first whether there is a
 * listener. */
int connect_probe(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool connect_worth(int probe_fd, const char *socket)
{
	struct sockaddr_un address;
	CLOSE_FD int folder = -1;
	struct err *err = make_address(socket, &address, &folder);
	bool known = !err && probe_fd >= 0;
	err_free(err);
	return !known || connect(probe_fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	       (errno != ECONNREFUSED && errno != ENOENT && errno != EACCES && errno != EPERM);
}

pid_t connect_peer(int fd)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ? 0 : peer.pid;
}

struct err *connect_send(int fd, const struct buf *message, struct deadline deadline)
{
	for (size_t done = 0; done < message->len;) {
		ssize_t n = send(fd, message->data + done, message->len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			TRY(fd_wait(fd, POLLOUT, deadline));
		else if (errno != EINTR)
			return err_errno(errno, "the runtime hung up");
	}
	return NULL;
}
