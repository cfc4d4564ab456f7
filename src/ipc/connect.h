#pragma once
/* Connecting to a diagnostics socket and sending one request. Private to ipc. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

/* Does not wait: ERR_BUSY when the listener's queue is full. The descriptor is non-blocking. */
struct err *connect_now(const char *socket, int *ret_fd) MUST_USE;
/* Waits for a place in the listener's queue; the descriptor is blocking. */
struct err *connect_wait(const char *socket, struct deadline deadline, int *ret_fd) MUST_USE;
/* Is there a listener, and may we connect to it? Much cheaper than connecting, and not noticed by the listener.
 * probe_fd is a socket of connect_probe, usable for any number of paths; true when it is -1, since nothing is known
 * then. */
bool connect_worth(int probe_fd, const char *socket);
int connect_probe(void);
/* The pid of the listener in our pid namespace; 0 when we cannot see it. */
pid_t connect_peer(int fd);
/* Without SIGPIPE. */
struct err *connect_send(int fd, const struct buf *message, struct deadline deadline) MUST_USE;
