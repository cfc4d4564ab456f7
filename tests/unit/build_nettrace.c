#include "build_nettrace.h"
#include "base/str.h"
#include <string.h>

void build_u8(struct buf *out, uint8_t v)
{
	buf_add(out, &v, 1);
}
void build_u16(struct buf *out, uint16_t v)
{
	buf_add(out, &v, 2);
}
void build_u32(struct buf *out, uint32_t v)
{
	buf_add(out, &v, 4);
}
void build_u64(struct buf *out, uint64_t v)
{
	buf_add(out, &v, 8);
}
void build_f64(struct buf *out, double v)
{
	buf_add(out, &v, 8);
}

void build_var(struct buf *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		build_u8(out, (uint8_t)(v | 0x80));
	build_u8(out, (uint8_t)v);
}

void build_utf16z(struct buf *out, const char *utf8)
{
	utf16_from_utf8(out, utf8);
	build_u16(out, 0);
}

void build_string(struct buf *out, const char *s)
{
	build_var(out, strlen(s));
	buf_str(out, s);
}

static void guid(struct buf *out, const uint8_t *id)
{
	static const uint8_t zero[16];
	buf_add(out, id ? id : zero, 16);
}

/* What trace descriptions of all versions begin with. */
static void trace_head(struct buf *out, uint32_t pointer_size)
{
	static const uint16_t when[] = { 2026, 3, 4, 5, 5, 1, 1, 234 };
	buf_add(out, when, sizeof(when));
	build_u64(out, BUILD_SYNC_TIME);
	build_u64(out, 1000000000);
	build_u32(out, pointer_size);
}

static void object_head(struct buf *out, const char *name, uint32_t version, uint32_t lowest)
{
	buf_add(out, "\5\5\1", 3);
	build_u32(out, version);
	build_u32(out, lowest);
	build_u32(out, (uint32_t)strlen(name));
	buf_str(out, name);
	build_u8(out, 6);
}

static void begin_v6(struct build_nettrace *b)
{
	struct buf body = { 0 };
	build_u32(&b->out, 0);
	build_u32(&b->out, 6);
	build_u32(&b->out, 0);
	trace_head(&body, b->pointer_size);
	build_u32(&body, 4);
	build_string(&body, "ProcessId");
	build_string(&body, "4242");
	build_string(&body, "HardwareThreadCount");
	build_string(&body, "8");
	build_string(&body, "ProcessId");
	build_string(&body, "not a number");
	build_string(&body, "OS");
	build_string(&body, "Linux");
	build_nettrace_block(b, 1, body.data, body.len);
	buf_free(&body);
}

void build_nettrace_begin(struct build_nettrace *b, int format)
{
	b->format = format;
	if (!b->pointer_size)
		b->pointer_size = 8;
	buf_str(&b->out, "Nettrace");
	if (format >= 6) {
		begin_v6(b);
		return;
	}
	build_u32(&b->out, 20);
	buf_str(&b->out, "!FastSerialization.1");
	object_head(&b->out, "Trace", (uint32_t)format, 4);
	trace_head(&b->out, b->pointer_size);
	build_u32(&b->out, BUILD_PID);
	build_u32(&b->out, BUILD_CPUS);
	build_u32(&b->out, 0);
	build_u8(&b->out, 6);
}

void build_nettrace_object(struct build_nettrace *b, const char *name, const void *body, size_t len)
{
	object_head(&b->out, name, 2, 2);
	build_u32(&b->out, (uint32_t)len);
	while (b->out.len % 4)
		build_u8(&b->out, 0);
	buf_add(&b->out, body, len);
	build_u8(&b->out, 6);
}

void build_nettrace_block(struct build_nettrace *b, unsigned kind, const void *body, size_t len)
{
	build_u32(&b->out, (uint32_t)len | kind << 24);
	buf_add(&b->out, body, len);
}

static void put_block(struct build_nettrace *b, const char *name, unsigned kind, const struct buf *body)
{
	if (b->format >= 6)
		build_nettrace_block(b, kind, body->data, body->len);
	else
		build_nettrace_object(b, name, body->data, body->len);
}

enum encoding { V1, V2, V6 };

static void put_fields(struct buf *out, const struct nettrace_field *fields, size_t n, enum encoding encoding);

