#pragma once
/* Opens folders of a target for writing: in its own folders, with the rights of its user (base/fsuser.h). What the
 * target has mounted or linked there can then lead only to places that it could write to itself. */

#include "base/fsuser.h"
#include "target/target.h"

/* The target's user, read again: of the process, or of its socket's file where no process is visible. ERR_NOT_FOUND
 * when the process has ended, ERR_DENIED when its user has changed since it was found. */
struct err *target_fsuser(const struct target *t, struct fsuser *ret) MUST_USE;
/* Opens (O_PATH) a folder of the target, named as t->socket is: links in it are not followed out of its root, and its
 * user must be able to reach it. /proc itself is read with our own rights. */
struct err *target_open_folder(const struct target *t, const struct fsuser *user, const char *path, int *ret_fd)
	MUST_USE;
/* The folder that its socket lies in, named like the socket. NULL without a socket; the caller frees. */
char *target_socket_folder(const struct target *t);
/* The folder belongs to root, to the target's user or to the root of its user namespace, and other users cannot replace
 * what is in it. ERR_DENIED otherwise. */
struct err *target_check_folder(const struct target *t, const struct fsuser *user, int fd, const char *name) MUST_USE;
