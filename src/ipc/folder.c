#include "ipc/folder.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/ipc.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define ENV_MS 5000

void patient_folder_fini(struct patient_folder *f)
{
	fd_closep(&f->fd);
	mem_free(f->path);
	mem_free(f->seen_as);
	*f = PATIENT_FOLDER_NONE;
}

/* A shared volume: it is where the target's runtime has put its socket. */
static struct err *name_by_runtime(const struct target *t, struct patient_folder *f)
{
	CLEANUP(mem_freep) char *tmpdir = NULL;
	TRY_WRAP(ipc_process_env(t->socket, "TMPDIR", deadline_in_ms(ENV_MS), &tmpdir),
		 "where its temporary folder is");
	size_t len = str_empty(tmpdir) ? 0 : strlen(tmpdir);
	while (len > 1 && tmpdir[len - 1] == '/')
		tmpdir[--len] = '\0';
	f->seen_as = len ? STEAL(tmpdir) : mem_strdup("/tmp");
	return NULL;
}

struct err *patient_folder_name(const struct target *t, struct patient_folder *f)
{
	if (!t->pid)
		return name_by_runtime(t, f);
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root/", (int)t->pid);
	f->seen_as = mem_strdup(str_starts(f->path, root) ? f->path + strlen(root) - 1 : f->path);
	return NULL;
}

static struct err *check_writable(const struct patient_folder *f)
{
	FSUSER_HELD held = { 0 };
	struct statvfs fs;
	struct stat st;
	if (fstat(f->fd, &st) < 0 || fstatvfs(f->fd, &fs) < 0)
		return err_errno(errno, "'%s'", f->path);
	if (fs.f_flag & ST_RDONLY)
		return err_new(ERR_DENIED, "its temporary folder is mounted read-only here");
	TRY(fsuser_begin(&f->user, &held));
	if (faccessat(f->fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return err_new(ERR_DENIED,
			       "its temporary folder belongs to user %u with mode %03o, and user %u, as whom we "
			       "write there, may not write to it",
			       st.st_uid, st.st_mode & 07777, fsuser_uid());
	return NULL;
}

/* path is taken over. */
static struct err *open_folder(const struct target *t, char *path, struct patient_folder *ret)
{
	CLEANUP(patient_folder_fini) struct patient_folder f = PATIENT_FOLDER_NONE;
	f.path = path;
	TRY(target_fsuser(t, &f.user));
	TRY(target_open_folder(t, &f.user, f.path, &f.fd));
	TRY(check_writable(&f));
	*ret = f;
	f = PATIENT_FOLDER_NONE;
	return NULL;
}

struct err *patient_folder_of_socket(const struct target *t, struct patient_folder *ret)
{
	CLEANUP(patient_folder_fini) struct patient_folder f = PATIENT_FOLDER_NONE;
	struct stat st;
	char *path = target_socket_folder(t);
	if (!path)
		return err_new(ERR_UNSUPPORTED, "it has no diagnostics socket");
	TRY(open_folder(t, path, &f));
	if (fstatat(f.fd, t->socket + strlen(f.path) + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode))
		return err_new(ERR_DENIED, "its socket is no longer in its folder '%s'", f.path);
	*ret = f;
	f = PATIENT_FOLDER_NONE;
	return NULL;
}

/* ---- for a library ---- */

static bool no_exec(const struct patient_folder *f)
{
	struct statvfs fs;
	return fstatvfs(f->fd, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
}

static struct err *shared_memory(const struct target *t, struct patient_folder *ret)
{
	CLEANUP(patient_folder_fini) struct patient_folder f = PATIENT_FOLDER_NONE;
	if (!t->pid)
		return err_new(ERR_DENIED, "the process is not visible");
	TRY(open_folder(t, mem_printf("/proc/%d/root/dev/shm", (int)t->pid), &f));
	if (no_exec(&f))
		return err_new(ERR_UNSUPPORTED, "'%s' is mounted noexec", f.path);
	*ret = f;
	f = PATIENT_FOLDER_NONE;
	return NULL;
}

struct err *patient_folder_for_library(const struct target *t, struct patient_folder *ret)
{
	CLEANUP(patient_folder_fini) struct patient_folder f = PATIENT_FOLDER_NONE;
	struct err *err = patient_folder_of_socket(t, &f);
	if (!err && !no_exec(&f)) {
		*ret = f;
		f = PATIENT_FOLDER_NONE;
		return NULL;
	}
	bool noexec = !err;
	struct err *other = shared_memory(t, ret);
	if (!other) {
		err_free(err);
		return NULL;
	}
	noexec |= err_kind(other) == ERR_UNSUPPORTED;
	err_free(other);
	if (!noexec)
		return err;
	err_free(err);
	return err_new(ERR_UNSUPPORTED, "the only folder both can use is mounted noexec: nothing in it can be loaded");
}
