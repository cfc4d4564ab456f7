#include "image/limits.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "target/proc.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MB ((uint64_t)1 << 20)
#define OWN_TEXT_MAX ((size_t)1 << 20)
/* cgroup v1 writes "no limit" as the largest multiple of a page. */
#define NO_LIMIT_V1 ((uint64_t)1 << 62)

/* Measured (bench/image.py): stopping and starting a thread, and copying the page tables of a MB. */
#define PAUSE_BASE_NS (2 * NS_PER_MS)
#define PAUSE_THREAD_NS 27000
#define PAUSE_MB_NS 24000

/* The value behind "key" at the start of a line, blanks skipped; NULL when there is none. */
static const char *line_value(const char *text, const char *key)
{
	size_t n = strlen(key);
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, key, n) && (p[n] == ' ' || p[n] == '\t'))
			return p + n + strspn(p + n, " \t");
		if (!*p)
			break;
	}
	return NULL;
}

static uint64_t line_kb(const char *text, const char *key)
{
	const char *v = line_value(text, key);
	return v ? strtoull(v, NULL, 10) * 1024 : 0;
}

/* ---- the process ---- */

/* Each thread may have filters of its own: the mode of the first one that has some. */
static int thread_seccomp(const char *proc, pid_t pid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/task", proc, pid);
	DIR *dir = opendir(path);
	struct proc_status status = { 0 };
	for (struct dirent *e; dir && !status.seccomp && (e = readdir(dir));)
		if (e->d_name[0] == '.' || !file_text(&text, "%s/%s/status", path, e->d_name) ||
		    !proc_parse_status(text.data, text.len, &status))
			status = (struct proc_status){ 0 };
	if (dir)
		closedir(dir);
	return status.seccomp;
}

/* A file that every process has. ERR_NOT_FOUND when it has ended, which a failure of ours is no sign of. */
static struct err *read_own(struct buf *text, const char *proc, pid_t pid, const char *name)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/%s", proc, pid, name);
	buf_clear(text);
	struct err *err = file_read(path, OWN_TEXT_MAX, text);
	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return err;
	err_free(err);
	return err_new(ERR_NOT_FOUND, "process %d has ended", pid);
}

struct err *limits_read_process(const char *proc, pid_t pid, struct limits_process *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_stat stat;
	struct proc_status status;
	*ret = (struct limits_process){ 0 };
	TRY(read_own(&text, proc, pid, "stat"));
	if (!proc_parse_stat(text.data, text.len, &stat))
		return err_new(ERR_NOT_FOUND, "process %d has ended", pid);
	ret->state = stat.state;
	ret->start_ticks = stat.start_ticks;
	ret->threads = (uint64_t)stat.threads;
	TRY(read_own(&text, proc, pid, "status"));
	if (!proc_parse_status(text.data, text.len, &status))
		return err_new(ERR_NOT_FOUND, "process %d has ended", pid);
	ret->rss = status.rss_bytes;
	ret->tracer = status.tracer;
	ret->seccomp = status.seccomp ? status.seccomp : thread_seccomp(proc, pid);
	ret->anon = line_kb(text.data, "RssAnon:");
	ret->page_tables = line_kb(text.data, "VmPTE:");
	ret->huge = line_kb(text.data, "HugetlbPages:");
	const char *features = line_value(text.data, "x86_Thread_features:");
	ret->shadow_stack = features && !strncmp(features, "shstk", 5);
	return NULL;
}

pid_t limits_stuck_thread(const char *proc, pid_t pid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/task", proc, pid);
	DIR *dir = opendir(path);
	pid_t stuck = 0;
	for (struct dirent *e; dir && !stuck && (e = readdir(dir));) {
		uint64_t tid;
		struct proc_stat stat;
		if (str_to_u64(e->d_name, &tid) && file_text(&text, "%s/%s/stat", path, e->d_name) &&
		    proc_parse_stat(text.data, text.len, &stat) && stat.state == 'D')
			stuck = (pid_t)tid;
	}
	if (dir)
		closedir(dir);
	return stuck;
}

