#include "sampler/perf_file.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORDS_MAX (20u << 20)
#define ATTRS_MAX 256
#define IDS_MAX 100000
/* Features by their bit. */
enum { FEATURE_BUILD_ID = 2, FEATURE_HOSTNAME, FEATURE_RELEASE, FEATURE_COMPRESSED = 27, FEATURES = 256 };
/* Records that perf itself adds. */
enum { PERF_AUXTRACE = 71, PERF_COMPRESSED = 81 };
#define BUILD_ID_MISC (1u << 14)
#define BUILD_ID_SIZE_MISC (1u << 15)

struct attr {
	uint64_t sample_type, read_format;
	bool sample_id_all;
};
/* What the feature section says of a file. */
struct build_id {
	const char *name;
	size_t name_len;
	const uint8_t *id;
	size_t len;
};
struct perf_file_place {
	uint64_t time, offset;
};

struct perf_file_reader {
	const uint8_t *bytes;
	size_t len;
	struct cursor data;
	VEC(struct attr) attrs;
	struct map_u64 by_id; /* -> attr */
	VEC(struct build_id) build_ids;
	VEC(struct perf_file_place) places;
	struct perf_file_facts *facts;
	void (*item)(void *user, const struct perf_item *item);
	void *user;
};

/* --- the head --- */

struct section {
	uint64_t offset, size;
};

static struct section take_section(struct cursor *c)
{
	struct section s;
	s.offset = cursor_u64(c);
	s.size = cursor_u64(c);
	return s;
}

/* An empty cursor that is bad when the section is not inside the file. */
static struct cursor section_cursor(const struct perf_file_reader *r, struct section s)
{
	if (s.offset > r->len || s.size > r->len - s.offset) {
		struct cursor none = cursor_make(r->bytes, 0);
		none.bad = true;
		return none;
	}
	return cursor_make(r->bytes + s.offset, s.size);
}

static void read_attr(struct perf_file_reader *r, struct cursor *entry, size_t attr_bytes)
{
	struct perf_event_attr attr = { 0 };
	const uint8_t *bytes = cursor_take(entry, attr_bytes);
	struct section ids = take_section(entry);
	if (!bytes)
		return;
	memcpy(&attr, bytes, MIN(sizeof(attr), attr_bytes));
	if (!r->attrs.n) {
		r->facts->type = attr.type;
		r->facts->config = attr.config;
		r->facts->period = attr.freq ? 0 : attr.sample_period;
	}
	r->facts->user_stacks |= (attr.sample_type & PERF_SAMPLE_STACK_USER) != 0;
	struct cursor list = section_cursor(r, ids);
	for (size_t i = 0; i < IDS_MAX && cursor_left(&list) >= 8; i++)
		*map_u64_put(&r->by_id, cursor_u64(&list), NULL) = r->attrs.n;
	vec_push(&r->attrs, ((struct attr){ attr.sample_type, attr.read_format, attr.sample_id_all }));
}

static void read_text(const struct perf_file_reader *r, struct section s, char *out, size_t size)
{
	struct cursor c = section_cursor(r, s);
	size_t n = cursor_u32(&c);
	n = MIN(n, cursor_left(&c));
	const char *text = (const char *)cursor_take(&c, n);
	if (text)
		snprintf(out, size, "%.*s", (int)strnlen(text, MIN(n, size - 1)), text);
}

/* header, i32 pid, 20 bytes of id and its length, path */
static void read_build_ids(struct perf_file_reader *r, struct section s)
{
	struct cursor c = section_cursor(r, s);
	while (cursor_left(&c) >= 8) {
		cursor_u32(&c);
		uint16_t misc = cursor_u16(&c), size = cursor_u16(&c);
		struct build_id b = { .len = 20 };
		if (size < 8 + 28)
			return;
		cursor_u32(&c);
		b.id = cursor_take(&c, 20);
		uint8_t len = cursor_u8(&c);
		cursor_take(&c, 3);
		b.name = (const char *)cursor_take(&c, size - 36u);
		if (!b.name)
			return;
		b.name_len = strnlen(b.name, size - 36u);
		if (misc & BUILD_ID_SIZE_MISC)
			b.len = MIN(len, (uint8_t)20);
		if (r->build_ids.n < IDS_MAX)
			vec_push(&r->build_ids, b);
	}
}

