/* Fails one system call of one of our processes, as SQLite and curl try their own code:
 *
 *   torture --role worker|starter|helper --count FILE COMMAND...
 *   torture --role worker|starter|helper --fail PLACE:N:ERROR --count FILE COMMAND...
 *
 * The first writes each place that made a system call, one a line: "PLACE NAME calls=N errors=E,E at=OFFSET,OFFSET"; the
 * second lets the N-th call of that place fail with ERROR, such as ENOSPC (SHORT: it is done, with half of its length), and
 * writes one line about it to FILE, or nothing when the place was not reached. A place is a system call and the nearest return
 * addresses of our own code (torture_site.h), so it means the same in every run. The exit code is the command's, 128 + signal
 * if one ended it. All that the command started is waited for; what still runs LEFT_MS after the command is told on standard
 * error as "left: PID", killed, and makes the exit code 250.
 *
 * Our processes are traced, so system calls made without the C library count too, and what a process of ours starts belongs
 * to it by its command line: `_worker` is the worker, `drdotnet-dachost` the helper, all else of drdotnet the starter. Being
 * traced does not keep a process from tracing others. The target is not a child of ours and is never touched from here. */
#include "torture_site.h"
#include <asm/unistd.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEFT_MS 5000
#define LEFT_CODE 250
#define STACK_WORDS 1024
#define PLACES 16384
#define TASKS 512

/* Each system call with the errors that it can really give; NULL: never failed here, because it cannot fail for a reason
 * of the machine (or its failure is not one that a program can treat: futex, signals, exit, close, munmap), or
 * because the C library alone sees it (brk; torture_alloc.c fails what it is for). */
