/* drdotnet _health: does the server on this machine answer? For the container's health check. */

#include "base/fd.h"
#include "base/str.h"
#include "cli/commands.h"
#include "server/server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TIMEOUT_MS 3000

/* The port of ADDR:PORT; whatever it listens on, it can be reached from its own machine. */
static struct err *port_of(const char *listen, uint16_t *ret)
{
	const char *colon = strrchr(listen, ':');
	uint64_t port;
	if (!str_to_u64(colon ? colon + 1 : listen, &port) || !port || port > UINT16_MAX)
		return err_new(ERR_USAGE, "'%s' names no port", listen);
	*ret = (uint16_t)port;
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	static const char question[] = "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
	const char *env = getenv("DRDOTNET_LISTEN");
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct deadline deadline = deadline_in_ms(TIMEOUT_MS);
	char answer[12];
	uint16_t port = 0;
	(void)ret_exit;
	TRY(port_of(args->n_words ? args->words[0] : !str_empty(env) ? env : SERVER_LISTEN_DEFAULT, &port));
	address.sin_port = htons(port);
	CLOSE_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(errno, "nobody serves on port %u", port);
	TRY(fd_write_full(fd, question, sizeof(question) - 1, deadline));
	TRY(fd_read_full(fd, answer, sizeof(answer), deadline));
	return !memcmp(answer + 8, " 200", 4) ? NULL : err_new(ERR_IO, "the server on port %u is not well", port);
}

const struct command cmd_health = {
	.name = "_health",
	.words = "[ADDR:PORT]",
	.summary = "Ask a server on this machine whether it is well (for the health check of a container).",
	.example = "drdotnet _health 127.0.0.1:9292",
	.max_words = 1,
	.hidden = true,
	.run = run,
};
