#include "build_program.h"
#include "build_bytes.h"
#include "base/base.h"
#include <elf.h>
#include <string.h>

static uint32_t add_string(struct buf *strings, const char *s)
{
	uint32_t at = (uint32_t)strings->len;
	if (!*s)
		return 0;
	buf_add(strings, s, strlen(s) + 1);
	return at;
}

/* Module, TypeRef, TypeDef, MethodDef. */
static void add_tables(const struct build_types *types, struct buf *strings, struct buf *out)
{
	size_t heap = types->wide ? 4 : 2, coded = types->n_refs >= 16384 ? 4 : 2;
	put(out, 0, 6);
	put(out, types->wide ? 7 : 0, 1);
	put(out, 1, 1);
	put(out, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6, 8);
	put(out, 0, 8);
	put(out, 1, 4);
	put(out, types->n_refs, 4);
	put(out, types->n, 4);
	put(out, types->n_methods, 4);
	put(out, 0, 2);
	put(out, add_string(strings, "Shop.dll"), heap);
	for (size_t i = 0; i < 3; i++)
		put(out, 0, heap);
	for (uint32_t i = 0; i < types->n_refs; i++) {
		put(out, 0, coded);
		put(out, 0, heap);
		put(out, 0, heap);
	}
	for (size_t i = 0; i < types->n; i++) {
		put(out, *types->v[i].name == '+' ? 2 : i % 2, 4);
		put(out, add_string(strings, types->v[i].name), heap);
		put(out, add_string(strings, types->v[i].space), heap);
		put(out, 0, coded);
		put(out, 1, 2);
		put(out, 1, types->n_methods >= 65536 ? 4 : 2);
	}
	pad(out);
}

static void add_metadata(const struct build_types *types, struct buf *out)
{
	struct buf tables = { 0 }, strings = { 0 };
	buf_char(&strings, 0);
	add_tables(types, &strings, &tables);
	pad(&strings);
	put(out, 0x424a5342, 4);
	put(out, 0x10001, 4);
	put(out, 0, 4);
	put(out, 12, 4);
	buf_add(out, "v4.0.30319\0", 12);
	put(out, 0, 2);
	put(out, 2, 2);
	size_t first = 32 + 8 + 4 + 8 + 12;
	put(out, first, 4);
	put(out, tables.len, 4);
	buf_add(out, "#~\0", 4);
	put(out, first + tables.len, 4);
	put(out, strings.len, 4);
	buf_add(out, "#Strings\0\0\0", 12);
	buf_add(out, tables.data, tables.len);
	buf_add(out, strings.data, strings.len);
	buf_free(&tables);
	buf_free(&strings);
}

void build_typed_assembly(const struct build_types *types, struct buf *out)
{
	struct buf metadata = { 0 };
	/* PE32+ has wider sizes before its directories. */
	size_t optional = types->code ? 240 : 224, directories = 0x98 + optional - 128;
	add_metadata(types, &metadata);
	put_at(out, 0, 0x5a4d, 2);
	put_at(out, 60, 0x80, 4);
	put_at(out, 0x80, 0x4550, 4);
	put_at(out, 0x84, types->code ? 0x8664 : 0x14c, 2);
	put_at(out, 0x86, 1, 2);
	put_at(out, 0x94, optional, 2);
	put_at(out, 0x98, types->code ? 0x20b : 0x10b, 2);
	put_at(out, directories - 4, 16, 4);
	put_at(out, directories + 8 * 14, 0x2000, 4);
	put_at(out, directories + 8 * 14 + 4, 72, 4);
	size_t cli = 0x200, section = 0x98 + optional;
	put_at(out, cli, 72, 4);
	put_at(out, cli + 8, 0x2000 + 72, 4);
	put_at(out, cli + 12, metadata.len, 4);
	put_at(out, cli + 71, 0, 1);
	buf_add(out, metadata.data, metadata.len);
	put_at(out, section + 8, out->len - 0x200, 4);
	put_at(out, section + 12, 0x2000, 4);
	put_at(out, section + 16, out->len - 0x200, 4);
	put_at(out, section + 20, 0x200, 4);
	buf_free(&metadata);
}

static void put_string(struct buf *out, const char *s)
{
	size_t len = strlen(s), left = len;
	for (; left >= 0x80; left >>= 7)
		put(out, (left & 0x7f) | 0x80, 1);
	put(out, left, 1);
	buf_add(out, s, len);
}

void build_bundle_list(const struct build_part *parts, size_t n, uint32_t major, uint64_t first, struct buf *out)
{
	put(out, major, 4);
	put(out, 0, 4);
	put(out, n, 4);
	put_string(out, "aBcDeFgHiJkL");
	for (size_t i = 0; i < 5; i++)
		put(out, 0, 8);
	for (size_t i = 0; i < n; i++) {
		put(out, first, 8);
		bool packed = major >= 6 && parts[i].packed;
		put(out, packed ? parts[i].packed : parts[i].bytes->len, 8);
		if (major >= 6)
			put(out, packed ? parts[i].bytes->len : 0, 8);
		put(out, 1, 1);
		put_string(out, parts[i].path);
		first += parts[i].bytes->len;
	}
}

void build_bundle(const struct build_part *parts, size_t n, uint32_t major, struct buf *out)
{
	static const uint8_t mark[] = { BUILD_BUNDLE_MARK };
	Elf64_Ehdr head = { .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_phoff = sizeof(head),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 1 };
	Elf64_Phdr data = { .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = 0x100, .p_filesz = 64 };
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	buf_add(out, &head, sizeof(head));
	buf_add(out, &data, sizeof(data));
	size_t list = 0x140;
	for (size_t i = 0; i < n; i++)
		list += parts[i].bytes->len;
	put_at(out, 0x110, list, 8);
	put_at(out, 0x13f, 0, 1);
	memcpy(out->data + 0x118, mark, sizeof(mark));
	for (size_t i = 0; i < n; i++)
		buf_add(out, parts[i].bytes->data, parts[i].bytes->len);
	build_bundle_list(parts, n, major, 0x140, out);
}