static struct err *read_features(struct perf_file_reader *r, const uint64_t bits[4], struct section data)
{
	struct section first = { data.offset + data.size, 0 };
	if (first.offset < data.offset || first.offset > r->len)
		return NULL; /* cut off with the data */
	struct cursor c = cursor_make(r->bytes + first.offset, r->len - first.offset);
	for (size_t i = 0; i < FEATURES; i++) {
		if (!(bits[i / 64] >> (i % 64) & 1))
			continue;
		struct section s = take_section(&c);
		if (!cursor_ok(&c))
			return NULL;
		if (i == FEATURE_COMPRESSED)
			return err_new(
				ERR_UNSUPPORTED,
				"the perf.data is compressed; record without -z, or run it through 'perf inject'");
		if (i == FEATURE_HOSTNAME)
			read_text(r, s, r->facts->hostname, sizeof(r->facts->hostname));
		else if (i == FEATURE_RELEASE)
			read_text(r, s, r->facts->release, sizeof(r->facts->release));
		else if (i == FEATURE_BUILD_ID)
			read_build_ids(r, s);
	}
	return NULL;
}

static struct err *read_head(struct perf_file_reader *r)
{
	struct cursor c = cursor_make(r->bytes, r->len);
	const uint8_t *magic = cursor_take(&c, 8);
	if (magic && !memcmp(magic, "2ELIFREP", 8))
		return err_new(ERR_UNSUPPORTED, "the perf.data comes from a machine of another byte order");
	if (!magic || memcmp(magic, "PERFILE2", 8) != 0)
		return err_new(ERR_BAD_DATA, "this is no perf.data");
	uint64_t size = cursor_u64(&c), attr_size = cursor_u64(&c);
	if (size == 16)
		return err_new(ERR_UNSUPPORTED, "the perf.data was written to a pipe; record it with -o FILE");
	struct section attrs = take_section(&c), data = take_section(&c);
	take_section(&c);
	uint64_t bits[4];
	for (size_t i = 0; i < 4; i++)
		bits[i] = cursor_u64(&c);
	struct cursor list = section_cursor(r, attrs);
	if (!cursor_ok(&c) || !cursor_ok(&list) || attr_size < 64 + 16 || attr_size > 4096)
		return err_new(ERR_BAD_DATA, "the perf.data is damaged");
	while (cursor_left(&list) >= attr_size && r->attrs.n < ATTRS_MAX)
		read_attr(r, &list, attr_size - 16);
	if (!r->attrs.n)
		return err_new(ERR_BAD_DATA, "the perf.data names no events");
	TRY(read_features(r, bits, data));
	if (data.offset > r->len)
		return err_new(ERR_BAD_DATA, "the perf.data is damaged");
	/* Interrupted while it was written: the head says 0, the samples are there. */
	r->facts->cut = !data.size || data.size > r->len - data.offset;
	r->data = cursor_make(r->bytes + data.offset, r->facts->cut ? r->len - data.offset : data.size);
	return NULL;
}

/* --- records --- */

static const struct attr *attr_of(const struct perf_file_reader *r, uint64_t id)
{
	const uint64_t *at = map_u64_get(&r->by_id, id);
	return &r->attrs.v[at ? *at : 0];
}

static void skip_read(struct cursor *c, uint64_t format)
{
	uint64_t n = 1, each = 8;
	if (format & PERF_FORMAT_GROUP)
		n = cursor_u64(c);
	uint64_t times =
		8 * (!!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING));
	each += format & PERF_FORMAT_ID ? 8 : 0;
	each += format & (1u << 4) ? 8 : 0; /* PERF_FORMAT_LOST */
	if (n > cursor_left(c) / each) {
		c->bad = true;
		return;
	}
	cursor_take(c, n * each + times);
}