static const struct call {
	const char *name;
	int nr;
	const char *errors;
} calls[] = {
#define CALL(name, errors)                                                                                             \
	{                                                                                                              \
#name, __NR_##name, errors                                                                             \
	}
	CALL(open, "EMFILE,EIO"),
	CALL(openat, "EMFILE,EIO"),
	CALL(openat2, "EMFILE,EIO"),
	CALL(creat, "ENOSPC"),
	CALL(read, "EIO,EINTR,SHORT"),
	CALL(pread64, "EIO,EINTR,SHORT"),
	CALL(readv, "EIO"),
	CALL(preadv, "EIO"),
	CALL(preadv2, "EIO,SHORT"),
	CALL(write, "ENOSPC,EIO,EINTR,SHORT"),
	CALL(pwrite64, "ENOSPC,EIO,EINTR,SHORT"),
	CALL(writev, "ENOSPC"),
	CALL(pwritev, "ENOSPC"),
	CALL(sendfile, "EIO"),
	CALL(copy_file_range, "EIO"),
	CALL(lseek, "EIO"),
	CALL(fsync, "EIO,ENOSPC"),
	CALL(fdatasync, "EIO,ENOSPC"),
	CALL(syncfs, "EIO"),
	CALL(ftruncate, "ENOSPC,EIO"),
	CALL(fallocate, "ENOSPC"),
	CALL(fadvise64, "EIO"),
	CALL(rename, "ENOSPC,EIO"),
	CALL(renameat, "ENOSPC,EIO"),
	CALL(renameat2, "ENOSPC,EIO"),
	CALL(link, "ENOSPC"),
	CALL(linkat, "ENOSPC"),
	CALL(symlink, "ENOSPC"),
	CALL(symlinkat, "ENOSPC"),
	CALL(mkdir, "ENOSPC,EACCES"),
	CALL(mkdirat, "ENOSPC,EACCES"),
	CALL(rmdir, "EIO"),
	CALL(unlink, "EIO"),
	CALL(unlinkat, "EIO"),
	CALL(chmod, "EPERM"),
	CALL(fchmod, "EPERM"),
	CALL(fchmodat, "EPERM"),
	CALL(chown, "EPERM"),
	CALL(fchown, "EPERM"),
	CALL(fchownat, "EPERM"),
	CALL(utimensat, "EPERM"),
	CALL(stat, "EIO,EACCES"),
	CALL(lstat, "EIO,EACCES"),
	CALL(fstat, "EIO"),
	CALL(newfstatat, "EIO,EACCES"),
	CALL(statx, "EIO"),
	CALL(statfs, "EIO"),
	CALL(fstatfs, "EIO"),
	CALL(access, "EIO"),
	CALL(faccessat, "EIO"),
	CALL(faccessat2, "EIO"),
	CALL(readlink, "EIO"),
	CALL(readlinkat, "EIO"),
	CALL(getdents64, "EIO"),
	CALL(getcwd, "ENOENT"),
	CALL(chdir, "EIO"),
	CALL(fchdir, "EIO"),
	CALL(flock, "ENOLCK,EINTR"),
	CALL(umask, NULL),
	CALL(fcntl, "EMFILE"),
	CALL(ioctl, "EIO"),
	CALL(dup, "EMFILE"),
	CALL(dup2, "EMFILE"),
	CALL(dup3, "EMFILE"),
	CALL(pipe, "EMFILE"),
	CALL(pipe2, "EMFILE"),
	CALL(eventfd2, "EMFILE"),
	CALL(signalfd4, "EMFILE"),
	CALL(timerfd_create, "EMFILE"),
	CALL(timerfd_settime, "EINVAL"),
	CALL(epoll_create1, "EMFILE"),
	CALL(epoll_ctl, "ENOMEM"),
	CALL(memfd_create, "EMFILE"),
	CALL(inotify_init1, "EMFILE"),
	CALL(inotify_add_watch, "ENOSPC"),
	CALL(pidfd_open, "EMFILE"),
	CALL(pidfd_send_signal, "EPERM"),
	CALL(pidfd_getfd, "EPERM"),
	CALL(socket, "EMFILE,ENOMEM"),
	CALL(socketpair, "EMFILE"),
	CALL(connect, "ECONNREFUSED,EINTR,EAGAIN"),
	CALL(bind, "EADDRINUSE"),
	CALL(listen, "EADDRINUSE"),
	CALL(accept, "EMFILE"),
	CALL(accept4, "EMFILE,ECONNABORTED"),
	CALL(sendto, "ENOMEM,EPIPE,EINTR,SHORT"),
	CALL(sendmsg, "ENOMEM,EPIPE"),
	CALL(recvfrom, "ECONNRESET,EINTR,SHORT"),
	CALL(recvmsg, "ECONNRESET,EINTR"),
	CALL(sendmmsg, "ENOMEM"),
	CALL(recvmmsg, "ECONNRESET"),
	CALL(shutdown, "ENOTCONN"),
	CALL(getsockname, "ENOBUFS"),
	CALL(getpeername, "ENOTCONN"),
	CALL(setsockopt, "ENOMEM"),
	CALL(getsockopt, "ENOBUFS"),
	CALL(poll, "ENOMEM,EINTR"),
	CALL(ppoll, "ENOMEM,EINTR"),
	CALL(select, "ENOMEM,EINTR"),
	CALL(pselect6, "ENOMEM,EINTR"),
	CALL(epoll_wait, "EINTR"),
	CALL(epoll_pwait, "EINTR"),
	CALL(mmap, "ENOMEM"),
	CALL(mremap, "ENOMEM"),
	CALL(brk, NULL),
	CALL(mprotect, "ENOMEM"),
	CALL(madvise, "ENOMEM"),
	CALL(mlock, "ENOMEM"),
	CALL(mlock2, "ENOMEM"),
	CALL(munlock, NULL),
	CALL(mincore, "ENOMEM"),
	CALL(msync, "EIO"),
	CALL(fork, "EAGAIN"),
	CALL(vfork, "EAGAIN"),
	CALL(clone, "EAGAIN"),
	CALL(clone3, "EAGAIN"),
	CALL(execve, "ENOMEM"),
	CALL(execveat, "ENOMEM"),
	CALL(wait4, "EINTR"),
	CALL(waitid, "EINTR"),
	CALL(ptrace, "EPERM,ESRCH"),
	CALL(process_vm_readv, "EPERM,EFAULT"),
	CALL(process_vm_writev, "EPERM"),
	CALL(perf_event_open, "EMFILE,EACCES"),
	CALL(kcmp, "EPERM"),
	CALL(bpf, "EPERM"),
	CALL(kill, "EPERM"),
	CALL(tkill, "EAGAIN"),
	CALL(tgkill, "EAGAIN"),
	CALL(prctl, "EINVAL"),
	CALL(seccomp, "ENOMEM"),
	CALL(landlock_create_ruleset, "EOPNOTSUPP"),
	CALL(setns, "EPERM"),
	CALL(unshare, "EPERM"),
	CALL(setpgid, "EPERM"),
	CALL(setsid, "EPERM"),
	CALL(setuid, "EAGAIN"),
	CALL(setgid, "EPERM"),
	CALL(setresuid, "EAGAIN"),
	CALL(setresgid, "EPERM"),
	CALL(setfsuid, NULL),
	CALL(setfsgid, NULL),
	CALL(setgroups, "ENOMEM"),
	CALL(getgroups, NULL),
	CALL(capget, "EPERM"),
	CALL(capset, "EPERM"),
	CALL(setrlimit, "EPERM"),
	CALL(getrlimit, NULL),
	CALL(prlimit64, "EPERM"),
	CALL(setpriority, "EACCES"),
	CALL(getpriority, NULL),
	CALL(sched_setscheduler, "EPERM"),
	CALL(sched_getscheduler, NULL),
	CALL(sched_setparam, "EPERM"),
	CALL(sched_getparam, NULL),
	CALL(sched_setattr, "EPERM"),
	CALL(sched_getattr, "EPERM"),
	CALL(sched_setaffinity, "EINVAL"),
	CALL(sched_getaffinity, "EINVAL"),
	CALL(clock_nanosleep, "EINTR"),
	CALL(nanosleep, "EINTR"),
	CALL(getrandom, "EINTR"),
	CALL(sysinfo, NULL),
	CALL(close_range, "ENOMEM"),
	CALL(chroot, "EPERM"),
	CALL(mount, "EPERM"),
	CALL(pivot_root, "EPERM"),
	CALL(umount2, "EPERM"),
	CALL(membarrier, "ENOSYS"),
	CALL(getrusage, NULL),
	CALL(times, NULL),
	CALL(close, NULL),
	CALL(munmap, NULL),
	CALL(futex, NULL),
	CALL(rt_sigaction, NULL),
	CALL(rt_sigprocmask, NULL),
	CALL(rt_sigreturn, NULL),
	CALL(rt_sigpending, NULL),
	CALL(rt_sigtimedwait, "EINTR"),
	CALL(rt_sigsuspend, NULL),
	CALL(sigaltstack, NULL),
	CALL(restart_syscall, NULL),
	CALL(exit, NULL),
	CALL(exit_group, NULL),
	CALL(arch_prctl, NULL),
	CALL(set_tid_address, NULL),
	CALL(set_robust_list, NULL),
	CALL(rseq, NULL),
	CALL(getpid, NULL),
	CALL(gettid, NULL),
	CALL(getppid, NULL),
	CALL(getuid, NULL),
	CALL(geteuid, NULL),
	CALL(getgid, NULL),
	CALL(getegid, NULL),
	CALL(getresuid, NULL),
	CALL(getresgid, NULL),
	CALL(getpgrp, NULL),
	CALL(getpgid, NULL),
	CALL(getsid, NULL),
	CALL(uname, NULL),
	CALL(sched_yield, NULL),
	CALL(clock_gettime, NULL),
	CALL(clock_getres, NULL),
	CALL(gettimeofday, NULL),
	CALL(time, NULL),
	CALL(alarm, NULL),
	CALL(setitimer, NULL),
	CALL(timer_create, "EAGAIN"),
	CALL(timer_settime, "EINVAL"),
	CALL(timer_delete, NULL),
	CALL(personality, NULL),
	CALL(pause, NULL),
	CALL(getcpu, NULL),
#undef CALL
};

