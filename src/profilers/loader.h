#pragma once
/* The loader in two halves: the collector (loader.c) and the report (loader_report.c). */

#include "base/map.h"
#include "base/vec.h"
#include "model/timeline.h"
#include "exam/events.h"
#include "exam/stacks.h"
#include "report/report.h"

#define LOADER_NO_CONTEXT UINT32_MAX

/* An assembly that was loaded in the window. */
struct loaded {
	uint64_t id, at_ns;
	uint32_t name, context, stack; /* name in names, context in contexts */
	bool collectible, dynamic, gone;
};

/* All of one name. */
struct assembly {
	uint64_t loads, unloads, alive; /* alive: at the end, also those from before the window */
	uint32_t full_name;		/* of the last one, in names */
};

/* Dynamic methods of one name (digits taken out) with one stack. */
struct dynamic {
	uint32_t name, stack;
	uint64_t loads, bytes;
};

struct starts {
	uint32_t stack;
	uint64_t count;
};

struct loader {
	struct exam *exam;
	struct strtab names;	    /* simple and full names of assemblies, names of dynamic methods */
	struct map_u64 assembly_of; /* simple name -> index + 1 */
	VEC(struct assembly) assemblies;
	VEC(uint32_t) simple_names; /* of assemblies */
	VEC(struct loaded) loaded;
	struct map_u64 by_id;	/* assembly id -> index in loaded + 1 */
	struct map_u64 pending; /* thread -> index in loaded + 1, until the binder says into which context */
	struct strtab contexts;
	uint64_t unloads, alive;
	bool listed; /* alive was reported */

	struct map_u64 jitting; /* method id -> stack + 1 */
	struct map_u64 dynamic_of;
	VEC(struct dynamic) dynamics;
	struct map_u64 dynamic_unloads; /* name -> count */
	uint64_t dynamic_loads, dynamic_gone, compiled;

	uint64_t full_gcs;
	VEC(uint64_t) full_gc_ns;  /* when they began */
	VEC(struct starts) starts; /* of threads, by stack */
	struct map_u64 starts_of;
	uint64_t threads_started, threads_before, threads_after; /* 0 = not known */

	struct timeline assembly_growth, dynamic_growth; /* loads less unloads */
	struct timeline dynamic_made;
	uint64_t not_kept;

	struct stacks *stacks;
	struct methods *methods;
	bool asked_names;
	struct buf text;
	struct events_stream streams[3];
};
enum { LOADER_NAMES, LOADER_EVENTS, LOADER_GCS };

struct err *loader_analyse(struct exam *exam, struct report *report) MUST_USE;
