#pragma once
/* System calls of .NET, and system calls that code of ours makes in a target: its library (src/agent), the runtime and
 * the C library on behalf of that library, and a thread that makes a copy (src/image). Names and numbers only.
 *
 * A seccomp filter may kill a process for a call. So code of ours runs under one only when
 *
 *   (a) the filter of every thread was read, and allows each call of the use at hand (CALLS_OURS), or
 *   (b) the filter cannot be read, and every call is one that .NET makes in its ordinary life (CALLS_OF_DOTNET): what
 *       would kill for one of these would have killed the process without us. That is CALLS_LOAD | CALLS_PLAIN, or
 * CALLS_LOAD | CALLS_TICKS.
 *
 * Of clone, arguments matter. Filters see the flags of clone, but not those of clone3, which lie in memory; filters in
 * use (Docker, systemd, Flatpak) forbid bits that make namespaces. The library therefore takes the one of the two that
 * the C library takes for threads, with no flag at all: the bits are a subset of those of a thread. It is a fork, as
 * the runtime itself makes one to start a process or to write a dump. One call cannot be avoided that not every .NET
 * process makes, wait4 for the copy: the copy, which has the same filter, tries it first, and if the filter kills, the
 * copy dies and not the process.
 *
 * tests/e2e/test_seccomp.py holds CALLS_OF_DOTNET against traces, CALLS_OURS against the source and against traces. */

#include <stdint.h>

/* Made by 'tests/tools/dotnet-calls': strace -f of .NET 8, 9 and 10 on x64 and glibc 2.36, from start to end: at rest;
 * with collections, exceptions and allocations; with threads that come and go; as a web server, and as its client. Only
 * calls that all three make. */
/* clang-format off */
#define CALLS_OF_DOTNET(X) \
	X(accept4) X(access) X(alarm) X(arch_prctl) X(bind) X(brk) X(clock_gettime) X(clock_nanosleep) \
	X(clone3) X(close) X(connect) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(execve) X(exit) \
	X(exit_group) X(fchmod) X(fcntl) X(fstat) X(ftruncate) X(futex) X(get_mempolicy) X(getcwd) \
	X(getdents64) X(getpeername) X(getpid) X(getrandom) X(getrusage) X(getsid) X(getsockname) \
	X(getsockopt) X(gettid) X(inotify_add_watch) X(inotify_init1) X(ioctl) X(listen) X(lstat) X(madvise) \
	X(membarrier) X(memfd_create) X(mknodat) X(mmap) X(mprotect) X(munmap) X(newfstatat) X(openat) \
	X(pipe2) X(poll) X(prctl) X(pread64) X(prlimit64) X(read) X(readlink) X(recvfrom) X(recvmsg) X(rseq) \
	X(rt_sigaction) X(rt_sigprocmask) X(rt_sigreturn) X(sched_get_priority_max) \
	X(sched_get_priority_min) X(sched_getaffinity) X(sched_getparam) X(sched_getscheduler) \
	X(sched_setaffinity) X(sched_setscheduler) X(sched_yield) X(sendto) X(set_robust_list) \
	X(set_tid_address) X(setsockopt) X(shutdown) X(sigaltstack) X(socket) X(stat) X(statfs) X(sysinfo) \
	X(tgkill) X(uname) X(unlink) X(write)
/* clang-format on */

/* What it is made for. */
enum calls_use {
	CALLS_LOAD = 1,	     /* by the runtime and the C library: loading the library, its thread, suspending */
	CALLS_IMAGE = 2,     /* by the library: a copy of the process, and by that copy */
	CALLS_PLAIN = 4,     /* the same by calls of .NET's own */
	CALLS_CPU = 8,	     /* by the library: samples of CPU time, handlers in all threads */
	CALLS_SNAPSHOT = 16, /* by a thread of the process that is made to (src/image/inject.c), and by the copy */
	CALLS_STOP = 32,     /* by any thread that was stopped from outside */
	CALLS_BURY = 64,     /* by the copy and by the process, once the copy has ended */
	CALLS_TICKS = 128    /* samples by calls of .NET's own */
};
enum calls_need {
	CALLS_MUST,
	CALLS_MAY, /* an error does no harm */
	CALLS_ELSE /* needed only where the call before it in the list gives an error */
};
struct calls_call {
	const char *name;
	uint16_t number;
	uint8_t uses, need;
	uint8_t known; /* arguments: one bit each, all others may have any value */
	uint64_t args[6];
};