static const struct {
	const char *name;
	int number;
} errors[] = {
#define ERROR(name)                                                                                                    \
	{                                                                                                              \
#name, name                                                                                            \
	}
	ERROR(EPERM),	     ERROR(ENOENT),   ERROR(ESRCH),	 ERROR(EINTR),	      ERROR(EIO),
	ERROR(EAGAIN),	     ERROR(ENOMEM),   ERROR(EACCES),	 ERROR(EFAULT),	      ERROR(EINVAL),
	ERROR(EMFILE),	     ERROR(ENOSPC),   ERROR(EPIPE),	 ERROR(ENOLCK),	      ERROR(ENOSYS),
	ERROR(EOPNOTSUPP),   ERROR(ENOTCONN), ERROR(EADDRINUSE), ERROR(ECONNREFUSED), ERROR(ECONNRESET),
	ERROR(ECONNABORTED), ERROR(ENOBUFS),
#undef ERROR
};

enum { FAIL_NOT, FAIL_SHORT = 1 << 20 }; /* else an errno */

struct task {
	pid_t tid;
	bool chosen;	   /* of the role that is wished */
	bool inside;	   /* between entry and exit of a call */
	const char *fails; /* the name of the call that is being failed */
	int error;
};

static struct place {
	uint64_t hash;
	unsigned count;
	int nr;
	struct site site;
} places[PLACES];

