#include "image/tracer.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "image/fault.h"
#include "image/hurry.h"
#include "image/inject.h"
#include "image/limits.h"
#include "image/lock.h"
#include "image/save.h"
#include "image/seccomp.h"
#include "target/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define ATTEMPTS 6
#define REAP_STOP_MS 100
#define REAP_THREADS 24
#define REAP_ROUNDS 3
#define WATCH_MS 25
#define END_MS 5000
#define DROP_S 15
/* Of the limit: until when we try, and when the kernel ends us, so that all that is held goes on before the limit. */
#define TRY_UNTIL(limit_ns) ((limit_ns) / 8 * 7)
#define END_AT(limit_ns) ((limit_ns) / 16 * 15)
#define STATUS_MAX 16384
#define TABLE_ROWS 1024

struct tracer {
	struct tracer_job *job;
	struct tracer_result *result;
	struct stop stop;
	struct inject_place place;
	struct deadline until; /* of this attempt: what is left of the limit then is for undoing it */
	enum hurry_kind hurry; /* in this attempt */
	/* For burying: what the owner reads must not change under it. */
	struct stop grave;
	struct image_thread digger;
	char *maps;
};

/* An attempt's end; RETRY and FAIL leave the process running as it was. */
enum attempt { ATTEMPT_DONE, ATTEMPT_RETRY, ATTEMPT_FAIL };

static enum attempt say(struct tracer *t, enum attempt end, enum err_kind kind, const char *fmt, ...) PRINTF(4, 5);
static enum attempt say(struct tracer *t, enum attempt end, enum err_kind kind, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(t->result->text, sizeof(t->result->text), fmt, ap);
	va_end(ap);
	t->result->failure = kind;
	return end;
}

static struct deadline call_deadline(const struct tracer *t)
{
	return (struct deadline){ clock_mono_ns() + t->job->call_ns };
}

static const char *name_of(const struct tracer_job *job, pid_t tid)
{
	for (size_t low = 0, high = job->n_names; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (job->names[mid].tid == tid)
			return job->names[mid].name;
		if (job->names[mid].tid < tid)
			low = mid + 1;
		else
			high = mid;
	}
	return "";
}

/* ---- choosing the thread ---- */

/* Is there free stack below, in a mapping that no other thread uses? Guard pages end the mapping of a thread's stack,
 * so that much room below it means a stack of the usual kind. */
static bool has_stack_room(const char *maps, size_t maps_len, uint64_t rsp)
{
	const char *p = maps, *end = maps + maps_len;
	uint64_t lowest = rsp - FRAME_RED_ZONE - sizeof(((struct frame *)0)->bytes) - FRAME_SPARE;
	for (struct maps_line line; maps_next(&p, end, &line);)
		if (line.start <= rsp && rsp < line.end)
			return lowest >= line.start && !memcmp(line.prot, "rw", 2) && line.prot[3] == 'p';
	return false;
}

struct choice {
	struct tracee *tracee;
	uint64_t call;
	unsigned rank;
};

/* The best thread not yet tried. */
static struct choice choose(struct tracer *t)
{
	struct choice best = { .rank = UINT32_MAX };
	for (size_t i = 0; i < t->stop.n; i++) {
		struct tracee *tracee = &t->stop.v[i];
		const struct image_thread *thread = &t->stop.threads[i];
		uint64_t call;
		if (tracee->tried || tracee->gone || !tracee->stopped || tracee->signal)
			continue;
		enum carrier_kind kind = inject_look(&t->place, thread, &call);
		unsigned rank = kind == CARRIER_NO ? UINT32_MAX : carrier_rank(kind, name_of(t->job, thread->tid));
		if (rank < best.rank && has_stack_room(t->job->maps, t->result->maps_len, thread->regs.rsp))
			best = (struct choice){ tracee, call, rank };
	}
	return best;
}

static bool has_filter(pid_t tid)
{
	static char text[STATUS_MAX];
	struct proc_status status;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[MAX(n, (ssize_t)0)] = '\0';
	return n <= 0 || !proc_parse_status(text, (size_t)n, &status) || status.seccomp != 0;
}

static const uint64_t clone_args[4] = { CLONE_FILES };

