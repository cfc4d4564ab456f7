/* Would a snapshot be refused, and what would it cost? Determined before the process is stopped, also for `drdotnet
 * check`. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "image/image.h"
#include "image/limits.h"
#include "image/lock.h"
#include "image/seccomp.h"
#include "target/proc.h"
#include "target/target.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEFT_MS 3000 /* for a copy that is not held to end */
#define PAUSE_MS_PER_GB 40
#define PAUSE_MOST_MS 500
#define GB (1ull << 30)

static struct err *refuse(struct image_forecast *f, const char *fix, struct err *why)
{
	f->fix = fix;
	return why;
}

static struct err *judge_state(const struct target *t, const struct limits_process *p, struct image_forecast *f)
{
	if (p->state == 'Z' || p->state == 'X' || p->start_ticks != t->start_ticks)
		return err_new(ERR_NOT_FOUND, "it has ended");
	if (p->tracer)
		return refuse(f, "let the debugger go", err_new(ERR_BUSY, "process %d debugs it already", p->tracer));
	if (p->state == 'T' || p->state == 't')
		return refuse(f, "send it SIGCONT", err_new(ERR_BUSY, "it is stopped by a signal"));
	if (p->huge)
		return refuse(f, "start it without DOTNET_GCLargePages",
			      err_new(ERR_UNSUPPORTED,
				      "it uses %s of large pages, which a copy would need a second time",
				      fmt_bytes(p->huge).s));
	return NULL;
}

/* What stands against our way of having it copied. */
static struct err *judge_kind(const struct limits_process *p, struct image_forecast *f)
{
	if (p->seccomp == 1)
		return refuse(f, "take a core file with the system's own means",
			      err_new(ERR_UNSUPPORTED,
				      "it runs in seccomp's strict mode, in which no copy of it can be made"));
	if (p->shadow_stack)
		return refuse(
			f, "start it without shadow stacks (GLIBC_TUNABLES)",
			err_new(ERR_UNSUPPORTED, "it runs with a shadow stack, which forbids to make a copy of it"));
	return NULL;
}

static struct err *judge_filter(const struct limits_process *p, struct image_forecast *f)
{
	if (p->seccomp != 2 || seccomp_may_read())
		return NULL;
	return refuse(f,
		      "run drdotnet with CAP_SYS_ADMIN and outside of any seccomp filter, as root on the host has it",
		      err_new(ERR_DENIED,
			      "it runs under a seccomp filter, and only CAP_SYS_ADMIN may read whether that allows "
			      "a copy"));
}

/* inside: the process copies itself, and its cgroup may not be visible from anywhere. */
static struct err *judge_room(const struct limits_watch *w, const struct limits_process *p, bool inside,
			      struct image_forecast *f)
{
	struct limits_room room = limits_watch_room(w);
	f->need_bytes = limits_need(p);
	f->room_bytes = room.bytes;
	if (limits_frozen(w))
		return refuse(f, "thaw its cgroup", err_new(ERR_BUSY, "its cgroup is frozen"));
	if (w->hidden && !inside)
		return refuse(
			f, "run drdotnet where the cgroups of the process can be seen (on the host)",
			err_new(ERR_UNSUPPORTED,
				"the memory limit of its cgroup cannot be seen from here, so there may be no room "
				"for a copy"));
	/* The copy's own OOM score would not help: the whole group is killed, whichever process took the memory. */
	if (room.oom_group)
		return refuse(
			f, "clear memory.oom.group of its cgroup, or take a way without a copy",
			err_new(ERR_UNSUPPORTED,
				"should memory run out, all of its container would be killed (memory.oom.group), so "
				"no copy of it is made"));
	uint64_t reserve = limits_reserve(room.limit);
	if (room.bytes < f->need_bytes + reserve)
		return refuse(f, room.machine ? "free memory on the machine" : "give its cgroup more memory",
			      err_new(ERR_UNSUPPORTED, "a copy may need %s, and %s has only %s left",
				      fmt_bytes(f->need_bytes + reserve).s, room.machine ? "the machine" : "its cgroup",
				      fmt_bytes(room.bytes).s));
	return NULL;
}

uint64_t image_default_pause_ms(uint64_t private_bytes)
{
	uint64_t ms = MIN(private_bytes / GB, (uint64_t)PAUSE_MOST_MS) * PAUSE_MS_PER_GB;
	return MIN(MAX(ms, (uint64_t)IMAGE_MAX_PAUSE_MS), (uint64_t)PAUSE_MOST_MS);
}

