/* The runtime writes the file: as the target's user, in the target's mount namespace. It writes into a folder that we
 * make for it, in which no other user can place a link: beside the requested file when the target runs as we do and
 * sees the same files; else beside its socket, with the rights of its user, from where we fetch the file. */

#include "base/fd.h"
#include "base/partfile.h"
#include "base/str.h"
#include "dump/internal.h"
#include "ipc/folder.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define ASK_MS 5000
#define TICK_MS 200
/* It neither writes nor answers: the target is stopped, or its disk is. */
#define STALL_MS 120000
#define BLOCK ((size_t)1 << 20)
#define FILE_NAME "core"

struct dump_place {
	char *path;   /* of the file, as the target sees it */
	int outside;  /* the folder in which we made one for it */
	char *inside; /* the name of the one that was made */
	int folder;   /* that one */
	bool fetch;   /* it is the target's, made and removed with the rights of its user; the file comes out later */
	struct fsuser user;
};

static struct err *place_begin(const struct dump_place *at, struct fsuser_held *ret)
{
	return at->fetch ? fsuser_begin(&at->user, ret) : NULL;
}

static void place_fini(struct dump_place *at)
{
	FSUSER_HELD held = { 0 };
	err_ignore(place_begin(at, &held));
	/* Also takes away what was not fetched. */
	if (at->folder >= 0)
		unlinkat(at->folder, FILE_NAME, 0);
	if (at->outside >= 0 && at->inside)
		unlinkat(at->outside, at->inside, AT_REMOVEDIR);
	fd_closep(&at->folder);
	fd_closep(&at->outside);
	mem_free(at->path);
	mem_free(at->inside);
}

/* ---- where ---- */

/* folder: what `outside` is to the target. */
static struct err *make_folder(const char *folder, struct dump_place *at)
{
	FSUSER_HELD held = { 0 };
	uint64_t chance;
	if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		return err_errno(errno, "a random name");
	CLEANUP(mem_freep) char *name = mem_printf("drdotnet-%016llx", (unsigned long long)chance);
	TRY(place_begin(at, &held));
	at->folder = dir_make_own(at->outside, name, 0700);
	if (at->folder < 0)
		return err_errno(errno, "make a folder in '%s'", folder);
	at->inside = STEAL(name);
	at->path = mem_printf("%s/%s/" FILE_NAME, str_eq(folder, "/") ? "" : folder, at->inside);
	return NULL;
}

static struct err *place_beside(const char *path, struct dump_place *ret)
{
	CLEANUP(mem_freep) char *folder = file_folder(path);
	char real[PATH_MAX];
	if (!realpath(folder, real))
		return err_errno(errno, "'%s'", folder);
	ret->outside = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->outside < 0)
		return err_errno(errno, "'%s'", real);
	return make_folder(real, ret);
}

static struct err *place_inside(const struct patient *p, struct dump_place *ret)
{
	CLEANUP(patient_folder_fini) struct patient_folder beside = PATIENT_FOLDER_NONE;
	TRY(patient_folder_of_socket(&p->target, &beside));
	TRY(target_check_folder(&p->target, &beside.user, beside.fd, beside.path));
	TRY(patient_folder_name(&p->target, &beside));
	ret->fetch = true;
	ret->user = beside.user;
	ret->outside = fd_steal(&beside.fd);
	return make_folder(beside.seen_as, ret);
}

static struct err *find_place(const struct patient *p, const struct dump_order *o, struct dump_place *ret)
{
	if (p->target.pid && !p->target.other_mount && !p->target.other_root && p->target.uid == geteuid())
		return place_beside(o->path, ret);
	TRY(place_inside(p, ret));
	return dump_check_room(ret->folder, "its temporary files", dump_estimate(p, o->type));
}

/* ---- while it writes ---- */

