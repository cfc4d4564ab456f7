#include "image/lock.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/proc.h"
#include "target/target.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DOOR_ROOM 64	   /* connections that the kernel queues for the holder; each learns the holder's pid */
#define KNOCK_AGAIN_MS 200 /* between two attempts when that queue is full: nothing signals when it has room */

static socklen_t lock_name(const struct target *t, const uint8_t *cookie, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	char *name = ret->sun_path + 1; /* a first NUL: no file */
	size_t room = sizeof(ret->sun_path) - 1;
	int n = snprintf(name, room, "drdotnet-image-");
	if (cookie)
		for (size_t i = 0; i < 16; i++)
			n += snprintf(name + n, room - (size_t)n, "%02x", cookie[i]);
	else
		n += snprintf(name + n, room - (size_t)n, "%d-%llu", t->pid, (unsigned long long)t->start_ticks);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* 0 = no holder, -1 = one that we cannot see. *ret_fd is closed by the holder when it is done, or is -1. */
static pid_t knock(const struct sockaddr_un *name, socklen_t len, int *ret_fd)
{
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	*ret_fd = -1;
	if (fd < 0)
		return 0;
	/* The holder accepts no connections: once the queue is full, the next one is refused and tries again. */
	if (connect(fd, (const struct sockaddr *)name, len) < 0)
		return errno == EAGAIN ? -1 : 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return 0;
	*ret_fd = fd_steal(&fd);
	return peer.pid ? peer.pid : -1;
}

static pid_t holder(const struct sockaddr_un *name, socklen_t len)
{
	CLOSE_FD int fd = -1;
	return knock(name, len, &fd);
}

static struct err *busy(pid_t pid)
{
	if (pid > 0)
		return err_new(ERR_BUSY, "process %d is examining it already; wait until it is done", pid);
	return err_new(ERR_BUSY, "someone else is examining it already; wait until they are done");
}

struct err *lock_take(const struct target *target, const uint8_t *cookie, int *ret_fd)
{
	struct sockaddr_un name;
	socklen_t len = lock_name(target, cookie, &name);
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(errno, "make a lock");
	if (bind(fd, (const struct sockaddr *)&name, len) < 0) {
		if (errno == EADDRINUSE)
			return busy(holder(&name, len));
		return err_errno(errno, "take a lock");
	}
	if (listen(fd, DOOR_ROOM) < 0)
		return err_errno(errno, "take a lock");
	*ret_fd = fd_steal(&fd);
	return NULL;
}

/* By connecting: taking and releasing the lock would disturb another program that really wants it. */
struct err *lock_probe(const struct target *target, const uint8_t *cookie)
{
	struct sockaddr_un name;
	socklen_t len = lock_name(target, cookie, &name);
	pid_t pid = holder(&name, len);
	return pid ? busy(pid) : NULL;
}

struct err *image_wait_turn(const struct target *target, const struct image_turn *turn, bool *ret_waited)
{
	struct sockaddr_un name;
	socklen_t len = lock_name(target, turn->cookie, &name);
	*ret_waited = false;
	for (;;) {
		CLOSE_FD int fd = -1;
		pid_t pid = knock(&name, len, &fd);
		struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
					{ .fd = turn->cancel_fd > 0 ? turn->cancel_fd : -1, .events = POLLIN } };
		if (!pid)
			return NULL;
		if (deadline_passed(turn->deadline))
			return busy(pid);
		if (!*ret_waited && turn->waiting)
			turn->waiting(turn->user, pid);
		*ret_waited = true;
		int ms = deadline_poll_ms(turn->deadline);
		if (poll(fds, 2, fd >= 0 ? ms : MIN(ms, KNOCK_AGAIN_MS)) < 0 && errno != EINTR)
			return err_errno(errno, "wait for its turn");
		if (fds[1].revents)
			return err_new(ERR_CANCELLED, "cancelled while it waited for its turn");
	}
}

struct err *lock_take_in_turn(const struct target *target, const struct image_turn *turn, int *ret_fd)
{
	for (;;) {
		bool waited;
		struct err *err = lock_take(target, turn->cookie, ret_fd);
		if (!err || err_kind(err) != ERR_BUSY)
			return err;
		err_free(err);
		TRY(image_wait_turn(target, turn, &waited));
	}
}

struct image_turn lock_turn(const struct image_limits *limits)
{
	return (struct image_turn){ .cookie = limits ? limits->cookie : NULL,
				    .deadline = deadline_in_ms(limits ? limits->turn_ms : 0),
				    .cancel_fd = limits ? limits->cancel_fd : -1 };
}

/* ---- children ---- */

/* Field 38 of stat, the 36th behind the name: the signal its parent gets at its end. */
static bool exit_signal_of(const char *stat, int *ret)
{
	const char *p = strrchr(stat, ')');
	for (int field = 2; p && field < 38; field++) {
		p = strchr(p + 1, ' ');
	}
	if (!p)
		return false;
	*ret = atoi(p + 1);
	return true;
}

static void look_at_child(const char *proc, pid_t pid, struct lock_children *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/stat", proc, pid);
	struct proc_stat stat;
	int exit_signal;
	struct err *err = file_read(path, 8192, &text);
	bool ok = !err && proc_parse_stat(text.data, text.len, &stat) && exit_signal_of(text.data, &exit_signal);
	err_free(err);
	if (!ok || exit_signal != 0)
		return;
	if (stat.state == 'X')
		return;
	if (stat.state != 'Z') {
		ret->alive = pid;
		return;
	}
	CLEANUP(buf_free) struct buf more = { 0 };
	CLEANUP(mem_freep) char *status_path = mem_printf("%s/%d/status", proc, pid);
	struct proc_status status;
	err = file_read(status_path, 1 << 20, &more);
	ok = !err && proc_parse_status(more.data, more.len, &status);
	err_free(err);
	if (!ok || ret->n_dead == ARRAY_SIZE(ret->dead))
		return;
	ret->dead[ret->n_dead] = pid;
	ret->dead_ns[ret->n_dead++] = status.ns_pid ? status.ns_pid : pid;
}

void lock_find_children(const char *proc, pid_t pid, struct lock_children *ret)
{
	CLEANUP(mem_freep) char *folder = mem_printf("%s/%d/task", proc, pid);
	DIR *dir = opendir(folder);
	*ret = (struct lock_children){ 0 };
	for (struct dirent *e; dir && (e = readdir(dir));) {
		CLEANUP(buf_free) struct buf text = { 0 };
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s/children", folder, e->d_name);
		struct err *err = e->d_name[0] == '.' ? NULL : file_read(path, 1 << 20, &text);
		err_free(err);
		for (char *p = text.data, *end; p && *p; p = end) {
			pid_t child = (pid_t)strtol(p, &end, 10);
			if (end == p)
				break;
			look_at_child(proc, child, ret);
			end += strspn(end, " ");
		}
	}
	if (dir)
		closedir(dir);
}
