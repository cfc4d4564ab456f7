/* Suspend, save, copy, resume: between suspend and resume nothing allocates, waits or fails half-way. */
#include "agent/agent.h"
#include "agent/sys.h"
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MB ((uint64_t)1 << 20)
#define MAPS_SPARE MB
#define MAPS_MAX (64 * MB)
#define SAVE_SPARE (8 * MB)
#define SAVE_MAX (512 * MB)
#define SAVE_RUNS 65536
#define PAGEMAP_BYTES MB
#define RETRY_MS 1
#define LOOK_MS 10 /* between two looks whether the copy has ended */
#define GIVE_UP_NS ((uint64_t)5000000000)
#define SHARED_BYTES 4096
/* What copying page tables was measured to cost, a megabyte of resident memory; and the rest of a pause. */
#define CLONE_NS_PER_MB 60000
#define PAUSE_BASE_NS 5000000

/* Only glibc has it. */
__attribute__((weak)) const char *gnu_get_libc_version(void);

/* ---- before ---- */

static uint64_t page_size(void)
{
	uint64_t auxv[64];
	long n = sys_read_file("/proc/self/auxv", (char *)auxv, sizeof(auxv));
	for (long i = 0; i + 1 < n / 8; i += 2)
		if (auxv[i] == 6 /* AT_PAGESZ */)
			return auxv[i + 1];
	return 4096;
}

static uint64_t resident_bytes(uint64_t page)
{
	char text[128];
	uint64_t pages = 0;
	long n = sys_read_file("/proc/self/statm", text, sizeof(text)), i = 0;
	while (i < n && text[i] != ' ')
		i++;
	for (i++; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = pages * 10 + (uint64_t)(text[i] - '0');
	return pages * page;
}

static void *map(uint64_t bytes)
{
	long at = SYS(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* Memory that the copy has in common with us. */
static void *map_shared(void)
{
	long at = SYS(mmap, 0, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return at < 0 && at > -4096 ? NULL : (void *)at;
}

static void touch(uint8_t *p, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 4096)
		*(volatile uint8_t *)(p + i) = 0;
}

/* How long the list of mappings is, and how much of them would have to be saved. */
static long measure(uint64_t page, int file, uint64_t *ret_maps, uint64_t *ret_shared)
{
	uint64_t cap = 4 * MB;
	long n = 0;
	char *text = NULL;
	for (;; cap *= 4) {
		text = map(cap);
		if (!text)
			return -ENOMEM;
		n = sys_read_file("/proc/self/maps", text, cap);
		if (n < (long)cap || cap >= MAPS_MAX)
			break;
		SYS(munmap, text, cap);
	}
	/* A dry run without room: everything is left over, and counted. */
	struct save dry = { .page = page, .file = file };
	if (n > 0)
		save_shared(&dry, text, (size_t)n);
	SYS(munmap, text, cap);
	*ret_maps = n > 0 ? (uint64_t)n : 0;
	*ret_shared = dry.left;
	return n;
}

static long make_room(struct room *r)
{
	struct agent_proc_stat self;
	uint64_t maps, shared, page = page_size();
	if (!proc_stat(0, &self))
		return -ENOENT;
	r->pid_in_proc = self.pid;
	r->save.file = save_open();
	long err = measure(page, r->save.file, &maps, &shared);
	if (err < 0)
		return err;
	/* Without them the image cannot be understood. */
	if (shared && r->save.file < 0)
		return -EBADF;
	uint64_t maps_cap = (2 * maps + MAPS_SPARE + 4095) & ~(uint64_t)4095;
	uint64_t room = 2 * shared + SAVE_SPARE;
	if (room > SAVE_MAX)
		room = SAVE_MAX;
	uint64_t list = SAVE_RUNS * sizeof(struct saved);
	r->size = maps_cap + list + PAGEMAP_BYTES + room;
	r->base = map(r->size);
	if (!r->base)
		return -ENOMEM;
	r->maps = (char *)r->base;
	r->maps_cap = maps_cap;
	r->pagemap = (uint64_t *)(void *)(r->base + maps_cap);
	r->pagemap_n = PAGEMAP_BYTES / sizeof(uint64_t);
	r->save = (struct save){ .list = (void *)(r->base + maps_cap + PAGEMAP_BYTES),
				 .cap = SAVE_RUNS,
				 .buffer = r->base + maps_cap + PAGEMAP_BYTES + list,
				 .room = room,
				 .page = page,
				 .file = r->save.file };
	/* Memory that will be written while the runtime is suspended is written now; a trial run also brings the pages
	 * that will be read into our page tables. */
	touch(r->base, maps_cap);
	touch((uint8_t *)r->save.list, 64 * 1024);
	touch(r->save.buffer, shared + MB < room ? shared + MB : room);
	long n = sys_read_file("/proc/self/maps", r->maps, r->maps_cap);
	save_shared(&r->save, r->maps, n > 0 ? (size_t)n : 0);
	return 0;
}

static void free_room(struct room *r)
{
	if (r->save.file >= 0)
		SYS(close, r->save.file);
	if (r->base)
		SYS(munmap, r->base, r->size);
}

/* ---- the pause ---- */

static bool send_note(const struct agent *a, const struct wire_agent_note *note)
{
	return line_send(a->control, note, sizeof(*note));
}

static void refuse(const struct agent *a, enum wire_agent_why why, long code, uint64_t pause_ns)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_REFUSED, .why = why, .code = (int32_t)code };
	note.values[WIRE_AGENT_PAUSE_NS] = pause_ns;
	send_note(a, &note);
}

/* Tries until the runtime is suspended: it refuses while it suspends itself, for a collection mostly. */
static com_hr suspend(const struct agent *a, uint64_t *ret_attempts)
{
	uint64_t end_ns = sys_now_ns() + (uint64_t)a->config.suspend_ms * 1000000;
	for (*ret_attempts = 1;; ++*ret_attempts) {
		com_hr hr = COM_CALL(a->info, SuspendRuntime);
		if (hr != COR_E_SUSPENSION_IN_PROGRESS || sys_now_ns() > end_ns)
			return hr;
		if (line_gone(a->control, RETRY_MS))
			return hr;
	}
}

/* As the C library makes threads, which is how the runtime is known to live with it: by clone3 first from glibc 2.34
 * on; by clone where that answers ENOSYS, and in all others. */
static long sys_fork(uint64_t flags)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} how = { .flags = flags };
	const char *version = gnu_get_libc_version ? gnu_get_libc_version() : "0";
	bool new = version[0] == '2' && version[1] == '.' && version[2] >= '3' && version[2] <= '9' &&
		   version[3] >= (version[2] == '3' ? '4' : '0');
	long copy = new ? SYS(clone3, &how, sizeof(how)) : -ENOSYS;
	return copy == -ENOSYS ? SYS(clone, flags, 0, 0, 0, 0) : copy;
}

