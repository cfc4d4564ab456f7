#pragma once
/* Async operations of a heap: the boxes of async methods that have begun and not ended, each with what it awaits,
 * linked to chains: the outermost method, what it awaits, and so on to what the innermost one waits for.
 *
 * Comes out of an image (drain, then take). Bounded; everything that is read back may be hostile. */

#include "base/map.h"
#include "base/vec.h"
#include "exam/image_exam.h"

#define ASYNC_CHAINS_VERSION 2

enum awaits {
	AWAITS_SOURCE,	  /* a task that code must complete explicitly: TaskCompletionSource */
	AWAITS_TIMER,	  /* Task.Delay */
	AWAITS_SEMAPHORE, /* SemaphoreSlim.WaitAsync */
	AWAITS_CHANNEL,	  /* something to read from it */
	AWAITS_ROOM,	  /* room in a channel to write to */
	AWAITS_SOCKET,
	AWAITS_WORK,	   /* a task that has code to run: Task.Run and the like */
	AWAITS_OTHER,	   /* something else, by its type */
	AWAITS_POOL,	   /* nothing: it runs, or waits for a thread of the pool */
	AWAITS_CONNECTION, /* of HttpClient: a free connection, or a free stream of one */
	AWAITS_KINDS,
};
struct async_chain_method {
	const char *name;
	bool framework;
	uint32_t pending; /* operations of it */
};
struct async_chain_step {
	uint32_t method;
	int32_t await;	  /* which await of the method, from 0; negative = not known */
	uint32_t times;	  /* more than 1: so many are awaited together (WhenAll) */
	bool any;	  /* ... and the first of them is enough (WhenAny) */
	const char *line; /* of the await: "Orders.cs:12"; "" = not known */
};
#define ASYNC_CHAIN_UNKNOWN UINT64_MAX
#define ASYNC_CHAIN_ENDLESS UINT64_MAX
/* Operations whose chains look alike. */
struct async_chain {
	uint32_t first, n; /* steps, the outermost first */
	enum awaits awaits;
	const char *what;    /* its name, or that of what keeps it; the type; "" = nothing more is known */
	uint64_t longest_ms; /* of timers: the longest time they were set to; ASYNC_CHAIN_ENDLESS: only cancelled */
	uint64_t due_ms;     /* of timers: until the first of them is due, or ASYNC_CHAIN_UNKNOWN */
	bool gone;	     /* of a task: nothing is left that could complete it */
	bool taken;	     /* of a semaphore: it lets one enter, and one has */
	uint32_t count;	     /* such operations */
	uint32_t age;	     /* the oldest one's generation on the heap + 1; 0 = not known */
	uint32_t marks_first, marks_n; /* in marks */
};
/* How an operation is known again after a collection has moved it. */
struct async_identity {
	uint64_t
		content; /* of the arguments and locals of its methods; 0 = they say too little, or another has the same */
	uint64_t place; /* of its boxes on the heap */
	bool old;	/* what it awaits is in the oldest generation: it did not begin to just now */
};
struct async_chains {
	struct strtab strings;
	VEC(struct async_chain_method) methods;
	VEC(struct async_chain_step) steps;
	VEC(struct async_chain) v;	 /* most first */
	VEC(uint64_t) marks;		 /* of operations: the same mark in two looks = it has not moved */
	VEC(struct async_identity) same; /* one for each of marks; of older recordings none */
	uint64_t boxes;			 /* async methods that have not ended */
	uint64_t objects;		 /* of the heap that were looked at */
	uint64_t left_out;		 /* boxes beyond the limit */
	uint64_t lost_bytes;		 /* of the heap that could not be read */
};
struct async_chains *async_chains_new(void);
void async_chains_free(struct async_chains *c);
DEFINE_CLEANUP(async_chains_free, struct async_chains *)
/* For struct image_exam_part: user is a struct async_chains **. */
struct err *async_chains_drain(void *user, struct image_exam *look, struct buf *out) MUST_USE;
/* The same without names and lines, which take most of the time, for a look that is followed by another one. Of a core,
 * which is looked at once, with all. */
struct err *async_chains_drain_brief(void *user, struct image_exam *look, struct buf *out) MUST_USE;
struct err *async_chains_take(void *user, struct cursor *in) MUST_USE;
void async_chains_write(const struct async_chains *c, struct buf *out);

/* "a TaskCompletionSource", "the semaphore Shop.Shelf.Ladder", "a timer (24 h)" */
void async_chain_awaits_words(const struct async_chain *c, struct buf *out);
/* The same with short names, for a cell. */
void async_chain_awaits_brief(const struct async_chain *c, struct buf *out);
/* Is any of its methods the user's own? */
bool async_chain_is_own(const struct async_chains *all, const struct async_chain *c);
/* The outermost step of the user's own; 0 when there is none. */
uint32_t async_chain_start(const struct async_chains *all, const struct async_chain *c);
/* The innermost step of the user's own; the last one when there is none. */
uint32_t async_chain_site(const struct async_chains *all, const struct async_chain *c);
/* The operations of another look. */
struct async_seen {
	struct map_u64 marks, contents, places;
};
void async_seen_add(struct async_seen *seen, const struct async_chains *all);
void async_seen_free(struct async_seen *seen);
/* How many of its operations were in exactly the same state in the look before. One that the collector has moved
 * meanwhile is known again by its arguments and locals, when no other has the same: at least so many. */
uint32_t async_chain_unmoved(const struct async_chains *all, const struct async_chain *c,
			     const struct async_seen *before);
