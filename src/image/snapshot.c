#include "image/snapshot.h"
#include "base/buf.h"
#include "base/chroot.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "image/fault.h"
#include "image/internal.h"
#include "image/limits.h"
#include "image/lock.h"
#include "image/maps.h"
#include "image/save.h"
#include "image/tracer.h"
#include "target/proc.h"
#include "target/target.h"
#include "wire/calls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define SAVED_MAX ((size_t)64 << 20)
#define THREADS_MAX 65536
#define MAPS_MAX ((size_t)256 << 20)
/* How long we wait for a thread to leave an uninterruptible wait before we stop anything. */
#define UNSTUCK_MS 300
#define LOOK_MS 20
/* Above what the tracer itself allows for. */
#define WATCHDOG_SLACK_NS (NS_PER_S / 2)
#define DROP_MS 15000

struct snapshot {
	struct tracer_job job;
	struct limits_watch watch;
	pid_t tracer;
	bool killed; /* the tracer, so that a copy may be left */
	int control, lock, saved_fd;
	VEC(struct tracer_file) files;
	VEC(struct tracer_name) names;
};

/* ---- ending ---- */

static void unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}

static bool tracer_ended(struct snapshot *s, struct deadline deadline)
{
	for (;;) {
		int status = 0;
		pid_t got = waitpid(s->tracer, &status, WNOHANG);
		s->killed |= got == s->tracer && !WIFEXITED(status);
		if (got == s->tracer || (got < 0 && errno == ECHILD))
			return true;
		if (deadline_passed(deadline))
			return false;
		/* Its end of the socket closes with it. */
		struct pollfd p = { .fd = s->control, .events = POLLIN };
		char c;
		if (poll(&p, 1, MIN(deadline_poll_ms(deadline), LOOK_MS)) > 0 && read(s->control, &c, 1) <= 0)
			poll(NULL, 0, 1);
	}
}

static void kill_tracer(struct snapshot *s)
{
	if (s->tracer <= 0)
		return;
	kill(s->tracer, SIGKILL);
	waitpid(s->tracer, NULL, 0);
	s->tracer = 0;
	s->killed = true;
}

static struct err *start_tracer(struct snapshot *s);

/* What a tracer that was killed had no time for, and what signals kept another one from: its copy is dead, and stays a child
 * of the process until that takes note of it. */
static void bury_after(struct snapshot *s)
{
	bool left = s->killed || (s->job.result && s->job.result->unburied);
	if (!left || s->job.mode != TRACER_COPY)
		return;
	s->job.mode = TRACER_BURY;
	fd_closep(&s->control);
	struct err *err = start_tracer(s);
	if (!err && !tracer_ended(s, deadline_in_ms(DROP_MS)))
		kill_tracer(s);
	err_ignore(err);
	s->tracer = 0;
}

/* The tracer reaps the copy and ends as soon as it reads TRACER_STOP or the end of the control socket. When the tracer has to be
 * killed, the copy ends too, but is not reaped. */
static void end_tracer(struct snapshot *s)
{
	char stop = TRACER_STOP;
	if (s->tracer <= 0)
		return;
	if (send(s->control, &stop, 1, MSG_NOSIGNAL) < 0)
		shutdown(s->control, SHUT_WR);
	if (!tracer_ended(s, deadline_in_ms(DROP_MS)))
		kill_tracer(s);
	s->tracer = 0;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	end_tracer(s);
	bury_after(s);
	fd_closep(&s->control);
	fd_closep(&s->lock);
	fd_closep(&s->saved_fd);
	fd_closep(&s->job.pidfd);
	fd_closep(&s->job.maps_fd);
	fd_closep(&s->job.mem_fd);
	fd_closep(&s->job.pagemap_fd);
	vec_each(f, &s->files)
		fd_closep(&f->fd);
	vec_free(&s->files);
	vec_free(&s->names);
	limits_watch_fini(&s->watch);
	unmap(s->job.result, sizeof(*s->job.result));
	unmap(s->job.threads, s->job.threads_max * sizeof(*s->job.threads));
	unmap(s->job.maps, s->job.maps_max);
	unmap(s->job.saved, s->job.saved_max);
	mem_free(s);
}

/* ---- preparing ---- */

static struct err *open_proc(pid_t pid, const char *name, int *ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/%s", pid, name);
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_errno(errno, "'%s'", path) : NULL;
}

