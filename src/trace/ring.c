#include "trace/ring.h"
#include "nettrace/nettrace.h"
#include <string.h>

#define THREADS_MAX ((size_t)1 << 20)
#define COMPACT_ITEMS 1024
#define METADATA_BYTES_MAX ((size_t)128 << 20) /* more than our reader would take */

struct ring_item {
	struct cut_object object; /* head and body in one allocation, at head */
	uint8_t *memory;
	uint64_t min, max; /* times of an event block */
};

void ring_init(struct ring *r, uint64_t keep_ticks, size_t max_bytes)
{
	*r = (struct ring){ .keep_ticks = keep_ticks, .max_bytes = max_bytes };
	r->metadata.limit = METADATA_BYTES_MAX;
}

static void item_free(struct ring *r, struct ring_item *item)
{
	if (item->memory)
		r->bytes -= item->object.head_len + item->object.body_len + sizeof(*item);
	mem_free(item->memory);
	item->memory = NULL;
}

void ring_fini(struct ring *r)
{
	for (size_t i = r->first; i < r->items.n; i++)
		item_free(r, &r->items.v[i]);
	vec_free(&r->items);
	buf_free(&r->start);
	buf_free(&r->metadata);
	map_u64_free(&r->last_sequence);
}

static void note_sequence(void *user, uint64_t thread, uint32_t sequence)
{
	struct ring *r = user;
	if (r->last_sequence.n < THREADS_MAX || map_u64_get(&r->last_sequence, thread))
		*map_u64_put(&r->last_sequence, thread, NULL) = sequence;
}

/* The oldest event block there is, or SIZE_MAX. */
static size_t first_events(const struct ring *r)
{
	for (size_t i = r->first; i < r->items.n; i++) {
		if (r->items.v[i].object.kind == CUT_EVENTS && r->items.v[i].memory)
			return i;
	}
	return SIZE_MAX;
}

/* Stacks and sequence points that no kept event needs any more: everything up to the last sequence point before the
 * first kept event block. */
static void drop_unneeded(struct ring *r)
{
	size_t events = first_events(r), end = r->first;
	for (size_t i = r->first; i < MIN(events, r->items.n); i++) {
		if (r->items.v[i].object.kind == CUT_SEQUENCE)
			end = i + 1;
	}
	for (; r->first < end; r->first++)
		item_free(r, &r->items.v[r->first]);
	if (r->first < COMPACT_ITEMS || r->first < r->items.n / 2)
		return;
	memmove(r->items.v, r->items.v + r->first, (r->items.n - r->first) * sizeof(*r->items.v));
	r->items.n -= r->first;
	r->first = 0;
}

static void drop_old(struct ring *r)
{
	bool dropped = false;
	for (;;) {
		size_t i = first_events(r);
		/* The newest block stays, whatever its size: the event that strikes is in it. */
		if (i == SIZE_MAX || i + 1 == r->items.n)
			break;
		struct ring_item *item = &r->items.v[i];
		bool old = item->max + r->keep_ticks < r->newest;
		if (!old && r->bytes <= r->max_bytes)
			break;
		r->squeezed |= !old;
		nettrace_block_sequences(item->object.body, item->object.body_len, note_sequence, r);
		item_free(r, item);
		dropped = true;
	}
	if (dropped)
		drop_unneeded(r);
}

void ring_add(struct ring *r, const struct cut_object *o)
{
	if (o->kind == CUT_START || o->kind == CUT_TRACE) {
		buf_add(&r->start, o->head, o->head_len);
		return;
	}
	if (o->kind == CUT_METADATA) {
		buf_u64(&r->metadata, o->head_len);
		buf_u64(&r->metadata, o->body_len);
		buf_add(&r->metadata, o->head, o->head_len);
		buf_add(&r->metadata, o->body, o->body_len);
		return;
	}
	if (!o->body)
		return;
	struct ring_item item = { .object = *o };
	item.memory = mem_alloc(o->head_len + o->body_len);
	memcpy(item.memory, o->head, o->head_len);
	memcpy(item.memory + o->head_len, o->body, o->body_len);
	item.object.head = item.memory;
	item.object.body = item.memory + o->head_len;
	if (o->kind == CUT_EVENTS && o->body_len >= 20) {
		memcpy(&item.min, o->body + 4, 8);
		memcpy(&item.max, o->body + 12, 8);
		r->newest = MAX(r->newest, item.max);
	}
	r->bytes += o->head_len + o->body_len + sizeof(item);
	vec_push(&r->items, item);
	if (o->kind == CUT_EVENTS)
		drop_old(r);
}

static void put_baseline(struct ring *r, void (*put)(void *user, const struct cut_object *o), void *user)
{
	static const char head[] = "\5\5\1\2\0\0\0\2\0\0\0\7\0\0\0SPBlock\6";
	struct buf body = { 0 };
	buf_u64(&body, 0); /* of no time: where the numbering stands, see nettrace/tables.c */
	buf_u32(&body, (uint32_t)r->last_sequence.n);
	uint64_t thread, sequence;
	for (size_t pos = 0; map_u64_next(&r->last_sequence, &pos, &thread, &sequence);) {
		buf_u64(&body, thread);
		buf_u32(&body, (uint32_t)sequence);
	}
	put(user, &(struct cut_object){ .kind = CUT_SEQUENCE,
					.head = (const uint8_t *)head,
					.head_len = sizeof(head) - 1,
					.body = (const uint8_t *)body.data,
					.body_len = body.len });
	buf_free(&body);
}

uint64_t ring_span(const struct ring *r)
{
	size_t i = first_events(r);
	return i == SIZE_MAX || r->items.v[i].min > r->newest ? 0 : r->newest - r->items.v[i].min;
}

void ring_drain(struct ring *r, void (*put)(void *user, const struct cut_object *o), void *user)
{
	put(user, &(struct cut_object){
			  .kind = CUT_START, .head = (const uint8_t *)buf_cstr(&r->start), .head_len = r->start.len });
	for (size_t at = 0; at < r->metadata.len;) {
		uint64_t lens[2];
		const uint8_t *p = (const uint8_t *)r->metadata.data + at;
		memcpy(lens, p, sizeof(lens));
		put(user, &(struct cut_object){ .kind = CUT_METADATA,
						.head = p + sizeof(lens),
						.head_len = lens[0],
						.body = p + sizeof(lens) + lens[0],
						.body_len = lens[1] });
		at += sizeof(lens) + lens[0] + lens[1];
	}
	if (r->last_sequence.n)
		put_baseline(r, put, user);
	for (; r->first < r->items.n; r->first++) {
		struct ring_item *item = &r->items.v[r->first];
		if (item->memory)
			put(user, &item->object);
		item_free(r, item);
	}
}
