#include "target/target.h"
#include "base/buf.h"
#include "base/chroot.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/pod.h"
#include "target/program.h"
#include "target/proc.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* The kernel gives arguments and environment 6 MB together. */
#define TEXT_MAX ((size_t)8 << 20)
#define SHORT_TEXT 8192
#define MAPS_MAX ((size_t)64 << 20)
#define COMMAND_LINE_MAX 4096
#define STARTING_NS (2 * NS_PER_S) /* a runtime that listens at all does so before this age */
/* The runtime's own threads are among the first it starts. */
#define THREADS_LOOKED_AT 16
/* How many files of one temporary folder are tried. */
#define SOCKETS_MAX 4096
#define LINKS_MAX 40

struct file_id {
	dev_t dev;
	ino_t ino;
};

/* State of one pass over /proc. */
struct target_look {
	struct stat root;
	char mount_ns[64], time_ns[64];
	uint64_t ticks_per_second, boot_ns;
	struct buf text;
	VEC(struct file_id) sockets; /* of the processes seen */
	VEC(struct user {
		uid_t uid;
		char *name;
	})
	users;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	if (clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)timespec_ns(t);
}

static bool read_link(int dir, const char *name, char *ret, size_t size)
{
	ssize_t n = readlinkat(dir, name, ret, size - 1);
	ret[MAX(n, 0)] = '\0';
	return n > 0;
}

static void look_init(struct target_look *l)
{
	*l = (struct target_look){ .ticks_per_second = (uint64_t)sysconf(_SC_CLK_TCK),
				   .boot_ns = clock_ns(CLOCK_BOOTTIME) };
	if (stat("/", &l->root) < 0)
		l->root = (struct stat){ 0 };
	read_link(AT_FDCWD, "/proc/self/ns/mnt", l->mount_ns, sizeof(l->mount_ns));
	read_link(AT_FDCWD, "/proc/self/ns/time", l->time_ns, sizeof(l->time_ns));
}

static void look_fini(struct target_look *l)
{
	vec_each(u, &l->users)
		mem_free(u->name);
	vec_free(&l->users);
	vec_free(&l->sockets);
	buf_free(&l->text);
}

/* The text of a file of the process in l->text; NULL when it cannot be read. */
static const char *read_text(struct target_look *l, int dir, const char *name, size_t max)
{
	buf_clear(&l->text);
	struct err *err = file_read_at(dir, name, max, &l->text);
	bool ok = !err;
	err_free(err);
	return ok ? buf_cstr(&l->text) : NULL;
}

/* The same for files that the kernel returns in one piece: a single read, which halves the cost of a pass. */
static const char *read_short(struct target_look *l, int dir, const char *name)
{
	buf_clear(&l->text);
	CLOSE_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char *room = fd < 0 ? NULL : buf_room(&l->text, SHORT_TEXT);
	ssize_t n = room ? read(fd, room, SHORT_TEXT) : -1;
	if (n < 0)
		return NULL;
	l->text.len = (size_t)n;
	room[n] = '\0';
	return room;
}

static const char *user_name(struct target_look *l, uid_t uid)
{
	vec_each(u, &l->users)
		if (u->uid == uid)
			return u->name;
	struct user u = { uid, target_user_name(uid) };
	vec_push(&l->users, u);
	return u.name;
}

/* ---- who it is ---- */

/* comm holds 15 bytes; the program's file name is the whole of it when it begins the same way. */
static char *process_name(int dir, const char *comm)
{
	char exe[PATH_MAX];
	if (strlen(comm) < 15 || !read_link(dir, "exe", exe, sizeof(exe)))
		return mem_strdup(comm);
	const char *slash = strrchr(exe, '/');
	const char *file = slash ? slash + 1 : exe;
	return mem_strdup(str_starts(file, comm) ? file : comm);
}

static char *container_of(struct target_look *l, int dir)
{
	char id[PROC_CONTAINER_DIGITS + 1];
	const char *text = read_text(l, dir, "cgroup", TEXT_MAX);
	if (!text)
		return NULL;
	if (proc_container_from_cgroup(text, id))
		return mem_strdup(id);
	/* A cgroup namespace shows "/" for its own root and "/.." for what lies outside of ours. */
	if (!strstr(text, ":/\n") && !strstr(text, "/.."))
		return NULL;
	text = read_text(l, dir, "mountinfo", TEXT_MAX);
	return text && proc_container_from_mountinfo(text, id) ? mem_strdup(id) : NULL;
}

