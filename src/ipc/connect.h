#pragma once
/* Connecting to a diagnostics socket and sending one request. Private to ipc. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

/* At once or not at all: ERR_BUSY when its queue of callers is full. The descriptor never blocks. */
struct err *connect_now(const char *socket, int *ret_fd) MUST_USE;
/* Waits for a place in the queue; the descriptor blocks. */
struct err *connect_wait(const char *socket, struct deadline deadline, int *ret_fd) MUST_USE;
/* May somebody be called there, and by us? Much cheaper than a call, and unnoticed. probe_fd is a socket of
 * connect_probe, good for any number of paths; true when it is -1, since nothing is known then. */
bool connect_worth(int probe_fd, const char *socket);
int connect_probe(void);
/* Who listens at the far end, in our pid namespace; 0 when we cannot see it. */
pid_t connect_peer(int fd);
/* Without SIGPIPE. */
struct err *connect_send(int fd, const struct buf *message, struct deadline deadline) MUST_USE;
