#pragma once
/* What a reader said about a stream, kept for a test to look at. */

#include "base/arena.h"
#include "base/vec.h"
#include "build_nettrace.h"
#include "nettrace/nettrace.h"

struct got {
	struct nettrace_event ev; /* pointers into the arena */
};

struct seen {
	struct arena arena;
	VEC(struct got) events;
	VEC(struct nettrace_meta *) metas;
	struct nettrace_header header;
	unsigned n_headers;
	struct nettrace_stats stats;
	struct err *err;
	uint64_t digest; /* of everything in order */
	const uint8_t *fed;
	size_t fed_len, n_in_place;
	size_t heap_start, heap_peak; /* of the process, our own copies included */
};

/* Reads all of it in chunks; the reader lives on in *ret_reader when asked for, because metadata does. */
void seen_read(struct seen *s, const void *data, size_t len, size_t chunk, const struct nettrace_options *options,
	       struct nettrace_reader **ret_reader);
/* In one chunk. */
void seen_read_built(struct seen *s, const struct build_nettrace *b, const struct nettrace_options *options);
void thread_snapshot_free(struct seen *s);

/* Fill a struct seen. */
extern const struct nettrace_callbacks seen_callbacks;
/* Allocated in this process; 0 under a sanitizer that brings its own allocator. */
size_t seen_heap_bytes(void);
