#pragma once
/* What the memory of a process is used for, mapping by mapping, as the kernel and the outline of the managed heap say. */

#include "base/vec.h"
#include "heap/walk.h"

enum memory_kind {
	MEMORY_HEAP,   /* the collector's */
	MEMORY_CODE,   /* made at run time */
	MEMORY_LOADER, /* what belongs to it: types, stubs */
	MEMORY_STACKS,
	MEMORY_ANONYMOUS, /* malloc and other private memory */
	MEMORY_ASSEMBLIES,
	MEMORY_LIBRARIES,
	MEMORY_FILES,
	MEMORY_SHARED,
	MEMORY_KINDS
};
struct memory_area {
	uint64_t start, end;
	uint64_t rss, swap, huge; /* bytes; huge: in pages larger than 4 KB */
	enum memory_kind kind;
	bool writable;
};
VEC_TYPE(memory_areas, struct memory_area);
/* From the text of /proc/PID/smaps. stacks: one address in each thread's stack. The caller frees with vec_free. */
void memory_areas(const char *smaps, const struct heap_outline *outline, const uint64_t *stacks, size_t n_stacks,
		  struct memory_areas *ret);
/* The same of a living process, with the stacks of the image's threads. */
struct err *memory_areas_of(pid_t pid, const struct image *img, const struct heap_outline *outline,
			    struct memory_areas *ret) MUST_USE;
