/* What a stream says about its kinds of events.
 *
 * Versions 4 and 5, the payload of an event in a MetadataBlock:
 *	u32 id, utf16z provider, u32 event id, utf16z name, u64 keywords, u32 version, u32 level, fields V1, tags
 *	fields V1	u32 n, n x { type, utf16z name }
 *	tag		u32 bytes, u8 kind (1 = u8 opcode, 2 = fields V2), data
 *	fields V2	u32 n, n x { u32 size with itself, utf16z name, type }
 *	type		u32 code, then of an array the type of its element, of an object its fields
 * Version 6, rows in a metadata block after u16 header size and header:
 *	u16 size, varint id, str provider, varint event id, str name, fields V6, u16 size of options, options
 *	fields V6	u16 n, n x { u16 size, str name, type }
 *	type		u8 code, then of an array or loc the type of its element, of a fixed array u16 count
 *	option		u8 kind, value: 1 opcode, 3 keywords, 4 template, 5 description, 6 key and value, 7 guid, 8
 *level, 9 version
 *
 * A description that makes no sense in its fields keeps its head and has no fields: its events can still be counted. */

#include "nettrace/internal.h"
#include "base/str.h"

enum encoding { V1, V2, V6 };

struct describing {
	struct nettrace_reader *r;
	struct cursor c;
	enum encoding encoding;
	bool full; /* no more memory for metadata */
};

/* What a description costs beside its strings' bytes: the map's and the table's own. */
#define STRING_OVERHEAD 64

static size_t meta_bytes(const struct nettrace_reader *r)
{
	return r->meta_arena.used_bytes + r->strings.bytes + r->strings.n * STRING_OVERHEAD;
}

static const char *intern(struct nettrace_reader *r)
{
	/* Names are C strings: what follows a NUL is ignored. */
	const char *s = buf_cstr(&r->text);
	return strtab_get(&r->strings, strtab_add_cstr(&r->strings, s));
}

static const char *read_name(struct describing *d)
{
	struct nettrace_reader *r = d->r;
	buf_clear(&r->text);
	if (d->encoding == V6) {
		struct cursor s = nettrace_string(&d->c);
		utf8_add_valid(&r->text, (const char *)s.p, cursor_left(&s));
	} else {
		struct utf16_span s = cursor_utf16z(&d->c);
		utf16_add(&r->text, s.units, s.n);
	}
	if (meta_bytes(r) + r->text.len > r->opt.max_meta_bytes) {
		d->full = d->c.bad = true;
		return "";
	}
	return intern(r);
}

static void *alloc_fields(struct describing *d, size_t n)
{
	size_t bytes = n * sizeof(struct nettrace_field);
	if (meta_bytes(d->r) + bytes > d->r->opt.max_meta_bytes) {
		d->full = d->c.bad = true;
		return NULL;
	}
	return arena_zalloc(&d->r->meta_arena, bytes);
}

static bool has_element(enum nettrace_type type)
{
	return type == NETTRACE_ARRAY || type == NETTRACE_FIXED_ARRAY || type == NETTRACE_REL_LOC ||
	       type == NETTRACE_DATA_LOC;
}

static bool is_type(uint32_t code, enum encoding encoding)
{
	if (code == NETTRACE_OBJECT)
		return true;
	return code >= NETTRACE_BOOL32 && code <= (encoding == V6 ? NETTRACE_BOOL8 : NETTRACE_ARRAY);
}

static const struct nettrace_field *read_fields(struct describing *d, unsigned depth, size_t *ret_n);

static void read_type(struct describing *d, struct nettrace_field *f, unsigned depth)
{
	uint32_t code = d->encoding == V6 ? cursor_u8(&d->c) : cursor_u32(&d->c);
	if (!is_type(code, d->encoding) || depth > NETTRACE_MAX_DEPTH) {
		d->c.bad = true;
		return;
	}
	f->type = (enum nettrace_type)code;
	if (f->type == NETTRACE_OBJECT)
		f->children = read_fields(d, depth + 1, &f->n_children);
	if (!has_element(f->type))
		return;
	struct nettrace_field element = { .name = "" };
	read_type(d, &element, depth + 1);
	f->element = element.type;
	if (has_element(element.type)) {
		struct nettrace_field *only = alloc_fields(d, 1);
		if (!only)
			return;
		*only = element;
		f->children = only;
		f->n_children = 1;
	} else {
		f->children = element.children;
		f->n_children = element.n_children;
	}
	if (f->type == NETTRACE_FIXED_ARRAY)
		f->fixed_count = cursor_u16(&d->c);
}

