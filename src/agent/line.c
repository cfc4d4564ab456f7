/* The connection to drdotnet: a Unix socket in the folder that both share. */

#include "agent/agent.h"
#include "agent/sys.h"
#include <sys/socket.h>
#include <sys/un.h>

#define O_PATH_FOLDER (010000000 | 0200000)
#define BUFFER_BYTES (1 << 20)

static size_t length(const char *s, size_t max)
{
	size_t n = 0;
	while (n < max && s[n])
		n++;
	return n;
}

static long connect_in(int fd, int folder)
{
	/* A unix address holds 108 bytes, a folder's path may be longer. */
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = proc_descriptor_path(address.sun_path, folder);
	memcpy(address.sun_path + n, "/" WIRE_AGENT_SOCKET, sizeof("/" WIRE_AGENT_SOCKET));
	return SYS(connect, fd, &address, sizeof(address));
}

int line_open(const struct wire_agent_config *config, enum wire_agent_line line, int32_t pid)
{
	struct wire_agent_hello hello = {
		.magic = WIRE_AGENT_MAGIC, .version = WIRE_AGENT_VERSION, .line = line, .pid = pid
	};
	struct {
		int64_t sec, usec;
	} limit = { config->silence_ms / 1000, config->silence_ms % 1000 * 1000 };
	int size = BUFFER_BYTES;
	if (length(config->folder, sizeof(config->folder)) == sizeof(config->folder))
		return -EINVAL;
	int folder = sys_open(config->folder, O_PATH_FOLDER);
	if (folder < 0)
		return folder;
	int fd = (int)SYS(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long err = fd < 0 ? fd : 0;
	if (!err) {
		SYS(setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		SYS(setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		SYS(setsockopt, fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		err = connect_in(fd, folder);
	}
	SYS(close, folder);
	memcpy(hello.token, config->token, sizeof(hello.token));
	if (!err && !line_send(fd, &hello, sizeof(hello)))
		err = -EPIPE;
	if (!err)
		return fd;
	if (fd >= 0)
		SYS(close, fd);
	return (int)err;
}

bool line_send(int fd, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		long sent = SYS(sendto, fd, p, n, MSG_NOSIGNAL);
		if (sent == -EINTR)
			continue;
		if (sent <= 0)
			return false;
		p += sent;
		n -= (size_t)sent;
	}
	return true;
}

bool line_gone(int fd, uint64_t ms)
{
	struct sys_poll p = { .fd = fd, .events = SYS_POLLIN };
	return sys_poll(&p, 1, ms) > 0 && p.revents;
}