static void put_type(struct buf *out, const struct nettrace_field *f, enum encoding encoding)
{
	if (encoding == V6)
		build_u8(out, (uint8_t)f->type);
	else
		build_u32(out, f->type);
	if (f->type == NETTRACE_OBJECT)
		put_fields(out, f->children, f->n_children, encoding);
	bool array = f->type == NETTRACE_ARRAY || f->type == NETTRACE_FIXED_ARRAY || f->type == NETTRACE_REL_LOC ||
		     f->type == NETTRACE_DATA_LOC;
	if (!array)
		return;
	bool nested = f->element == NETTRACE_ARRAY || f->element == NETTRACE_FIXED_ARRAY;
	struct nettrace_field element = { .type = f->element, .children = f->children, .n_children = f->n_children };
	put_type(out, nested ? f->children : &element, encoding);
	if (f->type == NETTRACE_FIXED_ARRAY)
		build_u16(out, (uint16_t)f->fixed_count);
}

static void put_field(struct buf *out, const struct nettrace_field *f, enum encoding encoding)
{
	struct buf row = { 0 };
	switch (encoding) {
	case V1:
		put_type(out, f, encoding);
		build_utf16z(out, f->name);
		break;
	case V2:
		build_utf16z(&row, f->name);
		put_type(&row, f, encoding);
		build_u32(out, (uint32_t)row.len + 4);
		break;
	case V6:
		build_string(&row, f->name);
		put_type(&row, f, encoding);
		build_u16(out, (uint16_t)row.len);
		break;
	}
	buf_add(out, buf_cstr(&row), row.len);
	buf_free(&row);
}

static void put_fields(struct buf *out, const struct nettrace_field *fields, size_t n, enum encoding encoding)
{
	if (encoding == V6)
		build_u16(out, (uint16_t)n);
	else
		build_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_field(out, &fields[i], encoding);
}

static void put_tags(struct build_nettrace *b, struct buf *out, const struct nettrace_meta *meta)
{
	if (meta->opcode) {
		build_u32(out, 1);
		build_u8(out, 1);
		build_u8(out, meta->opcode);
	}
	if (!b->fields_v2)
		return;
	struct buf v2 = { 0 };
	put_fields(&v2, meta->fields, meta->n_fields, V2);
	build_u32(out, (uint32_t)v2.len);
	build_u8(out, 2);
	buf_add(out, v2.data, v2.len);
	buf_free(&v2);
}

static void block_head(struct buf *out, bool plain)
{
	build_u16(out, 20);
	build_u16(out, plain ? 0 : 1);
	build_u64(out, 0);
	build_u64(out, 0);
}

static void put_plain(struct build_nettrace *b, const struct build_event *e)
{
	bool v6 = b->format >= 6;
	build_u32(&b->block, (uint32_t)(v6 ? 48 : 76) + (uint32_t)e->payload_size);
	build_u32(&b->block, e->meta_id | (e->sorted ? 1u << 31 : 0));
	build_u32(&b->block, e->sequence);
	build_u64(&b->block, e->thread);
	build_u64(&b->block, e->capture_thread);
	build_u32(&b->block, e->cpu);
	build_u32(&b->block, e->stack_id);
	build_u64(&b->block, e->time);
	if (v6) {
		build_u32(&b->block, e->label_id);
	} else {
		guid(&b->block, e->activity_id);
		guid(&b->block, e->related_activity_id);
	}
	build_u32(&b->block, (uint32_t)e->payload_size);
	buf_add(&b->block, e->payload, e->payload_size);
	while (!v6 && b->block.len % 4)
		build_u8(&b->block, 0);
}

static uint8_t changed(const struct build_nettrace *b, const struct build_event *e, uint32_t next)
{
	const struct build_event *l = &b->last;
	bool writer = e->capture_thread != l->capture_thread || e->cpu != l->cpu || e->sequence != next;
	uint8_t flags = 0;
	flags |= e->meta_id != l->meta_id ? 0x01 : 0;
	flags |= writer ? 0x02 : 0;
	flags |= e->thread != l->thread ? 0x04 : 0;
	flags |= e->stack_id != l->stack_id ? 0x08 : 0;
	flags |= (b->format >= 6 ? e->label_id != l->label_id : e->activity_id != l->activity_id) ? 0x10 : 0;
	flags |= b->format < 6 && e->related_activity_id != l->related_activity_id ? 0x20 : 0;
	flags |= e->sorted ? 0x40 : 0;
	flags |= e->payload_size != l->payload_size ? 0x80 : 0;
	return flags;
}

