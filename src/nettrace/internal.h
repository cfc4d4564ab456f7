#pragma once
/* What the files of the reader share; private to src/nettrace.
 *
 * reader.c cuts the stream into blocks, events.c reads event blocks, metadata.c describes events, tables.c keeps
 * stacks, threads and losses, v6.c reads the blocks only version 6 has, order.c holds events back until their position
 * in time is certain. */

#include "nettrace/nettrace.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"

#define NETTRACE_MAX_DEPTH 16		       /* of objects and arrays inside each other */
#define NETTRACE_MAX_THREADS ((size_t)1 << 20) /* remembered at a time */
#define NETTRACE_DENSE_METAS 4096	       /* ids below it are found by index */

/* A stack, or the ids a label list gives; bytes are in the tables' arena. */
struct nettrace_stack {
	const uint8_t *frames;
	size_t n_frames;
};
struct nettrace_labels {
	const uint8_t *activity_id, *related_activity_id;
};

/* Rows by id. Writers number them without gaps, so `rows` is indexed from `first`; what does not follow on goes
 * through the map (id -> index + 1 in `rows`). */
struct nettrace_idtab {
	uint32_t first;
	size_t n_dense;
	struct map_u64 sparse;
};

/* Writers of events: by thread id up to version 5, by thread index from version 6. */
struct nettrace_thread {
	uint64_t key;
	uint64_t tid;
	uint32_t pid;
	uint32_t last; /* sequence number seen last; counters start at 1 */
	bool removed;
};

/* Blocks of bytes and events waiting for their order; see order.c. */
struct nettrace_hold;
struct nettrace_slab;
struct nettrace_run {
	uint64_t time;	/* of the event at pos */
	uint64_t order; /* of arrival */
	struct nettrace_slab *slab;
	uint32_t pos, end;
};
struct nettrace_order {
	VEC(struct nettrace_run) heap; /* the earliest on top */
	struct nettrace_hold *hold;    /* of the block being read */
	struct nettrace_slab *slab;    /* being filled */
	uint32_t run_start;	       /* of the open run in slab */
	uint64_t last_time;	       /* of the open run */
	uint64_t watermark;	       /* nothing older will come */
	uint64_t n_runs;
	size_t bytes;
	size_t block_bytes; /* length of the block being read */
};

enum nettrace_state {
	NETTRACE_AT_MAGIC,
	NETTRACE_AT_OBJECT, /* versions 4 and 5 */
	NETTRACE_AT_BLOCK,  /* version 6 */
	NETTRACE_AT_END,
};

struct nettrace_reader {
	struct nettrace_options opt;
	struct nettrace_callbacks cb;
	void *user;
	struct nettrace_stats stats;
	struct nettrace_header header;
	bool has_header;
	enum err_kind failed_kind;
	char *failed_text; /* not NULL after an error */

	enum nettrace_state state;
	uint64_t pos;  /* stream offset of the next unit */
	struct buf in; /* the beginning of a unit whose end has not come yet */
	size_t need;   /* bytes of that unit known to be needed */

	/* The block being read: its memory and where it stands in the stream, for messages. */
	const uint8_t *body;
	uint64_t body_pos;

	struct arena meta_arena;
	struct strtab strings;
	struct buf text;	      /* scratch */
	struct nettrace_meta **dense; /* by id */
	size_t n_dense;
	struct map_u64 sparse; /* id -> pointer */

	/* Valid until the next sequence point. */
	struct arena tables;
	VEC(struct nettrace_stack) stacks;
	struct nettrace_idtab stack_ids;
	VEC(struct nettrace_labels) labels;
	struct nettrace_idtab label_ids;

	VEC(struct nettrace_thread) threads;
	struct map_u64 thread_ids; /* key -> index + 1 */
	size_t n_removed;
	bool forgot_threads; /* a thread that seems new may have been known before: its first number tells nothing */