uint64_t limits_private_bytes(const char *proc, pid_t pid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!file_text(&text, "%s/%d/smaps_rollup", proc, pid))
		return 0;
	return line_kb(text.data, "Private_Dirty:") + line_kb(text.data, "Private_Clean:");
}

/* ---- cgroups ---- */

void limits_watch_init(struct limits_watch *w, const char *proc, pid_t pid)
{
	*w = (struct limits_watch){ .meminfo = mem_printf("%s/meminfo", proc) };
	cgroup_add(&w->memory, proc, pid, "memory", "memory.usage_in_bytes");
	cgroup_add(&w->memory, proc, pid, NULL, "memory.current");
	w->hidden = w->memory.hidden;
	cgroup_add(&w->freezer, proc, pid, "freezer", "freezer.state");
	if (!w->freezer.n)
		cgroup_add(&w->freezer, proc, pid, NULL, "cgroup.events");
}

void limits_watch_fini(struct limits_watch *w)
{
	cgroup_fini(&w->memory);
	cgroup_fini(&w->freezer);
	mem_free(w->meminfo);
	*w = (struct limits_watch){ 0 };
}

static void weigh_level(const struct cgroup_level *l, struct limits_room *room)
{
	/* Whatever the level's own limit is: a level above, or the machine, may run out of memory and choose a process
	 * from here. */
	room->oom_group |= l->v2 && cgroup_number(l, "memory.oom.group", 0) == 1;
	uint64_t limit = cgroup_number(l, l->v2 ? "memory.max" : "memory.limit_in_bytes", UINT64_MAX);
	uint64_t high = l->v2 ? cgroup_number(l, "memory.high", UINT64_MAX) : UINT64_MAX;
	limit = MIN(limit, high);
	if (limit == UINT64_MAX || (!l->v2 && limit >= NO_LIMIT_V1))
		return;
	uint64_t used = cgroup_number(l, l->v2 ? "memory.current" : "memory.usage_in_bytes", 0);
	/* Pages of files that were not used lately are reclaimed first when memory is needed. */
	uint64_t idle = cgroup_stat(l, "memory.stat", l->v2 ? "inactive_file" : "total_inactive_file");
	used -= MIN(used, idle);
	uint64_t bytes = limit > used ? limit - used : 0;
	if (bytes < room->bytes) {
		room->bytes = bytes;
		room->limit = limit;
	}
}

struct limits_room limits_watch_room(const struct limits_watch *w)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct limits_room room = { .bytes = UINT64_MAX, .limit = UINT64_MAX };
	for (size_t i = 0; i < w->memory.n; i++)
		weigh_level(&w->memory.levels[i], &room);
	if (file_text(&text, "%s", w->meminfo) && line_value(text.data, "MemAvailable:")) {
		uint64_t bytes = line_kb(text.data, "MemAvailable:");
		if (bytes < room.bytes) {
			room.bytes = bytes;
			room.machine = true;
			room.limit = line_kb(text.data, "MemTotal:");
		}
	}
	return room;
}

bool limits_frozen(const struct limits_watch *w)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!w->freezer.n)
		return false;
	const struct cgroup_level *own = &w->freezer.levels[0];
	if (own->v2)
		return cgroup_stat(own, "cgroup.events", "frozen") == 1 || cgroup_number(own, "cgroup.freeze", 0) == 1;
	return cgroup_read(own, "freezer.state", &text) && !str_starts(buf_cstr(&text), "THAWED");
}

/* ---- what follows ---- */

uint64_t limits_need(const struct limits_process *p)
{
	uint64_t likely = p->anon / 4 + 64 * MB;
	return p->page_tables + MIN(p->anon, likely);
}

uint64_t limits_reserve(uint64_t limit)
{
	return limit == UINT64_MAX ? 0 : MIN(limit / 50, 256 * MB);
}

uint64_t limits_pause_ns(const struct limits_process *p)
{
	return PAUSE_BASE_NS + PAUSE_THREAD_NS * p->threads + PAUSE_MB_NS * (p->anon / MB);
}
