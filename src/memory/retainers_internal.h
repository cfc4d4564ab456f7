#pragma once
/* What the search for retainers and its table of rules share. */

#include "memory/retainers.h"

struct retainers {
	const struct heapgraph *g;
	const struct heap_notes *notes;
	uint32_t *from;	 /* by vertex: the path to its root */
	uint32_t *up;	 /* by vertex: the retainer at or above it, RETAINERS_UNKNOWN = not asked yet */
	uint8_t *shapes; /* by type: SHAPE_... */
	VEC(struct retainer) v;
	VEC(uint32_t) climb; /* the search's own */
	struct strtab texts;
	VEC(struct retainer_text) by_text;
	struct map_u64 known; /* type << 32 | slot -> 1 + text, or nothing */
	struct strtab chains; /* struct chain_key */
};
#define RETAINERS_UNKNOWN UINT32_MAX

enum { SHAPE_DELEGATE = 1, SHAPE_CLOSURE = 2, SHAPE_OWN = 4 };

/* A reference that means something. */
struct retainer {
	uint32_t text;
	uint32_t next, root; /* further up; the root's: GRAPH_NONE = it is that */
};
struct retainer_text {
	const struct retainer_rule *rule;
	uint64_t most; /* of what the rule counts: subscribers of one event; 0 = nothing */
};

/* A reference: of object `from`, or of a root. */
struct retainer_edge {
	uint32_t from, to;
	uint32_t slot;	   /* GRAPH_NONE = without a name: of an array, or beyond the fields */
	const char *field; /* "" = not known */
};

struct retainer_rule {
	/* The name of the referring type, or its beginning up to a dot; NULL: fits decides alone. */
	const char *type;
	/* The fields that it is about, separated by blanks; NULL = all. */
	const char *fields;
	bool (*fits)(const struct retainers *k, const struct retainer_edge *e);
	const char *words; /* "timers"; NULL = more has them all */
	/* Adds what this object says: the method that a timer calls. */
	void (*more)(const struct retainers *k, const struct retainer_edge *e, struct buf *out);
	/* How many things this retainer has, and what they are called: " (4,012 subscribers)". */
	uint64_t (*count)(const struct retainers *k, const struct retainer_edge *e);
	const char *one, *many;
	bool plain; /* a field or a root: no shape of the framework, and the same words for all objects of a type */
	const char *advice; /* what to do about it; NULL = nothing particular */
};
/* The first that fits; NULL = the reference means nothing. */
const struct retainer_rule *retainer_rule_of(const struct retainers *k, const struct retainer_edge *e);
extern const struct retainer_rule retainer_root_rule, retainer_own_root_rule;

/* The object in a field, by the beginning of the field's name; GRAPH_NONE = none. */
uint32_t retainer_field(const struct heapgraph *g, uint32_t object, const char *field);
