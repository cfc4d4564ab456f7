#pragma once
/* A look at all memory of a process: where every resident byte is, and what glibc's malloc has in its arenas. Of a core
 * file only the latter: nobody knows what of it was resident.
 *
 * Resident memory of malloc's arenas is divided by what the chunks there are; what cannot be understood is not divided and
 * counts as other memory. The kinds add up to the whole. */

#include "exam/image_exam.h"
#include "malloc/allocator.h"
#include "malloc/arenas.h"

enum native_kind {
	NATIVE_HEAP,	  /* the collector's */
	NATIVE_USED,	  /* chunks that are in use, mapped ones too */
	NATIVE_CACHED,	  /* free, in caches of threads and fast bins */
	NATIVE_TRIMMABLE, /* free, whole pages */
	NATIVE_SCATTERED, /* free, beside chunks in use */
	NATIVE_TOP,	  /* at the ends of arenas */
	NATIVE_CODE,
	NATIVE_LOADER,
	NATIVE_STACKS,
	NATIVE_OLD_STACKS, /* of threads that have ended */
	NATIVE_ASSEMBLIES,
	NATIVE_LIBRARIES,
	NATIVE_FILES,
	NATIVE_SHARED,
	NATIVE_OTHER,
	NATIVE_KINDS
};
extern const char *const native_kind_names[NATIVE_KINDS];

#define NATIVE_SIZES_MAX 4096u
#define NATIVE_ARENAS_MAX 4096u
struct native_look {
	struct exam *exam;
	struct image_exam_facts facts;
	uint64_t rss, kind[NATIVE_KINDS]; /* rss 0 = not known */
	uint64_t swap, huge, page_tables;
	bool pages_known; /* which pages of free chunks are resident */
	uint32_t threads;
	struct malloc_allocator allocator;
	bool understood;				/* the arenas of glibc were found */
	VEC(struct malloc_arena) arenas;		/* the doubt is not kept as text: see doubtful */
	struct malloc_sum state[MALLOC_STATES], mapped; /* of all arenas without doubt */
	uint64_t trimmable, whole_pages;
	uint32_t n_arenas, doubtful;
	uint64_t doubtful_bytes; /* as these arenas count themselves */
	bool mapped_known, mapped_found;
	uint64_t arena_max;
	uint32_t n_sizes;	       /* in all */
	VEC(struct malloc_size) sizes; /* most bytes first */
};
struct err *native_look(struct native_look *look, struct exam *exam, const char *part) MUST_USE;
void native_look_fini(struct native_look *look);

/* ---- for tests ---- */

#define NATIVE_LOOK_VERSION 1
/* As a look is recorded. */
void native_look_write(const struct native_look *look, struct buf *out);
