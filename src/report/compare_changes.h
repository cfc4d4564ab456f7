#pragma once
/* What changed between two reports of one profiler, before anybody writes it down; for compare*.c only. Texts belong to
 * the two reports, which outlive it. */

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "report/doc.h"

enum { CHANGE_NAMES_MAX = 3 };

enum change_status { CHANGE_SAME, CHANGE_GREW, CHANGE_SHRANK, CHANGE_NEW, CHANGE_GONE };
extern const char *const change_status_names[5]; /* in JSON; index = value */

struct change {
	const struct value *names[CHANGE_NAMES_MAX];
	bool in_before, in_after; /* shown on that side */
	double before, after;	  /* 0 where it is not */
	double size;		  /* the change is at least so large */
	enum change_status status;
};
struct changes { /* a VEC */
	struct change *v;
	size_t n, cap;
};

/* Rows or frames that both reports have a list of, the largest change first. */
struct compared {
	const char *title;			      /* of the block */
	struct column names[CHANGE_NAMES_MAX], value; /* what a change is about, and what of it is compared */
	size_t n_names;
	bool all_before, all_after; /* that side shows everything: what it does not show is 0 */
	struct changes changes;
	const struct report_flame *flame_before, *flame_after; /* where the frames are from; NULL of a table */
};

struct comparison {
	struct arena arena;
	VEC(struct compared) lists; /* in the order of the second report's blocks */
};

/* ERR_USAGE when they are of different profilers. To be released, also after an error. */
struct err *comparison_init(struct comparison *c, const struct report *before, const struct report *after) MUST_USE;
void comparison_fini(struct comparison *c);

/* Is a difference of `size` between these two more than noise? */
bool change_matters(enum value_kind kind, double before, double after, double size);
static inline bool change_before_known(const struct compared *l, const struct change *c)
{
	return c->in_before || l->all_before;
}
static inline bool change_after_known(const struct compared *l, const struct change *c)
{
	return c->in_after || l->all_after;
}
/* The figure of that label, or NULL. */
const struct fact *fact_find(const struct fact_list *list, const char *label);

/* compare_flame.c: the frames of two flame graphs with what they call, as shares; of a path with itself in it the outer
 * one. */
void compare_frames(struct compared *l, struct arena *arena);
/* The second one, each node with what it was before. */
void compare_flame(struct report *r, const struct report_flame *before, const struct report_flame *after);
/* The change of that key; a new one where there is none. */
struct change *change_of(struct changes *list, struct strtab *keys, const char *key, size_t len);
