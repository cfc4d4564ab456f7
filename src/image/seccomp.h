#pragma once
/* Would a seccomp filter let a call through? The filters of a process, run by us instead of by the kernel. Pure.
 * Private to image. */

#include "base/base.h"
#include <linux/filter.h>

struct seccomp_call {
	uint64_t nr, ip, args[6];
	uint8_t unknown; /* one bit an argument that may have any value; SECCOMP_ANY_IP: so may ip */
};
#define SECCOMP_ANY_IP 0x40

/* The result of a call, from good to bad. */
enum seccomp_answer {
	SECCOMP_ALLOWS,	 /* with or without a log entry */
	SECCOMP_REFUSES, /* by an error */
	SECCOMP_KILLS,	 /* or sends a signal, or notifies another process, or is not understood */
};
/* The worst possible result, whatever the unknown values are. */
enum seccomp_answer seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_call *call);

/* Runs all filters of a stopped thread that this process traces and that has some: each answer becomes the worse of
 * itself and theirs. False: they cannot be read; the kernel shows them to CAP_SYS_ADMIN only. */
bool seccomp_ask(pid_t tid, const struct seccomp_call *calls, size_t n, enum seccomp_answer *answers);
/* May this process read filters? The kernel shows none to processes that have one themselves. */
bool seccomp_may_read(void);
