#pragma once
/* Threads that do the same in the same place, as groups; largest first. For reports over struct thread_snapshot. */

#include "threads/thread_snapshot.h"

struct thread_group {
	enum activity doing;
	uint32_t thing;	   /* what they wait for, or SNAPSHOT_NONE */
	uint32_t site;	   /* method: the innermost of the user's own code, else the innermost; SNAPSHOT_NONE = none */
	uint32_t first, n; /* in members */
	bool alike;	   /* each of them waits for another object of that kind and name */
	uint32_t pool;	   /* so many are workers of the thread pool */
};
struct thread_groups {
	VEC(struct thread_group) v;
	VEC(uint32_t) members; /* threads */
};
/* Idle threads of the runtime are one group, the last. */
void thread_groups_make(const struct thread_snapshot *s, struct thread_groups *ret);
void thread_groups_free(struct thread_groups *g);
/* Where they are, for a cell: the site's name. */
const char *thread_group_site(const struct thread_snapshot *s, const struct thread_group *g);
/* What they do, as the rest of a sentence; brief: with short names. */
void thread_group_words(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			bool brief, struct buf *out);
/* "'hand-…' (34)", "3 pool workers": who they are, short. */
void thread_group_names(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			struct buf *out);
/* The lines of a row: the threads, then the frames that all of them share from the site outwards, then the frames at
 * which they differ. */
void thread_group_lines(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			struct report_row *row);
