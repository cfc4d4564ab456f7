/* The copy of the process: one thread, memory that no longer changes, system calls only. Nothing of the runtime or the
 * C library runs here. It sends itself and ends. */
#include "agent/agent.h"
#include "agent/sys.h"
#include "wire/image.h"
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CHUNK ((size_t)1 << 20)
#define DAC_FILE "libmscordaccore.so"
#define RUNTIME_FILE "/libcoreclr.so"
#define PRESENT_OR_SWAPPED ((uint64_t)3 << 62)
#define OF_A_FILE ((uint64_t)1 << 61)
#define FILE_MAX_BYTES ((uint64_t)256 << 20)
#define LOOK_BYTES ((uint64_t)16 << 20)

struct agent_copy {
	const struct wire_agent_config *config;
	const struct room *room;
	int32_t parent;
	int fd, pagemap_fd;
	uint64_t records, page;
	bool looks;	   /* whether its parent lives: nothing else ends it with it */
	uint64_t unlooked; /* bytes sent since */
	char *maps;	   /* its own, exact */
	size_t maps_len;
};

__attribute__((noreturn)) static void leave(enum wire_agent_exit code)
{
	for (;;)
		SYS(exit_group, code);
}

static void leave_if_orphaned(const struct agent_copy *c)
{
	struct agent_proc_stat stat;
	if (!proc_stat(0, &stat) || stat.parent != c->room->pid_in_proc)
		leave(WIRE_AGENT_EXIT_ORPHAN);
}

/* ---- an own, empty table of descriptors ---- */

static void close_one(void *user, int n)
{
	(void)user;
	SYS(close, n);
}

/* One by one, as kernels before 5.9 need it. */
static bool close_each(void)
{
	return proc_each_descriptor(close_one, NULL);
}

static void own_descriptors(void)
{
	if (SYS(close_range, 0, ~0u, CLOSE_RANGE_UNSHARE) < 0 && (SYS(unshare, CLONE_FILES) < 0 || !close_each()))
		leave(WIRE_AGENT_EXIT_DESCRIPTORS);
}

/* ---- sending ---- */

static void send_all(struct agent_copy *c, const void *data, size_t n)
{
	if (!line_send(c->fd, data, n))
		leave(WIRE_AGENT_EXIT_SEND);
}

static void send_record(struct agent_copy *c, enum wire_image_kind kind, uint64_t addr, uint64_t len)
{
	struct wire_image_record record = { .kind = kind, .addr = addr, .len = len };
	send_all(c, &record, sizeof(record));
	c->records++;
}

/* Straight from the pages. One that cannot be read (a file that has become shorter) goes as zeros. */
static void send_pages(struct agent_copy *c, uint64_t start, uint64_t len)
{
	static const uint8_t zeros[4096];
	send_record(c, WIRE_IMAGE_MEMORY, start, len);
	for (size_t chunk = CHUNK; len;) {
		if (c->looks && c->unlooked > LOOK_BYTES) {
			leave_if_orphaned(c);
			c->unlooked = 0;
		}
		size_t n = len < chunk ? (size_t)len : chunk;
		long sent = SYS(sendto, c->fd, start, n, MSG_NOSIGNAL);
		if (sent == -EINTR)
			continue;
		if (sent == -EFAULT && n > 4096 - (start & 4095)) {
			chunk = 4096 - (start & 4095);
			continue;
		}
		if (sent == -EFAULT)
			sent = SYS(sendto, c->fd, zeros, n, MSG_NOSIGNAL);
		if (sent <= 0)
			leave(WIRE_AGENT_EXIT_SEND);
		start += (uint64_t)sent;
		c->unlooked += (uint64_t)sent;
		len -= (uint64_t)sent;
		chunk = CHUNK;
	}
}

static void send_maps(struct agent_copy *c)
{
	/* The text that was read while the runtime was suspended was needed to know what to save, and is needed no
	 * more. */
	long n = sys_read_file("/proc/self/maps", c->room->maps, c->room->maps_cap);
	if (n <= 0)
		leave(WIRE_AGENT_EXIT_PROC);
	c->maps = c->room->maps;
	c->maps_len = (size_t)n;
	while (c->maps_len && c->maps[c->maps_len - 1] != '\n')
		c->maps_len--;
	send_record(c, WIRE_IMAGE_MAPS, 0, c->maps_len);
	send_all(c, c->maps, c->maps_len);
}

/* Threads are the process's own: the copy has one. What has ended since has no name. */
static void send_thread(void *user, int tid)
{
	struct agent_copy *c = user;
	struct wire_image_thread thread = { .tid = tid };
	proc_task_name(c->parent, tid, thread.name);
	send_record(c, WIRE_IMAGE_THREAD, 0, sizeof(thread));
	send_all(c, &thread, sizeof(thread));
}