static void put_compressed(struct build_nettrace *b, const struct build_event *e)
{
	/* Events without metadata do not count in versions 4 and 5. */
	uint32_t counts = b->format >= 6 || e->meta_id ? 1 : 0;
	uint8_t flags = changed(b, e, b->last.sequence + counts);
	struct buf *out = &b->block;
	build_u8(out, flags);
	if (flags & 0x01)
		build_var(out, e->meta_id);
	if (flags & 0x02) {
		build_var(out, (uint32_t)(e->sequence - counts - b->last.sequence));
		build_var(out, e->capture_thread);
		build_var(out, e->cpu);
	}
	if (flags & 0x04)
		build_var(out, e->thread);
	if (flags & 0x08)
		build_var(out, e->stack_id);
	build_var(out, e->time - b->last.time);
	if (flags & 0x10 && b->format >= 6)
		build_var(out, e->label_id);
	else if (flags & 0x10)
		guid(out, e->activity_id);
	if (flags & 0x20)
		guid(out, e->related_activity_id);
	if (flags & 0x80)
		build_var(out, e->payload_size);
	buf_add(out, e->payload, e->payload_size);
}

void build_nettrace_event(struct build_nettrace *b, const struct build_event *event)
{
	struct build_event e = *event;
	if (!e.thread)
		e.thread = e.capture_thread;
	if (!b->any)
		block_head(&b->block, b->plain);
	if (b->plain)
		put_plain(b, &e);
	else
		put_compressed(b, &e);
	/* The block's first and last time stand in its head. */
	uint64_t times[2];
	memcpy(times, b->block.data + 4, sizeof(times));
	times[0] = b->any ? MIN(times[0], e.time) : e.time;
	times[1] = MAX(times[1], e.time);
	memcpy(b->block.data + 4, times, sizeof(times));
	b->last = e;
	b->any = true;
}

void build_nettrace_flush(struct build_nettrace *b)
{
	if (b->any)
		put_block(b, "EventBlock", 2, &b->block);
	buf_clear(&b->block);
	b->last = (struct build_event){ 0 };
	b->any = false;
}

static void meta_v6(struct build_nettrace *b, const struct nettrace_meta *meta)
{
	struct buf row = { 0 }, options = { 0 }, body = { 0 };
	build_var(&row, meta->id);
	build_string(&row, meta->provider);
	build_var(&row, meta->event_id);
	build_string(&row, meta->name ? meta->name : "");
	put_fields(&row, meta->fields, meta->n_fields, V6);
	buf_add(&options, "\4\1t\5\1d\6\1k\1v\7", 12);
	guid(&options, NULL);
	buf_add(&options, (const uint8_t[]){ 1, meta->opcode, 8, (uint8_t)meta->level, 9, (uint8_t)meta->version, 3 },
		7);
	build_u64(&options, meta->keywords);
	build_u16(&row, (uint16_t)options.len);
	buf_add(&row, options.data, options.len);
	build_u16(&body, 2);
	build_u16(&body, 0xffff);
	build_u16(&body, (uint16_t)row.len);
	buf_add(&body, row.data, row.len);
	build_nettrace_block(b, 3, body.data, body.len);
	buf_free(&row);
	buf_free(&options);
	buf_free(&body);
}

void build_nettrace_meta(struct build_nettrace *b, const struct nettrace_meta *meta)
{
	build_nettrace_flush(b);
	if (b->format >= 6) {
		meta_v6(b, meta);
		return;
	}
	struct buf row = { 0 };
	build_u32(&row, meta->id);
	build_utf16z(&row, meta->provider);
	build_u32(&row, meta->event_id);
	build_utf16z(&row, meta->name ? meta->name : "");
	build_u64(&row, meta->keywords);
	build_u32(&row, meta->version);
	build_u32(&row, meta->level);
	if (b->fields_v2)
		build_u32(&row, 0);
	else
		put_fields(&row, meta->fields, meta->n_fields, V1);
	put_tags(b, &row, meta);
	/* As the runtime does: no metadata id, and a sequence number all the same. */
	build_nettrace_event(
		b, &(struct build_event){ .sequence = UINT32_MAX, .payload = row.data, .payload_size = row.len });
	build_nettrace_object(b, "MetadataBlock", b->block.data, b->block.len);
	b->any = false;
	build_nettrace_flush(b);
	buf_free(&row);
}

