#include "symbols/elffile.h"
#include "base/arena.h"
#include "base/filemap.h"
#include "base/vec.h"
#include <elf.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((uint64_t)4 << 30)
#define SEGMENTS_MAX 64
#define SECTIONS_MAX 4096
#define SYMBOLS_MAX 4000000 /* looked at, functions or not, in however many tables */
#define NAME_BYTES_MAX 65536
#define DEBUGDATA_MAX ((size_t)64 << 20) /* of .gnu_debugdata, unpacked */
#define BUILD_ID_MAX 32
/* Functions without a size (assembler) reach to the next one or the end of their section, but not further than this. */
#define UNSIZED_MAX 4096
#define PLT_MAX 16384
#define PLT_ENTRY 16
#define PLT_NAME_MAX 512

struct symbol {
	uint64_t va, size;
	const char *name;
	bool unsized;
};

struct elf {
	const uint8_t *bytes;
	size_t len;
	struct filemap file; /* empty: the bytes are ours */
	Elf64_Phdr segments[SEGMENTS_MAX];
	size_t n_segments;
	VEC(Elf64_Shdr) sections;
	size_t names; /* index of the section names */
	char build_id[2 * BUILD_ID_MAX + 1];
	struct elf *mini; /* from .gnu_debugdata */
	bool symbols_read;
	size_t n_looked_at;
	VEC(struct symbol) symbols;
	struct arena made; /* names that are in no file */
};

/* NULL unless all of it is in the file, and always once that was cut short. */
static const void *in_file(const struct elf *e, uint64_t offset, uint64_t len)
{
	if (offset > e->len || len > e->len - offset || filemap_shrunk(&e->file))
		return NULL;
	return e->bytes + offset;
}

static const uint8_t *section_bytes(const struct elf *e, const Elf64_Shdr *s)
{
	return s->sh_type == SHT_NOBITS ? NULL : in_file(e, s->sh_offset, s->sh_size);
}

/* A string of a string section, NULL when it has no end near by. */
static const char *section_string(const struct elf *e, uint64_t section, uint64_t offset)
{
	if (section >= e->sections.n)
		return NULL;
	const Elf64_Shdr *s = &e->sections.v[section];
	const uint8_t *bytes = section_bytes(e, s);
	if (!bytes || offset >= s->sh_size ||
	    !memchr(bytes + offset, 0, MIN(s->sh_size - offset, (uint64_t)NAME_BYTES_MAX)))
		return NULL;
	return (const char *)bytes + offset;
}

static const Elf64_Shdr *section_find(const struct elf *e, const char *name)
{
	vec_each(s, &e->sections) {
		const char *its = section_string(e, e->names, s->sh_name);
		if (its && !strcmp(its, name))
			return s;
	}
	return NULL;
}

static void read_build_id(struct elf *e, const uint8_t *notes, size_t len)
{
	size_t at = 0;
	while (len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		memcpy(&n, notes + at, sizeof(n));
		at += sizeof(n);
		uint64_t name = ((uint64_t)n.n_namesz + 3) & ~3ull, desc = ((uint64_t)n.n_descsz + 3) & ~3ull;
		if (name > len - at || desc > len - at - name)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(notes + at, "GNU", 4)) {
			const uint8_t *id = notes + at + name;
			for (size_t i = 0; i < MIN(n.n_descsz, (uint32_t)BUILD_ID_MAX); i++) {
				e->build_id[2 * i] = "0123456789abcdef"[id[i] >> 4];
				e->build_id[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
			}
			return;
		}
		at += name + desc;
	}
}

