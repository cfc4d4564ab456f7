#pragma once
/* Writes the memory of a process with two arenas of glibc's malloc, a thread's cache, fast bins and a mapped chunk: a good
 * one, in which a test changes what it wants to be wrong. */

#include "image/image.h"

#define PAGE 4096
#define LIBC 0x7f0000000000
#define ARENA 0x400 /* in libc's data */
#define PARAMETERS 0x200
#define MAIN_HEAP 0x10000
#define MAIN_SIZE (4 * PAGE)
#define OTHER_HEAP 0x7e0000000000
#define OTHER_SIZE (3 * PAGE)
#define MAPPED 0x7d0000000000
#define STATE_TOP 96
#define STATE_BINS 112
#define STATE_NEXT 2160
#define STATE_SYSTEM 2184
#define STATE_SIZE 2200
#define INFO 0x30

/* A process whose malloc has two arenas and a chunk of its own mapping. */
struct malloc_stage {
	uint8_t libc[2 * PAGE], main[MAIN_SIZE], other[OTHER_SIZE], mapped[3 * PAGE];
	size_t at; /* in the heap that is being written: after the last chunk */
	uint64_t n_mapped, mapped_bytes;
};

void stage_put(uint8_t *bytes, size_t at, uint64_t v);
uint64_t stage_word(const uint8_t *bytes, size_t at);
void stage_set(struct malloc_stage *s);
/* The caller closes it. */
struct image *stage_open(const struct malloc_stage *s);
