#pragma once
/* A typed growable array: `VEC(struct row) rows = {0}; vec_push(&rows, r); ... vec_free(&rows);`
 *
 * Elements move when it grows: keep indexes, not pointers. Not for threads. */

#include "base/base.h"

/* `VEC_TYPE(rows, struct row);` is struct rows, for a parameter or a member of another header. */
#define VEC_TYPE(name, type)                                                                                           \
	struct name {                                                                                                  \
		type *v;                                                                                               \
		size_t n, cap;                                                                                         \
	}
#define VEC(type) VEC_TYPE(, type)

#define vec_reserve(vec, want)                                                                                         \
	do {                                                                                                           \
		size_t vec_want_ = (want);                                                                             \
		if (vec_want_ > (vec)->cap) {                                                                          \
			size_t vec_cap_ = (vec)->cap ? (vec)->cap * 2 : 8;                                             \
			if (vec_cap_ < vec_want_)                                                                      \
				vec_cap_ = vec_want_;                                                                  \
			(vec)->v = mem_realloc_array((vec)->v, vec_cap_, sizeof(*(vec)->v));                           \
			(vec)->cap = vec_cap_;                                                                         \
		}                                                                                                      \
	} while (0)

/* The new element, not initialised. */
#define vec_add(vec)                                                                                                   \
	({                                                                                                             \
		vec_reserve(vec, (vec)->n + 1);                                                                        \
		&(vec)->v[(vec)->n++];                                                                                 \
	})
#define vec_push(vec, value) (*vec_add(vec) = (value))
#define vec_last(vec) ((vec)->v[(vec)->n - 1])
#define vec_clear(vec) ((vec)->n = 0)
#define vec_free(vec)                                                                                                  \
	do {                                                                                                           \
		mem_free((vec)->v);                                                                                    \
		(vec)->v = NULL;                                                                                       \
		(vec)->n = (vec)->cap = 0;                                                                             \
	} while (0)
/* An empty one has no memory, and NULL + 0 is undefined. */
#define vec_each(it, vec) for (typeof((vec)->v + 0) it = (vec)->v; (vec)->n && it < (vec)->v + (vec)->n; it++)
#define vec_sort(vec, cmp)                                                                                             \
	do {                                                                                                           \
		if ((vec)->n > 1)                                                                                      \
			qsort((vec)->v, (vec)->n, sizeof(*(vec)->v), cmp);                                             \
	} while (0)
