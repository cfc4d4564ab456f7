/* Of the streams of its metadata (symbols/metadata.c):
 *
 *   #Pdb       id (20 bytes), u32 entry point, u64 which tables of the assembly are referred to, their row counts
 *   #~         the tables
 *   #Strings, #Blob, #GUID
 *
 * Tables: 0x30 Document, 0x31 MethodDebugInformation, 0x32 LocalScope, 0x33 LocalVariable, 0x34 LocalConstant,
 * 0x35 ImportScope, 0x36 StateMachineMethod, 0x37 CustomDebugInformation. Row numbers begin at 1. */

#include "symbols/pdb.h"
#include "base/cursor.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "symbols/metadata.h"
#include <string.h>

#define MAX_PATH_BYTES 4096
#define MAX_POINTS 1000000
#define METHOD_TOKEN 0x06000000u
#define ROW_MASK 0x00ffffffu
#define HIDDEN_LINE 0xfeefee

enum {
	DOCUMENT = 0x30,
	METHOD_DEBUG,
	LOCAL_SCOPE,
	LOCAL_VARIABLE,
	LOCAL_CONSTANT,
	IMPORT_SCOPE,
	STATE_MACHINE,
	CUSTOM,
	TABLES = METADATA_TABLES,
};

struct pdb_table {
	const uint8_t *rows;
	uint32_t n, row_size;
};

struct pdb {
	uint8_t *bytes;
	size_t len;
	const uint8_t *id;
	struct metadata streams;
	struct pdb_table tables[8]; /* 0x30 ... */
	uint32_t counts[TABLES];    /* rows, of the assembly's tables too */
	bool wide_strings, wide_guids, wide_blobs;
	struct strtab names; /* of documents and variables */
	struct map_u64 documents;
};

/* ---- opening ---- */

static uint32_t index_size(uint32_t rows)
{
	return rows < 65536 ? 2 : 4;
}

/* A coded index that may refer to any of the tables that custom debug information hangs on: 5 bits say which. */
static uint32_t custom_parent_size(const struct pdb *p)
{
	static const uint8_t parents[] = { 0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0a, 0x00, 0x0e,
					   0x17, 0x14, 0x11, 0x1a, 0x1b, 0x20, 0x23, 0x26, 0x27,
					   0x28, 0x2a, 0x2c, 0x2b, 0x30, 0x32, 0x33, 0x34, 0x35 };
	for (size_t i = 0; i < ARRAY_SIZE(parents); i++)
		if (p->counts[parents[i]] >= 1u << 11)
			return 4;
	return 2;
}

static uint32_t row_size(const struct pdb *p, unsigned table)
{
	uint32_t s = p->wide_strings ? 4 : 2, g = p->wide_guids ? 4 : 2, b = p->wide_blobs ? 4 : 2;
	uint32_t method = index_size(p->counts[METHOD_TOKEN >> 24]);
	switch (table) {
	case DOCUMENT:
		return b + g + b + g;
	case METHOD_DEBUG:
		return index_size(p->counts[DOCUMENT]) + b;
	case LOCAL_SCOPE:
		return method + index_size(p->counts[IMPORT_SCOPE]) + index_size(p->counts[LOCAL_VARIABLE]) +
		       index_size(p->counts[LOCAL_CONSTANT]) + 8;
	case LOCAL_VARIABLE:
		return 4 + s;
	case LOCAL_CONSTANT:
		return s + b;
	case IMPORT_SCOPE:
		return index_size(p->counts[IMPORT_SCOPE]) + b;
	case STATE_MACHINE:
		return 2 * method;
	case CUSTOM:
		return custom_parent_size(p) + g + b;
	default:
		return 0;
	}
}

static bool find_tables(struct pdb *p, struct span stream)
{
	struct cursor c = cursor_make(stream.p, stream.len);
	cursor_take(&c, 6);
	uint8_t heaps = cursor_u8(&c);
	cursor_u8(&c);
	uint64_t valid = cursor_u64(&c);
	cursor_u64(&c);
	p->wide_strings = heaps & 1;
	p->wide_guids = heaps & 2;
	p->wide_blobs = heaps & 4;
	if (valid & (((uint64_t)1 << DOCUMENT) - 1) || valid >> (CUSTOM + 1))
		return false;
	if (!metadata_counts(&c, valid, p->counts, DOCUMENT, CUSTOM + 1))
		return false;
	for (unsigned i = DOCUMENT; i <= CUSTOM; i++) {
		struct pdb_table *t = &p->tables[i - DOCUMENT];
		t->row_size = row_size(p, i);
		t->n = p->counts[i];
		t->rows = cursor_take(&c, (size_t)t->n * t->row_size);
		if (!t->rows)
			return false;
	}
	return true;
}