static struct task tasks[TASKS];
static const char *role = "worker", *count_file;
static uint64_t wish;
static unsigned wish_nth, passed;
static int wish_error;
static struct site_code code;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "torture: %s: %s\n", what, strerror(errno));
	exit(251);
}

static const struct call *call_of(int nr)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (calls[i].nr == nr)
			return &calls[i];
	return NULL;
}

/* ---- who it is ---- */

static const char *role_of(pid_t tid)
{
	char path[64], line[4096];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = '\0';
	const char *slash = strrchr(line, '/'), *name = slash ? slash + 1 : line;
	if (!strcmp(name, "drdotnet-dachost"))
		return "helper";
	if (strcmp(name, "drdotnet"))
		return "";
	return n > (ssize_t)strlen(line) + 1 && !strcmp(line + strlen(line) + 1, "_worker") ? "worker" : "starter";
}

static struct task *task_of(pid_t tid)
{
	struct task *free_one = NULL;
	for (size_t i = 0; i < TASKS; i++) {
		if (tasks[i].tid == tid)
			return &tasks[i];
		if (!tasks[i].tid && !free_one)
			free_one = &tasks[i];
	}
	if (!free_one)
		die("too many tasks");
	*free_one = (struct task){ .tid = tid, .chosen = !strcmp(role_of(tid), role) };
	return free_one;
}

/* The program's code, where it lies without randomization. */
static void find_code(pid_t tid)
{
	char path[64], line[4352], prot[8], file[4096];
	unsigned long long low, high, offset;
	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	FILE *maps = fopen(path, "re");
	snprintf(path, sizeof(path), "/proc/%d/exe", tid);
	struct stat exe, st;
	while (maps && !code.text && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %4095s", &low, &high, prot, &offset, file) != 5 ||
		    prot[2] != 'x' || stat(path, &exe) < 0 || stat(file, &st) < 0 || st.st_ino != exe.st_ino)
			continue;
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		void *p = fd < 0 ? MAP_FAILED : mmap(NULL, high - low, PROT_READ, MAP_PRIVATE, fd, (off_t)offset);
		if (p == MAP_FAILED)
			die("map the program");
		close(fd);
		code = (struct site_code){ .text = p, .low = low, .high = high, .offset = offset };
	}
	if (maps)
		fclose(maps);
}

/* ---- its calls ---- */