static bool check_seccomp(struct tracer *t, pid_t tid)
{
	if (!has_filter(tid))
		return true;
	const struct seccomp_call calls[] = {
		{ .nr = SYS_clone, .ip = t->place.syscall_at + 2, .args = { CLONE_FILES } },
		{ .nr = SYS_rt_sigreturn, .ip = t->place.sigreturn_at + 9 },
		{ .nr = SYS_exit_group, .ip = t->place.syscall_at + 2 },
		{ .nr = SYS_wait4, .ip = t->place.syscall_at + 2 },
	};
	enum seccomp_answer answers[ARRAY_SIZE(calls)] = { SECCOMP_ALLOWS };
	bool read = seccomp_ask(tid, calls, ARRAY_SIZE(calls), answers);
	for (size_t i = 0; read && i < ARRAY_SIZE(calls); i++)
		if (answers[i] != SECCOMP_ALLOWS) {
			say(t, ATTEMPT_FAIL, ERR_UNSUPPORTED, "its seccomp filter forbids to make a copy of it");
			return false;
		}
	if (!read)
		say(t, ATTEMPT_FAIL, ERR_DENIED,
		    "it runs under a seccomp filter, and only CAP_SYS_ADMIN outside of any filter may read whether "
		    "that allows a copy");
	return read;
}

/* ---- one attempt ---- */

/* The length of the text; 0 when it cannot be read or does not fit. */
static size_t read_maps(const struct tracer_job *job, char *text)
{
	size_t len = 0;
	if (lseek(job->maps_fd, 0, SEEK_SET) < 0)
		return 0;
	while (len < job->maps_max) {
		ssize_t n = read(job->maps_fd, text + len, job->maps_max - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return len == job->maps_max ? 0 : len;
}

/* What else may be why something came too late. */
static const char *if_slow(const struct tracer *t)
{
	return t->hurry == HURRY_REALTIME ? ""
					  : ", or the machine is busy: only CAP_SYS_NICE gives it the first turn then";
}

static enum attempt explain_stop(struct tracer *t, enum stop_end end)
{
	switch (end) {
	case STOP_LATE:
		return say(
			t, ATTEMPT_FAIL, ERR_TIMEOUT,
			"a thread of it did not come to a stop within %s (it waits for a disk, or starts a process%s)",
			fmt_duration_ns(t->job->stop_ns).s, if_slow(t));
	case STOP_DENIED:
		return say(t, ATTEMPT_FAIL, t->stop.failed == EPERM ? ERR_DENIED : ERR_IO,
			   "its threads cannot be stopped: %s", strerror(t->stop.failed));
	case STOP_ENDED:
		return say(t, ATTEMPT_FAIL, ERR_NOT_FOUND, "it has ended");
	case STOP_HALTED:
		return say(t, ATTEMPT_FAIL, ERR_BUSY, "it is being stopped by a signal");
	case STOP_CROWDED:
		return say(t, ATTEMPT_FAIL, ERR_UNSUPPORTED, "it starts threads faster than they can be stopped");
	case STOP_DONE:
		break;
	}
	return ATTEMPT_DONE;
}

/* All that needs no change of the process: is it still the same one, in order, and what does it share? */
static enum attempt look(struct tracer *t, struct deadline deadline)
{
	uint32_t busy = 0;
	t->result->maps_len = read_maps(t->job, t->job->maps);
	if (!inject_place_good(&t->place) || !t->result->maps_len)
		return say(t, ATTEMPT_FAIL, ERR_NOT_FOUND, "it has become another program");
	if (t->job->busy_word &&
	    (pread(t->job->mem_fd, &busy, sizeof(busy), (off_t)t->job->busy_word) != sizeof(busy) || busy))
		return say(t, ATTEMPT_RETRY, ERR_BUSY, "each time it was looked at a garbage collection was running");
	if (t->job->mode == TRACER_COPY && !save_shared(t->job, deadline))
		return say(t, ATTEMPT_FAIL, ERR_TIMEOUT, "the memory that it shares could not be read within %s",
			   fmt_duration_ns(t->job->stop_ns).s);
	return ATTEMPT_DONE;
}

static void adopt(struct tracer *t, pid_t copy);

/* The kernel ends us then, and with us every hold. 0 = no more. */
static void end_at(uint64_t at_ns)
{
	static timer_t timer;
	static bool made;
	struct sigevent kill_us = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(at_ns / NS_PER_S),
						     .tv_nsec = (long)(at_ns % NS_PER_S) } };
	if (made || (made = timer_create(CLOCK_MONOTONIC, &kill_us, &timer) == 0))
		timer_settime(timer, TIMER_ABSTIME, &at, NULL);
}

/* False: what cannot be released now is released by our end, which must be soon. */
static bool let_go(struct tracer *t)
{
	bool all = stop_release(&t->stop);
	t->result->go_ns = clock_mono_ns();
	t->result->pause_ns = MAX(t->result->pause_ns, t->result->go_ns - t->result->stop_ns);
	if (!all)
		return false;
	end_at(0);
	hurry_end();
	return true;
}

