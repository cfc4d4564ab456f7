#pragma once
/* The inside of async_chains_drain: the boxes of async methods that were found in a heap, and what each awaits. */

#include "heap/walk.h"
#include "threads/awaiters.h"
#include "threads/async_chains.h"
#include "threads/endpoints.h"

#define ASYNC_CHAINS_NONE UINT32_MAX

struct box {
	uint64_t address, awaited; /* awaited: the object, 0 = none */
	uint64_t machine;	   /* object that is the state machine; 0 = it is a structure in the box */
	uint64_t continuation;	   /* what continues when it ends; 0 = nothing */
	uint64_t end;		   /* what it waits for in the end, when that is no box; 0 = nothing */
	uint32_t method;
	int32_t await;
	uint32_t inner;	 /* the box that it awaits; ASYNC_CHAINS_NONE = none */
	uint32_t inners; /* how many (WhenAll, WhenAny) */
	bool any;	 /* the first of them is enough */
	bool has_outer;	 /* another box awaits it */
};

struct finder {
	struct image_exam *look;
	struct heap *heap;
	struct async_chains *c;
	struct heap_outline outline;
	struct heap_statics statics;
	struct endpoints *endpoints;
	VEC(struct box) boxes;
	VEC(uint8_t) kinds;			/* by index of type: what it is to us */
	VEC(const struct heap_type *) machines; /* by method */
	struct map_u64 box_at;			/* address of a box, or of its state machine -> box + 1 */
	struct map_u64 by_promise;		/* a task that others continue into -> first such box + 1 */
	struct map_u64 promised;		/* -> how many */
	struct map_u64 leaf_of;			/* -> a task without a box that continues into it */
	struct map_u64 source_of;		/* task -> its TaskCompletionSource */
	struct map_u64 method_index;		/* type -> method */
	struct map_u64 semaphore_of;		/* node of its waiters -> semaphore */
	struct map_u64 known;			/* object -> string + 1: by what name the application knows it */
	struct map_u64 calls;			/* where a delegate points to -> string + 1: what that is */
	struct map_u64 lost;			/* tasks that nothing can complete any more */
	uint64_t read;				/* boxes whose arguments and locals were read */
};

/* Links boxes to what they await, through tasks that only forward the completion of others. */
void async_chains_link(struct finder *f);
/* Names for what the innermost boxes wait for. */
void async_chains_name(struct finder *f);
/* The arguments and locals of a box's method, as far as they are numbers and text, into *hash. Do they say more than
 * nothing? */
bool async_chains_content(struct finder *f, const struct box *box, uint64_t *hash);
/* The state machine of a box; *ret_object is where it is when it is an object of its own, else 0. */
bool async_chains_machine(struct finder *f, struct heap_value box, struct heap_value *ret, uint64_t *ret_object);
/* What the chain whose innermost box this is waits for: fills in awaits, what and the rest. */
void async_chains_tell(struct finder *f, const struct box *innermost, struct async_chain *ret, struct buf *what);
