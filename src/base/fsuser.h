#pragma once
/* Writes files for another user with that user's rights. Root, writing into a folder of a user, would follow what the
 * user has mounted or linked there; with the user's rights the kernel refuses what the user could not do.
 *
 * Applies to the thread that begins it, and to processes that it forks meanwhile. Supplementary groups are dropped, and
 * so are capabilities that override file permissions. Does not know where a user comes from (target/files.h does). */

#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct fsuser {
	uid_t uid; /* ids in our own user namespace */
	gid_t gid;
};

/* The identity of the thread before. Zeroed: nothing was changed. */
struct fsuser_held {
	bool held, other;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
	uint32_t caps[6];
	int death_signal; /* the kernel resets it when the identity changes, as it does with the dumpable flag */
	pid_t parent;
	bool dumpable;
};
/* ERR_DENIED when we are root and cannot become that user; nothing is changed then. A process that is not root and
 * cannot become another user keeps its own identity, without those capabilities. */
struct err *fsuser_begin(const struct fsuser *user, struct fsuser_held *ret) MUST_USE;
/* Leaves errno alone. */
void fsuser_end(struct fsuser_held *held);
#define FSUSER_HELD CLEANUP(fsuser_end) struct fsuser_held

/* Whose rights files are opened with now, in this thread. */
uid_t fsuser_uid(void);