static bool parse(struct pdb *p)
{
	const struct metadata *m = &p->streams;
	if (!metadata_streams(p->bytes, p->len, &p->streams) || !m->pdb.p)
		return false;
	struct cursor c = cursor_make(m->pdb.p, m->pdb.len);
	p->id = cursor_take(&c, PDB_ID_BYTES);
	cursor_u32(&c);
	uint64_t referenced = cursor_u64(&c);
	return metadata_counts(&c, referenced, p->counts, 0, DOCUMENT) && find_tables(p, m->tables);
}

struct err *pdb_from_bytes(void *bytes, size_t len, const uint8_t *want_id, struct pdb **ret)
{
	CLEANUP(pdb_freep) struct pdb *p = mem_zalloc(sizeof(*p));
	p->bytes = bytes;
	p->len = len;
	if (!parse(p))
		return err_new(ERR_BAD_DATA, "not a portable PDB, or damaged");
	if (want_id && memcmp(p->id, want_id, PDB_ID_BYTES) != 0)
		return err_new(ERR_NOT_FOUND, "it belongs to another build of the assembly");
	*ret = STEAL(p);
	return NULL;
}

void pdb_free(struct pdb *p)
{
	if (!p)
		return;
	strtab_free(&p->names);
	map_u64_free(&p->documents);
	mem_free(p->bytes);
	mem_free(p);
}

const uint8_t *pdb_id(const struct pdb *p)
{
	return p->id;
}

/* ---- heaps and rows ---- */

/* ECMA-335 II.23.2: 1, 2 or 4 bytes. ret_bits gets how many bits of value they hold. */
static uint32_t compressed(struct cursor *c, unsigned *ret_bits)
{
	uint32_t a = cursor_u8(c);
	if (!(a & 0x80)) {
		*ret_bits = 7;
		return a;
	}
	uint32_t b = cursor_u8(c);
	if (!(a & 0x40)) {
		*ret_bits = 14;
		return (a & 0x3f) << 8 | b;
	}
	uint32_t d = cursor_u8(c), e = cursor_u8(c);
	*ret_bits = 29;
	return (a & 0x1f) << 24 | b << 16 | d << 8 | e;
}

static uint32_t compressed_u32(struct cursor *c)
{
	unsigned bits;
	return compressed(c, &bits);
}

/* The sign is the lowest bit: the rest is what is left when the number is turned round. */
static int32_t compressed_i32(struct cursor *c)
{
	unsigned bits;
	uint32_t v = compressed(c, &bits);
	int32_t half = (int32_t)(v >> 1);
	return v & 1 ? half - (int32_t)(1u << (bits - 1)) : half;
}

static struct cursor blob(const struct pdb *p, uint32_t at)
{
	struct cursor c = cursor_make(p->streams.blobs.p, p->streams.blobs.len);
	cursor_take(&c, at);
	uint32_t len = compressed_u32(&c);
	const uint8_t *bytes = cursor_take(&c, len);
	return bytes ? cursor_make(bytes, len) : (struct cursor){ .bad = true };
}

static uint32_t column(struct cursor *row, bool wide)
{
	return wide ? cursor_u32(row) : cursor_u16(row);
}

static uint32_t row_column(struct cursor *row, const struct pdb *p, unsigned table)
{
	return column(row, index_size(p->counts[table]) == 4);
}

/* Bad when there is no such row. */
static struct cursor row_at(const struct pdb *p, unsigned table, uint32_t number)
{
	const struct pdb_table *t = &p->tables[table - DOCUMENT];
	if (!number || number > t->n)
		return (struct cursor){ .bad = true };
	return cursor_make(t->rows + (size_t)(number - 1) * t->row_size, t->row_size);
}

static uint32_t method_row(uint32_t token)
{
	return (token & ~ROW_MASK) == METHOD_TOKEN ? token & ROW_MASK : 0;
}