static uint64_t max_pause_ms(const struct image_limits *limits, uint64_t private_bytes)
{
	return limits && limits->max_pause_ms ? limits->max_pause_ms : image_default_pause_ms(private_bytes);
}

static struct err *judge_pause(const struct image_limits *limits, struct image_forecast *f)
{
	f->max_pause_ms = max_pause_ms(limits, f->anon_bytes);
	if (f->pause_ns <= f->max_pause_ms * NS_PER_MS)
		return NULL;
	/* It may grow until the next try, and what else the machine does then is not known. */
	uint64_t enough_ms = f->pause_ns * 3 / 2 / NS_PER_MS + 10;
	return refuse(f, "allow a longer pause",
		      err_new(ERR_UNSUPPORTED,
			      "it would stand still for about %s; the limit is %llu ms, and %llu ms would do",
			      fmt_duration_ns(f->pause_ns).s, (unsigned long long)f->max_pause_ms,
			      (unsigned long long)enough_ms));
}

static struct err *judge_rights(pid_t pid)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/mem", pid);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? err_new(ERR_NOT_FOUND, "it has ended")
				       : err_errno(errno, "its memory cannot be read");
	return NULL;
}

/* A copy that the kernel made too late ends by itself, but a large one takes its time on a busy machine. */
static void let_end(pid_t copy)
{
	CLOSE_FD int fd = (int)syscall(SYS_pidfd_open, copy, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd >= 0 && poll(&p, 1, LEFT_MS) < 0)
		return; /* then it counts as it stands */
}

static struct err *judge_others(const struct target *t, const struct image_limits *limits, struct image_forecast *f)
{
	struct lock_children children;
	struct image_turn turn = lock_turn(limits);
	bool waited;
	f->fix = "wait until that is done";
	TRY(image_wait_turn(t, &turn, &waited));
	lock_find_children("/proc", t->pid, &children);
	if (children.alive) {
		let_end(children.alive);
		lock_find_children("/proc", t->pid, &children);
	}
	if (children.alive)
		return err_new(ERR_BUSY, "a copy of it exists already (process %d): someone else examines it",
			       children.alive);
	f->fix = NULL;
	return NULL;
}

static struct err *judge_memory(const struct target *t, const struct limits_process *p, bool inside,
				struct image_forecast *f)
{
	struct limits_watch w;
	limits_watch_init(&w, "/proc", t->pid);
	struct err *err = judge_room(&w, p, inside, f);
	limits_watch_fini(&w);
	return err;
}

static struct err *measure(const struct target *target, struct limits_process *ret_process, struct image_forecast *ret)
{
	TRY(limits_read_process("/proc", target->pid, ret_process));
	ret->rss_bytes = ret_process->rss;
	ret->anon_bytes = ret_process->anon;
	ret->pause_ns = limits_pause_ns(ret_process);
	return judge_state(target, ret_process, ret);
}

struct err *image_forecast(const struct target *target, const struct image_limits *limits, struct image_forecast *ret)
{
	struct limits_process p;
	*ret = (struct image_forecast){ 0 };
	if (!target->pid)
		return err_new(ERR_UNSUPPORTED, "its process cannot be seen from here");
	TRY(measure(target, &p, ret));
	TRY(judge_kind(&p, ret));
	TRY(judge_rights(target->pid));
	TRY(judge_others(target, limits, ret));
	TRY(judge_filter(&p, ret));
	TRY(judge_pause(limits, ret));
	return judge_memory(target, &p, false, ret);
}

struct err *image_forecast_inside(const struct target *target, const struct image_limits *limits,
				  struct image_forecast *ret)
{
	struct limits_process p;
	*ret = (struct image_forecast){ .max_pause_ms = max_pause_ms(limits, 0) };
	if (!target->pid)
		return NULL;
	TRY(measure(target, &p, ret));
	TRY(judge_others(target, limits, ret));
	TRY(judge_pause(limits, ret));
	return judge_memory(target, &p, true, ret);
}

uint64_t image_predict_pause(const struct target *target)
{
	struct limits_process p;
	CLEANUP(err_freep) struct err *err = limits_read_process("/proc", target->pid, &p);
	return err ? 0 : limits_pause_ns(&p);
}