/* Nanoseconds of CPU; the ticks of stat are 10 ms wide. */
static uint64_t cpu_time(const struct target_look *l, pid_t pid, uint64_t ticks)
{
	clockid_t clock;
	uint64_t ns = clock_getcpuclockid(pid, &clock) ? 0 : clock_ns(clock);
	return ns ? ns : ticks * (NS_PER_S / l->ticks_per_second);
}

static uint64_t uptime_ns(const struct target_look *l, const struct target *t)
{
	uint64_t start_ns = t->start_ticks * (NS_PER_S / l->ticks_per_second);
	return l->boot_ns > start_ns ? l->boot_ns - start_ns : 0;
}

static void fill_times(struct target_look *l, const struct proc_stat *stat, struct target *t)
{
	t->uptime_ns = uptime_ns(l, t);
	t->cpu_ns = cpu_time(l, t->pid, stat->cpu_ticks);
	t->seen_ns = clock_mono_ns();
	t->cpu_ratio = t->uptime_ns ? (double)t->cpu_ns / (double)t->uptime_ns : -1;
}

static void fill_state(const struct proc_stat *stat, const struct proc_status *status, struct target *t)
{
	t->uid = status->uid;
	t->ns_pid = status->ns_pid ? status->ns_pid : t->pid;
	t->other_pid_ns = status->ns_depth > 1;
	t->tracer = status->tracer;
	t->stopped = stat->state == 'T' || stat->state == 't';
	t->zombie = stat->state == 'Z' || stat->state == 'X';
	t->rss_bytes = status->rss_bytes;
}

/* The slower part, for what will be shown. */
static void fill_words(struct target_look *l, int dir, const struct proc_stat *stat, struct target *t)
{
	t->name = process_name(dir, stat->comm);
	t->user = mem_strdup(user_name(l, t->uid));
	t->container = container_of(l, dir);
	t->pod = t->container ? pod_of_container(POD_LOGS, t->container) : NULL;
	const char *text = read_text(l, dir, "cmdline", TEXT_MAX);
	t->command_line = proc_command_line(text ? text : "", text ? l->text.len : 0, COMMAND_LINE_MAX);
}

/* ---- its socket ---- */

/* Whether its paths mean what ours mean. */
static void compare_roots(struct target_look *l, int dir, struct target *t)
{
	char link[64];
	struct stat root;
	if (!read_link(dir, "ns/mnt", link, sizeof(link)) || fstatat(dir, "root", &root, 0) < 0) {
		t->no_access = true;
		return;
	}
	t->other_mount = !str_eq(link, l->mount_ns);
	t->other_root = root.st_dev != l->root.st_dev || root.st_ino != l->root.st_ino;
}

static void cut(struct buf *b, size_t len)
{
	if (!b->data)
		return;
	b->len = len;
	b->data[len] = '\0';
}

/* Appends a component to a path: "." stays, ".." goes up but not above the root. True when it is a new name. */
static bool add_component(struct buf *path, const char *name, size_t len)
{
	if (len == 1 && name[0] == '.')
		return false;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		const char *slash = strrchr(buf_cstr(path), '/');
		cut(path, slash ? (size_t)(slash - buf_cstr(path)) : 0);
		return false;
	}
	buf_printf(path, "/%.*s", (int)len, name);
	return true;
}

/* Resolves symbolic links of a path below another process's root. The kernel would follow absolute links from our own
 * root. NULL when there are too many. */
static char *resolve_below(const char *root, const char *path)
{
	CLEANUP(buf_free) struct buf done = { 0 };
	CLEANUP(mem_freep) char *todo = mem_strdup(path);
	for (size_t links = 0, at = 0;;) {
		at += strspn(todo + at, "/");
		size_t n = strcspn(todo + at, "/"), before = done.len;
		if (!n)
			return mem_printf("%s%s", root, buf_cstr(&done));
		bool is_new = add_component(&done, todo + at, n);
		at += n;
		char link[PATH_MAX];
		CLEANUP(mem_freep) char *here = mem_printf("%s%s", root, buf_cstr(&done));
		if (!is_new || !read_link(AT_FDCWD, here, link, sizeof(link)))
			continue;
		if (++links > LINKS_MAX)
			return NULL;
		cut(&done, link[0] == '/' ? 0 : before);
		char *next = mem_printf("%s/%s", link, todo + at);
		mem_free(todo);
		todo = next;
		at = 0;
	}
}