/* The process is continued first; what is left to do concerns the copy alone. */
static enum attempt copy_made(struct tracer *t, pid_t copy)
{
	t->result->copied_ns = clock_mono_ns();
	t->result->copy = t->result->copy_ns = copy;
	bool all = let_go(t);
	fault_point("all let go");
	adopt(t, copy);
	if (!all)
		return say(t, ATTEMPT_FAIL, ERR_IO, "a thread of it could not be let go");
	return ATTEMPT_DONE;
}

static enum attempt make_copy(struct tracer *t)
{
	enum attempt end = say(t, ATTEMPT_RETRY, ERR_UNSUPPORTED,
			       "none of its threads waits in a system call that could be begun anew");
	for (struct choice c; (c = choose(t)).tracee;) {
		int64_t result;
		pid_t copy;
		pid_t tid = c.tracee->tid;
		c.tracee->tried = true;
		if (!check_seccomp(t, tid)) {
			end = ATTEMPT_FAIL;
			break;
		}
		str_copy(t->result->carrier, sizeof(t->result->carrier), name_of(t->job, tid));
		enum inject_end injected = inject_call(&t->stop, c.tracee, &t->place, c.call, SYS_clone, clone_args,
						       true, t->until, &result, &copy);
		if (injected == INJECT_UNFIT)
			continue;
		if (injected == INJECT_DONE && copy)
			end = copy_made(t, copy);
		else if (injected == INJECT_DONE)
			end = say(t, ATTEMPT_FAIL, result == -ENOMEM ? ERR_IO : ERR_UNSUPPORTED,
				  "the kernel refused to make a copy of it: %s", strerror((int)-result));
		else if (injected == INJECT_ABORTED)
			end = say(t, ATTEMPT_RETRY, ERR_BUSY, "signals came between");
		else
			end = say(t, ATTEMPT_FAIL, ERR_TIMEOUT,
				  "the kernel did not make the copy while it may stand still, %s%s",
				  fmt_duration_ns(t->job->limit_ns).s, if_slow(t));
		break;
	}
	return end;
}

static enum attempt attempt(struct tracer *t)
{
	t->hurry = hurry_begin();
	uint64_t now = t->result->stop_ns = clock_mono_ns();
	t->until = (struct deadline){ now + TRY_UNTIL(t->job->limit_ns) };
	struct deadline deadline = { MIN(now + t->job->stop_ns, t->until.at_ns) };
	end_at(now + END_AT(t->job->limit_ns));
	enum stop_end stopped = stop_all(&t->stop, deadline);
	fault_point("all stopped");
	enum attempt end = explain_stop(t, stopped);
	t->result->n_threads = t->stop.n;
	if (end == ATTEMPT_DONE)
		end = look(t, deadline);
	fault_point("saved");
	if (end == ATTEMPT_DONE && t->job->mode == TRACER_COPY)
		end = make_copy(t);
	if (end != ATTEMPT_DONE)
		return let_go(t) ? end : ATTEMPT_FAIL;
	/* Held from here on as long as its owner says. */
	if (t->job->mode == TRACER_HOLD) {
		end_at(0);
		hurry_end();
	}
	return end;
}

/* ---- the copy ---- */

static void write_file(const char *path, const char *text)
{
	CLOSE_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		return; /* it is only the first to be killed when memory is short */
}

static pid_t inner_pid(pid_t pid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_status status;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	struct err *err = file_read(path, 1 << 20, &text);
	bool ok = !err && proc_parse_status(text.data, text.len, &status) && status.ns_pid;
	err_free(err);
	return ok ? status.ns_pid : pid;
}

/* Once it is stopped it is killed with us, before all other processes when memory runs out, and without a core file. */
static void adopt(struct tracer *t, pid_t copy)
{
	char path[64];
	const struct rlimit none = { 0 };
	if (!stop_wait_newborn(&t->stop, copy, call_deadline(t)))
		return;
	fault_point("copy stands");
	ptrace(PTRACE_SETOPTIONS, copy, NULL, (void *)PTRACE_O_EXITKILL);
	fault_point("copy bound");
	prlimit(copy, RLIMIT_CORE, &none, NULL);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", copy);
	write_file(path, "1000");
	t->result->copy_ns = inner_pid(copy);
	fault_point("copy adopted");
}

enum burial { BURIED, BURY_ELSE, BURY_LOST };