static struct site site_at(pid_t tid, const struct user_regs_struct *regs, int nr)
{
	uint64_t words[STACK_WORDS];
	struct iovec here = { words, sizeof(words) };
	ssize_t n = -1;
	/* Near the upper end of a stack there is less to read. */
	for (size_t want = sizeof(words); n < 0 && want >= 64; want /= 2) {
		struct iovec there = { (void *)(uintptr_t)regs->rsp, want };
		here.iov_len = want;
		n = process_vm_readv(tid, &here, 1, &there, 1, 0);
	}
	if (!code.text)
		find_code(tid);
	return site_of(&code, (uint64_t)nr, words, n > 0 && code.text ? (size_t)n / sizeof(*words) : 0);
}

static struct place *place_of(const struct site *site, int nr)
{
	for (size_t i = site->hash % PLACES, tries = 0; tries < PLACES; tries++, i = (i + 1) % PLACES) {
		if (!places[i].count)
			places[i] = (struct place){ .hash = site->hash, .nr = nr, .site = *site };
		if (places[i].hash == site->hash)
			return &places[i];
	}
	errno = ENOSPC;
	die("too many places");
}

static void write_sites(FILE *f, const struct site *site)
{
	for (uint32_t i = 0; i < site->n; i++)
		fprintf(f, "%c%x", i ? ',' : ' ', site->at[i]);
	fputc('\n', f);
}

static void note_failure(const struct call *call, const struct site *site)
{
	FILE *f = fopen(count_file, "we");
	if (!f)
		die(count_file);
	fprintf(f, "%s", call->name);
	write_sites(f, site);
	fclose(f);
}

/* Not the length of an order that leaves nothing to do by halves. */
static bool shorten(pid_t tid, struct user_regs_struct *regs)
{
	if (regs->rdx < 2)
		return false;
	regs->rdx /= 2;
	return ptrace(PTRACE_SETREGS, tid, NULL, regs) == 0;
}

static void enter(struct task *t)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) < 0)
		return;
	int nr = (int)regs.orig_rax;
	struct site site = site_at(t->tid, &regs, nr);
	if (!wish) {
		place_of(&site, nr)->count++;
		return;
	}
	const struct call *call = call_of(nr);
	if (site.hash != wish || ++passed != wish_nth || !call)
		return;
	if (wish_error == FAIL_SHORT) {
		if (shorten(t->tid, &regs))
			note_failure(call, &site);
		return;
	}
	regs.orig_rax = (unsigned long long)-1; /* not done */
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &regs) < 0)
		return;
	t->fails = call->name;
	t->error = wish_error;
	note_failure(call, &site);
}

static void leave(struct task *t)
{
	struct user_regs_struct regs;
	if (!t->fails || ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) < 0)
		return;
	regs.rax = (unsigned long long)-t->error;
	ptrace(PTRACE_SETREGS, t->tid, NULL, &regs);
	t->fails = NULL;
}

static void on_call(struct task *t)
{
	struct __ptrace_syscall_info info;
	if (!t->chosen || ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof(info), &info) < 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		enter(t);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		leave(t);
}

/* Handles a stop and lets it go on; a task of another role runs on without stops at its calls. */
static void on_stop(pid_t tid, int status)
{
	struct task *t = task_of(tid);
	int event = status >> 16, sig = WSTOPSIG(status), deliver = 0;
	if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, tid, NULL, NULL); /* stopped by a signal, like one that nobody traces */
		return;
	}
	if (sig == (SIGTRAP | 0x80))
		on_call(t);
	else if (event == PTRACE_EVENT_EXEC)
		t->chosen = !strcmp(role_of(tid), role);
	else if (!event)
		deliver = sig;
	ptrace(t->chosen ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, (void *)(intptr_t)deliver);
}

/* ---- the command ---- */

static pid_t start(char **command)
{
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		personality(ADDR_NO_RANDOMIZE);
		raise(SIGSTOP);
		execvp(*command, command);
		_exit(127);
	}
	int status;
	if (waitpid(pid, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
		die("start the command");
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) < 0)
		die("trace the command");
	kill(pid, SIGCONT);
	return pid;
}