static void *shared_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static const struct tracer_file *file_of(const struct snapshot *s, const struct maps_line *l)
{
	vec_each(f, &s->files)
		if (f->dev == l->dev && f->ino == l->ino)
			return f;
	return NULL;
}

static bool knows_file(const struct snapshot *s, const struct maps_line *l)
{
	return file_of(s, l);
}

/* Opened a second time, so that its position is ours. A device would notice being opened: only files are. */
static void add_file(struct snapshot *s, const char *path, const struct maps_line *l)
{
	struct stat st;
	if (s->files.n >= TRACER_FILES || stat(path, &st) < 0 || st.st_ino != l->ino || st.st_dev != l->dev)
		return;
	/* Its descriptor may be another file's by now. */
	CLOSE_FD int fd = file_open_regular(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != l->ino || st.st_dev != l->dev)
		return;
	bool memory = !memcmp(l->path, "/memfd:", MIN(l->path_len, (size_t)7)) ||
		      !memcmp(l->path, "/dev/", MIN(l->path_len, (size_t)5));
	struct tracer_file file = { l->dev, l->ino, fd_steal(&fd), memory };
	vec_push(&s->files, file);
}

/* By its descriptors, where /proc/PID/map_files may not be used. */
static void find_by_descriptor(struct snapshot *s, pid_t pid, const struct maps_line *l)
{
	CLEANUP(mem_freep) char *folder = mem_printf("/proc/%d/fd", pid);
	DIR *dir = opendir(folder);
	for (struct dirent *e; dir && !knows_file(s, l) && (e = readdir(dir));) {
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, e->d_name);
		if (e->d_name[0] != '.')
			add_file(s, path, l);
	}
	if (dir)
		closedir(dir);
}

static void find_files_of(struct snapshot *s, pid_t pid, const char *maps, size_t len, bool runtime)
{
	const char *p = maps;
	for (struct maps_line l; maps_next(&p, maps + len, &l);) {
		if (!maps_shared(&l) || maps_runtime(&l) != runtime || knows_file(s, &l) || s->files.n >= TRACER_FILES)
			continue;
		CLEANUP(mem_freep)
		char *path = mem_printf("/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)l.start,
					(unsigned long long)l.end);
		add_file(s, path, &l);
		if (!knows_file(s, &l))
			find_by_descriptor(s, pid, &l);
	}
}

static void find_files(struct snapshot *s, pid_t pid, const char *maps, size_t len)
{
	find_files_of(s, pid, maps, len, true);
	find_files_of(s, pid, maps, len, false);
	s->job.files = s->files.v;
	s->job.n_files = s->files.n;
}

static int compare_names(const void *a, const void *b)
{
	const struct tracer_name *x = a, *y = b;
	return CMP(x->tid, y->tid);
}

static void read_name(pid_t pid, pid_t tid, char ret[16])
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/task/%d/comm", pid, tid);
	struct err *err = file_read(path, 64, &text);
	str_copy(ret, 16, err ? "" : buf_cstr(&text));
	ret[strcspn(ret, "\n")] = '\0';
	err_free(err);
}

/* Without them no thread could be chosen that reaps the copy. */
static struct err *find_names(struct snapshot *s, pid_t pid)
{
	CLEANUP(mem_freep) char *folder = mem_printf("/proc/%d/task", pid);
	DIR *dir = opendir(folder);
	if (!dir)
		return err_errno(errno, "'%s'", folder);
	for (struct dirent *e; s->names.n < THREADS_MAX && (e = readdir(dir));) {
		uint64_t tid;
		if (!str_to_u64(e->d_name, &tid))
			continue;
		struct tracer_name name = { .tid = (pid_t)tid };
		read_name(pid, name.tid, name.name);
		vec_push(&s->names, name);
	}
	closedir(dir);
	vec_sort(&s->names, compare_names);
	s->job.names = s->names.v;
	s->job.n_names = s->names.n;
	return s->names.n ? NULL : err_new(ERR_IO, "'%s' cannot be listed", folder);
}

