#include "image/stop.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
#include "image/hurry.h"
#include "target/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

_Static_assert(sizeof(struct image_regs) == sizeof(struct user_regs_struct), "the kernel's registers");
_Static_assert(sizeof(((struct image_thread *)0)->fp) == sizeof(struct user_fpregs_struct), "the kernel's registers");

/* How often a wait for a thread looks whether its time is over. On a machine that is not busy all of them stand by then. */
#define TICK_US 500

bool stop_init(struct stop *s, pid_t pid, struct image_thread *threads, size_t max)
{
	char path[64];
	*s = (struct stop){ .pid = pid, .threads = threads, .max = max };
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	s->v = mem_array(max, sizeof(*s->v));
	hurry_touch(s->v, max * sizeof(*s->v));
	for (size_t i = 0; i < max; i++)
		map_u64_put(&s->known, i, NULL);
	map_u64_clear(&s->known);
	s->tasks = opendir(path);
	while (s->tasks && readdir(s->tasks))
		; /* so that the memory it reads into has been touched */
	return s->tasks != NULL;
}

static struct tracee *find(struct stop *s, pid_t tid)
{
	uint64_t *index = map_u64_get(&s->known, (uint64_t)tid);
	return index ? &s->v[*index] : NULL;
}

/* ---- reports ---- */

static void note_stop(struct stop *s, struct tracee *t, int status)
{
	int event = status >> 16, sig = WSTOPSIG(status);
	t->stopped = true;
	t->signal = 0;
	if (event == PTRACE_EVENT_STOP)
		s->halted |= sig != SIGTRAP;
	else if (!event && sig != (SIGTRAP | 0x80))
		t->signal = sig;
}

/* Takes one report from the kernel; *ret_status is for the caller that waits for that thread. */
static pid_t take_report(struct stop *s, pid_t pid, int *ret_status)
{
	int status;
	pid_t tid = waitpid(pid, &status, __WALL | WNOHANG);
	if (tid <= 0)
		return 0;
	*ret_status = status;
	struct tracee *t = find(s, tid);
	if (!t) {
		if (WIFSTOPPED(status))
			s->newborn = tid;
		return tid;
	}
	if (WIFSTOPPED(status))
		note_stop(s, t, status);
	else
		t->gone = true;
	return tid;
}

static bool is_dead(pid_t pid, pid_t tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	struct proc_stat stat;
	if (n <= 0)
		return true;
	text[n] = '\0';
	return !proc_parse_stat(text, (size_t)n, &stat) || stat.state == 'Z' || stat.state == 'X';
}

bool stop_wait(struct stop *s, struct tracee *t, struct deadline deadline, int *ret_status)
{
	t->stopped = false;
	for (bool woken = false;; woken = true) {
		hurry_aim(t->tid);
		if (take_report(s, t->tid, ret_status))
			break;
		/* The end of the first thread is reported only once the others are reaped. */
		if (woken && is_dead(s->pid, t->tid))
			t->gone = true;
		if (t->gone || deadline_passed(deadline))
			return false;
		hurry_wait(deadline);
	}
	return t->stopped;
}

bool stop_wait_newborn(struct stop *s, pid_t pid, struct deadline deadline)
{
	int status;
	hurry_aim(0);
	while (s->newborn != pid) {
		if (take_report(s, pid, &status))
			continue;
		if (deadline_passed(deadline))
			return false;
		hurry_wait(deadline);
	}
	return true;
}

bool stop_wait_end(struct stop *s, pid_t pid, struct deadline deadline)
{
	(void)s;
	hurry_aim(0);
	for (;;) {
		int status;
		pid_t got = waitpid(pid, &status, __WALL | WNOHANG);
		if (got < 0 || (got == pid && !WIFSTOPPED(status)))
			return true;
		if (deadline_passed(deadline))
			return false;
		if (got == 0)
			hurry_wait(deadline);
	}
}

/* ---- stopping ---- */

static struct tracee *add(struct stop *s, pid_t tid)
{
	*map_u64_put(&s->known, (uint64_t)tid, NULL) = s->n;
	s->v[s->n] = (struct tracee){ .tid = tid };
	s->threads[s->n] = (struct image_thread){ .tid = tid };
	return &s->v[s->n++];
}

/* NULL and s->failed 0: it is just gone. */
static struct tracee *seize(struct stop *s, pid_t tid)
{
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
		int failed = errno;
		if (failed != ESRCH && !is_dead(s->pid, tid))
			s->failed = failed;
		return NULL;
	}
	struct tracee *t = add(s, tid);
	fault_point("seized");
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 && errno == ESRCH)
		t->gone = true;
	fault_point("interrupted");
	return t;
}

