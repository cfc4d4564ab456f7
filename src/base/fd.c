#include "base/fd.h"
#include "base/fsuser.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SMALL_TEXT_MAX ((size_t)1 << 20)

struct err *fd_wait(int fd, short events, struct deadline deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int n = poll(&p, 1, deadline_poll_ms(deadline));
		if (n > 0)
			return NULL;
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		if (deadline_passed(deadline))
			return err_new(ERR_TIMEOUT, "no answer in time");
	}
}

struct err *fd_read_full(int fd, void *data, size_t len, struct deadline deadline)
{
	uint8_t *p = data;
	while (len) {
		TRY(fd_wait(fd, POLLIN, deadline));
		ssize_t n = read(fd, p, len);
		if (n == 0)
			return err_new(ERR_IO, "the other side closed the connection");
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_errno(errno, "read");
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return NULL;
}

struct err *fd_write_full(int fd, const void *data, size_t len, struct deadline deadline)
{
	const uint8_t *p = data;
	while (len) {
		TRY(fd_wait(fd, POLLOUT, deadline));
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_errno(errno, "write");
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return NULL;
}

static struct err *read_all(int fd, const char *path, size_t max, struct buf *out)
{
	size_t start = out->len;
	for (;;) {
		size_t step = MAX((size_t)4096, out->len - start);
		char *room = buf_room(out, step);
		if (!room)
			return err_new(ERR_BAD_DATA, "'%s' is larger than %zu bytes", path, max);
		ssize_t n = read(fd, room, step);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read '%s'", path);
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		if (n == 0)
			return NULL;
		if (out->len - start > max)
			return err_new(ERR_BAD_DATA, "'%s' is larger than %zu bytes", path, max);
	}
}

struct err *file_read_at(int dirfd, const char *name, size_t max, struct buf *out)
{
	CLOSE_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_errno(errno, "'%s'", name);
	return read_all(fd, name, max, out);
}

size_t fd_pread(int fd, void *data, size_t len, uint64_t at)
{
	size_t got = 0;
	while (got < len) {
		ssize_t n = pread(fd, (char *)data + got, len - got, (off_t)(at + got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

struct err *file_read(const char *path, size_t max, struct buf *out)
{
	return file_read_at(AT_FDCWD, path, max, out);
}

bool file_text(struct buf *text, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *path = mem_vprintf(fmt, ap);
	va_end(ap);
	buf_clear(text);
	struct err *err = file_read(path, SMALL_TEXT_MAX, text);
	bool ok = !err;
	err_free(err);
	return ok;
}

struct err *file_read_fd(int fd, const char *name, size_t max, struct buf *out)
{
	return read_all(fd, name, max, out);
}

char *file_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
}

struct err *file_sync_folder(const char *path)
{
	CLEANUP(mem_freep) char *folder = file_folder(path);
	CLOSE_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return err_errno(errno, "sync '%s'", folder);
	return NULL;
}

static struct err *write_all(int fd, const char *path, const void *data, size_t len)
{
	const uint8_t *p = data;
	while (len) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "write '%s'", path);
		p += n;
		len -= (size_t)n;
	}
	return NULL;
}

/* Opens the file that fd, made with O_PATH, refers to. It is opened only after the check, because opening a device or a
 * pipe can have effects of its own. */
static int open_found(int fd, int flags)
{
	struct stat st;
	char path[32];
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

int file_open_regular(const char *path, int flags)
{
	CLOSE_FD int found = open(path, O_PATH | O_CLOEXEC);
	return open_found(found, flags);
}

int file_open_below(const char *root, const char *path, int flags)
{
	CLOSE_FD int top = open(root && *root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return top < 0 ? -1 : file_open_below_fd(top, path, flags);
}

int file_open_below_fd(int top, const char *path, int flags)
{
	bool folder = flags & O_DIRECTORY;
	struct open_how how = { .flags = (uint64_t)(unsigned)((folder ? flags : O_PATH) | O_CLOEXEC),
				.resolve = RESOLVE_IN_ROOT };
	CLOSE_FD int found = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
	return folder ? fd_steal(&found) : open_found(found, flags);
}

struct err *file_create(const char *path, const void *data, size_t len, mode_t mode, bool sync)
{
	CLOSE_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return err_errno(errno, "create '%s'", path);
	struct err *err = write_all(fd, path, data, len);
	if (!err && sync && fsync(fd) < 0)
		err = err_errno(errno, "sync '%s'", path);
	if (err)
		unlink(path);
	return err;
}

struct err *file_check_regular(const char *path)
{
	struct stat st;
	bool other = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
	return other ? err_new(ERR_USAGE, "'%s' exists and is not a file", path) : NULL;
}

static struct err *put(const char *path, const void *data, size_t len, mode_t mode, bool sync)
{
	CLEANUP(mem_freep) char *temp = mem_printf("%s.%d.tmp", path, (int)getpid());
	TRY(file_check_regular(path));
	/* In a folder like /tmp any user may have placed a file or a link there. */
	unlink(temp);
	TRY(file_create(temp, data, len, mode, sync));
	if (rename(temp, path) < 0) {
		struct err *err = err_errno(errno, "rename to '%s'", path);
		unlink(temp);
		return err;
	}
	return sync ? file_sync_folder(path) : NULL;
}

struct err *file_write_atomic(const char *path, const void *data, size_t len, mode_t mode)
{
	return put(path, data, len, mode, true);
}

struct err *file_put(const char *path, const void *data, size_t len, mode_t mode)
{
	return put(path, data, len, mode, false);
}

int dir_open_own(int parent, const char *name)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS };
	CLOSE_FD int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_uid == fsuser_uid())
		return fd_steal(&fd);
	errno = EPERM;
	return -1;
}

int dir_make_own(int parent, const char *name, mode_t mode)
{
	if (mkdirat(parent, name, mode) < 0)
		return -1;
	int fd = dir_open_own(parent, name), errnum = errno;
	if (fd < 0)
		unlinkat(parent, name, AT_REMOVEDIR);
	errno = errnum;
	return fd;
}

struct err *dir_make(const char *path, mode_t mode)
{
	CLEANUP(mem_freep) char *copy = mem_strdup(path);
	for (char *p = copy + 1;; p++) {
		if (*p != '/' && *p)
			continue;
		char was = *p;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			return err_errno(errno, "create folder '%s'", copy);
		*p = was;
		if (!was)
			break;
	}
	struct stat st;
	if (stat(path, &st) < 0)
		return err_errno(errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode))
		return err_new(ERR_IO, "'%s' is not a folder", path);
	return NULL;
}

/* fd is taken over, also when it fails. */
static DIR *open_folder(int fd)
{
	DIR *dir = fdopendir(fd);
	int errnum = errno;
	if (!dir)
		close(fd);
	errno = errnum;
	return dir;
}

/* Empties the folder; fd is taken over. */
static struct err *remove_below(int fd, dev_t dev, unsigned depth)
{
	struct err *err = NULL;
	DIR *dir = open_folder(fd);
	if (!dir)
		return err_errno(errno, "read folder");
	for (struct dirent *e; !err && (e = readdir(dir));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM) {
			err = err_errno(errno, "remove '%s'", e->d_name);
			break;
		}
		int sub = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		if (sub < 0 || fstat(sub, &st) < 0 || st.st_dev != dev || depth > 64) {
			err = err_errno(sub < 0 ? errno : EXDEV, "remove '%s'", e->d_name);
			if (sub >= 0)
				close(sub);
			break;
		}
		err = remove_below(sub, dev, depth + 1);
		if (!err && unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0)
			err = err_errno(errno, "remove '%s'", e->d_name);
	}
	closedir(dir);
	return err;
}

