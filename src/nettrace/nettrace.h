#pragma once
/* Bytes of a nettrace stream in, events out: versions 4, 5 and 6 as a push parser fed with chunks of any size.
 *
 * Knows no file, socket, clock or event meaning. The stream is hostile: lengths are capped before memory is allocated,
 * memory is bounded by struct nettrace_options whatever arrives. One reader, one thread.
 *
 * Everything a callback gets is valid only during that call, except struct nettrace_meta, which is valid as long as the
 * reader. */

#include "base/err.h"

enum nettrace_type {
	NETTRACE_OBJECT = 1,
	NETTRACE_BOOL32 = 3,
	NETTRACE_CHAR16 = 4,
	NETTRACE_I8 = 5,
	NETTRACE_U8 = 6,
	NETTRACE_I16 = 7,
	NETTRACE_U16 = 8,
	NETTRACE_I32 = 9,
	NETTRACE_U32 = 10,
	NETTRACE_I64 = 11,
	NETTRACE_U64 = 12,
	NETTRACE_F32 = 13,
	NETTRACE_F64 = 14,
	NETTRACE_DECIMAL = 15,
	NETTRACE_DATETIME = 16,
	NETTRACE_GUID = 17,
	NETTRACE_UTF16Z = 18,
	NETTRACE_ARRAY = 19,
	NETTRACE_VARINT = 20,
	NETTRACE_VARUINT = 21,
	NETTRACE_FIXED_ARRAY = 22,
	NETTRACE_UTF8 = 23, /* u16 length, then bytes */
	NETTRACE_REL_LOC = 24,
	NETTRACE_DATA_LOC = 25,
	NETTRACE_BOOL8 = 26,
};

struct nettrace_field {
	const char *name;
	enum nettrace_type type;
	enum nettrace_type element; /* of arrays and locs */
	uint32_t fixed_count;	    /* of fixed arrays */
	/* Of objects, also as the element of an array. When the element is an array or loc itself, children[0]
	 * describes it and has no name. */
	const struct nettrace_field *children;
	size_t n_children;
};

/* One kind of event, as the stream describes it. */
struct nettrace_meta {
	uint32_t id;	   /* in this stream */
	uint32_t event_id; /* of the provider */
	const char *provider;
	const char *name; /* "" for the runtime's native providers */
	uint64_t keywords;
	uint32_t version, level;
	uint8_t opcode;
	const struct nettrace_field *fields;
	size_t n_fields;
	int format;	/* of the stream that described it: 4, 5 or 6 */
	uintptr_t user; /* the consumer's own, 0 at first: e.g. a decoder found once */
};

struct nettrace_header {
	int format;	    /* 4, 5 or 6 */
	int64_t utc_ns;	    /* wall clock at sync_time */
	uint64_t sync_time; /* in ticks */
	uint64_t ticks_per_second;
	uint32_t pointer_size;		     /* 4 or 8 */
	uint32_t pid, n_cpus, sampling_rate; /* 0 when unknown */
};

struct nettrace_event {
	struct nettrace_meta *meta;
	uint64_t time;		    /* ticks; nanoseconds of CLOCK_MONOTONIC when it came from .NET on Linux */
	uint64_t thread_id;	    /* the thread it is about (in the target's pid namespace) */
	uint64_t capture_thread_id; /* the thread that wrote it */
	uint32_t cpu, sequence;
	const uint8_t *activity_id, *related_activity_id; /* 16 bytes or NULL */
	const uint8_t *payload;
	size_t payload_size;
	const uint8_t *stack; /* n_frames addresses of pointer_size bytes, leaf first, unaligned */
	size_t n_frames;
	uint32_t pointer_size;
	uint32_t process_id; /* of the thread; a version 6 stream may contain several processes. 0 when unknown */
};
/* Address i as it stands (for i > 0 a return address). */
uint64_t nettrace_event_frame(const struct nettrace_event *event, size_t i);

struct nettrace_callbacks {
	void (*header)(void *user, const struct nettrace_header *header); /* may be NULL */
	void (*meta)(void *user, struct nettrace_meta *meta);		  /* may be NULL */
	void (*event)(void *user, const struct nettrace_event *event);	  /* may be NULL */
};

struct nettrace_options {
	bool unordered;		  /* deliver in the order of the stream: per thread in order, threads mixed */
	bool no_stacks;		  /* stacks are not needed: events come without */
	size_t max_reorder_bytes; /* 0 = 256 MB; beyond it the oldest are delivered early and counted */
	size_t max_block_bytes;	  /* 0 = 64 MB; a larger block is bad data */
	size_t max_meta_bytes;	  /* 0 = 64 MB for all metadata of a stream */
};

struct nettrace_stats {
	uint64_t bytes, events;
	uint64_t whole;	  /* offset behind the last object or block that came whole */
	uint64_t lost;	  /* events the runtime dropped, from gaps in the sequence numbers; a lower bound */
	uint64_t orphans; /* events without metadata, skipped */
	uint64_t early;	  /* delivered before their order was certain */
	uint64_t unknown_blocks;
	bool ended; /* the stream's own end was seen */
};

struct nettrace_reader;

struct nettrace_reader *nettrace_reader_new(const struct nettrace_options *options,
					    const struct nettrace_callbacks *callbacks, void *user);
void nettrace_reader_free(struct nettrace_reader *reader);
DEFINE_CLEANUP(nettrace_reader_free, struct nettrace_reader *)

/* After an error every further call gives an error too; what was delivered before it stays true. */
struct err *nettrace_reader_feed(struct nettrace_reader *reader, const void *data, size_t len) MUST_USE;
/* No more bytes will come: delivers what waits for its order. ERR_BAD_DATA when the stream was cut short; everything
 * that could be read has been delivered all the same. */
struct err *nettrace_reader_finish(struct nettrace_reader *reader) MUST_USE;
const struct nettrace_stats *nettrace_reader_stats(const struct nettrace_reader *reader);
/* Everything older than this has been delivered, as the stream itself promises; 0 = no promise yet. Ticks. */
uint64_t nettrace_reader_certain(const struct nettrace_reader *reader);
const struct nettrace_header *nettrace_reader_header(const struct nettrace_reader *reader); /* NULL before it came */

/* The capture threads and sequence numbers of an event block's body (versions 4 and 5), in order; false when the block
 * is damaged: what was reported before is true. For code that leaves blocks out of a stream. */
bool nettrace_block_sequences(const void *body, size_t len,
			      void (*event)(void *user, uint64_t capture_thread, uint32_t sequence), void *user);
