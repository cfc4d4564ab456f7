/* Preloaded into drdotnet: whoever closes the last descriptor of a perf event stands still until the fifo named by
 * GATE_CLOSE has a writer, or is gone. A descriptor that was passed to another process before is not the last one. So
 * does a kernel behave that takes its time to close them, only without any end. */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS 65536
static bool passed[FDS];

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	long sent = syscall(SYS_sendmsg, fd, m, flags);
	struct cmsghdr *c = m->msg_controllen ? CMSG_FIRSTHDR(m) : NULL;
	if (sent < 0 || !c || c->cmsg_type != SCM_RIGHTS)
		return sent;
	for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
		int one;
		memcpy(&one, CMSG_DATA(c) + i * sizeof(one), sizeof(one));
		if (one >= 0 && one < FDS)
			passed[one] = true;
	}
	return sent;
}

static bool is_last_of_perf(int fd)
{
	char path[32], name[64] = { 0 };
	if (fd >= 0 && fd < FDS && passed[fd]) {
		passed[fd] = false;
		return false;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "[perf_event]");
}

__attribute__((visibility("default"))) int close(int fd)
{
	const char *gate = getenv("GATE_CLOSE");
	if (gate && is_last_of_perf(fd)) {
		long at = syscall(SYS_openat, AT_FDCWD, gate, O_RDONLY | O_CLOEXEC);
		if (at >= 0)
			syscall(SYS_close, at);
	}
	return (int)syscall(SYS_close, fd);
}