static void forget(pid_t tid)
{
	for (size_t i = 0; i < TASKS; i++)
		if (tasks[i].tid == tid)
			tasks[i] = (struct task){ 0 };
}

static uint64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static volatile sig_atomic_t late;
static pid_t command_pid;

/* Who ends us means the command. */
static void pass_on(int sig)
{
	if (command_pid)
		kill(command_pid, sig);
}

static void on_alarm(int sig)
{
	(void)sig;
	late = 1;
	alarm(1); /* in case it came just before the wait */
}

/* Whatever of it still runs long after the command is ended. */
static void end_the_left(void)
{
	for (size_t i = 0; i < TASKS; i++)
		if (tasks[i].tid && kill(tasks[i].tid, SIGKILL) == 0)
			fprintf(stderr, "left: %d %s\n", tasks[i].tid, role_of(tasks[i].tid));
}

static int follow(pid_t pid)
{
	int code_of_command = -1;
	bool left = false;
	uint64_t deadline = 0;
	for (;;) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno == ECHILD)
			return left ? LEFT_CODE : code_of_command;
		if (code_of_command >= 0 && late && !left && now_ms() >= deadline) {
			left = true;
			end_the_left();
		}
		if (tid < 0)
			continue;
		if (WIFSTOPPED(status)) {
			on_stop(tid, status);
			continue;
		}
		forget(tid);
		if (tid == pid) {
			code_of_command = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			deadline = now_ms() + LEFT_MS - 100;
			alarm(LEFT_MS / 1000);
		}
	}
}

static void write_places(void)
{
	FILE *f = fopen(count_file, "we");
	if (!f)
		die(count_file);
	for (size_t i = 0; i < PLACES; i++) {
		if (!places[i].count)
			continue;
		const struct call *call = call_of(places[i].nr);
		fprintf(f, "%016llx ", (unsigned long long)places[i].hash);
		if (call)
			fprintf(f, "%s", call->name);
		else
			fprintf(f, "unknown-%d", places[i].nr);
		fprintf(f, " calls=%u errors=%s at=", places[i].count, call && call->errors ? call->errors : "");
		write_sites(f, &places[i].site);
	}
	fclose(f);
}

/* PLACE:N:ERROR */
static void parse_wish(const char *text)
{
	char *p, *q;
	wish = strtoull(text, &p, 16);
	wish_nth = *p == ':' ? (unsigned)strtoul(p + 1, &q, 10) : 0;
	const char *name = wish_nth && *q == ':' ? q + 1 : "";
	wish_error = strcmp(name, "SHORT") ? FAIL_NOT : FAIL_SHORT;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (!strcmp(errors[i].name, name))
			wish_error = errors[i].number;
	if (!wish || wish_error == FAIL_NOT) {
		fprintf(stderr, "torture: '%s' is not PLACE:N:ERROR\n", text);
		exit(251);
	}
}

int main(int argc, char **argv)
{
	int at = 1;
	for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
		if (!strcmp(argv[at], "--role"))
			role = argv[at + 1];
		else if (!strcmp(argv[at], "--count"))
			count_file = argv[at + 1];
		else if (!strcmp(argv[at], "--fail"))
			parse_wish(argv[at + 1]);
	}
	if (!count_file || at >= argc) {
		fprintf(stderr, "usage: torture --role ROLE [--fail PLACE:N:ERROR] --count FILE COMMAND...\n");
		return 251;
	}
	signal(SIGINT, SIG_IGN);
	struct sigaction act = { .sa_handler = on_alarm }; /* no SA_RESTART: it ends the wait */
	sigaction(SIGALRM, &act, NULL);
	struct sigaction pass = { .sa_handler = pass_on };
	sigaction(SIGTERM, &pass, NULL);
	command_pid = start(argv + at);
	int result = follow(command_pid);
	if (!wish)
		write_places();
	return result;
}