/* The copy continues from here, on its own copy of this stack. CLONE_FILES: it never holds a descriptor of the process,
 * because it makes a table of its own (copy.c); where a filter may forbid that, it closes them one by one. No exit
 * signal, so that wait calls of the process itself never see the copy. */
static long make_copy(const struct agent *a, const struct room *room, int32_t pid)
{
	long copy = sys_fork(a->plain ? 0 : CLONE_FILES);
	if (copy == 0)
		copy_run(&a->config, room, pid, a->plain ? room->step : NULL);
	return copy;
}

static com_hr take(const struct agent *a, struct room *room, int32_t pid, long *ret_copy, uint64_t *values)
{
	uint64_t begin = sys_now_ns();
	com_hr hr = suspend(a, &values[WIRE_AGENT_ATTEMPTS]);
	if (hr < 0)
		return hr;
	uint64_t suspended = sys_now_ns();
	long maps = sys_read_file("/proc/self/maps", room->maps, room->maps_cap);
	room->maps_len = maps > 0 ? (size_t)maps : 0;
	save_shared(&room->save, room->maps, room->maps_len);
	uint64_t saved = sys_now_ns();
	*ret_copy = make_copy(a, room, pid);
	uint64_t copied = sys_now_ns();
	COM_CALL(a->info, ResumeRuntime);
	uint64_t resumed = sys_now_ns();
	values[WIRE_AGENT_PAUSE_NS] = resumed - begin;
	values[WIRE_AGENT_SUSPEND_NS] = suspended - begin;
	values[WIRE_AGENT_SAVE_NS] = saved - suspended;
	values[WIRE_AGENT_CLONE_NS] = copied - saved;
	values[WIRE_AGENT_RESUME_NS] = resumed - copied;
	values[WIRE_AGENT_SAVED_BYTES] = room->save.used;
	values[WIRE_AGENT_LEFT_BYTES] = room->save.left;
	return COM_OK;
}