/* One pass over its threads: how many new ones were seized. */
static size_t seize_new(struct stop *s)
{
	size_t before = s->n;
	rewinddir(s->tasks);
	for (struct dirent *e; !s->failed && (e = readdir(s->tasks));) {
		uint64_t tid;
		if (!str_to_u64(e->d_name, &tid) || map_u64_get(&s->known, tid))
			continue;
		if (s->n == s->max) {
			s->failed = ENOSPC;
			break;
		}
		seize(s, (pid_t)tid);
	}
	return s->n - before;
}

static void read_registers(struct stop *s, size_t i)
{
	struct image_thread *t = &s->threads[i];
	t->has_regs = !ptrace(PTRACE_GETREGS, t->tid, NULL, &t->regs);
	t->has_fp = !ptrace(PTRACE_GETFPREGS, t->tid, NULL, t->fp);
}

static void set_timer(long every_us)
{
	const struct itimerval timer = { { 0, every_us }, { 0, every_us } };
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Waits in the kernel, for this thread alone: otherwise each of a thousand threads would wake us once, and delay those
 * that are still stopping. The timer ends what lasts too long; from then on each thread gets our turn while it is waited for. */
static bool wait_one(struct stop *s, struct tracee *t, struct deadline deadline)
{
	while (!t->stopped && !t->gone) {
		int status;
		hurry_aim(t->tid);
		pid_t got = waitpid(t->tid, &status, s->slow ? __WALL | WNOHANG : __WALL);
		if (got == t->tid && WIFSTOPPED(status))
			note_stop(s, t, status);
		else if (got == t->tid || (got < 0 && errno == ECHILD))
			t->gone = true;
		else if (deadline_passed(deadline))
			return false;
		else if (s->slow)
			hurry_wait(deadline);
		else if (hurry_lends()) {
			s->slow = true;
			set_timer(0);
		}
	}
	return true;
}

/* Threads that are stopped by now can be continued at once. */
static void take_reports(struct stop *s, size_t from)
{
	int status;
	for (size_t i = from; i < s->n; i++)
		if (!s->v[i].stopped && !s->v[i].gone)
			take_report(s, s->v[i].tid, &status);
}

static enum stop_end wait_all(struct stop *s, size_t from, struct deadline deadline)
{
	bool all = true;
	if (!s->slow)
		set_timer(TICK_US);
	/* The last one first: when it stands, most of the others do. */
	for (size_t i = s->n; all && i > from; i--)
		all = wait_one(s, &s->v[i - 1], deadline);
	set_timer(0);
	if (!all) {
		take_reports(s, from);
		return STOP_LATE;
	}
	for (size_t i = from; i < s->n; i++)
		if (s->v[i].stopped && !s->v[i].gone)
			read_registers(s, i);
	return s->halted ? STOP_HALTED : STOP_DONE;
}

enum stop_end stop_all(struct stop *s, struct deadline deadline)
{
	/* A thread that is not yet ours may start others: done when a pass finds nothing new. */
	for (;;) {
		size_t from = s->n, new = seize_new(s);
		if (s->failed)
			return s->failed == ENOSPC ? STOP_CROWDED : STOP_DENIED;
		if (!new)
			break;
		enum stop_end end = wait_all(s, from, deadline);
		if (end != STOP_DONE)
			return end;
	}
	size_t alive = 0;
	for (size_t i = 0; i < s->n; i++)
		alive += !s->v[i].gone;
	return alive ? STOP_DONE : STOP_ENDED;
}

bool stop_one(struct stop *s, pid_t tid, struct deadline deadline)
{
	if (s->n == s->max)
		return false;
	size_t from = s->n;
	return seize(s, tid) && wait_all(s, from, deadline) == STOP_DONE && !s->v[from].gone;
}

/* ---- continuing ---- */

static bool release_one(struct tracee *t)
{
	if (t->gone)
		return true;
	if (!t->stopped)
		return false;
	if (ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(intptr_t)t->signal) < 0 && errno != ESRCH)
		return false;
	t->gone = true;
	return true;
}

bool stop_release(struct stop *s)
{
	bool all = true;
	for (size_t i = 0; i < s->n; i++) {
		all &= release_one(&s->v[i]);
		fault_point("detached");
	}
	s->n = 0;
	s->halted = s->slow = false;
	s->failed = 0;
	map_u64_clear(&s->known);
	return all;
}