void build_nettrace_stack(struct build_nettrace *b, uint32_t id, const uint64_t *frames, size_t n)
{
	struct buf body = { 0 };
	build_nettrace_flush(b);
	build_u32(&body, id);
	build_u32(&body, 1);
	build_u32(&body, (uint32_t)n * b->pointer_size);
	for (size_t i = 0; i < n; i++)
		buf_add(&body, &frames[i], b->pointer_size);
	put_block(b, "StackBlock", 5, &body);
	buf_free(&body);
}

void build_nettrace_sequence_point(struct build_nettrace *b, uint64_t time, uint32_t flags,
				   const struct build_sequence *threads, size_t n)
{
	struct buf body = { 0 };
	build_nettrace_flush(b);
	build_u64(&body, time);
	if (b->format >= 6)
		build_u32(&body, flags);
	build_u32(&body, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		if (b->format >= 6) {
			build_var(&body, threads[i].thread);
			build_var(&body, threads[i].last);
		} else {
			build_u64(&body, threads[i].thread);
			build_u32(&body, threads[i].last);
		}
	}
	put_block(b, "SPBlock", 4, &body);
	buf_free(&body);
}

void build_nettrace_thread(struct build_nettrace *b, uint64_t index, uint64_t tid, uint64_t pid, const char *name)
{
	struct buf row = { 0 }, body = { 0 };
	build_nettrace_flush(b);
	build_var(&row, index);
	build_u8(&row, 1);
	build_string(&row, name);
	build_u8(&row, 2);
	build_var(&row, pid);
	build_u8(&row, 4);
	build_string(&row, "key");
	build_string(&row, "value");
	build_u8(&row, 3);
	build_var(&row, tid);
	build_u16(&body, (uint16_t)row.len);
	buf_add(&body, row.data, row.len);
	build_nettrace_block(b, 6, body.data, body.len);
	buf_free(&row);
	buf_free(&body);
}

void build_nettrace_remove_thread(struct build_nettrace *b, uint64_t index, uint32_t last)
{
	struct buf body = { 0 };
	build_nettrace_flush(b);
	build_var(&body, index);
	build_var(&body, last);
	build_nettrace_block(b, 7, body.data, body.len);
	buf_free(&body);
}

void build_nettrace_labels(struct build_nettrace *b, uint32_t id, const uint8_t *activity_id,
			   const uint8_t *related_activity_id)
{
	struct buf body = { 0 };
	build_nettrace_flush(b);
	build_u32(&body, id);
	build_u32(&body, 1);
	build_u8(&body, 3);
	guid(&body, NULL);
	build_u8(&body, 4);
	build_u64(&body, 1);
	if (activity_id) {
		build_u8(&body, 1);
		guid(&body, activity_id);
	}
	if (related_activity_id) {
		build_u8(&body, 2);
		guid(&body, related_activity_id);
	}
	build_u8(&body, 5);
	build_string(&body, "key");
	build_string(&body, "value");
	build_u8(&body, 6);
	build_string(&body, "key");
	build_var(&body, 300);
	buf_add(&body, "\7\1\11\2\12\3", 6);
	build_u8(&body, 0x80 | 8);
	build_u64(&body, 5);
	build_nettrace_block(b, 8, body.data, body.len);
	buf_free(&body);
}

void build_nettrace_end(struct build_nettrace *b)
{
	build_nettrace_flush(b);
	if (b->format >= 6)
		build_nettrace_block(b, 0, "", 0);
	else
		build_u8(&b->out, 1);
}

void build_nettrace_free(struct build_nettrace *b)
{
	buf_free(&b->out);
	buf_free(&b->block);
	*b = (struct build_nettrace){ 0 };
}