/* By this thread, if it can; the others are not changed. */
static enum burial bury_by(struct tracer *t, pid_t tid, pid_t child_ns)
{
	const uint64_t args[4] = { (uint64_t)child_ns, 0, WNOHANG | __WALL, 0 };
	uint64_t call;
	int64_t result = 0;
	pid_t none;
	enum burial end = BURY_ELSE;
	size_t len;
	hurry_begin();
	if (stop_one(&t->grave, tid, deadline_in_ms(REAP_STOP_MS)) && inject_place_good(&t->place) &&
	    inject_look(&t->place, &t->digger, &call) != CARRIER_NO && (len = read_maps(t->job, t->maps)) &&
	    has_stack_room(t->maps, len, t->digger.regs.rsp) && check_seccomp(t, tid)) {
		enum inject_end done = inject_call(&t->grave, &t->grave.v[0], &t->place, call, SYS_wait4, args, false,
						   call_deadline(t), &result, &none);
		if (done == INJECT_DONE && (result == child_ns || result == -ECHILD))
			end = BURIED;
	}
	if (!stop_release(&t->grave))
		end = BURY_LOST;
	hurry_end();
	fault_point("bury tried");
	return end;
}

static enum burial bury_by_any(struct tracer *t, pid_t child_ns, bool of_runtime, unsigned *tries)
{
	for (size_t i = 0; i < t->job->n_names && *tries < REAP_THREADS; i++) {
		const struct tracer_name *n = &t->job->names[i];
		if (str_starts(n->name, ".NET ") != of_runtime)
			continue;
		*tries += 1;
		enum burial end = bury_by(t, n->tid, child_ns);
		if (end != BURY_ELSE)
			return end;
	}
	return BURY_ELSE;
}

/* Makes the process reap one of its children. Threads of the runtime wait longest, so they are tried first; all are
 * tried again when signals came first. */
static bool bury(struct tracer *t, pid_t child_ns)
{
	enum burial end = BURY_ELSE;
	for (int round = 0; round < REAP_ROUNDS && end == BURY_ELSE; round++) {
		unsigned tries = 0;
		end = bury_by_any(t, child_ns, true, &tries);
		if (end == BURY_ELSE)
			end = bury_by_any(t, child_ns, false, &tries);
	}
	return end == BURIED;
}

static bool target_ended(const struct tracer_job *job)
{
	struct pollfd p = { .fd = job->pidfd, .events = POLLIN };
	return poll(&p, 1, 0) > 0;
}

static void drop(struct tracer *t)
{
	pid_t copy = t->result->copy;
	if (!copy || t->result->dropped_ns)
		return;
	/* Whoever watches over us may be dead. */
	end_at(clock_mono_ns() + DROP_S * NS_PER_S);
	bool ended = target_ended(t->job);
	if (!ended && !t->result->gone)
		t->result->cow_bytes = limits_private_bytes("/proc", copy);
	kill(copy, SIGKILL);
	fault_point("copy killed");
	stop_wait_end(&t->stop, copy, deadline_in_ms(END_MS));
	t->result->dropped_ns = clock_mono_ns();
	fault_point("copy ended");
	t->result->unburied = !ended && !bury(t, t->result->copy_ns);
	fault_point("copy buried");
	end_at(0);
}

static void lose(struct tracer *t, const char *why)
{
	if (t->result->gone)
		return;
	str_copy(t->result->text, sizeof(t->result->text), why);
	t->result->gone = true;
	drop(t);
}

static bool memory_short(const struct tracer_job *job)
{
	struct limits_room room = limits_watch_room(job->watch);
	return room.bytes < job->reserve_bytes;
}

/* Holds the copy (or the process) until told to end, or until the owner was killed: a process that runs freely has nothing from
 * our death, but a dead child that stays. */
static void hold(struct tracer *t)
{
	struct tracer_job *job = t->job;
	struct deadline end = { clock_mono_ns() + job->max_life_ns };
	if (job->mode == TRACER_COPY)
		prctl(PR_SET_PDEATHSIG, 0);
	while (getppid() == job->owner) {
		struct pollfd p[2] = { { .fd = job->control, .events = POLLIN },
				       { .fd = t->result->gone ? -1 : job->pidfd, .events = POLLIN } };
		int left = deadline_poll_ms(end);
		int n = poll(p, 2, t->result->gone ? WATCH_MS : MIN(left, WATCH_MS));
		if (n < 0 && errno != EINTR)
			return;
		if (p[0].revents)
			return;
		if (t->result->gone)
			continue;
		if (p[1].revents)
			lose(t, "the process ended");
		else if (deadline_passed(end))
			lose(t, "it was held for too long");
		else if (job->mode == TRACER_COPY && memory_short(job))
			lose(t, "memory became short");
		if (t->result->gone && job->mode == TRACER_HOLD)
			return;
	}
}

