#pragma once
/* The objects of a heap, what they refer to and who holds them; dominators and retained sizes over it.
 *
 * Made by a writer, which streams while objects are walked and needs no memory of their number, and read back by
 * heapgraph_read(), which trusts nothing. In memory an object costs 16 bytes and 4 for each reference; with dominators
 * 20 more, and while they are computed 24 and 4 for each reference to something met before.
 *
 * Vertices are numbered: objects in order of address (0 ... n-1), then roots (n ... n + n_roots-1), then one vertex
 * above them all. Sizes are kept in units of 8 bytes. Knows no image and no runtime. Not for threads. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

enum graph_generation {
	GRAPH_GEN0,
	GRAPH_GEN1,
	GRAPH_GEN2,
	GRAPH_LARGE,
	GRAPH_PINNED,
	GRAPH_FROZEN,
	GRAPH_ANYWHERE, /* not known: in a .gcdump file */
	GRAPH_GENERATIONS
};
enum graph_kind { GRAPH_OBJECT, GRAPH_STRING, GRAPH_ARRAY, GRAPH_FREE };
enum graph_root {
	GRAPH_STATIC,
	GRAPH_THREAD_STATIC,
	GRAPH_STACK,
	GRAPH_HANDLE, /* its kind is in the name: "strong handles" */
	GRAPH_FINALIZER,
	GRAPH_ROOTS
};
/* What memory is used for, of all that is in RAM. */
enum graph_area {
	GRAPH_AREA_HEAP,   /* the collector's */
	GRAPH_AREA_JIT,	   /* code made at run time and what belongs to it */
	GRAPH_AREA_NATIVE, /* malloc and other private memory */
	GRAPH_AREA_FILES,  /* libraries, assemblies and other files */
	GRAPH_AREA_STACKS,
	GRAPH_AREA_SHARED, /* between processes */
	GRAPH_AREAS
};

struct graph_region {
	uint64_t start, end, committed;
	uint32_t heap;
	uint8_t generation;
	/* Filled in by reading: */
	uint32_t first, n;	    /* objects in it */
	uint64_t position;	    /* of its start among the units of all regions */
	uint64_t bytes, free_bytes; /* of objects, of gaps */
};
struct graph_type {
	const char *name, *module; /* in the runtime's words; file name, "" = not known */
	uint64_t loader;	   /* address of what its instances keep alive, 0 = nothing */
	uint8_t kind;
	bool variable;	    /* instances differ in size */
	bool own;	    /* of the user's own code: false until who can tell marks it (memory/heap_look.h) */
	uint32_t units;	    /* of an instance, when they do not */
	uint32_t n_slots;   /* references of an instance, null ones too, when not variable */
	const char **slots; /* their field names; "" = not known */
};
struct graph_root_set {
	uint8_t kind;
	bool own;	    /* as of types */
	bool late;	    /* like a stack: owns only what no other root reaches; false until marked, as own is */
	const char *name;   /* "Shop.Cache._orders", "strong handles", a method */
	const char *thread; /* of stacks and thread statics: "mailer" or "1234"; else "" */
	uint32_t first, n;  /* of root_targets */
};
struct graph_facts {
	uint64_t objects, bytes, free_objects, free_bytes, unused_bytes, lost_bytes, lost_at;
	uint64_t n_finalizable;
	uint64_t strays; /* references to where no object is, found when reading */
	uint32_t n_heaps, lost_regions;
	bool server, uses_regions;
	uint64_t rss; /* of the process; 0 = not known */
	uint64_t area[GRAPH_AREAS], committed;
};

#define GRAPH_NONE UINT32_MAX
struct heapgraph {
	struct arena arena;
	struct graph_facts facts;
	VEC(struct graph_region) regions;
	VEC(struct graph_type) types;
	VEC(struct graph_root_set) roots;
	uint32_t *root_targets;
	uint32_t n;	    /* objects */
	uint32_t *position; /* of each, in units; ascending */
	uint32_t *type, *units;
	uint32_t *first;  /* n + 1: of its references in target */
	uint32_t *target; /* GRAPH_NONE = null; of variable types only others */
	/* Once heapgraph_dominate() ran; by vertex, n + n_roots + 1 of them: */
	uint32_t *dominator; /* GRAPH_NONE: it cannot be reached */
	uint32_t *retained_objects;
	uint32_t *retained;	   /* units of all that it dominates, itself too */
	uint32_t *child, *sibling; /* of the dominator tree; GRAPH_NONE = none */
	uint64_t reached_objects, reached_units;
};

