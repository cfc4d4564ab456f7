#pragma once
/* What holds the memory, in the user's terms: the dominators of a heap, from the roots down to the first object or
 * field of the user's own code, and on through the parts that it is made of (a service in a host, a cache in a service)
 * to where objects are collected. Each object is counted for one holder only. */

#include "memory/retainers.h"

struct holder {
	uint32_t vertex;       /* a root, or an object; of several alike the largest */
	uint32_t root;	       /* vertex of the root that keeps it alive; when several do, of the nearest */
	bool several, by_root; /* by_root: that root refers to objects like it */
	bool firm;	       /* others than stacks do */
	bool small;	       /* objects that are too small to be found one by one are in it */
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
VEC_TYPE(holder_vertices, uint32_t);
/* The objects that a holder is about: several of the user's own alike, else what most of it is. */
void holder_objects(const struct heapgraph *g, const struct holder *h, struct holder_vertices *ret);
/* How most of them are kept: "event Shop.Orders.Changed (4,012 subscribers)", appended. */
struct holder_kept {
	uint64_t objects, all;
	bool telling;	    /* it says more than the fields that lead there */
	bool leads;	    /* and more than the holder's own name: that is the framework's */
	const char *advice; /* or NULL */
};
struct holder_kept holder_kept_of(struct retainers *k, const uint32_t *objects, size_t n, struct buf *out);
/* The same of what a holder is about. */
struct holder_kept holder_retainers(struct retainers *k, const struct heapgraph *g, const struct holder *h,
				    struct buf *out);
/* "All of them are kept by ...", "3,900 of 4,012 are kept by ...", with a blank before. */
void holder_kept_say(const struct holder_kept *kept, const char *words, struct rich *v);
/* The same under a row. */
void holder_kept_line(struct report_row *row, const char *words);

/* The largest of them and below each what dominates what, objects of one type together; pages draw it as areas too. The
 * caller adds the rest. */
struct report_table *holders_tree(const struct heapgraph *g, const struct holders *hs, size_t max_holders,
				  unsigned max_depth, struct report *report);