static struct err *make_shared(struct snapshot *s, size_t maps_len, uint64_t saved_likely)
{
	struct tracer_job *job = &s->job;
	job->threads_max = MIN(s->names.n * 2 + 256, (size_t)THREADS_MAX);
	job->maps_max = maps_len * 2 + ((size_t)256 << 10);
	job->saved_max = SAVED_MAX;
	job->saved_likely = MIN((size_t)saved_likely + (saved_likely >> 2) + ((size_t)256 << 10), job->saved_max);
	s->saved_fd = memfd_create("drdotnet-saved", MFD_CLOEXEC);
	if (s->saved_fd < 0 || ftruncate(s->saved_fd, (off_t)job->saved_max) < 0)
		return err_errno(errno, "make room for shared memory");
	void *saved = mmap(NULL, job->saved_max, PROT_READ | PROT_WRITE, MAP_SHARED, s->saved_fd, 0);
	job->saved = saved == MAP_FAILED ? NULL : saved;
	job->result = shared_memory(sizeof(*job->result));
	job->threads = shared_memory(job->threads_max * sizeof(*job->threads));
	job->maps = shared_memory(job->maps_max);
	if (!job->saved || !job->result || !job->threads || !job->maps)
		return err_errno(ENOMEM, "make room for a snapshot");
	return NULL;
}

/* The process as it is now: what there is to find and to save. */
static struct err *look_around(struct snapshot *s, const struct target *t)
{
	struct tracer_job *job = &s->job;
	CLEANUP(buf_free) struct buf maps = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/maps", t->pid);
	TRY(target_pidfd(t, &job->pidfd));
	TRY(open_proc(t->pid, "maps", &job->maps_fd));
	TRY(open_proc(t->pid, "mem", &job->mem_fd));
	TRY(open_proc(t->pid, "pagemap", &job->pagemap_fd));
	TRY(file_read(path, MAPS_MAX, &maps));
	TRY(gadgets_find(job->mem_fd, buf_cstr(&maps), maps.len, &job->syscall_at, &job->sigreturn_at));
	find_files(s, t->pid, buf_cstr(&maps), maps.len);
	TRY(find_names(s, t->pid));
	uint64_t likely = save_estimate(buf_cstr(&maps), maps.len, s->files.v, s->files.n);
	return make_shared(s, maps.len, likely);
}

static struct err *wait_unstuck(const struct target *t, int cancel_fd)
{
	struct deadline deadline = deadline_in_ms(UNSTUCK_MS);
	for (pid_t stuck; (stuck = limits_stuck_thread("/proc", t->pid));) {
		struct pollfd p = { .fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN };
		if (deadline_passed(deadline))
			return err_new(ERR_TIMEOUT,
				       "its thread %d is in an uninterruptible wait (on a disk, or starting a process)",
				       stuck);
		if (poll(&p, 1, 2) > 0)
			return err_new(ERR_CANCELLED, "cancelled");
	}
	return NULL;
}

/* ---- the tracer ---- */

static struct err *start_tracer(struct snapshot *s)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(errno, "socketpair");
	pid_t owner = s->job.owner = getpid();
	pid_t pid = fork();
	if (pid < 0) {
		int errnum = errno;
		close(pair[0]);
		close(pair[1]);
		return err_errno(errnum, "start a process");
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "drdotnet-hold");
		close(pair[0]);
		s->job.control = pair[1];
		if (getppid() != owner)
			_exit(1);
		tracer_run(&s->job);
	}
	close(pair[1]);
	s->control = pair[0];
	s->tracer = pid;
	fault_point("tracer started");
	return NULL;
}

static bool in_pause(const struct snapshot *s)
{
	const volatile struct tracer_result *r = s->job.result;
	uint64_t stop_ns = r->stop_ns, go_ns = r->go_ns;
	return stop_ns && go_ns < stop_ns;
}

static struct err *overdue(const struct snapshot *s)
{
	uint64_t held_ns = clock_mono_ns() - s->job.result->stop_ns;
	return err_new(ERR_TIMEOUT, "it stood still for up to %s, longer than the limit of %s; it runs on",
		       fmt_duration_ns(held_ns).s, fmt_duration_ns(s->job.limit_ns).s);
}

/* The end of the tracer without a word: the kernel ended it before the limit (tracer.c), or somebody did. */
static struct err *lost_tracer(const struct snapshot *s)
{
	uint64_t held_ns = clock_mono_ns() - s->job.result->stop_ns;
	if (in_pause(s) && held_ns >= s->job.limit_ns / 2)
		return held_ns > s->job.limit_ns
			       ? overdue(s)
			       : err_new(ERR_TIMEOUT, "it could not be copied while it may stand still, %s; it runs on",
					 fmt_duration_ns(s->job.limit_ns).s);
	return err_new(ERR_IO, "our own helper process was killed; the process runs on");
}