static void send_threads(struct agent_copy *c)
{
	char path[64];
	proc_task_path(path, c->parent, 0, "");
	proc_each_number(path, send_thread, c);
}

static void send_saved(struct agent_copy *c)
{
	const struct save *s = &c->room->save;
	for (size_t i = 0; i < s->n; i++) {
		send_record(c, WIRE_IMAGE_MEMORY, s->list[i].start, s->list[i].len);
		send_all(c, s->list[i].bytes, s->list[i].len);
	}
}

/* ---- which pages ---- */

enum pages {
	PAGES_NONE,
	PAGES_OWN, /* that are no longer those of a file */
	PAGES_ALL,
};

/* A reader of the image needs the assemblies' metadata and the runtime's code, whether in memory or not (assemblies
 * without native code are mapped shared); of other files the first page, which identifies them. */
static enum pages wanted(const struct map *m)
{
	if (!m->read || map_starts(m, "[vvar") || map_starts(m, "[vsyscall"))
		return PAGES_NONE;
	if (map_ends(m, ".dll") || map_ends(m, ".exe") || map_ends(m, RUNTIME_FILE) || map_ends(m, "/libclrgc.so"))
		return PAGES_ALL;
	return m->shared ? PAGES_NONE : PAGES_OWN;
}

/* Our own buffers, by address: the kernel merges neighbours into one mapping. */
static bool is_ours(const struct agent_copy *c, uint64_t addr)
{
	uint64_t base = (uint64_t)(uintptr_t)c->room->base;
	return addr >= base && addr < base + c->room->size;
}

enum page { PAGE_NOT_SENT, PAGE_SENT, PAGE_ZERO };

/* Pages that were never used are zero, unless there is a file behind them. */
static enum page page_is(const struct agent_copy *c, uint64_t entry, uint64_t addr, bool file)
{
	if (is_ours(c, addr))
		return PAGE_NOT_SENT;
	if ((entry & PRESENT_OR_SWAPPED) && !(entry & OF_A_FILE))
		return PAGE_SENT;
	return file ? PAGE_NOT_SENT : PAGE_ZERO;
}

static void send_run(struct agent_copy *c, enum page kind, uint64_t start, uint64_t len)
{
	if (kind == PAGE_SENT)
		send_pages(c, start, len);
	else if (kind == PAGE_ZERO)
		send_record(c, WIRE_IMAGE_ZERO, start, len);
}

static void send_window(struct agent_copy *c, uint64_t start, size_t n, bool file, bool first_page)
{
	uint64_t from = start, end = start + n * c->page;
	enum page kind = PAGE_NOT_SENT;
	for (uint64_t at = start; at < end; at += c->page) {
		enum page is = first_page && at == start
				       ? PAGE_SENT
				       : page_is(c, c->room->pagemap[(at - start) / c->page], at, file);
		if (is == kind)
			continue;
		send_run(c, kind, from, at - from);
		from = at;
		kind = is;
	}
	send_run(c, kind, from, end - from);
}

static void send_own_pages(struct agent_copy *c, const struct map *m)
{
	/* A private mapping of /dev/zero and the like has a path too; its used pages are sent. */
	bool file = m->path_len && m->path[0] == '/';
	for (uint64_t at = m->start; at < m->end;) {
		size_t n = (size_t)((m->end - at) / c->page);
		if (n > c->room->pagemap_n)
			n = c->room->pagemap_n;
		long got = SYS(pread64, c->pagemap_fd, c->room->pagemap, n * 8, at / c->page * 8);
		if (got < 8)
			leave(WIRE_AGENT_EXIT_PROC);
		n = (size_t)got / 8;
		send_window(c, at, n, file, file && !m->offset && at == m->start);
		at += n * c->page;
	}
}

static void send_memory(struct agent_copy *c)
{
	const char *p = c->maps, *end = c->maps + c->maps_len;
	for (struct map m; map_next(&p, end, &m);) {
		enum pages pages = wanted(&m);
		if (pages == PAGES_ALL)
			send_pages(c, m.start, m.end - m.start);
		else if (pages == PAGES_OWN)
			send_own_pages(c, &m);
	}
}

/* ---- the data-access library ---- */

