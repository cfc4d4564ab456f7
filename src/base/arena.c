#include "base/arena.h"
#include <stdio.h>
#include <string.h>

#define ARENA_CHUNK 65536

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(16) uint8_t data[];
};

static struct arena_chunk *chunk_new(size_t size)
{
	struct arena_chunk *chunk = mem_alloc(sizeof(*chunk) + size);
	chunk->next = NULL;
	chunk->used = 0;
	chunk->size = size;
	return chunk;
}

void arena_free(struct arena *a)
{
	while (a->head) {
		struct arena_chunk *next = a->head->next;
		mem_free(a->head);
		a->head = next;
	}
	a->used_bytes = 0;
}

void arena_clear(struct arena *a)
{
	struct arena_chunk *keep = a->head;
	if (!keep)
		return;
	a->head = keep->next;
	arena_free(a);
	if (keep->size > ARENA_CHUNK) {
		mem_free(keep);
		return;
	}
	keep->next = NULL;
	keep->used = 0;
	a->head = keep;
}

void *arena_alloc(struct arena *a, size_t size)
{
	size_t need = (size + 15) & ~(size_t)15;
	if (need < size)
		need = SIZE_MAX / 2; /* ends in the out-of-memory hook */
	struct arena_chunk *head = a->head;
	if (!head || head->size - head->used < need) {
		struct arena_chunk *chunk = chunk_new(MAX(need, (size_t)ARENA_CHUNK));
		/* A large chunk goes behind the head, so that the rest of the head stays usable. */
		if (head && need > ARENA_CHUNK / 4) {
			chunk->next = head->next;
			head->next = chunk;
		} else {
			chunk->next = head;
			a->head = chunk;
		}
		head = chunk;
	}
	void *p = head->data + head->used;
	head->used += need;
	a->used_bytes += need;
	return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
	return memset(arena_alloc(a, size), 0, size);
}

void *arena_dup(struct arena *a, const void *p, size_t size)
{
	void *copy = arena_alloc(a, size);
	if (size)
		memcpy(copy, p, size);
	return copy;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = arena_alloc(a, len + 1);
	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_dup(a, s, strlen(s) + 1);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *s = mem_vprintf(fmt, ap);
	va_end(ap);
	return arena_strdup(a, s);
}
