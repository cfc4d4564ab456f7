#pragma once
/* Asks many runtimes side by side who they are: however many of them are silent, it takes two timeouts at most. Private
 * to ipc. */

#include "ipc/ipc.h"

struct question {
	const char *socket;
	pid_t expect_pid; /* who must be listening, when known; 0 = anyone */
	/* The answer: info, or err. The caller frees both. */
	pid_t peer_pid; /* who listens, as we see it; 0 = not visible to us */
	struct ipc_process_info info;
	struct err *err; /* silent: ERR_TIMEOUT; not ours: ERR_DENIED; nobody listens: ERR_NOT_FOUND; lying:
			    ERR_BAD_DATA; too old to know the question: ERR_UNSUPPORTED; never asked, for others kept us
			    waiting: ERR_CANCELLED */
};
/* Each gets timeout_ms from when it was asked. The first in the list are asked first. */
void ask_all(struct question *questions, size_t n, uint64_t timeout_ms);
