#pragma once
/* Connecting to a diagnostics socket and sending one request. Private to ipc. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

/* At once or not at all: ERR_BUSY when its queue of callers is full. The descriptor never blocks. */
struct err *connect_now(const char *socket, int *ret_fd) MUST_USE;
/* Waits for a place in the queue; the descriptor blocks. */
struct err *connect_wait(const char *socket, struct deadline deadline, int *ret_fd) MUST_USE;
/* Has nobody bound that path? Much cheaper than a call, and unnoticed by whoever has. probe_fd is a socket of
 * connect_probe, good for any number of paths; -1 = not known, so false. */
bool connect_nobody(int probe_fd, const char *socket);
int connect_probe(void);
/* Who listens at the far end, in our pid namespace; 0 when we cannot see it. */
pid_t connect_peer(int fd);
/* Without SIGPIPE. */
struct err *connect_send(int fd, const struct buf *message, struct deadline deadline) MUST_USE;