static void read_field(struct describing *d, struct nettrace_field *f, unsigned depth)
{
	if (d->encoding == V1) {
		read_type(d, f, depth);
		f->name = read_name(d);
		return;
	}
	struct cursor *c = &d->c;
	size_t size = d->encoding == V6 ? cursor_u16(c) : cursor_u32(c);
	if (d->encoding == V2)
		size = size < 4 ? SIZE_MAX : size - 4;
	struct cursor whole = *c;
	if (!cursor_take(&whole, size)) {
		c->bad = true;
		return;
	}
	/* What follows the type inside the size belongs to later versions. */
	c->end = whole.p;
	f->name = read_name(d);
	read_type(d, f, depth);
	*c = (struct cursor){ .p = whole.p, .end = whole.end, .bad = c->bad };
}

static const struct nettrace_field *read_fields(struct describing *d, unsigned depth, size_t *ret_n)
{
	size_t n = d->encoding == V6 ? cursor_u16(&d->c) : cursor_u32(&d->c);
	/* The shortest field: V1 type and NUL, V2 size, NUL and type, V6 size, empty name and type. */
	static const size_t shortest[] = { [V1] = 6, [V2] = 10, [V6] = 4 };
	if (!cursor_ok(&d->c) || n > cursor_left(&d->c) / shortest[d->encoding] || depth > NETTRACE_MAX_DEPTH) {
		d->c.bad = true;
		return NULL;
	}
	struct nettrace_field *fields = n ? alloc_fields(d, n) : NULL;
	for (size_t i = 0; i < n && cursor_ok(&d->c); i++)
		read_field(d, &fields[i], depth);
	if (!cursor_ok(&d->c))
		return NULL;
	*ret_n = n;
	return fields;
}

static void set_fields(struct describing *d, struct nettrace_meta *meta)
{
	size_t n = 0;
	const struct nettrace_field *fields = read_fields(d, 0, &n);
	if (cursor_ok(&d->c) && n) {
		meta->fields = fields;
		meta->n_fields = n;
	}
}

static void read_tags(struct describing *d, struct nettrace_meta *meta)
{
	while (cursor_left(&d->c) >= 5 && cursor_ok(&d->c)) {
		size_t size = cursor_u32(&d->c);
		uint8_t kind = cursor_u8(&d->c);
		const uint8_t *data = cursor_take(&d->c, size);
		if (!data)
			return;
		struct describing tag = { .r = d->r, .c = cursor_make(data, size), .encoding = V2 };
		if (kind == 1)
			meta->opcode = cursor_u8(&tag.c);
		else if (kind == 2)
			set_fields(&tag, meta);
		d->full |= tag.full;
	}
}

static void remember(struct nettrace_reader *r, struct nettrace_meta *meta)
{
	if (meta->id >= NETTRACE_DENSE_METAS) {
		*map_u64_put(&r->sparse, meta->id, NULL) = (uintptr_t)meta;
	} else {
		if (meta->id >= r->n_dense) {
			size_t n = MAX((size_t)meta->id + 1, MIN(r->n_dense * 2, (size_t)NETTRACE_DENSE_METAS));
			r->dense = mem_realloc_array(r->dense, n, sizeof(struct nettrace_meta *));
			memset(r->dense + r->n_dense, 0, (n - r->n_dense) * sizeof(struct nettrace_meta *));
			r->n_dense = n;
		}
		r->dense[meta->id] = meta;
	}
	if (r->cb.meta)
		r->cb.meta(r->user, meta);
}

