#pragma once
/* What memory_leaks.c keeps of its looks, for memory_leaks_report.c. */

#include "exam/profiler.h"
#include "memory/heap_look.h"
#include "memory/holders.h"
#include "memory/same_objects.h"
#include "profilers/memory_steps.h"

#define LOOKS_MAX MEMORY_STEPS_MAX

struct sum {
	uint64_t objects, bytes;
};
/* One holder or type by name, at every look. */
struct grower {
	const char *name, *detail; /* detail: of holders */
	const char *shown;	   /* the name with the field that had most at the last look */
	const char *keeps;	   /* of holders: main type at the last look where it had one; or NULL */
	const char *kept_by; /* of holders: how that is kept at the last look, when it is more than fields; or NULL */
	struct holder_kept how;
	bool finalizers; /* the queue of what waits for them */
	struct sum at[LOOKS_MAX];
	uint64_t kept[LOOKS_MAX]; /* objects of the main type */
	struct same_count same;	  /* of types: from the first look to the last */
};
struct growers { /* a VEC */
	struct grower *v;
	size_t n, cap;
	struct strtab names;
};

struct leaks {
	struct heap_look look; /* the current one */
	struct image_exam_facts facts[LOOKS_MAX];
	struct sum alive[LOOKS_MAX];
	uint64_t garbage[LOOKS_MAX];			       /* bytes */
	uint64_t rss[LOOKS_MAX], area[GRAPH_AREAS][LOOKS_MAX]; /* 0 = not known */
	uint32_t n;
	struct growers holders, types;
	struct arena arena;
	uint64_t walked, lost, seen_bytes; /* of all looks together */
	bool young;			   /* the process had hardly started */
	uint32_t threads_unread;
	struct same_objects first;
	bool knows_same;	/* at the last look */
	const char *finalizers; /* what waits for them, at the last look */
};

struct err *leaks_analyse(struct exam *exam, struct report *report) MUST_USE;
