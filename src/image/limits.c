#include "image/limits.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "target/proc.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX ((size_t)1 << 20)
#define MB ((uint64_t)1 << 20)
/* cgroup v1 writes "no limit" as the largest multiple of a page. */
#define NO_LIMIT_V1 ((uint64_t)1 << 62)

/* Measured (bench/image.py): stopping and starting a thread, and copying the page tables of a MB. */
#define PAUSE_BASE_NS 2000000
#define PAUSE_THREAD_NS 20000
#define PAUSE_MB_NS 24000

static bool read_text(struct buf *text, const char *fmt, ...) PRINTF(2, 3);
static bool read_text(struct buf *text, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *path = mem_vprintf(fmt, ap);
	va_end(ap);
	buf_clear(text);
	struct err *err = file_read(path, TEXT_MAX, text);
	bool ok = !err;
	err_free(err);
	return ok;
}

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

struct err *limits_read_process(const char *proc, pid_t pid, struct limits_process *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_stat stat;
	struct proc_status status;
	*ret = (struct limits_process){ 0 };
	if (!read_text(&text, "%s/%d/stat", proc, pid) || !proc_parse_stat(text.data, text.len, &stat))
		return err_new(ERR_NOT_FOUND, "process %d has ended", pid);
	ret->state = stat.state;
	ret->start_ticks = stat.start_ticks;
	ret->threads = (uint64_t)stat.threads;
	if (!read_text(&text, "%s/%d/status", proc, pid) || !proc_parse_status(text.data, text.len, &status))
		return err_new(ERR_NOT_FOUND, "process %d has ended", pid);
	ret->rss = status.rss_bytes;
	ret->tracer = status.tracer;
	ret->seccomp = status.seccomp;
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
		if (str_to_u64(e->d_name, &tid) && read_text(&text, "%s/%s/stat", path, e->d_name) &&
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
	if (!read_text(&text, "%s/%d/smaps_rollup", proc, pid))
		return 0;
	return line_kb(text.data, "Private_Dirty:") + line_kb(text.data, "Private_Clean:");
}

/* ---- cgroups ---- */

struct hierarchy {
	const char *controller; /* NULL = v2 */
	char *path;		/* of the process, in it; NULL = it is in none */
	char *root, *mount;	/* what of the hierarchy is mounted where */
};

static bool list_has(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list, *end = list + len; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t part = (size_t)((comma ? comma : end) - p);
		if (part == n && !memcmp(p, word, n))
			return true;
		p += part + 1;
	}
	return false;
}

/* "4:memory:/a/b" or "0::/a/b" */
static void find_path(struct hierarchy *h, const char *text)
{
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		const char *list = memchr(p, ':', (size_t)(end - p));
		const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
		if (!path)
			continue;
		size_t len = (size_t)(path - list - 1);
		if (h->controller ? list_has(list + 1, len, h->controller) : len == 0) {
			h->path = mem_strndup(path + 1, (size_t)(end - path - 1));
			return;
		}
	}
}

/* "36 35 98:0 /root /mount options - fstype source superoptions" */
static void find_mount(struct hierarchy *h, const char *text)
{
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		char root[1024], mount[1024], type[32], super[1024];
		CLEANUP(mem_freep) char *line = mem_strndup(p, (size_t)(end - p));
		const char *dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*s %*s %*s %1023s %1023s", root, mount) != 2 ||
		    sscanf(dash, " - %31s %*s %1023s", type, super) != 2)
			continue;
		bool fits = h->controller ? str_eq(type, "cgroup") && list_has(super, strlen(super), h->controller)
					  : str_eq(type, "cgroup2");
		if (!fits)
			continue;
		h->root = mem_strdup(root);
		h->mount = mem_strdup(mount);
		return;
	}
}

static void hierarchy_fini(struct hierarchy *h)
{
	mem_free(h->path);
	mem_free(h->root);
	mem_free(h->mount);
}