/* ---- after ---- */

/* Has the copy ended? Then reaps it. Under a filter that was not read, the copy tries that call first: the filter would
 * kill the caller. A copy that cannot be reaped stays in the process table until the process itself ends. */
static bool bury(const struct agent *a, const struct room *room, long copy, int *status)
{
	struct agent_proc_stat stat;
	if (!a->plain || __atomic_load_n(room->step, __ATOMIC_ACQUIRE) == COPY_WAIT_ALLOWED) {
		long ended = SYS(wait4, copy, status, WNOHANG | __WALL, 0);
		return ended && ended != -EINTR;
	}
	*status = WIRE_AGENT_EXIT_UNBURIED << 8;
	return proc_stat((int32_t)copy, &stat) ? stat.state == 'Z' || stat.state == 'X'
					       : sys_now_ns() > a->end_ns + GIVE_UP_NS;
}

/* Waits for the copy's end; kills it when drdotnet has closed the connection or time is up. Its parent-death signal
 * depends on this very thread, which must not end before. */
static int32_t await_copy(const struct agent *a, const struct room *room, long copy)
{
	int status = 0;
	for (bool killed = false; !bury(a, room, copy, &status);) {
		struct sys_poll line = { .fd = killed ? -1 : a->control, .events = SYS_POLLIN };
		uint64_t now = sys_now_ns();
		if (sys_poll(&line, 1, LOOK_MS) <= 0 && now < a->end_ns)
			continue;
		SYS(tgkill, copy, copy, 9 /* SIGKILL */);
		killed = true;
	}
	return status;
}

static void look_for_unburied(void *user, int tid)
{
	char path[64], text[1024], name[16];
	int32_t pid = 0;
	struct agent_proc_stat stat;
	bool *found = user;
	proc_task_path(path, SYS(getpid), tid, "/children");
	long n = sys_read_file(path, text, sizeof(text));
	for (long i = 0; i < n; i++) {
		if (text[i] != ' ') {
			pid = pid * 10 + (text[i] - '0');
			continue;
		}
		proc_task_name(pid, pid, name);
		*found |= !memcmp(name, COPY_NAME, sizeof(COPY_NAME)) && proc_stat(pid, &stat) && stat.state == 'Z';
		pid = 0;
	}
}

/* One is enough to know that another would stay, too. */
static bool has_unburied(void)
{
	bool found = false;
	return !proc_each_number(PROC_TASKS, look_for_unburied, &found) || found;
}

void image_run(struct agent *a)
{
	struct room room = { .save.file = -1 };
	struct wire_agent_note note = { .kind = WIRE_AGENT_COPIED };
	long copy = 0, err = make_room(&room);
	if (!err && a->plain && !(room.step = map_shared()))
		err = -ENOMEM;
	uint64_t rss = err ? 0 : resident_bytes(room.save.page);
	uint64_t predicted = PAUSE_BASE_NS + rss / MB * CLONE_NS_PER_MB;
	note.values[WIRE_AGENT_RSS_BYTES] = rss;
	if (err) {
		refuse(a, err == -ENOMEM ? WIRE_AGENT_NO_MEMORY : WIRE_AGENT_NO_PROC, -err, 0);
	} else if (a->plain && has_unburied()) {
		refuse(a, WIRE_AGENT_UNBURIED, 0, 0);
	} else if (predicted > a->config.max_pause_ns) {
		refuse(a, WIRE_AGENT_PAUSE_TOO_LONG, 0, predicted);
	} else if (!line_gone(a->control, 0)) {
		com_hr hr = take(a, &room, (int32_t)SYS(getpid), &copy, note.values);
		if (hr < 0)
			refuse(a, WIRE_AGENT_NO_SUSPEND, hr, 0);
		else if (copy < 0)
			refuse(a, WIRE_AGENT_NO_CLONE, -copy, 0);
		else
			send_note(a, &note);
	}
	if (copy > 0) {
		struct wire_agent_note end = { .kind = WIRE_AGENT_ENDED, .code = await_copy(a, &room, copy) };
		send_note(a, &end);
	}
	if (room.step)
		SYS(munmap, room.step, SHARED_BYTES);
	free_room(&room);
}