static void read_segments(struct elf *e, const Elf64_Ehdr *h)
{
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return;
	for (size_t i = 0; i < h->e_phnum && e->n_segments < SEGMENTS_MAX; i++) {
		const void *p = in_file(e, h->e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
		if (!p)
			return;
		Elf64_Phdr *seg = &e->segments[e->n_segments++];
		memcpy(seg, p, sizeof(*seg));
		const uint8_t *notes = seg->p_type == PT_NOTE ? in_file(e, seg->p_offset, seg->p_filesz) : NULL;
		if (notes && !*e->build_id)
			read_build_id(e, notes, seg->p_filesz);
	}
}

static void read_sections(struct elf *e, const Elf64_Ehdr *h)
{
	if (!h->e_shoff || h->e_shentsize != sizeof(Elf64_Shdr))
		return;
	for (size_t i = 0; i < MIN((size_t)h->e_shnum, (size_t)SECTIONS_MAX); i++) {
		const void *p = in_file(e, h->e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
		if (!p)
			break;
		memcpy(vec_add(&e->sections), p, sizeof(Elf64_Shdr));
	}
	e->names = h->e_shstrndx;
	vec_each(s, &e->sections) {
		const uint8_t *notes = s->sh_type == SHT_NOTE ? section_bytes(e, s) : NULL;
		if (notes && !*e->build_id)
			read_build_id(e, notes, s->sh_size);
	}
}

static struct err *parse(struct elf *e)
{
	Elf64_Ehdr h;
	const void *p = in_file(e, 0, sizeof(h));
	if (!p)
		return err_new(ERR_BAD_DATA, "too short for an ELF file");
	memcpy(&h, p, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB)
		return err_new(ERR_BAD_DATA, "not a 64-bit little-endian ELF file");
	read_segments(e, &h);
	read_sections(e, &h);
	return NULL;
}

struct err *elf_open(int fd, struct elf **ret)
{
	CLEANUP(elf_freep) struct elf *e = mem_zalloc(sizeof(*e));
	TRY(filemap_open(fd, FILE_MAX, &e->file));
	e->bytes = e->file.bytes;
	e->len = e->file.len;
	struct err *err = parse(e);
	if (filemap_shrunk(&e->file)) {
		err_ignore(err);
		return err_new(ERR_IO, "it became shorter while it was read");
	}
	TRY(err);
	*ret = STEAL(e);
	return NULL;
}

struct err *elf_from_bytes(void *bytes, size_t len, struct elf **ret)
{
	CLEANUP(elf_freep) struct elf *e = mem_zalloc(sizeof(*e));
	e->bytes = bytes;
	e->len = len;
	TRY(parse(e));
	*ret = STEAL(e);
	return NULL;
}

void elf_free(struct elf *e)
{
	if (!e)
		return;
	if (!e->file.bytes)
		mem_free((void *)(uintptr_t)e->bytes);
	filemap_close(&e->file);
	elf_free(e->mini);
	vec_free(&e->sections);
	vec_free(&e->symbols);
	arena_free(&e->made);
	mem_free(e);
}

bool elf_va(const struct elf *e, uint64_t offset, uint64_t *ret_va)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *s = &e->segments[i];
		if (s->p_type == PT_LOAD && offset >= s->p_offset && offset - s->p_offset < s->p_filesz) {
			*ret_va = offset - s->p_offset + s->p_vaddr;
			return true;
		}
	}
	return false;
}

const uint8_t *elf_at(const struct elf *e, uint64_t va, size_t *ret_len)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *s = &e->segments[i];
		if (s->p_type != PT_LOAD || va < s->p_vaddr || va - s->p_vaddr >= s->p_filesz)
			continue;
		uint64_t into = va - s->p_vaddr;
		const uint8_t *p = in_file(e, s->p_offset, s->p_filesz);
		if (!p)
			return NULL;
		*ret_len = s->p_filesz - into;
		return p + into;
	}
	return NULL;
}

const uint8_t *elf_unwind_index(const struct elf *e, uint64_t *ret_va, size_t *ret_len)
{
	for (size_t i = 0; i < e->n_segments; i++) {
		const Elf64_Phdr *s = &e->segments[i];
		if (s->p_type != PT_GNU_EH_FRAME)
			continue;
		*ret_va = s->p_vaddr;
		*ret_len = s->p_filesz;
		return in_file(e, s->p_offset, s->p_filesz);
	}
	return NULL;
}

const char *elf_build_id(const struct elf *e)
{
	return e->build_id;
}

const char *elf_debug_link(const struct elf *e)
{
	const Elf64_Shdr *s = section_find(e, ".gnu_debuglink");
	const uint8_t *name = s ? section_bytes(e, s) : NULL;
	if (!name || !memchr(name, 0, s->sh_size) || !*name || strchr((const char *)name, '/'))
		return NULL;
	return (const char *)name;
}

bool elf_has_symtab(const struct elf *e)
{
	vec_each(s, &e->sections) {
		if (s->sh_type == SHT_SYMTAB && s->sh_size)
			return true;
	}
	return false;
}

/* --- symbols --- */

static uint64_t unsized_reach(const struct elf *e, const Elf64_Sym *sym)
{
	const Elf64_Shdr *s = sym->st_shndx < e->sections.n ? &e->sections.v[sym->st_shndx] : NULL;
	uint64_t into = s ? sym->st_value - s->sh_addr : 0;
	return s && into < s->sh_size ? MIN(s->sh_size - into, (uint64_t)UNSIZED_MAX) : UNSIZED_MAX;
}

static void add_symbols(struct elf *into, const struct elf *from, const Elf64_Shdr *s)
{
	const uint8_t *bytes = section_bytes(from, s);
	if (!bytes)
		return;
	for (uint64_t at = 0; s->sh_size - at >= sizeof(Elf64_Sym) && into->n_looked_at < SYMBOLS_MAX;
	     at += sizeof(Elf64_Sym), into->n_looked_at++) {
		Elf64_Sym sym;
		memcpy(&sym, bytes + at, sizeof(sym));
		unsigned type = ELF64_ST_TYPE(sym.st_info);
		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !sym.st_value || sym.st_shndx == SHN_UNDEF)
			continue;
		const char *name = section_string(from, s->sh_link, sym.st_name);
		if (name && *name)
			vec_push(&into->symbols,
				 ((struct symbol){ sym.st_value, sym.st_size ? sym.st_size : unsized_reach(from, &sym),
						   name, !sym.st_size }));
	}
}

