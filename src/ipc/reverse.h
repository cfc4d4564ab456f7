#pragma once
/* A reverse diagnostics port: runtimes that are started with it connect to us, before their first instruction when told
 * so, and each connection takes one command.
 *
 * The socket is in a folder of its own that only we can enter, and is removed with the listener. A connection begins
 * with 34 bytes: "ADVR_V1\0", the runtime's cookie (16), u64 its pid as it sees itself, u16 0. */

#include "base/clock.h"
#include "base/err.h"

struct reverse {
	char *folder, *path;
	int fd; /* poll for POLLIN */
};
/* Chooses names for the folder and the socket, and creates nothing yet: a child process that removes them when we are
 * killed can be started first. */
struct err *reverse_choose(struct reverse *ret) MUST_USE;
/* Makes the folder and listens. */
struct err *reverse_listen(struct reverse *r) MUST_USE;
void reverse_close(struct reverse *r);

struct reverse_call {
	int fd; /* takes one command */
	uint8_t cookie[16];
	pid_t pid; /* as we see it; 0 when it is hidden from us */
};
/* Accepts the next connection, which must be pending. The caller closes its fd. */
struct err *reverse_accept(const struct reverse *r, struct deadline deadline, struct reverse_call *ret) MUST_USE;

/* Commands over a connection; the runtime closes it after each and connects again. */
struct err *reverse_resume(int fd, struct deadline deadline) MUST_USE;
/* A value of NULL removes the variable. */
struct err *reverse_set_env(int fd, const char *name, const char *value, struct deadline deadline) MUST_USE;