/* X(name, uses, need, known, arguments...) */
#define CALLS_OURS(X)                                                                                                  \
	/* The kernel's own, after a stop by ptrace in poll, nanosleep and the like. */                                \
	X(restart_syscall, CALLS_STOP, CALLS_MUST, 0, 0)                                                               \
	/* dlopen */                                                                                                   \
	X(openat, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                  \
	X(read, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                    \
	X(pread64, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                 \
	X(newfstatat, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                     \
	X(fstat, CALLS_LOAD, CALLS_ELSE, 0, 0)                                                                         \
	X(mmap, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 4, 0, 0,                 \
	  3 /* read, write */)                                                                                         \
	X(mmap, CALLS_LOAD, CALLS_MUST, 4, 0, 0, 1 /* read */)                                                         \
	X(mmap, CALLS_LOAD, CALLS_MUST, 4, 0, 0, 5 /* read, execute */)                                                \
	X(mmap, CALLS_LOAD, CALLS_MUST, 4, 0, 0, 0)                                                                    \
	X(mprotect, CALLS_LOAD, CALLS_MUST, 4, 0, 0, 1)                                                                \
	X(mprotect, CALLS_LOAD, CALLS_MUST, 4, 0, 0, 3)                                                                \
	X(munmap, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                  \
	X(close, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                   \
	X(brk, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                            \
	/* a thread, from beginning to end */                                                                          \
	X(rt_sigprocmask, CALLS_LOAD, CALLS_MUST, 0, 0)                                                                \
	X(clone3, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN, CALLS_MAY, 0, 0)                                             \
	X(clone, CALLS_LOAD, CALLS_ELSE, 1, 0x3d0f00)                                                                  \
	X(rseq, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                           \
	X(set_robust_list, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                \
	X(futex, CALLS_LOAD, CALLS_MUST, 0, 0)                                                                         \
	X(sigaltstack, CALLS_LOAD, CALLS_MUST, 0, 0)                                                                   \
	X(madvise, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                        \
	X(exit, CALLS_LOAD, CALLS_MUST, 0, 0)                                                                          \
	/* the runtime suspends its threads, as for a collection */                                                    \
	X(tgkill, CALLS_LOAD | CALLS_IMAGE | CALLS_PLAIN | CALLS_TICKS, CALLS_MUST, 0, 0)                              \
	X(rt_sigreturn, CALLS_LOAD | CALLS_CPU | CALLS_TICKS | CALLS_SNAPSHOT, CALLS_MUST, 0, 0)                       \
	X(membarrier, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                     \
	X(sched_yield, CALLS_LOAD, CALLS_MAY, 0, 0)                                                                    \
	X(gettid, CALLS_LOAD | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                                              \
	/* the library */                                                                                              \
	X(getpid, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                               \
	X(clock_gettime, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                        \
	X(poll, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                                 \
	X(getdents64, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                           \
	X(readlink, CALLS_IMAGE | CALLS_PLAIN, CALLS_MUST, 0, 0)                                                       \
	X(write, CALLS_IMAGE | CALLS_PLAIN, CALLS_MAY, 0, 0)                                                           \
	X(socket, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 7, 1 /* unix */,                    \
	  02000001 /* stream */, 0)                                                                                    \
	X(setsockopt, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 2, 0, 1 /* SOL_SOCKET */)       \
	X(connect, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                              \
	X(sendto, CALLS_IMAGE | CALLS_PLAIN | CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                               \
	X(exit_group, CALLS_IMAGE | CALLS_PLAIN | CALLS_SNAPSHOT, CALLS_MUST, 0, 0)                                    \
	X(prctl, CALLS_IMAGE | CALLS_PLAIN, CALLS_MAY, 1, 15 /* PR_SET_NAME */)                                        \
	/* a copy, unrestricted: CLONE_FILES, and descriptors of its own then */                                       \
	X(clone3, CALLS_IMAGE, CALLS_MAY, 0, 0)                                                                        \
	X(clone, CALLS_IMAGE, CALLS_ELSE, 31, 0x400, 0, 0, 0, 0)                                                       \
	X(prctl, CALLS_IMAGE, CALLS_MUST, 3, 1 /* PR_SET_PDEATHSIG */, 9)                                              \
	X(close_range, CALLS_IMAGE, CALLS_MAY, 7, 0, 0xffffffff, 2 /* CLOSE_RANGE_UNSHARE */)                          \
	X(unshare, CALLS_IMAGE, CALLS_ELSE, 1, 0x400)                                                                  \
	X(wait4, CALLS_IMAGE | CALLS_BURY | CALLS_SNAPSHOT, CALLS_MUST, 0, 0)                                          \
	/* a copy by calls of .NET's own; wait4 see above */                                                           \
	X(clone3, CALLS_PLAIN, CALLS_MAY, 0, 0)                                                                        \
	X(clone, CALLS_PLAIN, CALLS_ELSE, 31, 0, 0, 0, 0, 0)                                                           \
	/* samples */                                                                                                  \
	X(rt_sigaction, CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                                                     \
	X(timer_create, CALLS_CPU, CALLS_MUST, 0, 0)                                                                   \
	X(timer_settime, CALLS_CPU, CALLS_MUST, 0, 0)                                                                  \
	X(timer_delete, CALLS_CPU, CALLS_MUST, 0, 0)                                                                   \
	X(process_vm_readv, CALLS_CPU, CALLS_MAY, 0, 0)                                                                \
	X(sendmsg, CALLS_CPU, CALLS_MUST, 0, 0)                                                                        \
	X(recvfrom, CALLS_CPU | CALLS_TICKS, CALLS_MUST, 0, 0)                                                         \
	/* the thread that is made to, with registers of which two are set by us */                                    \
	X(clone, CALLS_SNAPSHOT, CALLS_MUST, 15, 0x400, 0, 0, 0)