static bool is_folder(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Its folder as we see it; NULL when it lies outside of what we see. */
static char *folder_of(const struct hierarchy *h)
{
	if (!h->path || !h->mount || strstr(h->path, "/.."))
		return NULL;
	const char *below = h->path;
	if (!str_eq(h->root, "/")) {
		size_t n = strlen(h->root);
		if (!str_starts(h->path, h->root) || (h->path[n] && h->path[n] != '/'))
			return NULL;
		below += n;
	}
	char *folder = mem_printf("%s%s", h->mount, str_eq(below, "/") ? "" : below);
	if (is_folder(folder))
		return folder;
	mem_free(folder);
	return NULL;
}

/* All levels from its folder up to the mount. */
static void add_levels(struct limits_watch *w, const char *folder, const char *mount, bool v2)
{
	CLEANUP(mem_freep) char *at = mem_strdup(folder);
	size_t top = strlen(mount);
	for (;;) {
		w->levels = mem_realloc_array(w->levels, w->n + 1, sizeof(*w->levels));
		w->levels[w->n++] = (struct limits_level){ mem_strdup(at), v2 };
		char *slash = strrchr(at, '/');
		if (strlen(at) <= top || !slash)
			return;
		*slash = '\0';
	}
}

/* A container's own mount shows its own cgroup, also when ours does not. */
static bool add_from_inside(struct limits_watch *w, const char *proc, pid_t pid, bool v2)
{
	CLEANUP(mem_freep)
	char *folder = mem_printf("%s/%d/root/sys/fs/cgroup%s", proc, pid, v2 ? "" : "/memory");
	CLEANUP(mem_freep)
	char *file = mem_printf("%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
	struct stat st;
	if (stat(file, &st) < 0)
		return false;
	add_levels(w, folder, folder, v2);
	return true;
}

static void look_into(struct limits_watch *w, const char *proc, pid_t pid, const char *cgroup, const char *mounts,
		      const char *controller)
{
	CLEANUP(hierarchy_fini) struct hierarchy h = { .controller = controller };
	find_path(&h, cgroup);
	find_mount(&h, mounts);
	CLEANUP(mem_freep) char *folder = folder_of(&h);
	if (controller && str_eq(controller, "freezer")) {
		w->freezer = STEAL(folder);
		return;
	}
	if (folder)
		add_levels(w, folder, h.mount, !controller);
	else if (h.path && !add_from_inside(w, proc, pid, !controller) && !str_eq(h.path, "/"))
		w->hidden = true;
	if (folder && !controller && !w->freezer) {
		w->freezer = STEAL(folder);
		w->freezer_v2 = true;
	}
}

void limits_watch_init(struct limits_watch *w, const char *proc, pid_t pid)
{
	CLEANUP(buf_free) struct buf cgroup = { 0 }, mounts = { 0 };
	*w = (struct limits_watch){ .meminfo = mem_printf("%s/meminfo", proc) };
	if (!read_text(&cgroup, "%s/%d/cgroup", proc, pid) || !read_text(&mounts, "%s/self/mountinfo", proc))
		return;
	const char *groups = buf_cstr(&cgroup), *table = buf_cstr(&mounts);
	look_into(w, proc, pid, groups, table, "freezer");
	look_into(w, proc, pid, groups, table, "memory");
	look_into(w, proc, pid, groups, table, NULL);
}

void limits_watch_fini(struct limits_watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		mem_free(w->levels[i].folder);
	mem_free(w->levels);
	mem_free(w->meminfo);
	mem_free(w->freezer);
	*w = (struct limits_watch){ 0 };
}

static uint64_t read_number(const char *folder, const char *file, uint64_t otherwise)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!read_text(&text, "%s/%s", folder, file) || !text.len || text.data[0] < '0' || text.data[0] > '9')
		return otherwise;
	return strtoull(text.data, NULL, 10);
}

static uint64_t read_stat(const char *folder, const char *key)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	const char *v = read_text(&text, "%s/memory.stat", folder) ? line_value(buf_cstr(&text), key) : NULL;
	return v ? strtoull(v, NULL, 10) : 0;
}

static void weigh_level(const struct limits_level *l, struct limits_room *room)
{
	/* Whatever the level's own limit: one above it, or the machine, may run out and choose from here. */
	room->oom_group |= l->v2 && read_number(l->folder, "memory.oom.group", 0) == 1;
	uint64_t limit = read_number(l->folder, l->v2 ? "memory.max" : "memory.limit_in_bytes", UINT64_MAX);
	uint64_t high = l->v2 ? read_number(l->folder, "memory.high", UINT64_MAX) : UINT64_MAX;
	limit = MIN(limit, high);
	if (limit == UINT64_MAX || (!l->v2 && limit >= NO_LIMIT_V1))
		return;
	uint64_t used = read_number(l->folder, l->v2 ? "memory.current" : "memory.usage_in_bytes", 0);
	/* Pages of files that nobody used lately go first when room is needed. */
	uint64_t idle = read_stat(l->folder, l->v2 ? "inactive_file" : "total_inactive_file");
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
	for (size_t i = 0; i < w->n; i++)
		weigh_level(&w->levels[i], &room);
	if (read_text(&text, "%s", w->meminfo) && line_value(text.data, "MemAvailable:")) {
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
	if (!w->freezer)
		return false;
	if (w->freezer_v2) {
		const char *v =
			read_text(&text, "%s/cgroup.events", w->freezer) ? line_value(buf_cstr(&text), "frozen") : NULL;
		return (v && *v == '1') || read_number(w->freezer, "cgroup.freeze", 0) == 1;
	}
	return read_text(&text, "%s/freezer.state", w->freezer) && !str_starts(buf_cstr(&text), "THAWED");
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
