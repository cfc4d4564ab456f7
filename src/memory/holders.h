#pragma once
/* What holds the memory, in the user's terms: the dominators of a heap, from the roots down to the first object or
 * field of the user's own code, and on through the parts that it is made of (a service in a host, a cache in a service)
 * to where objects are collected. Each object is counted for one holder only. */

#include "memory/heap_look.h"

struct holder {
	uint32_t vertex;       /* a root, or an object; of several alike the largest */
	uint32_t root;	       /* vertex of the root that keeps it alive; when several do, of the nearest */
	bool several, by_root; /* by_root: that root refers to objects like it */
	bool firm;	       /* others than stacks do */
	uint32_t also;	       /* when several do: another one of them, or (beyond the top) a type; or GRAPH_NONE */
	size_t claims;	       /* then: how many there are */
	uint64_t alike;	       /* objects of this type at this root, this one too */
	uint32_t member;       /* the search's own */
	uint64_t bytes, objects;
	/* What most of it is: objects of this type, with all that they keep. main_type GRAPH_NONE = no type stands out. */
	uint32_t main_type;
	uint64_t main_objects, main_bytes;
};
struct holders {
	VEC(struct holder) v;		   /* largest first */
	uint64_t bytes, objects;	   /* that are held at all */
	uint64_t rest_bytes, rest_objects; /* by other holders than these */
};
/* Holders of less than min_bytes are not told apart. The graph must be dominated. */
void holders_find(const struct heapgraph *g, uint64_t min_bytes, struct holders *ret);
void holders_free(struct holders *h);

/* "Shop.Cache._orders", or the type of an object. */
void holder_name(const struct heapgraph *g, const struct holder *h, struct buf *out);
/* The field of an object that has most of what it holds: "._orders". Returns what is in it, or GRAPH_NONE. */
uint32_t holder_field(const struct heapgraph *g, const struct holder *h, struct buf *out);
/* What it is: "static Dictionary<Int32, Order>"; what keeps an object alive: "in static ...". May be nothing. */
void holder_detail(const struct heapgraph *g, const struct holder *h, struct buf *out);
/* The largest of them and below each what dominates what, objects of one type together; pages draw it as areas too. The
 * caller adds the rest. */
struct report_table *holders_tree(const struct heapgraph *g, const struct holders *hs, size_t max_holders,
				  unsigned max_depth, struct report *report);
