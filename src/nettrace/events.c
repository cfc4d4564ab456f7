/* Event blocks, and the metadata blocks of versions 4 and 5, which are event blocks whose payloads describe events.
 *
 *	u16 header size (20), u16 flags (1 = compressed event headers), u64 first time, u64 last time, events
 *
 * Compressed: a flags byte says which fields follow; an absent one keeps the value it had in the event before.
 *	01 metadata id		02 sequence delta, capture thread, cpu		04 thread	08 stack id
 *	-- time delta		10 activity id (v6: label list)	20 related id	40 sorted	80 payload size
 * Plain: u32 size, u32 metadata id | sorted << 31, u32 sequence, u64 thread, u64 capture thread, u32 cpu, u32 stack,
 * u64 time, 16 + 16 bytes of activity ids (v6: u32 label list), u32 payload size, payload, up to v5 padding to 4. */

#include "nettrace/internal.h"

struct events {
	struct nettrace_reader *r;
	struct cursor c;
	bool compressed, v6, metadata;
	/* Of the event read last; what a header leaves out is taken from here. */
	struct nettrace_event ev;
	uint32_t meta_id, stack_id, label_id;
	uint64_t thread_key, capture_key;
	uint32_t payload_size;
	bool sorted;
	/* Looked up for the ids above. */
	bool has_thread, has_capture;
	uint64_t looked_thread, looked_capture;
	uint32_t looked_stack, looked_label;
	struct nettrace_thread *capture; /* valid until the next one is added */
};

static inline uint32_t varu32(struct cursor *c)
{
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return cursor_varu32(c);
}

static inline uint64_t varu64(struct cursor *c)
{
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return cursor_varu64(c);
}

/* 16 bytes, NULL when all are zero. */
static const uint8_t *read_guid(struct cursor *c)
{
	static const uint8_t zero[16];
	const uint8_t *p = cursor_take(c, 16);
	return p && memcmp(p, zero, 16) ? p : NULL;
}

static inline void read_compressed(struct events *e)
{
	struct cursor *c = &e->c;
	uint8_t flags = cursor_u8(c);
	if (flags & 0x01)
		e->meta_id = varu32(c);
	if (flags & 0x02) {
		e->ev.sequence += varu32(c);
		e->capture_key = varu64(c);
		e->ev.cpu = varu32(c);
	}
	if (e->meta_id || e->v6)
		e->ev.sequence++;
	if (flags & 0x04)
		e->thread_key = varu64(c);
	if (flags & 0x08)
		e->stack_id = varu32(c);
	e->ev.time += varu64(c);
	if (flags & 0x10) {
		if (e->v6)
			e->label_id = varu32(c);
		else
			e->ev.activity_id = read_guid(c);
	}
	if (flags & 0x20 && !e->v6)
		e->ev.related_activity_id = read_guid(c);
	e->sorted = flags & 0x40;
	if (flags & 0x80)
		e->payload_size = varu32(c);
	e->ev.payload = cursor_take(c, e->payload_size);
}

static void read_plain(struct events *e)
{
	const uint8_t *start = e->c.p;
	uint32_t size = cursor_u32(&e->c);
	struct cursor c = cursor_make(e->c.p, MIN((size_t)size, cursor_left(&e->c)));
	uint32_t id = cursor_u32(&c);
	e->meta_id = id & INT32_MAX;
	e->sorted = id >> 31;
	e->ev.sequence = cursor_u32(&c);
	e->thread_key = cursor_u64(&c);
	e->capture_key = cursor_u64(&c);
	e->ev.cpu = cursor_u32(&c);
	e->stack_id = cursor_u32(&c);
	e->ev.time = cursor_u64(&c);
	if (e->v6) {
		e->label_id = cursor_u32(&c);
	} else {
		e->ev.activity_id = read_guid(&c);
		e->ev.related_activity_id = read_guid(&c);
	}
	e->payload_size = cursor_u32(&c);
	e->ev.payload = cursor_take(&c, e->payload_size);
	if (c.bad || size > cursor_left(&e->c)) {
		e->c.p = start;
		e->c.bad = true;
		return;
	}
	e->c.p += size;
	if (!e->v6) {
		size_t pad = -(size_t)(e->c.p - e->r->body) & 3;
		e->c.p += MIN(pad, cursor_left(&e->c));
	}
}

