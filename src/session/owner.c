/* Which process a session belongs to: pid with start time, and a lock on its folder. */

#include "session/internal.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>

uint64_t owner_start_ticks(pid_t pid)
{
	char path[40];
	struct buf text = { 0 };
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	struct err *err = file_read(path, 4096, &text);
	/* The name in parentheses may hold anything; field 3 stands behind the last one. */
	const char *p = err ? NULL : strrchr(buf_cstr(&text), ')');
	uint64_t ticks = 0;
	err_ignore(err);
	if (p && (p[1] != ' ' || p[2] == 'Z' || p[2] == 'X'))
		p = NULL;
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (p)
		ticks = strtoull(p + 1, NULL, 10);
	buf_free(&text);
	return ticks;
}

bool owner_alive(int64_t pid, uint64_t start)
{
	return pid > 0 && pid <= INT32_MAX && start && owner_start_ticks((pid_t)pid) == start;
}

struct err *owner_lock(const char *dir, int *ret_fd)
{
	CLOSE_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "'%s'", dir);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_new(ERR_BUSY, "'%s' is in use", dir);
	*ret_fd = fd_steal(&fd);
	return NULL;
}

bool owner_locked(const char *dir)
{
	CLOSE_FD int fd = -1;
	struct err *err = owner_lock(dir, &fd);
	bool locked = err && err_kind(err) == ERR_BUSY;
	err_ignore(err);
	return locked;
}

struct err *session_ask_to_stop(struct store *store, const char *guid)
{
	struct store_row row;
	TRY(store_get(store, guid, &row));
	int64_t pid = row.owner_pid;
	uint64_t start = row.owner_start;
	bool unfinished = !store_state_finished(row.state);
	store_row_fini(&row);
	if (!unfinished)
		return err_new(ERR_BUSY, "session %s is over already", guid);
	/* The descriptor first: from then on it cannot become another process. */
	CLOSE_FD int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
	if (fd < 0 || !owner_alive(pid, start))
		return err_new(ERR_BUSY, "nobody works on session %s any more", guid);
	if (syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) < 0)
		return err_errno(errno, "ask session %s to stop", guid);
	return NULL;
}
