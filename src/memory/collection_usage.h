#pragma once
/* How much of the framework's collections, of arrays and of boxes is used: numbers that a heap's graph does not have.
 * Read while the heap is walked, kept in the recording behind the graph.
 *
 * Collections are known by the names of their fields; types derived from them as well. */

#include "memory/heap_look.h"

enum usage_role {
	USAGE_NONE,
	USAGE_ARRAY,	  /* elements without references; number: bytes of zeros at its end */
	USAGE_REFS,	  /* elements are references; the graph knows how many are null */
	USAGE_BOX,	  /* number: 1 + index of the value that several boxes share; 0 = no other box has it */
	USAGE_COLLECTION, /* number: elements in it; this and above: rule */
};
#define USAGE_ARRAYS 3

struct collection_rule {
	const char *type; /* without its arguments: "System.Collections.Generic.List`1" */
	/* Fields that sum up to the elements in it: numbers, with a minus sign to be taken away, with a plus sign an
	 * array of them. */
	const char *counts[2];
	const char *arrays[USAGE_ARRAYS]; /* fields; the first says how many fit; none = each element is an object */
};
extern const struct collection_rule collection_rules[];
extern const size_t collection_n_rules;

struct usage_type {
	uint32_t role; /* USAGE_COLLECTION + index of its rule */
	uint32_t base, component;
};
struct collection_usage {
	struct usage_type *types; /* by the graph's types */
	uint32_t *numbers;	  /* by object; 0 when it has no role */
	uint32_t n_boxes;	  /* values that several boxes have */
	struct usage_reader *reader;
};

/* Makes a look bring the numbers along. */
void collection_usage_watch(struct collection_usage *room, struct heap_look *look);
void collection_usage_fini(struct collection_usage *room);
