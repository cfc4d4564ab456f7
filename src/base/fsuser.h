#pragma once
/* Files for somebody else are written with that user's rights: root who writes into a folder of theirs would follow
 * whatever they have mounted or linked there. The kernel then judges as if they did it themselves.
 *
 * Holds for the thread that begins it, and for processes that it forks meanwhile. Groups are left, and capabilities
 * that overrule the permissions of files are put aside. Does not know where a user comes from (target/files.h does). */

#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

struct fsuser {
	uid_t uid; /* as we see them, whatever their user namespace calls them */
	gid_t gid;
};

/* What the thread was before. Zeroed: nothing was begun. */
struct fsuser_held {
	bool held, other;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
	uint32_t caps[6];
	int death_signal; /* which the kernel forgets, as it forgets whether we may be dumped */
	pid_t parent;
	bool dumpable;
};
/* ERR_DENIED when we are root and cannot become that user; nothing is changed then. Who is not root and cannot become
 * another stays what they are, without those capabilities. */
struct err *fsuser_begin(const struct fsuser *user, struct fsuser_held *ret) MUST_USE;
/* Leaves errno alone. */
void fsuser_end(struct fsuser_held *held);
#define FSUSER_HELD CLEANUP(fsuser_end) struct fsuser_held

/* Whose rights files are opened with now, in this thread. */
uid_t fsuser_uid(void);
