#include "http/local.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 64

struct http_local_place {
	int folder;
	char name[32];
	struct sockaddr_un address;
};

static void place_fini(struct http_local_place *p)
{
	fd_closep(&p->folder);
}

/* By the descriptor of the folder: an address has 108 bytes only, and a home may be longer. */
static struct err *place_open(const char *home, unsigned port, struct http_local_place *p)
{
	p->folder = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->folder < 0)
		return err_errno(errno, "'%s'", home);
	snprintf(p->name, sizeof(p->name), "%u.sock", port);
	p->address.sun_family = AF_UNIX;
	snprintf(p->address.sun_path, sizeof(p->address.sun_path), "/proc/self/fd/%d/%s", p->folder, p->name);
	return NULL;
}

static int connect_place(const struct http_local_place *p)
{
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&p->address, sizeof(p->address)) < 0)
		return -1;
	return fd_steal(&fd);
}

/* What a server that was killed left behind. */
static struct err *clear(const struct http_local_place *p, const char *home)
{
	struct stat st;
	if (fstatat(p->folder, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	CLOSE_FD int other = connect_place(p);
	if (other >= 0 || errno == EAGAIN)
		return err_new(ERR_BUSY, "another server has '%s/%s'", home, p->name);
	if (!S_ISSOCK(st.st_mode))
		return err_new(ERR_DENIED, "'%s/%s' is no socket", home, p->name);
	unlinkat(p->folder, p->name, 0);
	return NULL;
}

struct err *http_local_listen(const char *home, unsigned port, int *ret)
{
	CLEANUP(place_fini) struct http_local_place p = { .folder = -1 };
	TRY(place_open(home, port, &p));
	TRY(clear(&p, home));
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The file gets the mode of its socket: it is never there with another one. */
	if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&p.address, sizeof(p.address)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_errno(errno, "listen on '%s/%s'", home, p.name);
	*ret = fd_steal(&fd);
	return NULL;
}

void http_local_remove(const char *home, unsigned port)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%u.sock", home, port);
	unlink(path);
}

enum http_local_peer http_local_peer(int fd, uid_t *ret_uid)
{
	struct ucred peer;
	int domain = 0;
	socklen_t len = sizeof(domain);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX)
		return HTTP_LOCAL_NONE;
	len = sizeof(peer);
	*ret_uid = (uid_t)-1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return HTTP_LOCAL_STRANGER;
	*ret_uid = peer.uid;
	/* A process that we do not see has the pid 0; its root is not ours. */
	return peer.pid > 0 && (peer.uid == 0 || peer.uid == geteuid()) ? HTTP_LOCAL_TRUSTED : HTTP_LOCAL_STRANGER;
}

struct err *http_local_connect(unsigned port, struct deadline deadline, int *ret)
{
	CLEANUP(mem_freep) char *home = NULL;
	CLEANUP(place_fini) struct http_local_place p = { .folder = -1 };
	uid_t uid;
	TRY(home_path(&home));
	TRY(place_open(home, port, &p));
	CLOSE_FD int fd = connect_place(&p);
	if (fd < 0)
		return err_new(ERR_NOT_FOUND, "no server of the home '%s' listens on port %u", home, port);
	TRY(fd_wait(fd, POLLOUT, deadline));
	if (http_local_peer(fd, &uid) != HTTP_LOCAL_TRUSTED)
		return err_new(ERR_NOT_FOUND, "'%s/%s' is no server of ours", home, p.name);
	*ret = fd_steal(&fd);
	return NULL;
}
