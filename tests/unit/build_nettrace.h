#pragma once
/* Writes nettrace streams of versions 4, 5 and 6 for tests: what a runtime would send, or lies.
 *
 *	struct build_nettrace b = { 0 };
 *	build_nettrace_begin(&b, 4);
 *	build_nettrace_meta(&b, &(struct nettrace_meta){ .id = 1, .provider = "Shop", .event_id = 7 });
 *	build_nettrace_event(&b, &(struct build_event){ .meta_id = 1, .sequence = 1, .capture_thread = 5, .time = 10 });
 *	build_nettrace_end(&b);
 *	... b.out.data, b.out.len ...
 *	build_nettrace_free(&b);
 *
 * Events gather in a block that the next other block, or build_nettrace_flush(), writes out. Nothing is checked. */

#include "base/buf.h"
#include "nettrace/nettrace.h"

#define BUILD_PID 4242
#define BUILD_CPUS 8
#define BUILD_SYNC_TIME 1000
#define BUILD_UTC_NS 1772686861234000000 /* 2026-03-05 05:01:01.234 UTC */

/* Capture thread and thread are ids up to version 5, indexes from version 6. */
struct build_event {
	uint32_t meta_id, sequence, cpu, stack_id;
	uint64_t time, thread, capture_thread;		  /* thread 0 = the capture thread */
	const uint8_t *activity_id, *related_activity_id; /* NULL = zero; not in version 6 */
	uint32_t label_id;				  /* version 6 */
	const void *payload;
	size_t payload_size;
	bool sorted;
};

struct build_nettrace {
	struct buf out;
	int format;
	/* Set at will before build_nettrace_begin() (0 = 8) or between blocks. */
	uint32_t pointer_size;
	bool plain;	/* event headers not compressed */
	bool fields_v2; /* describe fields in a V2 tag */
	struct buf block;
	struct build_event last;
	bool any;
};

void build_nettrace_begin(struct build_nettrace *b, int format);
void build_nettrace_meta(struct build_nettrace *b, const struct nettrace_meta *meta);
void build_nettrace_event(struct build_nettrace *b, const struct build_event *event);
void build_nettrace_flush(struct build_nettrace *b);
/* One stack of n addresses. */
void build_nettrace_stack(struct build_nettrace *b, uint32_t id, const uint64_t *frames, size_t n);

struct build_sequence {
	uint64_t thread;
	uint32_t last;
};
/* flags: version 6 only; 1 forgets threads, 2 metadata. */
void build_nettrace_sequence_point(struct build_nettrace *b, uint64_t time, uint32_t flags,
				   const struct build_sequence *threads, size_t n);
/* Version 6. */
void build_nettrace_thread(struct build_nettrace *b, uint64_t index, uint64_t tid, uint64_t pid, const char *name);
void build_nettrace_remove_thread(struct build_nettrace *b, uint64_t index, uint32_t last);
/* A list of labels of every kind around the two ids (NULL = absent). */
void build_nettrace_labels(struct build_nettrace *b, uint32_t id, const uint8_t *activity_id,
			   const uint8_t *related_activity_id);

/* Any object by name (up to version 5; minimum reader 2) or block by kind (version 6). */
void build_nettrace_object(struct build_nettrace *b, const char *name, const void *body, size_t len);
void build_nettrace_block(struct build_nettrace *b, unsigned kind, const void *body, size_t len);
void build_nettrace_end(struct build_nettrace *b);
void build_nettrace_free(struct build_nettrace *b);

/* Little-endian pieces, for payloads. */
void build_u8(struct buf *out, uint8_t v);
void build_u16(struct buf *out, uint16_t v);
void build_u32(struct buf *out, uint32_t v);
void build_u64(struct buf *out, uint64_t v);
void build_f64(struct buf *out, double v);
void build_var(struct buf *out, uint64_t v);
void build_utf16z(struct buf *out, const char *utf8);
/* Varint length and bytes. */
void build_string(struct buf *out, const char *s);