static void send_file(struct agent_copy *c, const char *path, size_t path_len)
{
	struct wire_image_file head = { .path_len = (uint32_t)path_len };
	int fd = sys_open(path, 0);
	int64_t size = 0;
	char *buffer = (char *)c->room->pagemap;
	size_t cap = c->room->pagemap_n * 8;
	for (long n; fd >= 0 && (n = SYS(pread64, fd, buffer, cap, size)) > 0;)
		size += n;
	if (size > 0 && (uint64_t)size <= FILE_MAX_BYTES) {
		send_record(c, WIRE_IMAGE_FILE, 0, sizeof(head) + path_len + (uint64_t)size);
		send_all(c, &head, sizeof(head));
		send_all(c, path, path_len);
		for (int64_t at = 0; at < size;) {
			size_t want = (size_t)(size - at) < cap ? (size_t)(size - at) : cap;
			long n = SYS(pread64, fd, buffer, want, at);
			if (n <= 0)
				leave(WIRE_AGENT_EXIT_PROC);
			send_all(c, buffer, (size_t)n);
			at += n;
		}
	}
	if (fd >= 0)
		SYS(close, fd);
}

/* It lies beside the runtime. */
static void send_dac(struct agent_copy *c)
{
	char path[1024];
	const char *p = c->maps, *end = c->maps + c->maps_len;
	for (struct map m; map_next(&p, end, &m);) {
		if (!map_ends(&m, RUNTIME_FILE) || m.path_len + sizeof(DAC_FILE) > sizeof(path))
			continue;
		size_t folder = m.path_len - (sizeof(RUNTIME_FILE) - 2);
		memcpy(path, m.path, folder);
		memcpy(path + folder, DAC_FILE, sizeof(DAC_FILE));
		send_file(c, path, folder + sizeof(DAC_FILE) - 1);
		return;
	}
}

/* ---- its life ---- */

static void put_file(const char *path, const char *text, size_t n)
{
	int fd = sys_open(path, 1 /* O_WRONLY */);
	if (fd < 0)
		return;
	SYS(write, fd, text, n);
	SYS(close, fd);
}

/* Killed with the process, and has descriptors of its own only. */
static void part(const struct agent_copy *c)
{
	SYS(prctl, PR_SET_PDEATHSIG, SIGKILL);
	agent_fault(c->config, 1);
	leave_if_orphaned(c);
	own_descriptors();
}

/* The same by calls that the runtime makes. First the call that the process is to make once this copy has ended: if the
 * filter kills for it, it kills this copy, which leaves no core file of all that memory. Its table of descriptors is a
 * copy, which it empties at once; and it checks repeatedly whether its parent still lives. */
static void part_plainly(struct agent_copy *c, uint32_t *step)
{
	int status;
	put_file("/proc/self/coredump_filter", "0", 1);
	bool allowed = SYS(wait4, c->parent, &status, WNOHANG | __WALL, 0) == -ECHILD;
	__atomic_store_n(step, allowed ? COPY_WAIT_ALLOWED : COPY_WAIT_FORBIDDEN, __ATOMIC_RELEASE);
	if (!allowed)
		leave(WIRE_AGENT_EXIT_UNBURIED);
	agent_fault(c->config, 1);
	leave_if_orphaned(c);
	if (!close_each())
		leave(WIRE_AGENT_EXIT_DESCRIPTORS);
	c->looks = true;
}

void copy_run(const struct wire_agent_config *config, const struct room *room, int32_t parent, uint32_t *step)
{
	struct agent_copy c = { .config = config, .room = room, .parent = parent, .page = room->save.page };
	struct wire_image_head head = { .magic = WIRE_IMAGE_MAGIC, .version = WIRE_IMAGE_VERSION, .pid = parent };
	SYS(prctl, PR_SET_NAME, COPY_NAME);
	if (step)
		part_plainly(&c, step);
	else
		part(&c);
	agent_fault(config, 2);
	/* The first one to go when memory is short. */
	put_file("/proc/self/oom_score_adj", "1000", 4);
	c.fd = line_open(config, WIRE_AGENT_COPY, parent);
	if (c.fd < 0)
		leave(WIRE_AGENT_EXIT_CONNECT);
	agent_fault(config, 3);
	c.pagemap_fd = sys_open("/proc/self/pagemap", 0);
	if (c.pagemap_fd < 0)
		leave(WIRE_AGENT_EXIT_PROC);
	send_all(&c, &head, sizeof(head));
	send_maps(&c);
	agent_fault(config, 4);
	send_threads(&c);
	send_saved(&c);
	agent_fault(config, 5);
	send_memory(&c);
	agent_fault(config, 6);
	if (config->flags & WIRE_AGENT_SEND_DAC)
		send_dac(&c);
	struct wire_image_record end = { .kind = WIRE_IMAGE_END, .addr = c.records };
	send_all(&c, &end, sizeof(end));
	agent_fault(config, 7);
	leave(WIRE_AGENT_EXIT_OK);
}
