#pragma once
/* File descriptors and files. Everything is opened close-on-exec. Reads of files are capped; waits have a deadline. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include <unistd.h>

static inline void fd_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
#define CLOSE_FD CLEANUP(fd_closep)

/* Returns the descriptor and sets the variable to -1, so that CLOSE_FD of the variable does nothing. */
static inline int fd_steal(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* Exactly len bytes before the deadline. ERR_TIMEOUT; ERR_IO with "closed" when the peer ends early. The fd may be
 * blocking or not (sockets and pipes). */
struct err *fd_read_full(int fd, void *data, size_t len, struct deadline deadline) MUST_USE;
struct err *fd_write_full(int fd, const void *data, size_t len, struct deadline deadline) MUST_USE;
/* Reads up to len bytes of a file at an offset; fewer when the file ends or cannot be read. */
size_t fd_pread(int fd, void *data, size_t len, uint64_t at);
/* Waits until readable (POLLIN) or writable (POLLOUT): ERR_TIMEOUT otherwise. */
struct err *fd_wait(int fd, short events, struct deadline deadline) MUST_USE;

/* The whole file, at most max bytes (more is ERR_BAD_DATA). Works on /proc. Appends to out. */
struct err *file_read(const char *path, size_t max, struct buf *out) MUST_USE;
/* A small file whose name is formatted; false when it cannot be read. */
bool file_text(struct buf *text, const char *fmt, ...) PRINTF(2, 3);
/* Same, relative to an open folder. */
struct err *file_read_at(int dirfd, const char *name, size_t max, struct buf *out) MUST_USE;
/* Opens a regular file whose name comes from another user (flags: O_RDONLY ...). Anything else, such as a pipe or a
 * device, is not even opened. -1 and errno on failure. */
int file_open_regular(const char *path, int flags);
/* The same, or with O_DIRECTORY a folder, below `root` (NULL or "" = "/"), which may belong to another user: links in
 * it are not followed out of root. */
int file_open_below(const char *root, const char *path, int flags);
int file_open_below_fd(int root, const char *path, int flags);
/* The rest of an open file, at most max bytes (more is ERR_BAD_DATA); name is for messages. Appends to out. */
struct err *file_read_fd(int fd, const char *name, size_t max, struct buf *out) MUST_USE;
/* Creates a file that must not exist yet; a file or link that another user has placed there is refused. Nothing is left
 * on failure. */
struct err *file_create(const char *path, const void *data, size_t len, mode_t mode, bool sync) MUST_USE;
/* ERR_USAGE: what has that name is a device, a pipe, a folder; a rename would put a file in its place. */
struct err *file_check_regular(const char *path) MUST_USE;
/* Temporary name beside it, fsync, rename, fsync of the folder: readers see the old file or the new one, never a part.
 * Only a regular file is replaced; for an output that the user names there is base/partfile.h. */
struct err *file_write_atomic(const char *path, const void *data, size_t len, mode_t mode) MUST_USE;
/* The same, but safe only against our own crash, not against one of the machine: for one of many files, after which
 * dir_sync() is called. */
struct err *file_put(const char *path, const void *data, size_t len, mode_t mode) MUST_USE;
/* The folder that holds it ("." for a bare name); the caller frees. */
char *file_folder(const char *path);
/* To be called after a rename: until then the new name may be lost if the machine crashes. */
struct err *file_sync_folder(const char *path) MUST_USE;
/* Makes a folder in one that may belong to another user, and opens it, or opens the one that is there. Refuses a link,
 * a mount, or a folder of another user than the one whose rights we use (base/fsuser.h). -1 and errno on failure. */
int dir_make_own(int parent, const char *name, mode_t mode);
int dir_open_own(int parent, const char *name);
/* mkdir -p. */
struct err *dir_make(const char *path, mode_t mode) MUST_USE;
/* rm -r, never follows links, never leaves the file system; absent is fine. */
struct err *dir_remove(const char *path) MUST_USE;
/* Writes all files and folders below, and itself, to the disk. Much faster than one file after the other, because the
 * disk gets many at once. Uses threads of its own. */
struct err *dir_sync(const char *path) MUST_USE;
/* Bytes of all files below. */
uint64_t dir_bytes(const char *path);