/* ---- writing ---- */

struct heapgraph_writer;
/* Writes into out, which must stay the same until the end. In this order: regions (ascending, apart), roots and links,
 * objects region by region with their references, types, facts. */
struct heapgraph_writer *heapgraph_writer_new(struct buf *out);
void heapgraph_writer_free(struct heapgraph_writer *w);
DEFINE_CLEANUP(heapgraph_writer_free, struct heapgraph_writer *)
void heapgraph_write_region(struct heapgraph_writer *w, const struct graph_region *region);
void heapgraph_write_root(struct heapgraph_writer *w, enum graph_root kind, const char *name, const char *thread,
			  const uint64_t *objects, size_t n);
/* `to` lives as long as `from`: a dependent handle. */
void heapgraph_write_link(struct heapgraph_writer *w, uint64_t from, uint64_t to);
/* The type's index is the caller's; a type is known by its shape from its first object on. */
void heapgraph_write_object(struct heapgraph_writer *w, uint64_t address, uint64_t size, uint32_t type,
			    const struct graph_type *shape);
/* Of the object written last: of a type that is not variable exactly n_slots (missing ones are null). */
void heapgraph_write_refs(struct heapgraph_writer *w, const uint64_t *refs, size_t n);
void heapgraph_end_objects(struct heapgraph_writer *w);
/* In order of the index that heapgraph_type_order() gives: as many as there are. */
void heapgraph_write_type(struct heapgraph_writer *w, const struct graph_type *type);
/* The caller's indexes in the order in which they came. */
const uint32_t *heapgraph_type_order(const struct heapgraph_writer *w, size_t *ret_n);
void heapgraph_write_facts(struct heapgraph_writer *w, const struct graph_facts *facts);

/* ---- reading ---- */

/* Leaves the cursor behind the graph. ERR_BAD_DATA when it is none. */
struct err *heapgraph_read(struct cursor *in, struct heapgraph **ret) MUST_USE;
void heapgraph_free(struct heapgraph *g);
DEFINE_CLEANUP(heapgraph_free, struct heapgraph *)

static inline uint32_t heapgraph_top(const struct heapgraph *g)
{
	return g->n + (uint32_t)g->roots.n;
}
const struct graph_region *heapgraph_region(const struct heapgraph *g, uint32_t object);
uint64_t heapgraph_address(const struct heapgraph *g, uint32_t object);
/* The object at that address, GRAPH_NONE = none begins there. */
uint32_t heapgraph_at(const struct heapgraph *g, uint64_t address);

/* ---- dominators and paths ---- */

/* Computes reachability, dominators, retained sizes and the tree of dominators. Once. Stacks own only what no other
 * root reaches, and so do roots that are marked late. An object whose units were set to 0 is still there but counts for nothing. */
void heapgraph_dominate(struct heapgraph *g);
static inline bool heapgraph_is_late(const struct graph_root_set *set)
{
	return set->late || set->kind == GRAPH_STACK;
}
static inline bool heapgraph_reached(const struct heapgraph *g, uint32_t vertex)
{
	return g->dominator[vertex] != GRAPH_NONE || vertex == heapgraph_top(g);
}

/* Shortest paths from the roots to every object: by vertex, the vertex from which it is reached first; GRAPH_NONE = not
 * reachable, and for roots. The caller frees (mem_free). */
uint32_t *heapgraph_shortest(const struct heapgraph *g);
/* The same, but roots of a lower rank go first: what they reach is reached from them, however long the path. */
#define GRAPH_RANKS 5
uint32_t *heapgraph_shortest_by_rank(const struct heapgraph *g, unsigned (*rank)(const struct graph_root_set *set));
/* The root's vertex first, the object last. */
VEC_TYPE(graph_path, uint32_t);
void heapgraph_path(const struct heapgraph *g, const uint32_t *shortest, uint32_t object, struct graph_path *ret);
/* The reference of `from` that leads to `to`, its name or "". from may be a root. */
const char *heapgraph_step(const struct heapgraph *g, uint32_t from, uint32_t to);
