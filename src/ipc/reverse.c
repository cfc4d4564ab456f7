#include "ipc/reverse.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/connect.h"
#include "ipc/wire.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ADVERTISE_BYTES 34
#define BACKLOG 64

/* Short paths only: a unix address holds 108 bytes, and the runtime has to fit it too. */
static const char *choose_base(void)
{
	const char *candidates[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
		const char *base = candidates[i];
		/* Commas and semicolons have a meaning in the setting. */
		if (str_empty(base) || base[0] != '/' || strlen(base) > 60 || strpbrk(base, ",;"))
			continue;
		if (access(base, W_OK | X_OK) == 0)
			return base;
	}
	return NULL;
}

struct err *reverse_choose(struct reverse *ret)
{
	uint64_t random;
	const char *base = choose_base();
	if (!base)
		return err_errno(errno, "cannot make a private folder in /tmp for the program to call us");
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_errno(errno, "a random name");
	*ret = (struct reverse){ .fd = -1 };
	ret->folder = mem_printf("%s/drdotnet-%016llx", base, (unsigned long long)random);
	ret->path = mem_printf("%s/port", ret->folder);
	return NULL;
}

struct err *reverse_listen(struct reverse *r)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	str_copy(address.sun_path, sizeof(address.sun_path), r->path);
	if (mkdir(r->folder, 0700) < 0)
		return err_errno(errno, "cannot make the folder '%s' for the program to call us", r->folder);
	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->fd >= 0 && bind(r->fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(r->fd, BACKLOG) == 0)
		return NULL;
	return err_errno(errno, "cannot listen at '%s'", r->path);
}

void reverse_close(struct reverse *r)
{
	fd_closep(&r->fd);
	if (r->path)
		unlink(r->path);
	if (r->folder)
		rmdir(r->folder);
	mem_free(r->path);
	mem_free(r->folder);
	*r = (struct reverse){ .fd = -1 };
}

struct err *reverse_accept(const struct reverse *r, struct deadline deadline, struct reverse_call *ret)
{
	uint8_t hello[ADVERTISE_BYTES];
	CLOSE_FD int fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "take the runtime's call");
	TRY(fd_read_full(fd, hello, sizeof(hello), deadline));
	if (memcmp(hello, "ADVR_V1", 8) != 0)
		return err_new(ERR_BAD_DATA, "somebody called who is no .NET runtime");
	*ret = (struct reverse_call){ .fd = fd, .pid = connect_peer(fd) };
	memcpy(ret->cookie, hello + 8, sizeof(ret->cookie));
	fd = -1;
	return NULL;
}

static struct err *ask(int fd, struct buf *request, struct deadline deadline)
{
	uint8_t reply[WIRE_MESSAGE_MAX];
	const uint8_t *payload;
	size_t size, len;
	uint32_t hresult;
	TRY(wire_end(request));
	TRY(connect_send(fd, request, deadline));
	TRY(fd_read_full(fd, reply, WIRE_HEADER_SIZE, deadline));
	TRY(wire_reply_size(reply, WIRE_HEADER_SIZE, &size));
	TRY(fd_read_full(fd, reply + WIRE_HEADER_SIZE, size - WIRE_HEADER_SIZE, deadline));
	TRY(wire_reply(reply, size, &payload, &len, &hresult));
	return hresult ? wire_refusal(hresult) : NULL;
}

struct err *reverse_resume(int fd, struct deadline deadline)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	wire_begin(&request, WIRE_SET_PROCESS, WIRE_RESUME_RUNTIME);
	return ask(fd, &request, deadline);
}

struct err *reverse_set_env(int fd, const char *name, const char *value, struct deadline deadline)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	wire_begin(&request, WIRE_SET_PROCESS, WIRE_SET_ENVIRONMENT);
	wire_string(&request, name);
	wire_string(&request, value);
	return ask(fd, &request, deadline);
}