/* The folder in which its runtime makes the socket, as a path that means it for us. */
static char *temp_folder(const struct target *t, const char *tmpdir)
{
	if (!tmpdir || !*tmpdir)
		tmpdir = "/tmp";
	size_t len = strlen(tmpdir);
	while (len > 1 && tmpdir[len - 1] == '/')
		len--;
	if (tmpdir[0] != '/')
		return mem_printf("/proc/%d/cwd/%.*s", t->pid, (int)len, tmpdir);
	if (!t->other_mount && !t->other_root)
		return mem_strndup(tmpdir, len == 1 ? 0 : len);
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", t->pid);
	CLEANUP(mem_freep) char *path = mem_strndup(tmpdir, len);
	return resolve_below(root, path);
}

/* A second is more than the clocks of files and of processes differ by. */
static bool older_than(const char *path, uint64_t age_ns)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return true;
	int64_t made_ns = timespec_ns(st.st_mtim);
	return made_ns + (int64_t)(age_ns + NS_PER_S) < clock_real_ns();
}

/* The one socket of its pid in the folder, whatever the start time in the name. Of several, those older than the process were left
 * behind by others that had the same pid and were killed. NULL when none is left, or more than one. */
static char *only_socket_of(const struct target_look *l, const char *folder, const struct target *t)
{
	DIR *dir = opendir(*folder ? folder : "/");
	char *found[2] = { 0 }; /* of any age; not older than the process */
	size_t n[2] = { 0 };
	for (struct dirent *e; dir && (e = readdir(dir));) {
		uint64_t pid, start;
		if (!proc_socket_name(e->d_name, &pid, &start) || pid != (uint64_t)t->ns_pid)
			continue;
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, e->d_name);
		bool younger = !older_than(path, uptime_ns(l, t));
		for (size_t i = 0; i < (younger ? 2 : 1); i++)
			if (!n[i]++)
				found[i] = mem_strdup(path);
	}
	if (dir)
		closedir(dir);
	size_t which = n[0] == 1 ? 0 : 1;
	mem_free(found[!which]);
	if (n[which] == 1)
		return found[which];
	mem_free(found[which]);
	return NULL;
}

static bool is_socket(const char *path, struct file_id *ret)
{
	struct stat st;
	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	*ret = (struct file_id){ st.st_dev, st.st_ino };
	return true;
}

/* A process in a time namespace of its own writes another start time into the name than we read. */
static bool other_time(const struct target_look *l, int dir)
{
	char link[64];
	return read_link(dir, "ns/time", link, sizeof(link)) && l->time_ns[0] && !str_eq(link, l->time_ns);
}

static bool find_socket(struct target_look *l, int dir, const char *tmpdir, struct target *t)
{
	CLEANUP(mem_freep) char *folder = temp_folder(t, tmpdir);
	if (!folder)
		return false;
	struct file_id id;
	CLEANUP(mem_freep)
	char *path = mem_printf("%s/dotnet-diagnostic-%d-%llu-socket", folder, t->ns_pid,
				(unsigned long long)t->start_ticks);
	bool found = is_socket(path, &id);
	if (!found && other_time(l, dir)) {
		mem_free(path);
		path = only_socket_of(l, folder, t);
		found = path && is_socket(path, &id);
	}
	if (!found)
		return false;
	vec_push(&l->sockets, id);
	t->socket = STEAL(path);
	return true;
}

/* ---- .NET without a socket ---- */

struct runtime_threads {
	bool any, listener; /* named by a .NET runtime; its diagnostics server */
};

