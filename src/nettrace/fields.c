/* See fields.h. A description is at most NETTRACE_MAX_DEPTH deep and every element of an array takes at least a byte,
 * so no payload can make a walk longer than itself. */

#include "nettrace/fields.h"
#include "nettrace/internal.h"
#include "base/str.h"

/* 100 ns from 1601 to 1970. */
#define FILETIME_UNIX_EPOCH 116444736000000000

struct nettrace_walk nettrace_walk_make(const struct nettrace_event *event)
{
	return (struct nettrace_walk){ .c = cursor_make(event->payload, event->payload_size),
				       .payload = cursor_make(event->payload, event->payload_size),
				       .fields = event->meta->fields,
				       .left = event->meta->n_fields,
				       .format = event->meta->format };
}

/* Bytes of one value, 0 when that depends on the value. */
static size_t fixed_size(const struct nettrace_walk *w, enum nettrace_type type)
{
	switch (type) {
	case NETTRACE_I8:
	case NETTRACE_U8:
	case NETTRACE_BOOL8:
		return 1;
	case NETTRACE_CHAR16:
	case NETTRACE_I16:
	case NETTRACE_U16:
		return 2;
	case NETTRACE_BOOL32:
	case NETTRACE_I32:
	case NETTRACE_U32:
	case NETTRACE_F32:
	case NETTRACE_REL_LOC:
	case NETTRACE_DATA_LOC:
		return 4;
	case NETTRACE_I64:
	case NETTRACE_U64:
	case NETTRACE_F64:
		return 8;
	case NETTRACE_DATETIME: /* a FILETIME from EventSource, a SYSTEMTIME from version 6 on */
		return w->format >= 6 ? 16 : 8;
	case NETTRACE_DECIMAL:
	case NETTRACE_GUID:
		return 16;
	default:
		return 0;
	}
}

/* The description of an array's element, in `room` unless it has one of its own. */
static const struct nettrace_field *element_of(const struct nettrace_field *f, struct nettrace_field *room)
{
	switch (f->element) {
	case NETTRACE_ARRAY:
	case NETTRACE_FIXED_ARRAY:
	case NETTRACE_REL_LOC:
	case NETTRACE_DATA_LOC:
		return f->children;
	default:
		*room = (struct nettrace_field){
			.name = "", .type = f->element, .children = f->children, .n_children = f->n_children
		};
		return room;
	}
}

static void skip(struct nettrace_walk *w, const struct nettrace_field *f, unsigned depth);

static void skip_elements(struct nettrace_walk *w, const struct nettrace_field *f, size_t count, unsigned depth)
{
	struct nettrace_field room;
	const struct nettrace_field *element = element_of(f, &room);
	size_t size = fixed_size(w, element->type);
	if (size) {
		cursor_take(&w->c, size * count);
		return;
	}
	for (size_t i = 0; i < count && cursor_ok(&w->c); i++) {
		const uint8_t *before = w->c.p;
		skip(w, element, depth + 1);
		/* Elements of no size would make a short payload endless. */
		if (w->c.p == before)
			w->c.bad = true;
	}
}

static void skip(struct nettrace_walk *w, const struct nettrace_field *f, unsigned depth)
{
	if (depth > 2 * NETTRACE_MAX_DEPTH) {
		w->c.bad = true;
		return;
	}
	switch (f->type) {
	case NETTRACE_UTF16Z:
		cursor_utf16z(&w->c);
		break;
	case NETTRACE_UTF8:
		cursor_take(&w->c, cursor_u16(&w->c));
		break;
	case NETTRACE_VARINT:
	case NETTRACE_VARUINT:
		cursor_varu64(&w->c);
		break;
	case NETTRACE_OBJECT:
		for (size_t i = 0; i < f->n_children && cursor_ok(&w->c); i++)
			skip(w, &f->children[i], depth + 1);
		break;
	case NETTRACE_ARRAY:
		if (f->element == NETTRACE_UTF8)
			cursor_take(&w->c, cursor_u16(&w->c));
		else
			skip_elements(w, f, cursor_u16(&w->c), depth);
		break;
	case NETTRACE_FIXED_ARRAY:
		if (f->element == NETTRACE_UTF8)
			cursor_take(&w->c, f->fixed_count);
		else
			skip_elements(w, f, f->fixed_count, depth);
		break;
	default:
		cursor_take(&w->c, fixed_size(w, f->type));
	}
}

static void set_bytes(struct nettrace_value *v, enum nettrace_kind kind, const uint8_t *bytes, size_t size)
{
	v->kind = kind;
	v->bytes = bytes;
	v->size = bytes ? size : 0;
}