void nettrace_metas_forget(struct nettrace_reader *r)
{
	mem_free(r->dense);
	r->dense = NULL;
	r->n_dense = 0;
	map_u64_free(&r->sparse);
}

static struct err *meta_new(struct nettrace_reader *r, const uint8_t *row, struct nettrace_meta **ret)
{
	if (meta_bytes(r) + sizeof(struct nettrace_meta) > r->opt.max_meta_bytes)
		return nettrace_bad(r, row, "expected at most %zu bytes of metadata", r->opt.max_meta_bytes);
	*ret = arena_zalloc(&r->meta_arena, sizeof(struct nettrace_meta));
	(*ret)->format = r->header.format;
	return NULL;
}

/* The head must make sense; fields that do not are left out. */
static struct err *head_check(const struct describing *d, const uint8_t *row, size_t len)
{
	if (d->full)
		return nettrace_bad(d->r, row, "expected at most %zu bytes of metadata", d->r->opt.max_meta_bytes);
	if (!cursor_ok(&d->c))
		return nettrace_bad(d->r, row, "expected the description of an event, found %zu bytes that end early",
				    len);
	return NULL;
}

struct err *nettrace_metadata_row(struct nettrace_reader *r, const uint8_t *row, size_t len)
{
	struct describing d = { .r = r, .c = cursor_make(row, len), .encoding = V1 };
	struct nettrace_meta *meta;
	TRY(meta_new(r, row, &meta));
	meta->id = cursor_u32(&d.c);
	meta->provider = read_name(&d);
	meta->event_id = cursor_u32(&d.c);
	meta->name = read_name(&d);
	meta->keywords = cursor_u64(&d.c);
	meta->version = cursor_u32(&d.c);
	meta->level = cursor_u32(&d.c);
	TRY(head_check(&d, row, len));
	if (cursor_left(&d.c))
		set_fields(&d, meta);
	read_tags(&d, meta);
	d.c.bad = false;
	TRY(head_check(&d, row, len));
	remember(r, meta);
	return NULL;
}

static void read_options(struct cursor *c, struct nettrace_meta *meta)
{
	while (cursor_left(c) && cursor_ok(c)) {
		switch (cursor_u8(c)) {
		case 1:
			meta->opcode = cursor_u8(c);
			break;
		case 3:
			meta->keywords = cursor_u64(c);
			break;
		case 4:
		case 5:
			nettrace_string(c);
			break;
		case 6:
			nettrace_string(c);
			nettrace_string(c);
			break;
		case 7:
			cursor_take(c, 16);
			break;
		case 8:
			meta->level = cursor_u8(c);
			break;
		case 9:
			meta->version = cursor_u8(c);
			break;
		default: /* of a later version; its length is unknown */
			return;
		}
	}
}

static struct err *row_v6(struct nettrace_reader *r, const uint8_t *row, size_t len)
{
	struct describing d = { .r = r, .c = cursor_make(row, len), .encoding = V6 };
	struct nettrace_meta *meta;
	TRY(meta_new(r, row, &meta));
	meta->id = cursor_varu32(&d.c);
	meta->provider = read_name(&d);
	meta->event_id = cursor_varu32(&d.c);
	meta->name = read_name(&d);
	TRY(head_check(&d, row, len));
	set_fields(&d, meta);
	size_t size = cursor_u16(&d.c);
	const uint8_t *options = cursor_take(&d.c, size);
	if (options) {
		struct cursor c = cursor_make(options, size);
		read_options(&c, meta);
	}
	d.c.bad = false;
	TRY(head_check(&d, row, len));
	remember(r, meta);
	return NULL;
}

struct err *nettrace_metadata_block_v6(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct cursor c = cursor_make(body, len);
	cursor_take(&c, cursor_u16(&c));
	while (cursor_ok(&c) && cursor_left(&c)) {
		size_t size = cursor_u16(&c);
		const uint8_t *row = cursor_take(&c, size);
		if (row)
			TRY(row_v6(r, row, size));
	}
	if (!cursor_ok(&c))
		return nettrace_bad(r, c.p, "expected a metadata row, found one that passes the end of its block");
	return NULL;
}
