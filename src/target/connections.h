#pragma once
/* The sockets of the network namespace that a process is in, as /proc/PID/net lists them. Reads files only, line by line,
 * whatever their number.
 *
 * A socket is the process's own when its inode is that of one of its descriptors (target/descriptors.h). One in TIME_WAIT
 * belongs to no process any more. Everything is read below `proc`, "/proc" but for tests. */

#include "base/base.h"

enum connection_state {
	CONNECTION_ESTABLISHED = 1,
	CONNECTION_SYN_SENT,
	CONNECTION_SYN_RECV,
	CONNECTION_FIN_WAIT1,
	CONNECTION_FIN_WAIT2,
	CONNECTION_TIME_WAIT,
	CONNECTION_CLOSE,
	CONNECTION_CLOSE_WAIT,
	CONNECTION_LAST_ACK,
	CONNECTION_LISTEN,
	CONNECTION_CLOSING,
	CONNECTION_STATES
};
const char *connection_state_name(enum connection_state state); /* "ESTABLISHED", as other tools call it */

enum connection_family { CONNECTION_TCP, CONNECTION_TCP6, CONNECTION_UDP, CONNECTION_UDP6, CONNECTION_FAMILIES };

struct connection_end {
	uint8_t address[16]; /* of v4 the first four bytes, as on the wire; of v6 that is mapped too */
	bool v6;
	uint16_t port;
};
struct connection {
	enum connection_family family;
	enum connection_state state; /* of UDP: ESTABLISHED = connected, CLOSE = not */
	struct connection_end local, remote;
	uint64_t inode;	 /* 0 = no process has it */
	uint64_t unread; /* bytes; of one that listens: connections that nobody has accepted yet */
	uint64_t unsent; /* bytes */
};

/* False when the list cannot be read. */
bool connections_each(const char *proc, pid_t pid, enum connection_family family,
		      void (*each)(void *user, const struct connection *c), void *user);
/* "10.0.0.7:5432", "[::1]:80" */
struct connection_text {
	char s[64];
};
struct connection_text connection_end_text(const struct connection_end *end);
/* The ports from which connections are made when nobody names one. False when that cannot be read: it is in another
 * network namespace than we. */
bool connections_ports(const char *proc, pid_t pid, uint16_t *ret_first, uint16_t *ret_last);
/* Calls each() with the inode of every Unix domain socket. */
bool connections_unix_each(const char *proc, pid_t pid, void (*each)(void *user, uint64_t inode), void *user);
