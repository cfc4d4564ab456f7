/* Metadata root: "BSJB", u16 u16, u32, u32 length of the version, version, u16, u16 number of streams, then {u32
 * offset, u32 size, name padded to 4}. The stream #~ has the tables: byte 6: heaps with wide indexes; at 8: u64 which
 * tables are here; from 24: their row counts, then rows. The first three:
 *
 *   0 Module   u16, name, three GUIDs
 *   1 TypeRef  ResolutionScope (2 bits say which table), name, namespace
 *   2 TypeDef  u32 flags, name, namespace, Extends (2 bits), first field, first method
 *
 * An index has 2 bytes, or 4 when the table or heap that it refers to is large. */

#include "symbols/metadata.h"
#include "base/str.h"
#include "symbols/pe.h"
#include <string.h>
#include <unistd.h>

#define MAX_STREAMS 16
#define HEADER_BYTES 4096
#define MAX_ASSEMBLY_BYTES ((uint64_t)1 << 30)
#define CLI_HEADER_BYTES 72
#define MAX_NAME_BYTES 1024
#define NESTED_MASK 7 /* of a type's flags: 0 and 1 are not nested */
#define WIDE_STRINGS 1
#define WIDE_GUIDS 2

enum { TYPE_REF = 1, TYPE_DEF, FIELD = 4, METHOD = 6, MODULE_REF = 0x1a, TYPE_SPEC = 0x1b, ASSEMBLY_REF = 0x23 };

bool metadata_streams(const uint8_t *bytes, size_t len, struct metadata *ret)
{
	struct cursor c = cursor_make(bytes, len);
	*ret = (struct metadata){ 0 };
	if (cursor_u32(&c) != 0x424a5342)
		return false;
	cursor_take(&c, 8);
	uint32_t version = cursor_u32(&c);
	cursor_take(&c, version);
	cursor_u16(&c);
	uint16_t n = cursor_u16(&c);
	for (size_t i = 0; i < n && i < MAX_STREAMS; i++) {
		uint32_t offset = cursor_u32(&c), size = cursor_u32(&c);
		const char *name = (const char *)c.p;
		size_t room = MIN(cursor_left(&c), (size_t)32), name_len = strnlen(name, room);
		if (!cursor_ok(&c) || name_len == room || offset > len || size > len - offset)
			return false;
		cursor_take(&c, (name_len + 4) & ~(size_t)3);
		struct span s = { bytes + offset, size };
		if (str_eq(name, "#Pdb"))
			ret->pdb = s;
		else if (str_eq(name, "#~"))
			ret->tables = s;
		else if (str_eq(name, "#Strings"))
			ret->strings = s;
		else if (str_eq(name, "#Blob"))
			ret->blobs = s;
		else if (str_eq(name, "#GUID"))
			ret->guids = s;
	}
	return ret->tables.p;
}

bool metadata_counts(struct cursor *c, uint64_t valid, uint32_t counts[METADATA_TABLES], unsigned from, unsigned to)
{
	for (unsigned i = 0; i < METADATA_TABLES; i++) {
		if (!(valid & (uint64_t)1 << i))
			continue;
		uint32_t n = cursor_u32(c);
		if (i >= from && i < to)
			counts[i] = n;
	}
	return cursor_ok(c);
}

/* --- types --- */

static uint32_t index_size(uint32_t rows)
{
	return rows < 65536 ? 2 : 4;
}

/* Of an index whose 2 low bits say into which table. */
static uint32_t coded_size(const uint32_t *counts, const uint8_t *tables, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (counts[tables[i]] >= 65536 >> 2)
			return 4;
	return 2;
}

static uint32_t read_index(struct cursor *c, uint32_t size)
{
	return size == 4 ? cursor_u32(c) : cursor_u16(c);
}

/* "" for what is out of place or longer than any name. */
static const char *string_at(const struct span *strings, uint32_t at)
{
	size_t room = at < strings->len ? MIN(strings->len - at, (size_t)MAX_NAME_BYTES) : 0;
	if (!room || strnlen((const char *)strings->p + at, room) == room)
		return "";
	return (const char *)strings->p + at;
}

