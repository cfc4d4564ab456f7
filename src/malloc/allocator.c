#include "malloc/allocator.h"
#include "base/str.h"
#include <elf.h>
#include <string.h>

#define HEADERS_MAX 64
#define DYNAMIC_MAX 256
#define RELOCATIONS_MAX 65536
#define NAME "malloc"

/* What the dynamic section of a loaded file says; addresses of the process. */
struct malloc_bindings {
	uint64_t strings, symbols, plt, plt_bytes, rela, rela_bytes;
};

static const struct {
	const char *file;
	enum malloc_kind kind;
	const char *name;
} known[] = {
	{ "libc.so.6", MALLOC_GLIBC, "glibc" },		{ "libc-2.", MALLOC_GLIBC, "glibc" },
	{ "libjemalloc", MALLOC_JEMALLOC, "jemalloc" }, { "libmimalloc", MALLOC_MIMALLOC, "mimalloc" },
	{ "libtcmalloc", MALLOC_TCMALLOC, "tcmalloc" }, { "ld-musl-", MALLOC_MUSL, "musl" },
	{ "libc.musl-", MALLOC_MUSL, "musl" },
};

static bool find_dynamic(const struct image *img, const struct image_module *m, Elf64_Phdr *ret, uint64_t *ret_bias)
{
	Elf64_Ehdr head;
	Elf64_Phdr h;
	bool loads = false, found = false;
	if (!image_read_all(img, m->base, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(h) || head.e_phnum > HEADERS_MAX)
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		if (!image_read_all(img, m->base + head.e_phoff + i * sizeof(h), &h, sizeof(h)))
			return false;
		if (h.p_type == PT_LOAD && !loads) {
			*ret_bias = m->base - (h.p_vaddr - h.p_offset);
			loads = true;
		} else if (h.p_type == PT_DYNAMIC) {
			*ret = h;
			found = true;
		}
	}
	return loads && found;
}

static bool read_bindings(const struct image *img, const struct image_module *m, struct malloc_bindings *d,
			  uint64_t *ret_bias)
{
	Elf64_Phdr h = { 0 };
	if (!find_dynamic(img, m, &h, ret_bias))
		return false;
	/* glibc writes the real addresses into the section, others leave those of the file. */
	for (unsigned i = 0; i < DYNAMIC_MAX && (uint64_t)i * sizeof(Elf64_Dyn) < h.p_memsz; i++) {
		Elf64_Dyn e;
		if (!image_read_all(img, *ret_bias + h.p_vaddr + i * sizeof(e), &e, sizeof(e)) || e.d_tag == DT_NULL)
			break;
		uint64_t at = e.d_un.d_ptr < m->base ? *ret_bias + e.d_un.d_ptr : e.d_un.d_ptr;
		switch (e.d_tag) {
		case DT_STRTAB:
			d->strings = at;
			break;
		case DT_SYMTAB:
			d->symbols = at;
			break;
		case DT_JMPREL:
			d->plt = at;
			break;
		case DT_PLTRELSZ:
			d->plt_bytes = e.d_un.d_val;
			break;
		case DT_RELA:
			d->rela = at;
			break;
		case DT_RELASZ:
			d->rela_bytes = e.d_un.d_val;
			break;
		}
	}
	return d->strings && d->symbols;
}

/* The word that a relocation of `malloc` in this table has filled in; 0 = there is none. */
static uint64_t bound_in(const struct image *img, const struct malloc_bindings *d, uint64_t bias, uint64_t table,
			 uint64_t bytes)
{
	uint64_t n = table ? MIN(bytes / sizeof(Elf64_Rela), (uint64_t)RELOCATIONS_MAX) : 0, value;
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Rela r;
		Elf64_Sym symbol;
		char name[sizeof(NAME)];
		if (!image_read_all(img, table + i * sizeof(r), &r, sizeof(r)))
			return 0;
		if (ELF64_R_TYPE(r.r_info) != R_X86_64_JUMP_SLOT && ELF64_R_TYPE(r.r_info) != R_X86_64_GLOB_DAT)
			continue;
		if (image_read_all(img, d->symbols + ELF64_R_SYM(r.r_info) * sizeof(symbol), &symbol, sizeof(symbol)) &&
		    image_read_all(img, d->strings + symbol.st_name, name, sizeof(name)) &&
		    !memcmp(name, NAME, sizeof(NAME)))
			return image_read_all(img, bias + r.r_offset, &value, sizeof(value)) ? value : 0;
	}
	return 0;
}

static uint64_t bound(const struct image *img, const struct image_module *m)
{
	struct malloc_bindings d = { 0 };
	uint64_t bias = 0;
	if (!read_bindings(img, m, &d, &bias))
		return 0;
	return bound_in(img, &d, bias, d.plt, d.plt_bytes) ?: bound_in(img, &d, bias, d.rela, d.rela_bytes);
}

struct malloc_allocator malloc_allocator_of(const struct image *img, const char *const *libraries)
{
	struct malloc_allocator a = { 0 };
	for (; *libraries && !*a.file; libraries++) {
		const struct image_module *m = image_module_named(img, *libraries);
		uint64_t to = m ? bound(img, m) : 0;
		const struct image_mapping *in = to ? image_mapping_at(img, to) : NULL;
		/* Not bound yet: the word leads back into the library's own table of jumps. */
		if (!in || in->path[0] != '/' || (to >= m->base && to < m->end))
			continue;
		str_copy(a.file, sizeof(a.file), strrchr(in->path, '/') + 1);
	}
	a.kind = *a.file ? MALLOC_OTHER : MALLOC_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(known) && a.kind == MALLOC_OTHER; i++)
		if (str_starts(a.file, known[i].file))
			a.kind = known[i].kind;
	return a;
}

const char *malloc_allocator_name(const struct malloc_allocator *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].kind == a->kind)
			return known[i].name;
	return a->file;
}
