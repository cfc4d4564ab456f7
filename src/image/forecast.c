/* Would a snapshot be taken, and what would it cost? Asked before anything is touched, and by those who only want to
 * know. */
#include "base/fmt.h"
#include "base/str.h"
#include "image/image.h"
#include "image/limits.h"
#include "image/lock.h"
#include "target/target.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct err *judge_process(const struct target *t, const struct limits_process *p)
{
	if (p->state == 'Z' || p->state == 'X' || p->start_ticks != t->start_ticks)
		return err_new(ERR_NOT_FOUND, "it has ended");
	if (p->tracer)
		return err_new(ERR_BUSY, "process %d debugs it already", p->tracer);
	if (p->state == 'T' || p->state == 't')
		return err_new(ERR_BUSY, "it is stopped by a signal");
	if (p->seccomp == 1)
		return err_new(ERR_UNSUPPORTED, "it runs in seccomp's strict mode, in which no copy of it can be made");
	if (p->shadow_stack)
		return err_new(ERR_UNSUPPORTED, "it runs with a shadow stack, which forbids to make a copy of it");
	if (p->huge)
		return err_new(ERR_UNSUPPORTED, "it uses %s of large pages, which a copy would need a second time",
			       fmt_bytes(p->huge).s);
	return NULL;
}

static struct err *judge_room(const struct limits_watch *w, const struct limits_process *p, struct image_forecast *f)
{
	struct limits_room room = limits_watch_room(w);
	f->need_bytes = limits_need(p, room.oom_group);
	f->room_bytes = room.bytes;
	if (limits_frozen(w))
		return err_new(ERR_BUSY, "its cgroup is frozen");
	if (w->hidden)
		return err_new(ERR_UNSUPPORTED,
			       "the memory limit of its cgroup cannot be seen from here, so there may be no room for a "
			       "copy");
	uint64_t reserve = limits_reserve(room.limit);
	if (room.bytes < f->need_bytes + reserve)
		return err_new(ERR_UNSUPPORTED, "a copy may need %s, and %s has only %s left%s",
			       fmt_bytes(f->need_bytes + reserve).s, room.machine ? "the machine" : "its cgroup",
			       fmt_bytes(room.bytes).s,
			       room.oom_group ? " (and would kill all of it when that ends: memory.oom.group)" : "");
	return NULL;
}

static struct err *judge_pause(const struct image_limits *limits, uint64_t predicted_ns)
{
	uint64_t max_ms = limits && limits->max_pause_ms ? limits->max_pause_ms : IMAGE_MAX_PAUSE_MS;
	if (predicted_ns > max_ms * 1000000)
		return err_new(ERR_UNSUPPORTED, "it would stand still for about %s; the limit is %llu ms",
			       fmt_duration_ns(predicted_ns).s, (unsigned long long)max_ms);
	return NULL;
}

static struct err *judge_rights(pid_t pid)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/mem", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? err_new(ERR_NOT_FOUND, "it has ended")
				       : err_errno(errno, "its memory cannot be read");
	close(fd);
	return NULL;
}

struct err *image_forecast(const struct target *target, const struct image_limits *limits, struct image_forecast *ret)
{
	struct limits_process p;
	struct lock_children children;
	*ret = (struct image_forecast){ 0 };
	if (!target->pid)
		return err_new(ERR_UNSUPPORTED, "its process cannot be seen from here");
	TRY(limits_read_process("/proc", target->pid, &p));
	ret->rss_bytes = p.rss;
	ret->anon_bytes = p.anon;
	ret->pause_ns = limits_pause_ns(&p);
	TRY(judge_process(target, &p));
	TRY(judge_rights(target->pid));
	lock_find_children("/proc", target->pid, &children);
	if (children.alive)
		return err_new(ERR_BUSY, "a copy of it exists already (process %d): someone else examines it",
			       children.alive);
	TRY(judge_pause(limits, ret->pause_ns));
	struct limits_watch w;
	limits_watch_init(&w, "/proc", target->pid);
	struct err *err = judge_room(&w, &p, ret);
	limits_watch_fini(&w);
	return err;
}
