#pragma once
/* The control groups a process is in, v1 and v2, as folders that we can read. Reads files only.
 *
 * Everything is read below `proc`, "/proc" but for tests. */

#include "base/buf.h"

/* Its own folder first, then each above it up to where the hierarchy is mounted: a limit holds for all below. */
struct cgroup {
	struct cgroup_level {
		char *folder;
		char *path; /* below the root of its hierarchy, as far as we see it: "/a/b", "/" */
		bool v2;
	} * levels;
	size_t n;
	bool hidden; /* it is in a group whose files we cannot see */
};

/* Adds the levels of one controller of v1, or with NULL those of v2, which has one tree for all controllers. `known` is
 * a file that each of its groups has, by which a container's own mount of the hierarchy is recognised. */
void cgroup_add(struct cgroup *g, const char *proc, pid_t pid, const char *controller, const char *known);
void cgroup_fini(struct cgroup *g);

/* A file of a group, whole. False when it cannot be read. */
bool cgroup_read(const struct cgroup_level *l, const char *file, struct buf *ret);
/* The number that a file of a group begins with, or `otherwise`: not there, or a word such as "max". */
uint64_t cgroup_number(const struct cgroup_level *l, const char *file, uint64_t otherwise);
/* The number behind a key at the start of a line of a file of a group, or 0. */
uint64_t cgroup_stat(const struct cgroup_level *l, const char *file, const char *key);
