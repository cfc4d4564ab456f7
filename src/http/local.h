#pragma once
/* The Unix socket in the home, HOME/PORT.sock, by which clients on the same machine reach a server without a token: the
 * kernel tells who connects, and only root and the user that the server runs as are accepted. A client checks the
 * server's user in the same way before it sends anything. Knows nothing of HTTP. Any thread. */

#include "base/clock.h"
#include "base/err.h"
#include <sys/types.h>

/* Non-blocking. ERR_BUSY when another server of this home has the name. */
struct err *http_local_listen(const char *home, unsigned port, int *ret) MUST_USE;
void http_local_remove(const char *home, unsigned port);
/* To the server of our own home that listens on this port; ERR_NOT_FOUND when there is none. */
struct err *http_local_connect(unsigned port, struct deadline deadline, int *ret) MUST_USE;

enum http_local_peer {
	HTTP_LOCAL_NONE,     /* the socket is no Unix one */
	HTTP_LOCAL_TRUSTED,  /* root or our own user */
	HTTP_LOCAL_STRANGER, /* everybody else, and processes of another pid namespace: another container */
};
/* The user at the other end of a connected socket. *ret_uid when it is a Unix socket. */
enum http_local_peer http_local_peer(int fd, uid_t *ret_uid);
