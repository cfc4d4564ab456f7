#include "target/program.h"
#include <elf.h>
#include <string.h>
#include <unistd.h>

#define SEGMENTS_MAX 64
#define DYNAMIC_MAX 256
/* Programs with a runtime inside export few names. */
#define NAMES_MAX ((uint64_t)1 << 20)

struct target_program {
	int fd;
	size_t n;
	Elf64_Phdr segments[SEGMENTS_MAX];
};

static bool read_at(int fd, void *data, size_t len, uint64_t offset)
{
	if (offset > INT64_MAX)
		return false;
	return pread(fd, data, len, (off_t)offset) == (ssize_t)len;
}

static bool read_segments(struct target_program *p)
{
	Elf64_Ehdr head;
	if (!read_at(p->fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > SEGMENTS_MAX)
		return false;
	p->n = head.e_phnum;
	return read_at(p->fd, p->segments, p->n * sizeof(Elf64_Phdr), head.e_phoff);
}

/* Where in the file the memory at that address comes from; false when it does not. */
static bool file_offset(const struct target_program *p, uint64_t address, uint64_t len, uint64_t *ret)
{
	for (size_t i = 0; i < p->n; i++) {
		const Elf64_Phdr *s = &p->segments[i];
		if (s->p_type != PT_LOAD || address < s->p_vaddr || address - s->p_vaddr > s->p_filesz ||
		    len > s->p_filesz - (address - s->p_vaddr))
			continue;
		return !__builtin_add_overflow(s->p_offset, address - s->p_vaddr, ret);
	}
	return false;
}

/* The names of dynamic symbols: what the loader reads, so it is in memory already, and no strip removes it. */
static bool find_names(const struct target_program *p, uint64_t *ret_offset, uint64_t *ret_len)
{
	Elf64_Dyn entries[DYNAMIC_MAX];
	uint64_t address = 0, len = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (p->segments[i].p_type != PT_DYNAMIC)
			continue;
		size_t n = MIN(p->segments[i].p_filesz / sizeof(Elf64_Dyn), (uint64_t)DYNAMIC_MAX);
		if (!read_at(p->fd, entries, n * sizeof(Elf64_Dyn), p->segments[i].p_offset))
			return false;
		for (size_t k = 0; k < n && entries[k].d_tag != DT_NULL; k++) {
			if (entries[k].d_tag == DT_STRTAB)
				address = entries[k].d_un.d_ptr;
			if (entries[k].d_tag == DT_STRSZ)
				len = entries[k].d_un.d_val;
		}
		break;
	}
	*ret_len = len;
	return len && len <= NAMES_MAX && file_offset(p, address, len, ret_offset);
}

/* A whole string of the table: NUL before and behind. */
static bool has_name(const char *names, size_t len, const char *name)
{
	size_t n = strlen(name) + 1;
	for (const char *p = names, *end = names + len; (p = memmem(p, (size_t)(end - p), name, n)); p++)
		if (p == names || !p[-1])
			return true;
	return false;
}

enum program_runtime program_runtime(int fd)
{
	struct target_program p = { .fd = fd };
	uint64_t offset, len;
	if (!read_segments(&p) || !find_names(&p, &offset, &len))
		return PROGRAM_RUNTIME_NONE;
	CLEANUP(mem_freep) char *names = mem_alloc(len);
	if (!read_at(fd, names, len, offset))
		return PROGRAM_RUNTIME_NONE;
	if (has_name(names, len, "DotNetRuntimeInfo"))
		return PROGRAM_RUNTIME_CORECLR;
	if (has_name(names, len, "DotNetRuntimeDebugHeader"))
		return PROGRAM_RUNTIME_AOT;
	return PROGRAM_RUNTIME_NONE;
}
