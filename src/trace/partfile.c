#include "trace/partfile.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

char *partfile_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return mem_strdup(".");
	return slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
}

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
	if (is_direct(path))
		return NULL;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return err_new(ERR_USAGE, "'%s' is a folder", path);
	CLEANUP(mem_freep) char *folder = partfile_folder(path);
	if (access(folder, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_new(ERR_USAGE, "cannot write '%s': there is no folder '%s'", path, folder);
	if (access(folder, W_OK | X_OK) < 0)
		return err_errno(errno, "cannot write '%s'", path);
	return NULL;
}

struct err *partfile_open(const char *path, struct partfile *ret)
{
	*ret = (struct partfile){ .fd = -1 };
	TRY(partfile_check(path));
	if (str_eq(path, "-")) {
		ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return ret->fd < 0 ? err_errno(errno, "standard output") : NULL;
	}
	ret->path = mem_strdup(path);
	if (!is_direct(path))
		ret->partial = mem_printf("%s.partial", path);
	const char *open_path = ret->partial ? ret->partial : path;
	/* One from an earlier failure is replaced; a link is not followed. */
	if (ret->partial)
		unlink(ret->partial);
	int flags = ret->partial ? O_CREAT | O_EXCL : 0;
	ret->fd = open(open_path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, 0666);
	if (ret->fd >= 0)
		return NULL;
	struct err *err = err_errno(errno, "cannot write '%s'", open_path);
	partfile_fini(ret, false);
	return err;
}

struct err *partfile_commit(struct partfile *f)
{
	if (!f->partial)
		return NULL;
	if (fsync(f->fd) < 0)
		return err_errno(errno, "'%s'", f->partial);
	if (rename(f->partial, f->path) < 0)
		return err_errno(errno, "rename '%s'", f->partial);
	mem_free(f->partial);
	f->partial = NULL;
	return NULL;
}

void partfile_fini(struct partfile *f, bool keep)
{
	if (f->partial && f->fd >= 0 && !keep)
		unlink(f->partial);
	fd_closep(&f->fd);
	mem_free(f->partial);
	mem_free(f->path);
	*f = (struct partfile){ .fd = -1 };
}