/* Stacks, labels and threads of the event, looked up only when the id differs from the last one. */
static void look_up(struct events *e)
{
	struct nettrace_reader *r = e->r;
	if (e->stack_id != e->looked_stack) {
		size_t i =
			e->stack_id && !r->opt.no_stacks ? nettrace_idtab_find(&r->stack_ids, e->stack_id) : SIZE_MAX;
		e->ev.stack = i == SIZE_MAX ? NULL : r->stacks.v[i].frames;
		e->ev.n_frames = i == SIZE_MAX ? 0 : r->stacks.v[i].n_frames;
		e->looked_stack = e->stack_id;
	}
	if (e->label_id != e->looked_label) {
		size_t i = e->label_id ? nettrace_idtab_find(&r->label_ids, e->label_id) : SIZE_MAX;
		e->ev.activity_id = i == SIZE_MAX ? NULL : r->labels.v[i].activity_id;
		e->ev.related_activity_id = i == SIZE_MAX ? NULL : r->labels.v[i].related_activity_id;
		e->looked_label = e->label_id;
	}
	if (!e->has_thread || e->thread_key != e->looked_thread) {
		const struct nettrace_thread *t = e->v6 ? nettrace_thread_find(r, e->thread_key) : NULL;
		e->ev.thread_id = t ? t->tid : e->v6 ? 0 : e->thread_key;
		e->ev.process_id = t ? t->pid : r->header.pid;
		e->looked_thread = e->thread_key;
		e->has_thread = true;
	}
}

static inline struct err *count_sequence(struct events *e)
{
	struct nettrace_reader *r = e->r;
	if (!e->has_capture || e->capture_key != e->looked_capture) {
		e->capture = nettrace_thread_get(r, e->capture_key);
		if (!e->capture)
			return nettrace_bad(r, e->c.p, "expected at most %zu threads", NETTRACE_MAX_THREADS);
		e->ev.capture_thread_id = e->capture->tid;
		e->looked_capture = e->capture_key;
		e->has_capture = true;
	}
	uint32_t missing = e->ev.sequence - e->capture->last - 1;
	if (missing)
		nettrace_count_lost(r, e->capture, missing);
	e->capture->last = e->ev.sequence;
	return NULL;
}

static inline struct err *take_event(struct events *e)
{
	struct nettrace_reader *r = e->r;
	if (e->meta_id || e->v6)
		TRY(count_sequence(e));
	if (e->sorted)
		nettrace_order_promise(r, e->ev.time);
	e->ev.meta = nettrace_meta_find(r, e->meta_id);
	if (!e->ev.meta) {
		r->stats.orphans++;
		return NULL;
	}
	if (e->stack_id != e->looked_stack || e->label_id != e->looked_label || !e->has_thread ||
	    e->thread_key != e->looked_thread)
		look_up(e);
	e->ev.payload_size = e->payload_size;
	if (r->opt.unordered)
		nettrace_deliver(r, &e->ev);
	else
		nettrace_order_add(r, &e->ev);
	return NULL;
}

static struct err *read_events(struct events *e)
{
	while (e->c.p < e->c.end) {
		const uint8_t *start = e->c.p;
		if (e->compressed)
			read_compressed(e);
		else
			read_plain(e);
		if (!cursor_ok(&e->c))
			return nettrace_bad(e->r, start,
					    "expected an event, found one that passes the end of its block");
		if (e->metadata)
			TRY(nettrace_metadata_row(e->r, e->ev.payload, e->payload_size));
		else
			TRY(take_event(e));
	}
	return NULL;
}

static struct err *read_block(struct nettrace_reader *r, const uint8_t *body, size_t len, bool metadata)
{
	struct events e = { .r = r, .c = cursor_make(body, len), .v6 = r->header.format >= 6, .metadata = metadata };
	uint16_t header_size = cursor_u16(&e.c), flags = cursor_u16(&e.c);
	if (!cursor_ok(&e.c) || header_size < 20 || header_size > len)
		return nettrace_bad(r, body, "expected an event block header of 20 bytes, found %u in a block of %zu",
				    header_size, len);
	e.c.p = body + header_size;
	e.compressed = flags & 1;
	e.ev.pointer_size = r->header.pointer_size;
	return read_events(&e);
}

struct err *nettrace_metadata_block(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	return read_block(r, body, len, true);
}

struct err *nettrace_event_block(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	if (r->opt.unordered)
		return read_block(r, body, len, false);
	body = nettrace_order_begin(r, body, len);
	r->body = body;
	struct err *err = read_block(r, body, len, false);
	nettrace_order_end(r);
	return err;
}

bool nettrace_block_sequences(const void *body, size_t len,
			      void (*event)(void *user, uint64_t capture_thread, uint32_t sequence), void *user)
{
	struct nettrace_reader where = { .body = body };
	struct events e = { .r = &where, .c = cursor_make(body, len) };
	uint16_t header_size = cursor_u16(&e.c), flags = cursor_u16(&e.c);
	if (!cursor_ok(&e.c) || header_size < 20 || header_size > len)
		return false;
	e.c.p = (const uint8_t *)body + header_size;
	e.compressed = flags & 1;
	while (e.c.p < e.c.end) {
		if (e.compressed)
			read_compressed(&e);
		else
			read_plain(&e);
		if (!cursor_ok(&e.c))
			return false;
		if (e.meta_id)
			event(user, e.capture_key, e.ev.sequence);
	}
	return true;
}