static bool parse_sample(const struct perf_file_reader *r, struct cursor *c, uint16_t misc, struct perf_item *s)
{
	const struct attr *a = &r->attrs.v[0];
	if (a->sample_type & PERF_SAMPLE_IDENTIFIER)
		a = attr_of(r, cursor_u64(c));
	uint64_t type = a->sample_type;
	s->kind = PERF_ITEM_SAMPLE;
	s->period = 1;
	if (type & PERF_SAMPLE_IP)
		s->ip = cursor_u64(c);
	if (type & PERF_SAMPLE_TID) {
		s->pid = cursor_u32(c);
		s->tid = cursor_u32(c);
	}
	if (type & PERF_SAMPLE_TIME)
		s->time = cursor_u64(c);
	static const uint64_t plain[] = { PERF_SAMPLE_ADDR, PERF_SAMPLE_ID, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU };
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (type & plain[i])
			cursor_u64(c);
	}
	if (type & PERF_SAMPLE_PERIOD)
		s->period = cursor_u64(c);
	if (type & PERF_SAMPLE_READ)
		skip_read(c, a->read_format);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		s->n_chain = cursor_u64(c);
		if (s->n_chain > cursor_left(c) / 8)
			return false;
		s->chain = cursor_take(c, s->n_chain * 8);
	}
	s->kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	return cursor_ok(c);
}

/* The time at the end of a record that is no sample; 0 when records have none. */
static uint64_t trailer_time(const struct perf_file_reader *r, struct cursor *c)
{
	const struct attr *a = &r->attrs.v[0];
	if (!a->sample_id_all)
		return 0;
	static const uint64_t order[] = { PERF_SAMPLE_TID,	 PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
					  PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER };
	size_t bytes = 0, at = SIZE_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		if (!(a->sample_type & order[i]))
			continue;
		if (order[i] == PERF_SAMPLE_TIME)
			at = bytes;
		bytes += 8;
	}
	if (cursor_left(c) < bytes)
		return 0;
	c->end -= bytes;
	uint64_t time = 0;
	if (at != SIZE_MAX)
		memcpy(&time, c->end + at, sizeof(time));
	return time;
}

static void find_build_id(const struct perf_file_reader *r, struct perf_item *m)
{
	vec_each(b, &r->build_ids) {
		if (b->name_len == m->text_len && !memcmp(b->name, m->text, m->text_len)) {
			memcpy(m->build_id, b->id, b->len);
			m->build_id_len = b->len;
			return;
		}
	}
}

static bool parse_mmap(const struct perf_file_reader *r, struct cursor *c, uint32_t type, uint16_t misc,
		       struct perf_item *m)
{
	m->kind = PERF_ITEM_MMAP;
	m->pid = cursor_u32(c);
	m->tid = cursor_u32(c);
	m->start = cursor_u64(c);
	m->size = cursor_u64(c);
	m->offset = cursor_u64(c);
	if (type == PERF_RECORD_MMAP2) {
		const uint8_t *more = cursor_take(c, 24);
		cursor_take(c, 8);
		if (more && misc & BUILD_ID_MISC) {
			m->build_id_len = MIN(more[0], (uint8_t)20);
			memcpy(m->build_id, more + 4, m->build_id_len);
		}
	}
	size_t left = cursor_left(c);
	m->text = (const char *)cursor_take(c, left);
	if (!m->text)
		return false;
	m->text_len = strnlen(m->text, left);
	if (!m->build_id_len)
		find_build_id(r, m);
	return true;
}

