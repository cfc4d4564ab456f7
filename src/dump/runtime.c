/* The runtime writes the file: as the target's user, into the target's mounts, at a path that the target sees. Where
 * that is not our own place, it writes into a folder that we make for it beside its temporary files, and we fetch the
 * file. */

#include "base/fd.h"
#include "base/str.h"
#include "dump/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ASK_MS 5000
#define TICK_MS 200
/* It neither writes nor answers: the target is stopped, or its disk is. */
#define STALL_MS 120000
#define BLOCK ((size_t)1 << 20)
#define FILE_NAME "core"

struct place {
	char *path;   /* of the file, as the target sees it */
	int folder;   /* where it will be, ours to look at */
	char *name;   /* in that folder */
	int outside;  /* the folder that ours was made in; -1 = it writes directly */
	char *inside; /* the name of the one that was made */
};

static void place_fini(struct place *at)
{
	/* Also takes away what was not fetched. */
	if (at->folder >= 0 && at->name)
		unlinkat(at->folder, at->name, 0);
	if (at->outside >= 0 && at->inside)
		unlinkat(at->outside, at->inside, AT_REMOVEDIR);
	fd_closep(&at->folder);
	fd_closep(&at->outside);
	mem_free(at->path);
	mem_free(at->name);
	mem_free(at->inside);
}

/* ---- where ---- */

static struct err *place_direct(const char *path, struct place *ret)
{
	CLEANUP(mem_freep) char *folder = dump_folder(path);
	char real[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!realpath(folder, real))
		return err_errno(errno, "'%s'", folder);
	ret->folder = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->folder < 0)
		return err_errno(errno, "'%s'", real);
	ret->name = mem_printf("%s.partial", slash ? slash + 1 : path);
	ret->path = mem_printf("%s/%s", str_eq(real, "/") ? "" : real, ret->name);
	/* Left over from an earlier run, perhaps as a link to somewhere else. */
	unlinkat(ret->folder, ret->name, 0);
	return NULL;
}

static int open_inside(const struct patient *p, const char *path)
{
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)p->target.pid);
	CLOSE_FD int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	return top < 0 ? -1 : (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
}

/* A folder that only the target's user can enter, beside its temporary files. */
static struct err *place_inside(const struct patient *p, struct place *ret)
{
	CLEANUP(mem_freep) char *temp = target_env(&p->target, "TMPDIR");
	const char *folder = str_empty(temp) || temp[0] != '/' ? "/tmp" : temp;
	uint64_t chance;
	struct stat st;
	CLEANUP(mem_freep) char *proc = mem_printf("/proc/%d", (int)p->target.pid);
	if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance) || stat(proc, &st) < 0)
		return err_errno(errno, "'%s'", proc);
	ret->outside = open_inside(p, folder);
	if (ret->outside < 0)
		return err_errno(errno, "its folder '%s'", folder);
	ret->inside = mem_printf("drdotnet-%016llx", (unsigned long long)chance);
	if (mkdirat(ret->outside, ret->inside, 0700) < 0) {
		struct err *err = err_errno(errno, "make a folder in its '%s'", folder);
		mem_free(STEAL(ret->inside));
		return err;
	}
	ret->folder = openat(ret->outside, ret->inside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->folder < 0 || (p->target.uid != geteuid() && fchown(ret->folder, p->target.uid, st.st_gid) < 0))
		return err_errno(errno, "make a folder in its '%s'", folder);
	ret->name = mem_strdup(FILE_NAME);
	ret->path = mem_printf("%s/%s/%s", folder, ret->inside, FILE_NAME);
	return dump_check_room(ret->folder, folder, dump_estimate(p, DUMP_MINI));
}

static struct err *find_place(const struct patient *p, const struct dump_order *o, struct place *ret)
{
	bool same_view = !p->target.other_mount && !p->target.other_root;
	bool may_write = p->target.uid == geteuid() || p->target.uid == 0;
	*ret = (struct place){ .folder = -1, .outside = -1 };
	if (same_view && may_write)
		return place_direct(o->path, ret);
	TRY(place_inside(p, ret));
	return dump_check_room(ret->folder, "its temporary files", dump_estimate(p, o->type));
}

/* ---- while it writes ---- */