	struct nettrace_order order;
};

/* "offset N: expected ..." for a place inside the block being read. */
struct err *nettrace_bad(const struct nettrace_reader *r, const uint8_t *at, const char *fmt, ...) PRINTF(3, 4)
	MUST_USE;
/* A varint-prefixed UTF-8 string. */
struct cursor nettrace_string(struct cursor *c);

/* reader.c */
/* 8 x u16: year, month, day of the week, day, hour, minute, second, millisecond; false when it is no date of
 * 1970 to 2261. */
bool nettrace_systemtime_ns(struct cursor *c, int64_t *ret_ns);
/* What trace descriptions of all versions begin with. */
struct err *nettrace_set_header(struct nettrace_reader *r, struct cursor *c) MUST_USE;

/* events.c */
struct err *nettrace_event_block(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
struct err *nettrace_metadata_block(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;

/* metadata.c */
struct err *nettrace_metadata_row(struct nettrace_reader *r, const uint8_t *row, size_t len) MUST_USE;
struct err *nettrace_metadata_block_v6(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
void nettrace_metas_forget(struct nettrace_reader *r);
static inline struct nettrace_meta *nettrace_meta_find(const struct nettrace_reader *r, uint32_t id)
{
	if (id < r->n_dense)
		return r->dense[id];
	const uint64_t *p = id >= NETTRACE_DENSE_METAS ? map_u64_get(&r->sparse, id) : NULL;
	return p ? (struct nettrace_meta *)(uintptr_t)*p : NULL;
}

/* tables.c */
struct err *nettrace_stack_block(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
struct err *nettrace_sequence_point(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
void nettrace_tables_free(struct nettrace_reader *r);
/* ERR_BAD_DATA once they are too large. */
struct err *nettrace_tables_check(const struct nettrace_reader *r) MUST_USE;
/* Row `index` of a table gets `id`. */
void nettrace_idtab_add(struct nettrace_idtab *t, uint32_t id, size_t index);
/* The index of a row, or SIZE_MAX. */
size_t nettrace_idtab_find(const struct nettrace_idtab *t, uint32_t id);
/* Finds or adds; valid until the next call. NULL when there are too many. */
struct nettrace_thread *nettrace_thread_get(struct nettrace_reader *r, uint64_t key);
struct nettrace_thread *nettrace_thread_find(const struct nettrace_reader *r, uint64_t key);
void nettrace_thread_remove(struct nettrace_reader *r, struct nettrace_thread *thread);
/* The thread's last sequence number is (at least) seq: counts what is missing before it. */
void nettrace_count_lost(struct nettrace_reader *r, struct nettrace_thread *thread, uint32_t missing);

/* v6.c */
struct err *nettrace_v6_trace(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
struct err *nettrace_v6_threads(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
struct err *nettrace_v6_remove_threads(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;
struct err *nettrace_v6_labels(struct nettrace_reader *r, const uint8_t *body, size_t len) MUST_USE;

/* order.c */
/* Takes the bytes of a block (a copy, or the reader's own input buffer) and gives the place to read them from. */
const uint8_t *nettrace_order_begin(struct nettrace_reader *r, const uint8_t *body, size_t len);
void nettrace_order_add(struct nettrace_reader *r, const struct nettrace_event *event);
/* Nothing older than this will come. */
static inline void nettrace_order_promise(struct nettrace_reader *r, uint64_t time)
{
	if (time > r->order.watermark)
		r->order.watermark = time;
}
/* The block is done: delivers what is certain by now. */
void nettrace_order_end(struct nettrace_reader *r);
/* Delivers everything. */
void nettrace_order_flush(struct nettrace_reader *r);
void nettrace_order_free(struct nettrace_reader *r);

static inline void nettrace_deliver(struct nettrace_reader *r, const struct nettrace_event *event)
{
	r->stats.events++;
	if (r->cb.event)
		r->cb.event(r->user, event);
}
