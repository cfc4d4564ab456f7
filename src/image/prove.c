/* Reading seccomp filters. The kernel shows them of a stopped thread only, so each thread is stopped in turn, by a
 * process of its own whose end releases it.
 *
 * A stop itself may be deadly: a thread that waited in poll, nanosleep or the like continues by a call of
 * restart_syscall, which its filter may not allow. So threads that wait otherwise are asked first, and no other is
 * stopped when their filter does not allow that call. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "image/hurry.h"
#include "image/image.h"
#include "image/limits.h"
#include "image/seccomp.h"
#include "image/stop.h"
#include "target/proc.h"
#include "target/target.h"
#include "wire/calls.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STOP_MS 1000 /* a thread */
#define ALL_MS 10000
#define SAFE_TRIES 100 /* until a thread is found that can be stopped without a risk */
#define SAFE_WAIT_US 5000

#define CALL_(n, u, need_, known_, ...)                                                                                \
	{ .name = #n, .number = SYS_##n, .uses = (u), .need = (need_), .known = (known_), .args = { __VA_ARGS__ } },
static const struct calls_call ours[] = { CALLS_OURS(CALL_) };

enum prove_end { PROVE_KILLED, PROVE_READ, PROVE_HIDDEN, PROVE_LATE, PROVE_ENDED, PROVE_AGAIN };
/* In memory that both processes share. */
struct prove_result {
	enum prove_end end;
	enum seccomp_answer answers[ARRAY_SIZE(ours)];
};

struct prover {
	pid_t pid;
	struct stop stop;
	struct image_thread thread;
	struct map_u64 done; /* threads */
	size_t n_done;
	struct seccomp_call calls[ARRAY_SIZE(ours)];
	struct prove_result *result;
};

static int mode_of(pid_t pid, pid_t tid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_status status;
	bool ok = file_text(&text, "/proc/%d/task/%d/status", pid, tid) &&
		  proc_parse_status(text.data, text.len, &status);
	return ok ? status.seccomp : 0;
}

/* Would the kernel begin its call anew, or end it, without a call of its own? */
static bool is_safe(pid_t pid, pid_t tid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!file_text(&text, "/proc/%d/task/%d/syscall", pid, tid))
		return false;
	char *p = text.data;
	uint64_t args[4];
	long nr = strtol(p, &p, 10);
	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		args[i] = strtoull(p, &p, 16);
	switch (nr) {
	case SYS_poll:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_restart_syscall:
		return false;
	case SYS_futex:
		return !args[3];
	default:
		return str_starts(buf_cstr(&text), "running") || nr > 0 || buf_cstr(&text)[0] == '0';
	}
}

static enum seccomp_answer restart_answer(const struct prove_result *r)
{
	return r->answers[0]; /* the first of the list */
}

/* PROVE_AGAIN: it is just ending, or another stop came between. */
static enum prove_end ask(struct prover *p, pid_t tid)
{
	enum prove_end end = PROVE_READ;
	hurry_begin();
	if (!stop_one(&p->stop, tid, deadline_in_ms(STOP_MS)))
		end = p->stop.failed ? PROVE_HIDDEN : PROVE_AGAIN;
	else if (!seccomp_ask(tid, p->calls, ARRAY_SIZE(ours), p->result->answers))
		end = PROVE_HIDDEN;
	/* What cannot be released now is released by our end. */
	bool released = stop_release(&p->stop);
	hurry_end();
	return released ? end : PROVE_LATE;
}

/* All threads not yet asked, or those of them that are safe. *ret_left: how many there still are. */
static enum prove_end pass(struct prover *p, bool safe_only, size_t *ret_asked, size_t *ret_left)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/task", p->pid);
	DIR *dir = opendir(path);
	enum prove_end end = dir ? PROVE_READ : errno == ENOENT ? PROVE_ENDED : PROVE_LATE;
	*ret_asked = *ret_left = 0;
	for (struct dirent *e; dir && end == PROVE_READ && (e = readdir(dir));) {
		uint64_t tid;
		if (!str_to_u64(e->d_name, &tid) || map_u64_get(&p->done, tid) || !mode_of(p->pid, (pid_t)tid))
			continue;
		if (safe_only && !is_safe(p->pid, (pid_t)tid)) {
			++*ret_left;
			continue;
		}
		++*ret_asked;
		end = ask(p, (pid_t)tid);
		if (end == PROVE_READ)
			*map_u64_put(&p->done, tid, NULL) = ++p->n_done;
		else if (end == PROVE_AGAIN)
			end = PROVE_READ; /* in the next pass, if it is still there then */
		if (restart_answer(p->result) != SECCOMP_ALLOWS)
			break;
	}
	if (dir)
		closedir(dir);
	return end;
}