static uint64_t file_size(const struct place *at)
{
	struct stat st;
	if (!at->name || fstatat(at->folder, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)st.st_size;
}

/* Until the answer can be read. Once asked, the runtime cannot be stopped: killing its writer might leave the target
 * stopped for ever, so a wish to stop is kept until it has ended. */
static struct err *wait_for_answer(int fd, const struct place *at, const struct patient *p, const struct dump_order *o,
				   bool *ret_stopped)
{
	uint64_t estimate = MAX(dump_estimate(p, o->type), (uint64_t)1), last = 0;
	struct deadline stall = deadline_in_ms(STALL_MS);
	for (;;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		if (poll(&ready, 1, TICK_MS) > 0)
			return NULL;
		uint64_t now = file_size(at);
		if (now != last)
			stall = deadline_in_ms(STALL_MS);
		last = now;
		double ratio = MIN((double)now / (double)estimate, 0.99);
		const char *what = *ret_stopped ? "it cannot be stopped while it writes; waiting for its end"
						: "the runtime writes";
		if (o->on && !o->on(o->user, ratio, what))
			*ret_stopped = true;
		if (deadline_passed(stall))
			return err_new(ERR_TIMEOUT, "the runtime neither writes nor answers for %d s", STALL_MS / 1000);
		if (!target_alive(&p->target))
			return err_new(ERR_NOT_FOUND, "the process has ended");
	}
}

static struct err *ask(const struct patient *p, const struct dump_order *o, const struct place *at,
		       uint64_t *ret_held_ns)
{
	static const enum ipc_dump_type types[] = { IPC_DUMP_MINI, IPC_DUMP_HEAP, IPC_DUMP_FULL };
	bool known = false, stopped = false;
	for (int version = 3; version >= 1 && !known; version--) {
		CLOSE_FD int fd = -1;
		uint64_t start = clock_mono_ns();
		TRY(ipc_dump_start(p->target.socket, at->path, types[o->type], version, deadline_in_ms(ASK_MS), &fd));
		TRY(wait_for_answer(fd, at, p, o, &stopped));
		TRY_WRAP(ipc_dump_answer(fd, deadline_in_ms(ASK_MS), &known), "--fast does without the runtime; now");
		*ret_held_ns = clock_mono_ns() - start;
	}
	if (!known)
		return err_new(ERR_UNSUPPORTED, "this runtime cannot write dumps");
	return stopped ? err_new(ERR_CANCELLED, "cancelled") : NULL;
}

/* ---- fetching ---- */

static struct err *copy_bytes(int from, int to, uint64_t size, const struct dump_order *o)
{
	CLEANUP(mem_freep) char *block = mem_alloc(BLOCK);
	uint64_t done = 0;
	for (;;) {
		ssize_t n = read(from, block, BLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read what the runtime wrote");
		if (!n)
			return NULL;
		for (ssize_t at = 0; at < n;) {
			ssize_t put = write(to, block + at, (size_t)(n - at));
			if (put < 0 && errno != EINTR)
				return err_errno(errno, "write '%s'", o->path);
			at += MAX(put, (ssize_t)0);
		}
		done += (uint64_t)n;
		if (o->on && !o->on(o->user, size ? MIN((double)done / (double)size, 1.0) : -1, "fetching"))
			return err_new(ERR_CANCELLED, "cancelled");
	}
}

static struct err *fetch(int from, uint64_t size, const struct dump_order *o)
{
	CLEANUP(mem_freep) char *partial = mem_printf("%s.partial", o->path);
	CLOSE_FD int to = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_errno(errno, "create '%s'", partial);
	struct err *err = copy_bytes(from, to, size, o);
	if (!err && (fsync(to) < 0 || rename(partial, o->path) < 0))
		err = err_errno(errno, "write '%s'", o->path);
	if (err)
		unlink(partial);
	return err;
}

static struct err *take(const struct place *at, const struct dump_order *o, const struct patient *p,
			struct dump_result *ret)
{
	struct stat st;
	if (!at->name)
		return err_new(ERR_NOT_FOUND, "the runtime was given no file to write");
	CLOSE_FD int fd = openat(at->folder, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "what the runtime wrote");
	if (!S_ISREG(st.st_mode) || st.st_uid != p->target.uid)
		return err_new(ERR_BAD_DATA, "what lies where the runtime should have written is not its file");
	ret->disk_bytes = (uint64_t)st.st_blocks * 512;
	if (at->outside >= 0)
		return fetch(fd, (uint64_t)st.st_size, o);
	/* It is in our folder already. */
	if (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || (st.st_uid != geteuid() && fchown(fd, geteuid(), getegid()) < 0) ||
	    renameat(at->folder, at->name, AT_FDCWD, o->path) < 0)
		return err_errno(errno, "write '%s'", o->path);
	return NULL;
}

struct err *runtime_collect(const struct patient *p, const struct dump_order *o, struct dump_result *ret)
{
	CLEANUP(place_fini) struct place at = { .folder = -1, .outside = -1 };
	TRY(find_place(p, o, &at));
	TRY(ask(p, o, &at, &ret->held_ns));
	TRY(take(&at, o, p, ret));
	return NULL;
}
