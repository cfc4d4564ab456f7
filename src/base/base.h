#pragma once
/* Macros and functions that every file uses: cleanup, ownership, counting.
 *
 * Knows nothing of .NET. Small allocations cannot fail: mem_* write one line to standard error and end the process (a
 * crash costs one worker process). Sizes that come from input are capped by the caller before they reach an allocator.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_USE __attribute__((warn_unused_result))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define MIN(a, b)                                                                                                      \
	({                                                                                                             \
		typeof(a) min_a_ = (a);                                                                                \
		typeof(b) min_b_ = (b);                                                                                \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                                     \
	})
#define MAX(a, b)                                                                                                      \
	({                                                                                                             \
		typeof(a) max_a_ = (a);                                                                                \
		typeof(b) max_b_ = (b);                                                                                \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                                     \
	})

/* For sorting: below, equal or above 0. Further keys follow with ?: */
#define CMP(a, b)                                                                                                      \
	({                                                                                                             \
		typeof(a) cmp_a_ = (a);                                                                                \
		typeof(b) cmp_b_ = (b);                                                                                \
		(cmp_a_ > cmp_b_) - (cmp_a_ < cmp_b_);                                                                 \
	})

/* part / whole as a double; 0 when there is no whole. */
#define ratio(part, whole) ratio_of((double)(part), (double)(whole))
static inline double ratio_of(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

/* Returns the pointer and sets the variable to NULL, so that a CLEANUP of the variable does nothing. */
#define STEAL(p)                                                                                                       \
	({                                                                                                             \
		typeof(p) *steal_ = &(p);                                                                              \
		typeof(p) stolen_ = *steal_;                                                                           \
		*steal_ = NULL;                                                                                        \
		stolen_;                                                                                               \
	})

/* Makes `void NAMEp(TYPE *p)` out of `void NAME(TYPE)`, for CLEANUP. */
#define DEFINE_CLEANUP(name, type)                                                                                     \
	static inline void name##p(type *p)                                                                            \
	{                                                                                                              \
		if (*p)                                                                                                \
			name(*p);                                                                                      \
	}

/* Never NULL. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_realloc(void *p, size_t size) __attribute__((returns_nonnull));
void *mem_dup(const void *p, size_t size) __attribute__((malloc, returns_nonnull));
/* n * size with the overflow checked. */
void *mem_array(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_realloc_array(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_strndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *mem_printf(const char *fmt, ...) PRINTF(1, 2) __attribute__((malloc, returns_nonnull));
char *mem_vprintf(const char *fmt, va_list ap) PRINTF(1, 0) __attribute__((malloc, returns_nonnull));
void mem_free(void *p);

/* For CLEANUP on any pointer from mem_*. */
static inline void mem_freep(void *pp)
{
	mem_free(*(void **)pp);
}