static enum prove_end prove(struct prover *p)
{
	size_t asked = 0, left = 0;
	enum prove_end end = PROVE_READ;
	for (int i = 0; i < SAFE_TRIES && end == PROVE_READ && !p->n_done; i++) {
		if (i)
			usleep(SAFE_WAIT_US);
		end = pass(p, true, &asked, &left);
	}
	if (end == PROVE_READ && !p->n_done && (asked || left))
		return PROVE_LATE;
	/* A thread that was started meanwhile has the filter of one that may not have been asked then. */
	while (end == PROVE_READ && asked && restart_answer(p->result) == SECCOMP_ALLOWS)
		end = pass(p, false, &asked, &left);
	return end;
}

/* As the tracer lives (tracer.c). */
static void prover_main(pid_t pid, struct prove_result *result) NORETURN;
static void prover_main(pid_t pid, struct prove_result *result)
{
	static struct prover p;
	sigset_t child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigfillset(&child);
	sigdelset(&child, SIGALRM);
	sigprocmask(SIG_SETMASK, &child, NULL);
	hurry_prepare();
	p = (struct prover){ .pid = pid, .result = result };
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		p.calls[i] = (struct seccomp_call){ .nr = ours[i].number,
						    .unknown = SECCOMP_ANY_IP | (~ours[i].known & 0x3f) };
		memcpy(p.calls[i].args, ours[i].args, sizeof(p.calls[i].args));
	}
	bool begun = stop_init(&p.stop, pid, &p.thread, 1);
	result->end = begun ? prove(&p) : errno == ENOENT ? PROVE_ENDED : PROVE_LATE;
	_exit(0);
}

static struct err *run_prover(const struct target *t, struct prove_result *result)
{
	pid_t prover = fork();
	if (prover < 0)
		return err_errno(errno, "fork");
	if (!prover)
		prover_main(t->pid, result);
	CLOSE_FD int pidfd = (int)syscall(SYS_pidfd_open, prover, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	struct deadline deadline = deadline_in_ms(ALL_MS);
	while (poll(&p, 1, deadline_poll_ms(deadline)) < 0 && errno == EINTR)
		;
	if (!p.revents)
		kill(prover, SIGKILL);
	while (waitpid(prover, NULL, 0) < 0 && errno == EINTR)
		;
	switch (result->end) {
	case PROVE_READ:
		return NULL;
	case PROVE_HIDDEN:
		return err_new(ERR_DENIED, "it runs under a seccomp filter that we may not read");
	case PROVE_ENDED:
		return err_new(ERR_NOT_FOUND, "it has ended");
	default:
		return err_new(ERR_TIMEOUT, "the seccomp filters of its threads could not be read in time");
	}
}

/* The first call of these uses that is forbidden, or NULL. */
static const struct calls_call *forbidden(const struct prove_result *r, unsigned uses)
{
	enum seccomp_answer before = SECCOMP_ALLOWS;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		enum seccomp_answer is = r->answers[i], least = before;
		before = is;
		if (!(ours[i].uses & (uses | CALLS_STOP)))
			continue;
		bool needed = ours[i].need == CALLS_MUST || (ours[i].need == CALLS_ELSE && least != SECCOMP_ALLOWS);
		/* What is not needed is not called, but for calls whose error is no harm. */
		if (is == SECCOMP_KILLS ? needed || ours[i].need == CALLS_MAY : needed && is != SECCOMP_ALLOWS)
			return &ours[i];
	}
	return NULL;
}

enum image_filter image_filter(const struct target *target)
{
	struct limits_process p;
	if (!target->pid)
		return IMAGE_FILTER_UNSEEN;
	struct err *err = limits_read_process("/proc", target->pid, &p);
	bool seen = !err;
	err_free(err);
	if (!seen || !p.seccomp)
		return IMAGE_FILTER_NONE;
	return seccomp_may_read() ? IMAGE_FILTER_READABLE : IMAGE_FILTER_HIDDEN;
}

struct err *image_prove(const struct target *target, const unsigned *uses, size_t n, size_t *ret)
{
	struct prove_result *result =
		mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (result == MAP_FAILED)
		return err_errno(errno, "memory for the answers of its seccomp filters");
	struct err *err = run_prover(target, result);
	const struct calls_call *first = NULL;
	for (size_t i = 0; i < n && !err; i++) {
		const struct calls_call *call = forbidden(result, uses[i]);
		if (!call) {
			munmap(result, sizeof(*result));
			*ret = i;
			return NULL;
		}
		first = first ? first : call;
	}
	munmap(result, sizeof(*result));
	return err ? err
		   : err_new(ERR_UNSUPPORTED, "its seccomp filter forbids %s",
			     first ? first->name : "what was asked for");
}
