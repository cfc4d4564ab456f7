#pragma once
/* Where and with whose rights files for a target are written: in its own folders, as its user (base/fsuser.h). What it
 * has mounted or linked there can then lead only to where it may write itself. */

#include "base/fsuser.h"
#include "target/target.h"

/* Its user, read anew: of the process, or of its socket's file where no process is visible. ERR_NOT_FOUND when it has
 * ended, ERR_DENIED when its user is no longer the one it was found with. */
struct err *target_fsuser(const struct target *t, struct fsuser *ret) MUST_USE;
/* Opens (O_PATH) a folder of its, named as t->socket is: links in it do not lead out of its root, and its user can get
 * there. The process itself is looked into with our own rights. */
struct err *target_open_folder(const struct target *t, const struct fsuser *user, const char *path, int *ret_fd)
	MUST_USE;
/* The folder that its socket lies in, named like the socket. NULL without a socket; the caller frees. */
char *target_socket_folder(const struct target *t);
/* The folder belongs to root, to its user or to the root of its user namespace, and others cannot put something else
 * into the place of what lies in it. ERR_DENIED. */
struct err *target_check_folder(const struct target *t, const struct fsuser *user, int fd, const char *name) MUST_USE;
