#include "base/partfile.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static bool is_direct(const char *path)
{
	struct stat st;
	return str_eq(path, "-") || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

struct err *partfile_check(const char *path)
{
	struct stat st;
	if (!*path)
		return err_new(ERR_USAGE, "the name of the file to write is empty");
	if (str_eq(path, "-"))
		return NULL;
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return err_new(ERR_USAGE, "'%s' is a folder", path);
		if (access(path, W_OK) < 0)
			return err_errno(errno, "cannot write to '%s'", path);
		if (!S_ISREG(st.st_mode))
			return NULL;
	}
	CLEANUP(mem_freep) char *folder = file_folder(path);
	if (access(folder, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_new(ERR_USAGE, "cannot write to '%s': there is no folder '%s'", path, folder);
	if (access(folder, W_OK | X_OK) < 0)
		return err_errno(errno, "cannot write to '%s'", path);
	return NULL;
}

struct err *partfile_open(const char *path, mode_t mode, struct partfile *ret)
{
	*ret = (struct partfile){ .fd = -1 };
	TRY(partfile_check(path));
	if (str_eq(path, "-")) {
		ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return ret->fd < 0 ? err_errno(errno, "standard output") : NULL;
	}
	ret->path = mem_strdup(path);
	if (is_direct(path)) {
		ret->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	} else {
		ret->partial = mem_printf("%s.partial", path);
		unlink(ret->partial);
		ret->fd = open(ret->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	}
	if (ret->fd >= 0)
		return NULL;
	struct err *err = err_errno(errno, "cannot write to '%s'", ret->partial ? ret->partial : path);
	partfile_fini(ret, false);
	return err;
}

/* Two processes write the same file at once: the later one has removed the earlier one's. */
static bool still_ours(const struct partfile *f)
{
	struct stat here, there;
	return fstat(f->fd, &here) == 0 && lstat(f->partial, &there) == 0 && here.st_dev == there.st_dev &&
	       here.st_ino == there.st_ino;
}

struct err *partfile_commit(struct partfile *f)
{
	if (!f->partial)
		return NULL;
	if (fsync(f->fd) < 0)
		return err_errno(errno, "'%s'", f->partial);
	if (!still_ours(f))
		return err_new(ERR_BUSY, "'%s' is being written by someone else too", f->path);
	if (rename(f->partial, f->path) < 0)
		return err_errno(errno, "rename '%s'", f->partial);
	mem_free(STEAL(f->partial));
	return file_sync_folder(f->path);
}

void partfile_fini(struct partfile *f, bool keep)
{
	if (f->partial && f->fd >= 0 && !keep && still_ours(f))
		unlink(f->partial);
	fd_closep(&f->fd);
	mem_free(f->partial);
	mem_free(f->path);
	*f = (struct partfile){ .fd = -1 };
}