static bool each_type(const struct metadata *m, assembly_type each, void *user)
{
	uint32_t counts[METADATA_TABLES] = { 0 };
	struct cursor c = cursor_make(m->tables.p, m->tables.len);
	cursor_take(&c, 6);
	uint8_t heaps = cursor_u8(&c);
	cursor_u8(&c);
	uint64_t valid = cursor_u64(&c);
	cursor_u64(&c);
	if (!metadata_counts(&c, valid, counts, 0, METADATA_TABLES))
		return false;
	uint32_t s = heaps & WIDE_STRINGS ? 4 : 2, g = heaps & WIDE_GUIDS ? 4 : 2;
	static const uint8_t scopes[] = { 0, MODULE_REF, ASSEMBLY_REF, TYPE_REF },
			     bases[] = { TYPE_DEF, TYPE_REF, TYPE_SPEC };
	uint32_t scope = coded_size(counts, scopes, ARRAY_SIZE(scopes));
	uint32_t extends = coded_size(counts, bases, ARRAY_SIZE(bases));
	cursor_take(&c, (size_t)counts[0] * (2 + s + 3 * (size_t)g));
	cursor_take(&c, (size_t)counts[TYPE_REF] * (scope + 2 * (size_t)s));
	for (uint32_t i = 0; i < counts[TYPE_DEF]; i++) {
		uint32_t flags = cursor_u32(&c), name = read_index(&c, s), space = read_index(&c, s);
		cursor_take(&c, extends + index_size(counts[FIELD]) + index_size(counts[METHOD]));
		if (!cursor_ok(&c))
			return false;
		if ((flags & NESTED_MASK) <= 1)
			each(user, string_at(&m->strings, space), string_at(&m->strings, name));
	}
	return cursor_ok(&c);
}

/* NULL: it is no assembly. */
static const uint8_t *metadata_of(const struct pe *pe, size_t *ret_len)
{
	size_t room = 0;
	const uint8_t *cli = pe->cli_rva ? pe_at(pe, pe->cli_rva, &room) : NULL;
	struct cursor c = cursor_make(cli, cli ? MIN(room, (size_t)CLI_HEADER_BYTES) : 0);
	cursor_take(&c, 8);
	uint32_t rva = cursor_u32(&c), size = cursor_u32(&c);
	const uint8_t *at = cursor_ok(&c) ? pe_at(pe, rva, &room) : NULL;
	*ret_len = MIN(room, (size_t)size);
	return at;
}

static struct err *types_of(const struct pe *pe, assembly_type each, void *user)
{
	struct metadata m;
	size_t len = 0;
	const uint8_t *at = metadata_of(pe, &len);
	if (!at || !metadata_streams(at, len, &m) || !each_type(&m, each, user))
		return err_new(ERR_BAD_DATA, "not an assembly, or damaged");
	return NULL;
}

struct err *assembly_types_from_bytes(const uint8_t *bytes, size_t len, assembly_type each, void *user)
{
	struct pe pe;
	if (!pe_parse_any(bytes, len, &pe))
		return err_new(ERR_BAD_DATA, "not an assembly");
	return types_of(&pe, each, user);
}

/* What cannot be read stays zero. */
static void load(const struct assembly_file *file, uint8_t *bytes, size_t at, size_t len)
{
	while (len && at < file->size) {
		ssize_t n = pread(file->fd, bytes + at, MIN(len, (size_t)file->size - at), (off_t)(file->offset + at));
		if (n <= 0)
			return;
		at += (size_t)n;
		len -= (size_t)n;
	}
}

/* Code and resources are most of a file; the pages that are not needed here are never read. */
struct err *assembly_types(const struct assembly_file *file, assembly_type each, void *user)
{
	struct pe pe;
	size_t len = 0;
	if (!file->size || file->size > MAX_ASSEMBLY_BYTES || file->offset > INT64_MAX - file->size)
		return err_new(ERR_BAD_DATA, "not an assembly: %llu bytes", (unsigned long long)file->size);
	CLEANUP(mem_freep) uint8_t *bytes = mem_zalloc(file->size);
	load(file, bytes, 0, HEADER_BYTES);
	if (!pe_parse_any(bytes, file->size, &pe))
		return err_new(ERR_BAD_DATA, "not an assembly");
	const uint8_t *cli = pe.cli_rva ? pe_at(&pe, pe.cli_rva, &len) : NULL;
	if (cli)
		load(file, bytes, (size_t)(cli - bytes), MIN(len, (size_t)CLI_HEADER_BYTES));
	const uint8_t *at = metadata_of(&pe, &len);
	if (at)
		load(file, bytes, (size_t)(at - bytes), len);
	return types_of(&pe, each, user);
}
