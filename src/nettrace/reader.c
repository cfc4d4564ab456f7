/* The stream as a whole: cut into blocks, whatever the size of the chunks it comes in.
 *
 * Versions 4 and 5:	"Nettrace", u32 20, "!FastSerialization.1", objects, 01
 *	object		05 05 01, u32 version, u32 lowest reader, u32 length, name, 06, payload, 06
 *	payload		Trace: 48 bytes; others: u32 size, zeros up to a stream offset divisible by 4, size bytes
 * Version 6:		"Nettrace", u32 0, u32 major, u32 minor, blocks
 *	block		u24 size, u8 kind, size bytes; kind 0 ends the stream
 *
 * A unit (header, object, block) is read where it stands when a chunk holds all of it, otherwise it is put together
 * in `in` first, which holds one unit only and grows with the bytes that came. */

#include "base/clock.h"
#include "nettrace/internal.h"

#define MAX_NAME 64
#define TRACE_SIZE 48
#define IN_START ((size_t)256 << 10) /* taken at once for a block that says it is longer */

#define TAG_END 1
#define TAG_BEGIN 5
#define TAG_DONE 6

uint64_t nettrace_event_frame(const struct nettrace_event *event, size_t i)
{
	uint64_t address = 0;
	memcpy(&address, event->stack + i * event->pointer_size, event->pointer_size);
	return address;
}

struct err *nettrace_bad(const struct nettrace_reader *r, const uint8_t *at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	uint64_t offset = r->body_pos + (uint64_t)(at - r->body);
	return err_new(ERR_BAD_DATA, "nettrace offset %llu: %s", (unsigned long long)offset, text);
}

struct cursor nettrace_string(struct cursor *c)
{
	size_t len = cursor_varu32(c);
	const uint8_t *p = cursor_take(c, len);
	return p ? cursor_make(p, len) : (struct cursor){ 0 };
}