/* The stubs through which other files' functions are called have no names of their own: they are in the order of their
 * relocations. */
static void add_stubs(struct elf *e, const char *name, uint64_t header)
{
	const Elf64_Shdr *plt = section_find(e, name), *relocs = section_find(e, ".rela.plt");
	const uint8_t *bytes = relocs ? section_bytes(e, relocs) : NULL;
	if (!plt || !bytes || plt->sh_size < header || relocs->sh_link >= e->sections.n)
		return;
	const Elf64_Shdr *symbols = &e->sections.v[relocs->sh_link];
	const uint8_t *symbol_bytes = section_bytes(e, symbols);
	uint64_t n = MIN(relocs->sh_size / sizeof(Elf64_Rela), (plt->sh_size - header) / PLT_ENTRY);
	for (uint64_t i = 0; symbol_bytes && i < MIN(n, (uint64_t)PLT_MAX); i++) {
		Elf64_Rela r;
		Elf64_Sym sym;
		memcpy(&r, bytes + i * sizeof(r), sizeof(r));
		if (ELF64_R_SYM(r.r_info) >= symbols->sh_size / sizeof(sym))
			continue;
		memcpy(&sym, symbol_bytes + ELF64_R_SYM(r.r_info) * sizeof(sym), sizeof(sym));
		const char *its = section_string(e, symbols->sh_link, sym.st_name);
		if (its && *its)
			vec_push(
				&e->symbols,
				((struct symbol){ plt->sh_addr + header + i * PLT_ENTRY, PLT_ENTRY,
						  arena_printf(&e->made, "%.*s" ELF_STUB, PLT_NAME_MAX, its), false }));
	}
}

static void add_tables(struct elf *into, const struct elf *from)
{
	vec_each(s, &from->sections) {
		if (s->sh_type == SHT_SYMTAB || s->sh_type == SHT_DYNSYM)
			add_symbols(into, from, s);
	}
}

/* Debian and Fedora leave the names of static functions in a small packed ELF file inside. */
static void open_debugdata(struct elf *e)
{
	const Elf64_Shdr *s = section_find(e, ".gnu_debugdata");
	const uint8_t *packed = s ? section_bytes(e, s) : NULL;
	if (!packed)
		return;
	uint64_t memory = (uint64_t)256 << 20;
	size_t in = 0, out = 0, room = MIN((size_t)s->sh_size * 16 + 65536, DEBUGDATA_MAX);
	uint8_t *bytes = mem_alloc(room);
	lzma_ret rc = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &in, s->sh_size, bytes, &out, room);
	if (rc != LZMA_OK) {
		mem_free(bytes);
		return;
	}
	err_ignore(elf_from_bytes(bytes, out, &e->mini));
}

static int by_va(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	/* Of several names for one place the longest range, then a fixed choice that costs little. */
	return CMP(x->va, y->va) ?: CMP(y->size, x->size) ?: strncmp(x->name, y->name, 256);
}

static void read_symbols(struct elf *e, struct elf *more)
{
	e->symbols_read = true;
	if (more)
		add_tables(e, more);
	add_tables(e, e);
	add_stubs(e, ".plt", PLT_ENTRY);
	add_stubs(e, ".plt.sec", 0);
	if (!elf_has_symtab(e) && !more)
		open_debugdata(e);
	if (e->mini)
		add_tables(e, e->mini);
	vec_sort(&e->symbols, by_va);
	size_t n = 0;
	vec_each(s, &e->symbols) {
		if (!n || e->symbols.v[n - 1].va != s->va)
			e->symbols.v[n++] = *s;
	}
	e->symbols.n = n;
}

bool elf_shrunk(const struct elf *e)
{
	return filemap_shrunk(&e->file);
}

/* Names lie in the files, and one that was cut short may end anywhere. */
static const char *whole_name(const struct elf *e, const struct elf *more, const char *name)
{
	return *name && strnlen(name, NAME_BYTES_MAX) < NAME_BYTES_MAX && !elf_shrunk(e) && (!more || !elf_shrunk(more))
		       ? name
		       : NULL;
}

const char *elf_symbol(struct elf *e, struct elf *more, uint64_t va)
{
	if (!e->symbols_read)
		read_symbols(e, more);
	size_t low = 0, high = e->symbols.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (e->symbols.v[mid].va <= va)
			low = mid + 1;
		else
			high = mid;
	}
	/* A small function may lie inside the range of a large one: look back a little. */
	for (size_t i = low; i > 0 && low - i < 4; i--) {
		const struct symbol *s = &e->symbols.v[i - 1];
		if (va - s->va < s->size && (i == low || !s->unsized))
			return whole_name(e, more, s->name);
	}
	return NULL;
}