/* Rows sorted by their first column: the first whose key is not below. */
static uint32_t lower_row(const struct pdb *p, unsigned table, bool wide, uint32_t key)
{
	uint32_t low = 1, high = p->tables[table - DOCUMENT].n + 1;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		struct cursor row = row_at(p, table, mid);
		if (column(&row, wide) < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A blob: the separator, then the blobs of the parts. */
static const char *document_name(struct pdb *p, uint32_t number)
{
	bool is_new;
	uint64_t *known = map_u64_put(&p->documents, number, &is_new);
	if (!is_new)
		return strtab_get(&p->names, (uint32_t)*known);
	CLEANUP(buf_free) struct buf name = { .limit = MAX_PATH_BYTES };
	struct cursor row = row_at(p, DOCUMENT, number);
	uint32_t at = column(&row, p->wide_blobs);
	struct cursor c = cursor_ok(&row) ? blob(p, at) : row;
	char separator = (char)cursor_u8(&c);
	for (size_t i = 0; cursor_ok(&c) && cursor_left(&c) && !name.overflow; i++) {
		uint32_t part_at = compressed_u32(&c);
		struct cursor part = blob(p, part_at);
		if (i && separator)
			buf_char(&name, separator);
		if (part_at && cursor_ok(&part))
			utf8_add_valid(&name, (const char *)part.p, cursor_left(&part));
	}
	*known = strtab_add(&p->names, buf_cstr(&name), name.len);
	return strtab_get(&p->names, (uint32_t)*known);
}

/* ---- lines ---- */

/* The records of a method's sequence points, one by one. */
struct points {
	struct cursor c;
	uint32_t document, il, line, column;
	bool any, any_visible;
	unsigned left;
};

static struct points points_of(const struct pdb *p, uint32_t method)
{
	struct points s = { .left = MAX_POINTS };
	struct cursor row = row_at(p, METHOD_DEBUG, method);
	s.document = row_column(&row, p, DOCUMENT);
	uint32_t at = column(&row, p->wide_blobs);
	if (!cursor_ok(&row) || !at) {
		s.c.bad = true;
		return s;
	}
	s.c = blob(p, at);
	compressed_u32(&s.c); /* the signature of the locals */
	if (!s.document)
		s.document = compressed_u32(&s.c);
	return s;
}

struct pdb_point {
	uint32_t il, line, column, document;
	bool hidden;
};

static bool next_point(struct points *s, struct pdb_point *ret)
{
	while (cursor_ok(&s->c) && cursor_left(&s->c) && s->left--) {
		uint32_t il = compressed_u32(&s->c);
		if (!il && s->any) {
			s->document = compressed_u32(&s->c);
			continue;
		}
		s->il += il;
		s->any = true;
		uint32_t lines = compressed_u32(&s->c);
		int32_t columns = lines ? compressed_i32(&s->c) : (int32_t)compressed_u32(&s->c);
		*ret = (struct pdb_point){ .il = s->il, .hidden = !lines && !columns };
		if (!ret->hidden) {
			if (s->any_visible) {
				s->line += (uint32_t)compressed_i32(&s->c);
				s->column += (uint32_t)compressed_i32(&s->c);
			} else {
				s->line = compressed_u32(&s->c);
				s->column = compressed_u32(&s->c);
			}
			s->any_visible = true;
			ret->hidden = s->line == HIDDEN_LINE;
		}
		ret->line = s->line;
		ret->column = s->column;
		ret->document = s->document;
		return cursor_ok(&s->c);
	}
	return false;
}

bool pdb_line(struct pdb *p, uint32_t method, uint32_t il_offset, struct pdb_line *ret)
{
	struct points all = points_of(p, method_row(method));
	struct pdb_point at, best = { .hidden = true };
	while (next_point(&all, &at)) {
		/* A method may begin with code that has no source line: then its first line is used. */
		if (at.il > il_offset && !best.hidden)
			break;
		if (!at.hidden)
			best = at;
	}
	if (best.hidden)
		return false;
	const char *file = document_name(p, best.document);
	if (!*file)
		return false;
	*ret = (struct pdb_line){ file, best.line, best.column, best.il };
	return true;
}

/* ---- state machines ---- */

static bool method_wide(const struct pdb *p)
{
	return index_size(p->counts[METHOD_TOKEN >> 24]) == 4;
}

uint32_t pdb_kickoff(struct pdb *p, uint32_t move_next)
{
	bool wide = method_wide(p);
	uint32_t method = method_row(move_next);
	struct cursor row = row_at(p, STATE_MACHINE, lower_row(p, STATE_MACHINE, wide, method));
	uint32_t found = column(&row, wide), kickoff = column(&row, wide);
	return method && cursor_ok(&row) && found == method && kickoff && kickoff <= ROW_MASK ? METHOD_TOKEN | kickoff
											      : 0;
}

/* {54FD2AC5-E925-401A-9C2A-F94F171072F8}: u32 catch handler, then for each await u32 yield, u32 resume, MoveNext. */
static const uint8_t async_kind[16] = { 0xc5, 0x2a, 0xfd, 0x54, 0x25, 0xe9, 0x1a, 0x40,
					0x9c, 0x2a, 0xf9, 0x4f, 0x17, 0x10, 0x72, 0xf8 };

static bool is_guid(const struct pdb *p, uint32_t number, const uint8_t want[16])
{
	return number && (size_t)number * 16 <= p->streams.guids.len &&
	       !memcmp(p->streams.guids.p + (size_t)(number - 1) * 16, want, 16);
}

static struct cursor async_info(const struct pdb *p, uint32_t method)
{
	bool wide = custom_parent_size(p) == 4;
	uint32_t parent = method << 5; /* tag 0: a method */
	for (uint32_t i = lower_row(p, CUSTOM, wide, parent);; i++) {
		struct cursor row = row_at(p, CUSTOM, i);
		uint32_t owner = column(&row, wide), kind = column(&row, p->wide_guids),
			 value = column(&row, p->wide_blobs);
		if (!cursor_ok(&row) || owner != parent)
			return (struct cursor){ .bad = true };
		if (is_guid(p, kind, async_kind))
			return blob(p, value);
	}
}

bool pdb_await(struct pdb *p, uint32_t move_next, uint32_t await, struct pdb_line *ret)
{
	uint32_t method = method_row(move_next);
	if (!method || method >= 1u << 27)
		return false;
	struct cursor c = async_info(p, method);
	cursor_u32(&c);
	for (uint32_t i = 0; cursor_ok(&c); i++) {
		uint32_t yield = cursor_u32(&c);
		cursor_u32(&c);
		compressed_u32(&c);
		if (cursor_ok(&c) && i == await)
			return pdb_line(p, move_next, yield, ret);
	}
	return false;
}

/* ---- local variables ---- */

static const char *string_at(struct pdb *p, uint32_t at)
{
	if (at >= p->streams.strings.len)
		return NULL;
	const char *s = (const char *)p->streams.strings.p + at;
	size_t room = p->streams.strings.len - at, len = strnlen(s, room);
	return len < room ? strtab_get(&p->names, strtab_add(&p->names, s, len)) : NULL;
}

/* One scope of a method: rows [variables, end) of the variables are declared in it. */
struct pdb_scope {
	uint32_t method, variables, end, il, len;
};

static bool scope_at(const struct pdb *p, uint32_t number, struct pdb_scope *ret)
{
	struct cursor row = row_at(p, LOCAL_SCOPE, number);
	ret->method = column(&row, method_wide(p));
	row_column(&row, p, IMPORT_SCOPE);
	ret->variables = row_column(&row, p, LOCAL_VARIABLE);
	row_column(&row, p, LOCAL_CONSTANT);
	ret->il = cursor_u32(&row);
	ret->len = cursor_u32(&row);
	if (!cursor_ok(&row))
		return false;
	struct cursor after = row_at(p, LOCAL_SCOPE, number + 1);
	column(&after, method_wide(p));
	row_column(&after, p, IMPORT_SCOPE);
	uint32_t next = row_column(&after, p, LOCAL_VARIABLE);
	uint32_t last = p->counts[LOCAL_VARIABLE] + 1;
	ret->end = cursor_ok(&after) ? MIN(next, last) : last;
	return true;
}

const char *pdb_local(struct pdb *p, uint32_t method_token, uint32_t il_offset, uint32_t slot)
{
	uint32_t method = method_row(method_token);
	const char *name = NULL;
	struct pdb_scope s;
	if (!method)
		return NULL;
	/* Outer scopes come first: the last that fits is the innermost. */
	for (uint32_t i = lower_row(p, LOCAL_SCOPE, method_wide(p), method); scope_at(p, i, &s) && s.method == method;
	     i++) {
		if (il_offset < s.il || il_offset - s.il >= s.len)
			continue;
		for (uint32_t v = s.variables; v < s.end; v++) {
			struct cursor row = row_at(p, LOCAL_VARIABLE, v);
			uint16_t attributes = cursor_u16(&row), index = cursor_u16(&row);
			uint32_t at = column(&row, p->wide_strings);
			if (cursor_ok(&row) && index == slot && !(attributes & 1))
				name = string_at(p, at);
		}
	}
	return name;
}
