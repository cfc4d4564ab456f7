#pragma once
/* Sends ProcessInfo to many runtimes in parallel: however many of them do not answer, it takes two timeouts at most.
 * Private to ipc. */

#include "ipc/ipc.h"

struct question {
	const char *socket;
	pid_t expect_pid; /* the pid that must be listening, when known; 0 = any */
	/* The answer: info, or err. The caller frees both. */
	pid_t peer_pid; /* the pid that listens, in our namespace; 0 = not visible to us */
	struct ipc_process_info info;
	/* No answer: ERR_TIMEOUT; not allowed: ERR_DENIED; no listener: ERR_NOT_FOUND; nonsense: ERR_BAD_DATA; the
	 * runtime is too old for the command: ERR_UNSUPPORTED; not asked, because others took all the time:
	 * ERR_CANCELLED. */
	struct err *err;
};
/* Each gets timeout_ms from when it was asked. They are asked in the order of the list. */
void ask_all(struct question *questions, size_t n, uint64_t timeout_ms);
