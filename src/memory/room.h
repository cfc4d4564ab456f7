#pragma once
/* How much of the framework's collections, of arrays and of boxes is used: numbers that a heap's graph does not have.
 * Read while the heap is walked, kept in the recording behind the graph.
 *
 * Collections are known by the names of their fields; types derived from them as well. */

#include "memory/heap_look.h"

enum room_role {
	ROOM_NONE,
	ROOM_ARRAY,	 /* elements without references; number: bytes of zeros at its end */
	ROOM_REFS,	 /* elements are references; how many are null the graph knows */
	ROOM_BOX,	 /* number: 1 + which value of several that are equal; 0 = there is no other like it */
	ROOM_COLLECTION, /* number: elements in it; this and above: rule */
};
#define ROOM_ARRAYS 3

struct room_rule {
	const char *type; /* without its arguments: "System.Collections.Generic.List`1" */
	/* Fields that sum up to the elements in it: numbers, with a minus sign to be taken away, with a plus sign an
	 * array of them. */
	const char *counts[2];
	const char *arrays[ROOM_ARRAYS]; /* fields; the first says how many fit; none = each element is an object */
};
extern const struct room_rule room_rules[];
extern const size_t room_n_rules;

struct room_type {
	uint32_t role; /* ROOM_COLLECTION + index of its rule */
	uint32_t base, component;
};
struct room {
	struct room_type *types; /* by the graph's types */
	uint32_t *numbers;	 /* by object; 0 when it has no role */
	uint32_t n_boxes;	 /* values that several boxes have */
	struct room_reader *reader;
};

/* Makes a look bring the numbers along. */
void room_watch(struct room *room, struct heap_look *look);
void room_fini(struct room *room);