static void read_time(struct nettrace_walk *w, struct nettrace_value *v)
{
	v->kind = NETTRACE_IS_TIME;
	if (w->format >= 6) {
		/* What is no date is time 0; the walk itself is fine. */
		if (!nettrace_systemtime_ns(&w->c, &v->i))
			v->i = 0;
		return;
	}
	int64_t ticks = cursor_i64(&w->c), unix_ns;
	bool passes = __builtin_sub_overflow(ticks, FILETIME_UNIX_EPOCH, &ticks) ||
		      __builtin_mul_overflow(ticks, 100, &unix_ns);
	v->i = passes ? 0 : unix_ns;
}

static void read_int(struct nettrace_value *v, int64_t i)
{
	v->kind = NETTRACE_IS_INT;
	v->i = i;
}

static void read_uint(struct nettrace_value *v, uint64_t u, enum nettrace_kind kind)
{
	v->kind = kind;
	v->u = kind == NETTRACE_IS_BOOL ? u != 0 : u;
}

/* An array at `bytes`: as text or bytes where its elements are such. */
static void set_array(struct nettrace_value *v, enum nettrace_type element, const uint8_t *bytes, size_t size,
		      size_t count)
{
	set_bytes(v, NETTRACE_IS_ARRAY, bytes, size);
	v->count = bytes ? count : 0;
	if (element == NETTRACE_U8)
		v->kind = NETTRACE_IS_BYTES;
	if (element == NETTRACE_UTF8)
		v->kind = NETTRACE_IS_UTF8;
	if (element == NETTRACE_CHAR16) {
		v->kind = NETTRACE_IS_UTF16;
		v->utf16 = (struct utf16_span){ v->bytes, v->size / 2 };
	}
}

/* u32: size in bytes << 16 | position. */
static void read_loc(struct nettrace_walk *w, const struct nettrace_field *f, struct nettrace_value *v)
{
	uint32_t loc = cursor_u32(&w->c);
	size_t size = loc >> 16, at = loc & 0xffff;
	struct cursor there = w->payload;
	if (f->type == NETTRACE_REL_LOC)
		there.p = w->c.p;
	cursor_take(&there, at);
	const uint8_t *bytes = cursor_take(&there, size);
	size_t each = f->element == NETTRACE_UTF8 ? 1 : fixed_size(w, f->element);
	if (!bytes || !each)
		w->c.bad = true;
	else
		set_array(v, f->element, bytes, size, size / each);
}

static void read_array(struct nettrace_walk *w, const struct nettrace_field *f, struct nettrace_value *v)
{
	size_t count = f->type == NETTRACE_ARRAY ? cursor_u16(&w->c) : f->fixed_count;
	const uint8_t *start = w->c.p;
	if (f->element == NETTRACE_UTF8)
		cursor_take(&w->c, count);
	else
		skip_elements(w, f, count, 0);
	set_array(v, f->element, start, (size_t)(w->c.p - start), count);
}

static void read_composite(struct nettrace_walk *w, const struct nettrace_field *f, struct nettrace_value *v)
{
	const uint8_t *start = w->c.p;
	switch (f->type) {
	case NETTRACE_UTF16Z:
		v->kind = NETTRACE_IS_UTF16;
		v->utf16 = cursor_utf16z(&w->c);
		v->bytes = v->utf16.units;
		v->size = v->utf16.n * 2;
		break;
	case NETTRACE_UTF8: {
		size_t size = cursor_u16(&w->c);
		set_bytes(v, NETTRACE_IS_UTF8, cursor_take(&w->c, size), size);
		break;
	}
	case NETTRACE_ARRAY:
	case NETTRACE_FIXED_ARRAY:
		read_array(w, f, v);
		break;
	case NETTRACE_REL_LOC:
	case NETTRACE_DATA_LOC:
		read_loc(w, f, v);
		break;
	default:
		skip(w, f, 0);
		set_bytes(v, NETTRACE_IS_OBJECT, start, (size_t)(w->c.p - start));
	}
}