/* ---- the process's life ---- */

static void live_alone(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigset_t alarm_only;
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
}

/* So that no page is faulted in while the process is stopped. */
static void warm_up(const struct tracer_job *job)
{
	hurry_touch(job->saved, job->saved_likely);
	hurry_touch(job->maps, job->maps_max);
	hurry_touch(job->threads, job->threads_max * sizeof(*job->threads));
	hurry_touch(job->result, offsetof(struct tracer_result, saved[TABLE_ROWS]));
	save_prepare(TABLE_ROWS);
}

static void bury_leftovers(struct tracer *t, struct deadline deadline)
{
	struct lock_children children;
	lock_find_children("/proc", t->job->pid, &children);
	/* A copy ends a moment after its tracer was killed. */
	for (; children.alive && !deadline_passed(deadline); lock_find_children("/proc", t->job->pid, &children))
		poll(NULL, 0, 1);
	for (size_t i = 0; i < children.n_dead; i++)
		t->result->reaped += bury(t, children.dead_ns[i]);
}

/* Who may not go first can tell from its own waiting how long the process would wait with it, and then better leaves it alone: even
 * to end takes us a turn on a CPU. */
static bool too_busy(struct tracer *t)
{
	if (hurry_begin() == HURRY_REALTIME)
		return false;
	double likely_ns = hurry_delay() * (double)t->job->predicted_ns;
	if (likely_ns <= (double)t->job->limit_ns)
		return false;
	say(t, ATTEMPT_FAIL, ERR_TIMEOUT,
	    "the machine is so busy that it would stand still for about %s, and the limit is %s; only CAP_SYS_NICE gives "
	    "us the first turn on a CPU",
	    fmt_duration_ns((uint64_t)likely_ns).s, fmt_duration_ns(t->job->limit_ns).s);
	return true;
}

static enum attempt try_all(struct tracer *t)
{
	enum attempt end = ATTEMPT_RETRY;
	for (unsigned i = 0; i < ATTEMPTS && end == ATTEMPT_RETRY; i++) {
		struct pollfd p = { .fd = t->job->control, .events = POLLIN };
		/* 1, 2, 4 ... ms: a collection, or a thread on its way back into its wait. */
		if (i && poll(&p, 1, 1 << (i - 1)) > 0)
			return say(t, ATTEMPT_FAIL, ERR_CANCELLED, "cancelled");
		if (too_busy(t))
			return ATTEMPT_FAIL;
		t->result->attempts++;
		end = attempt(t);
	}
	if (end == ATTEMPT_DONE) {
		t->result->failure = 0;
		t->result->text[0] = '\0';
	}
	return end;
}

void tracer_run(struct tracer_job *job)
{
	static struct tracer t;
	t = (struct tracer){ .job = job, .result = job->result };
	t.place = (struct inject_place){ job->syscall_at, job->sigreturn_at, job->mem_fd };
	live_alone();
	hurry_prepare();
	if (job->mode != TRACER_BURY)
		warm_up(job);
	fault_role(job->mode == TRACER_BURY ? "undertaker" : "tracer");
	t.maps = mem_alloc(job->maps_max);
	bool ok = stop_init(&t.stop, job->pid, job->threads, job->threads_max) &&
		  stop_init(&t.grave, job->pid, &t.digger, 1);
	if (!ok && errno == ENOENT)
		say(&t, ATTEMPT_FAIL, ERR_NOT_FOUND, "it has ended");
	else if (!ok)
		say(&t, ATTEMPT_FAIL, ERR_IO, "its threads cannot be listed: %s", strerror(errno));
	if (ok && job->mode != TRACER_HOLD)
		bury_leftovers(&t, deadline_in_ms(job->mode == TRACER_BURY ? END_MS : 0));
	if (job->mode == TRACER_BURY)
		_exit(0);
	enum attempt end = ok ? try_all(&t) : ATTEMPT_FAIL;
	fault_point("ready");
	char ready = TRACER_READY;
	if (write(job->control, &ready, 1) != 1)
		end = ATTEMPT_FAIL;
	if (end == ATTEMPT_DONE)
		hold(&t);
	if (job->mode == TRACER_HOLD)
		stop_release(&t.stop);
	drop(&t);
	_exit(0);
}
