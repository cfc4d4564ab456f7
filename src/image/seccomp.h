#pragma once
/* Would a seccomp filter let a call through? The filters of a process, run by us instead of by the kernel. Pure.
 * Private to image. */

#include "base/base.h"
#include <linux/filter.h>

struct seccomp_call {
	uint64_t nr, ip, args[6];
};
/* The filter's answer for the call (SECCOMP_RET_...), or SECCOMP_RET_KILL_PROCESS when it is not understood. */
uint32_t seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_call *call);
/* The call goes through: allowed, with or without a log entry. */
bool seccomp_allows(uint32_t answer);

/* All filters of a stopped thread that this process traces and that has some. The kernel shows them to CAP_SYS_ADMIN
 * only. */
enum seccomp_end { SECCOMP_OPEN, SECCOMP_FORBIDS, SECCOMP_HIDDEN };
enum seccomp_end seccomp_ask(pid_t tid, const struct seccomp_call *calls, size_t n);