/* What a try that failed says, and whether the promise was broken with it. */
static struct err *failure(const struct snapshot *s)
{
	const struct tracer_result *r = s->job.result;
	if (s->job.mode != TRACER_COPY || r->pause_ns <= s->job.limit_ns)
		return err_new(r->failure, "%s", r->text);
	return err_new(r->failure, "%s; it stood still for %s, longer than the limit of %s", r->text,
		       fmt_duration_ns(r->pause_ns).s, fmt_duration_ns(s->job.limit_ns).s);
}

/* Is the process held longer than ever allowed? Its tracer may hang in the kernel, but never against SIGKILL. */
static bool pause_overdue(const struct snapshot *s)
{
	const volatile struct tracer_result *r = s->job.result;
	uint64_t stop_ns = r->stop_ns;
	uint64_t allowed = s->job.limit_ns + WATCHDOG_SLACK_NS;
	return in_pause(s) && s->job.mode == TRACER_COPY && clock_mono_ns() > stop_ns + allowed;
}

static struct err *await_tracer(struct snapshot *s, int cancel_fd)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = s->control, .events = POLLIN },
				       { .fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN } };
		int n = poll(p, 2, LOOK_MS);
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		char ready = 0;
		if (n > 0 && p[0].revents) {
			if (read(s->control, &ready, 1) != 1 || ready != TRACER_READY)
				return lost_tracer(s);
			break;
		}
		if (n > 0 && p[1].revents)
			return err_new(ERR_CANCELLED, "cancelled");
		if (pause_overdue(s)) {
			kill_tracer(s);
			return overdue(s);
		}
	}
	return s->job.result->failure ? failure(s) : NULL;
}

/* ---- the image ---- */

static int compare_saved(const void *a, const void *b)
{
	const struct tracer_saved *x = a, *y = b;
	return CMP(x->dev, y->dev) ?: CMP(x->ino, y->ino) ?: CMP(x->addr + x->offset, y->addr + y->offset);
}

