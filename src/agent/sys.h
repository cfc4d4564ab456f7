#pragma once
/* System calls without a C library: no errno, no lock, no state that a fork could leave inconsistent. A failure is a
 * negative errno. */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "an architecture needs its way into the kernel here"
#endif
}

/* Arguments that are not given are 0. */
#define SYS_ARGS_(n, a, b, c, d, e, f, ...) sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define SYS(name, ...) SYS_ARGS_(SYS_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)

/* Newer than some headers; the same number everywhere. */
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* 0 when there is no such clock, as of a thread that has ended. */
static inline uint64_t sys_clock_ns(int clock)
{
	struct {
		int64_t sec, nsec;
	} t = { 0, 0 };
	SYS(clock_gettime, clock, &t);
	return (uint64_t)t.sec * 1000000000u + (uint64_t)t.nsec;
}

static inline uint64_t sys_now_ns(void)
{
	return sys_clock_ns(1 /* monotonic */);
}

struct sys_poll {
	int fd;
	short events, revents;
};
#define SYS_POLLIN 1
/* Waits at most ms; how many are ready. */
static inline long sys_poll(struct sys_poll *fds, size_t n, uint64_t ms)
{
#ifdef SYS_poll
	return SYS(poll, fds, n, ms < INT32_MAX ? ms : INT32_MAX);
#else
	struct {
		int64_t sec, nsec;
	} t = { (int64_t)(ms / 1000), (int64_t)(ms % 1000 * 1000000) };
	return SYS(ppoll, fds, n, &t);
#endif
}

/* Up to cap bytes of where a link leads; not terminated. */
static inline long sys_readlink(const char *path, char *to, size_t cap)
{
#ifdef SYS_readlink
	return SYS(readlink, path, to, cap);
#else
	return SYS(readlinkat, -100 /* AT_FDCWD */, path, to, cap);
#endif
}

static inline int sys_open(const char *path, int flags)
{
	return (int)SYS(openat, -100 /* AT_FDCWD */, path, flags | 02000000 /* O_CLOEXEC */);
}

/* Up to cap bytes of a file; a negative errno when it cannot be opened. */
static inline long sys_read_file(const char *path, char *to, size_t cap)
{
	int fd = sys_open(path, 0);
	size_t n = 0;
	if (fd < 0)
		return fd;
	while (n < cap) {
		long got = SYS(read, fd, to + n, cap - n);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	SYS(close, fd);
	return (long)n;
}
