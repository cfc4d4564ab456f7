#include "target/files.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- who ---- */

static struct err *user_of_socket(const struct target *t, struct fsuser *ret)
{
	struct stat st;
	if (!t->socket || lstat(t->socket, &st) < 0)
		return err_new(ERR_NOT_FOUND, "its socket is gone");
	if (!S_ISSOCK(st.st_mode) || st.st_uid != t->uid)
		return err_new(ERR_DENIED, "something else lies where its socket was");
	*ret = (struct fsuser){ .uid = st.st_uid, .gid = st.st_gid };
	return NULL;
}

struct err *target_fsuser(const struct target *t, struct fsuser *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_status status;
	if (!t->pid)
		return user_of_socket(t, ret);
	bool read = file_text(&text, "/proc/%d/status", (int)t->pid) &&
		    proc_parse_status(buf_cstr(&text), text.len, &status);
	/* Only now is it known to be the same process, so that these texts were its own. */
	TRY(target_check(t));
	if (!read)
		return err_new(ERR_NOT_FOUND, "the process has ended");
	if (status.uid != t->uid)
		return err_new(ERR_DENIED, "it was found as a process of user %u and is one of user %u now", t->uid,
			       status.uid);
	*ret = (struct fsuser){ .uid = status.fs_uid, .gid = status.fs_gid };
	return NULL;
}

/* ---- where ---- */

/* The part of the path that is not the target's to decide. */
static int open_top(const struct target *t, const char *path, const char **ret_below)
{
	static const char *const names[] = { "root", "cwd" };
	for (size_t i = 0; t->pid && i < ARRAY_SIZE(names); i++) {
		char top[64];
		size_t len = (size_t)snprintf(top, sizeof(top), "/proc/%d/%s", (int)t->pid, names[i]);
		if (strncmp(path, top, len) != 0 || (path[len] && path[len] != '/'))
			continue;
		*ret_below = path + len;
		return open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	*ret_below = path;
	return open(!*path || *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

struct err *target_open_folder(const struct target *t, const struct fsuser *user, const char *path, int *ret_fd)
{
	FSUSER_HELD held = { 0 };
	const char *below;
	CLOSE_FD int top = open_top(t, path, &below);
	if (top < 0)
		return err_errno(errno, "'%s'", path);
	TRY(fsuser_begin(user, &held));
	int fd = file_open_below_fd(top, *below ? below : "/", O_PATH | O_DIRECTORY);
	if (fd < 0)
		return err_errno(errno, "'%s', as user %u", path, fsuser_uid());
	*ret_fd = fd;
	return NULL;
}

char *target_socket_folder(const struct target *t)
{
	const char *slash = t->socket ? strrchr(t->socket, '/') : NULL;
	return slash ? mem_strndup(t->socket, (size_t)(slash - t->socket)) : NULL;
}

/* As we see the user whom its user namespace calls root. */
static uid_t root_of(const struct target *t)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	unsigned inside, outside;
	if (!t->pid || !file_text(&text, "/proc/%d/uid_map", (int)t->pid) ||
	    sscanf(buf_cstr(&text), "%u %u", &inside, &outside) != 2 || inside != 0)
		return 0;
	return outside;
}

struct err *target_check_folder(const struct target *t, const struct fsuser *user, int fd, const char *name)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", name);
	if (st.st_uid != 0 && st.st_uid != user->uid && st.st_uid != root_of(t))
		return err_new(ERR_DENIED, "its folder '%s' belongs to user %u, not to its own user or root", name,
			       st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return err_new(ERR_DENIED,
			       "others may write to its folder '%s' (mode %04o) and replace what lies there", name,
			       st.st_mode & 07777);
	return NULL;
}