/* Saved bytes of files come by file and offset, those without a file by address (dev and ino 0). */
static void add_saved_pieces(struct image *img, const struct snapshot *s, const struct tracer_saved *sorted,
			     const struct maps_line *l, uint32_t fd)
{
	const struct tracer_result *r = s->job.result;
	const struct tracer_file *known = file_of(s, l);
	uint64_t from = known ? l->offset : l->start, len = l->end - l->start;
	struct tracer_saved key = { .dev = known ? l->dev : 0, .ino = known ? l->ino : 0, .offset = from };
	size_t low = 0, high = r->n_saved;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (compare_saved(&sorted[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low ? low - 1 : 0; i < r->n_saved; i++) {
		const struct tracer_saved *v = &sorted[i];
		uint64_t at = v->addr + v->offset;
		if (v->dev != key.dev || v->ino != key.ino || at + v->len <= from)
			continue;
		if (at >= from + len)
			break;
		uint64_t a = MAX(at, from), b = MIN(at + v->len, from + len);
		image_add_piece(img, (struct image_piece){ l->start + (a - from), l->start + (b - from), fd,
							   v->at + (a - at) });
	}
	/* What a file in memory never held is zero. */
	if (known && !r->left_file[known - s->files.v])
		image_add_piece(img, (struct image_piece){ l->start, l->end, IMAGE_FD_ZERO, 0 });
}

static struct err *describe_memory(struct image *img, struct snapshot *s, pid_t of)
{
	const struct tracer_result *r = s->job.result;
	int mem_fd;
	TRY(open_proc(of, "mem", &mem_fd));
	err_ignore(open_proc(of, "pagemap", &img->pagemap_fd));
	uint32_t mem = image_add_fd(img, mem_fd), saved = image_add_fd(img, fd_steal(&s->saved_fd));
	struct tracer_saved *sorted = mem_array(MAX(r->n_saved, (size_t)1), sizeof(*sorted));
	memcpy(sorted, r->saved, r->n_saved * sizeof(*sorted));
	qsort(sorted, r->n_saved, sizeof(*sorted), compare_saved);
	const char *p = s->job.maps;
	CLEANUP(mem_freep) char *chroot = chroot_of(s->job.pid);
	for (struct maps_line l; maps_next(&p, s->job.maps + r->maps_len, &l);) {
		maps_add(img, &l, chroot);
		if (l.prot[0] != 'r' || maps_device(&l))
			continue;
		if (s->job.mode == TRACER_COPY && maps_shared(&l))
			add_saved_pieces(img, s, sorted, &l, saved);
		else
			image_add_piece(img, (struct image_piece){ l.start, l.end, mem, l.start });
	}
	mem_free(sorted);
	image_seal_pieces(img);
	image_find_modules(img);
	return NULL;
}

/* The thread's number as the process itself knows it. */
static pid_t inner_tid(const struct target *t, pid_t tid)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/task/%d/status", t->pid, tid);
	struct proc_status status;
	if (!t->other_pid_ns)
		return tid;
	struct err *err = file_read(path, 1 << 20, &text);
	bool ok = !err && proc_parse_status(text.data, text.len, &status) && status.ns_pid;
	err_free(err);
	return ok ? status.ns_pid : tid;
}

static void describe_threads(struct image *img, const struct snapshot *s, const struct target *t)
{
	const struct tracer_job *job = &s->job;
	for (size_t i = 0; i < job->result->n_threads; i++) {
		struct image_thread thread = job->threads[i];
		if (!thread.has_regs)
			continue;
		struct tracer_name key = { .tid = thread.tid };
		const struct tracer_name *name =
			job->n_names ? bsearch(&key, job->names, job->n_names, sizeof(key), compare_names) : NULL;
		if (name)
			str_copy(thread.name, sizeof(thread.name), name->name);
		else
			read_name(t->pid, thread.tid, thread.name);
		thread.tid = inner_tid(t, thread.tid);
		vec_push(&img->threads, thread);
	}
}

static void describe_process(struct image *img, const struct target *t)
{
	CLEANUP(buf_free) struct buf auxv = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/auxv", t->pid);
	img->pid = t->ns_pid ? t->ns_pid : t->pid;
	img->command = mem_strdup(t->command_line ? t->command_line : "");
	struct err *err = file_read(path, 8192, &auxv);
	if (!err && auxv.len) {
		img->auxv = mem_dup(auxv.data, auxv.len);
		img->auxv_len = auxv.len;
	}
	err_free(err);
}

/* ---- both ways ---- */

static struct snapshot *snapshot_new(enum tracer_mode mode, const struct target *t, const struct image_limits *limits)
{
	struct snapshot *s = mem_zalloc(sizeof(*s));
	uint64_t max_pause_ms = limits && limits->max_pause_ms ? limits->max_pause_ms : IMAGE_MAX_PAUSE_MS;
	uint64_t stop_ms = limits && limits->stop_ms ? limits->stop_ms : max_pause_ms;
	uint64_t life_ms = limits && limits->max_life_ms ? limits->max_life_ms : IMAGE_MAX_LIFE_MS;
	uint64_t limit_ms = MAX(max_pause_ms, stop_ms), call_ms = MAX(max_pause_ms * 4, (uint64_t)1000);
	s->control = s->lock = s->saved_fd = -1;
	s->job = (struct tracer_job){
		.mode = mode,
		.pid = t->pid,
		.start_ticks = t->start_ticks,
		.busy_word = limits ? limits->busy_word : 0,
		.limit_ns = limit_ms * NS_PER_MS,
		.stop_ns = stop_ms * NS_PER_MS,
		.call_ns = call_ms * NS_PER_MS,
		.max_life_ns = life_ms * NS_PER_MS,
		.pidfd = -1,
		.maps_fd = -1,
		.mem_fd = -1,
		.pagemap_fd = -1,
		.control = -1,
		.watch = &s->watch,
	};
	return s;
}

/* That of the thread that will carry it is read once more then. Even a stop alone may be forbidden (prove.c). */
static struct err *check_filters(const struct snapshot *s, const struct target *t)
{
	const unsigned uses = s->job.mode == TRACER_COPY ? CALLS_SNAPSHOT : 0;
	size_t which;
	switch (image_filter(t)) {
	case IMAGE_FILTER_READABLE:
		return image_prove(t, &uses, 1, &which);
	case IMAGE_FILTER_HIDDEN:
		return err_new(ERR_DENIED,
			       "it runs under a seccomp filter, and only CAP_SYS_ADMIN outside of any filter may "
			       "read what that allows");
	default:
		return NULL;
	}
}

static struct err *run(struct snapshot *s, const struct target *t, const struct image_limits *limits, struct image *img)
{
	int cancel_fd = limits ? limits->cancel_fd : -1;
	fault_role("owner");
	struct image_turn turn = lock_turn(limits);
	TRY(lock_take_in_turn(t, &turn, &s->lock));
	TRY(look_around(s, t));
	limits_watch_init(&s->watch, "/proc", t->pid);
	s->job.reserve_bytes = limits_reserve(limits_watch_room(&s->watch).limit);
	TRY(wait_unstuck(t, cancel_fd));
	/* The descriptors are of the process that lives now; is it the one that was meant? */
	TRY(target_check(t));
	TRY(check_filters(s, t));
	TRY(start_tracer(s));
	struct err *err = await_tracer(s, cancel_fd);
	if (err) {
		/* A tracer that failed releases everything and ends; one that hangs is killed. */
		if (err_kind(err) == ERR_TIMEOUT || err_kind(err) == ERR_CANCELLED)
			kill_tracer(s);
		return err;
	}
	fault_point("tracer ready");
	describe_threads(img, s, t);
	describe_process(img, t);
	return describe_memory(img, s, s->job.mode == TRACER_COPY ? s->job.result->copy : t->pid);
}

struct err *image_take_snapshot(const struct target *target, const struct image_limits *limits, struct image **ret)
{
	struct image_forecast forecast;
	TRY(image_forecast(target, limits, &forecast));
	struct image_limits own = limits ? *limits : (struct image_limits){ 0 };
	own.max_pause_ms = forecast.max_pause_ms;
	CLEANUP(image_closep) struct image *img = image_new(IMAGE_SNAPSHOT);
	img->snapshot = snapshot_new(TRACER_COPY, target, &own);
	img->snapshot->job.predicted_ns = forecast.pause_ns;
	TRY(run(img->snapshot, target, &own, img));
	*ret = STEAL(img);
	return NULL;
}

struct err *image_stop(const struct target *target, const struct image_limits *limits, uint64_t hold_ms,
		       struct image **ret)
{
	struct image_limits own = limits ? *limits : (struct image_limits){ 0 };
	own.max_life_ms = MIN(hold_ms, own.max_pause_ms ? own.max_pause_ms : (uint64_t)IMAGE_MAX_PAUSE_MS);
	CLEANUP(image_closep) struct image *img = image_new(IMAGE_LIVE);
	img->snapshot = snapshot_new(TRACER_HOLD, target, &own);
	TRY(run(img->snapshot, target, &own, img));
	*ret = STEAL(img);
	return NULL;
}

void image_drop(struct image *img)
{
	if (img->snapshot)
		end_tracer(img->snapshot);
}

bool image_whole(struct image *img, const char **ret_reason)
{
	const char *reason = NULL;
	if (img->snapshot) {
		const struct tracer_result *r = img->snapshot->job.result;
		if (r->gone)
			reason = r->text;
		else if (img->snapshot->tracer > 0 && waitpid(img->snapshot->tracer, NULL, WNOHANG) != 0) {
			img->snapshot->tracer = 0;
			img->snapshot->killed = true;
			reason = "our own helper process was killed";
		}
	}
	struct stat st;
	if (img->core_bytes && !fstat(img->fds.v[0], &st) && (uint64_t)st.st_size < img->core_bytes)
		reason = "the core file became shorter while it was read";
	if (ret_reason)
		*ret_reason = reason;
	return !reason;
}

struct image_cost image_cost(struct image *img)
{
	if (!img->snapshot)
		return (struct image_cost){ 0 };
	const struct tracer_result *r = img->snapshot->job.result;
	uint64_t end = r->dropped_ns ? r->dropped_ns : clock_mono_ns();
	uint64_t go_ns = r->go_ns > r->stop_ns ? r->go_ns : clock_mono_ns();
	struct image_cost cost = { .predicted_ns = img->snapshot->job.predicted_ns,
				   .pause_ns = MAX(r->pause_ns, go_ns - r->stop_ns),
				   .limit_ns = img->snapshot->job.limit_ns,
				   .saved_bytes = r->saved_bytes,
				   .left_bytes = r->left_bytes,
				   .copied_bytes = r->cow_bytes,
				   .lifetime_ns = r->copied_ns ? end - r->copied_ns : 0,
				   .threads = img->threads.n,
				   .attempts = r->attempts,
				   .reaped = r->reaped,
				   .lost_reason = r->gone ? r->text : NULL };
	str_copy(cost.carrier, sizeof(cost.carrier), r->carrier);
	return cost;
}