/* False for what is damaged or of no interest. */
static bool parse(const struct perf_file_reader *r, const uint8_t *at, struct perf_item *ret)
{
	struct perf_event_header h;
	memcpy(&h, at, sizeof(h));
	struct cursor c = cursor_make(at + sizeof(h), h.size - sizeof(h));
	*ret = (struct perf_item){ 0 };
	if (h.type == PERF_RECORD_SAMPLE)
		return parse_sample(r, &c, h.misc, ret);
	if (h.type >= 64)
		return false;
	ret->time = trailer_time(r, &c);
	switch (h.type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return parse_mmap(r, &c, h.type, h.misc, ret);
	case PERF_RECORD_COMM:
		ret->kind = PERF_ITEM_COMM;
		ret->pid = cursor_u32(&c);
		ret->tid = cursor_u32(&c);
		ret->exec = h.misc & PERF_RECORD_MISC_COMM_EXEC;
		ret->text_len = strnlen((const char *)c.p, MIN(cursor_left(&c), (size_t)16));
		ret->text = (const char *)cursor_take(&c, ret->text_len);
		return cursor_ok(&c);
	case PERF_RECORD_FORK:
		ret->kind = PERF_ITEM_FORK;
		ret->pid = cursor_u32(&c);
		ret->ppid = cursor_u32(&c);
		ret->tid = cursor_u32(&c);
		return cursor_ok(&c);
	case PERF_RECORD_LOST:
		cursor_u64(&c);
		r->facts->lost += cursor_u64(&c);
		return false;
	default:
		return false;
	}
}

/* Rings are written one after the other: only their times tell the order. */
static int by_time(const void *a, const void *b)
{
	const struct perf_file_place *x = a, *y = b;
	return CMP(x->time, y->time) ?: CMP(x->offset, y->offset);
}

static struct err *find_places(struct perf_file_reader *r)
{
	struct cursor c = r->data;
	while (cursor_left(&c) >= sizeof(struct perf_event_header)) {
		struct perf_event_header h;
		memcpy(&h, c.p, sizeof(h));
		if (h.size < sizeof(h) || h.size > cursor_left(&c)) {
			r->facts->cut = true;
			break;
		}
		if (h.type == PERF_COMPRESSED || h.type == PERF_AUXTRACE)
			return err_new(ERR_UNSUPPORTED, "the perf.data is %s; record it with plain 'perf record -g'",
				       h.type == PERF_COMPRESSED ? "compressed" : "a hardware trace");
		struct perf_item item;
		if (parse(r, c.p, &item)) {
			if (r->places.n == RECORDS_MAX)
				return err_new(ERR_UNSUPPORTED, "the perf.data holds more than %u records",
					       RECORDS_MAX);
			vec_push(&r->places, ((struct perf_file_place){ item.time, (uint64_t)(c.p - r->bytes) }));
		}
		c.p += h.size;
	}
	vec_sort(&r->places, by_time);
	return NULL;
}

static void give(struct perf_file_reader *r)
{
	uint64_t lost = r->facts->lost;
	vec_each(p, &r->places) {
		struct perf_item item;
		if (!parse(r, r->bytes + p->offset, &item))
			continue;
		if (item.kind == PERF_ITEM_SAMPLE) {
			r->facts->start = r->facts->samples++ ? r->facts->start : item.time;
			r->facts->end = item.time;
		}
		r->item(r->user, &item);
	}
	r->facts->lost = lost;
}

struct err *perf_file_read(const void *bytes, size_t len, void (*item)(void *user, const struct perf_item *item),
			   void *user, struct perf_file_facts *ret)
{
	*ret = (struct perf_file_facts){ 0 };
	struct perf_file_reader r = { .bytes = bytes, .len = len, .facts = ret, .item = item, .user = user };
	struct err *err = read_head(&r);
	if (!err)
		err = find_places(&r);
	if (!err)
		give(&r);
	vec_free(&r.attrs);
	map_u64_free(&r.by_id);
	vec_free(&r.build_ids);
	vec_free(&r.places);
	return err;
}

uint64_t perf_item_ip(const struct perf_item *item, size_t i, bool *ret_kernel)
{
	uint64_t ip;
	memcpy(&ip, item->chain + 8 * i, sizeof(ip));
	if (ip < PERF_CONTEXT_MAX)
		return ip;
	if (ip == (uint64_t)PERF_CONTEXT_KERNEL || ip == (uint64_t)PERF_CONTEXT_USER)
		*ret_kernel = ip == (uint64_t)PERF_CONTEXT_KERNEL;
	return 0;
}