/* Days since 1970-01-01 of a date of the Gregorian calendar. */
static int64_t days_from_date(int64_t year, unsigned month, unsigned day)
{
	year -= month <= 2;
	int64_t era = year / 400;
	int64_t year_of_era = year - era * 400;
	int64_t day_of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

bool nettrace_systemtime_ns(struct cursor *c, int64_t *ret_ns)
{
	uint16_t year = cursor_u16(c), month = cursor_u16(c);
	cursor_u16(c); /* day of the week */
	uint16_t day = cursor_u16(c), hour = cursor_u16(c), minute = cursor_u16(c), second = cursor_u16(c),
		 ms = cursor_u16(c);
	if (!cursor_ok(c) || year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || day > 31 ||
	    hour > 23 || minute > 59 || second > 60 || ms > 999)
		return false;
	int64_t seconds = days_from_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
	*ret_ns = seconds * NS_PER_S + (int64_t)ms * NS_PER_MS;
	return true;
}

struct err *nettrace_set_header(struct nettrace_reader *r, struct cursor *c)
{
	struct nettrace_header *h = &r->header;
	const uint8_t *start = c->p;
	if (r->has_header)
		return nettrace_bad(r, start, "expected one trace description, found a second");
	if (!nettrace_systemtime_ns(c, &h->utc_ns))
		return nettrace_bad(r, start, "expected the date of the trace");
	h->sync_time = cursor_u64(c);
	h->ticks_per_second = cursor_u64(c);
	h->pointer_size = cursor_u32(c);
	if (!cursor_ok(c) || !h->ticks_per_second || h->ticks_per_second > 1000000000000)
		return nettrace_bad(r, start, "expected a clock of 1 to 10^12 ticks a second, found %llu",
				    (unsigned long long)h->ticks_per_second);
	if (h->pointer_size != 4 && h->pointer_size != 8)
		return nettrace_bad(r, start, "expected pointers of 4 or 8 bytes, found %u", h->pointer_size);
	r->has_header = true;
	return NULL;
}

static void tell_header(struct nettrace_reader *r)
{
	if (r->cb.header)
		r->cb.header(r->user, &r->header);
}

/* Where `at` stands in the stream, for nettrace_bad(). */
static void set_body(struct nettrace_reader *r, const uint8_t *unit, const uint8_t *body)
{
	r->body = body;
	r->body_pos = r->pos + (uint64_t)(body - unit);
}

static struct err *read_magic(struct nettrace_reader *r, const uint8_t *p, size_t avail, size_t *ret_used)
{
	static const char v4[] = "!FastSerialization.1";
	set_body(r, p, p);
	if (memcmp(p, "Nettrace", MIN(avail, (size_t)8)) != 0) {
		if (avail >= 8 && !memcmp(p + 4, v4, 4))
			return err_new(ERR_UNSUPPORTED, "this is the netperf format of .NET Core 2; "
							"nettrace versions 4 to 6 are read");
		return nettrace_bad(r, p, "expected 'Nettrace'");
	}
	r->need = 12;
	if (avail < 12)
		return NULL;
	uint32_t kind;
	memcpy(&kind, p + 8, 4);
	if (kind && kind != 20)
		return nettrace_bad(r, p + 8, "expected 20 or 0, found %u%s", kind,
				    kind == 20u << 24 ? ": a big-endian stream, which nobody is known to write" : "");
	r->need = kind ? 32 : 20;
	if (avail < r->need)
		return NULL;
	*ret_used = r->need;
	if (kind) {
		r->state = NETTRACE_AT_OBJECT;
		return memcmp(p + 12, v4, 20) ? nettrace_bad(r, p + 12, "expected '%s'", v4) : NULL;
	}
	memcpy(&kind, p + 12, 4);
	if (kind > 6)
		return err_new(ERR_UNSUPPORTED, "nettrace version %u; versions 4 to 6 are read", kind);
	if (kind < 6)
		return nettrace_bad(r, p + 12, "expected version 6, found %u", kind);
	r->header.format = 6;
	r->state = NETTRACE_AT_BLOCK;
	return NULL;
}

static struct err *read_trace(struct nettrace_reader *r, const uint8_t *body, uint32_t version, uint32_t lowest)
{
	struct cursor c = cursor_make(body, TRACE_SIZE);
	if (lowest > 5)
		return err_new(ERR_UNSUPPORTED, "nettrace version %u; versions 4 to 6 are read", version);
	if (version < 4)
		return nettrace_bad(r, body, "expected a trace of version 4 or 5, found %u", version);
	r->header.format = version > 5 ? 5 : (int)version;
	TRY(nettrace_set_header(r, &c));
	r->header.pid = cursor_u32(&c);
	r->header.n_cpus = cursor_u32(&c);
	r->header.sampling_rate = cursor_u32(&c);
	tell_header(r);
	return NULL;
}

static bool is_name(const uint8_t *name, size_t len, const char *want)
{
	return len == strlen(want) && !memcmp(name, want, len);
}

struct nettrace_object {
	uint32_t version, lowest;
	const uint8_t *name;
	uint32_t name_len;
};

static struct err *read_object(struct nettrace_reader *r, const struct nettrace_object *o, const uint8_t *body,
			       size_t len)
{
	if (!r->has_header)
		return nettrace_bad(r, body, "expected the object 'Trace' first, found '%.*s'", (int)o->name_len,
				    (const char *)o->name);
	struct err *(*read)(struct nettrace_reader *, const uint8_t *, size_t) = NULL;
	if (is_name(o->name, o->name_len, "EventBlock"))
		read = nettrace_event_block;
	else if (is_name(o->name, o->name_len, "MetadataBlock"))
		read = nettrace_metadata_block;
	else if (is_name(o->name, o->name_len, "StackBlock"))
		read = nettrace_stack_block;
	else if (is_name(o->name, o->name_len, "SPBlock"))
		read = nettrace_sequence_point;
	if (!read) {
		r->stats.unknown_blocks++;
		return NULL;
	}
	if (o->lowest > 2)
		return err_new(ERR_UNSUPPORTED, "nettrace object '%.*s' of version %u; 2 is read", (int)o->name_len,
			       (const char *)o->name, o->version);
	return read(r, body, len);
}

/* The head of an object up to its payload; r->need tells how much of it must be there. */
static struct err *read_object_head(struct nettrace_reader *r, const uint8_t *p, size_t avail,
				    struct nettrace_object *o)
{
	r->need = 1;
	if (p[0] != TAG_BEGIN)
		return nettrace_bad(r, p, "expected an object (5) or the end (1), found %u", p[0]);
	r->need = 15;
	if (avail < r->need)
		return NULL;
	if (p[1] != TAG_BEGIN || p[2] != TAG_END)
		return nettrace_bad(r, p + 1, "expected the type of an object");
	memcpy(&o->version, p + 3, 4);
	memcpy(&o->lowest, p + 7, 4);
	memcpy(&o->name_len, p + 11, 4);
	o->name = p + 15;
	if (o->name_len > MAX_NAME)
		return nettrace_bad(r, p + 11, "expected a name of at most %d bytes, found %u", MAX_NAME, o->name_len);
	r->need = 15 + (size_t)o->name_len + 1;
	if (avail < r->need)
		return NULL;
	for (uint32_t i = 0; i < o->name_len; i++) {
		if (o->name[i] < 0x20 || o->name[i] > 0x7e)
			return nettrace_bad(r, o->name + i, "expected the name of an object");
	}
	if (p[r->need - 1] != TAG_DONE)
		return nettrace_bad(r, p + r->need - 1, "expected the end of a type (6), found %u", p[r->need - 1]);
	return NULL;
}

static struct err *step_object(struct nettrace_reader *r, const uint8_t *p, size_t avail, size_t *ret_used)
{
	struct nettrace_object o = { 0 };
	set_body(r, p, p);
	if (p[0] == TAG_END) {
		r->state = NETTRACE_AT_END;
		r->stats.ended = true;
		*ret_used = 1;
		return NULL;
	}
	TRY(read_object_head(r, p, avail, &o));
	size_t head = r->need;
	if (avail < head)
		return NULL;
	bool trace = is_name(o.name, o.name_len, "Trace");
	uint32_t size = TRACE_SIZE;
	if (!trace) {
		r->need = head + 4;
		if (avail < r->need)
			return NULL;
		memcpy(&size, p + head, 4);
		if (size > r->opt.max_block_bytes)
			return nettrace_bad(r, p + head, "expected a block of at most %zu bytes, found %u",
					    r->opt.max_block_bytes, size);
		head += 4 + (-(r->pos + head + 4) & 3);
	}
	r->need = head + size + 1;
	if (avail < r->need)
		return NULL;
	if (p[head + size] != TAG_DONE)
		return nettrace_bad(r, p + head + size, "expected the end of an object (6), found %u", p[head + size]);
	*ret_used = r->need;
	set_body(r, p, p + head);
	return trace ? read_trace(r, p + head, o.version, o.lowest) : read_object(r, &o, p + head, size);
}

static struct err *read_block(struct nettrace_reader *r, unsigned kind, const uint8_t *body, size_t size)
{
	static struct err *(*const readers[])(struct nettrace_reader *, const uint8_t *, size_t) = {
		[2] = nettrace_event_block, [3] = nettrace_metadata_block_v6, [4] = nettrace_sequence_point,
		[5] = nettrace_stack_block, [6] = nettrace_v6_threads,	      [7] = nettrace_v6_remove_threads,
		[8] = nettrace_v6_labels,
	};
	if (kind == 0) {
		r->state = NETTRACE_AT_END;
		r->stats.ended = true;
		return NULL;
	}
	if (kind == 1) {
		TRY(nettrace_v6_trace(r, body, size));
		tell_header(r);
		return NULL;
	}
	if (kind >= ARRAY_SIZE(readers)) {
		r->stats.unknown_blocks++;
		return NULL;
	}
	if (!r->has_header)
		return nettrace_bad(r, body, "expected the trace block first, found kind %u", kind);
	return readers[kind](r, body, size);
}

static struct err *step_block(struct nettrace_reader *r, const uint8_t *p, size_t avail, size_t *ret_used)
{
	set_body(r, p, p);
	r->need = 4;
	if (avail < r->need)
		return NULL;
	uint32_t head;
	memcpy(&head, p, 4);
	size_t size = head & 0xffffff;
	if (size > r->opt.max_block_bytes)
		return nettrace_bad(r, p, "expected a block of at most %zu bytes, found %zu", r->opt.max_block_bytes,
				    size);
	r->need = 4 + size;
	if (avail < r->need)
		return NULL;
	*ret_used = r->need;
	set_body(r, p, p + 4);
	return read_block(r, head >> 24, p + 4, size);
}

/* Reads the unit at p. When it is not whole, *ret_used stays 0 and r->need says how many bytes it takes at least. */
static struct err *step(struct nettrace_reader *r, const uint8_t *p, size_t avail, size_t *ret_used)
{
	*ret_used = 0;
	switch (r->state) {
	case NETTRACE_AT_MAGIC:
		return read_magic(r, p, avail, ret_used);
	case NETTRACE_AT_OBJECT:
		return step_object(r, p, avail, ret_used);
	case NETTRACE_AT_BLOCK:
		return step_block(r, p, avail, ret_used);
	case NETTRACE_AT_END:
		break;
	}
	*ret_used = avail;
	return NULL;
}

static void keep(struct nettrace_reader *r, const uint8_t *p, size_t len)
{
	r->in.limit = SIZE_MAX / 2; /* a unit is bounded already */
	if (!r->in.cap)
		buf_room(&r->in, MIN(r->need, IN_START));
	buf_add(&r->in, p, len);
}

static struct err *feed(struct nettrace_reader *r, const uint8_t *p, size_t len)
{
	size_t used;
	while (len) {
		if (!r->in.len) {
			TRY(step(r, p, len, &used));
			if (!used) {
				keep(r, p, len);
				return NULL;
			}
			p += used;
			len -= used;
		} else {
			size_t take = MIN(len, r->need - r->in.len);
			keep(r, p, take);
			p += take;
			len -= take;
			if (r->in.len < r->need)
				return NULL;
			TRY(step(r, (const uint8_t *)r->in.data, r->in.len, &used));
			if (used)
				buf_clear(&r->in);
		}
		r->pos += used;
		r->stats.whole = r->pos;
	}
	return NULL;
}

static struct err *fail(struct nettrace_reader *r, struct err *err)
{
	nettrace_order_flush(r);
	r->failed_kind = err_kind(err);
	r->failed_text = mem_strdup(err_text(err));
	return err;
}

struct nettrace_reader *nettrace_reader_new(const struct nettrace_options *options,
					    const struct nettrace_callbacks *callbacks, void *user)
{
	struct nettrace_reader *r = mem_zalloc(sizeof(*r));
	if (options)
		r->opt = *options;
	if (!r->opt.max_reorder_bytes)
		r->opt.max_reorder_bytes = (size_t)256 << 20;
	if (!r->opt.max_block_bytes)
		r->opt.max_block_bytes = (size_t)64 << 20;
	if (!r->opt.max_meta_bytes)
		r->opt.max_meta_bytes = (size_t)64 << 20;
	r->cb = *callbacks;
	r->user = user;
	return r;
}

void nettrace_reader_free(struct nettrace_reader *r)
{
	if (!r)
		return;
	nettrace_order_free(r);
	nettrace_tables_free(r);
	nettrace_metas_forget(r);
	arena_free(&r->meta_arena);
	strtab_free(&r->strings);
	buf_free(&r->text);
	buf_free(&r->in);
	mem_free(r->failed_text);
	mem_free(r);
}

struct err *nettrace_reader_feed(struct nettrace_reader *r, const void *data, size_t len)
{
	if (r->failed_text)
		return err_new(r->failed_kind, "%s", r->failed_text);
	r->stats.bytes += len;
	struct err *err = feed(r, data, len);
	return err ? fail(r, err) : NULL;
}

struct err *nettrace_reader_finish(struct nettrace_reader *r)
{
	if (r->failed_text)
		return err_new(r->failed_kind, "%s", r->failed_text);
	nettrace_order_flush(r);
	if (r->state == NETTRACE_AT_END)
		return NULL;
	unsigned long long at = r->pos + r->in.len;
	if (!at)
		return fail(r, err_new(ERR_BAD_DATA, "expected a nettrace stream, found nothing"));
	/* Between two units the end tag, or the head of a block, is what is missing. */
	size_t missing = r->in.len ? r->need - r->in.len : 1;
	return fail(r,
		    err_new(ERR_BAD_DATA, "nettrace offset %llu: expected at least %zu more bytes, the stream was cut",
			    at, missing));
}

const struct nettrace_stats *nettrace_reader_stats(const struct nettrace_reader *r)
{
	return &r->stats;
}

uint64_t nettrace_reader_certain(const struct nettrace_reader *reader)
{
	return reader->order.watermark;
}

const struct nettrace_header *nettrace_reader_header(const struct nettrace_reader *r)
{
	return r->has_header ? &r->header : NULL;
}