static void read_value(struct nettrace_walk *w, const struct nettrace_field *f, struct nettrace_value *v)
{
	struct cursor *c = &w->c;
	v->bytes = c->p;
	v->size = fixed_size(w, f->type);
	switch (f->type) {
	case NETTRACE_I8:
		return read_int(v, (int8_t)cursor_u8(c));
	case NETTRACE_I16:
		return read_int(v, (int16_t)cursor_u16(c));
	case NETTRACE_I32:
		return read_int(v, cursor_i32(c));
	case NETTRACE_I64:
		return read_int(v, cursor_i64(c));
	case NETTRACE_U8:
		return read_uint(v, cursor_u8(c), NETTRACE_IS_UINT);
	case NETTRACE_U16:
		return read_uint(v, cursor_u16(c), NETTRACE_IS_UINT);
	case NETTRACE_U32:
		return read_uint(v, cursor_u32(c), NETTRACE_IS_UINT);
	case NETTRACE_U64:
		return read_uint(v, cursor_u64(c), NETTRACE_IS_UINT);
	case NETTRACE_BOOL8:
		return read_uint(v, cursor_u8(c), NETTRACE_IS_BOOL);
	case NETTRACE_BOOL32:
		return read_uint(v, cursor_u32(c), NETTRACE_IS_BOOL);
	case NETTRACE_VARUINT:
		return read_uint(v, cursor_varu64(c), NETTRACE_IS_UINT);
	case NETTRACE_VARINT: {
		uint64_t u = cursor_varu64(c);
		return read_int(v, (int64_t)(u >> 1 ^ -(u & 1)));
	}
	case NETTRACE_F32:
		v->kind = NETTRACE_IS_DOUBLE;
		v->d = (double)cursor_f32(c);
		return;
	case NETTRACE_F64:
		v->kind = NETTRACE_IS_DOUBLE;
		v->d = cursor_f64(c);
		return;
	case NETTRACE_DATETIME:
		return read_time(w, v);
	case NETTRACE_GUID:
		return set_bytes(v, NETTRACE_IS_GUID, cursor_take(c, 16), 16);
	case NETTRACE_DECIMAL:
		return set_bytes(v, NETTRACE_IS_BYTES, cursor_take(c, 16), 16);
	case NETTRACE_CHAR16:
		set_bytes(v, NETTRACE_IS_UTF16, cursor_take(c, 2), 2);
		v->utf16 = (struct utf16_span){ v->bytes, v->size / 2 };
		return;
	default:
		return read_composite(w, f, v);
	}
}

bool nettrace_walk_next(struct nettrace_walk *w, struct nettrace_value *ret)
{
	if (!w->left || !cursor_ok(&w->c))
		return false;
	struct nettrace_field room;
	const struct nettrace_field *f = w->elements ? element_of(w->fields, &room) : w->fields;
	struct nettrace_value v = { .name = w->elements || !f->name ? "" : f->name, .field = w->fields };
	read_value(w, f, &v);
	if (!cursor_ok(&w->c))
		return false;
	w->left--;
	if (!w->elements)
		w->fields++;
	*ret = v;
	return true;
}

struct nettrace_walk nettrace_walk_into(const struct nettrace_walk *walk, const struct nettrace_value *value)
{
	struct nettrace_walk in = { .c = cursor_make(value->bytes, value->size),
				    .payload = walk->payload,
				    .format = walk->format };
	const struct nettrace_field *f = value->field;
	/* The element of an array of arrays is described by the array's only child. */
	if (walk->elements && f->n_children && f->element != NETTRACE_OBJECT && value->kind == NETTRACE_IS_ARRAY)
		f = f->children;
	if (value->kind == NETTRACE_IS_OBJECT) {
		in.fields = f->children;
		in.left = f->n_children;
	} else if (value->kind == NETTRACE_IS_ARRAY) {
		in.fields = f;
		in.left = value->count;
		in.elements = true;
	}
	return in;
}

static bool find(struct nettrace_walk *w, const char *path, unsigned depth, struct nettrace_value *ret)
{
	struct nettrace_value v;
	while (depth <= NETTRACE_MAX_DEPTH && nettrace_walk_next(w, &v)) {
		size_t len = strlen(v.name);
		if (strncmp(path, v.name, len) != 0)
			continue;
		if (len && !path[len]) {
			*ret = v;
			return true;
		}
		if (v.kind != NETTRACE_IS_OBJECT || (len && path[len] != '.'))
			continue;
		struct nettrace_walk in = nettrace_walk_into(w, &v);
		if (find(&in, path + len + (len ? 1 : 0), depth + 1, ret))
			return true;
	}
	return false;
}

bool nettrace_find(const struct nettrace_event *event, const char *path, struct nettrace_value *ret)
{
	struct nettrace_walk w = nettrace_walk_make(event);
	return find(&w, path, 0, ret);
}

bool nettrace_value_number(const struct nettrace_value *v, double *ret)
{
	switch (v->kind) {
	case NETTRACE_IS_INT:
		*ret = (double)v->i;
		return true;
	case NETTRACE_IS_UINT:
	case NETTRACE_IS_BOOL:
		*ret = (double)v->u;
		return true;
	case NETTRACE_IS_DOUBLE:
		*ret = v->d;
		return true;
	default:
		return false;
	}
}

bool nettrace_value_text(const struct nettrace_value *v, struct buf *out)
{
	if (v->kind == NETTRACE_IS_UTF16)
		utf16_add(out, v->utf16.units, v->utf16.n);
	else if (v->kind == NETTRACE_IS_UTF8)
		utf8_add_valid(out, (const char *)v->bytes, v->size);
	else
		return false;
	return true;
}
