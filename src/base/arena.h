#pragma once
/* Allocations that are freed together: one arena per parsed block, report or request. Not for threads. */

#include "base/base.h"

struct arena {
	struct arena_chunk *head;
	size_t used_bytes; /* handed out in all */
};

void arena_free(struct arena *a);
/* Frees all but one chunk, for reuse. */
void arena_clear(struct arena *a);
/* Aligned to 16, not zeroed. */
void *arena_alloc(struct arena *a, size_t size) __attribute__((returns_nonnull));
void *arena_zalloc(struct arena *a, size_t size) __attribute__((returns_nonnull));
void *arena_dup(struct arena *a, const void *p, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