static uint64_t file_size(const struct dump_place *at)
{
	FSUSER_HELD held = { 0 };
	struct stat st;
	err_ignore(place_begin(at, &held));
	return fstatat(at->folder, FILE_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)st.st_size;
}

/* Until the answer can be read. Once asked, the runtime cannot be stopped: killing its writer might leave the target
 * stopped for ever, so a wish to stop is kept until it has ended. */
static struct err *wait_for_answer(int fd, const struct dump_place *at, const struct patient *p,
				   const struct dump_order *o, bool *ret_stopped)
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

static struct err *ask(const struct patient *p, const struct dump_order *o, const struct dump_place *at,
		       uint64_t *ret_held_ns)
{
	static const enum ipc_dump_type types[] = { IPC_DUMP_MINI, IPC_DUMP_HEAP, IPC_DUMP_FULL };
	bool known = false, stopped = false;
	for (int version = 3; version >= 1 && !known; version--) {
		CLOSE_FD int fd = -1;
		uint64_t start = clock_mono_ns();
		TRY(ipc_dump_start(p->target.socket, at->path, types[o->type], version, deadline_in_ms(ASK_MS), &fd));
		TRY(wait_for_answer(fd, at, p, o, &stopped));
		TRY_WRAP(ipc_dump_answer(fd, deadline_in_ms(ASK_MS), &known),
			 "without --by-runtime the dump is taken from a copy; now");
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
	/* No further, should the target make it grow. */
	for (uint64_t done = 0; done < size;) {
		ssize_t n = read(from, block, MIN(BLOCK, size - done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read what the runtime wrote");
		if (!n)
			break;
		for (ssize_t at = 0; at < n;) {
			ssize_t put = write(to, block + at, (size_t)(n - at));
			if (put < 0 && errno != EINTR)
				return err_errno(errno, "write '%s'", o->path);
			at += MAX(put, (ssize_t)0);
		}
		done += (uint64_t)n;
		if (o->on && !o->on(o->user, (double)done / (double)size, "fetching"))
			return err_new(ERR_CANCELLED, "cancelled");
	}
	return NULL;
}

static struct err *fetch(int from, uint64_t size, const struct dump_order *o)
{
	struct partfile file;
	CLEANUP(mem_freep) char *folder = file_folder(o->path);
	TRY(partfile_open(o->path, 0600, &file));
	struct err *err = dump_check_room(file.fd, folder, size);
	if (!err)
		err = copy_bytes(from, file.fd, size, o);
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	return err;
}

static struct err *open_written(const struct dump_place *at, int *ret_fd)
{
	FSUSER_HELD held = { 0 };
	TRY(place_begin(at, &held));
	*ret_fd = openat(at->folder, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *ret_fd < 0 ? err_errno(errno, "what the runtime wrote") : NULL;
}

static struct err *take(const struct dump_place *at, const struct dump_order *o, const struct patient *p,
			struct dump_result *ret)
{
	struct stat st;
	CLOSE_FD int fd = -1;
	TRY(open_written(at, &fd));
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "what the runtime wrote");
	if (!S_ISREG(st.st_mode) || st.st_uid != p->target.uid)
		return err_new(ERR_BAD_DATA, "what lies where the runtime should have written is not its file");
	ret->disk_bytes = (uint64_t)st.st_blocks * 512;
	if (at->fetch)
		return fetch(fd, (uint64_t)st.st_size, o);
	if (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || renameat(at->folder, FILE_NAME, AT_FDCWD, o->path) < 0)
		return err_errno(errno, "write '%s'", o->path);
	return file_sync_folder(o->path);
}

struct err *runtime_collect(const struct patient *p, const struct dump_order *o, struct dump_result *ret)
{
	CLEANUP(place_fini) struct dump_place at = { .folder = -1, .outside = -1 };
	TRY(find_place(p, o, &at));
	TRY(ask(p, o, &at, &ret->held_ns));
	TRY(take(&at, o, p, ret));
	return NULL;
}
