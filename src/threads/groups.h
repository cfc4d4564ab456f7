#pragma once
/* Threads that do the same in the same place, as groups; largest first. For reports over struct seen. */

#include "threads/seen.h"

struct group {
	enum doing doing;
	uint32_t thing;	   /* what they wait for, or SEEN_NONE */
	uint32_t site;	   /* method: the innermost of the user's own code, else the innermost; SEEN_NONE = none */
	uint32_t first, n; /* in members */
	bool alike;	   /* each of them waits for another thing like that */
	uint32_t pool;	   /* so many are workers of the thread pool */
};
struct groups {
	VEC(struct group) v;
	VEC(uint32_t) members; /* threads */
};
/* Idle threads of the runtime are one group, the last. */
void groups_make(const struct seen *s, struct groups *ret);
void groups_free(struct groups *g);
/* Where they stand, in words for a cell: the site's name. */
const char *group_site(const struct seen *s, const struct group *g);
/* What they do, as a sentence goes on; brief: with short names. */
void group_words(const struct seen *s, const struct groups *gs, const struct group *g, bool brief, struct buf *out);
/* "'hand-…' (34)", "3 pool workers": who they are, short. */
void group_names(const struct seen *s, const struct groups *gs, const struct group *g, struct buf *out);
/* A row's lines: who, then the frames that all of them share from the site outwards, then where they part. */
void group_lines(const struct seen *s, const struct groups *gs, const struct group *g, struct report_row *row);