/* Names of threads are open to everybody, also for processes that are otherwise hidden from us. */
static struct runtime_threads look_at_threads(struct target_look *l, int dir)
{
	struct runtime_threads ret = { 0 };
	int fd = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
	if (!tasks) {
		if (fd >= 0)
			close(fd);
		return ret;
	}
	size_t n = 0;
	for (struct dirent *e; n < THREADS_LOOKED_AT && !ret.listener && (e = readdir(tasks));) {
		if (e->d_name[0] == '.')
			continue;
		char name[300];
		snprintf(name, sizeof(name), "%s/comm", e->d_name);
		const char *comm = read_short(l, fd, name);
		ret.any |= comm && str_starts(comm, ".NET ");
		ret.listener |= comm && str_starts(comm, ".NET EventPipe");
		n++;
	}
	closedir(tasks);
	return ret;
}

static bool told_off(const char *env, size_t len)
{
	static const char *const names[] = { "EnableDiagnostics", "EnableDiagnostics_IPC" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = proc_env_dotnet(env, len, names[i]);
		if (v && *v && strspn(v, "0") == strlen(v))
			return true;
	}
	return false;
}

static enum program_runtime linked_runtime(int dir)
{
	CLOSE_FD int exe = openat(dir, "exe", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return exe < 0 ? PROGRAM_RUNTIME_NONE : program_runtime(exe);
}

/* Why there is no socket; TARGET_SOCKET_NONE when it is not a .NET process. NativeAOT programs need not have a thread
 * with a name of the runtime; all others have. */
static enum target_socket explain_no_socket(struct target_look *l, int dir, const struct target *t, bool off)
{
	struct runtime_threads threads = look_at_threads(l, dir);
	enum program_runtime linked = linked_runtime(dir);
	if (linked == PROGRAM_RUNTIME_AOT)
		return TARGET_SOCKET_AOT;
	if (!threads.any)
		return TARGET_SOCKET_NONE;
	const char *maps = read_text(l, dir, "maps", MAPS_MAX);
	if (!maps)
		return TARGET_SOCKET_HIDDEN;
	CLEANUP(mem_freep) char *coreclr = proc_mapped_file(maps, "libcoreclr.so");
	if (!coreclr && linked != PROGRAM_RUNTIME_CORECLR)
		return TARGET_SOCKET_NONE;
	if (!off && threads.listener)
		return TARGET_SOCKET_MISSING;
	return !off && uptime_ns(l, t) < STARTING_NS ? TARGET_SOCKET_STARTING : TARGET_SOCKET_DISABLED;
}

/* ---- the pass ---- */

/* Looks at one process. Not .NET: *ret has socket_state TARGET_SOCKET_NONE and no texts unless `any` asks for them.
 * False when it is gone. Finish the result with target_fini. */
static bool look_at(struct target_look *l, int dir, pid_t pid, bool any, struct target *ret)
{
	struct proc_stat stat;
	struct proc_status status;
	*ret = (struct target){ .id = pid, .pid = pid, .socket_state = TARGET_SOCKET_NONE };
	const char *text = read_short(l, dir, "stat");
	if (!text || !proc_parse_stat(text, l->text.len, &stat))
		return false;
	/* A runtime has threads of its own before anything else. */
	bool may_be = !stat.kernel_thread && stat.threads > 1 && stat.state != 'Z' && stat.state != 'X';
	if (!may_be && !any)
		return true;
	text = read_short(l, dir, "status");
	if (!text || !proc_parse_status(text, l->text.len, &status))
		return false;
	ret->start_ticks = stat.start_ticks;
	fill_state(&stat, &status, ret);
	if (may_be) {
		compare_roots(l, dir, ret);
		const char *env = read_text(l, dir, "environ", TEXT_MAX);
		ret->no_access |= !env;
		bool off = env && told_off(env, l->text.len);
		const char *ports = env ? proc_env_dotnet(env, l->text.len, "DiagnosticPorts") : NULL;
		ret->diagnostic_ports = ports ? mem_strndup(ports, COMMAND_LINE_MAX) : NULL;
		CLEANUP(mem_freep) char *tmpdir = NULL;
		const char *value = env ? proc_env(env, l->text.len, "TMPDIR") : NULL;
		if (value)
			tmpdir = mem_strdup(value);
		ret->socket_state =
			find_socket(l, dir, tmpdir, ret) ? TARGET_SOCKET_PRESENT : explain_no_socket(l, dir, ret, off);
	}
	if (any || ret->socket_state != TARGET_SOCKET_NONE) {
		fill_words(l, dir, &stat, ret);
		fill_times(l, &stat, ret);
	}
	return true;
}

/* Of a lack of ours, which tells nothing of the process; else NULL. */
static struct err *of_us(int error, pid_t pid)
{
	bool ours = error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO;
	return ours ? err_errno(error, "process %d cannot be looked at", pid) : NULL;
}

static int open_process(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static struct err *look_at_all(struct target_look *l, struct target_list *list)
{
	DIR *proc = opendir("/proc");
	if (!proc)
		return err_errno(errno, "'/proc'");
	struct err *err = NULL;
	for (struct dirent *e; !err && (e = readdir(proc));) {
		uint64_t pid;
		if (!str_to_u64(e->d_name, &pid) || pid == 0 || pid > INT32_MAX || (pid_t)pid == getpid())
			continue;
		CLOSE_FD int dir = open_process((pid_t)pid);
		struct target t;
		if (dir < 0) {
			err = of_us(errno, (pid_t)pid);
			continue;
		}
		if (look_at(l, dir, (pid_t)pid, false, &t) && t.socket_state != TARGET_SOCKET_NONE)
			vec_push(list, t);
		else
			target_fini(&t);
	}
	closedir(proc);
	return err;
}

static bool is_known(struct target_look *l, struct file_id id)
{
	vec_each(s, &l->sockets)
		if (s->dev == id.dev && s->ino == id.ino)
			return true;
	return false;
}

/* Sockets of processes that we do not see: the runtime in another container that shares the folder with us. */
static void look_at_folder(struct target_look *l, const char *folder, const struct target_probe *probe,
			   struct target_list *list)
{
	DIR *dir = opendir(folder);
	size_t n = 0;
	for (struct dirent *e; dir && n < SOCKETS_MAX && (e = readdir(dir));) {
		uint64_t pid, start;
		struct file_id id;
		struct target t;
		if (!proc_socket_name(e->d_name, &pid, &start))
			continue;
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, e->d_name);
		if ((probe && !probe->worth(probe->user, path)) || !is_socket(path, &id) || is_known(l, id) ||
		    !target_of_socket(path, &t))
			continue;
		vec_push(list, t);
		n++;
	}
	if (dir)
		closedir(dir);
}

static bool same_folder(const char *a, const char *b)
{
	struct stat x, y;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct err *target_find_all(const struct target_probe *probe, struct target_list *ret)
{
	CLEANUP(look_fini) struct target_look l;
	CLEANUP(target_list_free) struct target_list list = { 0 };
	look_init(&l);
	TRY(look_at_all(&l, &list));
	const char *own = getenv("TMPDIR");
	if (!str_empty(own) && !same_folder(own, "/tmp"))
		look_at_folder(&l, own, probe, &list);
	look_at_folder(&l, "/tmp", probe, &list);
	*ret = list;
	list = (struct target_list){ 0 };
	return NULL;
}

struct err *target_find_pid(pid_t pid, struct target *ret)
{
	CLEANUP(look_fini) struct target_look l;
	look_init(&l);
	errno = ENOENT;
	CLOSE_FD int dir = pid > 0 ? open_process(pid) : -1;
	struct target t = { 0 };
	if (dir >= 0 && look_at(&l, dir, pid, true, &t)) {
		*ret = t;
		return NULL;
	}
	struct err *err = of_us(errno, pid);
	target_fini(&t);
	return err ? err : err_new(ERR_NOT_FOUND, "there is no process %d", pid);
}

void target_fini(struct target *t)
{
	mem_free(t->name);
	mem_free(t->command_line);
	mem_free(t->user);
	mem_free(t->container);
	mem_free(t->pod);
	mem_free(t->socket);
	mem_free(t->diagnostic_ports);
	*t = (struct target){ 0 };
}

void target_list_free(struct target_list *list)
{
	vec_each(t, list)
		target_fini(t);
	vec_free(list);
}

/* ---- one known process ---- */

/* Its folder in /proc, checked to be the same process still. ERR_NOT_FOUND when it is gone. */
static struct err *open_same(const struct target *t, int *ret_dir, struct proc_stat *stat)
{
	struct target_look l = { 0 };
	errno = ENOENT;
	CLOSE_FD int dir = t->pid > 0 ? open_process(t->pid) : -1;
	const char *text = dir < 0 ? NULL : read_short(&l, dir, "stat");
	int failed = text ? 0 : errno;
	bool same = text && proc_parse_stat(text, l.text.len, stat) && stat->start_ticks == t->start_ticks &&
		    stat->state != 'Z' && stat->state != 'X';
	buf_free(&l.text);
	TRY(of_us(failed, t->pid));
	if (!same)
		return err_new(ERR_NOT_FOUND, "process %d is gone", t->pid);
	*ret_dir = fd_steal(&dir);
	return NULL;
}

struct err *target_check(const struct target *t)
{
	CLOSE_FD int dir = -1;
	return open_same(t, &dir, &(struct proc_stat){ 0 });
}

bool target_alive(const struct target *t)
{
	CLEANUP(err_freep) struct err *err = target_check(t);
	return !err || err_kind(err) != ERR_NOT_FOUND;
}

/* Where its first stack begins is chosen anew, at random, for every program. */
uint64_t target_program(const struct target *t)
{
	CLOSE_FD int dir = -1;
	struct proc_stat stat;
	err_ignore(open_same(t, &dir, &stat));
	return dir < 0 ? 0 : stat.stack_start;
}

struct err *target_pidfd(const struct target *t, int *ret_fd)
{
	if (t->pid <= 0) {
		*ret_fd = -1;
		return NULL;
	}
	CLOSE_FD int fd = (int)syscall(SYS_pidfd_open, t->pid, 0);
	if (fd < 0 && errno == ESRCH)
		return err_new(ERR_NOT_FOUND, "process %d is gone", t->pid);
	if (fd < 0)
		return err_errno(errno, "cannot watch process %d", t->pid);
	/* The check comes second: from here on the descriptor holds the process that passes it. */
	TRY(target_check(t));
	*ret_fd = fd_steal(&fd);
	return NULL;
}

void target_measure_cpu(struct target *t)
{
	clockid_t clock;
	uint64_t now = clock_mono_ns();
	if (t->pid <= 0 || now <= t->seen_ns || !target_alive(t) || clock_getcpuclockid(t->pid, &clock))
		return;
	uint64_t cpu = clock_ns(clock);
	if (cpu < t->cpu_ns)
		return;
	t->cpu_window_ns = now - t->seen_ns;
	t->cpu_ratio = (double)(cpu - t->cpu_ns) / (double)t->cpu_window_ns;
	t->cpu_ns = cpu;
	t->seen_ns = now;
}

struct err *target_runtime_path(const struct target *t, char **ret)
{
	CLEANUP(buf_free) struct buf maps = { 0 };
	CLOSE_FD int dir = -1;
	TRY(open_same(t, &dir, &(struct proc_stat){ 0 }));
	TRY_WRAP(file_read_at(dir, "maps", MAPS_MAX, &maps), "process %d", t->pid);
	char *path = proc_mapped_file(buf_cstr(&maps), "libcoreclr.so");
	char exe[PATH_MAX];
	if (!path && linked_runtime(dir) == PROGRAM_RUNTIME_CORECLR && read_link(dir, "exe", exe, sizeof(exe)))
		path = mem_strdup(exe);
	if (!path)
		return err_new(ERR_NOT_FOUND, "process %d has no libcoreclr.so", t->pid);
	CLEANUP(mem_freep) char *full = path, *chroot = chroot_of(t->pid);
	*ret = mem_strdup(chroot_cut(chroot, full));
	return NULL;
}

char *target_env(const struct target *t, const char *name)
{
	struct target_look l = { 0 };
	CLOSE_FD int dir = -1;
	err_ignore(open_same(t, &dir, &(struct proc_stat){ 0 }));
	const char *env = dir < 0 ? NULL : read_text(&l, dir, "environ", TEXT_MAX);
	const char *value = env ? proc_env(env, l.text.len, name) : NULL;
	char *copy = value ? mem_strdup(value) : NULL;
	buf_free(&l.text);
	return copy;
}