struct err *dir_remove(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return errno == ENOENT ? NULL : err_errno(errno, "'%s'", path);
	if (fstat(fd, &st) < 0) {
		int errnum = errno;
		close(fd);
		return err_errno(errnum, "'%s'", path);
	}
	TRY_WRAP(remove_below(fd, st.st_dev, 0), "'%s'", path);
	if (rmdir(path) < 0)
		return err_errno(errno, "remove '%s'", path);
	return NULL;
}

#define SYNC_FDS 64 /* open at a time */
#define SYNC_AT_ONCE 8

struct sync_list {
	int fds[SYNC_FDS];
	size_t n;
	atomic_size_t next;
	atomic_int errnum; /* of one that failed, or 0 */
};

static void *sync_some(void *user)
{
	struct sync_list *list = user;
	for (size_t i; (i = atomic_fetch_add(&list->next, 1)) < list->n;) {
		if (fsync(list->fds[i]) < 0)
			atomic_store(&list->errnum, errno);
	}
	return NULL;
}

/* Syncs all files of the list at once: a disk handles many as fast as one, and each wait costs the time until we are
 * scheduled again. Without threads it is only slower. */
static struct err *sync_listed(struct sync_list *list)
{
	pthread_t helpers[SYNC_AT_ONCE - 1];
	size_t n = 0;
	atomic_store(&list->next, 0);
	while (n < ARRAY_SIZE(helpers) && n + 1 < list->n && !pthread_create(&helpers[n], NULL, sync_some, list))
		n++;
	sync_some(list);
	while (n)
		pthread_join(helpers[--n], NULL);
	while (list->n)
		close(list->fds[--list->n]);
	int errnum = atomic_load(&list->errnum);
	return errnum ? err_errno(errnum, "sync") : NULL;
}

/* fd is taken over. */
static struct err *sync_below(int fd, struct sync_list *list, unsigned depth)
{
	struct err *err = NULL;
	DIR *dir = open_folder(fd);
	if (!dir)
		return err_errno(errno, "read folder");
	for (struct dirent *e; !err && (e = readdir(dir));) {
		struct stat st;
		if (!strcmp(e->d_name, "..") || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
			continue;
		CLOSE_FD int found = openat(fd, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (found < 0 && errno == ENOENT)
			continue;
		if (found < 0 || depth > 64) {
			err = err_errno(found < 0 ? errno : ELOOP, "sync '%s'", e->d_name);
		} else if (S_ISDIR(st.st_mode) && strcmp(e->d_name, ".") != 0) {
			err = sync_below(fd_steal(&found), list, depth + 1);
		} else {
			list->fds[list->n++] = fd_steal(&found);
			err = list->n == SYNC_FDS ? sync_listed(list) : NULL;
		}
	}
	closedir(dir);
	return err;
}

struct err *dir_sync(const char *path)
{
	struct sync_list list = { 0 };
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	struct err *err = sync_below(fd, &list, 0), *rest = sync_listed(&list);
	if (err)
		err_free(rest);
	else
		err = rest;
	return err ? err_wrap(err, "'%s'", path) : NULL;
}

static uint64_t bytes_below(int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return 0;
	}
	uint64_t sum = 0;
	for (struct dirent *e; (e = readdir(dir));) {
		struct stat st;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_size;
		int sub = S_ISDIR(st.st_mode) && depth < 64
				  ? openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				  : -1;
		if (sub >= 0)
			sum += bytes_below(sub, depth + 1);
	}
	closedir(dir);
	return sum;
}

uint64_t dir_bytes(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : bytes_below(fd, 0);
}
